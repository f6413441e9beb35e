//! The tasks that an idle worker, when it is about to sleep, takes from workers that [stand still](super::standing): from
//! a slot whose owner was called during all the time that this worker looked for work. This is immediate, and costs two
//! reads of a few words.

use crate::crew::kick::KickNow;
use crate::crew::members::Crew;
use crate::os;
use crate::shared::Scheduler;
use runyard_engine::cpu::CpuId;

/// The number of slots after its own that an idle worker checks: the cost should not grow with the machine. Slots that
/// are further away are left to the keeper.
const SLOTS_LOOKED_AT: usize = 16;

/// The slots whose owners were called, among those that an idle worker checks: a bit for each, from the slot after its
/// own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Called(u16);

impl Called {
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns those that had been called in `before`, too.
    pub(crate) fn since(self, before: Called) -> Called {
        Called(self.0 & before.0)
    }
}

impl Crew {
    /// Returns the slots near that of `own` whose owners were called, and have not seen it yet.
    pub(crate) fn called_beside(&self, own: CpuId) -> Called {
        let called = self.near(own).enumerate().filter(|&(_, cpu)| self.slot(cpu).is_called());
        Called(called.fold(0, |all, (nth, _)| all | 1 << nth))
    }

    fn near(&self, own: CpuId) -> impl Iterator<Item = CpuId> {
        let n = self.slots.len();
        let next = move |nth| CpuId::at((own.index() + nth) % n);
        (1..n).map(next).take(SLOTS_LOOKED_AT)
    }
}

impl Scheduler {
    /// Takes a task that waits on one of these CPUs for `own`. Returns whether there was one.
    pub(crate) fn take_from(&self, called: Called, own: CpuId) -> bool {
        let near = self.crew().near(own).enumerate();
        let from = near.filter(|(nth, _)| called.0 >> nth & 1 == 1);
        let mut standing = from.filter(|&(_, cpu)| self.machine().sight().has_tasks(cpu));
        standing.any(|(_, cpu)| self.relieve(cpu, own))
    }

    /// Moves a task that waits on a CPU to another one. Returns whether there was one.
    pub(super) fn relieve(&self, from: CpuId, to: CpuId) -> bool {
        self.machine().cpus().relieve(os::thread::now(), from, to, &mut KickNow(self))
    }
}
