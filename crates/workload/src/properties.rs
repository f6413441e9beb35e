//! The scheduling properties that threads and phases request, those that they have in common stored once.

use runyard_engine::attr::{Attr, Cookie, GroupId, LatencyNice, Policy, Slice};
use runyard_engine::cpu::CpuSet;
use runyard_engine::task::Update;
use runyard_engine::time::Nanos;
use runyard_engine::timer::DEFAULT_SLACK;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

/// The scheduling properties that a thread or a phase requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// The CPUs on which it may run.
    pub cpus: Option<CpuSet>,
    /// The policy, with the priority or nice value in force there.
    pub policy: Option<Policy>,
    /// The task group.
    pub group: Option<GroupId>,
    /// The timer slack; real-time tasks have none in any case.
    pub slack: Option<Nanos>,
    /// The latency nice, which has an effect while the task is fair.
    pub latency_nice: Option<LatencyNice>,
    /// The slice, which has an effect while the task is fair and the feature `EEVDF` is on.
    pub slice: Option<Slice>,
    /// A cookie of its own.
    pub cookie: Update<Cookie>,
    /// The SCHED_DEADLINE reservation, for a host that has the policy. `policy` is then the nearest one: SCHED_FIFO of
    /// the highest priority.
    pub reservation: Option<Reservation>,
}

/// The guarantee of SCHED_DEADLINE: an amount of CPU time in each period, within a deadline after the period's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The CPU time.
    pub runtime: Nanos,
    /// The time after the period's begin by which the task must have it.
    pub deadline: Nanos,
    /// The period.
    pub period: Nanos,
}

impl Properties {
    /// Replaces the attributes that these properties give.
    pub fn replace(&self, asked: &mut TaskAttr) {
        asked.slack = self.slack.unwrap_or(asked.slack);
        let attr = &mut asked.attr;
        if let Some(cpus) = &self.cpus {
            attr.affinity = cpus.clone();
        }
        attr.policy = self.policy.unwrap_or(attr.policy);
        attr.group = self.group.unwrap_or(attr.group);
        attr.latency_nice = self.latency_nice.unwrap_or(attr.latency_nice);
        attr.slice = self.slice.or(attr.slice);
        attr.cookie = self.cookie.applied_to(attr.cookie);
    }

    /// Returns the reservation after these properties, where it was `old` before. A new policy replaces it.
    pub(crate) fn reserved(&self, old: Option<Reservation>) -> Option<Reservation> {
        if self.policy.is_some() { self.reservation } else { old }
    }
}

/// The attributes of a task, with the one that is for its host alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskAttr {
    /// The attributes that the scheduler knows.
    pub attr: Attr,
    /// How much later than requested its timers may expire while it is fair. The host gives it to each timer.
    pub slack: Nanos,
}

impl TaskAttr {
    /// Returns SCHED_OTHER at nice 0 in the root group, with the default slack, on all of `cpus`.
    #[must_use]
    pub fn normal(cpus: CpuSet) -> TaskAttr {
        TaskAttr { attr: Attr::normal(cpus), slack: DEFAULT_SLACK }
    }

    /// Returns the slack that applies: a real-time task has no slack, whatever it requests.
    #[must_use]
    pub fn effective_slack(&self) -> Nanos {
        self.policy.class().slack(self.slack)
    }
}

impl Deref for TaskAttr {
    type Target = Attr;

    fn deref(&self) -> &Attr {
        &self.attr
    }
}

/// The [`Properties`] of a thread or a phase. Many request the same ones; a clone takes no memory until it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedProperties(Arc<Properties>);

/// No property is requested.
impl Default for SharedProperties {
    fn default() -> SharedProperties {
        static NOTHING: LazyLock<SharedProperties> = LazyLock::new(|| Properties::default().into());
        NOTHING.clone()
    }
}

impl From<Properties> for SharedProperties {
    fn from(properties: Properties) -> SharedProperties {
        SharedProperties(Arc::new(properties))
    }
}

impl Deref for SharedProperties {
    type Target = Properties;

    fn deref(&self) -> &Properties {
        &self.0
    }
}

impl DerefMut for SharedProperties {
    fn deref_mut(&mut self) -> &mut Properties {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_ones_own() {
        let one = SharedProperties::default();
        let mut other = one.clone();
        assert!(Arc::ptr_eq(&one.0, &other.0));
        other.slack = Some(Nanos(1));
        assert_eq!((one.slack, other.slack), (None, Some(Nanos(1))));
    }
}
