//! Throttled groups: their entities leave their parents' queues and come back.

use crate::fair::Fair;
use crate::fair::entity::{Now, QueueId};
use crate::fair::tree::Member;
use crate::group::Groups;

impl Fair {
    /// Takes a group without budget out of its parent's queue. None of its tasks runs.
    pub(crate) fn throttle(&mut self, now: Now, groups: &impl Groups, id: QueueId) {
        self.throttle_as(now, groups, id, false);
    }

    fn throttle_as(&mut self, now: Now, groups: &impl Groups, id: QueueId, asleep: bool) {
        // A real-time task uses a founding pool up, also below a group that the kernel's bandwidth throttles.
        let competed = !self.is_below_throttled(id);
        let queue = self.tree.queue(id);
        let (at, counts) = (queue.entity.expect("the root has no limit"), queue.all_above());
        if self.tree.entity(at).delayed {
            self.drop_delayed(now, groups, at);
        } else if queue.nr > 0 {
            let member = Member::of(&self.tree, at);
            self.tree.queue_mut(id).standing = self.leave(now, groups, member, (counts, asleep));
        }
        self.tree.queue_mut(id).throttled = true;
        self.note(now, id);
        self.nr_throttled += 1;
        if competed {
            self.lists.set_aside(&self.tree, id, true);
        }
    }

    /// Takes a group without budget out of its parent's queue as the kernel does: as a sleeper, but
    /// nothing of it stays (`throttle_cfs_rq`). None of its tasks runs.
    pub(crate) fn throttle_asleep(&mut self, now: Now, groups: &impl Groups, id: QueueId) {
        let keeps = std::mem::replace(&mut self.ghosts.on, false);
        self.throttle_as(now, groups, id, true);
        self.ghosts.on = keeps;
    }

    /// The opposite of [`Fair::throttle`].
    pub(crate) fn unthrottle(&mut self, now: Now, groups: &impl Groups, id: QueueId) {
        self.nr_throttled -= 1;
        let queue = self.tree.queue_mut(id);
        queue.throttled = false;
        let at = queue.entity.expect("the root has no limit");
        let (nr, counts) = (queue.nr, queue.all_above());
        if nr > 0 {
            self.attach_group(now, id);
            self.count(now, groups, Member::of(&self.tree, at), counts);
        }
        if !self.is_below_throttled(id) {
            self.lists.set_aside(&self.tree, id, false);
        }
        self.note(now, id);
    }
}
