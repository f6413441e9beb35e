//! The effect of a limit: the group gets exactly its budget, on any CPUs, at each level of task groups.
//!
//! The document has no figures for this. A group that can use its whole budget uses it, to one per cent over ten
//! seconds. Before, with a feature switched off, it gets the amount that is due to it then.

use super::founding;
use super::meter::{Meter, Used, Window};
use super::setting::LIMITED;
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::{Figure, percent};
use runyard_engine::attr::GroupId;
use runyard_engine::features::{Feature, Features};
use runyard_engine::limits::Limit;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_sim::{Options, Sim};
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Step, TaskGroup, TaskSpec, TimerMode, TimerRef};

/// The largest difference between a figure and the due amount, as a fraction of that amount.
const MAX_DIFFERENCE: f64 = 0.01;

/// The counted time: ten seconds, after one second in which the tasks settle. Both are whole periods of each limit
/// here.
pub(super) const WINDOW: Window = Window { from: Time(1_000_000_000), end: Time(11_000_000_000) };

/// A machine with task groups. Some of the groups are limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    name: &'static str,
    cpus: u32,
    /// The feature that is off before.
    without: Feature,
    groups: &'static [Group],
    /// Whether the use in each period is checked as well. The groups' own periods begin up to a sixteenth later than
    /// the counted periods. For hogs this makes no difference: they use their budget at the beginning of each period.
    each_period: bool,
}

/// A task group with hogs. Parents come before children.
#[derive(Clone, Copy, Debug)]
struct Group {
    path: &'static str,
    /// The index of the parent; `None` for a child of the root.
    parent: Option<usize>,
    limit: Option<Part>,
    hogs: u32,
    /// The due amount of the machine, in CPUs, before and after.
    due: [f64; 2],
}

/// A limit, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Part {
    runtime: u64,
    period: u64,
    per_cpu: bool,
}

/// The runs without the feature and with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    before: Used,
    after: Used,
}

const fn part(runtime_ms: u64, period_ms: u64) -> Option<Part> {
    Some(Part { runtime: runtime_ms * 1_000, period: period_ms * 1_000, per_cpu: false })
}

const fn of_each_cpu(runtime_ms: u64, period_ms: u64) -> Option<Part> {
    Some(Part { runtime: runtime_ms * 1_000, period: period_ms * 1_000, per_cpu: true })
}

/// A child of the root.
const fn top(path: &'static str, limit: Option<Part>, hogs: u32, due: [f64; 2]) -> Group {
    Group { path, parent: None, limit, hogs, due }
}

/// A child of the first group, with one hog.
const fn child(path: &'static str, limit: Option<Part>, due: [f64; 2]) -> Group {
    Group { path, parent: Some(0), limit, hogs: 1, due }
}

/// Its children use its budget.
const HALF: Group = top("/half", part(50, 100), 0, [0.0; 2]);

const fn nested(name: &'static str, groups: &'static [Group]) -> Case {
    Case { name, cpus: 24, without: Feature::HardLimits, groups, each_period: false }
}

/// All cases.
pub(super) const CASES: [Case; 9] = [
    Case {
        name: "48 hogs, 450 of 500 ms on each of 24 CPUs",
        cpus: 24,
        without: Feature::HardLimits,
        groups: &[top("/limited", of_each_cpu(450, 500), 48, [24.0, 21.6])],
        each_period: true,
    },
    Case {
        name: "7 hogs, 90 of 100 ms on 24 CPUs",
        cpus: 24,
        without: Feature::HardLimits,
        groups: &[top("/limited", part(90, 100), 7, [7.0, 0.9])],
        each_period: true,
    },
    Case {
        name: "1 hog, 10 of 100 ms on each of 24 CPUs, borrowing",
        cpus: 24,
        without: Feature::RuntimeShare,
        groups: &[top("/limited", of_each_cpu(10, 100), 1, [0.1, 1.0])],
        each_period: false,
    },
    nested("60 % below 50 %", &[HALF, child("/half/60", part(60, 100), [1.0, 0.5])]),
    nested(
        "two of 40 % below 50 %",
        &[
            HALF,
            child("/half/one", part(40, 100), [1.0, 0.25]),
            child("/half/other", part(40, 100), [1.0, 0.25]),
        ],
    ),
    nested(
        "20 % beside 60 % below 50 %",
        &[
            HALF,
            child("/half/20", part(20, 100), [1.0, 0.2]),
            child("/half/60", part(60, 100), [1.0, 0.3]),
        ],
    ),
    Case {
        cpus: 1,
        ..nested(
            "20 % beside 60 % below 50 %, all on one CPU",
            &[
                HALF,
                child("/half/20", part(20, 100), [0.5, 0.2]),
                child("/half/60", part(60, 100), [0.5, 0.3]),
            ],
        )
    },
    Case {
        name: "1 hog, 90 of 100 ms on 256 CPUs",
        cpus: 256,
        without: Feature::HardLimits,
        groups: &[top("/limited", part(90, 100), 1, [1.0, 0.9])],
        each_period: true,
    },
    Case {
        name: "1 hog, 1 ms of 1 s on each of 256 CPUs, borrowing",
        cpus: 256,
        without: Feature::RuntimeShare,
        groups: &[top("/limited", of_each_cpu(1, 1_000), 1, [0.001, 0.256])],
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
        let period = self.groups.iter().find_map(|group| group.limit).map(|limit| limit.period);
        let period = Nanos::from_micros(period.expect("somebody is limited"));
        meter(&scenario, period, seed)
    }

    fn scenario(&self) -> Result<Scenario, Failure> {
        scenario(self.cpus, self.groups)
    }

    pub(super) fn claims(&self, Pair { before, after }: &Pair) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut first = 0;
        for group in self.groups {
            let tasks = first..first + group.hogs as usize;
            first = tasks.end;
            if group.hogs == 0 {
                continue;
            }
            let had = [before, after].map(|used| cpus(used.of(tasks.clone())));
            let so = had
                .iter()
                .zip(group.due)
                .all(|(had, due)| (had - due).abs() <= due * MAX_DIFFERENCE);
            let what = format!("{}: {} has", self.name, group.path);
            claims.push(claim(&what, "CPUs", had.map(|had| Some(rounded(had))), so));
        }
        if self.each_period {
            let budget = self.groups[0].limit.expect("the first group is limited").over(self.cpus);
            let most = after.most().0 as f64 / budget.0 as f64;
            let what = format!("{}: the most in a period", self.name);
            let figures = [None, Some(percent(most))];
            claims.push(claim(&what, "% of the runtime", figures, most <= 1.0 + MAX_DIFFERENCE));
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
    let groups: &[Group] = &[
        top("/held", part(20, 100), 0, [0.0; 2]),
        top("/limited", part(30, 100), 2, [0.0; 2]),
        Group { hogs: 2, ..child("/held/more", part(40, 100), [0.0; 2]) },
        top("/free", None, cpus, [0.0; 2]),
    ];
    scenario(cpus, groups)
}

/// A scenario with these groups of hogs.
fn scenario(cpus: u32, groups: &[Group]) -> Result<Scenario, Failure> {
    let mut scenario = founding::hogs(cpus, 1)?;

    let hog = scenario.tasks.remove(0);
    scenario.groups.truncate(LIMITED);
    for group in groups {
        let id = GroupId(scenario.groups.len() as u32);
        let parent = group.parent.map_or(GroupId::ROOT, |at| GroupId((LIMITED + at) as u32));
        let spec = GroupSpec { parent, limit: group.limit.map(Part::limit), ..GroupSpec::ROOT };
        scenario.groups.push(TaskGroup { path: group.path.to_owned(), spec, cpuset: None });
        let mut hog = hog.clone();
        (hog.name, hog.instances) = (format!("hog-of-{}", scenario.tasks.len()), group.hogs);
        hog.properties.group = Some(id);
        scenario.tasks.push(hog);
    }
    Ok(scenario)
}

impl Part {
    fn limit(self) -> Limit {
        let [runtime, period] = [self.runtime, self.period].map(Nanos::from_micros);
        Limit::new(runtime, period, Nanos::ZERO, self.per_cpu).expect("the kernel takes it")
    }

    /// The budget of a period over all CPUs.
    fn over(self, cpus: u32) -> Nanos {
        let times = if self.per_cpu { u64::from(cpus) } else { 1 };
        Nanos::from_micros(self.runtime * times)
    }
}

/// Runs `scenario` for the counted time.
fn meter(scenario: &Scenario, period: Nanos, seed: u64) -> Result<Used, Failure> {
    let cpus = scenario.machine.topology.cpus() as u32;
    let mut meter = Meter::new(WINDOW, period, cpus);
    let options = Options { seed, ..Options::default() };
    let outcome = Sim::new(scenario, options, &mut meter).map_err(Failure::input)?.run();
    Ok(meter.finish(outcome.end))
}

/// A task group that wants most of its budget, in short pieces on many CPUs, and all of it in no period: 48 tasks of 1
/// ms every 10 ms. Each may begin eleven times in 100 ms.
const BELOW: Part = Part { runtime: 530_000, period: 100_000, per_cpu: false };

/// Runs such a group. It is never throttled: the budget that one CPU drew returns to the other CPUs when the group
/// leaves that CPU.
pub(super) fn below(seed: u64) -> Result<Used, Failure> {
    let ms = Nanos::from_millis;
    let mut scenario = founding::hogs(24, 48)?;
    scenario.groups[LIMITED].spec.limit = Some(BELOW.limit());
    let task: &mut TaskSpec = &mut scenario.tasks[0];
    task.delay = Draw::Uniform(Nanos::ZERO, ms(10));
    let timer = Step::Timer {
        timer: TimerRef::Unique(0),
        period: Draw::Fixed(ms(10)),
        mode: TimerMode::Absolute,
    };
    task.phases[0].steps = [timer, Step::Run(Draw::Fixed(ms(1)))].into();
    let period = Nanos::from_micros(BELOW.period);
    meter(&scenario, period, seed)
}

pub(super) fn below_claims(used: &Used) -> [Claim; 2] {
    let what = |what: &str| format!("48 periodic tasks, never more than 530 of 100 ms: {what}");
    let used_up = used.most() >= Nanos::from_micros(BELOW.runtime);
    let had = cpus(used.total());
    let (throttled, has) = (used.throttled, [None, Some(rounded(had))]);
    let never = throttled == 0 && !used_up;
    [
        claim(&what("throttled"), "times", [None, Some(throttled as f64)], never),
        claim(&what("have"), "CPUs", has, (had - 4.8).abs() <= 4.8 * MAX_DIFFERENCE),
    ]
}

fn claim(what: &str, unit: &str, [before, after]: [Option<f64>; 2], so: bool) -> Claim {
    Figure { what, unit, before: None, after: None }.claim(before, after, ClaimVerdict::of(so))
}

/// The time as a number of CPUs over the whole window.
fn cpus(used: Nanos) -> f64 {
    used.0 as f64 / WINDOW.end.since(WINDOW.from).0 as f64
}

fn rounded(figure: f64) -> f64 {
    (figure * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A use of these fractions of the CPUs for ten seconds, by one task each.
    fn used(parts: &[f64], period: u64) -> Used {
        use runyard_engine::attr::Policy;
        use runyard_engine::cpu::CpuId;
        use runyard_engine::event::{Event, What};
        use runyard_engine::task::TaskId;
        let mut meter = Meter::new(WINDOW, Nanos::from_micros(period), parts.len() as u32);
        for begin in (WINDOW.from.0..WINDOW.end.0).step_by(1_000_000) {
            for (nth, part) in parts.iter().enumerate() {
                let (cpu, task) = (CpuId::at(nth), TaskId(nth as u64));
                let exec = What::Exec { task, policy: Policy::Idle };
                let mut tell = |at, what| {
                    runyard_sim::Observer::event(&mut &mut meter, &Event { at, cpu, what });
                };
                tell(Time(begin), exec);
                tell(Time(begin + (part * 1e6) as u64), What::Idle);
            }
        }
        meter.finish(WINDOW.end)
    }

    /// The claims of the case that fail.
    fn failed(case: &Case, before: &[f64], after: &[f64]) -> Vec<String> {
        let period = case.groups[0].limit.unwrap().period;
        let pair = Pair { before: used(before, period), after: used(after, period) };
        let failed = case.claims(&pair).into_iter().filter(|claim| claim.verdict.fails());
        failed.map(|claim| claim.what.rsplit_once(": ").unwrap().1.to_owned()).collect()
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
        let holds = |used: &Used| below_claims(used).map(|claim| !claim.verdict.fails());
        let fine = used(&[0.1; 48], BELOW.period);
        assert_eq!(holds(&fine), [true, true]);
        let mut throttled = fine;
        throttled.throttled = 1;
        assert_eq!(holds(&throttled), [false, true]);
        assert_eq!(holds(&used(&[0.098; 48], BELOW.period)), [true, false]);
        // A workload that reaches the limit does not fit this claim.
        assert_eq!(holds(&used(&[0.12; 48], BELOW.period)), [false, false]);
    }

    #[test]
    fn groups_are_where_their_paths_say() {
        for case in CASES {
            let scenario = case.scenario().unwrap();
            for group in &scenario.groups[LIMITED..] {
                let (parent, _) = group.path.rsplit_once('/').unwrap();
                let above = &scenario.groups[group.spec.parent.index()].path;
                assert_eq!(above.trim_end_matches('/'), parent, "{}", case.name);
            }
        }
    }

    #[test]
    fn the_periods_of_a_case_are_one_length() {
        for case in CASES {
            let limits = case.groups.iter().filter_map(|group| group.limit);
            let periods: std::collections::BTreeSet<_> = limits.map(|of| of.period).collect();
            assert_eq!(periods.len(), 1, "{}", case.name);
            let span = WINDOW.end.since(WINDOW.from).0 / 1_000;
            let period = periods.first().unwrap();
            assert_eq!((span % period, WINDOW.from.0 / 1_000 % period), (0, 0), "{}", case.name);
        }
    }
}
