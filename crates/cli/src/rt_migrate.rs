//! rt-migrate-test, the experiment of the real-time push/pull series (2007).
//!
//! One more real-time thread than CPUs, of ascending priorities, released together round after
//! round; each then spins for 20 ms of wall time. In a good round only the least important thread
//! waits for a CPU. What the test prints of a thread is when it started and ended after the
//! release, and how much work it did in between; here work is CPU time, not loops.

use crate::Failure;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::features::Features;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Observer, Options, Sim};
use runyard_workload::{Overrides, Scenario};

/// The scenario: a parent, then the threads from the least to the most important.
const SCENARIO: &str = include_str!("../../../scenarios/rt-migrate.json");
const PARENT: TaskId = TaskId(0);

/// The steps of the parent and of a thread at which something is noted.
const RELEASE: u32 = 1;
const START: u32 = 1;
const END: u32 = 2;

/// How much later a thread may start or end than a less important one (`-m`).
pub(crate) const MAX_LATE: Nanos = Nanos::from_millis(1);

/// What one thread did in one round, in time since the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lap {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) work: Nanos,
}

/// One release of all threads: their laps, from the least to the most important.
pub(crate) type Round = Vec<Lap>;

/// The test's rule: no thread waited for a less important one. A late start is forgiven if the
/// thread still did at least as much, began before the other ended, and ended not too long after.
pub(crate) fn passes(round: &[Lap]) -> bool {
    round.windows(2).all(|pair| {
        let [less, more] = [pair[0], pair[1]];
        let late = more.start > less.start + MAX_LATE;
        let made_up =
            more.work >= less.work && more.start <= less.end && more.end <= less.end + MAX_LATE;
        !late || made_up
    })
}

/// The latest start among all threads but the least important.
pub(crate) fn latest_important_start(rounds: &[Round]) -> Nanos {
    let starts = rounds.iter().flat_map(|round| round.iter().skip(1).map(|lap| lap.start));
    starts.max().unwrap_or(Nanos::ZERO)
}

/// The experiment with features of one's choice.
#[derive(Clone, Debug)]
pub(crate) struct Experiment(Scenario);

/// The rounds of one run, and the invariants that it broke, if those were checked.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) rounds: Vec<Round>,
    pub(crate) violations: usize,
}

impl Experiment {
    pub(crate) fn new(features: Features) -> Experiment {
        let parsed = runyard_workload::parse("rt-migrate.json", SCENARIO, &Overrides::default());
        let mut scenario =
            parsed.expect("the scenario that comes with the program is right").scenario;
        scenario.features = features;
        Experiment(scenario)
    }

    /// The 50 rounds that follow from `seed`.
    pub(crate) fn run(&self, seed: u64, check: bool) -> Result<Run, Failure> {
        let mut laps = Laps::new(self.0.tasks.len() - 1);
        let options = Options { seed, check, ..Options::default() };
        let outcome = Sim::new(&self.0, options, &mut laps).map_err(Failure::input)?.run();
        Ok(Run { rounds: laps.rounds, violations: outcome.violations.len() })
    }
}

/// Notes the laps.
#[derive(Debug)]
struct Laps {
    rounds: Vec<Round>,
    released: Time,
    /// For each thread: its executed time so far, and what that was at its start.
    executed: Vec<(Nanos, Nanos)>,
    /// For each CPU whose thread executes: who, since when.
    executing: Vec<Option<(TaskId, Time)>>,
}

impl Laps {
    fn new(threads: usize) -> Laps {
        let executed = vec![Default::default(); threads + 1];
        Laps { rounds: Vec::new(), released: Time::ZERO, executed, executing: Vec::new() }
    }

    fn step(&mut self, task: TaskId, step: u32, at: Time) {
        if task == PARENT {
            if step == RELEASE {
                self.released = at;
                self.rounds.push(vec![Lap::default(); self.executed.len() - 1]);
            }
            return;
        }
        let (total, at_start) = &mut self.executed[task.index()];
        let Some(lap) = self.rounds.last_mut().map(|round| &mut round[task.index() - 1]) else {
            return;
        };
        match step {
            START => {
                lap.start = at.since(self.released);
                *at_start = *total;
            }
            END => {
                lap.end = at.since(self.released);
                lap.work = *total - *at_start;
            }
            _ => {}
        }
    }

    /// What the CPU executes is another task, or none, from now on.
    fn execute(&mut self, cpu: CpuId, task: Option<TaskId>, at: Time) {
        if cpu.index() >= self.executing.len() {
            self.executing.resize(cpu.index() + 1, None);
        }
        let now = task.map(|task| (task, at));
        if let Some((task, since)) = std::mem::replace(&mut self.executing[cpu.index()], now) {
            self.executed[task.index()].0 += at.since(since);
        }
    }
}

impl Observer for &mut Laps {
    fn event(&mut self, &Event { at, cpu, what }: &Event) {
        match what {
            What::Step { task, step, .. } => {
                // A step is taken while its task executes: the account is brought up to it.
                self.execute(cpu, Some(task), at);
                self.step(task, step, at);
            }
            What::Exec { task, .. } => self.execute(cpu, Some(task), at),
            What::Overhead | What::Idle => self.execute(cpu, None, at),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::features::Feature;

    fn lap(start: u64, end: u64, work: u64) -> Lap {
        let us = Nanos::from_micros;
        Lap { start: us(start), end: us(end), work: us(work) }
    }

    #[test]
    fn the_rule_is_the_tests_own() {
        // The two rounds that the founding document shows as passed, and the one that failed.
        let late_least = [(20_060, 40_060), (61, 20_061), (55, 20_055)];
        let round: Vec<_> = late_least.iter().map(|&(s, e)| lap(s, e, 20_000)).collect();
        assert!(passes(&round));
        assert!(passes(&[lap(40, 20_040, 3), lap(46, 20_046, 20_000)]));
        assert!(!passes(&[lap(33, 20_033, 20_000), lap(20_041, 40_041, 27_000)]));
        // Late, but it did as much, began in time and ended in time.
        assert!(passes(&[lap(10, 20_010, 100), lap(5_000, 21_000, 15_000)]));
        assert!(!passes(&[lap(10, 20_010, 100), lap(5_000, 21_011, 15_000)]));
    }

    #[test]
    fn every_thread_has_a_lap_in_every_round() {
        let rounds = Experiment::new(Features::default()).run(3, true).unwrap().rounds;
        assert_eq!(rounds.len(), 50);
        for round in &rounds {
            assert_eq!(round.len(), 5);
            for lap in round {
                let spun = lap.end.saturating_sub(lap.start);
                let near = Nanos::from_millis(20)..Nanos::from_millis(41);
                assert!(near.contains(&spun) && lap.work <= spun && lap.work > Nanos::ZERO);
            }
            let total: u64 = round.iter().map(|lap| lap.work.0).sum();
            assert!(total > 80_000_000, "the four important ones do their 20 ms each: {round:?}");
        }
    }

    #[test]
    fn without_push_and_pull_the_rule_is_broken() {
        let features = Features::default().without(Feature::RtPush).without(Feature::RtPull);
        let rounds = Experiment::new(features).run(1, true).unwrap().rounds;
        assert!(rounds.iter().any(|round| !passes(round)));
    }
}
