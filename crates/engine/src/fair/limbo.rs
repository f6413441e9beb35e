//! Tasks that a throttled group holds back at their return to user mode, in the *limbo* of their
//! queue (`throttled_limbo_list` of Linux since 6.18).
//!
//! A task in limbo is in no order and counts nowhere. It has its lag from when it left, as a sleeper
//! has. The run queue says when a task enters and leaves limbo (`run_queue/class/limbo.rs`).
//!
//! Invariants ([`Fair::check`]): a task in limbo is in one list, that of its queue, and in no order.

use crate::ensure::ensure;
use crate::fair::Fair;
use crate::fair::entity::{Ask, Entity, Now, QueueId, Standing};
use crate::group::Groups;
use crate::store::heap::Index;
use std::fmt::Display;

impl Fair {
    /// Takes a task out of its queue as a sleeper of which nothing stays, and puts it into limbo,
    /// before the tasks that are there.
    pub(crate) fn enter_limbo(&mut self, now: Now, groups: &impl Groups, at: Index) -> Standing {
        let keeps = std::mem::replace(&mut self.ghosts.on, false);
        let standing = self.dequeue(now, groups, at, true);
        self.ghosts.on = keeps;
        self.put_in_limbo(at);
        standing
    }

    /// Moves a task that left limbo to the limbo of the queue `home`, with another request.
    pub(crate) fn stay_in_limbo(&mut self, now: Now, at: Index, (ask, home): (Ask, QueueId)) {
        *self.tree.entity_mut(at) = Entity::new(ask, home);
        self.renew(now, at, Some(ask));
        self.put_in_limbo(at);
    }

    fn put_in_limbo(&mut self, at: Index) {
        let entity = self.tree.entity_mut(at);
        entity.in_limbo = true;
        let home = entity.parent;
        self.lists.links.push_front(&mut self.tree.queue_mut(home).limbo, at);
        self.nr_in_limbo += 1;
    }

    /// Takes a task out of limbo. It is in no queue then.
    pub(crate) fn leave_limbo(&mut self, at: Index) {
        let entity = self.tree.entity_mut(at);
        entity.in_limbo = false;
        let home = entity.parent;
        self.lists.links.remove(&mut self.tree.queue_mut(home).limbo, at);
        self.nr_in_limbo -= 1;
    }

    /// Returns whether a fair task is in limbo.
    #[inline]
    pub(crate) fn is_in_limbo(&self, at: Index) -> bool {
        self.nr_in_limbo > 0 && self.tree.entity(at).in_limbo
    }

    /// Returns the task of a queue that entered limbo last.
    pub(crate) fn last_in_limbo(&self, id: QueueId) -> Option<Index> {
        self.lists.links.iter(self.tree.queue(id).limbo).next()
    }

    /// Asserts the invariants of limbo.
    pub(super) fn check_limbo(&self, picture: &dyn Display) {
        let mut nr = 0;
        for &(group, id) in &self.group_queues {
            for at in self.lists.links.iter(self.tree.queue(id).limbo) {
                let entity = self.tree.entity(at);
                let knows = entity.in_limbo && entity.parent == id;
                ensure!(picture, knows, "{at} is in limbo of {group:?}");
                ensure!(picture, !self.tree.is_attached(at), "{at} is in limbo and in no queue");
                nr += 1;
            }
        }
        ensure!(picture, nr == self.nr_in_limbo, "{nr} tasks are in limbo");
    }
}
