//! The experiment on this machine's CPUs: on the runtime, and in the same run as kernel threads with the same
//! priorities, in this process and by the original program.
//!
//! The same rule judges a round of the runtime and a round of the original. But the runtime's workers are ordinary
//! threads of the machine, which can take a CPU away from them for another process. So the rounds of the runtime are
//! judged while [others leave the CPUs alone](crate::quiet). Even then a daemon may have a CPU for some milliseconds when
//! the threads are released. So a delay counts without the time in which threads of this process were kept waiting for a
//! CPU of the machine. A worker that another worker of the runtime keeps waiting looks the same. But that takes some
//! milliseconds, and a thread that waits for a less important one waits for the 20 ms of a round. Kernel threads with
//! real-time priorities have no such exception.
//!
//! Only the rule can fail. The start times of the threads are times on a machine with other work. They are shown beside
//! the kernel's own of the same minute. The goal stands beside the ratio if others left the CPUs alone, for a person to
//! judge.

use super::original;
use super::rounds::{
    END, MOST_CPUS, PARENT, PREPARE, PUBLISHED_CPUS, RELEASE, ROUNDS, START, example, failed,
    failed_percent, good_runs, important_starts, latest_important, latest_least, percentile,
    rounds, setting, title,
};
use crate::claims::{Claim, ClaimVerdict, Reproduced, Unjudged};
use crate::figure::{micros, rounded};
use crate::lap::Lap;
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried, deciding};
use crate::rows::{self, Row, Runs, Word};
use crate::setting::{Seen, Setting};
use crate::steps::{self, Host};
use runyard_engine::features::Feature;
use runyard_engine::kernel;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::clock::cpu_time;
use runyard_hosts::machine;
use runyard_outcome::Failure;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::Step;
use std::fmt::Write as _;
use std::time::Duration;

/// The hosts of the runs: the runtime without push and pull, and with them; kernel threads; and the original program.
const BEFORE: usize = 0;
const LIVE: usize = 1;
const LINUX: usize = 2;
const ORIGINAL: usize = 3;

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 20;

/// The number of rounds of the original.
const ROUNDS_OF_ORIGINAL: u32 = 25;

/// The times of a round, and of one of the original.
const ROUND: Duration = Duration::from_millis(140);
const ROUND_OF_ORIGINAL: Duration = Duration::from_millis(200);

/// The rounds without the mechanism, and the time between two releases. On two CPUs 5 to 10 of 100 rounds break the rule
/// then. So many rounds leave no chance that none does.
const ROUNDS_WITHOUT: u32 = 200;
const APART_WITHOUT: Nanos = Nanos::from_millis(50);

/// The rounds without the mechanism that are shown.
const ROUNDS_BEFORE: u32 = 60;

const WITHOUT: &str = "rounds without push and pull";

/// The goal: the median start, relative to the kernel's own.
const GOAL: f64 = 1.5;

/// Runs the experiment once on this machine, or 20 times in a soak.
pub(crate) fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = cpus()?;
    let runs = length.pick(1, SOAK_RUNS);
    let each = 2 * ROUNDS * ROUND + ROUNDS_OF_ORIGINAL * ROUND_OF_ORIGINAL;
    // On one CPU there is nowhere to push to.
    let before = if cpus.len() > 1 { ROUNDS_BEFORE } else { 0 };
    let takes = each * runs as u32 + takes_without(before) + price::TAKES;
    let mut course = Course::new(length, takes, progress);
    let price = price::measured(kernel::Experiment::RtMigrate, cpus.len(), &mut course)?;
    let mut hosts = [const { Vec::new() }; 4];
    if before > 0 {
        let run = || without(&cpus, before, true);
        hosts[BEFORE].push(Tried::quiet(course.once(WITHOUT, takes_without(before), run)?));
    }
    on_hosts(&cpus, (runs, ROUNDS), &mut hosts, (&mut course, progress))?;
    let mut claims = rows::claims(&rows(cpus.len() + 1, deciding(&hosts[LIVE]).len()), &hosts);
    claims.extend(price);
    let title = format!("rt-migrate on live: {}\n\n", title(cpus.len() + 1));
    Ok(Reproduced::of("rt-migrate", "live", claims, |table| title + table + &text(&hosts) + "\n"))
}

/// The CPUs of this machine, as many as there are priorities for.
fn cpus() -> Result<Vec<usize>, Failure> {
    let mut cpus = machine::cpus()?;
    cpus.truncate(MOST_CPUS);
    Ok(cpus)
}

/// The claims about the runtime without push and pull, in one try: for tests that see them fail. On one CPU there is
/// nowhere to push to.
pub(crate) fn live_without(progress: &Progress) -> Result<Vec<Claim>, Failure> {
    let cpus = cpus()?;
    let run = |_| without(&cpus, ROUNDS_WITHOUT, false);
    let takes = takes_without(ROUNDS_WITHOUT);
    let tried = Course::of_one_try(progress).quiet(WITHOUT, takes, run)?;
    let mut rows = rows(cpus.len() + 1, 1);
    rows.truncate(PUBLISHED);
    Ok(rows::claims(&rows, &[vec![], vec![tried]]))
}

/// The time of so many rounds without the mechanism.
fn takes_without(rounds: u32) -> Duration {
    rounds * Duration::from_nanos(APART_WITHOUT.0)
}

/// So many rounds without push and pull; with the balance that they replaced, or with nothing. Few rounds break the rule
/// where that balance takes what waits.
fn without(cpus: &[usize], rounds: u32, balance: bool) -> Result<Seen, Failure> {
    let setting = setting(cpus.len() + 1, rounds).before(kernel::Experiment::RtMigrate);
    let setting = setting.feature(Feature::RtBalance, balance).edit(|scenario| {
        scenario.tasks[PARENT.index()].phases[0].steps.change(|step| match step {
            Step::Sleep(_) => Step::Sleep(Draw::Fixed(APART_WITHOUT)),
            other => other,
        });
    });
    run(&setting, (Host::Live, cpus), 1)
}

/// Adds so many runs of so many rounds on each host, one after the other. A host has no runs where it is missing or
/// refuses.
fn on_hosts(
    cpus: &[usize],
    (runs, rounds): (u64, u32),
    hosts: &mut [Runs<Seen>; 4],
    (course, progress): (&mut Course<'_>, &Progress),
) -> Result<(), Failure> {
    let threads = cpus.len() + 1;
    let setting = setting(threads, rounds);
    let takes = ROUND * rounds;
    // The original goes on without priorities where they are refused. That would compare nothing.
    let mut is_refused = false;
    for seed in 1..=runs {
        let on_runtime = |seed| run(&setting, (Host::Live, cpus), seed);
        hosts[LIVE].push(course.seeded("rounds on the runtime", takes, seed, on_runtime)?);
        if is_refused {
            continue;
        }
        let on_kernel = || run(&setting, (Host::Linux, cpus), seed);
        match course.once("rounds as kernel threads", takes, on_kernel) {
            Ok(mut run) => {
                run.rounds.iter_mut().flatten().for_each(|lap| lap.kept = Nanos::ZERO);
                hosts[LINUX].push(Tried::quiet(run));
            }
            Err(Failure::Refused(why) | Failure::Input(why)) => {
                progress.say(format!("no figures of the kernel's own: {why}"));
                is_refused = true;
                continue;
            }
        }
        let of_original = rounds.min(ROUNDS_OF_ORIGINAL);
        let takes = ROUND_OF_ORIGINAL * of_original;
        let original = || original::rounds(threads, of_original);
        let rounds = course.once("rounds of rt-migrate-test", takes, original);
        let of = |rounds| Tried::quiet(Seen { rounds, ..Seen::default() });
        hosts[ORIGINAL].extend(rounds.map(of));
    }
    Ok(())
}

/// The number of rows with a figure in the founding document. They come first.
const PUBLISHED: usize = 4;

/// The rows of so many threads and runs on the runtime.
pub(super) fn rows(threads: usize, runs: usize) -> Vec<Row<Seen>> {
    let good = good_runs(runs as u64);
    // The document's runs are those of its four CPUs.
    let good = match threads > usize::from(PUBLISHED_CPUS) {
        true => good.judged_by(Word::Holds, |sides, _| failed(&sides[LIVE]) == 0),
        false => good.open(ClaimVerdict::NotJudged(Unjudged::FewerCpus(PUBLISHED_CPUS))),
    };
    let mut rows = vec![
        latest_important(),
        latest_least(),
        failed_percent().judged_by(Word::Holds, |sides, _| failed(&sides[LIVE]) == 0),
        good,
    ];
    let start_of = "start of a thread that is not the least important";
    for (host, name) in [(LIVE, "live"), (LINUX, "linux"), (ORIGINAL, "rt-migrate-test")] {
        for (percent, which) in [(50, "p50"), (99, "p99"), (100, "max")] {
            let of = move |runs: &[&Seen]| start(runs, percent).map(micros);
            rows.push(Row::new(format!("{start_of}, {which}, {name}"), "us", of).after(host));
        }
    }
    let ratio = Row::beside(format!("{start_of}, p50, to that on linux"), "times", |sides, _| {
        ratio(&sides[LIVE], &sides[LINUX])
    });
    let what = "the longest that the machine kept threads waiting before such a start, live";
    let kept = Row::new(what, "us", |runs: &[&Seen]| {
        rounds(runs).flat_map(|round| &round[1..]).map(|lap| lap.kept).max().map(micros)
    });
    rows.extend([ratio.after(LIVE), kept.after(LIVE)]);
    rows
}

/// A percentile of the delays between the release and the start of all threads but the least important one: their
/// wake-up latencies.
fn start(runs: &[&Seen], percent: usize) -> Option<Nanos> {
    let mut starts: Vec<_> = important_starts(runs).collect();
    starts.sort_unstable();
    percentile(&starts, percent)
}

/// The median start, relative to the kernel's own.
fn ratio(live: &[&Seen], kernel: &[&Seen]) -> Option<f64> {
    Some(rounded(start(live, 50)?.0 as f64 / start(kernel, 50)?.0.max(1) as f64, 2))
}

/// The rounds that failed on each host, the ratio of the starts, and examples.
fn text(hosts: &[Runs<Seen>; 4]) -> String {
    let [_, live, linux, original] = hosts.each_ref().map(|runs| deciding(runs));
    let mut text = "\nrounds that failed:".to_owned();
    for (name, runs) in [("live", &live), ("linux", &linux), ("rt-migrate-test", &original)] {
        if !runs.is_empty() {
            let _ = write!(text, " {name} {} of {};", failed(runs), rounds(runs).count());
        }
    }
    text.push('\n');
    if let Some(ratio) = ratio(&live, &linux) {
        let beside = match hosts[LIVE].iter().filter_map(|run| run.disturbed).max() {
            Some(why) => format!("says little: {why}"),
            None => format!("goal: at most {GOAL}"),
        };
        let _ = writeln!(text, "\np50: {ratio} times that on linux ({beside})");
    }
    text + &example("live", &live) + &example("linux", &linux)
}

/// The notes of a task in a round. Those of the parent are its release, and what was taken before.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    start: Time,
    end: Time,
    /// The CPU time of the lap; until its end, the CPU time at its start.
    work: Nanos,
    /// The time that the machine had taken when the parent prepared the round, and when a thread started. The kernel
    /// counts a wait when it ends; that of the thread's worker has ended by then.
    taken: Nanos,
}

fn note(rounds: &mut Vec<Noted>, task: TaskId, step: usize, now: Time) {
    let taken = machine::taken;
    match (task == PARENT, step, rounds.last_mut()) {
        (true, PREPARE, _) => rounds.push(Noted { taken: taken(), ..Noted::default() }),
        (true, RELEASE, Some(round)) => round.start = now,
        (false, START, _) => {
            let work = cpu_time();
            rounds.push(Noted { start: now, work, taken: taken(), ..Noted::default() });
        }
        (false, END, Some(round)) => {
            round.end = now;
            round.work = cpu_time().saturating_sub(round.work);
        }
        _ => {}
    }
}

impl Noted {
    /// The lap of a thread in a round of this parent's.
    fn lap(&self, parent: &Noted) -> Lap {
        Lap {
            start: self.start.since(parent.start),
            end: self.end.since(parent.start),
            work: self.work,
            kept: self.taken.saturating_sub(parent.taken),
        }
    }
}

/// Performs the rounds of this setting on a host.
fn run(setting: &Setting, on: (Host, &[usize]), seed: u64) -> Result<Seen, Failure> {
    let scenario = setting.scenario()?;
    let rounds = scenario.tasks[0].phases[0].loops.expect("the parent ends") as usize;
    let notes = vec![Vec::new(); scenario.tasks.len()];
    let tasks = steps::noted(scenario, on, seed, (notes, note))?;
    let (parent, threads) = tasks.split_first().expect("there is a parent");
    assert_eq!(parent.len(), rounds, "the run went through all rounds");
    let round = |nth: usize| threads.iter().map(|thread| thread[nth].lap(&parent[nth])).collect();
    Ok(Seen { rounds: (0..rounds).map(round).collect(), ..Seen::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lap::Round;

    /// A round of two threads. The more important one starts so many milliseconds late.
    fn round(late: u64) -> Round {
        let lap = |start| {
            let (start, work) = (Nanos::from_millis(start), Nanos::from_millis(20));
            Lap { start, end: start + work, work, kept: Nanos::ZERO }
        };
        vec![lap(0), lap(late)]
    }

    #[test]
    fn a_ratio_that_others_disturbed_says_little_and_runs_of_fewer_cpus_are_not_judged() {
        let run = Seen { rounds: vec![round(0), round(20), round(0)], ..Seen::default() };
        let hosts = |disturbed| {
            let live = vec![Tried { result: run.clone(), disturbed }];
            [vec![], live, vec![Tried::quiet(run.clone())], vec![]]
        };
        assert!(text(&hosts(None)).contains("goal: at most 1.5"));
        let text = text(&hosts(Some(Unjudged::Others(40))));
        assert!(text.contains("says little: others had 40 % of the CPUs"), "{text}");
        let verdicts = rows::claims(&rows(2, 1), &hosts(None)).into_iter().map(|it| it.verdict);
        let fewer = ClaimVerdict::NotJudged(Unjudged::FewerCpus(4));
        assert_eq!(verdicts.skip(2).take(2).collect::<Vec<_>>(), [ClaimVerdict::Fails, fewer]);
    }

    #[test]
    fn every_thread_has_a_lap_in_every_round_on_every_host() {
        let (cpus, progress) = (cpus().unwrap(), Progress::new(Length::Short));
        let mut course = Course::new(Length::Short, Duration::ZERO, &progress);
        let mut hosts = [const { Vec::new() }; 4];
        on_hosts(&cpus, (2, 2), &mut hosts, (&mut course, &progress)).unwrap();
        assert_eq!(hosts[LIVE].len(), 2);
        for run in hosts.iter().flatten() {
            let rounds = &run.result.rounds;
            assert_eq!((rounds.len(), rounds[0].len()), (2, cpus.len() + 1));
        }
        let runs = hosts[..ORIGINAL].iter().flatten();
        for lap in runs.flat_map(|run| run.result.rounds.iter().flatten()) {
            let spun = lap.end - lap.start;
            assert!(spun >= Nanos::from_millis(20), "{lap:?}");
            // The clocks are read one after the other.
            let most = spun + Nanos::from_millis(1);
            assert!(Nanos::ZERO < lap.work && lap.work < most, "{lap:?}");
        }
    }
}
