//! CPUs of the runtime that stand still because the kernel runs another process there, and the moves of their tasks.
//!
//! To the kernel, a worker is a thread like any other. Beside other processes it stands still for as long as the
//! kernel's slices last, with all tasks in the queue of its CPU. Two kinds of threads detect that:
//!
//! - **An idle worker**, when it is about to sleep ([`super::relief`]).
//! - **The keeper**, at a check: it detects an owner that has used hardly any CPU time since the last check and does
//!   not block. It also detects an owner that was called before the last check and still sleeps. It moves the tasks
//!   that wait there to a worker that sleeps, or to one that runs.
//!
//! A task in the middle of a poll stays: its thread is the one that stands still.

use crate::os::sync::Ordering;
use crate::shared::Scheduler;
use runyard_engine::cpu::CpuId;

/// The most tasks that the keeper moves from a CPU to busy ones at a check: as many as a pass of balancing.
const MAX_MOVED: usize = 32;

/// The keeper's observations of all slots.
#[derive(Debug)]
pub(crate) struct Standing(Box<[State]>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Runs,
    Sleeps,
    /// The owner was called and sleeps; the number is that of its bed.
    Called(u32),
    Stands,
}

impl Standing {
    pub(crate) fn new(cpus: usize) -> Standing {
        Standing(vec![State::Runs; cpus].into())
    }

    /// Notes at a check that the owner of this slot sleeps. Returns whether it was called, so that another check has to
    /// follow.
    pub(crate) fn sleeps(&mut self, scheduler: &Scheduler, cpu: CpuId) -> bool {
        // The bed is read first: so the owner is still called for the same sleep.
        let nth = scheduler.crew().slot(cpu).bed.load(Ordering::SeqCst);
        let called = scheduler.crew().slot(cpu).is_called();
        let state = &mut self.0[cpu.index()];
        *state = match (called, *state) {
            (false, _) => State::Sleeps,
            (true, State::Called(before)) if before == nth => {
                let owner = scheduler.crew().threads.worker(scheduler.crew().slot(cpu).owner());
                owner.into_iter().for_each(|owner| owner.thread.does_not_come());
                State::Stands
            }
            (true, State::Stands) => State::Stands,
            (true, _) => State::Called(nth),
        };
        called
    }

    /// Notes at a check that the owner of this slot is awake, and whether it has stood still since the last check.
    pub(crate) fn is_awake(&mut self, cpu: CpuId, stands: bool) {
        self.0[cpu.index()] = if stands { State::Stands } else { State::Runs };
    }

    /// Moves, after a check, tasks of workers that stand still to workers that sleep, one task to each. These come for
    /// more when they have no other work. If no worker sleeps, the tasks go to a worker that runs.
    pub(crate) fn relieve(&self, scheduler: &Scheduler) {
        for from in
            self.all(State::Stands).filter(|&cpu| scheduler.machine().sight().has_tasks(cpu))
        {
            let woken = self.all(State::Sleeps).filter(|&to| scheduler.relieve(from, to)).count();
            if woken == 0 {
                let gives = || self.all(State::Runs).any(|to| scheduler.relieve(from, to));
                (0..MAX_MOVED).take_while(|_| gives()).for_each(drop);
            }
        }
    }

    fn all(&self, state: State) -> impl Iterator<Item = CpuId> {
        let states = self.0.iter().enumerate();
        states.filter(move |(_, it)| **it == state).map(|(nth, _)| CpuId::at(nth))
    }
}
