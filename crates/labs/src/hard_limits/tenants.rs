//! The cost of a greedy tenant to the others: the time that they wait for their requests.
//!
//! The document has no such experiment, but limits exist for this purpose. The first case is that of `--example
//! tenants` on a real server. The other cases vary the machine and its load. On a machine with little load, the groups'
//! fairness protects the others, with a limit or without. On a machine with a high load, they notice the missing tenth
//! of the machine, whichever tenant has it.

use crate::claims::{Claim, ClaimVerdict};
use crate::figure::rounded;
use crate::virtual_time::{shipped, simulate};
use rayon::prelude::*;
use runyard_engine::attr::GroupId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::kernel::Experiment;
use runyard_engine::limits::Limit;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_outcome::Failure;
use runyard_report::Histogram;
use runyard_sim::Observer;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::Step;
use std::collections::BTreeMap;

const SHIPPED: &str = include_str!("../../scenarios/tenants.json");

/// The index in the scenario of the tenant that abuses the server, and of its group.
const ABUSE: usize = 3;
const ABUSER: GroupId = GroupId(4);

/// The number of tasks of the abusing tenant for each CPU.
const HOGS: u32 = 4;

/// The abusing tenant may use one of this many parts of the machine.
const PARTS: u64 = 10;

/// The mean time of a request.
const REQUEST: f64 = 300.0;

/// Counted requests came after this time, and had an answer before the end.
const FROM: Time = Time(1_000_000_000);

/// A machine, and the part of it that the other tenants ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    cpus: u32,
    /// That part, in per cent.
    load: f64,
    seconds: u64,
    claimed: Claimed,
}

/// The claim about the others' p99.
#[derive(Clone, Copy, Debug)]
enum Claimed {
    /// It is at most 1.2 times the p99 without abuse.
    HardlyMoves,
    /// It is at most half of the p99 without the limit.
    Halved,
}

/// All cases. Longer runs have fewer requests a second.
pub(super) const CASES: [Case; 6] = [
    Case { cpus: 2, load: 6.75, seconds: 121, claimed: Claimed::HardlyMoves },
    Case { cpus: 2, load: 50.0, seconds: 31, claimed: Claimed::HardlyMoves },
    Case { cpus: 2, load: 70.0, seconds: 31, claimed: Claimed::Halved },
    Case { cpus: 16, load: 6.75, seconds: 31, claimed: Claimed::HardlyMoves },
    Case { cpus: 16, load: 50.0, seconds: 6, claimed: Claimed::HardlyMoves },
    Case { cpus: 16, load: 70.0, seconds: 6, claimed: Claimed::Halved },
];

/// The run to compare with, the run without the limit, and the run with it.
const RUNS: [Run; 3] = [Run::Alone, Run::Unlimited, Run::Limited];

/// Whether there is abuse, and whether it is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Alone,
    Unlimited,
    Limited,
}

impl Case {
    /// The results of [`RUNS`].
    pub(super) fn measure(
        self,
        seed: u64,
        done: impl Fn() + Sync,
    ) -> Result<[Histogram; 3], Failure> {
        let run = |run: &Run| self.run(*run, seed).inspect(|_| done());
        let runs: Result<Vec<_>, _> = RUNS.par_iter().map(run).collect();
        Ok(runs?.try_into().expect("as many as there are runs"))
    }

    /// The times that the other tenants wait for an answer, from the moment of the request.
    fn run(self, run: Run, seed: u64) -> Result<Histogram, Failure> {
        let mut scenario = self.scenario()?;
        match run {
            Run::Alone => scenario.tasks[ABUSE].instances = 0,
            Run::Unlimited => scenario.use_model(Experiment::HardLimits.before()),
            Run::Limited => {}
        }
        let known: u32 = scenario.tasks.iter().map(|task| task.instances).sum();
        let mut answers = Answers {
            first: TaskId(known.into()),
            open: BTreeMap::new(),
            took: Histogram::default(),
        };
        simulate(&scenario, seed, &mut answers)?;
        Ok(answers.took)
    }

    fn scenario(self) -> Result<Scenario, Failure> {
        let mut scenario = shipped("tenants.json", SHIPPED);
        scenario.duration = Some(Nanos::from_secs(self.seconds));
        scenario.machine.topology = Topology::flat(self.cpus).map_err(Failure::input)?;
        let runtime = Nanos(Limit::PERIOD.0 * u64::from(self.cpus) / PARTS);
        let limit = Limit::new(runtime, Limit::PERIOD, Nanos::ZERO, false);
        scenario.groups[ABUSER.index()].spec.limit = limit.ok();
        scenario.tasks[ABUSE].instances = HOGS * self.cpus;
        // The load of each tenant, so that all together have this load.
        let busy = f64::from(self.cpus) * self.load / 100.0;
        let between = REQUEST * ABUSE as f64 / busy;
        for tenant in &mut scenario.tasks[..ABUSE] {
            let pause = Nanos((between * 1e3).round() as u64);
            tenant.phases[0].steps.change(|step| match step {
                Step::Sleep(_) => Step::Sleep(Draw::Exponential(pause)),
                other => other,
            });
        }
        Ok(scenario)
    }

    /// The claim about the results of [`RUNS`].
    pub(super) fn claim(self, [alone, unlimited, limited]: &[Histogram; 3]) -> Claim {
        let p99 = |took: &Histogram| took.quantile(990).unwrap_or_default().0 as f64;
        let ratio = |took| rounded(p99(took) / p99(alone).max(1.0), 2);
        let (before, after) = (ratio(unlimited), ratio(limited));
        let (claimed, holds) = match self.claimed {
            Claimed::HardlyMoves => ("at most 1.2", after <= 1.2),
            Claimed::Halved => ("at most half of before", after <= before / 2.0),
        };
        let Case { cpus, load, .. } = self;
        let what = format!(
            "{cpus} CPUs, {load} % busy, and one who takes a tenth: p99 of the others, {claimed}"
        );
        // Few requests are without an answer when the run ends; otherwise a tenant is starved.
        let answered = alone.count() > 0 && limited.count() * 100 >= alone.count() * 99;
        let verdict = ClaimVerdict::of(answered && holds);
        Claim::of(what, "times without that one", [Some(before), Some(after)], verdict)
    }
}

/// The times that requests take. A request is a task that is forked, and ends.
#[derive(Debug)]
struct Answers {
    /// The first forked task.
    first: TaskId,
    /// The requests without an answer, with the time of each.
    open: BTreeMap<TaskId, Time>,
    took: Histogram,
}

impl Observer for &mut Answers {
    fn event(&mut self, &Event { at, what, .. }: &Event) {
        match what {
            What::Spawn { task } if task >= self.first && at >= FROM => {
                self.open.insert(task, at);
            }
            What::Switch { prev: Some((task, Left::Exited)), .. } => {
                if let Some(asked) = self.open.remove(&task) {
                    self.took.record(at.since(asked));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::cpu::CpuId;

    #[test]
    fn an_answer_takes_as_long_as_from_the_request_to_the_end_of_its_task() {
        let mut answers =
            Answers { first: TaskId(3), open: BTreeMap::new(), took: Histogram::default() };
        let whats = [
            (999_999_999, What::Spawn { task: TaskId(3) }),
            (FROM.0, What::Spawn { task: TaskId(4) }),
            (FROM.0 + 1, What::Spawn { task: TaskId(2) }),
            (FROM.0 + 2, What::Spawn { task: TaskId(5) }),
            (FROM.0 + 50, What::Switch { prev: Some((TaskId(4), Left::Preempted)), next: None }),
        ];
        let ends = [2, 3, 4].map(|task| {
            (FROM.0 + 60, What::Switch { prev: Some((TaskId(task), Left::Exited)), next: None })
        });
        for (at, what) in whats.into_iter().chain(ends) {
            (&mut &mut answers).event(&Event { at: Time(at), cpu: CpuId(0), what });
        }
        assert_eq!((answers.took.count(), answers.took.max()), (1, Some(Nanos(60))));
    }

    #[test]
    fn the_abuser_has_a_tenth_and_the_others_ask_for_their_load() {
        for case in CASES {
            let scenario = case.scenario().unwrap();
            let limit = scenario.groups[ABUSER.index()].spec.limit.unwrap();
            assert_eq!(scenario.groups[ABUSER.index()].path, "/abuser");
            let tenth = f64::from(case.cpus) / 10.0;
            assert_eq!(limit.runtime().0 as f64 / limit.period().0 as f64, tenth);
            let asked: f64 = scenario.tasks[..ABUSE]
                .iter()
                .map(|tenant| match tenant.phases[0].steps.get(0) {
                    Some(Step::Sleep(Draw::Exponential(pause))) => REQUEST * 1e3 / pause.0 as f64,
                    ref other => panic!("a tenant sleeps first: {other:?}"),
                })
                .sum();
            let load = asked / f64::from(case.cpus) * 100.0;
            assert!((load - case.load).abs() < 0.1, "{load} {case:?}");
        }
    }

    #[test]
    fn a_p99_that_moves_too_much_fails() {
        let took = |nanos| {
            let mut took = Histogram::default();
            took.record(Nanos(nanos));
            took
        };
        let verdict = |claimed, all| Case { claimed, ..CASES[0] }.claim(&all).verdict;
        let [hardly, halved] = [Claimed::HardlyMoves, Claimed::Halved];
        assert_eq!(verdict(hardly, [1_000, 1_000, 1_100].map(took)), ClaimVerdict::Holds);
        assert_eq!(verdict(hardly, [1_000, 9_000, 1_300].map(took)), ClaimVerdict::Fails);
        assert_eq!(verdict(halved, [1_000, 4_000, 1_900].map(took)), ClaimVerdict::Holds);
        assert_eq!(verdict(halved, [1_000, 4_000, 2_100].map(took)), ClaimVerdict::Fails);
        let nobody = [(); 3].map(|()| Histogram::default());
        assert_eq!(verdict(hardly, nobody), ClaimVerdict::Fails);
        let starved = [took(1_000), took(1_000), Histogram::default()];
        assert_eq!(verdict(hardly, starved), ClaimVerdict::Fails);
    }
}
