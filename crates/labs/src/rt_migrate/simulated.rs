//! The experiment in virtual time: with push and pull, and before them.

use super::rounds::{
    self, END, Lap, MAX_LATE, PARENT, PUBLISHED_RUNS, RELEASE, ROUNDS, Round, START, example,
    important_starts, least_starts, passes, percentile,
};
use crate::claims::{Claim, ClaimVerdict, Reproduced};
use crate::figure::{micros, percent, rounded};
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
    let threads = rounds::shipped().tasks.len() - 1;
    Ok(rounds::reproduced("sim", threads, claims, || text(&before, &after)))
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
    let (span, soon) = (micros(LAP), micros(MAX_LATE));
    let both = |of: &dyn Fn(&Tally) -> f64| [before, after].map(of);
    let some = |[before, after]: [f64; 2]| [Some(before), Some(after)];
    let latest = both(&|it| micros(it.latest(important_starts)));
    let least = both(&|it| micros(it.latest(least_starts)));
    let typical = [micros(before.typical(|round| !passes(round))), micros(after.typical(|_| true))];
    let (failed_before, failed) = (before.failed(), after.failed());
    let violated = after.runs.iter().any(|run| run.violations > 0);
    let late = ClaimVerdict::of(latest[0] >= span && latest[1] < soon);
    let as_late =
        ClaimVerdict::of((span..=span + 100.0).contains(&typical[0]) && typical[1] < soon);
    let after_a_lap = ClaimVerdict::of((span..span + soon).contains(&least[1]));
    let none_fails = ClaimVerdict::of(failed_before > 0 && failed == 0);
    // The document prints one failing round, and of the others one that is called typical.
    let what = "latest start in a median round, before of those that failed";
    let mut claims = vec![
        rounds::latest_important(some(latest), late),
        Claim::of(what, "us", some(typical), as_late).beside([Some(20_041.0), Some(61.0)]),
        rounds::latest_least(some(least), after_a_lap),
        rounds::failed(some(both(&Tally::failed_percent)), none_fails),
        rounds::runs(
            after.good(),
            after.runs.len() as u64,
            ClaimVerdict::of(failed == 0 && !violated),
        ),
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
        let shown = ClaimVerdict::Shown;
        let claim = |what: &str, unit: &str, [before, after]: [f64; 2], verdict| {
            Claim::of(what, unit, [Some(before), Some(after)], verdict)
        };
        let in_thousand = |it: &Tally, rounds: usize| per_thousand(rounds, it.rounds().count());
        // With the balance of CFS, as the document's testing had it, and as the series is.
        let balances = [beside, after];
        let latest = balances.map(|it| micros(it.latest(important_starts)));
        let failed = balances.map(|it| in_thousand(it, it.failed()));
        let sneaks = [before, after].map(|it| in_thousand(it, it.sneaked_in().len()));
        let sneaked = [before, after].map(|it| median(it.sneaked_in()).map(micros));
        let sneaked = [sneaked[0], sneaked[1].or(Some(0.0))];
        // A CPU writes the mask when it becomes overloaded, and when it no longer is.
        let writes = |it: &Tally| per_thousand(it.sum(|run| run.overload_changes), it.wakeups());
        let alone_writes = [alone_before, alone].map(writes);
        let never = ClaimVerdict::of(alone.sum(|run| run.overload_changes) == 0);
        // The CPU time that the important threads lose in a round when a move to another CPU costs that.
        let cold = [preempts, spares].map(|it| rounded((it.lost() - free.lost()).max(0.0), 1));
        let spared = ClaimVerdict::of(cold[1] < cold[0]);
        let of_thousand = "of 1,000";
        let of_wakeups = "of 1,000 wake-ups";
        vec![
            claim("latest start, push and pull: beside RT_BALANCE, alone", "us", latest, shown)
                .beside([None, Some(61.0)]),
            claim(
                "rounds that fail, push and pull: beside RT_BALANCE, alone",
                of_thousand,
                failed,
                shown,
            )
            .beside([None, Some(0.0)]),
            // The document has loops: 28, where a thread that is not preempted has 167,769 on average in its 20 ms.
            Claim::of(
                "the least important starts first, is preempted: CPU time, p50",
                "us",
                sneaked,
                shown,
            )
            .beside([None, Some(3.3)]),
            // The second round that the document prints is one of these.
            claim(
                "rounds in which the least important starts first, is preempted",
                of_thousand,
                sneaks,
                shown,
            ),
            claim(
                "writes of the overload mask, a thread more than CPUs",
                of_wakeups,
                [before, after].map(writes),
                shown,
            ),
            claim(
                "writes of the overload mask, each real-time thread alone on its CPU",
                of_wakeups,
                alone_writes,
                never,
            )
            .beside([None, Some(0.0)]),
            claim(
                "cold caches, 100 us a move: by default, RT_WAKE_ELSEWHERE",
                "us a round",
                cold,
                spared,
            ),
        ]
    }
}

fn per_thousand(part: usize, of: usize) -> f64 {
    rounded(part as f64 * 1_000.0 / of as f64, 1)
}

/// The lower median.
fn median(mut spans: Vec<Nanos>) -> Option<Nanos> {
    spans.sort_unstable();
    percentile(&spans, 50)
}

fn text(before: &Tally, after: &Tally) -> String {
    let first = |it: &Tally, counts: fn(&Round) -> bool| {
        let mut all = it.runs.iter().flat_map(|run| run.rounds.iter().enumerate());
        all.find(|(_, round)| counts(round)).map(|(nth, round)| (nth, round.clone()))
    };
    let failed = |it| first(it, |round| !passes(round));
    let shown = failed(after).or_else(|| first(after, |_| true));
    let counts = |it: &Tally| format!("{} of {}", it.failed(), it.rounds().count());
    format!(
        "{}{}\nbefore: NO_RT_PUSH NO_RT_PULL RT_BALANCE, {} rounds failed; after: {} in {} runs\n\n",
        example("before: a round that failed", failed(before).as_ref()),
        example("after: a round", shown.as_ref()),
        counts(before),
        counts(after),
        after.runs.len()
    )
}

/// The results of many runs, in the order of their seeds.
#[derive(Debug, Default)]
struct Tally {
    runs: Vec<Run>,
}

/// Returns the CPU time of the least important thread if it started first and was preempted. Half of a lap tells that
/// from a lap with a few interrupts.
fn sneaked_in(round: &Round) -> Option<Nanos> {
    let (least, important) = round.split_first()?;
    let first = important.iter().all(|lap| least.start < lap.start);
    (first && least.work < Nanos(LAP.0 / 2)).then_some(least.work)
}

impl Tally {
    /// Runs all `seeds`, on all CPUs. With `check` the invariants are checked.
    fn all(
        experiment: &Experiment,
        seeds: std::ops::RangeInclusive<u64>,
        check: bool,
        progress: &Progress,
    ) -> Result<Tally, Failure> {
        let run = |seed| experiment.run(seed, check).inspect(|_| progress.part_done());
        Ok(Tally { runs: seeds.into_par_iter().map(run).collect::<Result<_, _>>()? })
    }

    fn rounds(&self) -> impl Iterator<Item = &Round> {
        self.runs.iter().flat_map(|run| &run.rounds)
    }

    /// The number of rounds that failed, and of runs without one.
    fn failed(&self) -> usize {
        self.rounds().filter(|round| !passes(round)).count()
    }

    fn good(&self) -> u64 {
        self.runs.iter().filter(|run| run.rounds.iter().all(|round| passes(round))).count() as u64
    }

    fn failed_percent(&self) -> f64 {
        percent(self.failed() as f64 / self.rounds().count() as f64)
    }

    fn sum(&self, of: fn(&Run) -> u64) -> usize {
        self.runs.iter().map(of).sum::<u64>() as usize
    }

    fn wakeups(&self) -> usize {
        self.sum(|run| run.wakeups)
    }

    /// Returns the latest of some starts.
    fn latest<'r, S: Iterator<Item = Nanos>>(&'r self, starts: fn(&'r [Round]) -> S) -> Nanos {
        self.runs.iter().flat_map(|run| starts(&run.rounds)).max().unwrap_or_default()
    }

    /// Returns the median of the latest starts of the rounds that count.
    fn typical(&self, counts: impl Fn(&Round) -> bool) -> Nanos {
        let counted = self.rounds().filter(|round| counts(round));
        let latest = counted.map(|it| important_starts(std::slice::from_ref(it)).max());
        median(latest.map(Option::unwrap_or_default).collect()).unwrap_or_default()
    }

    /// Returns the CPU time of the least important thread in each round in which it started first and was preempted.
    fn sneaked_in(&self) -> Vec<Nanos> {
        self.rounds().filter_map(sneaked_in).collect()
    }

    /// Returns the CPU time that the important threads of a round did not have of their laps, in microseconds.
    fn lost(&self) -> f64 {
        let lost = |round: &Round| {
            round.iter().skip(1).map(|lap| LAP.saturating_sub(lap.work).0).sum::<u64>()
        };
        let sum = self.rounds().map(lost).sum::<u64>();
        rounded(sum as f64 / 1_000.0 / self.rounds().count() as f64, 1)
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
        let run = || Run { rounds: vec![], violations: 0, wakeups: 0, overload_changes: 0 };
        let after = Tally { runs: (0..20).map(|_| run()).collect() };
        claims(&Tally::default(), &after, &Others::default())
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
