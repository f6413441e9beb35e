//! Buddies: the members of a queue that a pick prefers for the locality of their caches (`next` and
//! `last` of Linux).
//!
//! An order keeps the buddies of its queues and asks for them at a pick. Which order does so, and
//! under which condition, is a [rule](crate::rules::Buddies).
//!
//! | | set | used by |
//! |---|---|---|
//! | `next` | for the group that a task left to sleep or to end, if others stay there, and for the groups above it; in CFS also for a woken entity that preempts, and for those above it | CFS, EEVDF |
//! | `last` | for a running task that is preempted in a long queue, and for the groups above it | CFS |
//!
//! A buddy is cleared when it leaves the queue or sleeps in its place, when its turn begins or is
//! over, and when it yields. The group of the task that ran begins no turn if another of its tasks
//! is picked. So such a group stays the buddy until its turn is over or its last task leaves.
//!
//! Invariant ([`BuddiesByQueue::check`]): a buddy is a member of the queue, runs or waits, and does
//! not sleep in its place.

use crate::ensure::ensure;
use crate::fair::entity::{ByQueue, QueueId};
use crate::fair::tree::Tree;
use crate::store::heap::Index;
use std::fmt::Display;

/// The two kinds of buddies, as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buddy {
    Next,
    Last,
}

/// The buddies of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    next: Option<Index>,
    last: Option<Index>,
}

impl Pair {
    fn get(&mut self, buddy: Buddy) -> &mut Option<Index> {
        match buddy {
            Buddy::Next => &mut self.next,
            Buddy::Last => &mut self.last,
        }
    }
}

/// The buddies of all queues of a CPU.
#[derive(Debug, Default)]
pub(crate) struct BuddiesByQueue {
    /// The number of buddies: while there are none, no queue is examined.
    nr: u32,
    of: ByQueue<Pair>,
}

impl BuddiesByQueue {
    /// Makes room for `queues` queues. Allocates.
    pub(crate) fn grow(&mut self, queues: usize) {
        self.of.grow(queues, Pair::default);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nr == 0
    }

    #[inline]
    pub(crate) fn next(&self, id: QueueId) -> Option<Index> {
        if self.nr == 0 { None } else { self.of[id].next }
    }

    pub(crate) fn last(&self, id: QueueId) -> Option<Index> {
        self.of[id].last
    }

    /// Makes an attached entity, and each one above it, the buddy of its queue, up to the first idle
    /// one (`set_next_buddy`, `set_last_buddy`).
    #[cold]
    pub(crate) fn set(&mut self, tree: &Tree, at: Index, buddy: Buddy) {
        let mut next = Some(at);
        while let Some(at) = next.filter(|&at| !tree.entity(at).idle) {
            debug_assert!(tree.is_attached(at), "a buddy is in its queue");
            let kept = self.of[tree.entity(at).parent].get(buddy);
            self.nr += u32::from(kept.replace(at).is_none());
            next = tree.above(at);
        }
    }

    /// Clears an entity as the buddy of its queue. If it was, the one above it is cleared in the
    /// same way (`clear_buddies`).
    #[inline]
    pub(crate) fn clear(&mut self, tree: &Tree, at: Index) {
        if self.nr > 0 {
            self.clear_up(tree, at);
        }
    }

    #[cold]
    fn clear_up(&mut self, tree: &Tree, at: Index) {
        for buddy in [Buddy::Next, Buddy::Last] {
            let mut next = Some(at);
            while let Some(at) = next {
                let kept = self.of[tree.entity(at).parent].get(buddy);
                if *kept != Some(at) {
                    break;
                }
                *kept = None;
                self.nr -= 1;
                next = tree.above(at);
            }
        }
    }

    /// Asserts the invariant for these queues, which are all that there are; fails with `picture`.
    pub(crate) fn check(
        &self,
        tree: &Tree,
        queues: impl Iterator<Item = QueueId>,
        picture: &dyn Display,
    ) {
        let mut nr = 0;
        for id in queues {
            let Pair { next, last } = self.of[id];
            for at in next.into_iter().chain(last) {
                let entity = tree.entity(at);
                let is_member = entity.parent == id && tree.is_attached(at);
                ensure!(picture, is_member, "buddy {at} is a member of queue {id:?}");
                ensure!(picture, !entity.delayed, "buddy {at} does not sleep in its place");
                nr += 1;
            }
        }
        ensure!(picture, nr == self.nr, "there are {nr} buddies, not {}", self.nr);
    }
}
