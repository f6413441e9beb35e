//! CPUs of ours that stand still because the kernel runs somebody else there, and what becomes of their tasks.
//!
//! A worker is a thread like any other to the kernel. Beside other processes it stands still for as long as the
//! kernel's slices are, with all tasks that wait in the queue of its CPU. Two see that:
//!
//! - **An idle worker**, as it is about to sleep: of a slot whose owner was called for as long as this worker looked
//!   for work, it takes a task. That is at once, and costs two looks at a few words.
//! - **The keeper**, at a look: an owner that has used hardly any CPU time since the last one, and does not block, or
//!   one that was called before it and sleeps since. It brings what waits there to a worker that sleeps, or to one
//!   that runs.
//!
//! A task in the middle of a poll stays: its thread is what stands still.

use crate::os;
use crate::os::sync::Ordering;
use crate::shared::{KickNow, Shared};
use runyard_engine::cpu::CpuId;

/// At how many slots after its own an idle worker looks: what that costs is not to grow with the machine. Those
/// that are further away are left to the keeper.
const SLOTS_LOOKED_AT: usize = 16;

/// How many tasks the keeper brings from a CPU to those that are busy, at a look: as balance does in a pass.
const MAX_MOVED: usize = 32;

/// Slots whose owners were called, of those that an idle worker looks at: a bit for each, from the one after its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Called(u16);

impl Called {
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that were called by then, too.
    pub(crate) fn since(self, before: Called) -> Called {
        Called(self.0 & before.0)
    }
}

impl Shared {
    /// The slots near that of `own` whose owners were called, and do not know it yet.
    pub(crate) fn called_beside(&self, own: CpuId) -> Called {
        let called = self.near(own).enumerate().filter(|&(_, cpu)| self.slot(cpu).is_called());
        Called(called.fold(0, |all, (nth, _)| all | 1 << nth))
    }

    /// Takes a task that waits on one of these CPUs for `own`. Whether there is one.
    pub(crate) fn take_from(&self, called: Called, own: CpuId) -> bool {
        let from = self.near(own).enumerate().filter(|(nth, _)| called.0 >> nth & 1 == 1);
        let mut standing = from.filter(|&(_, cpu)| self.machine.has_tasks(cpu));
        standing.any(|(_, cpu)| self.relieve(cpu, own))
    }

    fn near(&self, own: CpuId) -> impl Iterator<Item = CpuId> {
        let n = self.slots.len();
        let next = move |nth| CpuId::at((own.index() + nth) % n);
        (1..n).map(next).take(SLOTS_LOOKED_AT)
    }

    fn relieve(&self, from: CpuId, to: CpuId) -> bool {
        self.machine.relieve(os::thread::now(), from, to, &mut KickNow(self))
    }
}

/// What the keeper knows of all slots.
#[derive(Debug)]
pub(crate) struct Standing(Box<[State]>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Runs,
    Sleeps,
    /// It was called for the nth time, and sleeps.
    Called(u32),
    Stands,
}

impl Standing {
    pub(crate) fn new(cpus: usize) -> Standing {
        Standing(vec![State::Runs; cpus].into())
    }

    /// At a look: the owner of this slot sleeps. Whether it was called, and somebody has to look again.
    pub(crate) fn sleeps(&mut self, shared: &Shared, cpu: CpuId) -> bool {
        // In this order: it is called still that many times.
        let nth = shared.slot(cpu).bed.load(Ordering::SeqCst);
        let called = shared.slot(cpu).is_called();
        let state = &mut self.0[cpu.index()];
        *state = match (called, *state) {
            (false, _) => State::Sleeps,
            (true, State::Called(before)) if before == nth => {
                let owner = shared.worker(shared.slot(cpu).owner());
                owner.into_iter().for_each(|owner| owner.does_not_come());
                State::Stands
            }
            (true, State::Stands) => State::Stands,
            (true, _) => State::Called(nth),
        };
        called
    }

    /// At a look: the owner of this slot is awake. It stands still since the last one, or not.
    pub(crate) fn is_awake(&mut self, cpu: CpuId, stands: bool) {
        self.0[cpu.index()] = if stands { State::Stands } else { State::Runs };
    }

    /// After a look: brings what waits where a worker stands still to where one sleeps, a task for each. They come
    /// for more when they have nothing to do. If nobody sleeps, to where one runs.
    pub(crate) fn relieve(&self, shared: &Shared) {
        for from in self.all(State::Stands).filter(|&cpu| shared.machine.has_tasks(cpu)) {
            let woken = self.all(State::Sleeps).filter(|&to| shared.relieve(from, to)).count();
            if woken == 0 {
                let gives = || self.all(State::Runs).any(|to| shared.relieve(from, to));
                (0..MAX_MOVED).take_while(|_| gives()).for_each(drop);
            }
        }
    }

    fn all(&self, state: State) -> impl Iterator<Item = CpuId> {
        let states = self.0.iter().enumerate();
        states.filter(move |(_, it)| **it == state).map(|(nth, _)| CpuId::at(nth))
    }
}
