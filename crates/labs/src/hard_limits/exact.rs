//! The effect of a limit: the group gets exactly its budget, on any CPUs, at each level of task groups.
//!
//! The document has no figures for this. A group that can use its whole budget uses it, to one per cent over ten
//! seconds. Before, with a feature switched off, it gets the amount that is due to it then.

use crate::claims::{Claim, ClaimVerdict};
use crate::figure::{percent, rounded};
use crate::usage::{SECOND, Usage, Used, Window};
use crate::virtual_time::{self, simulate};
use runyard_engine::features::{Feature, Features};
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_workload::Scenario;

/// The largest difference between a figure and the due amount, as a fraction of that amount.
const MAX_DIFFERENCE: f64 = 0.01;

/// The counted time: ten seconds, after one second in which the tasks settle. Both are whole periods of each limit
/// here.
pub(super) const WINDOW: Window = Window::of_seconds(SECOND, 10);

/// A machine with task groups of hogs. Some of the groups are limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    name: &'static str,
    cpus: u32,
    /// The feature that is off before.
    without: Feature,
    /// The groups, in the language of scenarios.
    groups: &'static str,
    hogs: &'static [Hogs],
    /// Whether the use in each period is checked as well. The groups' own periods begin up to a sixteenth later than
    /// the counted periods. For hogs this makes no difference: they use their budget at the beginning of each period.
    each_period: bool,
}

/// A group, the number of its hogs, and the due amount of the machine, in CPUs, before and after.
type Hogs = (&'static str, u32, [f64; 2]);

/// The runs without the feature and with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    before: Used,
    after: Used,
}

/// A group whose budget its children use, with two children.
const HALF_WITH_20_AND_60: &str = "
    '/half': {'runtime': 50000, 'period': 100000},
    '/half/20': {'runtime': 20000, 'period': 100000}, '/half/60': {'runtime': 60000, 'period': 100000}";

const LIMITS: Case = Case {
    name: "",
    cpus: 24,
    without: Feature::HardLimits,
    groups: "",
    hogs: &[],
    each_period: false,
};

/// All cases.
pub(super) const CASES: [Case; 9] = [
    Case {
        name: "48 hogs, 450 of 500 ms on each of 24 CPUs",
        groups: "'/limited': {'runtime': 450000, 'period': 500000, 'per_cpu': true}",
        hogs: &[("/limited", 48, [24.0, 21.6])],
        each_period: true,
        ..LIMITS
    },
    Case {
        name: "7 hogs, 90 of 100 ms on 24 CPUs",
        groups: "'/limited': {'runtime': 90000, 'period': 100000}",
        hogs: &[("/limited", 7, [7.0, 0.9])],
        each_period: true,
        ..LIMITS
    },
    Case {
        name: "1 hog, 10 of 100 ms on each of 24 CPUs, borrowing",
        without: Feature::RuntimeShare,
        groups: "'/limited': {'runtime': 10000, 'period': 100000, 'per_cpu': true}",
        hogs: &[("/limited", 1, [0.1, 1.0])],
        ..LIMITS
    },
    Case {
        name: "60 % below 50 %",
        groups: "
    '/half': {'runtime': 50000, 'period': 100000}, '/half/60': {'runtime': 60000, 'period': 100000}",
        hogs: &[("/half/60", 1, [1.0, 0.5])],
        ..LIMITS
    },
    Case {
        name: "two of 40 % below 50 %",
        groups: "
    '/half': {'runtime': 50000, 'period': 100000},
    '/half/one': {'runtime': 40000, 'period': 100000}, '/half/other': {'runtime': 40000, 'period': 100000}",
        hogs: &[("/half/one", 1, [1.0, 0.25]), ("/half/other", 1, [1.0, 0.25])],
        ..LIMITS
    },
    Case {
        name: "20 % beside 60 % below 50 %",
        groups: HALF_WITH_20_AND_60,
        hogs: &[("/half/20", 1, [1.0, 0.2]), ("/half/60", 1, [1.0, 0.3])],
        ..LIMITS
    },
    Case {
        name: "20 % beside 60 % below 50 %, all on one CPU",
        cpus: 1,
        groups: HALF_WITH_20_AND_60,
        hogs: &[("/half/20", 1, [0.5, 0.2]), ("/half/60", 1, [0.5, 0.3])],
        ..LIMITS
    },
    Case {
        name: "1 hog, 90 of 100 ms on 256 CPUs",
        cpus: 256,
        groups: "'/limited': {'runtime': 90000, 'period': 100000}",
        hogs: &[("/limited", 1, [1.0, 0.9])],
        each_period: true,
        ..LIMITS
    },
    Case {
        name: "1 hog, 1 ms of 1 s on each of 256 CPUs, borrowing",
        cpus: 256,
        without: Feature::RuntimeShare,
        groups: "'/limited': {'runtime': 1000, 'period': 1000000, 'per_cpu': true}",
        hogs: &[("/limited", 1, [0.001, 0.256])],
        each_period: true,
    },
];

impl Case {
    pub(super) fn pair(&self, seed: u64, done: impl Fn() + Sync) -> Result<Pair, Failure> {
        let features = Features::default();
        let run = |features| self.run(features, seed).inspect(|_| done());
        let (before, after) = rayon::join(|| run(features.without(self.without)), || run(features));
        Ok(Pair { before: before?, after: after? })
    }

    /// The run without its feature, as before and after.
    pub(super) fn without(&self, seed: u64) -> Result<Pair, Failure> {
        let before = self.run(Features::default().without(self.without), seed)?;
        Ok(Pair { after: before.clone(), before })
    }

    /// Whether its machine is the document's, or smaller.
    pub(super) fn is_small(&self) -> bool {
        self.cpus <= super::setting::CPUS
    }

    fn run(&self, features: Features, seed: u64) -> Result<Used, Failure> {
        let mut scenario = self.scenario()?;
        scenario.features = features;
        meter(&scenario, seed)
    }

    fn scenario(&self) -> Result<Scenario, Failure> {
        of_hogs(self.cpus, self.groups, self.hogs.iter().map(|&(group, hogs, _)| (group, hogs)))
    }

    pub(super) fn claims(&self, Pair { before, after }: &Pair) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut first = 0;
        for &(group, hogs, due) in self.hogs {
            let tasks = first..first + hogs as usize;
            first = tasks.end;
            let had = [before, after].map(|used| cpus(used.of(tasks.clone())));
            let so = had.iter().zip(due).all(|(&had, due)| near(had, due));
            let what = format!("{}: {group} has", self.name);
            claims.push(claim(what, "CPUs", had.map(|had| Some(rounded(had, 4))), so));
        }
        if self.each_period {
            let budget = budget(&self.scenario().expect("the case is right"));
            let most = after.most().0 as f64 / budget.0 as f64;
            let what = format!("{}: the most in a period", self.name);
            let figures = [None, Some(percent(most))];
            claims.push(claim(what, "% of the runtime", figures, most <= 1.0 + MAX_DIFFERENCE));
        }
        claims
    }
}

/// A claim that holds on any machine: the tasks of a limited group, and the amount due to them, in CPUs.
pub(super) struct Held {
    pub(super) what: &'static str,
    pub(super) tasks: std::ops::Range<usize>,
    pub(super) due: f64,
}

/// The claims about [`scenario_of`].
pub(super) const HELD: [Held; 2] = [
    Held { what: "30 of 100 ms", tasks: 0..2, due: 0.3 },
    Held { what: "40 of 100 ms below 20", tasks: 2..4, due: 0.2 },
];

/// Two hogs in a limited task group, two hogs in a group that its parent limits, and one hog without a limit for each
/// CPU.
pub(super) fn scenario_of(cpus: u32) -> Result<Scenario, Failure> {
    let groups = "
        '/held': {'runtime': 20000, 'period': 100000}, '/held/more': {'runtime': 40000, 'period': 100000},
        '/limited': {'runtime': 30000, 'period': 100000}, '/free': {}";
    of_hogs(cpus, groups, [("/limited", 2), ("/held/more", 2), ("/free", cpus)].into_iter())
}

/// A scenario with these groups, and with so many hogs in some of them.
fn of_hogs<'g>(
    cpus: u32,
    groups: &str,
    hogs: impl Iterator<Item = (&'g str, u32)>,
) -> Result<Scenario, Failure> {
    let hogs = hogs.enumerate().map(|(nth, (group, hogs))| {
        format!("'hog-of-{nth}': {{'instance': {hogs}, 'group': '{group}', 'run': 1000}}, ")
    });
    of_tasks(cpus, groups, &hogs.collect::<String>())
}

/// A scenario with these groups and tasks.
fn of_tasks(cpus: u32, groups: &str, tasks: &str) -> Result<Scenario, Failure> {
    let machine =
        format!("{{'cpus': {cpus}, 'kernel': '6.1 + founding', 'costs': {{'jitter_ns': 0}}}}");
    let text = format!(
        "{{'machine': {machine}, 'global': {{'duration': 11}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}"
    );
    virtual_time::scenario("limits.json", &text)
}

/// Runs `scenario` for the counted time, in periods of its first limit.
pub(super) fn meter(scenario: &Scenario, seed: u64) -> Result<Used, Failure> {
    let period = limit(scenario).period();
    let mut usage = Usage::new(WINDOW, period, scenario.machine.topology.cpus());
    let end = simulate(scenario, seed, &mut usage)?.end;
    Ok(usage.finish(end))
}

/// The first limit of a scenario.
fn limit(scenario: &Scenario) -> Limit {
    let mut limits = scenario.groups.iter().filter_map(|group| group.spec.limit);
    limits.next().expect("a group is limited")
}

/// The budget of the first limit in a period, over all CPUs.
fn budget(scenario: &Scenario) -> Nanos {
    let limit = limit(scenario);
    let times = if limit.is_per_cpu() { scenario.machine.topology.cpus() as u64 } else { 1 };
    Nanos(limit.runtime().0 * times)
}

/// A task group that wants most of its budget, in short pieces on many CPUs, and all of it in no period: 48 tasks of 1
/// ms every 10 ms. Each may begin eleven times in 100 ms.
const BELOW: [&str; 2] = [
    "'/limited': {'runtime': 530000, 'period': 100000}",
    "'task': {'instance': 48, 'group': '/limited', 'delay': {'uniform': [0, 10000]},
              'timer': {'ref': 'unique', 'period': 10000, 'mode': 'absolute'}, 'run': 1000}",
];
const BUDGET_BELOW: Nanos = Nanos::from_millis(530);

/// Runs such a group. It is never throttled: the budget that one CPU drew returns to the other CPUs when the group
/// leaves that CPU.
pub(super) fn below(seed: u64) -> Result<Used, Failure> {
    let [groups, tasks] = BELOW;
    meter(&of_tasks(24, groups, tasks)?, seed)
}

pub(super) fn below_claims(used: &Used) -> [Claim; 2] {
    let what = |what: &str| format!("48 periodic tasks, never more than 530 of 100 ms: {what}");
    let used_up = used.most() >= BUDGET_BELOW;
    let had = cpus(used.total());
    let (throttled, has) = (used.throttled, [None, Some(rounded(had, 4))]);
    let never = throttled == 0 && !used_up;
    [
        claim(what("throttled"), "times", [None, Some(throttled as f64)], never),
        claim(what("have"), "CPUs", has, near(had, 4.8)),
    ]
}

fn claim(what: String, unit: &str, figures: [Option<f64>; 2], so: bool) -> Claim {
    Claim::of(what, unit, figures, ClaimVerdict::of(so))
}

/// Whether tasks had the amount that is due to them.
pub(super) fn near(had: f64, due: f64) -> bool {
    (had - due).abs() <= due * MAX_DIFFERENCE
}

/// The time as a number of CPUs over the whole window.
pub(super) fn cpus(used: Nanos) -> f64 {
    used.0 as f64 / WINDOW.span().0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::tests::failed_after;
    use runyard_engine::time::Time;

    /// A use of these fractions of the CPUs for ten seconds, by one task each.
    fn used(parts: &[f64], period: Nanos) -> Used {
        use runyard_engine::attr::Policy;
        use runyard_engine::cpu::CpuId;
        use runyard_engine::event::{Event, What};
        use runyard_engine::task::TaskId;
        let mut usage = Usage::new(WINDOW, period, parts.len());
        for begin in (WINDOW.from.0..WINDOW.end.0).step_by(1_000_000) {
            for (nth, part) in parts.iter().enumerate() {
                let (cpu, task) = (CpuId::at(nth), TaskId(nth as u64));
                let exec = What::Exec { task, policy: Policy::Idle };
                let mut tell = |at, what| {
                    runyard_sim::Observer::event(&mut &mut usage, &Event { at, cpu, what });
                };
                tell(Time(begin), exec);
                tell(Time(begin + (part * 1e6) as u64), What::Idle);
            }
        }
        usage.finish(WINDOW.end)
    }

    /// The claims of the case that fail.
    fn failed(case: &Case, before: &[f64], after: &[f64]) -> Vec<String> {
        let period = limit(&case.scenario().unwrap()).period();
        let pair = Pair { before: used(before, period), after: used(after, period) };
        failed_after(": ", case.claims(&pair))
    }

    #[test]
    fn a_group_has_what_is_due_to_one_per_cent_before_and_after() {
        let hog = &CASES[7];
        assert_eq!(failed(hog, &[0.991], &[0.892]), [""; 0]);
        assert_eq!(failed(hog, &[1.0], &[0.89]), ["/limited has"]);
        assert_eq!(failed(hog, &[0.9], &[0.9]), ["/limited has"]);
        let all = ["/limited has", "the most in a period"];
        assert_eq!(failed(hog, &[1.0], &[0.92]), all);
    }

    #[test]
    fn each_group_below_another_has_its_own() {
        let nested = &CASES[5];
        assert_eq!(failed(nested, &[1.0; 2], &[0.2, 0.3]), [""; 0]);
        assert_eq!(failed(nested, &[1.0; 2], &[0.25, 0.25]), ["/half/20 has", "/half/60 has"]);
        assert_eq!(failed(nested, &[1.0; 2], &[0.2, 0.31]), ["/half/60 has"]);
    }

    #[test]
    fn who_is_below_the_limit_is_neither_throttled_nor_short() {
        const PERIOD: Nanos = Nanos::from_millis(100);
        let holds = |used: &Used| below_claims(used).map(|claim| !claim.verdict.fails());
        let fine = used(&[0.1; 48], PERIOD);
        assert_eq!(holds(&fine), [true, true]);
        let mut throttled = fine;
        throttled.throttled = 1;
        assert_eq!(holds(&throttled), [false, true]);
        assert_eq!(holds(&used(&[0.098; 48], PERIOD)), [true, false]);
        // A workload that reaches the limit does not fit this claim.
        assert_eq!(holds(&used(&[0.12; 48], PERIOD)), [false, false]);
    }

    #[test]
    fn the_periods_of_a_case_are_one_length() {
        for case in CASES {
            let scenario = case.scenario().unwrap();
            let period = limit(&scenario).period();
            let limits = scenario.groups.iter().filter_map(|group| group.spec.limit);
            assert!(limits.map(|limit| limit.period()).all(|it| it == period), "{}", case.name);
            let rests = (WINDOW.span().0 % period.0, WINDOW.from.0 % period.0);
            assert_eq!(rests, (0, 0), "{}", case.name);
        }
    }
}
