//! The live runtime beside its peers, measured in one run and in turns, so that a figure never
//! stands beside one of another day. `cargo run --release -p runyard-benches --bin live` prints
//! the tables; `docs/figures/performance.md` has the figures.

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
pub(crate) mod probe;
pub(crate) mod rates;
mod shares;
mod short_polls;
mod situations;
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
pub use host::switch_features;
pub use limits::{Held, Part};
pub use memory::{Footprint, Memory, Side, be_memory_of};
pub use probe::{Lateness, Percentiles};
pub use rates::{Comparison, Peer};
pub use shares::Share;
pub use threads::Threads;
pub use wakeups::Wakeups;

use serde::Serialize;
use std::time::Duration;
use tasks::Bench;

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Workload {
    /// 200 tasks yield 1,000 times each
    YieldMany,
    /// 1,000 tasks each start another and have an answer from it
    PingPong,
    /// Each of 1,000 tasks starts the next
    ChainedSpawn,
    /// 10,000 tasks are started within `block_on`
    SpawnManyLocal,
    /// 10,000 tasks are started from outside and awaited
    SpawnManyRemoteIdle,
    /// The same while the workers are kept busy by tasks that yield
    SpawnManyRemoteBusy1,
    /// 1,000 such tasks while the workers are kept busy by chains of tasks
    SpawnManyRemoteBusy2,
    /// A task locks a mutex of the runtime's own again and again
    LockAlone,
    /// Eight tasks want one such mutex 1,000 times each, and yield while they have it
    LockCrowd,
    /// 1,000 times a task is started within `block_on` and awaited
    SpawnOne,
    /// 25,000 tasks that are ready at once are started by a task and awaited
    SpawnManyLight,
    /// Each of 300 tasks starts one and awaits it, which does the same, 300 deep
    SpawnRecursively,
    /// 300 tasks yield 300 times each and are awaited
    YieldNow,
    /// A message goes 300 times round a ring of 300 tasks
    Channels,
    /// Two tasks pass a token to and fro on two workers
    Pair,
    /// The same pair, beside two kernel threads that park and unpark
    Kernel,
    /// Such a pair on one worker, alone and beside a task that never waits
    PingpongHog,
    /// How late a periodic task is beside tasks that poll for 50 ms each
    Probe,
    /// How late a heartbeat is beside 64 and 1,000 tasks that poll for 100 us each; takes two minutes
    ShortPolls,
    /// From a decision to preempt to the task that preempts
    Preemption,
    /// How late a FIFO task is beside a neighbour that is much in the C library
    Neighbours,
    /// How long tasks take to answer threads while other processes have the CPUs now and then
    Crowded,
    /// What groups use that are limited to parts of a CPU; takes a minute
    Limits,
    /// The shares that tasks are charged in sixteen situations, beside the simulator's answers; takes 35 minutes
    Shares,
    /// The threads of the process while 1,000 tasks poll for 300 us each, with batches and without
    Threads,
    /// A sleep is armed and cancelled, beside 10 to 1,000,000 others
    #[value(alias = "timers-ops")]
    TimersOps,
    /// How late a periodic task is for its timer, beside cyclictest
    #[value(alias = "timers-accuracy")]
    TimersAccuracy,
    /// How often 10,000 periodic tasks wake their process; takes a minute a round
    Wakeups,
    /// The memory of 1,000,000 tasks that wait, and the time to limit a group beside them
    Memory,
}

impl Workload {
    /// How often each side has its turn, if not said.
    #[must_use]
    pub fn rounds(self) -> u32 {
        match self {
            Workload::Shares => 7,
            _ => 5,
        }
    }
}

/// How long to measure.
#[derive(Clone, Debug)]
pub struct Effort {
    /// How often each side has its turn.
    pub rounds: usize,
    /// Iterations of a turn; as many as fit into the span if not said.
    pub iterations: Option<u64>,
    /// The length of a turn.
    pub span: Duration,
    /// How often a probe runs.
    pub periods: usize,
    /// A part of the names of the situations in which shares are measured; all if not said.
    pub situation: Option<String>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct LiveFigures {
    schema: &'static str,
    /// The cost of an operation, ours and a peer's.
    pub comparisons: Vec<Comparison>,
    /// What a pair of tasks does beside a hog.
    pub beside_hog: Vec<BesideHog>,
    /// How late a periodic task is.
    pub lateness: Vec<Lateness>,
    /// How late a heartbeat is beside tasks that poll for a short time.
    pub short_polls: Vec<Lateness>,
    /// How late a FIFO task is beside each kind of neighbour.
    pub neighbours: Vec<Lateness>,
    /// How long it takes to stop one task and start another.
    pub preemption: Vec<Lateness>,
    /// How long tasks take to answer threads while other processes have the CPUs now and then.
    pub crowded: Vec<Crowded>,
    /// How exactly limits hold.
    pub limits: Vec<Held>,
    /// The shares that tasks are charged.
    pub shares: Vec<Share>,
    /// The threads of the process beside tasks that poll for a short time.
    pub threads: Vec<Threads>,
    /// How late a periodic task is for its timer.
    pub accuracy: Vec<Accuracy>,
    /// How often periodic tasks wake their process.
    pub wakeups: Vec<Wakeups>,
    /// The memory of tasks that wait.
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
            Workload::Threads => return self.threads.extend(threads::measure(effort)),
            Workload::TimersAccuracy => return self.accuracy.extend(accuracy::measure(effort)),
            Workload::Wakeups => return self.wakeups.extend(wakeups::measure(effort)),
            Workload::Memory => return self.memory.extend(memory::measure()),
            Workload::TimersOps => return self.comparisons.extend(timer_ops::measure(effort)),
            Workload::Preemption => return self.preemption.extend(preemption::measure(effort)),
        };
        self.comparisons.push(rates::compare(name, bench, peer, effort));
    }

    /// As tables for people.
    #[must_use]
    pub fn tables(&self) -> String {
        table::render(self)
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("all keys are strings")
    }
}

/// Runs a test's body on a thread of its own: a runtime that hangs fails the test, and no more.
#[cfg(test)]
pub(crate) fn within_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    const LIMIT: Duration = Duration::from_secs(30);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(body()));
    receive.recv_timeout(LIMIT).expect("it ends, and in time")
}
