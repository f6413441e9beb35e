//! The document's tables: hackbench, lat_ctx and kernbench, without hard limits, with them in a task group without a
//! limit, and with 450 ms of 500 ms on each CPU.
//!
//! The document shows that the three columns differ by no more than its runs do (the standard deviation of a kernbench
//! of 4.8 s is 0.29 s). Simulated runs have no such noise, so more is claimed: a group without a limit costs nothing,
//! and a limit costs no more than the time that it takes away.
//!
//! The machine is unknown, so the work of the workloads is fitted to the first column:
//! * hackbench sends a fifth of the original's messages, each with five times the work, 50 us for both ends. So a run
//!   is as long beside the period of the limit.
//! * lat_ctx goes through its working set for the time that the document gives for a switch there.
//! * kernbench is the shipped scenario. Its reading and linking are the difference between the times with 12 and with
//!   96 jobs. With as many jobs as files it takes as long as with 96.

use super::setting::{self, CPUS, LIMITED, PERIOD, SOAK_RUNS, Setting};
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::rounded;
use crate::latency_nice::hackbench::Hackbench;
use crate::spread::Spread;
use crate::usage::{Usage, Used, Window};
use crate::virtual_time::{shipped, simulate};
use rayon::prelude::*;
use runyard_engine::attr::GroupId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{ObjectId, Step, TaskSpec};

const HOGS: &str = include_str!("../../scenarios/hard-limits.json");
const KERNBENCH: &str = include_str!("../../scenarios/kernbench.json");

/// The number of messages that a sender of hackbench writes to a receiver.
const LOOPS: u32 = 20;

/// The computing time of either end of a message.
const WORK: Draw = Draw::Uniform(Nanos::from_micros(13), Nanos::from_micros(37));

/// The number of times that the token of lat_ctx is passed: seconds of run time, at a third of a millisecond and more.
const PASSES: u32 = 5_000;

/// The size of a token in a Linux pipe.
const TOKEN: u64 = 1;
const PIPE: u64 = 65_536;

/// The largest difference between figures that must agree, as a fraction. The document's own noise exceeds it.
const MAX_DIFFERENCE: f64 = 0.01;

/// A row of the document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    workload: Workload,
    /// The published figures, in the order of [`Setting::ALL`], in the workload's unit.
    published: [f64; 3],
}

#[derive(Clone, Copy, Debug)]
enum Workload {
    Hackbench {
        groups: u32,
    },
    /// lat_ctx. A working set of this many KB takes this many microseconds.
    Ring {
        kb: u32,
        processes: u32,
        work: f64,
    },
    Kernbench {
        jobs: Jobs,
    },
}

/// The value of `-j`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jobs {
    Most(u32),
    Any,
}

/// All rows, in the document's order.
pub(super) const ROWS: [Row; 13] = [
    hackbench(10, [0.475, 0.384, 0.253]),
    hackbench(20, [0.610, 0.670, 0.692]),
    hackbench(50, [1.250, 1.201, 1.295]),
    hackbench(100, [1.981, 2.174, 1.583]),
    ring(1_024, 10, [315.87, 330.19, 317.04]),
    ring(1_024, 100, [675.52, 699.90, 698.50]),
    ring(1_024, 500, [775.01, 772.86, 772.30]),
    ring(2_048, 10, [1_319.01, 1_332.16, 1_328.09]),
    ring(2_048, 100, [1_400.77, 1_372.67, 1_382.27]),
    ring(2_048, 500, [1_479.40, 1_524.57, 1_615.84]),
    kernbench(Jobs::Most(12), [5.716, 6.06, 5.41]),
    kernbench(Jobs::Most(96), [4.826, 4.776, 5.13]),
    kernbench(Jobs::Any, [5.13, 5.062, 4.94]),
];

const fn hackbench(groups: u32, published: [f64; 3]) -> Row {
    Row { workload: Workload::Hackbench { groups }, published }
}

const fn ring(kb: u32, processes: u32, published: [f64; 3]) -> Row {
    let workload = Workload::Ring { kb, processes, work: published[0] };
    Row { workload, published }
}

const fn kernbench(jobs: Jobs, published: [f64; 3]) -> Row {
    Row { workload: Workload::Kernbench { jobs }, published }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Took {
    pub(super) time: Nanos,
    pub(super) used: Used,
}

impl Row {
    /// Runs the row with each setting; where the document has deviations, with several seeds.
    pub(super) fn measure(
        &self,
        seed: u64,
        done: impl Fn() + Sync,
    ) -> Result<Vec<[Took; 3]>, Failure> {
        let columns = |seed| -> Result<[Took; 3], Failure> {
            let run = |setting: &Setting| self.run(*setting, seed).inspect(|_| done());
            let runs: Result<Vec<_>, _> = Setting::ALL.par_iter().map(run).collect();
            Ok(runs?.try_into().expect("as many as there are columns"))
        };
        (0..self.runs()).map(|nth| columns(seed + nth * SOAK_RUNS)).collect()
    }

    fn run(&self, setting: Setting, seed: u64) -> Result<Took, Failure> {
        let mut scenario = self.workload.scenario();
        setting.apply(&mut scenario);
        let mut usage = Usage::new(Window::ALL, PERIOD, CPUS as usize);
        let end = simulate(&scenario, seed, &mut usage)?.end;
        Ok(Took { time: end.since(Time::ZERO), used: usage.finish(end) })
    }

    /// The number of runs of each setting. Only kernbench has deviations in the document, of five runs.
    pub(super) fn runs(&self) -> u64 {
        if matches!(self.workload, Workload::Kernbench { .. }) { 5 } else { 1 }
    }

    /// The claims about runs, each in the order of [`Setting::ALL`]. The first decides; the others tell how it could
    /// have been.
    pub(super) fn claims(&self, runs: &[[Took; 3]]) -> Vec<Claim> {
        let times = self.times(&runs[0]);
        times.into_iter().chain(self.accounts(runs)).collect()
    }

    /// The claims about the times.
    fn times(&self, [off, unlimited, limited]: &[Took; 3]) -> [Claim; 2] {
        let as_long = apart(off, unlimited) <= MAX_DIFFERENCE;
        let within = if self.workload.needs_all_cpus() {
            let earliest = setting::earliest(limited.used.total());
            (earliest..=setting::latest(off.time)).contains(&limited.time)
        } else {
            apart(off, limited) <= MAX_DIFFERENCE
        };
        let [before, without, with] = self.published;
        let (name, (what, unit)) = (self.workload.name(), self.workload.figure());
        let claim = |of: &str, published, took: &Took, verdict| {
            let what = format!("{name}, {of}: {what}");
            let figures = [off, took].map(|took| Some(self.workload.measure(took)));
            Claim::of(what, unit, figures, verdict).beside([Some(before), Some(published)])
        };
        let free = ClaimVerdict::same(as_long, "a group without a limit is never throttled");
        [
            claim("unlimited", without, unlimited, free),
            claim(LIMITED_TO, with, limited, self.workload.limited(within)),
        ]
    }

    /// What `time` says of kernbench besides, and the deviations of all of it, shown without bounds.
    fn accounts(&self, runs: &[[Took; 3]]) -> Vec<Claim> {
        let Workload::Kernbench { jobs } = self.workload else { return Vec::new() };
        let name = self.workload.name();
        let row = |of: String, unit, published: Option<[f64; 3]>, at: usize, figures: [f64; 3]| {
            let both = [0, at].map(|column| Some(rounded(figures[column], 3)));
            let published = [0, at].map(|column| published.map(|all| all[column]));
            Claim::of(of, unit, both, ClaimVerdict::Shown).beside(published)
        };
        let mut claims = Vec::new();
        for ((measure, unit, of), account) in MEASURES.into_iter().zip(jobs.accounts()) {
            let [published, deviations] = account;
            let columns =
                [0, 1, 2].map(|at| runs.iter().map(|run| of(&run[at])).collect::<Vec<_>>());
            for (at, setting) in [(1, "unlimited"), (2, LIMITED_TO)] {
                let what = format!("{name}, {setting}: {measure}");
                if measure != TIME {
                    let first = columns.each_ref().map(|column| column[0]);
                    claims.push(row(what.clone(), unit, published, at, first));
                }
                let spread = columns.each_ref().map(|column| Spread::of_each(column));
                claims.push(row(what + ", deviation", unit, deviations, at, spread));
            }
        }
        claims
    }
}

/// The document's limit in names of claims.
const LIMITED_TO: &str = "450 of 500 ms on each CPU";

/// The figure that has a claim with a bound.
const TIME: &str = "time";

type Measure = fn(&Took) -> f64;

/// What the document tells of kernbench: `%e`; `%U` and `%S` together, since a simulated task does not tell them apart;
/// `%P`; `%c` and `%w`.
const MEASURES: [(&str, &str, Measure); 5] = [
    (TIME, "s", |took| took.time.0 as f64 / 1e9),
    ("user and system time", "s", |took| took.used.total().0 as f64 / 1e9),
    ("CPU", "%", |took| took.used.total().0 as f64 / took.time.0 as f64 * 100.0),
    ("involuntary switches", "times", |took| took.used.preempted as f64),
    ("sleeps", "times", |took| took.used.slept as f64),
];

/// The document's figure and its standard deviation, in the order of [`Setting::ALL`].
type Account = [Option<[f64; 3]>; 2];

impl Jobs {
    /// The document's figures in the order of [`MEASURES`]. The elapsed time is that of the row, and the document gives
    /// no deviation of the sum of two.
    fn accounts(self) -> [Account; 5] {
        let both = |figure, deviation| [Some(figure), Some(deviation)];
        match self {
            Jobs::Most(12) => [
                [None, Some([0.278_711, 0.479_322, 0.360_694])],
                [Some([35.284, 39.658, 32.0]), None],
                both([615.2, 651.6, 588.4], [41.166_7, 43.397, 42.021_4]),
                both([2_727.8, 3_030.6, 2_536.0], [243.19, 425.338, 302.498]),
                both([4_981.4, 5_532.2, 4_554.6], [442.337, 847.27, 510.532]),
            ],
            Jobs::Most(_) => [
                [None, Some([0.276_641, 0.291_599, 0.504_48])],
                [Some([40.491, 41.934, 42.395]), None],
                both([778.3, 786.1, 803.1], [184.522, 154.295, 244.865]),
                both([2_906.5, 3_052.1, 3_030.6], [387.799, 397.15, 765.418]),
                both([4_576.6, 4_796.0, 4_576.9], [565.383, 990.278, 625.933]),
            ],
            Jobs::Any => [
                [None, Some([0.530_236, 0.040_865_6, 0.229_891])],
                [Some([44.695, 44.969, 44.579]), None],
                both([860.0, 859.8, 864.467], [202.295, 164.415, 218.721]),
                both([3_154.27, 3_172.93, 3_127.2], [659.933, 370.439, 657.224]),
                both([4_602.6, 4_676.67, 4_489.2], [662.155, 813.274, 542.859]),
            ],
        }
    }
}

/// The difference of two times, as a fraction of the first.
fn apart(a: &Took, b: &Took) -> f64 {
    a.time.0.abs_diff(b.time.0) as f64 / a.time.0 as f64
}

impl Workload {
    fn name(self) -> String {
        match self {
            Workload::Hackbench { groups } => format!("hackbench -pipe {groups}"),
            Workload::Ring { kb, processes, .. } => format!("lat_ctx of {kb} KB, {processes}"),
            Workload::Kernbench { jobs: Jobs::Most(jobs) } => format!("kernbench -j{jobs}"),
            Workload::Kernbench { jobs: Jobs::Any } => "kernbench -j".to_owned(),
        }
    }

    /// The outcome of the row with a limit, which is within its bounds or not.
    fn limited(self, within: bool) -> ClaimVerdict {
        match self {
            Workload::Hackbench { groups: 10 | 20 } => {
                ClaimVerdict::same(within, "the run ends before a CPU has used its 450 ms")
            }
            Workload::Hackbench { .. } => {
                ClaimVerdict::fitted(within, "hackbench's messages and their work")
            }
            Workload::Ring { .. } => ClaimVerdict::fitted(
                within,
                "the time of a pass of lat_ctx, which is the published figure without limits",
            ),
            Workload::Kernbench { .. } => {
                ClaimVerdict::fitted(within, "kernbench's work, to the column without limits")
            }
        }
    }

    /// Whether the workload ever uses more than the 21.6 CPUs of the group's budget.
    fn needs_all_cpus(self) -> bool {
        match self {
            Workload::Hackbench { .. } => true,
            // One process computes at a time.
            Workload::Ring { .. } => false,
            // make itself is not one of its jobs.
            Workload::Kernbench { jobs: Jobs::Most(jobs) } => jobs + 1 > CPUS * 9 / 10,
            Workload::Kernbench { jobs: Jobs::Any } => true,
        }
    }

    fn figure(self) -> (&'static str, &'static str) {
        match self {
            Workload::Ring { .. } => ("a switch", "us"),
            Workload::Hackbench { .. } | Workload::Kernbench { .. } => (TIME, "s"),
        }
    }

    /// The figure, to the document's precision.
    fn measure(self, took: &Took) -> f64 {
        match self {
            Workload::Ring { .. } => {
                (took.time.0 as f64 / f64::from(PASSES) / 10.0).round() / 100.0
            }
            Workload::Hackbench { .. } | Workload::Kernbench { .. } => {
                (took.time.0 as f64 / 1e6).round() / 1e3
            }
        }
    }

    /// All its tasks are in the shipped scenarios' task group.
    fn scenario(self) -> Scenario {
        match self {
            Workload::Hackbench { groups } => {
                let mut scenario = empty();
                Hackbench { groups, loops: Some(LOOPS) }.add_to(&mut scenario);
                scenario.tasks.iter_mut().for_each(heavier);
                scenario
            }
            Workload::Ring { processes, work, .. } => {
                ring_of(processes, Nanos((work * 1e3).round() as u64))
            }
            Workload::Kernbench { jobs } => {
                let mut scenario = shipped("kernbench.json", KERNBENCH);
                let make = &mut scenario.tasks[0].phases;
                let files = make[2].loops;
                make[0].loops = match jobs {
                    Jobs::Most(jobs) => Some(jobs),
                    Jobs::Any => files,
                };
                scenario
            }
        }
    }
}

/// The machine and the task group, without tasks. The run ends with the last task.
fn empty() -> Scenario {
    let mut scenario = shipped("hard-limits.json", HOGS);
    scenario.tasks.clear();
    scenario.duration = None;
    scenario
}

/// Gives a task of hackbench five times the work.
fn heavier(task: &mut TaskSpec) {
    task.properties.group = Some(GroupId(LIMITED as u32));
    task.phases[0].steps.change(|step| match step {
        Step::Run(_) => Step::Run(WORK),
        other => other,
    });
}

/// Processes that pass a token in a ring. Each goes through its working set when it has the token.
fn ring_of(processes: u32, work: Nanos) -> Scenario {
    let mut scenario = empty();
    let template = shipped("hard-limits.json", HOGS).tasks.remove(0);
    scenario.objects.pipes = (0..processes).map(|nth| (format!("ring-{nth}"), PIPE)).collect();
    for nth in 0..processes {
        let mut task = template.clone();
        (task.name, task.instances, task.loops) = (format!("process-{nth}"), 1, Some(1));
        let send = Step::Send { pipe: ObjectId((nth + 1) % processes), bytes: TOKEN };
        let recv = Step::Recv { pipe: ObjectId(nth), bytes: TOKEN };
        let work = Step::Run(Draw::Fixed(work));
        // The first process has the token, and gets it back at the end of each round.
        let steps = if nth == 0 { [work, send, recv] } else { [recv, work, send] };
        (task.phases[0].steps, task.phases[0].loops) = (steps.into(), Some(PASSES / processes));
        scenario.tasks.push(task);
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(ms: u64) -> Took {
        Took { time: Nanos::from_millis(ms), used: Used::default() }
    }

    /// Whether the row's claims hold for these times, in ms.
    fn hold(workload: Workload, times: [u64; 3]) -> [bool; 2] {
        let row = Row { workload, published: [1.0; 3] };
        row.times(&times.map(took)).map(|claim| !claim.verdict.fails())
    }

    const CPU_BOUND: Workload = Workload::Hackbench { groups: 10 };
    const RING: Workload = Workload::Ring { kb: 1_024, processes: 10, work: 1.0 };

    #[test]
    fn a_group_without_a_limit_takes_as_long() {
        for workload in [CPU_BOUND, RING] {
            assert_eq!(hold(workload, [10_000, 10_100, 10_000]), [true, true]);
            assert_eq!(hold(workload, [10_000, 10_101, 10_000]), [false, true]);
            assert_eq!(hold(workload, [10_000, 9_899, 10_000]), [false, true]);
        }
    }

    #[test]
    fn a_limit_costs_who_needs_all_cpus_what_it_takes_and_others_nothing() {
        // 9 s with nine tenths of the CPUs, and one period.
        assert_eq!(hold(CPU_BOUND, [9_000, 9_000, 10_500]), [true, true]);
        assert_eq!(hold(CPU_BOUND, [9_000, 9_000, 10_501]), [true, false]);
        let few = Workload::Kernbench { jobs: Jobs::Most(12) };
        for workload in [RING, few] {
            assert_eq!(hold(workload, [9_000, 9_000, 9_091]), [true, false]);
        }
    }

    #[test]
    fn nobody_is_done_before_the_limit_allows_it() {
        // All CPUs are used for a second; the group may use nine tenths of them.
        let mut usage = Usage::new(Window::ALL, PERIOD, CPUS as usize);
        let hog = runyard_engine::event::What::Exec {
            task: runyard_engine::task::TaskId(0),
            policy: runyard_engine::attr::Policy::Idle,
        };
        for cpu in (0..CPUS as usize).map(runyard_engine::cpu::CpuId::at) {
            let event = runyard_engine::event::Event { at: Time::ZERO, cpu, what: hog };
            runyard_sim::Observer::event(&mut &mut usage, &event);
        }
        let used = usage.finish(Time(1_000_000_000));
        let row = Row { workload: CPU_BOUND, published: [1.0; 3] };
        let claims = |ms| {
            let runs = [took(1_000), took(1_000), Took { used: used.clone(), ..took(ms) }];
            row.times(&runs).map(|claim| !claim.verdict.fails())
        };
        assert_eq!([claims(1_099), claims(1_100)], [[true, false], [true, true]]);
    }

    #[test]
    fn all_tasks_are_in_the_group() {
        for row in ROWS {
            let scenario = row.workload.scenario();
            let group = Some(GroupId(LIMITED as u32));
            assert!(scenario.tasks.iter().all(|task| task.properties.group == group), "{row:?}");
            assert_eq!(scenario.machine.topology.cpus(), CPUS as usize);
            assert_eq!(scenario.groups[LIMITED].spec.limit, Some(setting::documents()));
        }
    }

    #[test]
    fn a_token_is_passed_so_often_in_every_ring() {
        for row in ROWS {
            let Workload::Ring { processes, .. } = row.workload else { continue };
            let scenario = row.workload.scenario();
            let rounds: u32 = scenario.tasks.iter().map(|task| task.phases[0].loops.unwrap()).sum();
            assert_eq!((rounds, scenario.objects.pipes.len()), (PASSES, processes as usize));
        }
    }
}
