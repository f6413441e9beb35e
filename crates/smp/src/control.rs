//! Where a task lives, and what was asked of it: the small part of a task that everybody shares.
//!
//! A task is a box with one owner, and a requester (renice, affinity, policy, group, priority
//! inheritance) is usually not the owner. It leaves its request here, fences, reads where the task
//! lives, and locks that run queue. Whoever brings a task to a run queue says so here, fences, and
//! looks for requests. Of the two, the one whose fence is second sees the other's write: every
//! request is carried out exactly once, by the requester or by whoever has the task.
//!
//! `home` is written with the lock of the run queue held that the task enters or leaves, so a
//! requester that finds it unchanged under that lock knows that the task is there, or was until it
//! ended: the last word of a task is not said here, since its payload stays with its host. So the
//! cell also knows whose it is.
//!
//! So that a task is `Home::Away` while it is on its way spares requesters a lock, and decides
//! nothing: one that finds where the task was finds it gone, or its place taken by another, and leaves
//! the request to who brings the task, as if it had found nothing. No model can tell the two apart;
//! where the task enters the next run queue it is asserted.

use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::{Change, QueueIndex, TaskId};

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Blocked, or on its way between run queues: with its host.
    Away,
    /// In a run queue, waiting or running.
    At(CpuId, QueueIndex),
}

/// A task's control cell. In the order of the source: what everybody looks at comes before what hardly
/// anybody does.
#[derive(Debug)]
#[repr(C)]
pub struct Control {
    /// A [`Home`] in a word.
    home: AtomicU64,
    /// The task, written with its first `home`, above [`ASKED`].
    task: AtomicU64,
    pending: Mutex<Change>,
}

/// In [`Control::task`]: `pending` may hold something.
const ASKED: u64 = 1;
/// How many bits that is. What is left counts for as long as tasks are named.
const FLAGS: u32 = 1;
/// In [`Control::task`]: no task has come yet.
const NOBODY: u64 = u64::MAX << FLAGS;

impl Default for Control {
    fn default() -> Control {
        Control {
            home: AtomicU64::new(Home::Away.to_bits()),
            task: AtomicU64::new(NOBODY),
            pending: Mutex::new(Change::default()),
        }
    }
}

impl Control {
    pub(crate) fn home(&self) -> Home {
        Home::from_bits(self.home.load(Ordering::Acquire))
    }

    /// Whether the task is in no run queue, as far as it is known here.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.home() == Home::Away
    }

    /// Says where the task is from now on. The caller holds the lock of the run queue concerned.
    pub(crate) fn set_home(&self, home: Home) {
        self.home.store(home.to_bits(), Ordering::Release);
    }

    /// As [`Control::set_home`], for a task that enters a run queue.
    #[inline]
    pub(crate) fn enter(&self, task: TaskId, home: Home) {
        if !self.is_of(task) {
            self.begin(task);
        }
        self.set_home(home);
    }

    /// The task enters its first run queue.
    #[cold]
    fn begin(&self, task: TaskId) {
        let named = |word: u64| Some(task.0 << FLAGS | word & ASKED);
        let _ = self.task.fetch_update(Ordering::Relaxed, Ordering::Relaxed, named);
    }

    /// Whether this is the cell of `task`. The caller holds the lock of the run queue at `home`.
    pub(crate) fn is_of(&self, task: TaskId) -> bool {
        self.task.load(Ordering::Relaxed) >> FLAGS == task.0
    }

    /// Leaves a request for whoever has the task.
    pub(crate) fn ask(&self, change: Change) {
        lock(&self.pending).merge(change);
        self.task.fetch_or(ASKED, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// After [`Control::set_home`]: whether something was asked meanwhile.
    pub(crate) fn was_asked_meanwhile(&self) -> bool {
        fence(Ordering::SeqCst);
        self.was_asked()
    }

    /// Whether something was asked, as far as it is known here. What is not will be found when the
    /// task has a home again.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.task.load(Ordering::Acquire) & ASKED != 0
    }

    /// Takes what was asked, if nobody else did.
    pub(crate) fn take(&self) -> Option<Change> {
        let mut pending = lock(&self.pending);
        let asked = self.task.fetch_and(!ASKED, Ordering::AcqRel) & ASKED != 0;
        asked.then(|| std::mem::take(&mut *pending))
    }
}

impl Home {
    const AWAY: u64 = u64::MAX;

    fn to_bits(self) -> u64 {
        match self {
            Home::Away => Home::AWAY,
            Home::At(cpu, slot) => u64::from(cpu.0) << 32 | u64::from(slot.to_bits()),
        }
    }

    fn from_bits(bits: u64) -> Home {
        match bits {
            Home::AWAY => Home::Away,
            bits => Home::At(CpuId((bits >> 32) as u16), QueueIndex::from_bits(bits as u32)),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_request_does_not_touch_the_name() {
        assert_eq!(size_of::<Control>(), 96);
        let cell = Control::default();
        cell.ask(Change::default());
        cell.enter(TaskId(7), Home::Away);
        assert!(cell.was_asked() && cell.is_of(TaskId(7)) && !cell.is_of(TaskId(8)));
        assert_eq!((cell.take(), cell.take()), (Some(Change::default()), None));
        assert!(!cell.was_asked() && cell.is_of(TaskId(7)));
    }
}
