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
    self, FAILED, LATEST_IMPORTANT, LATEST_LEAST, MOST_CPUS, PUBLISHED_CPUS, ROUNDS, Round,
    example, important_starts, least_starts, passes, percentile, scenario,
};
use super::watched::Watched;
use crate::claims::{Claim, ClaimVerdict, Reproduced, Unjudged};
use crate::figure::{Figure, micros, percent};
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried, deciding, verdict};
use runyard_engine::features::Feature;
use runyard_engine::kernel;
use runyard_engine::time::Nanos;
use runyard_hosts::linux::Ground;
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex};
use runyard_hosts::{linux, live, machine};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::Step;
use std::fmt::Write as _;
use std::time::Duration;

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
///
/// # Errors
/// If the machine refuses something.
pub fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let mut cpus = machine::cpus()?;
    cpus.truncate(MOST_CPUS);
    let runs = length.pick(1, SOAK_RUNS);
    let each = 2 * ROUNDS * ROUND + ROUNDS_OF_ORIGINAL * ROUND_OF_ORIGINAL;
    let before = if cpus.len() > 1 { takes_without(ROUNDS_BEFORE) } else { Duration::ZERO };
    let mut course = Course::new(length, each * runs as u32 + before + price::TAKES, progress);
    let price = price::measured(kernel::Experiment::RtMigrate, cpus.len(), &mut course)?;
    let before = match cpus.len() {
        1 => None,
        _ => Some(course.once(WITHOUT, before, || without(&cpus, ROUNDS_BEFORE, true))?),
    };
    let mut hosts = Hosts::run(&cpus, 1..=runs, ROUNDS, &mut course)?;
    hosts.before = before;
    hosts
        .missing
        .iter()
        .for_each(|why| progress.say(format!("no figures of the kernel's own: {why}")));
    let prices = rounds::experiment("live", price::claims(&price));
    let rounds_text = hosts.text(cpus.len() + 1);
    let text = format!("{rounds_text}\n{}\n{}", prices.table(), price::text(&price));
    let mut claims = hosts.claims();
    claims.extend(prices.claims);
    let experiment = rounds::experiment("live", claims);
    Ok(Reproduced { experiment, text })
}

/// The claims about the runtime without push and pull, in one try: for tests that see them fail. On one CPU there is
/// nowhere to push to.
///
/// # Errors
/// If the machine refuses something.
pub fn live_without(progress: &Progress) -> Result<Vec<Claim>, Failure> {
    let mut cpus = machine::cpus()?;
    cpus.truncate(MOST_CPUS);
    let takes = takes_without(ROUNDS_WITHOUT);
    let mut course = Course::of_one_try(progress);
    let tried = course.quiet(WITHOUT, takes, |_| without(&cpus, ROUNDS_WITHOUT, false))?;
    Ok(published(None, &[tried]))
}

/// The time of so many rounds without the mechanism.
fn takes_without(rounds: u32) -> Duration {
    rounds * Duration::from_nanos(APART_WITHOUT.0)
}

/// So many rounds without push and pull; with the balance that they replaced, or with nothing. Few rounds break the rule
/// where that balance takes what waits.
fn without(cpus: &[usize], rounds: u32, balance: bool) -> Result<Run, Failure> {
    let mut scenario = scenario(cpus.len() + 1, rounds);
    scenario.tasks[0].phases[0].steps.change(|step| match step {
        Step::Sleep(_) => Step::Sleep(Draw::Fixed(APART_WITHOUT)),
        other => other,
    });
    scenario.use_model(kernel::Experiment::RtMigrate.before());
    if !balance {
        scenario.features = scenario.features.without(Feature::RtBalance);
    }
    on_runtime(scenario, cpus.len(), 1)
}

/// The results on each host; `None` where a host is missing or refuses.
#[derive(Debug)]
struct Hosts {
    /// The run without push and pull, where there is a CPU to push to.
    before: Option<Run>,
    live: Vec<Tried<Run>>,
    kernel: Option<Vec<Run>>,
    original: Option<Vec<Run>>,
    /// The reason why the kernel's own results are missing.
    missing: Option<String>,
}

impl Hosts {
    /// Runs these seeds, on all hosts one after the other.
    fn run(
        cpus: &[usize],
        seeds: std::ops::RangeInclusive<u64>,
        rounds: u32,
        course: &mut Course<'_>,
    ) -> Result<Hosts, Failure> {
        let threads = cpus.len() + 1;
        let mut hosts = Hosts {
            before: None,
            live: vec![],
            kernel: Some(vec![]),
            original: Some(vec![]),
            missing: None,
        };
        let takes = ROUND * rounds;
        // The original goes on without priorities where they are refused. That would compare nothing.
        let of_original = rounds.min(ROUNDS_OF_ORIGINAL);
        for seed in seeds {
            hosts.live.push(course.quiet("rounds on the runtime", takes, |attempt| {
                let seed = seed + (u64::from(attempt) << u32::BITS);
                on_runtime(scenario(threads, rounds), cpus.len(), seed)
            })?);
            let on_kernel = || {
                let run = |plan| linux::run(plan, Ground::new(cpus.to_vec())).map(drop);
                watch(run, scenario(threads, rounds), seed)
            };
            if let Some(runs) = &mut hosts.kernel {
                match course.once("rounds as kernel threads", takes, on_kernel) {
                    Ok(mut rounds) => {
                        rounds.iter_mut().flatten().for_each(|lap| lap.kept = Nanos::ZERO);
                        runs.push(Run::of(rounds));
                    }
                    Err(Failure::Refused(why) | Failure::Input(why)) => {
                        (hosts.kernel, hosts.original) = (None, None);
                        hosts.missing = Some(why);
                    }
                }
            }
            let takes = ROUND_OF_ORIGINAL * of_original;
            let done = hosts.original.as_ref().and_then(|_| {
                course.once("rounds of rt-migrate-test", takes, || {
                    original::rounds(threads, of_original)
                })
            });
            hosts.original = hosts.original.zip(done).map(|(mut runs, done)| {
                runs.push(Run::of(done));
                runs
            });
        }
        Ok(hosts)
    }

    /// All runs on the runtime, also disturbed ones.
    fn on_runtime(&self) -> impl Iterator<Item = &Run> + Clone {
        self.live.iter().map(|run| &run.result)
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = published(self.before.as_ref(), &self.live);
        claims.extend(Starts::of(self.on_runtime()).claims("live"));
        claims.extend(Starts::of(self.kernel.iter().flatten()).claims("linux"));
        claims.extend(Starts::of(self.original.iter().flatten()).claims("rt-migrate-test"));
        let what = "start of a thread that is not the least important, p50, to that on linux";
        claims.push(shown(what, "times", self.ratio()));
        let what = "the longest that the machine kept threads waiting before such a start, live";
        let rounds = self.on_runtime().flat_map(|run| &run.rounds);
        let kept = rounds.flat_map(|round| &round[1..]).map(|lap| lap.kept).max();
        claims.push(shown(what, "us", kept.map(micros)));
        claims
    }

    /// The median start, relative to the kernel's own.
    fn ratio(&self) -> Option<f64> {
        let live = Starts::of(self.on_runtime());
        let kernel = Starts::of(self.kernel.iter().flatten());
        let ratio = live.p50?.0 as f64 / kernel.p50?.0.max(1) as f64;
        Some((ratio * 100.0).round() / 100.0)
    }

    fn text(&self, threads: usize) -> String {
        let mut text = rounds::title("live", threads);
        text.push_str(
            &rounds::experiment("live", published(self.before.as_ref(), &self.live)).table(),
        );
        text.push_str(&self.table());
        if let Some(ratio) = self.ratio() {
            let beside = match self.live.iter().filter_map(|run| run.disturbed).max() {
                Some(why) => format!("says little: {why}"),
                None => format!("goal: at most {GOAL}"),
            };
            let _ = writeln!(text, "\np50: {ratio} times that on linux ({beside})");
        }
        text.push_str(&example_of("live", &deciding(&self.live)));
        let kernel: Vec<_> = self.kernel.iter().flatten().collect();
        text.push_str(&example_of("linux", &kernel));
        text + "\n"
    }

    /// All hosts side by side.
    fn table(&self) -> String {
        let mut text = "\nstarts of the threads that are not the least important, us\n".to_owned();
        let mut row = |name: &str, cells: [String; 5]| {
            let [rounds, failed, p50, p99, max] = cells;
            let _ = writeln!(
                text,
                "{name:<15}  {rounds:>6}  {failed:>6}  {p50:>8}  {p99:>8}  {max:>8}"
            );
        };
        let head = ["rounds", "failed", "p50", "p99", "max"];
        row("host", head.map(str::to_owned));
        let hosts = [
            ("live", Some(self.on_runtime().collect::<Vec<_>>())),
            ("linux", self.kernel.as_ref().map(|runs| runs.iter().collect())),
            ("rt-migrate-test", self.original.as_ref().map(|runs| runs.iter().collect())),
        ];
        for (name, runs) in hosts {
            let starts = Starts::of(runs.iter().flatten().copied());
            let number = |of: fn(&Run) -> usize| {
                let runs = runs.as_ref()?;
                Some(runs.iter().map(|run| of(run)).sum::<usize>().to_string())
            };
            let time = |start: Option<Nanos>| start.map(|start| format!("{:.1}", micros(start)));
            let cells = [
                number(|run| run.rounds.len()),
                number(|run| run.failed.len()),
                time(starts.p50),
                time(starts.p99),
                time(starts.max),
            ];
            row(name, cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned())));
        }
        text
    }
}

/// The rounds of a run on one host.
#[derive(Clone, Debug)]
struct Run {
    rounds: Vec<Round>,
    /// The rounds that broke the rule, by their numbers.
    failed: Vec<usize>,
}

impl Run {
    fn of(rounds: Vec<Round>) -> Run {
        let failed = rounds.iter().enumerate().filter(|(_, round)| !passes(round));
        Run { failed: failed.map(|(at, _)| at).collect(), rounds }
    }
}

/// The claims that have figures in the founding document, with those of a run without push and pull.
fn published(before: Option<&Run>, runs: &[Tried<Run>]) -> Vec<Claim> {
    let all = || runs.iter().map(|run| &run.result);
    let latest = |start: Option<Nanos>| Some(micros(start.unwrap_or_default()));
    let important = all().flat_map(|run| important_starts(&run.rounds)).max();
    let least = all().flat_map(|run| least_starts(&run.rounds)).max();
    let judged = deciding(runs);
    let sum = |of: fn(&Run) -> usize| judged.iter().map(|run| of(run)).sum::<usize>();
    let (failed, rounds) = (sum(|run| run.failed.len()), sum(|run| run.rounds.len()));
    let good = judged.iter().filter(|run| run.failed.is_empty()).count();
    // The document's runs are those of its four CPUs.
    let threads = judged.first().and_then(|run| run.rounds.first()).map_or(0, Vec::len);
    let passed = match threads > usize::from(PUBLISHED_CPUS) {
        true => verdict(runs, good == judged.len()),
        false => ClaimVerdict::NotJudged(Unjudged::FewerCpus(PUBLISHED_CPUS)),
    };
    let part = percent(failed as f64 / rounds.max(1) as f64);
    let was = |latest: fn(&Run) -> Option<Nanos>| before.and_then(latest).map(micros);
    let important_before = was(|run| important_starts(&run.rounds).max());
    let least_before = was(|run| least_starts(&run.rounds).max());
    let part_before =
        before.map(|run| percent(run.failed.len() as f64 / run.rounds.len().max(1) as f64));
    vec![
        LATEST_IMPORTANT.claim(important_before, latest(important), ClaimVerdict::Shown),
        LATEST_LEAST.claim(least_before, latest(least), ClaimVerdict::Shown),
        FAILED.claim(part_before, Some(part), verdict(runs, failed == 0)),
        rounds::runs(good as u64, judged.len() as u64, passed),
    ]
}

/// An example of these runs: the first failed round, otherwise the last round.
fn example_of(host: &str, runs: &[&Run]) -> String {
    let numbered = |run: &Run, at: usize| (at, run.rounds[at].clone());
    let failed = runs.iter().find_map(|run| Some(numbered(run, *run.failed.first()?)));
    let last = runs.last().map(|run| numbered(run, run.rounds.len() - 1));
    let (what, round) = match failed {
        Some(failed) => ("a round that failed", Some(failed)),
        None => ("a round", last),
    };
    example(&format!("{host}: {what}"), round.as_ref())
}

/// Performs the rounds of this scenario on the runtime.
fn on_runtime(scenario: Scenario, cpus: usize, seed: u64) -> Result<Run, Failure> {
    let host = |plan| live::run(plan, cpus, Arc::new(Mutex::new(()))).map(drop);
    watch(host, scenario, seed).map(Run::of)
}

/// Performs the rounds of this scenario on a host.
fn watch(
    host: impl FnOnce(Plan) -> Result<(), Failure>,
    scenario: Scenario,
    seed: u64,
) -> Result<Vec<Round>, Failure> {
    let watched = Arc::new(Watched::new(scenario.tasks.len() - 1));
    let rounds = scenario.tasks[0].phases[0].loops.expect("the parent ends") as usize;
    host(Plan { watch: Some(watched.clone()), ..Plan::new(scenario, seed) })?;
    let done = watched.rounds();
    assert_eq!(done.len(), rounds, "the run went through all rounds");
    Ok(done)
}

/// The delays between the release and the start of all threads but the least important one: their wake-up latencies.
#[derive(Clone, Copy, Debug, Default)]
struct Starts {
    p50: Option<Nanos>,
    p99: Option<Nanos>,
    max: Option<Nanos>,
}

impl Starts {
    fn of<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Starts {
        let runs = runs.into_iter();
        let mut starts: Vec<_> = runs.flat_map(|run| important_starts(&run.rounds)).collect();
        starts.sort_unstable();
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&starts, percent));
        Starts { p50, p99, max }
    }

    fn claims(self, host: &str) -> [Claim; 3] {
        [("p50", self.p50), ("p99", self.p99), ("max", self.max)].map(|(which, start)| {
            let what =
                format!("start of a thread that is not the least important, {which}, {host}");
            shown(&what, "us", start.map(micros))
        })
    }
}

/// A figure without a bound. The founding document does not have it.
fn shown(what: &str, unit: &'static str, after: Option<f64>) -> Claim {
    let figure = Figure { what: "", unit, before: None, after: None };
    Claim { what: what.to_owned(), ..figure.claim(None, after, ClaimVerdict::Shown) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::rt_migrate::rounds::Lap;

    /// A round of two threads. The more important one starts so many milliseconds late.
    fn round(late: u64) -> Round {
        let lap = |start| {
            let (start, work) = (Nanos::from_millis(start), Nanos::from_millis(20));
            Lap { start, end: start + work, work, kept: Nanos::ZERO }
        };
        vec![lap(0), lap(late)]
    }

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let run = || Run::of(vec![round(0)]);
        let hosts = Hosts {
            before: Some(run()),
            live: vec![Tried { result: run(), disturbed: None }],
            kernel: Some(vec![run()]),
            original: Some(vec![run()]),
            missing: None,
        };
        let mut claims = hosts.claims();
        claims.extend(price::tests::named());
        claims
    }

    #[test]
    fn a_round_that_broke_the_rule_fails_on_a_quiet_machine() {
        let result = Run::of(vec![round(0), round(20), round(0)]);
        assert_eq!(result.failed, [1]);
        let claims = published(None, &[Tried { result, disturbed: None }]);
        assert_eq!((claims[2].after, claims[3].after), (Some(33.33), Some(0.0)));
        assert!(claims[2].verdict.fails());
        let fewer = ClaimVerdict::NotJudged(Unjudged::FewerCpus(4));
        assert_eq!(claims[3].verdict, fewer, "the round has one CPU");
    }

    #[test]
    fn beside_others_the_ratio_has_no_goal_and_the_rule_judges_nothing() {
        let run = Run::of(vec![round(0), round(20)]);
        let disturbed = Some(Unjudged::Others(40));
        let mut hosts = Hosts {
            before: None,
            live: vec![Tried { result: run.clone(), disturbed }],
            kernel: Some(vec![run]),
            original: None,
            missing: None,
        };
        let text = hosts.text(2);
        assert!(!text.contains("FAILS") && !text.contains("goal"), "{text}");
        assert!(text.contains("says little: others had 40 % of the CPUs"), "{text}");
        hosts.live[0].disturbed = None;
        let text = hosts.text(2);
        assert!(text.contains("FAILS") && text.contains("goal: at most 1.5"), "{text}");
    }

    #[test]
    fn every_thread_has_a_lap_in_every_round_on_every_host() {
        let cpus = machine::cpus().unwrap();
        let progress = Progress::new(Length::Short);
        let mut course = Course::new(Length::Short, Duration::ZERO, &progress);
        let hosts = Hosts::run(&cpus, 1..=2, 2, &mut course).unwrap();
        let of_runtime: Vec<_> = hosts.on_runtime().cloned().collect();
        assert_eq!(of_runtime.len(), 2);
        for runs in [Some(of_runtime), hosts.kernel].into_iter().flatten() {
            for round in runs.iter().flat_map(|run| &run.rounds) {
                assert_eq!(round.len(), cpus.len() + 1);
                for lap in round {
                    let spun = lap.end - lap.start;
                    assert!(spun >= Nanos::from_millis(20), "{lap:?}");
                    // The clocks are read one after the other.
                    let most = spun + Nanos::from_millis(1);
                    assert!(Nanos::ZERO < lap.work && lap.work < most, "{lap:?}");
                }
            }
            assert!(runs.iter().all(|run| run.rounds.len() == 2));
        }
        for run in hosts.original.into_iter().flatten() {
            assert_eq!((run.rounds.len(), run.rounds[0].len()), (2, cpus.len() + 1));
        }
    }

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let starts: Vec<_> = (1..=100).map(Nanos).collect();
        let of = |percent| percentile(&starts, percent).unwrap();
        assert_eq!([50, 99, 100].map(of), [50, 99, 100].map(Nanos));
        assert_eq!(percentile(&starts[..1], 50), Some(Nanos(1)));
        assert_eq!(percentile(&[], 50), None);
    }
}
