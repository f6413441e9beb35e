//! The experiment in virtual time: with push and pull, and before them.

use super::rounds::{
    self, END, FAILED, LATEST_IMPORTANT, LATEST_LEAST, Lap, MAX_LATE, PARENT, PUBLISHED_RUNS,
    RELEASE, Round, START, example, important_starts, least_starts, passes,
};
use crate::claims::{ClaimVerdict, Reproduced};
use crate::figure::{micros, percent};
use crate::length::Length;
use crate::progress::Progress;
use rayon::prelude::*;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::kernel::{self, Model};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_sim::{Check, Observer, Options, Sim};
use runyard_workload::Scenario;
use std::fmt::Write as _;

/// The seeds of a short run.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;

/// Runs the experiment in virtual time, with the balancing and without: 20 runs, or in a soak as many as in the
/// document.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let passive = kernel::Experiment::RtMigrate.before();
    let seeds = length.pick(SEEDS, 1..=PUBLISHED_RUNS);
    progress.parts("runs", SEEDS.end() + seeds.end());
    let before = Tally::all(&Experiment::new(passive), SEEDS, progress)?;
    let after = Tally::all(&Experiment::new(Model::default()), seeds, progress)?;
    let (latest, least) = (after.latest_important, micros(after.latest_least));
    let (span, late) = (20_000.0, micros(before.latest_important));
    let all_hold = after.failed == 0;
    let claims = vec![
        LATEST_IMPORTANT.claim(
            Some(late),
            Some(micros(latest)),
            ClaimVerdict::of(late >= span && latest < MAX_LATE),
        ),
        LATEST_LEAST.claim(
            Some(micros(before.latest_least)),
            Some(least),
            ClaimVerdict::of((span..span + micros(MAX_LATE)).contains(&least)),
        ),
        FAILED.claim(
            Some(before.failed_percent()),
            Some(after.failed_percent()),
            ClaimVerdict::of(before.failed > 0 && all_hold),
        ),
        rounds::runs(after.good, after.runs, ClaimVerdict::of(all_hold && after.violations == 0)),
    ];
    let experiment = rounds::experiment("sim", claims);
    let text = text(&experiment.table(), &before, &after);
    Ok(Reproduced { experiment, text })
}

fn text(table: &str, before: &Tally, after: &Tally) -> String {
    let mut text = rounds::title("sim", rounds::shipped().tasks.len() - 1);
    text.push_str(table);
    text.push_str(&example("before: a round that failed", before.first_failed.as_ref()));
    let shown = after.first_failed.as_ref().or(after.first.as_ref());
    text.push_str(&example("after: a round", shown));
    let _ = writeln!(
        text,
        "\nbefore: NO_RT_PUSH NO_RT_PULL, {} of {} rounds failed; after: {} of {} in {} runs\n",
        before.failed, before.rounds, after.failed, after.rounds, after.runs
    );
    text
}

/// The results of many runs.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    /// The runs without a failed round.
    good: u64,
    rounds: usize,
    failed: usize,
    latest_important: Nanos,
    latest_least: Nanos,
    violations: usize,
    /// The first round, and the first failed one, with their numbers within the run.
    first: Option<(usize, Round)>,
    first_failed: Option<(usize, Round)>,
}

impl Tally {
    fn of(experiment: &Experiment, seed: u64, check: bool) -> Result<Tally, Failure> {
        let run = experiment.run(seed, check)?;
        let numbered = || run.rounds.iter().cloned().enumerate();
        let mut failed = numbered().filter(|(_, round)| !passes(round));
        let first_failed = failed.next();
        Ok(Tally {
            runs: 1,
            good: u64::from(first_failed.is_none()),
            rounds: run.rounds.len(),
            failed: usize::from(first_failed.is_some()) + failed.count(),
            latest_important: important_starts(&run.rounds).max().unwrap_or_default(),
            latest_least: least_starts(&run.rounds).max().unwrap_or_default(),
            violations: run.violations,
            first: numbered().next(),
            first_failed,
        })
    }

    /// Adds later runs; the order is that of the seeds.
    fn merge(self, later: Tally) -> Tally {
        Tally {
            runs: self.runs + later.runs,
            good: self.good + later.good,
            rounds: self.rounds + later.rounds,
            failed: self.failed + later.failed,
            latest_important: self.latest_important.max(later.latest_important),
            latest_least: self.latest_least.max(later.latest_least),
            violations: self.violations + later.violations,
            first: self.first.or(later.first),
            first_failed: self.first_failed.or(later.first_failed),
        }
    }

    /// Runs all `seeds`, on all CPUs.
    fn all(
        experiment: &Experiment,
        seeds: std::ops::RangeInclusive<u64>,
        progress: &Progress,
    ) -> Result<Tally, Failure> {
        let short = seeds == SEEDS;
        seeds
            .into_par_iter()
            .map(|seed| Tally::of(experiment, seed, short))
            .inspect(|_| progress.part_done())
            .try_reduce(Tally::default, |a, b| Ok(a.merge(b)))
    }

    fn failed_percent(&self) -> f64 {
        percent(self.failed as f64 / self.rounds as f64)
    }
}

/// The experiment on a chosen model.
#[derive(Clone, Debug)]
struct Experiment(Scenario);

/// The rounds of one run, and the violated invariants if they were checked.
#[derive(Clone, Debug)]
struct Run {
    rounds: Vec<Round>,
    violations: usize,
}

impl Experiment {
    fn new(model: Model) -> Experiment {
        let mut scenario = rounds::shipped();
        scenario.use_model(model);
        Experiment(scenario)
    }

    /// Runs the 50 rounds of `seed`.
    fn run(&self, seed: u64, check: bool) -> Result<Run, Failure> {
        let mut laps = Laps::new(self.0.tasks.len() - 1);
        let check = if check { Check::Full } else { Check::No };
        let options = Options { seed, check, ..Options::default() };
        let outcome = Sim::new(&self.0, options, &mut laps).map_err(Failure::input)?.run();
        Ok(Run { rounds: laps.rounds, violations: outcome.violations.len() })
    }
}

/// An observer that notes the laps.
#[derive(Debug)]
struct Laps {
    rounds: Vec<Round>,
    released: Time,
    /// For each thread: its executed time so far, and that time at its start.
    executed: Vec<(Nanos, Nanos)>,
    /// For each CPU: the executing thread, and the instant at which it began.
    executing: Vec<Option<(TaskId, Time)>>,
}

impl Laps {
    fn new(threads: usize) -> Laps {
        let executed = vec![Default::default(); threads + 1];
        Laps { rounds: Vec::new(), released: Time::ZERO, executed, executing: Vec::new() }
    }

    fn step(&mut self, task: TaskId, step: usize, at: Time) {
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

    /// Notes that the CPU now executes another task, or none.
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
                // The task executes while it takes a step, so its account is brought up to the present.
                self.execute(cpu, Some(task), at);
                self.step(task, step as usize, at);
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

    #[test]
    fn every_thread_has_a_lap_in_every_round() {
        let rounds = Experiment::new(Model::default()).run(3, true).unwrap().rounds;
        assert_eq!(rounds.len(), 50);
        for round in &rounds {
            assert_eq!(round.len(), 5);
            for lap in round {
                let spun = lap.end.saturating_sub(lap.start);
                let near = Nanos::from_millis(20)..Nanos::from_millis(41);
                assert!(near.contains(&spun) && lap.work <= spun && lap.work > Nanos::ZERO);
            }
            let total: u64 = round.iter().map(|lap| lap.work.0).sum();
            // A lap is 20 ms by the clock, less its 20 interrupts and its switches.
            assert!(total > 79_500_000, "the four important ones do their 20 ms each: {round:?}");
        }
    }

    #[test]
    fn without_push_and_pull_the_rule_is_broken() {
        let passive = kernel::Experiment::RtMigrate.before();
        let rounds = Experiment::new(passive).run(1, true).unwrap().rounds;
        assert!(rounds.iter().any(|round| !passes(round)));
    }
}
