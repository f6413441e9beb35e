//! The parts of the experiment that all hosts share: the scenario, the rule that judges a round, the text of rounds,
//! and the rows with the figures of the founding document.

use crate::figure::{micros, percent};
use crate::lap::{Lap, Round};
use crate::rows::Row;
use crate::setting::{Seen, Setting};
use runyard_engine::attr::{Policy, RtPrio};
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;
use runyard_workload::Scenario;
use std::fmt::Write as _;

/// The scenario: a parent, then the threads from the least to the most important.
const SCENARIO: &str = include_str!("../../scenarios/rt-migrate.json");
pub(super) const PARENT: TaskId = TaskId(0);

/// The steps of the parent and of a thread at which times are noted.
pub(super) const PREPARE: usize = 0;
pub(super) const RELEASE: usize = 1;
pub(super) const START: usize = 1;
pub(super) const END: usize = 2;

/// The number of rounds in a run.
pub(super) const ROUNDS: u32 = 50;

/// The number of runs without a failure in the founding document.
pub(super) const PUBLISHED_RUNS: u64 = 6_500;

/// The largest delay of a start or an end after that of a less important thread (`-m`).
pub(super) const MAX_LATE: Nanos = Nanos::from_millis(1);

/// The number of CPUs in the founding document.
pub(super) const PUBLISHED_CPUS: u8 = 4;

/// The largest number of CPUs. Priorities are needed for a thread on each CPU, one more thread, the parent, and less
/// important tasks.
pub(super) const MOST_CPUS: usize = 99 - 3;

/// The largest number of threads in the text of a round; more do not fit into a line.
const THREADS_SHOWN: usize = 12;

/// The test's rule: no thread waited for a less important one. A late start is allowed if the thread did at least as
/// much work, began before the other ended, and ended not too long after it. The part of a delay that the machine made
/// does not count.
pub(super) fn passes(round: &[Lap]) -> bool {
    round.windows(2).all(|pair| {
        let [less, more] = [pair[0], pair[1]];
        let late = more.start > less.start + MAX_LATE + more.kept;
        let made_up =
            more.work >= less.work && more.start <= less.end && more.end <= less.end + MAX_LATE;
        !late || made_up
    })
}

/// The rounds of all runs.
pub(super) fn rounds<'r>(runs: &'r [&Seen]) -> impl Iterator<Item = &'r Round> + Clone {
    runs.iter().flat_map(|run| &run.rounds)
}

/// The number of rounds that failed.
pub(super) fn failed(runs: &[&Seen]) -> usize {
    rounds(runs).filter(|round| !passes(round)).count()
}

/// The starts of all threads but the least important one.
pub(super) fn important_starts(runs: &[&Seen]) -> impl Iterator<Item = Nanos> {
    rounds(runs).flat_map(|round| round.iter().skip(1).map(|lap| lap.start))
}

/// The smallest value of `sorted` that so many per cent of the values do not exceed.
pub(super) fn percentile(sorted: &[Nanos], percent: usize) -> Option<Nanos> {
    sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied()
}

/// The shipped scenario: 4 CPUs and 5 threads.
pub(super) fn shipped() -> Setting {
    Setting::of("rt-migrate.json", SCENARIO)
}

/// The same with this number of threads and rounds.
pub(super) fn setting(threads: usize, rounds: u32) -> Setting {
    shipped().edit(move |scenario| set_threads(scenario, threads, rounds))
}

/// Gives the scenario this number of threads and rounds. Each thread is like the first, with a priority higher by one; the
/// parent has the highest.
fn set_threads(scenario: &mut Scenario, threads: usize, rounds: u32) {
    let (mut parent, least) = (scenario.tasks[PARENT.index()].clone(), scenario.tasks[1].clone());
    let lowest = least.properties.policy.map(Policy::priority).expect("a real-time thread");
    let policy = |above: usize| {
        let prio = RtPrio::new(lowest + above as i64);
        Some(Policy::Fifo(prio.expect("no more threads than there are priorities")))
    };
    parent.properties.policy = policy(threads);
    scenario.tasks = vec![parent];
    scenario.tasks.extend((0..threads).map(|nth| {
        let mut thread = least.clone();
        thread.name = format!("t{nth}");
        thread.properties.policy = policy(nth);
        thread
    }));
    for task in &mut scenario.tasks {
        task.phases.iter_mut().for_each(|phase| phase.loops = Some(rounds));
    }
    scenario.objects.barriers.iter_mut().for_each(|(_, users)| *users = threads as u32 + 1);
}

/// A line that describes the rounds.
pub(super) fn title(threads: usize) -> String {
    let (cpus, most) = (threads - 1, threads + 1);
    let plural = if cpus == 1 { "" } else { "s" };
    format!(
        "{cpus} CPU{plural}, {threads} SCHED_FIFO threads of priorities 2 to {most}, released together {ROUNDS} \
         times a run"
    )
}

/// An example of these runs with its number in its run: the first round that failed, otherwise the first one.
pub(super) fn example(host: &str, runs: &[&Seen]) -> String {
    let all = || runs.iter().flat_map(|run| run.rounds.iter().enumerate());
    let (what, found) = match all().find(|(_, round)| !passes(round)) {
        Some(failed) => ("a round that failed", Some(failed)),
        None => ("a round", all().next()),
    };
    let Some((at, round)) = found else { return String::new() };
    format!("\n{host}: {what}, us (the least important thread first)\n{}", as_printed(at, round))
}

/// A round in the form of the original, with CPU time instead of loops.
fn as_printed(number: usize, round: &Round) -> String {
    let row = |of: fn(&Lap) -> Nanos| {
        let mut cells = String::new();
        for lap in round.iter().take(THREADS_SHOWN) {
            let _ = write!(cells, "{:>8}", of(lap).0 / 1_000);
        }
        cells + if round.len() > THREADS_SHOWN { " ..." } else { "" }
    };
    let (starts, ends, work) = (row(|lap| lap.start), row(|lap| lap.end), row(|lap| lap.work));
    format!("{number:>6}:{starts}\n   len:{ends}\n   CPU:{work}\n")
}

/// The rows that all hosts have: the latest start of the others, and of the least important thread; and the rounds that
/// failed.
pub(super) fn latest_important() -> Row<Seen> {
    latest("latest start of a thread that is not the least important").published(20_041.0, 61.0)
}

/// The row about the latest start of the others with this name.
pub(super) fn latest(what: &str) -> Row<Seen> {
    Row::new(what, "us", |runs: &[&Seen]| important_starts(runs).max().map(micros))
}

pub(super) fn latest_least() -> Row<Seen> {
    let row = Row::new("latest start of the least important thread", "us", |runs: &[&Seen]| {
        rounds(runs).map(|round| round[0].start).max().map(micros)
    });
    row.published(None, 20_060.0)
}

pub(super) fn failed_percent() -> Row<Seen> {
    let what = "rounds in which a thread waited for a less important one";
    let row = Row::new(what, "%", |runs: &[&Seen]| {
        percent(failed(runs) as f64 / rounds(runs).count().max(1) as f64)
    });
    row.published(None, 0.0)
}

/// The row about the runs without a failure, of so many.
pub(super) fn good_runs(all: u64) -> Row<Seen> {
    let what = format!("runs of {ROUNDS} rounds without a failure, of {all}");
    let row = Row::new(what, "runs", |runs: &[&Seen]| {
        runs.iter().filter(|run| failed(&[**run]) == 0).count() as f64
    });
    row.after(1).published(None, PUBLISHED_RUNS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lap(start: u64, end: u64, work: u64) -> Lap {
        let us = Nanos::from_micros;
        Lap { start: us(start), end: us(end), work: us(work), kept: Nanos::ZERO }
    }

    #[test]
    fn the_rule_is_the_tests_own() {
        // The two passed rounds and the failed round of the founding document.
        let late_least = [(20_060, 40_060), (61, 20_061), (55, 20_055)];
        let round: Vec<_> = late_least.iter().map(|&(s, e)| lap(s, e, 20_000)).collect();
        assert!(passes(&round));
        assert!(passes(&[lap(40, 20_040, 3), lap(46, 20_046, 20_000)]));
        assert!(!passes(&[lap(33, 20_033, 20_000), lap(20_041, 40_041, 27_000)]));
        // The start is late, but the thread did as much work, began in time and ended in time.
        assert!(passes(&[lap(10, 20_010, 100), lap(5_000, 21_000, 15_000)]));
        assert!(!passes(&[lap(10, 20_010, 100), lap(5_000, 21_011, 15_000)]));
        // The machine had no CPU for most of the delay, and for less than that.
        let kept = |kept| Lap { kept: Nanos::from_micros(kept), ..lap(5_000, 25_000, 15_000) };
        assert!(passes(&[lap(10, 20_010, 100), kept(4_000)]));
        assert!(!passes(&[lap(10, 20_010, 100), kept(3_900)]));
    }

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let starts: Vec<_> = (1..=100).map(Nanos).collect();
        let of = |percent| percentile(&starts, percent).unwrap();
        assert_eq!([50, 99, 100].map(of), [50, 99, 100].map(Nanos));
        assert_eq!(percentile(&starts[..1], 50), Some(Nanos(1)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn the_shipped_scenario_is_one_of_any_number_of_threads() {
        let scenario = |threads, rounds| setting(threads, rounds).scenario().unwrap();
        let (shipped, made) = (shipped().scenario().unwrap(), scenario(5, ROUNDS));
        assert_eq!(format!("{made:?}"), format!("{shipped:?}"));
        let large = scenario(MOST_CPUS + 1, 3);
        assert_eq!(large.tasks.len(), 98);
        assert_eq!(large.tasks[97].properties.policy.unwrap().priority(), 98);
        assert_eq!(large.tasks[0].properties.policy.unwrap().priority(), 99);
    }
}
