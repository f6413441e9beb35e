//! The memory of a waiting task: the growth of the resident set over a million tasks that are never ready. Their future
//! has no size, so all of the growth belongs to the runtime and the allocator. With these tasks, the workload also
//! times a change of their group's limit. Then the same of a million tasks that sleep, and what is left of that growth
//! ten seconds after they have ended.
//!
//! Each figure of a side is of a process of its own that this program starts. An allocator that other workloads have used would give a
//! runtime memory that is already resident.

use super::host::{Host, Runyard, Tokio, features, workers};
use clap::ValueEnum;
use runyard::{Group, Limit};
use rustix::param::page_size;
use serde::{Deserialize, Serialize};
use std::fs;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

/// Number of waiting tasks.
const TASKS: usize = 1_000_000;
/// Number of times that the group gets a limit; the median counts.
const LIMITS: usize = 9;
/// The hidden arguments that start this program as a measured process.
const ARGUMENT: &str = "--memory-of";
const ASLEEP: &str = "--asleep";
/// The length of a sleep: to start the tasks takes a few seconds.
const SLEEP: Duration = Duration::from_secs(20);
/// The time after which a runtime keeps what it keeps.
const REST: Duration = Duration::from_secs(10);
/// Interval of the check that all tasks have been polled.
const LOOK: Duration = Duration::from_millis(1);

/// The runtime of a measured process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Side {
    Runyard,
    Tokio,
}

/// The memory of a runtime's tasks.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// The measured runtime.
    pub host: Side,
    /// The figures of that runtime.
    #[serde(flatten)]
    pub figures: Footprint,
}

/// The figures of one runtime.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// Number of waiting tasks.
    pub tasks: usize,
    /// The growth of the resident set over the number of tasks.
    pub bytes_each: f64,
    /// Median time of [`Group::set_limit`] with these tasks; `null` for a runtime without groups, and for tasks that
    /// sleep.
    pub set_limit_ns: Option<u64>,
    /// Whether the tasks sleep, instead of waiting for ever.
    pub asleep: bool,
    /// What is left of the growth after the tasks have ended, over their number; `null` if they never end.
    pub kept_bytes_each: Option<f64>,
}

/// Measures both sides, one after the other.
pub(crate) fn measure() -> [Memory; 4] {
    let of = |host, asleep| Memory { host, figures: in_a_process(host, asleep) };
    let (runyard, tokio) = (Side::Runyard, Side::Tokio);
    [of(runyard, false), of(tokio, false), of(runyard, true), of(tokio, true)]
}

/// Measures the figures in another process of this program, with the features of this one.
fn in_a_process(side: Side, asleep: bool) -> Footprint {
    let this = std::env::current_exe().expect("this program is somewhere");
    let name = side.to_possible_value().expect("every side has a name");
    let switches = features().names().flat_map(|name| ["--feature".to_owned(), name]);
    let mut command = Command::new(this);
    command.args([ARGUMENT, name.get_name()]).args(asleep.then_some(ASLEEP)).args(switches);
    command.stderr(Stdio::inherit());
    let output = command.output().expect("it runs again");
    assert!(output.status.success(), "{side:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("it prints its figures")
}

/// Runs as a measured process.
///
/// # Panics
///
/// Panics if this system does not report the resident set.
pub fn be_memory_of(side: Side, asleep: bool) -> ! {
    let found = match (side, asleep) {
        (Side::Runyard, false) => footprint_of_runyard(),
        (Side::Tokio, false) => footprint(&Tokio::start(workers()), || None),
        (Side::Runyard, true) => footprint_asleep(&Runyard::start(workers())),
        (Side::Tokio, true) => footprint_asleep(&Tokio::start(workers())),
    };
    println!("{}", serde_json::to_string(&found).expect("all keys are strings"));
    std::process::exit(0)
}

fn footprint_of_runyard() -> Footprint {
    let host = Runyard::start(workers());
    let group = host.0.group("tenant").create().expect("there is room for a group");
    footprint(&host, || Some(set_limit_ns(&group)))
}

/// Starts the tasks, and measures once each of them waits. `beside_them` returns the time of `set_limit`.
fn footprint<H: Host>(host: &H, beside_them: impl FnOnce() -> Option<u64>) -> Footprint {
    // The memory of threads and of the first task is not part of the growth.
    host.block_on(host.spawn_from_outside(async {})).expect("an empty task does not panic");
    let (before, polled) = (resident_bytes(), POLLED.load(Ordering::Relaxed));
    for _ in 0..TASKS {
        drop(host.spawn_from_outside(Never));
    }
    while POLLED.load(Ordering::Relaxed) < polled + TASKS {
        thread::sleep(LOOK);
    }
    let grown = resident_bytes().saturating_sub(before);
    let bytes_each = grown as f64 / TASKS as f64;
    let set_limit_ns = beside_them();
    Footprint { tasks: TASKS, bytes_each, set_limit_ns, asleep: false, kept_bytes_each: None }
}

/// Starts tasks that sleep, and measures while all of them do, and after their end.
fn footprint_asleep<H: Host>(host: &H) -> Footprint {
    host.block_on(host.spawn_from_outside(async {})).expect("an empty task does not panic");
    let (before, begin) = (resident_bytes(), Instant::now());
    for _ in 0..TASKS {
        drop(host.spawn_from_outside(async move {
            let sleep = H::sleep(SLEEP.saturating_sub(begin.elapsed()));
            POLLED.fetch_add(1, Ordering::Relaxed);
            sleep.await;
            ENDED.fetch_add(1, Ordering::Relaxed);
        }));
    }
    let wait_for = |count: &AtomicUsize| {
        while count.load(Ordering::Relaxed) < TASKS {
            thread::sleep(LOOK);
        }
    };
    wait_for(&POLLED);
    assert!(begin.elapsed() < SLEEP, "no task has ended yet");
    let each = || resident_bytes().saturating_sub(before) as f64 / TASKS as f64;
    let bytes_each = each();
    wait_for(&ENDED);
    thread::sleep(REST);
    let kept_bytes_each = Some(each());
    Footprint { tasks: TASKS, bytes_each, set_limit_ns: None, asleep: true, kept_bytes_each }
}

/// Number of tasks that have slept.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Number of polls of [`Never`] in this process. It is a static because a pointer to it in the future would add to its
/// size.
static POLLED: AtomicUsize = AtomicUsize::new(0);

/// A future like [`std::future::pending`] that counts its polls.
struct Never;

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        POLLED.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }
}

/// Returns the median time of setting the group's limit; each limit differs from the one before.
fn set_limit_ns(group: &Group) -> u64 {
    const PERIOD: Duration = Duration::from_millis(100);
    let mut nanos = [0; LIMITS];
    for (nth, nanos) in (1..).zip(&mut nanos) {
        let (limit, started) = (Limit::new(PERIOD / (nth + 1), PERIOD), Instant::now());
        group.set_limit(limit).expect("a part of a CPU is a limit");
        *nanos = started.elapsed().as_nanos() as u64;
    }
    nanos.sort_unstable();
    nanos[LIMITS / 2]
}

/// Returns the resident set of this process: the second field of proc_pid_statm(5).
fn resident_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/statm").expect("this system tells it");
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("it is a number of pages") * page_size()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_is_never_ready_has_no_size() {
        assert_eq!(size_of::<Never>(), 0);
    }

    #[test]
    fn a_process_tells_another_its_figures() {
        let told = Footprint {
            tasks: 7,
            bytes_each: 0.5,
            set_limit_ns: None,
            asleep: true,
            kept_bytes_each: Some(0.25),
        };
        let text = serde_json::to_string(&told).unwrap();
        assert_eq!(serde_json::from_str::<Footprint>(&text).unwrap(), told);
    }
}
