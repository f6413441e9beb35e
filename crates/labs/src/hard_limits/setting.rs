//! The columns of the document's tables, and its limit.

use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_workload::Scenario;

/// The index of the task group in the shipped scenarios, after the root.
pub(super) const LIMITED: usize = 1;

/// The number of CPUs of the document's machine.
pub(super) const CPUS: u32 = 24;

/// The number of runs of `--soak`, for each experiment.
pub(super) const SOAK_RUNS: u64 = 10;

/// The document's `BW=450000/500000`, in us on each CPU. The shipped scenarios have it too.
pub(super) const RUNTIME: Nanos = Nanos::from_millis(450);
pub(super) const PERIOD: Nanos = Nanos::from_millis(500);

/// A column of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// `CFS_HARD_LIMITS=n`. The task group has a limit without an effect.
    Off,
    /// `CFS_HARD_LIMITS=y`, infinite runtime.
    Unlimited,
    /// `CFS_HARD_LIMITS=y`, BW=450000/500000.
    Limited,
}

impl Setting {
    pub(super) const ALL: [Setting; 3] = [Setting::Off, Setting::Unlimited, Setting::Limited];

    /// Applies the setting to a scenario whose tasks are in the group.
    pub(super) fn apply(self, scenario: &mut Scenario) {
        let all = Model::default();
        let (model, limit) = match self {
            Setting::Off => (Experiment::HardLimits.before(), Some(documents())),
            Setting::Unlimited => (all, None),
            Setting::Limited => (all, Some(documents())),
        };
        scenario.use_model(model);
        scenario.groups[LIMITED].spec.limit = limit;
    }
}

/// The document's limit.
pub(super) fn documents() -> Limit {
    Limit::new(RUNTIME, PERIOD, Nanos::ZERO, true).expect("the kernel takes it")
}

/// The earliest time at which a group with the limit can have used so much.
pub(super) fn earliest(used: Nanos) -> Nanos {
    let runtime = RUNTIME.0 * u64::from(CPUS);
    let (periods, rest) = (used.0 / runtime, used.0 % runtime);
    Nanos(periods * PERIOD.0 + rest / u64::from(CPUS))
}

/// The latest claimed end of a run that takes `free` without a limit: its time with nine tenths of the CPUs, and one
/// period that may have just run out at the end.
pub(super) fn latest(free: Nanos) -> Nanos {
    Nanos(free.0 * PERIOD.0 / RUNTIME.0) + PERIOD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_end_is_the_limits_and_the_latest_a_period_after_nine_tenths() {
        let second = Nanos::from_secs(1);
        // 10.8 CPU seconds a period, all of them at its beginning.
        assert_eq!(earliest(Nanos(10_800 * 1_000_000)), PERIOD);
        assert_eq!(earliest(Nanos(24_000 * 1_000_000)), Nanos::from_millis(1_100));
        assert_eq!(latest(Nanos(second.0 * 9)), Nanos::from_millis(10_500));
    }
}
