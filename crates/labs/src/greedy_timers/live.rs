//! Timers with slack on this machine's CPUs, on the runtime: 2,000 tasks that a timer wakes ten times a second, beside
//! one task for each CPU that computes for 4 ms and sleeps for 1 ms.
//!
//! There are three settings: no slack, slack with the regular walk alone, and slack with the greedy walk. Both save
//! wake-ups of the process: its waiting threads give up their CPU by themselves, which the kernel counts. Two claims are
//! judged while [others leave the CPUs alone](crate::quiet): slack saves wake-ups, and all tasks are served. No load
//! excuses an early timer or a lost one. The lateness of tasks is shown.

use crate::claims::{Claim, Reproduced};
use crate::figure::{percent, rounded};
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::Course;
use crate::rows::{self, Row, Runs, Sides};
use runyard::experiments::{Experiments, Feature, Features};
use runyard::{JoinHandle, Observer, Runtime, Task};
use runyard_engine::event::Event;
use runyard_engine::kernel;
use runyard_engine::time::Time;
use runyard_hosts::machine;
use runyard_hosts::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use runyard_outcome::Failure;
use runyard_report::Collector;
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
const FEWEST: f64 = 5.0;

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

/// Runs the experiment once on this machine, or several times in a soak. Of each figure the worst counts.
pub(crate) fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?.len();
    let runs = length.pick(1, SOAK_RUNS);
    let mut course =
        Course::new(length, runs as u32 * SETTINGS.len() as u32 * TAKES + price::TAKES, progress);
    let price = price::measured(kernel::Experiment::GreedyTimers, cpus, &mut course)?;
    let measured = measured(SETTINGS, cpus, runs, &mut course)?;
    let mut claims = rows::claims(&rows(), &measured);
    claims.extend(price);
    let [period, busy, idle] = [PERIOD, BUSY, IDLE].map(|it| it.as_millis());
    Ok(Reproduced::of("greedy-timers", "live", claims, |table| {
        format!(
            "greedy-timers on live: {TASKS} tasks that are woken every {period} ms, beside a cycle of \
             {busy} ms busy and {idle} ms idle on each of {cpus} CPUs\n\n{table}\n"
        )
    }))
}

/// The claims where the slack is taken away, in one try of each setting: for tests that see the claim about it fail.
pub(crate) fn live_without(progress: &Progress) -> Result<Vec<Claim>, Failure> {
    let cpus = machine::cpus()?.len();
    let without = SETTINGS.map(|(_, greedy)| (Duration::ZERO, greedy));
    let measured = measured(without, cpus, 1, &mut Course::of_one_try(progress))?;
    Ok(rows::claims(&rows(), &measured))
}

/// Measures these settings so many times. If others disturbed one of them, they disturbed all three of that turn.
fn measured(
    settings: [(Duration, bool); 3],
    cpus: usize,
    runs: u64,
    course: &mut Course<'_>,
) -> Result<[Runs<SettingRun>; 3], Failure> {
    let mut all = [const { Vec::new() }; 3];
    for turn in 0..runs as usize {
        for (runs, (slack, greedy)) in all.iter_mut().zip(settings) {
            let walk = if greedy { "greedy" } else { "regular" };
            let what = format!("{TASKS} timers of {} ms slack, {walk} walk", slack.as_millis());
            let mut earlier = SettingRun::default();
            runs.push(course.quiet(&what, TAKES, |_| {
                earlier = SettingRun::of(slack, greedy, cpus).with_timers_of(&earlier);
                Ok(earlier)
            })?);
        }
        let disturbed = all.iter().filter_map(|runs| runs[turn].disturbed).max();
        all.iter_mut().for_each(|runs| runs[turn].disturbed = disturbed);
    }
    Ok(all)
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SettingRun {
    /// The number of times that a thread gave up its CPU by itself in [`SPAN`], if the kernel provides it.
    switches: Option<u64>,
    tasks: Rounds,
    /// The number of tasks that no timer woke any more.
    lost: u64,
    /// The timers that expired, those that only the greedy walk ran, and those that neither expired nor were cancelled.
    expired: u64,
    greedy: u64,
    unknown: u64,
    /// The number of times that a task lost its CPU to another one, and that it executed on another CPU than before.
    preemptions: u64,
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

/// The rounds of no task. Any task has fewer.
impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { fewest: u64::MAX, early: 0, latest: Duration::ZERO }
    }
}

/// Counts the runtime's events.
#[derive(Debug, Default)]
struct Listener(Mutex<Collector>);

impl Observer for Listener {
    fn event(&self, event: &Event) {
        lock(&self.0).event(event);
    }
}

impl SettingRun {
    fn of(slack: Duration, greedy: bool, cpus: usize) -> SettingRun {
        let listener = Arc::new(Listener::default());
        let all = Features::default();
        let features = if greedy { all } else { all.without(Feature::GreedyTimers) };
        let builder = Runtime::builder().workers(cpus).features(features);
        let runtime = builder.observer(listener.clone()).build();
        let over = Arc::new(AtomicBool::new(false));
        let mut tasks = runtime.block_on(async { spawned(slack, cpus, &over) });
        thread::sleep(SETTLE);
        let before = machine::voluntary_switches();
        thread::sleep(SPAN);
        let after = machine::voluntary_switches();
        over.store(true, Ordering::Relaxed);
        let end = Instant::now() + LOST;
        while !tasks.iter().all(JoinHandle::is_finished) && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let ids: Vec<_> = tasks.iter().map(JoinHandle::id).collect();
        tasks.retain(JoinHandle::is_finished);
        let lost = (ids.len() - tasks.len()) as u64;
        let tasks = runtime.block_on(async {
            let mut all = Rounds::default();
            for task in tasks {
                all = all.and(task.await.expect("none panics"));
            }
            all
        });
        drop(runtime);
        let totals = std::mem::take(&mut *lock(&listener.0)).finish(Time::ZERO);
        let counts = totals.counts();
        let accounts = || ids.iter().filter_map(|&id| totals.task(id));
        SettingRun {
            switches: before.zip(after).map(|(before, after)| after.saturating_sub(before)),
            tasks,
            lost,
            expired: counts.timers_expired,
            greedy: counts.timers_greedy,
            unknown: counts.timers_armed.abs_diff(counts.timers_expired + counts.timers_cancelled),
            preemptions: accounts().map(|task| task.preemptions).sum(),
            migrations: accounts().map(|task| task.migrations).sum(),
        }
    }

    /// Adds the timers of earlier tries: one that was lost there is lost.
    fn with_timers_of(mut self, earlier: &SettingRun) -> SettingRun {
        self.tasks.early += earlier.tasks.early;
        self.lost += earlier.lost;
        self.unknown += earlier.unknown;
        self
    }
}

/// All tasks: those that are woken, and on each CPU one that computes.
fn spawned(slack: Duration, cpus: usize, over: &Arc<AtomicBool>) -> Vec<JoinHandle<Rounds>> {
    // The rounds are due at equal distances, the first after all tasks have begun.
    let begin = Instant::now() + PERIOD;
    let due = |nth| begin + PERIOD * nth / TASKS;
    let sleeper = |nth| Task::builder().slack(slack).spawn(sleeper(due(nth), over.clone()));
    let cycles = (0..cpus).map(|_| Task::builder().spawn(cycle(over.clone())));
    (0..TASKS).map(sleeper).chain(cycles).collect()
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

/// A task that computes and sleeps in turn. It has no rounds.
async fn cycle(over: Arc<AtomicBool>) -> Rounds {
    while !over.load(Ordering::Relaxed) {
        let end = Instant::now() + BUSY;
        while Instant::now() < end {
            spin_loop();
        }
        runyard::time::sleep(IDLE).await;
    }
    Rounds::default()
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

/// The rows. Of each figure the worst of the runs counts. No load excuses an early timer or a lost one.
pub(super) fn rows() -> Vec<Row<SettingRun>> {
    let greedily = Row::new("10 ms, the walks: run greedily", "%", |runs: &[&SettingRun]| {
        let sum = |of: fn(&SettingRun) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
        percent(sum(|run| run.greedy) as f64 / sum(|run| run.expired).max(1) as f64)
    });
    let latest = Row::new("10 ms, the walks: latest round", "ms", |runs: &[&SettingRun]| {
        let latest = runs.iter().map(|run| run.tasks.latest).max().unwrap_or_default();
        rounded(latest.as_secs_f64() * 1e3, 1)
    });
    let fewest = |sides: &Sides<'_, SettingRun>, _| {
        sides.iter().flatten().map(|run| run.tasks.fewest).min().map(|fewest| fewest as f64)
    };
    vec![
        rate("no slack, then 10 ms: wake-ups of the process", SPAN, |run| run.switches)
            .of(EXACT, GREEDY)
            .holds(|exact, slack| slack <= exact * MOST_LEFT),
        rate("10 ms, the walks: wake-ups of the process", SPAN, |run| run.switches),
        greedily.of(REGULAR, GREEDY),
        rate("10 ms, the walks: preemptions", SETTLE + SPAN, |run| Some(run.preemptions)),
        rate("10 ms, the walks: migrations", SETTLE + SPAN, |run| Some(run.migrations)),
        latest.of(REGULAR, GREEDY),
        never("rounds that began before they were due", "rounds", |run| run.tasks.early),
        never("tasks that no timer woke any more", "tasks", |run| run.lost),
        never("timers that neither expired nor were cancelled", "timers", |run| run.unknown),
        Row::beside("rounds of the task that had the fewest", "rounds", fewest)
            .after(GREEDY)
            .holds(|_, fewest| fewest >= FEWEST),
    ]
}

/// A row about a rate with both walks.
fn rate(what: &str, span: Duration, of: fn(&SettingRun) -> Option<u64>) -> Row<SettingRun> {
    let row = Row::new(what, "1/s", move |runs: &[&SettingRun]| {
        let sum: Option<u64> = runs.iter().map(|run| of(run)).sum();
        sum.map(|sum| (sum as f64 / (span.as_secs_f64() * runs.len() as f64)).round())
    });
    row.of(REGULAR, GREEDY)
}

/// A row about something that happens in no run of any setting.
fn never(what: &str, unit: &'static str, of: fn(&SettingRun) -> u64) -> Row<SettingRun> {
    let row = Row::beside(what, unit, move |sides: &Sides<'_, SettingRun>, _| {
        sides.iter().flatten().map(|run| of(run)).max().map(|most| most as f64)
    });
    row.after(GREEDY).always().holds(|_, most| most == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::Tried;

    /// A good run with this number of wake-ups.
    fn run(switches: u64) -> SettingRun {
        let tasks = Rounds { fewest: 35, early: 0, latest: Duration::from_micros(1_234) };
        SettingRun { switches: Some(switches), tasks, ..SettingRun::default() }
    }

    /// The claims that fail of a turn of the three settings.
    fn failed(turn: [SettingRun; 3]) -> Vec<String> {
        let runs = turn.map(|result| vec![Tried::quiet(result)]);
        crate::claims::tests::failed(rows::claims(&rows(), &runs))
    }

    const UNKNOWN: &str = "timers that neither expired nor were cancelled";
    const LOST: &str = "tasks that no timer woke any more";

    #[test]
    fn what_is_claimed_is_what_a_runtime_keeps() {
        let (exact, slack) = (run(90_000), run(3_000));
        assert_eq!(failed([exact, slack, slack]), [""; 0]);
        assert_eq!(failed([exact; 3]), ["no slack, then 10 ms: wake-ups of the process"]);
        let early = SettingRun { tasks: Rounds { early: 1, ..exact.tasks }, ..slack };
        assert_eq!(failed([exact, early, slack]), ["rounds that began before they were due"]);
        let starved = SettingRun { tasks: Rounds { fewest: 4, ..exact.tasks }, ..slack };
        assert_eq!(failed([exact, slack, starved]), ["rounds of the task that had the fewest"]);
        let silent = SettingRun { switches: None, ..slack };
        assert_eq!(failed([silent; 3]), [""; 0], "what the kernel does not tell is not claimed");
    }

    #[test]
    fn a_timer_that_was_lost_in_an_earlier_try_is_lost() {
        let lost = SettingRun { lost: 1, unknown: 1, ..run(5) };
        assert_eq!(failed([run(9), run(5), run(1).with_timers_of(&lost)]), [LOST, UNKNOWN]);
    }
}
