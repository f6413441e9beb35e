//! How late a heartbeat is beside many tasks that each poll for a short time and then let others run: the
//! load of a server, where the length of a queue makes a task wait, and not the length of a poll.
//!
//! The heartbeat is an ordinary task that a timer wakes every 2 ms, or an ordinary task that another
//! one wakes through a channel. The second case has two rows of the runtime, as a woken task may be given
//! another CPU than its waker's: one where the runtime chooses, and one where both tasks have the same CPU
//! by their affinity, which makes them special and binds their threads while they are polled. tokio has
//! no affinity; its woken tasks begin on the worker that wakes them.
//!
//! The waker sleeps between two messages, and it has to wait for its own turn after that. So lateness
//! counts from the message, and the number of messages is what fits into a time, not one that is the same
//! on both sides.

use super::Effort;
use super::host::{Host, Runyard, Tokio};
use super::probe::{
    Hogs, Lateness, PERIOD, SLACK, WORKERS, beside_hogs, percentiles, probe, tokio_probe,
};
use runyard::{Task, TaskBuilder};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The length of a poll beside the heartbeat: that of a request that computes a little.
const POLL: Duration = Duration::from_micros(100);
/// A few times as many as there are workers, and so many that a round of all takes 50 ms on two CPUs.
const FEW: usize = 64;
const MANY: usize = 1_000;
/// A waker ends when it would have sent all of its messages in a time that is so many times shorter:
/// where its own turn comes late, a run of it would take minutes.
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
    /// The lateness of each of so many `beats`, or of fewer if the waker is late itself.
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
    beside_hogs(&Runyard::start(WORKERS), hogs, beats)
}

fn on_tokio(
    hogs: Hogs,
    heartbeat: impl Future<Output = Vec<Duration>> + Send + 'static,
) -> Vec<Duration> {
    let beats = async { Tokio::spawn(heartbeat).await.expect("a heartbeat does not panic") };
    beside_hogs(&Tokio::start(WORKERS), hogs, beats)
}

/// Starts a waker. The lateness is from each of its messages to the poll in which the calling task
/// receives that.
async fn woken<H: Host>(beats: usize) -> Vec<Duration> {
    // A message that is late makes no other wait: it would be later than it is.
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
