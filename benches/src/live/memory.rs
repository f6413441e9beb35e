//! The memory of a waiting task: the growth of the resident set over a million tasks that are never ready. Their future
//! has no size, so all of the growth belongs to the runtime and the allocator. With these tasks, the workload also
//! times a change of their group's limit.
//!
//! Each side is a process of its own that this program starts. An allocator that other workloads have used would give a
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
/// The hidden argument that starts this program as a measured process.
const ARGUMENT: &str = "--memory-of";
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
    /// Median time of [`Group::set_limit`] with these tasks; `null` for a runtime without groups.
    pub set_limit_ns: Option<u64>,
}

/// Measures both sides, one after the other.
pub(crate) fn measure() -> [Memory; 2] {
    [Side::Runyard, Side::Tokio].map(|host| Memory { host, figures: in_a_process(host) })
}

/// Measures the figures in another process of this program, with the features of this one.
fn in_a_process(side: Side) -> Footprint {
    let this = std::env::current_exe().expect("this program is somewhere");
    let name = side.to_possible_value().expect("every side has a name");
    let switches = features().names().flat_map(|name| ["--feature".to_owned(), name]);
    let mut command = Command::new(this);
    command.args([ARGUMENT, name.get_name()]).args(switches).stderr(Stdio::inherit());
    let output = command.output().expect("it runs again");
    assert!(output.status.success(), "{side:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("it prints its figures")
}

/// Runs as a measured process.
///
/// # Panics
///
/// Panics if this system does not report the resident set.
pub fn be_memory_of(side: Side) -> ! {
    let found = match side {
        Side::Runyard => footprint_of_runyard(),
        Side::Tokio => footprint(&Tokio::start(workers()), || None),
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
    Footprint { tasks: TASKS, bytes_each, set_limit_ns: beside_them() }
}

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
        let told = Footprint { tasks: 7, bytes_each: 0.5, set_limit_ns: None };
        let text = serde_json::to_string(&told).unwrap();
        assert_eq!(serde_json::from_str::<Footprint>(&text).unwrap(), told);
    }
}
