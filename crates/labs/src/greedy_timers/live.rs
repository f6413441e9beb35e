//! Timers with slack on this machine's CPUs, on the runtime: 2,000 tasks that a timer wakes ten times a second, beside
//! one task for each CPU that computes for 4 ms and sleeps for 1 ms.
//!
//! There are three settings: no slack, slack with the regular walk alone, and slack with the greedy walk. Both save
//! wake-ups of the process: its waiting threads give up their CPU by themselves, which the kernel counts. Two claims are
//! judged while [others leave the CPUs alone](crate::quiet): slack saves wake-ups, and all tasks are served. No load
//! excuses an early timer or a lost one. The lateness of tasks is shown.

use crate::claims::{Claim, ClaimVerdict, Experiment, Reproduced};
use crate::figure::{Figure, percent};
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried, deciding, verdict};
use runyard::experiments::{Experiments, Feature, Features};
use runyard::{JoinHandle, Observer, Runtime, Task};
use runyard_engine::event::{Event, Left, What};
use runyard_engine::kernel;
use runyard_hosts::machine;
use runyard_hosts::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use runyard_outcome::Failure;
use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// The number of tasks that are woken, and their period.
const TASKS: u32 = 2_000;
const PERIOD: Duration = Duration::from_millis(100);

/// The cycle of the tasks that compute, as in the document.
const BUSY: Duration = Duration::from_millis(4);
const IDLE: Duration = Duration::from_millis(1);

/// The time before counting begins in each setting, and the counted time: thirty rounds of each task.
const SETTLE: Duration = Duration::from_millis(500);
const SPAN: Duration = Duration::from_secs(3);

/// The time that a setting takes, with the begin and the end.
const TAKES: Duration = Duration::from_millis(3_700);

/// The least number of these rounds for each task. A runtime that serves all leaves out none; this allows for a machine
/// that stops a worker at times.
const FEWEST: u64 = 5;

/// The largest part of the wake-ups that slack may leave. It saves nine in ten.
const MOST_LEFT: f64 = 0.5;

/// A task that has not come back so long after the end has a lost timer.
const LOST: Duration = Duration::from_secs(30);

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 5;

/// The document's slack.
const SLACK: Duration = Duration::from_millis(10);

/// The slack of the tasks that are woken, and whether the greedy walk is on.
const SETTINGS: [(Duration, bool); 3] = [(Duration::ZERO, true), (SLACK, false), (SLACK, true)];

/// The indices of the settings.
const EXACT: usize = 0;
const REGULAR: usize = 1;
const GREEDY: usize = 2;

/// The results of a run of each setting.
type Runs = [SettingRun; 3];

/// Runs the experiment once on this machine, or several times in a soak. Of each figure the worst counts.
///
/// # Errors
/// If the machine refuses something.
pub fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?.len();
    let runs = length.pick(1, SOAK_RUNS);
    let mut course =
        Course::new(length, runs as u32 * SETTINGS.len() as u32 * TAKES + price::TAKES, progress);
    let price = price::measured(kernel::Experiment::GreedyTimers, cpus, &mut course)?;
    let run = |_| measured(SETTINGS, cpus, &mut course);
    let measured = (0..runs).map(run).collect::<Result<Vec<_>, _>>()?;
    let (name, host) = ("greedy-timers".to_owned(), "live".to_owned());
    let mut claims = claims(&measured);
    claims.extend(price::claims(&price));
    let experiment = Experiment { name, host, claims };
    let text = format!(
        "greedy-timers on live: {TASKS} tasks that are woken every {} ms, beside a cycle of {} ms busy and {} ms \
         idle on each of {cpus} CPUs\n\n{}\n{}",
        PERIOD.as_millis(),
        BUSY.as_millis(),
        IDLE.as_millis(),
        experiment.table(),
        price::text(&price)
    );
    Ok(Reproduced { experiment, text })
}

/// The claims where the slack is taken away, in one try of each setting: for tests that see the claim about it fail.
///
/// # Errors
/// If the machine refuses something.
pub fn live_without(progress: &Progress) -> Result<Vec<Claim>, Failure> {
    let cpus = machine::cpus()?.len();
    let without = SETTINGS.map(|(_, greedy)| (Duration::ZERO, greedy));
    Ok(claims(&[measured(without, cpus, &mut Course::of_one_try(progress))?]))
}

/// Measures these settings. If others disturbed one of them, they disturbed the run.
fn measured(
    settings: [(Duration, bool); 3],
    cpus: usize,
    course: &mut Course<'_>,
) -> Result<Tried<Runs>, Failure> {
    let (mut result, mut disturbed) = (Runs::default(), None);
    for (run, (slack, greedy)) in result.iter_mut().zip(settings) {
        let walk = if greedy { "greedy" } else { "regular" };
        let what = format!("{TASKS} timers of {} ms slack, {walk} walk", slack.as_millis());
        let mut earlier = SettingRun::default();
        let tried = course.quiet(&what, TAKES, |_| {
            earlier = SettingRun::of(slack, greedy, cpus).with_timers_of(&earlier);
            Ok(earlier)
        })?;
        *run = tried.result;
        disturbed = disturbed.max(tried.disturbed);
    }
    Ok(Tried { result, disturbed })
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SettingRun {
    /// The number of times that a thread gave up its CPU by itself in [`SPAN`], if the kernel provides it.
    switches: Option<u64>,
    tasks: Rounds,
    /// The number of tasks that no timer woke any more.
    lost: usize,
    armed: usize,
    expired: usize,
    greedy: usize,
    cancelled: usize,
    /// The number of times that a task lost its CPU to a woken task.
    preemptions: usize,
    /// The number of times that a task got another CPU than the one on which it ran last.
    migrations: u64,
}

/// The rounds that woken tasks saw, for one task or for all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rounds {
    /// The rounds of the task with the fewest.
    fewest: u64,
    /// The number of rounds that began before they were due.
    early: u64,
    /// The largest delay of a round.
    latest: Duration,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { fewest: u64::MAX, early: 0, latest: Duration::ZERO }
    }
}

impl SettingRun {
    fn of(slack: Duration, greedy: bool, cpus: usize) -> SettingRun {
        let heard = Arc::new(Heard::default());
        let all = Features::default();
        let features = if greedy { all } else { all.without(Feature::GreedyTimers) };
        let builder = Runtime::builder().workers(cpus).features(features).statistics(true);
        let runtime = builder.observer(heard.clone()).build();
        let over = Arc::new(AtomicBool::new(false));
        let (sleepers, cycles) = runtime.block_on(async {
            let cycles = (0..cpus).map(|_| Task::builder().spawn(cycle(over.clone())));
            (sleepers(slack, &over), cycles.collect::<Vec<_>>())
        });
        thread::sleep(SETTLE);
        let before = machine::voluntary_switches();
        thread::sleep(SPAN);
        let after = machine::voluntary_switches();
        over.store(true, Ordering::Relaxed);
        let end = Instant::now() + LOST;
        let returns = || {
            let cycles = cycles.iter().filter(|it| it.is_finished());
            sleepers.iter().filter(|it| it.is_finished()).count() + cycles.count()
        };
        while returns() < sleepers.len() + cycles.len() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let lost = sleepers.len() + cycles.len() - returns();
        let tasks = runtime.block_on(async {
            let mut all = Rounds::default();
            for sleeper in sleepers.into_iter().filter(JoinHandle::is_finished) {
                all = all.and(sleeper.await.expect("none panics"));
            }
            all
        });
        let migrations = runtime.snapshot().cpus.iter().map(|cpu| cpu.counts.migrations).sum();
        drop(runtime);
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        SettingRun {
            switches: before.zip(after).map(|(before, after)| after.saturating_sub(before)),
            tasks,
            lost,
            armed: read(&heard.armed),
            expired: read(&heard.expired),
            greedy: read(&heard.greedy),
            cancelled: read(&heard.cancelled),
            preemptions: read(&heard.preemptions),
            migrations,
        }
    }
}

impl SettingRun {
    /// Adds the timers of earlier tries: one that was lost there is lost.
    fn with_timers_of(mut self, earlier: &SettingRun) -> SettingRun {
        self.tasks.early += earlier.tasks.early;
        self.lost += earlier.lost;
        self.armed += earlier.armed;
        self.expired += earlier.expired;
        self.greedy += earlier.greedy;
        self.cancelled += earlier.cancelled;
        self
    }
}

fn sleepers(slack: Duration, over: &Arc<AtomicBool>) -> Vec<JoinHandle<Rounds>> {
    // The rounds are due at equal distances, the first after all tasks have begun.
    let begin = Instant::now() + PERIOD;
    let due = |nth| begin + PERIOD * nth / TASKS;
    let sleeper = |nth| Task::builder().slack(slack).spawn(sleeper(due(nth), over.clone()));
    (0..TASKS).map(sleeper).collect()
}

/// A task that wakes up when its round is due, until the end.
async fn sleeper(mut due: Instant, over: Arc<AtomicBool>) -> Rounds {
    let mut rounds = Rounds { fewest: 0, ..Rounds::default() };
    while !over.load(Ordering::Relaxed) {
        runyard::time::sleep_until(due).await;
        let now = Instant::now();
        rounds.fewest += 1;
        rounds.early += u64::from(now < due);
        rounds.latest = rounds.latest.max(now.saturating_duration_since(due));
        due += PERIOD;
    }
    rounds
}

async fn cycle(over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let end = Instant::now() + BUSY;
        while Instant::now() < end {
            spin_loop();
        }
        runyard::time::sleep(IDLE).await;
    }
}

impl Rounds {
    fn and(self, other: Rounds) -> Rounds {
        Rounds {
            fewest: self.fewest.min(other.fewest),
            early: self.early + other.early,
            latest: self.latest.max(other.latest),
        }
    }
}

/// Counts the runtime's events of timers.
#[derive(Debug, Default)]
struct Heard {
    armed: AtomicUsize,
    expired: AtomicUsize,
    greedy: AtomicUsize,
    cancelled: AtomicUsize,
    preemptions: AtomicUsize,
}

impl Observer for Heard {
    fn event(&self, event: &Event) {
        let add = |counter: &AtomicUsize| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match event.what {
            What::TimerArmed => add(&self.armed),
            What::TimerExpired { greedy } => {
                add(&self.expired);
                if greedy {
                    add(&self.greedy);
                }
            }
            What::TimerCancelled => add(&self.cancelled),
            What::Switch { prev: Some((prev, Left::Preempted)), next } if next != Some(prev) => {
                add(&self.preemptions);
            }
            _ => {}
        }
    }
}

/// The claims about several runs of all settings.
fn claims(tried: &[Tried<Runs>]) -> Vec<Claim> {
    let claim = |what: &str, unit: &'static str, [before, after]: [Option<f64>; 2], verdict| {
        Figure { what, unit, before: None, after: None }.claim(before, after, verdict)
    };
    let all = || tried.iter().flat_map(|run| &run.result);
    let runs = deciding(tried);
    let most = |of: fn(&SettingRun) -> u64| [None, all().map(of).max().map(|most| most as f64)];
    let none = |[_, most]: [Option<f64>; 2]| ClaimVerdict::of(most == Some(0.0));
    let fewest = runs.iter().copied().flatten().map(|run| run.tasks.fewest).min();
    let early = most(|run| run.tasks.early);
    let lost = most(|run| run.lost as u64);
    let unknown = most(|run| run.armed.abs_diff(run.expired + run.cancelled) as u64);
    let switches = |at: usize| {
        let sum: Option<u64> = runs.iter().map(|run| run[at].switches).sum();
        sum.map(|sum| (sum as f64 / (SPAN.as_secs_f64() * runs.len() as f64)).round())
    };
    let (exact, slack) = ([EXACT, GREEDY].map(switches), [REGULAR, GREEDY].map(switches));
    let fewer = |figures: [Option<f64>; 2]| match figures {
        [Some(before), Some(after)] => verdict(tried, after <= before * MOST_LEFT),
        _ => ClaimVerdict::Shown,
    };
    let latest = |at: usize| {
        let latest = runs.iter().map(|run| run[at].tasks.latest).max();
        latest.map(|latest| (latest.as_secs_f64() * 1e4).round() / 10.0)
    };
    let greedy = |at: usize| {
        let of = |of: fn(&SettingRun) -> usize| runs.iter().map(|run| of(&run[at])).sum::<usize>();
        Some(percent(of(|run| run.greedy) as f64 / of(|run| run.expired).max(1) as f64))
    };
    let rate = |of: fn(&SettingRun) -> u64| {
        let runs = &runs;
        move |at: usize| {
            let sum: u64 = runs.iter().map(|run| of(&run[at])).sum();
            Some((sum as f64 / ((SETTLE + SPAN).as_secs_f64() * runs.len() as f64)).round())
        }
    };
    let (preemptions, migrations) =
        (rate(|run| run.preemptions as u64), rate(|run| run.migrations));
    let walks = [REGULAR, GREEDY];
    vec![
        claim("no slack, then 10 ms: wake-ups of the process", "1/s", exact, fewer(exact)),
        claim("10 ms, the walks: wake-ups of the process", "1/s", slack, ClaimVerdict::Shown),
        claim("10 ms, the walks: run greedily", "%", walks.map(greedy), ClaimVerdict::Shown),
        claim("10 ms, the walks: preemptions", "1/s", walks.map(preemptions), ClaimVerdict::Shown),
        claim("10 ms, the walks: migrations", "1/s", walks.map(migrations), ClaimVerdict::Shown),
        claim("10 ms, the walks: latest round", "ms", walks.map(latest), ClaimVerdict::Shown),
        claim("rounds that began before they were due", "rounds", early, none(early)),
        claim("tasks that no timer woke any more", "tasks", lost, none(lost)),
        claim("timers that neither expired nor were cancelled", "timers", unknown, none(unknown)),
        claim(
            "rounds of the task that had the fewest",
            "rounds",
            [None, fewest.map(|fewest| fewest as f64)],
            verdict(tried, fewest >= Some(FEWEST)),
        ),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::claims::Unjudged;

    /// A good run with this number of wake-ups.
    fn run(switches: u64) -> SettingRun {
        let tasks = Rounds { fewest: 35, early: 0, latest: Duration::from_micros(1_234) };
        let (armed, expired, greedy, cancelled) = (70, 69, 23, 1);
        let (preemptions, migrations) = (5, 7);
        let (switches, lost) = (Some(switches), 0);
        SettingRun {
            switches,
            tasks,
            lost,
            armed,
            expired,
            greedy,
            cancelled,
            preemptions,
            migrations,
        }
    }

    const UNKNOWN: &str = "timers that neither expired nor were cancelled";

    fn quiet(runs: &[Runs]) -> Vec<Tried<Runs>> {
        runs.iter().map(|&result| Tried { result, disturbed: None }).collect()
    }

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let mut claims = claims(&quiet(&[[run(9), run(5), run(1)]]));
        claims.extend(price::tests::named());
        claims
    }

    /// The claims that fail.
    fn failed(runs: &[Runs]) -> Vec<String> {
        let failed = claims(&quiet(runs)).into_iter().filter(|claim| claim.verdict.fails());
        failed.map(|claim| claim.what).collect()
    }

    #[test]
    fn what_is_claimed_is_what_a_runtime_keeps() {
        let (exact, slack) = (run(90_000), run(3_000));
        assert_eq!(failed(&[[exact, slack, slack]]), [""; 0]);
        let wakeups = "no slack, then 10 ms: wake-ups of the process";
        assert_eq!(failed(&[[exact, exact, exact]]), [wakeups]);
        let early = SettingRun { tasks: Rounds { early: 1, ..exact.tasks }, ..slack };
        assert_eq!(failed(&[[exact, early, slack]]), ["rounds that began before they were due"]);
        let unknown = SettingRun { expired: 68, ..slack };
        assert_eq!(failed(&[[exact, slack, unknown]]), [UNKNOWN]);
        let lost = SettingRun { lost: 1, ..slack };
        assert_eq!(failed(&[[exact, slack, lost]]), ["tasks that no timer woke any more"]);
        let starved = SettingRun { tasks: Rounds { fewest: 4, ..exact.tasks }, ..slack };
        assert_eq!(failed(&[[exact, slack, starved]]), ["rounds of the task that had the fewest"]);
    }

    #[test]
    fn no_load_excuses_a_lost_timer() {
        let good = run(90_000);
        let of = |bad: SettingRun| {
            let result = [good, run(3_000), bad];
            let claims = claims(&[Tried { result, disturbed: Some(Unjudged::Others(40)) }]);
            claims.into_iter().filter(|claim| claim.verdict.fails()).count()
        };
        assert_eq!(of(SettingRun { tasks: Rounds { fewest: 0, ..good.tasks }, ..good }), 0);
        assert_eq!(of(SettingRun { lost: 1, ..good }), 1);
    }

    #[test]
    fn a_timer_that_was_lost_in_an_earlier_try_is_lost() {
        let lost = SettingRun { lost: 1, expired: 68, ..run(5) };
        let tried = [run(9), run(5), run(1).with_timers_of(&lost)];
        assert_eq!(failed(&[tried]), ["tasks that no timer woke any more", UNKNOWN]);
    }

    #[test]
    fn one_bad_run_of_several_fails() {
        let good = [run(9), run(5), run(1)];
        let bad = [run(9), run(5), SettingRun { expired: 1, ..run(1) }];
        assert_eq!(failed(&[good, bad, good]), [UNKNOWN]);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_not_claimed() {
        let silent = SettingRun { switches: None, ..run(0) };
        assert_eq!(failed(&[[silent; 3]]), [""; 0]);
        assert_eq!(claims(&quiet(&[[silent; 3]]))[0].after, None);
    }

    #[test]
    fn the_share_of_the_greedy_walk_is_of_what_expired() {
        let regular = SettingRun { greedy: 0, ..run(5) };
        let claims = claims(&quiet(&[[run(9), regular, run(1)]]));
        let share = claims.iter().find(|claim| claim.unit == "%").unwrap();
        assert_eq!((share.before, share.after), (Some(0.0), Some(33.33)));
    }
}
