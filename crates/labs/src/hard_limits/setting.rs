//! The columns of the document's tables, and its limit.

use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_workload::{Overrides, Scenario, parse};

/// The place of the task group in the shipped scenarios, behind the root.
pub(super) const LIMITED: usize = 1;

/// How many CPUs the document's machine has.
pub(super) const CPUS: u32 = 24;

/// The document's `BW=450000/500000`, us on each CPU, which the shipped scenarios have too.
const RUNTIME: Nanos = Nanos::from_millis(450);
pub(super) const PERIOD: Nanos = Nanos::from_millis(500);

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// `CFS_HARD_LIMITS=n`. The task group has a limit, to which nobody holds it.
    Off,
    /// `CFS_HARD_LIMITS=y`, infinite runtime.
    Unlimited,
    /// `CFS_HARD_LIMITS=y`, BW=450000/500000.
    Limited,
}

impl Setting {
    pub(super) const ALL: [Setting; 3] = [Setting::Off, Setting::Unlimited, Setting::Limited];

    /// Makes it that of a scenario whose tasks are in the group.
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

/// When a group that is held to the limit can have used so much at the earliest.
pub(super) fn earliest(used: Nanos) -> Nanos {
    let runtime = RUNTIME.0 * u64::from(CPUS);
    let (periods, rest) = (used.0 / runtime, used.0 % runtime);
    Nanos(periods * PERIOD.0 + rest / u64::from(CPUS))
}

/// The latest that is claimed for what takes `free` without a limit: what nine tenths of the CPUs take
/// for it, and the period that may have just run out at the end.
pub(super) fn latest(free: Nanos) -> Nanos {
    Nanos(free.0 * PERIOD.0 / RUNTIME.0) + PERIOD
}

/// A scenario as it is shipped.
pub(super) fn shipped(name: &str, text: &str) -> Scenario {
    let parsed = parse(name, text, &Overrides::default());
    parsed.expect("the scenario that comes with the program is right").scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_end_is_the_limits_and_the_latest_a_period_after_nine_tenths() {
        let second = Nanos::from_secs(1);
        // 10.8 CPU seconds a period, all of them at once at its beginning.
        assert_eq!(earliest(Nanos(10_800 * 1_000_000)), PERIOD);
        assert_eq!(earliest(Nanos(24_000 * 1_000_000)), Nanos::from_millis(1_100));
        assert_eq!(latest(Nanos(second.0 * 9)), Nanos::from_millis(10_500));
    }
}
