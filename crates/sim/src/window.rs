//! The part of a run that its report counts. What the machine counts over the whole run is noted where that part begins, and
//! taken off at the end.
//!
//! The calendar has no event for it, since each entry takes a draw: the same scenario runs the same with any part.

use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::{Usage, UsageOnCpu};
use runyard_engine::time::{Nanos, Time};
use std::collections::BTreeMap;

/// The beginning of the part that counts, and the counts until then.
#[derive(Debug)]
pub(crate) struct Window {
    /// The beginning; [`Time::MAX`] if it is over, or is that of the run.
    pub(crate) opens: Time,
    missed: Vec<u64>,
    limits: BTreeMap<GroupId, Limited>,
}

/// The effect of a group's limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// The total over all CPUs.
    pub usage: Usage,
    /// The part of each CPU on which the group was.
    pub on: Vec<(CpuId, UsageOnCpu)>,
}

impl Window {
    pub(crate) fn new(from: Nanos) -> Window {
        let opens = if from == Nanos::ZERO { Time::MAX } else { Time::ZERO + from };
        Window { opens, missed: Vec::new(), limits: BTreeMap::new() }
    }

    /// The part that has begun, after these counts.
    pub(crate) fn open(missed: Vec<u64>, limits: BTreeMap<GroupId, Limited>) -> Window {
        Window { opens: Time::MAX, missed, limits }
    }

    /// The periods that a task missed before.
    pub(crate) fn missed_before(&self, task: usize) -> u64 {
        self.missed.get(task).copied().unwrap_or(0)
    }

    /// The effects of limits without those before.
    pub(crate) fn limits_within(
        &self,
        mut limits: BTreeMap<GroupId, Limited>,
    ) -> BTreeMap<GroupId, Limited> {
        for (group, before) in &self.limits {
            limits.entry(*group).and_modify(|all| all.take_off(before));
        }
        limits
    }
}

impl Limited {
    /// Takes off what was there before.
    fn take_off(&mut self, before: &Limited) {
        let (all, past) = (self.usage, before.usage);
        self.usage = Usage {
            nr_periods: all.nr_periods - past.nr_periods,
            nr_throttled: all.nr_throttled - past.nr_throttled,
            throttled: all.throttled - past.throttled,
            nr_bursts: all.nr_bursts - past.nr_bursts,
            burst: all.burst - past.burst,
            borrowed: all.borrowed - past.borrowed,
        };
        for (cpu, on) in &mut self.on {
            let past = before.on.iter().find(|(other, _)| other == cpu);
            let (all, past) = (*on, past.map_or(UsageOnCpu::default(), |(_, past)| *past));
            *on = UsageOnCpu {
                used: all.used - past.used,
                nr_throttled: all.nr_throttled - past.nr_throttled,
                throttled: all.throttled - past.throttled,
                borrowed: all.borrowed - past.borrowed,
            };
        }
    }
}
