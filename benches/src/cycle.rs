//! A workload like hackbench on one CPU: tasks that wait for each other's messages. The running task runs for a while
//! and blocks. Before every fourth block four tasks are woken, each of which may preempt the running one.
//!
//! A fifth of the wake-ups preempt while no task is latency-sensitive, and a quarter if one task in eight is.

use crate::Runner;
use crate::rig::{Clock, Sensitive, attr, config, nice_0};
use runyard_engine::attr::Attr;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Features;
use runyard_engine::run_queue::{Enqueue, Prev, RunQueue};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use std::sync::Arc;

/// The CPU of all tasks.
const HERE: CpuId = CpuId(0);

/// Upper bound of the time that a task runs before the next wake-up or block: half of the wake-up granularity. With a
/// shorter bound fewer wake-ups preempt. With a longer one the second heap of the queue decides less often.
const STINT: Nanos = Nanos::from_micros(500);

/// Number of tasks that wake together, which is also the number that block between two bursts.
const BURST: u32 = 4;

/// Turns of each task after which the placement of new tasks no longer has an effect.
const TURNS_TO_SETTLE: u32 = 16;

/// The reason for a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Preempted,
    Blocked,
}

struct Cycle {
    cpu: Cpu,
    curr: u32,
    asleep: Vec<u32>,
    /// Number of sleeping tasks at which the next turn begins with wake-ups.
    most_asleep: usize,
    clock: Clock,
}

impl Cycle {
    /// Creates a cycle with at least `queued` queued tasks, including the running one, and at most `queued` sleeping
    /// tasks.
    fn new(queued: u32, features: Features, sensitive: Sensitive) -> Cycle {
        let mut cpu = Cpu::new(queued, features, sensitive);
        for task in 0..2 * queued {
            cpu.wake(task);
        }
        let curr = cpu.switch(Why::Preempted);
        let mut cycle = Cycle {
            cpu,
            curr,
            asleep: Vec::new(),
            most_asleep: queued as usize,
            clock: Clock::default(),
        };
        for _ in 0..queued {
            cycle.stint();
            cycle.asleep.push(cycle.curr);
            cycle.curr = cycle.cpu.switch(Why::Blocked);
        }
        cycle
    }

    /// Blocks one task, and every fourth turn wakes four first. Returns the number of wake-ups that preempted.
    fn turn(&mut self) -> u32 {
        let mut preempted = 0;
        if self.asleep.len() >= self.most_asleep {
            for _ in 0..BURST {
                preempted += u32::from(self.wake_one());
            }
        }
        self.stint();
        let blocked = self.curr;
        self.asleep.push(blocked);
        self.curr = self.cpu.switch(Why::Blocked);
        assert_ne!(self.curr, blocked, "a sleeping task does not run");
        preempted
    }

    /// Wakes a random sleeping task and returns whether it preempts the running one.
    fn wake_one(&mut self) -> bool {
        self.stint();
        let nth = self.clock.below(Nanos(self.asleep.len() as u64)).0 as usize;
        let preempts = self.cpu.wake(self.asleep.swap_remove(nth));
        if preempts {
            self.curr = self.cpu.switch(Why::Preempted);
        }
        preempts
    }

    fn stint(&mut self) {
        let span = self.clock.below(STINT);
        self.cpu.run(span);
    }
}

/// Prepares the measured turns, after those in which the new tasks settle.
pub(crate) fn turns(queued: u32, features: Features, sensitive: Sensitive) -> Runner {
    let mut cycle = Cycle::new(queued, features, sensitive);
    for _ in 0..TURNS_TO_SETTLE * queued {
        cycle.turn();
    }
    Box::new(move |times| {
        for _ in 0..times {
            cycle.turn();
        }
    })
}

/// A run queue and its tasks, numbered from 0. `tasks` holds the sleeping ones.
struct Cpu {
    rq: RunQueue<(), ()>,
    tasks: Vec<Option<Box<Task<()>>>>,
    now: Time,
}

impl Cpu {
    /// Creates a CPU with `2 * queued` sleeping tasks.
    fn new(queued: u32, features: Features, sensitive: Sensitive) -> Cpu {
        let task = |id| {
            let plain = attr(nice_0(id), CpuSet::only(HERE));
            let attr = Attr { latency_nice: sensitive.latency_nice(id), ..plain };
            Some(Task::new(TaskId(id.into()), attr, ()))
        };
        let config = Arc::new(config(1, features));
        Cpu {
            rq: RunQueue::new(HERE, config, Arc::new(())),
            tasks: (0..2 * queued).map(task).collect(),
            now: Time::ZERO,
        }
    }

    /// Advances the clock by `span`, in which the running task, if any, runs.
    fn run(&mut self, span: Nanos) {
        self.now = self.now + span;
    }

    /// Wakes a task, or enqueues it for the first time, and returns whether it preempts the running task.
    fn wake(&mut self, task: u32) -> bool {
        let woken = self.tasks[task as usize].take().expect("it sleeps");
        let was_idle = self.rq.tasks().curr().is_none();
        match self.rq.offer(self.now, woken, Enqueue::Woken) {
            Ok((_, resched)) => resched.is_due() && !was_idle,
            Err(_) => unreachable!("the CPU takes tasks"),
        }
    }

    /// Switches away from the running task, if any, and returns the next task.
    fn switch(&mut self, why: Why) -> u32 {
        let prev = match (self.rq.tasks().curr(), why) {
            (None, _) => Prev::Idle,
            (Some(_), Why::Preempted) => Prev::Preempted(()),
            (Some(_), Why::Blocked) => Prev::Blocked(()),
        };
        let switch = self.rq.schedule(self.now, prev);
        if let Some((task, _)) = switch.released {
            let id = task.id.0 as usize;
            self.tasks[id] = Some(task);
        }
        switch.next.expect("a task is queued").0.index() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of turns; each task has some tens of them.
    const TURNS: u32 = 20_000;

    #[test]
    fn a_fifth_of_the_wake_ups_preempts_and_a_quarter_if_some_tasks_are_sensitive() {
        let percent = |sensitive| {
            let mut cycle = Cycle::new(64, Features::default(), sensitive);
            (0..TURNS).map(|_| cycle.turn()).sum::<u32>() * 100 / TURNS
        };
        let [nobody, one_in_eight] = [Sensitive::Nobody, Sensitive::OneInEight].map(percent);
        assert!((18..=22).contains(&nobody), "{nobody} %");
        assert!((23..=27).contains(&one_in_eight), "{one_in_eight} %");
    }
}
