//! The experiment in virtual time: with push and pull, and before them.

use super::rounds::{
    self, COLD, END, FAILED, FAILED_BESIDE, LATEST_BESIDE, LATEST_FAILED, LATEST_IMPORTANT,
    LATEST_LEAST, Lap, MASK_WRITES, MASK_WRITES_ALONE, MAX_LATE, PARENT, PUBLISHED_RUNS, RELEASE,
    ROUNDS, Round, SNEAKED_IN, SNEAKS_IN, START, example, important_starts, least_starts, passes,
    percentile,
};
use crate::claims::{Claim, ClaimVerdict, Reproduced};
use crate::figure::{Figure, micros, percent};
use crate::length::Length;
use crate::progress::Progress;
use rayon::prelude::*;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::features::Feature;
use runyard_engine::kernel::{self, Model};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_sim::{Check, Observer, Options, Sim};
use runyard_workload::Scenario;
use std::fmt::Write as _;

/// The seeds of a short run.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;

/// The time of a lap on a CPU of its own.
const LAP: Nanos = Nanos::from_millis(20);

/// The time that a task loses in caches when it moves to another CPU, where that is asked.
const COLD_CACHE: Nanos = Nanos::from_micros(100);

/// Runs the experiment in virtual time, with the balancing and before it: 20 runs, or in a soak as many as in the
/// document.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let model = Model::default();
    let passive = kernel::Experiment::RtMigrate.before();
    let seeds = length.pick(SEEDS, 1..=PUBLISHED_RUNS);
    progress.parts("runs", SEEDS.end() * (1 + Others::SETTINGS) + seeds.end());
    let before = Tally::all(&Experiment::new(passive), SEEDS, true, progress)?;
    let after = Tally::all(&Experiment::new(model), seeds, length == Length::Short, progress)?;
    let others = Others::measure(model, progress)?;
    let claims = claims(&before, &after, &others);
    let experiment = rounds::experiment("sim", claims);
    let text = text(&experiment.table(), &before, &after);
    Ok(Reproduced { experiment, text })
}

/// The claims about starts and failed rounds without push and pull: for tests that see them fail.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated_without() -> Result<Vec<Claim>, Failure> {
    let passive = Experiment::new(kernel::Experiment::RtMigrate.before());
    let before = Tally::all(&passive, 1..=4, true, &Progress::new(Length::Short))?;
    Ok(claims(&before, &before, &Others::default()))
}

/// The claims about the runs before, after, and with the other settings.
fn claims(before: &Tally, after: &Tally, others: &Others) -> Vec<Claim> {
    let (latest, least) = (after.latest_important, micros(after.latest_least));
    let (span, late) = (micros(LAP), micros(before.latest_important));
    let failing = micros(before.typical(|round| round.failed));
    let all_hold = after.failed == 0;
    let mut claims = vec![
        LATEST_IMPORTANT.claim(
            Some(late),
            Some(micros(latest)),
            ClaimVerdict::of(late >= span && latest < MAX_LATE),
        ),
        LATEST_FAILED.claim(
            Some(failing),
            Some(micros(after.typical(|_| true))),
            ClaimVerdict::of(
                (span..=span + 100.0).contains(&failing) && after.typical(|_| true) < MAX_LATE,
            ),
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
    claims.extend(others.claims(before, after));
    claims
}

/// The other settings of which the document tells.
#[derive(Debug, Default)]
struct Others {
    /// Push and pull, beside the balance that they replaced.
    beside: Tally,
    /// Moves that cost nothing, and moves that cost time, without and with `RT_WAKE_ELSEWHERE`.
    free: Tally,
    preempts: Tally,
    spares: Tally,
    /// Each thread has a CPU of its own, and so has the parent.
    alone: Tally,
    alone_before: Tally,
}

impl Others {
    /// The number of settings.
    const SETTINGS: u64 = 6;

    fn measure(model: Model, progress: &Progress) -> Result<Others, Failure> {
        let run = |experiment: Experiment| Tally::all(&experiment, SEEDS, false, progress);
        let at_cost = |cost| {
            let mut experiment = Experiment::new(model);
            experiment.0.machine.costs.migration = cost;
            experiment
        };
        let alone = |model| {
            let mut scenario = rounds::scenario(rounds::shipped().tasks.len() - 3, ROUNDS);
            scenario.use_model(model);
            Experiment(scenario)
        };
        Ok(Others {
            beside: run(Experiment::new(model).with(Feature::RtBalance))?,
            free: run(at_cost(Nanos::ZERO))?,
            preempts: run(at_cost(COLD_CACHE))?,
            spares: run(at_cost(COLD_CACHE).with(Feature::RtWakeElsewhere))?,
            alone: run(alone(model))?,
            alone_before: run(alone(kernel::Experiment::RtMigrate.before()))?,
        })
    }

    fn claims(&self, before: &Tally, after: &Tally) -> Vec<Claim> {
        let Others { beside, free, preempts, spares, alone, alone_before } = self;
        let cold = |tally: &Tally| rounded((tally.lost() - free.lost()).max(0.0));
        let shown = |figure: &Figure<'_>, before: f64, after: f64| {
            figure.claim(Some(before), Some(after), ClaimVerdict::Shown)
        };
        let sneaked = |tally: &Tally| tally.sneaked_in.len();
        vec![
            shown(&LATEST_BESIDE, micros(beside.latest_important), micros(after.latest_important)),
            shown(
                &FAILED_BESIDE,
                beside.of_thousand(beside.failed),
                after.of_thousand(after.failed),
            ),
            SNEAKED_IN.claim(
                median(&before.sneaked_in).map(micros),
                Some(median(&after.sneaked_in).map_or(0.0, micros)),
                ClaimVerdict::Shown,
            ),
            shown(
                &SNEAKS_IN,
                before.of_thousand(sneaked(before)),
                after.of_thousand(sneaked(after)),
            ),
            shown(&MASK_WRITES, before.mask_writes(), after.mask_writes()),
            MASK_WRITES_ALONE.claim(
                Some(alone_before.mask_writes()),
                Some(alone.mask_writes()),
                ClaimVerdict::of(alone.overload_changes == 0),
            ),
            COLD.claim(
                Some(cold(preempts)),
                Some(cold(spares)),
                ClaimVerdict::of(cold(spares) < cold(preempts)),
            ),
        ]
    }
}

/// The lower median.
fn median(spans: &[Nanos]) -> Option<Nanos> {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    percentile(&spans, 50)
}

fn text(table: &str, before: &Tally, after: &Tally) -> String {
    let mut text = rounds::title("sim", rounds::shipped().tasks.len() - 1);
    text.push_str(table);
    text.push_str(&example("before: a round that failed", before.first_failed.as_ref()));
    let shown = after.first_failed.as_ref().or(after.first.as_ref());
    text.push_str(&example("after: a round", shown));
    let _ = writeln!(
        text,
        "\nbefore: NO_RT_PUSH NO_RT_PULL RT_BALANCE, {} of {} rounds failed; after: {} of {} in {} runs\n",
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
    /// Each round.
    each: Vec<Judged>,
    /// The CPU time of the least important thread in each round in which it started first and was preempted.
    sneaked_in: Vec<Nanos>,
    /// The CPU time that the important threads did not have of their laps.
    lost: Nanos,
    wakeups: u64,
    overload_changes: u64,
    /// The first round, and the first failed one, with their numbers within the run.
    first: Option<(usize, Round)>,
    first_failed: Option<(usize, Round)>,
}

/// A round as it was judged.
#[derive(Clone, Copy, Debug)]
struct Judged {
    failed: bool,
    /// The latest start of a thread that is not the least important.
    latest: Nanos,
}

impl Judged {
    fn new(round: &Round) -> Judged {
        let latest = important_starts(std::slice::from_ref(round)).max().unwrap_or_default();
        Judged { failed: !passes(round), latest }
    }
}

/// Returns the CPU time of the least important thread if it started first and was preempted. Half of a lap tells that
/// from a lap with a few interrupts.
fn sneaked_in(round: &Round) -> Option<Nanos> {
    let (least, important) = round.split_first()?;
    let first = important.iter().all(|lap| least.start < lap.start);
    (first && least.work < Nanos(LAP.0 / 2)).then_some(least.work)
}

/// Returns the CPU time that the important threads of a round did not have of their laps.
fn lost(round: &Round) -> Nanos {
    Nanos(round.iter().skip(1).map(|lap| LAP.saturating_sub(lap.work).0).sum())
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
            each: run.rounds.iter().map(Judged::new).collect(),
            sneaked_in: run.rounds.iter().filter_map(sneaked_in).collect(),
            lost: run.rounds.iter().map(lost).fold(Nanos::ZERO, |sum, lost| sum + lost),
            wakeups: run.wakeups,
            overload_changes: run.overload_changes,
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
            each: [self.each, later.each].concat(),
            sneaked_in: [self.sneaked_in, later.sneaked_in].concat(),
            lost: self.lost + later.lost,
            wakeups: self.wakeups + later.wakeups,
            overload_changes: self.overload_changes + later.overload_changes,
            first: self.first.or(later.first),
            first_failed: self.first_failed.or(later.first_failed),
        }
    }

    /// Runs all `seeds`, on all CPUs. With `check` the invariants are checked.
    fn all(
        experiment: &Experiment,
        seeds: std::ops::RangeInclusive<u64>,
        check: bool,
        progress: &Progress,
    ) -> Result<Tally, Failure> {
        seeds
            .into_par_iter()
            .map(|seed| Tally::of(experiment, seed, check))
            .inspect(|_| progress.part_done())
            .try_reduce(Tally::default, |a, b| Ok(a.merge(b)))
    }

    fn failed_percent(&self) -> f64 {
        percent(self.failed as f64 / self.rounds as f64)
    }

    /// Returns this number of rounds among 1,000.
    fn of_thousand(&self, rounds: usize) -> f64 {
        rounded(rounds as f64 * 1_000.0 / self.rounds as f64)
    }

    /// Returns the median of the latest starts of the rounds that count.
    fn typical(&self, counts: impl Fn(&Judged) -> bool) -> Nanos {
        let counted = self.each.iter().filter(|round| counts(round));
        median(&counted.map(|round| round.latest).collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Returns the number of writes of the overload mask per 1,000 wake-ups.
    fn mask_writes(&self) -> f64 {
        rounded(self.overload_changes as f64 * 1_000.0 / self.wakeups as f64)
    }

    /// Returns the CPU time that the important threads of a round lost, in microseconds.
    fn lost(&self) -> f64 {
        rounded(self.lost.0 as f64 / 1_000.0 / self.rounds as f64)
    }
}

/// To a tenth.
fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}

/// The experiment on a chosen model.
#[derive(Clone, Debug)]
struct Experiment(Scenario);

/// The rounds of one run, and the violated invariants if they were checked.
#[derive(Clone, Debug)]
struct Run {
    rounds: Vec<Round>,
    violations: usize,
    wakeups: u64,
    overload_changes: u64,
}

impl Experiment {
    fn new(model: Model) -> Experiment {
        let mut scenario = rounds::shipped();
        scenario.use_model(model);
        Experiment(scenario)
    }

    fn with(mut self, feature: Feature) -> Experiment {
        self.0.features = self.0.features.with(feature);
        self
    }

    /// Runs the 50 rounds of `seed`.
    fn run(&self, seed: u64, check: bool) -> Result<Run, Failure> {
        let mut laps = Laps::new(self.0.tasks.len() - 1);
        let check = if check { Check::Full } else { Check::No };
        let options = Options { seed, check, ..Options::default() };
        let outcome = Sim::new(&self.0, options, &mut laps).map_err(Failure::input)?.run();
        Ok(Run {
            rounds: laps.rounds,
            violations: outcome.violations.len(),
            wakeups: laps.wakeups,
            overload_changes: outcome.overload_changes,
        })
    }
}

/// An observer that notes the laps.
#[derive(Debug)]
struct Laps {
    rounds: Vec<Round>,
    released: Time,
    wakeups: u64,
    /// For each thread: its executed time so far, and that time at its start.
    executed: Vec<(Nanos, Nanos)>,
    /// For each CPU: the executing thread, and the instant at which it began.
    executing: Vec<Option<(TaskId, Time)>>,
}

impl Laps {
    fn new(threads: usize) -> Laps {
        let executed = vec![Default::default(); threads + 1];
        let (released, rounds, executing) = (Time::ZERO, Vec::new(), Vec::new());
        Laps { rounds, released, wakeups: 0, executed, executing }
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
            What::Wake { .. } => self.wakeups += 1,
            What::Exec { task, .. } => self.execute(cpu, Some(task), at),
            What::Overhead | What::Idle => self.execute(cpu, None, at),
            _ => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        claims(&Tally::default(), &Tally { runs: 20, ..Tally::default() }, &Others::default())
    }

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
