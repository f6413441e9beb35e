//! The experiment in virtual time: with push and pull, and before them.

use super::rounds::{
    self, END, MAX_LATE, PARENT, PUBLISHED_RUNS, RELEASE, ROUNDS, START, example, failed,
    failed_percent, good_runs, latest, latest_important, latest_least, passes, percentile, rounds,
};
use crate::figure::{micros, rounded};
use crate::lap::{Lap, Round};
use crate::length::Length;
use crate::rows::{Row, Sides, Word};
use crate::setting::{Part, Seen, Setting, Simulated, Watch};
use runyard_engine::event::What;
use runyard_engine::features::Feature;
use runyard_engine::kernel::Experiment;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::Scenario;

/// The number of seeds of a short run.
const SEEDS: u64 = 20;

/// The number of threads of the shipped scenario.
const THREADS: usize = 5;

/// The time of a lap on a CPU of its own, and in us that, the largest delay of a start, and a start that is as late as in
/// the document.
const LAP: Nanos = Nanos::from_millis(20);
const LAP_US: f64 = 20_000.0;
const SOON_US: f64 = MAX_LATE.0 as f64 / 1e3;
const AS_LATE: std::ops::RangeInclusive<f64> = LAP_US..=LAP_US + 100.0;

/// The time that a task loses in caches when it moves to another CPU, where that is asked, in ns.
const COLD_CACHE: u64 = 100_000;

/// The settings: before, and after. Then those of which the document tells besides: push and pull, beside the balance
/// that they replaced; moves that cost nothing, and moves that cost time, without and with `RT_WAKE_ELSEWHERE`; and, before
/// and after, each thread with a CPU of its own, as the parent has.
const BEFORE: usize = 0;
const AFTER: usize = 1;
const BESIDE: usize = 2;
const FREE: usize = 3;
const PREEMPTS: usize = 4;
const SPARES: usize = 5;
const ALONE_BEFORE: usize = 6;
const ALONE: usize = 7;

/// The experiment: 20 runs of each setting, and in a soak as many after as in the document.
pub(crate) fn experiment(length: Length) -> Simulated {
    of_seeds(length, SEEDS)
}

/// A few runs, and all parts, which fail without push and pull.
pub(crate) fn broken() -> (Simulated, Vec<&'static str>) {
    (of_seeds(Length::Short, 4), vec![""])
}

fn of_seeds(length: Length, seeds: u64) -> Simulated {
    let soaked = length.pick(seeds, PUBLISHED_RUNS);
    let after = setting().seeds(1..=soaked).checked(length == Length::Short);
    let other = setting().seeds(1..=seeds);
    let at_cost = |cost| other.clone().set("machine.costs.migration_ns", cost);
    let alone = rounds::setting(THREADS - 2, ROUNDS).watch(laps).seeds(1..=seeds);
    let settings = vec![
        other.clone().checked(true).before(Experiment::RtMigrate),
        after,
        other.clone().feature(Feature::RtBalance, true),
        at_cost(0),
        at_cost(COLD_CACHE),
        at_cost(COLD_CACHE).feature(Feature::RtWakeElsewhere, true),
        alone.clone().before(Experiment::RtMigrate),
        alone,
    ];
    let rows = documents(soaked).into_iter().chain(besides()).collect();
    Simulated {
        document: Experiment::RtMigrate,
        title: rounds::title(THREADS),
        parts: vec![Part::new("", settings, rows).text(text)],
        soak: None,
    }
}

/// The shipped scenario, with its laps watched.
fn setting() -> Setting {
    rounds::shipped().watch(laps)
}

/// The rows about the settings before and after.
fn documents(soaked: u64) -> Vec<Row<Seen>> {
    // The document prints one failing round, and of the others one that is called typical.
    let what = "latest start in a median round, before of those that failed";
    let typical = Row::beside(what, "us", |sides, side| {
        let counted = rounds(&sides[side]).filter(|round| side == AFTER || !passes(round));
        let latest = counted.map(|round| round.iter().skip(1).map(|lap| lap.start).max());
        Some(median(latest.flatten().collect()).map_or(f64::NAN, micros))
    });
    vec![
        latest_important().holds(|before, after| before >= LAP_US && after < SOON_US),
        typical
            .published(20_041.0, 61.0)
            .holds(|before, after| AS_LATE.contains(&before) && after < SOON_US),
        latest_least().holds(|_, after| (LAP_US..LAP_US + SOON_US).contains(&after)),
        failed_percent().holds(|before, after| before > 0.0 && after == 0.0),
        good_runs(soaked).judged_by(Word::Holds, |sides: &Sides<'_, Seen>, _| {
            failed(&sides[AFTER]) == 0 && sides[AFTER].iter().all(|run| run.violations == 0)
        }),
    ]
}

/// The rows about what the document tells besides.
fn besides() -> Vec<Row<Seen>> {
    let of_thousand = |what, of: fn(&[&Seen]) -> usize| {
        Row::new(what, "of 1,000", move |runs: &[&Seen]| {
            per_thousand(of(runs), rounds(runs).count())
        })
    };
    // A CPU writes the mask when it becomes overloaded, and when it no longer is.
    let writes = |what| {
        Row::new(what, "of 1,000 wake-ups", |runs: &[&Seen]| {
            let [writes, wakeups] = [|it: &Seen| it.overload_changes, |it: &Seen| it.wakeups]
                .map(|of| runs.iter().map(|run| of(run)).sum::<u64>() as usize);
            per_thousand(writes, wakeups)
        })
    };
    let sneaked = Row::new(
        "the least important starts first, is preempted: CPU time, p50",
        "us",
        |runs: &[&Seen]| median(rounds(runs).filter_map(sneaked_in).collect()).map_or(0.0, micros),
    );
    // The CPU time that the important threads lose in a round when a move to another CPU costs that.
    let cold = Row::beside(
        "cold caches, 100 us a move: by default, RT_WAKE_ELSEWHERE",
        "us a round",
        |sides, side| Some(rounded((lost(&sides[side]) - lost(&sides[FREE])).max(0.0), 1)),
    );
    vec![
        latest("latest start, push and pull: beside RT_BALANCE, alone")
            .of(BESIDE, AFTER)
            .published(None, 61.0),
        of_thousand("rounds that fail, push and pull: beside RT_BALANCE, alone", failed)
            .of(BESIDE, AFTER)
            .published(None, 0.0),
        // The document has loops: 28, where a thread that is not preempted has 167,769 on average in its 20 ms.
        sneaked.published(None, 3.3),
        // The second round that the document prints is one of these.
        of_thousand("rounds in which the least important starts first, is preempted", |runs| {
            rounds(runs).filter_map(sneaked_in).count()
        }),
        writes("writes of the overload mask, a thread more than CPUs"),
        writes("writes of the overload mask, each real-time thread alone on its CPU")
            .of(ALONE_BEFORE, ALONE)
            .published(None, 0.0)
            .judged_by(Word::Holds, |sides, _| {
                sides[ALONE].iter().all(|run| run.overload_changes == 0)
            }),
        cold.of(PREEMPTS, SPARES).holds(|preempts, spares| spares < preempts),
    ]
}

fn text(sides: &[Vec<Seen>]) -> String {
    let [before, after] = [BEFORE, AFTER].map(|side| sides[side].iter().collect::<Vec<_>>());
    let counts = |runs: &[&Seen]| format!("{} of {}", failed(runs), rounds(runs).count());
    format!(
        "{}{}\nbefore: NO_RT_PUSH NO_RT_PULL RT_BALANCE, {} rounds failed; after: {} in {} runs\n",
        example("before", &before),
        example("after", &after),
        counts(&before),
        counts(&after),
        after.len()
    )
}

fn per_thousand(part: usize, of: usize) -> f64 {
    rounded(part as f64 * 1_000.0 / of as f64, 1)
}

/// The lower median.
fn median(mut spans: Vec<Nanos>) -> Option<Nanos> {
    spans.sort_unstable();
    percentile(&spans, 50)
}

/// Returns the CPU time of the least important thread if it started first and was preempted. Half of a lap tells that
/// from a lap with a few interrupts.
fn sneaked_in(round: &Round) -> Option<Nanos> {
    let (least, important) = round.split_first()?;
    let first = important.iter().all(|lap| least.start < lap.start);
    (first && least.work < Nanos(LAP.0 / 2)).then_some(least.work)
}

/// Returns the CPU time that the important threads of a round did not have of their laps, in microseconds.
fn lost(runs: &[&Seen]) -> f64 {
    let laps = rounds(runs).flat_map(|round| round.iter().skip(1));
    let lost: u64 = laps.map(|lap| LAP.saturating_sub(lap.work).0).sum();
    rounded(lost as f64 / 1_000.0 / rounds(runs).count() as f64, 1)
}

/// Watches the laps of all threads, and counts the wake-ups.
fn laps(scenario: &Scenario) -> Watch {
    let threads = scenario.tasks.len() - 1;
    let mut released = Time::ZERO;
    // The executed time of each thread at its start.
    let mut at_start = vec![Nanos::ZERO; threads];
    Box::new(move |event, used, seen| match event.what {
        What::Wake { .. } => seen.wakeups += 1,
        What::Step { task: PARENT, step, .. } if step as usize == RELEASE => {
            released = event.at;
            seen.rounds.push(vec![Lap::default(); threads]);
        }
        What::Step { task, step, .. } if task != PARENT => {
            let Some(round) = seen.rounds.last_mut() else { return };
            let thread = task.index() - 1;
            let (lap, executed) = (&mut round[thread], used.of_task(task));
            match step as usize {
                START => {
                    lap.start = event.at.since(released);
                    at_start[thread] = executed;
                }
                END => {
                    lap.end = event.at.since(released);
                    lap.work = executed - at_start[thread];
                }
                _ => {}
            }
        }
        _ => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_lap_in_every_round() {
        let rounds = setting().checked(true).run(3).unwrap().rounds;
        assert_eq!(rounds.len(), 50);
        for round in &rounds {
            assert_eq!(round.len(), THREADS);
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
}
