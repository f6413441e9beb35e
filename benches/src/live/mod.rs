//! Measures the live runtime and its peers in one run and in turns, so that compared figures always come from the same
//! run. `cargo run --profile dist -p runyard-benches --bin live` prints the tables. `docs/figures/performance.md` has
//! the figures.

mod accuracy;
mod crowded;
mod executor;
mod expected;
mod floor;
mod hog;
pub(crate) mod host;
mod limits;
mod memory;
mod neighbours;
mod preemption;
pub mod price;
pub(crate) mod probe;
pub(crate) mod rates;
mod shares;
mod short_polls;
mod situations;
mod spread;
mod steal;
pub(crate) mod table;
mod tasks;
mod threads;
mod timer_ops;
mod wakeups;

pub use accuracy::Accuracy;
pub use crowded::{Crowded, Ratio, be_neighbour};
pub use expected::Rule;
pub use hog::BesideHog;
pub use host::{set_workers, switch_features};
pub use limits::{Held, Part};
pub use memory::{Footprint, Memory, Side, be_memory_of};
pub use probe::{Lateness, Percentiles};
pub use rates::{Comparison, Peer};
pub use shares::Share;
pub use spread::Spread;
pub use threads::Threads;
pub use wakeups::Wakeups;

use serde::Serialize;
use std::time::Duration;
use tasks::Bench;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// 200 tasks yield 1,000 times each
    YieldMany,
    /// 1,000 tasks each start another and receive an answer from it
    PingPong,
    /// Each of 1,000 tasks starts the next
    ChainedSpawn,
    /// 10,000 tasks are started within `block_on`
    SpawnManyLocal,
    /// 10,000 tasks are started from outside and awaited
    SpawnManyRemoteIdle,
    /// Like `spawn-many-remote-idle`, while tasks that yield keep the workers busy
    SpawnManyRemoteBusy1,
    /// 1,000 such tasks while chains of tasks keep the workers busy
    SpawnManyRemoteBusy2,
    /// A task locks the runtime's own mutex again and again
    LockAlone,
    /// Eight tasks lock such a mutex 1,000 times each, and yield while they hold it
    LockCrowd,
    /// A task is started within `block_on` and awaited, 1,000 times
    SpawnOne,
    /// A task starts and awaits 25,000 tasks that are ready at once
    SpawnManyLight,
    /// Each of 300 tasks starts and awaits one, which does the same, 300 deep
    SpawnRecursively,
    /// 300 tasks yield 300 times each and are awaited
    YieldNow,
    /// A message goes 300 times round a ring of 300 tasks
    Channels,
    /// Two tasks pass a token to and fro on two workers
    Pair,
    /// The same pair, compared with two kernel threads that park and unpark
    Kernel,
    /// Such a pair on one worker, alone and beside a task that never waits
    PingpongHog,
    /// Lateness of a periodic task beside tasks with polls of 50 ms
    Probe,
    /// Lateness of a heartbeat beside 64 and 1,000 tasks with polls of 100 us; takes two minutes
    ShortPolls,
    /// Time from the decision to preempt to the first instruction of the preempting task
    Preemption,
    /// Lateness of a FIFO task beside a neighbour that spends its time in the C library or the kernel
    Neighbours,
    /// Time that tasks take to answer threads while other processes use the CPUs now and then
    Crowded,
    /// CPU use of groups that are limited to parts of a CPU; takes a minute
    Limits,
    /// CPU shares charged to tasks in sixteen situations, beside the simulator's; takes 35 minutes
    Shares,
    /// CPU shares of two groups over all workers
    Spread,
    /// Threads of the process while 1,000 tasks have polls of 300 us, with and without batches
    Threads,
    /// Arming and cancelling of a sleep, beside 10 to 1,000,000 others
    #[value(alias = "timers-ops")]
    TimersOps,
    /// Timer lateness of a periodic task, beside cyclictest
    #[value(alias = "timers-accuracy")]
    TimersAccuracy,
    /// Wake-ups of a process with 10,000 periodic tasks; takes a minute for each round
    Wakeups,
    /// Memory of 1,000,000 tasks that wait or sleep, and time to limit their group
    Memory,
}

impl Workload {
    /// Returns the default number of turns of each side.
    #[must_use]
    pub fn rounds(self) -> u32 {
        match self {
            Workload::Shares => 7,
            _ => 5,
        }
    }
}

/// The extent of a measurement.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Number of turns of each side.
    pub rounds: usize,
    /// Iterations of a turn; `None` for as many as fit into the span.
    pub iterations: Option<u64>,
    /// Length of a turn.
    pub span: Duration,
    /// Number of periods of a probe.
    pub periods: usize,
    /// A part of the names of the situations in which shares are measured; `None` for all.
    pub situation: Option<String>,
}

/// The measured figures.
#[derive(Clone, Debug, Serialize)]
pub struct LiveFigures {
    schema: &'static str,
    /// The costs of an operation on the runtime and on a peer.
    pub comparisons: Vec<Comparison>,
    /// The rate of a pair of tasks beside a hog.
    pub beside_hog: Vec<BesideHog>,
    /// The lateness of a periodic task.
    pub lateness: Vec<Lateness>,
    /// The lateness of a heartbeat beside tasks with short polls.
    pub short_polls: Vec<Lateness>,
    /// The lateness of a FIFO task beside each kind of neighbour.
    pub neighbours: Vec<Lateness>,
    /// The time to stop one task and start another.
    pub preemption: Vec<Lateness>,
    /// The time that tasks take to answer threads beside other processes.
    pub crowded: Vec<Crowded>,
    /// The accuracy of limits.
    pub limits: Vec<Held>,
    /// The shares charged to tasks.
    pub shares: Vec<Share>,
    /// The shares of two groups over all workers.
    pub spread: Vec<Spread>,
    /// The threads of the process beside tasks with short polls.
    pub threads: Vec<Threads>,
    /// The timer lateness of a periodic task.
    pub accuracy: Vec<Accuracy>,
    /// The wake-ups of a process by its periodic tasks.
    pub wakeups: Vec<Wakeups>,
    /// The memory of waiting tasks.
    pub memory: Vec<Memory>,
}

impl Default for LiveFigures {
    fn default() -> LiveFigures {
        LiveFigures {
            schema: "runyard.live-benches/1",
            comparisons: Vec::new(),
            beside_hog: Vec::new(),
            lateness: Vec::new(),
            short_polls: Vec::new(),
            neighbours: Vec::new(),
            preemption: Vec::new(),
            crowded: Vec::new(),
            limits: Vec::new(),
            shares: Vec::new(),
            spread: Vec::new(),
            threads: Vec::new(),
            accuracy: Vec::new(),
            wakeups: Vec::new(),
            memory: Vec::new(),
        }
    }
}

impl LiveFigures {
    /// Measures a workload.
    pub fn add(&mut self, workload: Workload, effort: &Effort) {
        let (name, bench, peer) = match workload {
            Workload::YieldMany => ("yield_many", Bench::YieldMany, Peer::Tokio),
            Workload::PingPong => ("ping_pong", Bench::PingPong, Peer::Tokio),
            Workload::ChainedSpawn => ("chained_spawn", Bench::ChainedSpawn, Peer::Tokio),
            Workload::SpawnManyLocal => ("spawn_many_local", Bench::SpawnManyLocal, Peer::Tokio),
            Workload::SpawnManyRemoteIdle => {
                ("spawn_many_remote_idle", Bench::SpawnManyRemoteIdle, Peer::Tokio)
            }
            Workload::SpawnManyRemoteBusy1 => {
                ("spawn_many_remote_busy1", Bench::SpawnManyRemoteBusy1, Peer::Tokio)
            }
            Workload::SpawnManyRemoteBusy2 => {
                ("spawn_many_remote_busy2", Bench::SpawnManyRemoteBusy2, Peer::Tokio)
            }
            Workload::Pair => ("pair", Bench::Pair, Peer::Tokio),
            Workload::LockAlone => ("lock_alone", Bench::LockAlone, Peer::Tokio),
            Workload::LockCrowd => ("lock_crowd", Bench::LockCrowd, Peer::Tokio),
            Workload::SpawnOne => ("spawn_one", Bench::SpawnOne, Peer::Tokio),
            Workload::SpawnManyLight => ("spawn_many_light", Bench::SpawnManyLight, Peer::Tokio),
            Workload::SpawnRecursively => {
                ("spawn_recursively", Bench::SpawnRecursively, Peer::Tokio)
            }
            Workload::YieldNow => ("yield_now", Bench::YieldNow, Peer::Tokio),
            Workload::Channels => ("channels", Bench::Channels, Peer::Tokio),
            Workload::Kernel => ("kernel", Bench::Pair, Peer::Kernel),
            Workload::PingpongHog => return self.beside_hog.extend(hog::measure(effort)),
            Workload::Probe => return self.lateness.extend(probe::measure(effort)),
            Workload::ShortPolls => return self.short_polls.extend(short_polls::measure(effort)),
            Workload::Neighbours => return self.neighbours.extend(neighbours::measure(effort)),
            Workload::Crowded => return self.crowded.push(crowded::measure(effort)),
            Workload::Limits => return self.limits.extend(limits::measure()),
            Workload::Shares => return self.shares.extend(shares::measure(effort)),
            Workload::Spread => return self.spread.push(spread::measure(effort)),
            Workload::Threads => return self.threads.extend(threads::measure(effort)),
            Workload::TimersAccuracy => return self.accuracy.extend(accuracy::measure(effort)),
            Workload::Wakeups => return self.wakeups.extend(wakeups::measure(effort)),
            Workload::Memory => return self.memory.extend(memory::measure(effort.iterations)),
            Workload::TimersOps => return self.comparisons.extend(timer_ops::measure(effort)),
            Workload::Preemption => return self.preemption.extend(preemption::measure(effort)),
        };
        self.comparisons.push(rates::compare(name, bench, peer, effort));
    }

    /// Returns the figures as tables in plain text.
    #[must_use]
    pub fn tables(&self) -> String {
        table::render(self)
    }

    /// Returns the figures as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("all keys are strings")
    }
}

/// Runs a test's body on a new thread with a timeout, so that a runtime that hangs fails only this test.
#[cfg(test)]
pub(crate) fn within_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    const LIMIT: Duration = Duration::from_secs(30);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(body()));
    receive.recv_timeout(LIMIT).expect("it ends, and in time")
}
