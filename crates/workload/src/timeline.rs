//! The changes that a scenario makes at given times of the run.

use crate::ids::SpecId;
use crate::properties::SharedProperties;
use runyard_engine::attr::{GroupId, Policy, Weight};
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;

/// A change at a time of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The time since the begin of the run.
    pub at: Nanos,
    /// The change.
    pub change: TimedChange,
}

/// A change of the machine, of a task group, or of the tasks of a thread object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimedChange {
    /// A CPU goes online or offline.
    Cpu {
        /// The CPU.
        cpu: CpuId,
        /// Whether the CPU goes online.
        online: bool,
    },
    /// A task group has another weight or limit.
    Group {
        /// The group, which is not the root.
        group: GroupId,
        /// The new attributes.
        change: GroupChange,
    },
    /// All tasks of a thread object that exist at that time have other attributes.
    Task {
        /// The thread object.
        task: SpecId,
        /// The new attributes: policy, CPUs, latency nice and slice.
        properties: SharedProperties,
    },
    /// The instances of a thread object begin.
    Start(SpecId),
    /// All tasks of a thread object end.
    Stop(SpecId),
}

/// New attributes of a task group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// The new weight, if the weight changes.
    pub weight: Option<Weight>,
    /// The new limit, or none, if the limit changes.
    pub limit: Option<Option<Limit>>,
}

impl TimedChange {
    /// Returns the thread object that the change starts or stops, and whether the change starts it.
    #[must_use]
    pub fn starts_or_stops(&self) -> Option<(SpecId, bool)> {
        match self {
            TimedChange::Start(task) => Some((*task, true)),
            TimedChange::Stop(task) => Some((*task, false)),
            _ => None,
        }
    }

    /// Returns the change in words. `task` and `group` return names.
    pub(crate) fn in_words<'n>(
        &self,
        task: impl Fn(SpecId) -> &'n str,
        group: impl Fn(GroupId) -> &'n str,
    ) -> String {
        match self {
            TimedChange::Cpu { cpu, online } => {
                format!("CPU {cpu} {}", if *online { "online" } else { "offline" })
            }
            TimedChange::Group { group: of, change } => {
                format!("{}: {}", group(*of), change.in_words())
            }
            TimedChange::Task { task: of, properties } => {
                let mut parts = Vec::new();
                parts.extend(properties.policy.map(policy_in_words));
                parts.extend(properties.cpus.as_ref().map(|cpus| format!("CPUs {cpus}")));
                let latency = properties.latency_nice;
                parts.extend(latency.map(|value| format!("latency nice {}", value.get())));
                let slice = properties.slice;
                parts.extend(slice.map(|slice| format!("slice {} us", slice.get().0 / 1_000)));
                format!("{}: {}", task(*of), parts.join(", "))
            }
            TimedChange::Start(of) => format!("start {}", task(*of)),
            TimedChange::Stop(of) => format!("stop {}", task(*of)),
        }
    }
}

impl GroupChange {
    fn in_words(self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.weight.map(|weight| format!("weight {}", weight.get())));
        parts.extend(self.limit.map(|limit| match limit {
            None => "no limit".to_owned(),
            Some(limit) => {
                let [runtime, period] = [limit.runtime(), limit.period()].map(|it| it.0 / 1_000);
                format!("{runtime} us in {period} us")
            }
        }));
        parts.join(", ")
    }
}

fn policy_in_words(policy: Policy) -> String {
    match policy {
        Policy::Idle => policy.to_string(),
        _ => format!("{policy} {}", policy.priority()),
    }
}
