//! The lateness of a heartbeat beside many tasks with short polls that each yield: the load of a server, where a task
//! waits because of the length of a queue and not that of a poll.
//!
//! The heartbeat is an ordinary task that a timer wakes every 2 ms, or an ordinary task that another task wakes through
//! a channel. The second case has two rows for the runtime, because a woken task may get another CPU than its waker's.
//! In one row the runtime chooses. In the other an affinity gives both tasks the same CPU, which excludes them from
//! batches and binds their threads while they are polled. tokio has no affinity; a woken task starts on the worker that
//! wakes it.
//!
//! The waker sleeps between two messages and then waits for its own turn. So lateness counts from the message, and the
//! number of messages is limited by time and may differ between the sides.

use super::Effort;
use super::host::{Host, Runyard, Tokio, workers};
use super::probe::{Hogs, Lateness, PERIOD, SLACK, beside_hogs, percentiles, probe, tokio_probe};
use runyard::{Task, TaskBuilder};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Length of a poll beside the heartbeat: that of a request that computes a little.
const POLL: Duration = Duration::from_micros(100);
/// Smaller and larger number of tasks. The smaller is a few times that of workers. With the larger, a round of all
/// tasks takes 50 ms on two CPUs.
const FEW: usize = 64;
const MANY: usize = 1_000;
/// Divisor of the time limit. A waker ends when it would have sent all of its messages in a time that is this many
/// times shorter; where its turns come late, a full run would take minutes.
const PATIENCE: u32 = 4;

/// The runtime of a heartbeat, and its waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heartbeat {
    RunyardTimer,
    RunyardTask,
    RunyardBound,
    TokioTimer,
    TokioTask,
}

/// The measured rows: each heartbeat beside few tasks and beside many.
const ROWS: [(usize, Heartbeat, &str); 10] = [
    (FEW, Heartbeat::RunyardTimer, "64 tasks, timer: runyard"),
    (FEW, Heartbeat::TokioTimer, "64 tasks, timer: tokio"),
    (FEW, Heartbeat::RunyardTask, "64 tasks, channel: runyard"),
    (FEW, Heartbeat::RunyardBound, "64 tasks, channel: runyard, one CPU"),
    (FEW, Heartbeat::TokioTask, "64 tasks, channel: tokio"),
    (MANY, Heartbeat::RunyardTimer, "1,000 tasks, timer: runyard"),
    (MANY, Heartbeat::TokioTimer, "1,000 tasks, timer: tokio"),
    (MANY, Heartbeat::RunyardTask, "1,000 tasks, channel: runyard"),
    (MANY, Heartbeat::RunyardBound, "1,000 tasks, channel: runyard, one CPU"),
    (MANY, Heartbeat::TokioTask, "1,000 tasks, channel: tokio"),
];

/// Measures every row, in turns.
pub(crate) fn measure(effort: &Effort) -> Vec<Lateness> {
    let beats = effort.periods.div_ceil(effort.rounds).max(1);
    let mut all = ROWS.map(|_| Vec::new());
    for _ in 0..effort.rounds {
        for ((tasks, heartbeat, _), late) in ROWS.into_iter().zip(&mut all) {
            late.extend(heartbeat.lateness(tasks, beats));
        }
    }
    let rows = ROWS.into_iter().zip(all);
    rows.map(|((.., probe), late)| Lateness { probe, figures: Some(percentiles(late)) }).collect()
}

impl Heartbeat {
    /// Returns the lateness of each of `beats` beats, or of fewer if the waker itself is late.
    fn lateness(self, tasks: usize, beats: usize) -> Vec<Duration> {
        let hogs = Hogs { tasks, poll: POLL };
        match self {
            Heartbeat::RunyardTimer => on_runyard(hogs, Task::builder().slack(SLACK), probe(beats)),
            Heartbeat::RunyardTask => on_runyard(hogs, Task::builder(), woken::<Runyard>(beats)),
            // The waker inherits the affinity.
            Heartbeat::RunyardBound => {
                on_runyard(hogs, Task::builder().affinity([0]), woken::<Runyard>(beats))
            }
            Heartbeat::TokioTimer => on_tokio(hogs, tokio_probe(beats)),
            Heartbeat::TokioTask => on_tokio(hogs, woken::<Tokio>(beats)),
        }
    }
}

fn on_runyard(
    hogs: Hogs,
    task: TaskBuilder,
    heartbeat: impl Future<Output = Vec<Duration>> + Send + 'static,
) -> Vec<Duration> {
    let beats = async { task.spawn(heartbeat).await.expect("a heartbeat does not panic") };
    beside_hogs(&Runyard::start(workers()), hogs, beats)
}

fn on_tokio(
    hogs: Hogs,
    heartbeat: impl Future<Output = Vec<Duration>> + Send + 'static,
) -> Vec<Duration> {
    let beats = async { Tokio::spawn(heartbeat).await.expect("a heartbeat does not panic") };
    beside_hogs(&Tokio::start(workers()), hogs, beats)
}

/// Starts a waker. Returns the time from each of its messages to the poll in which the calling task receives it.
async fn woken<H: Host>(beats: usize) -> Vec<Duration> {
    // The channel is unbounded so that a late message does not delay the waker.
    let (send, mut sent) = mpsc::unbounded_channel();
    let waker = H::spawn(async move {
        let end = Instant::now() + PERIOD * beats as u32 * PATIENCE;
        for _ in 0..beats {
            H::sleep(PERIOD).await;
            send.send(Instant::now()).expect("the heartbeat receives");
            if Instant::now() >= end {
                break;
            }
        }
    });
    let mut lateness = Vec::with_capacity(beats);
    while let Some(sent) = sent.recv().await {
        lateness.push(sent.elapsed());
    }
    waker.await.expect("a waker does not panic");
    lateness
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::within_time;

    #[test]
    fn every_heartbeat_beats() {
        const BEATS: usize = 20;
        for (tasks, heartbeat, name) in ROWS {
            let found = within_time(move || heartbeat.lateness(tasks, BEATS)).len();
            let by_timer = [Heartbeat::RunyardTimer, Heartbeat::TokioTimer].contains(&heartbeat);
            assert!(found == BEATS || !by_timer && (1..BEATS).contains(&found), "{name}: {found}");
        }
    }
}
