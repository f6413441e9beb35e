//! The nomination of a group for the next pick, after one of its tasks went to sleep
//! (`dequeue_task_fair`, `dequeue_entities`).
//!
//! The task probably slept within its slice, so another task of its group may have the rest of the
//! group's turn.

use crate::fair::buddies::Buddy;
use crate::fair::entity::Now;
use crate::fair::{Fair, Order, by_order};
use crate::rules::Buddies;
use crate::store::heap::Index;

impl Fair {
    /// Makes a group the [buddy](crate::fair::buddies) of its queue, with the groups above it, after
    /// a member of the group left to sleep or to end. `left` is the entity of the group. If the
    /// group has no other member, its own group is meant. No throttled group is nominated.
    pub(crate) fn nominate(&mut self, now: Now, left: Index) {
        match (now.config.rules.buddies, &self.order) {
            (Buddies::NearFirst, Order::Cfs(_)) => {}
            (Buddies::Eligible | Buddies::EligibleAtWakeups, Order::Eevdf(_)) => {}
            _ => return,
        }
        let mut at = left;
        loop {
            let entity = self.tree.entity(at);
            if self.tree.queue(entity.own).nr > 0 {
                break;
            }
            let stays = entity.delayed || self.tree.queue(entity.own).throttled;
            let Some(above) = self.tree.above(at).filter(|_| !stays) else { return };
            at = above;
        }
        if !self.is_below_throttled(self.tree.entity(at).own) {
            by_order!(&mut self.order, order => order.buddies.set(&self.tree, at, Buddy::Next));
        }
    }

    /// Clears an entity as the buddy of its queue, because it sleeps in its place, yields, or is
    /// lent.
    #[inline]
    pub(crate) fn clear_buddy(&mut self, at: Index) {
        by_order!(&mut self.order, order => order.buddies.clear(&self.tree, at));
    }
}
