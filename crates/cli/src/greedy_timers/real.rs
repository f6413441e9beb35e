//! Timers with slack on this machine's CPUs, on the runtime: 2,000 tasks that a timer wakes ten times a
//! second, beside one task for each CPU that computes for 4 ms and sleeps for 1 ms.
//!
//! What the walk saves is wake-ups of the process: its threads that wait give up their CPU by themselves,
//! which the kernel counts. What is claimed is what a machine keeps that others use too: an order, that
//! no timer comes before its time, that none is lost, and that all tasks are served. How many wake-ups
//! there are and how late tasks are is shown.

use crate::Failure;
use crate::figure::{Figure, percent};
use crate::reproduce::Reproduced;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::{machine, output};
use runyard::{JoinHandle, Observer, Runtime, Task};
use runyard_engine::event::{Event, What};
use runyard_report::{Claim, Experiment, Verdict};
use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// The tasks that are woken, and how often each of them.
const TASKS: u32 = 2_000;
const PERIOD: Duration = Duration::from_millis(100);

/// The cycle of the tasks that compute: the document's.
const BUSY: Duration = Duration::from_millis(4);
const IDLE: Duration = Duration::from_millis(1);

/// How long each setting runs before anything is counted, and then: thirty rounds of each task.
const SETTLE: Duration = Duration::from_millis(500);
const SPAN: Duration = Duration::from_secs(3);

/// How many runs `--soak` asks for.
const SOAK_RUNS: u64 = 5;

/// The slack of the tasks that are woken: none, and the document's.
const SLACKS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(10)];

/// Once on this machine, or with `soak` several times: of each figure, the worst.
pub(crate) fn real(soak: bool) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus(None)?.len();
    let runs = if soak { SOAK_RUNS } else { 1 };
    let bar = output::bar("runs", runs * SLACKS.len() as u64);
    let run = |slack| {
        let measured = Measured::of(slack, cpus);
        bar.inc(1);
        measured
    };
    let measured: Vec<_> = (0..runs).map(|_| SLACKS.map(run)).collect();
    bar.finish_and_clear();
    let (name, host) = ("greedy-timers".to_owned(), "live".to_owned());
    let experiment = Experiment { name, host, claims: claims(&measured) };
    let text = format!(
        "greedy-timers on live: {TASKS} tasks that are woken every {} ms, without slack and then with {} ms, \
         beside a cycle of {} ms busy and {} ms idle on each of {cpus} CPUs\n\n{}\n",
        PERIOD.as_millis(),
        SLACKS[1].as_millis(),
        BUSY.as_millis(),
        IDLE.as_millis(),
        experiment.table()
    );
    Ok(Reproduced { experiment, text })
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Measured {
    /// How many times a thread gave up its CPU by itself in [`SPAN`], if the kernel tells.
    switches: Option<u64>,
    tasks: Rounds,
    armed: usize,
    expired: usize,
    greedy: usize,
    cancelled: usize,
}

/// What the tasks that are woken saw, each or all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rounds {
    /// Of the task that had the fewest.
    fewest: u64,
    /// How many of all began before they were due.
    early: u64,
    /// How late a round began at the worst.
    latest: Duration,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { fewest: u64::MAX, early: 0, latest: Duration::ZERO }
    }
}

impl Measured {
    fn of(slack: Duration, cpus: usize) -> Measured {
        let heard = Arc::new(Heard::default());
        let runtime = Runtime::builder().workers(cpus).observer(heard.clone()).build();
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
        let tasks = runtime.block_on(async {
            let mut all = Rounds::default();
            for sleeper in sleepers {
                all = all.and(sleeper.await.expect("none panics"));
            }
            for cycle in cycles {
                cycle.await.expect("none panics");
            }
            all
        });
        drop(runtime);
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Measured {
            switches: before.zip(after).map(|(before, after)| after.saturating_sub(before)),
            tasks,
            armed: read(&heard.armed),
            expired: read(&heard.expired),
            greedy: read(&heard.greedy),
            cancelled: read(&heard.cancelled),
        }
    }
}

fn sleepers(slack: Duration, over: &Arc<AtomicBool>) -> Vec<JoinHandle<Rounds>> {
    // Their rounds are due at equal distances, the first after all of them have begun.
    let begin = Instant::now() + PERIOD;
    let due = |nth| begin + PERIOD * nth / TASKS;
    let sleeper = |nth| Task::builder().slack(slack).spawn(sleeper(due(nth), over.clone()));
    (0..TASKS).map(sleeper).collect()
}

/// Wakes up when it is due, until all is over.
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

/// Counts what the runtime says of timers.
#[derive(Debug, Default)]
struct Heard {
    armed: AtomicUsize,
    expired: AtomicUsize,
    greedy: AtomicUsize,
    cancelled: AtomicUsize,
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
            _ => {}
        }
    }
}

/// Of several runs, without slack and with it.
fn claims(runs: &[[Measured; 2]]) -> Vec<Claim> {
    let claim = |what: &str, unit: &'static str, [before, after]: [Option<f64>; 2], verdict| {
        Figure { what, unit, before: None, after: None }.claim(before, after, verdict)
    };
    let each = |of: fn(&Measured) -> u64, worst: fn(u64, u64) -> u64| {
        [0, 1].map(|at| runs.iter().map(|run| of(&run[at])).reduce(worst).map(|it| it as f64))
    };
    let all = |so: fn(&Measured) -> bool| Verdict::of(runs.iter().flatten().all(so));
    let switches = |at: usize| -> Option<f64> {
        let sum: Option<u64> = runs.iter().map(|run| run[at].switches).sum();
        sum.map(|sum| (sum as f64 / (SPAN.as_secs_f64() * runs.len() as f64)).round())
    };
    let switches = [switches(0), switches(1)];
    let fewer = match switches {
        [Some(exact), Some(slack)] => Verdict::of(slack < exact),
        _ => Verdict::Shown,
    };
    let millis = |latest: Duration| (latest.as_secs_f64() * 1e4).round() / 10.0;
    let latest = [0, 1].map(|at| runs.iter().map(|run| run[at].tasks.latest).max().map(millis));
    let greedy = |at: usize| {
        let [greedy, expired] = [|it: &Measured| it.greedy, |it: &Measured| it.expired]
            .map(|of| runs.iter().map(|run| of(&run[at])).sum::<usize>());
        Some(percent(greedy as f64 / expired.max(1) as f64))
    };
    vec![
        claim("wake-ups of the process", "1/s", switches, fewer),
        claim(
            "rounds that began before they were due",
            "rounds",
            each(|run| run.tasks.early, u64::max),
            all(|run| run.tasks.early == 0),
        ),
        claim(
            "timers that neither expired nor were cancelled",
            "timers",
            each(|run| run.lost() as u64, u64::max),
            all(|run| run.lost() == 0),
        ),
        claim(
            "rounds of the task that had the fewest",
            "rounds",
            each(|run| run.tasks.fewest, u64::min),
            all(|run| run.tasks.fewest > 0),
        ),
        claim("latest round", "ms", latest, Verdict::Shown),
        claim("run greedily", "%", [greedy(0), greedy(1)], Verdict::Shown),
    ]
}

impl Measured {
    /// Timers of which nothing was heard but that they were armed; all are over.
    fn lost(&self) -> usize {
        self.armed.abs_diff(self.expired + self.cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with so many wake-ups, in which all is as it must be.
    fn run(switches: u64) -> Measured {
        let tasks = Rounds { fewest: 35, early: 0, latest: Duration::from_micros(1_234) };
        let (armed, expired, greedy, cancelled) = (70, 69, 23, 1);
        Measured { switches: Some(switches), tasks, armed, expired, greedy, cancelled }
    }

    /// Which claims fail.
    fn failed(runs: &[[Measured; 2]]) -> Vec<String> {
        let failed = claims(runs).into_iter().filter(|claim| !claim.verdict.holds());
        failed.map(|claim| claim.what).collect()
    }

    #[test]
    fn what_is_claimed_is_what_a_busy_machine_keeps() {
        let good = run(90_000);
        assert_eq!(failed(&[[good, run(3_000)]]), [""; 0]);
        assert_eq!(failed(&[[good, good]]), ["wake-ups of the process"]);
        let early = Measured { tasks: Rounds { early: 1, ..good.tasks }, ..run(1) };
        assert_eq!(failed(&[[good, early]]), ["rounds that began before they were due"]);
        let lost = Measured { expired: 68, ..run(1) };
        assert_eq!(failed(&[[good, lost]]), ["timers that neither expired nor were cancelled"]);
        let starved = Measured { tasks: Rounds { fewest: 0, ..good.tasks }, ..run(1) };
        assert_eq!(failed(&[[good, starved]]), ["rounds of the task that had the fewest"]);
    }

    #[test]
    fn one_bad_run_of_several_fails() {
        let (good, early) = ([run(9), run(1)], [run(9), Measured { expired: 1, ..run(1) }]);
        assert_eq!(
            failed(&[good, early, good]),
            ["timers that neither expired nor were cancelled"]
        );
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_not_claimed() {
        let silent = Measured { switches: None, ..run(0) };
        assert_eq!(failed(&[[silent, silent]]), [""; 0]);
        assert_eq!(claims(&[[silent, silent]])[0].after, None);
    }
}
