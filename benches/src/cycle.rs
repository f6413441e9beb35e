//! A workload like hackbench's on one CPU: tasks that wait for each other's messages. Who has the CPU
//! runs and blocks; every fourth time it wakes up four before, by each of which it is preempted or not.
//!
//! Whoever can do that is a [`Host`]: the engine, and the models of its orders, which are given the
//! same turns by the same seed. A fifth of the wake-ups preempt while nobody is sensitive, a quarter
//! if one task in eight is.

use crate::Runner;
use crate::rig::Clock;
use runyard_engine::time::Nanos;

/// For how long a task runs, at the most, before the next one wakes up or it blocks itself: half of
/// the wake-up granularity. With less fewer wake-ups preempt, with more the second order decides less.
const STINT: Nanos = Nanos::from_micros(500);

/// As many wake up together as block one after the other.
const BURST: u32 = 4;

/// Turns of each task after which what new tasks paid for is forgotten.
const TURNS_TO_SETTLE: u32 = 16;

/// A CPU and its fair tasks, who are numbered from 0.
pub(crate) trait Host: 'static {
    /// The running task, if there is one, ran so long.
    fn run(&mut self, span: Nanos);

    /// A task wakes up, or comes for the first time; whether it preempts who runs.
    fn wake(&mut self, task: u32) -> bool;

    /// Who runs was preempted or blocks, if anybody ran; who runs now.
    fn switch(&mut self, why: Why) -> u32;
}

/// Why somebody else runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Preempted,
    Blocked,
}

/// What a turn was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// By how many wake-ups.
    pub(crate) preempted: u32,
    pub(crate) blocked: u32,
    pub(crate) next: u32,
}

pub(crate) struct Cycle<H> {
    pub(crate) host: H,
    curr: u32,
    asleep: Vec<u32>,
    /// With so many the next turn begins with wake-ups.
    most_asleep: usize,
    clock: Clock,
}

impl<H: Host> Cycle<H> {
    /// So many tasks are queued at the least, who runs included, and as many sleep at the most.
    pub(crate) fn new(mut host: H, queued: u32) -> Cycle<H> {
        for task in 0..2 * queued {
            host.wake(task);
        }
        let curr = host.switch(Why::Preempted);
        let mut cycle = Cycle {
            host,
            curr,
            asleep: Vec::new(),
            most_asleep: queued as usize,
            clock: Clock::default(),
        };
        for _ in 0..queued {
            cycle.stint();
            cycle.asleep.push(cycle.curr);
            cycle.curr = cycle.host.switch(Why::Blocked);
        }
        cycle
    }

    /// One task blocks, and over four turns as many wake up.
    pub(crate) fn turn(&mut self) -> Turn {
        let mut preempted = 0;
        if self.asleep.len() >= self.most_asleep {
            for _ in 0..BURST {
                preempted += u32::from(self.wake_one());
            }
        }
        self.stint();
        let blocked = self.curr;
        self.asleep.push(blocked);
        self.curr = self.host.switch(Why::Blocked);
        assert_ne!(self.curr, blocked, "who sleeps does not run");
        Turn { preempted, blocked, next: self.curr }
    }

    /// The running task wakes up another; whether that preempts it.
    fn wake_one(&mut self) -> bool {
        self.stint();
        let nth = self.clock.below(Nanos(self.asleep.len() as u64)).0 as usize;
        let preempts = self.host.wake(self.asleep.swap_remove(nth));
        if preempts {
            self.curr = self.host.switch(Why::Preempted);
        }
        preempts
    }

    fn stint(&mut self) {
        let span = self.clock.below(STINT);
        self.host.run(span);
    }
}

/// What is measured: turns, after those at the beginning.
pub(crate) fn turns<H: Host>(host: H, queued: u32) -> Runner {
    let mut cycle = Cycle::new(host, queued);
    for _ in 0..TURNS_TO_SETTLE * queued {
        cycle.turn();
    }
    Box::new(move |times| {
        for _ in 0..times {
            cycle.turn();
        }
    })
}
