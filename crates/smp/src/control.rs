//! Where a task lives, and what was asked of it: the small part of a task that everybody shares.
//!
//! A task is a box with one owner, and a requester (renice, affinity, policy, group, priority
//! inheritance) is usually not the owner. It leaves its request here, fences, reads where the task
//! lives, and locks that run queue. Whoever brings a task to a run queue says so here, fences, and
//! looks for requests. Of the two, the one whose fence is second sees the other's write: every
//! request is carried out exactly once, by the requester or by whoever has the task.
//!
//! Where the task lives is in its [`Tag`], and what was asked of it in its [`Requests`]. Of most tasks nothing is ever
//! asked, so a host may keep the requests elsewhere, and have some of those tasks only for which there were any.
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

/// What a host gives a task to run it, or what stands for the task where somebody asks something of it: what
/// everybody shares of a task is in it somewhere.
pub trait Controlled {
    /// The task's tag, the same for the task's whole life.
    fn tag(&self) -> &Tag;

    /// The requests for the task. The machine wants them of a task of which something is or was asked, and may hold
    /// the lock of a run queue then if it was.
    fn requests(&self) -> &Requests;
}

/// Where a task is, and whether something was asked of it.
#[derive(Debug)]
pub struct Tag {
    /// A [`Home`] in a word.
    home: AtomicU64,
    /// The task, written with its first `home`, above [`ASKED`].
    task: AtomicU64,
}

/// What was asked of a task and not carried out yet.
#[derive(Debug, Default)]
pub struct Requests(Mutex<Change>);

/// A task's control cell: its tag and its requests, for a host that has them together.
#[derive(Debug, Default)]
pub struct Control {
    tag: Tag,
    requests: Requests,
}

impl Controlled for Control {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn requests(&self) -> &Requests {
        &self.requests
    }
}

/// In [`Tag::task`]: the requests may hold something.
const ASKED: u64 = 1;
/// How many bits that is. What is left counts for as long as tasks are named.
const FLAGS: u32 = 1;
/// In [`Tag::task`]: no task has come yet.
const NOBODY: u64 = u64::MAX << FLAGS;

/// Leaves a request for whoever has the task.
pub(crate) fn ask(cell: &(impl Controlled + ?Sized), change: Change) {
    lock(&cell.requests().0).merge(change);
    cell.tag().task.fetch_or(ASKED, Ordering::Release);
    fence(Ordering::SeqCst);
}

/// Takes what was asked, if nobody else did.
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

    /// As [`Tag::set_home`], for a task that enters a run queue.
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

    /// Whether this is the tag of `task`. The caller holds the lock of the run queue at `home`.
    pub(crate) fn is_of(&self, task: TaskId) -> bool {
        self.task.load(Ordering::Relaxed) >> FLAGS == task.0
    }

    /// After [`Tag::set_home`]: whether something was asked meanwhile.
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
        let cell = Control::default();
        ask(&cell, Change::default());
        cell.tag.enter(TaskId(7), Home::Away);
        assert!(cell.tag.was_asked() && cell.tag.is_of(TaskId(7)) && !cell.tag.is_of(TaskId(8)));
        assert_eq!((take(&cell), take(&cell)), (Some(Change::default()), None));
        assert!(!cell.tag.was_asked() && cell.tag.is_of(TaskId(7)));
    }
}
