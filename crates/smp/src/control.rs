//! The place of a task, and the requests for it: the small part of a task that several threads share.
//!
//! A task is a box with one owner. A requester (renice, affinity, policy, group, priority inheritance) is usually not
//! the owner. It stores its request here, fences, reads the task's place, and locks that run queue. The thread that
//! brings a task to a run queue stores the place here, fences, and looks for requests. Of the two, the thread with the
//! second fence sees the other's write. So every request is applied exactly once, by the requester or by the task's
//! owner.
//!
//! The [`Tag`] has the task's place, and [`Requests`] has the pending changes. Most tasks never receive a request. So a
//! host may store the requests elsewhere, and only for tasks that have received one.
//!
//! `home` is written under the lock of the run queue that the task enters or leaves. A requester that finds it
//! unchanged under that lock knows that the task is there, or was there until it ended. The end of a task is not
//! recorded here, because its payload stays with its host. The cell therefore also stores the task's identity, so that
//! a requester recognizes another task in the same place.
//!
//! A task on its way is marked `Home::Away` only to spare requesters a lock; no decision depends on it. A requester
//! that looks at the old place finds the task gone, or another task there. It then leaves the request to the carrier of
//! the task, as it does for `Home::Away`. No model check can tell the two apart, so an assertion holds the mark where
//! the task enters its next run queue.

use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::{Change, QueueIndex, TaskId};

/// The place of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The task is with its host: blocked, or on its way between run queues.
    Away,
    /// The task is in a run queue, waiting or running.
    At(CpuId, QueueIndex),
}

/// A value through which the machine reaches the shared part of a task. It is either the payload with which a host runs
/// the task, or a handle through which a caller requests a change.
pub trait Controlled {
    /// Returns the task's tag, which stays the same for the task's whole life.
    fn tag(&self) -> &Tag;

    /// Returns the requests for the task. The machine calls this only for a task that receives or has received a
    /// request. In the second case it may hold the lock of a run queue.
    fn requests(&self) -> &Requests;
}

/// The place of a task, and a flag for pending requests.
#[derive(Debug)]
pub struct Tag {
    /// A [`Home`] in one word.
    home: AtomicU64,
    /// The task's identity above the bit [`ASKED`]. It is written together with the first `home`.
    task: AtomicU64,
}

/// The changes requested of a task and not yet applied.
#[derive(Debug, Default)]
pub struct Requests(Mutex<Change>);

/// A task's control cell: its tag and its requests, for a host that keeps both together.
#[derive(Debug, Default)]
pub struct Control {
    tag: Tag,
    requests: Requests,
}

impl Controlled for Control {
    #[inline]
    fn tag(&self) -> &Tag {
        &self.tag
    }

    #[inline]
    fn requests(&self) -> &Requests {
        &self.requests
    }
}

/// The bit of [`Tag::task`] that says that the requests may hold a change.
const ASKED: u64 = 1;
/// The number of flag bits. The remaining bits suffice for all task identities.
const FLAGS: u32 = 1;
/// The value of [`Tag::task`] before the task has entered its first run queue.
const NOBODY: u64 = u64::MAX << FLAGS;

/// Stores a request for the owner of the task.
#[inline]
pub(crate) fn ask(cell: &(impl Controlled + ?Sized), change: Change) {
    lock(&cell.requests().0).merge(change);
    cell.tag().task.fetch_or(ASKED, Ordering::Release);
    fence(Ordering::SeqCst);
}

/// Takes the pending requests, unless another thread has taken them.
#[inline]
pub(crate) fn take(cell: &(impl Controlled + ?Sized)) -> Option<Change> {
    let mut pending = lock(&cell.requests().0);
    let asked = cell.tag().task.fetch_and(!ASKED, Ordering::AcqRel) & ASKED != 0;
    asked.then(|| std::mem::take(&mut *pending))
}

impl Default for Tag {
    fn default() -> Tag {
        Tag { home: AtomicU64::new(Home::Away.to_bits()), task: AtomicU64::new(NOBODY) }
    }
}

impl Tag {
    #[inline]
    pub(crate) fn home(&self) -> Home {
        Home::from_bits(self.home.load(Ordering::Acquire))
    }

    /// Returns whether the task is in no run queue, as a hint.
    #[must_use]
    #[inline]
    pub fn is_away(&self) -> bool {
        self.home() == Home::Away
    }

    /// Sets the place of the task. The caller holds the lock of the run queue concerned.
    #[inline]
    pub(crate) fn set_home(&self, home: Home) {
        self.home.store(home.to_bits(), Ordering::Release);
    }

    /// Does the same as [`Tag::set_home`] for a task that enters a run queue.
    #[inline]
    pub(crate) fn enter(&self, task: TaskId, home: Home) {
        if !self.is_of(task) {
            self.begin(task);
        }
        self.set_home(home);
    }

    /// Records the identity of a task that enters its first run queue.
    #[cold]
    fn begin(&self, task: TaskId) {
        let named = |word: u64| Some(task.0 << FLAGS | word & ASKED);
        let _ = self.task.fetch_update(Ordering::Relaxed, Ordering::Relaxed, named);
    }

    /// Returns whether this is the tag of `task`. The caller holds the lock of the run queue at `home`.
    #[inline]
    pub(crate) fn is_of(&self, task: TaskId) -> bool {
        self.task.load(Ordering::Relaxed) >> FLAGS == task.0
    }

    /// Returns whether a request arrived before the preceding [`Tag::set_home`] became visible.
    #[inline]
    pub(crate) fn was_asked_meanwhile(&self) -> bool {
        fence(Ordering::SeqCst);
        self.was_asked()
    }

    /// Returns whether a request is pending, as a hint. A request that it misses is found when the task next enters a
    /// run queue.
    #[must_use]
    #[inline]
    pub fn was_asked(&self) -> bool {
        self.task.load(Ordering::Acquire) & ASKED != 0
    }
}

impl Home {
    const AWAY: u64 = u64::MAX;

    #[inline]
    fn to_bits(self) -> u64 {
        match self {
            Home::Away => Home::AWAY,
            Home::At(cpu, slot) => u64::from(cpu.0) << 32 | u64::from(slot.to_bits()),
        }
    }

    #[inline]
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
        let cell = Control::default();
        ask(&cell, Change::default());
        cell.tag.enter(TaskId(7), Home::Away);
        assert!(cell.tag.was_asked() && cell.tag.is_of(TaskId(7)) && !cell.tag.is_of(TaskId(8)));
        assert_eq!((take(&cell), take(&cell)), (Some(Change::default()), None));
        assert!(!cell.tag.was_asked() && cell.tag.is_of(TaskId(7)));
    }
}
