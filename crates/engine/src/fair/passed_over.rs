//! The order of two tasks, regardless of the running turn. It explains why a task waits.

use crate::fair::entity::Now;
use crate::fair::order::QueueOrder;
use crate::fair::{Fair, Order, by_order};
use crate::store::heap::Index;

impl Fair {
    /// Returns whether a waiting task precedes the running one in the order, regardless of the
    /// running turn: by the two entities that compete in one queue.
    pub(crate) fn goes_before(&self, now: Now, curr: Index, waiting: Index) -> bool {
        let (curr, waiting) = self.tree.matching_siblings(curr, waiting);
        let is_idle = |at: Index| self.tree.entity(at).idle;
        if is_idle(curr) != is_idle(waiting) {
            return is_idle(curr);
        }
        let order = &self.order;
        by_order!(order, order => order.goes_before(&self.tree, now, (curr, waiting)))
    }

    /// Returns whether a task, and so each group above it, is in a queue and competes for the CPU.
    pub(crate) fn is_attached(&self, at: Index) -> bool {
        self.tree.is_attached(at) && !self.is_below_throttled(self.tree.entity(at).parent)
    }

    /// Returns the tasks that compete for the CPU, including the running one.
    pub(crate) fn competing(&self) -> impl Iterator<Item = Index> {
        self.lists.links.iter(self.lists.competing)
    }
}
