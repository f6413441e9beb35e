//! The memory of a waiting task: the growth of the resident set over many tasks that are never ready. Their future
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

/// Number of tasks, unless the user asks for another.
const TASKS: u64 = 1_000_000;
/// Number of times that the group gets a limit; the median counts.
const LIMITS: usize = 9;
/// The arguments that start this program as a measured process.
const ARGUMENT: &str = "--memory-of";
const ITERATIONS: &str = "--iterations";
const ASLEEP: &str = "--asleep";
/// The time that each task adds to the length of a sleep: to start one takes a few microseconds.
const SLEEP_EACH: Duration = Duration::from_micros(20);
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

/// Measures both sides, one after the other, with `tasks` tasks.
pub(crate) fn measure(tasks: Option<u64>) -> [Memory; 4] {
    let tasks = tasks.unwrap_or(TASKS);
    let of = |host, asleep| Memory { host, figures: in_a_process(host, tasks, asleep) };
    let (runyard, tokio) = (Side::Runyard, Side::Tokio);
    [of(runyard, false), of(tokio, false), of(runyard, true), of(tokio, true)]
}

/// Measures the figures in another process of this program, with the features of this one.
fn in_a_process(side: Side, tasks: u64, asleep: bool) -> Footprint {
    let this = std::env::current_exe().expect("this program is somewhere");
    let name = side.to_possible_value().expect("every side has a name");
    let switches = features().names().flat_map(|name| ["--feature".to_owned(), name]);
    let mut command = Command::new(this);
    command.args([ARGUMENT, name.get_name(), ITERATIONS, &tasks.to_string()]);
    command.args(asleep.then_some(ASLEEP)).args(switches);
    command.stderr(Stdio::inherit());
    let output = command.output().expect("it runs again");
    assert!(output.status.success(), "{side:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("it prints its figures")
}

/// Runs as a measured process with `tasks` tasks.
///
/// # Panics
///
/// Panics if this system does not report the resident set.
pub fn be_memory_of(side: Side, tasks: Option<u64>, asleep: bool) -> ! {
    let tasks = tasks.unwrap_or(TASKS) as usize;
    let found = match (side, asleep) {
        (Side::Runyard, false) => footprint_of_runyard(tasks),
        (Side::Tokio, false) => footprint(&Tokio::start(workers()), tasks, || None),
        (Side::Runyard, true) => footprint_asleep(&Runyard::start(workers()), tasks),
        (Side::Tokio, true) => footprint_asleep(&Tokio::start(workers()), tasks),
    };
    println!("{}", serde_json::to_string(&found).expect("all keys are strings"));
    std::process::exit(0)
}

fn footprint_of_runyard(tasks: usize) -> Footprint {
    let host = Runyard::start(workers());
    let group = host.0.group("tenant").create().expect("there is room for a group");
    footprint(&host, tasks, || Some(set_limit_ns(&group)))
}

/// Starts the tasks, and measures once each of them waits. `beside_them` returns the time of `set_limit`.
fn footprint<H: Host>(
    host: &H,
    tasks: usize,
    beside_them: impl FnOnce() -> Option<u64>,
) -> Footprint {
    let growth = Growth::since_now(host, tasks);
    for _ in 0..tasks {
        drop(host.spawn_from_outside(Never));
    }
    wait_for(&POLLED, tasks);
    let bytes_each = growth.bytes_each();
    let set_limit_ns = beside_them();
    Footprint { tasks, bytes_each, set_limit_ns, asleep: false, kept_bytes_each: None }
}

/// Starts tasks that sleep, and measures while all of them do, and after their end.
fn footprint_asleep<H: Host>(host: &H, tasks: usize) -> Footprint {
    let growth = Growth::since_now(host, tasks);
    let (begin, length) = (Instant::now(), SLEEP_EACH * tasks as u32);
    for _ in 0..tasks {
        drop(host.spawn_from_outside(async move {
            let sleep = H::sleep(length.saturating_sub(begin.elapsed()));
            POLLED.fetch_add(1, Ordering::Relaxed);
            sleep.await;
            ENDED.fetch_add(1, Ordering::Relaxed);
        }));
    }
    wait_for(&POLLED, tasks);
    assert!(begin.elapsed() < length, "no task has ended yet");
    let bytes_each = growth.bytes_each();
    wait_for(&ENDED, tasks);
    thread::sleep(REST);
    let kept_bytes_each = Some(growth.bytes_each());
    Footprint { tasks, bytes_each, set_limit_ns: None, asleep: true, kept_bytes_each }
}

/// The growth of the resident set.
struct Growth {
    before: usize,
    tasks: usize,
}

impl Growth {
    /// The memory of threads and of the first task is not part of the growth.
    fn since_now<H: Host>(host: &H, tasks: usize) -> Growth {
        host.block_on(host.spawn_from_outside(async {})).expect("an empty task does not panic");
        Growth { before: resident_bytes(), tasks }
    }

    /// Returns the growth so far over the number of tasks.
    fn bytes_each(&self) -> f64 {
        resident_bytes().saturating_sub(self.before) as f64 / self.tasks as f64
    }
}

/// Waits until the counter has reached a number.
fn wait_for(counter: &AtomicUsize, tasks: usize) {
    while counter.load(Ordering::Relaxed) < tasks {
        thread::sleep(LOOK);
    }
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
