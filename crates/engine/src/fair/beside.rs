//! The queries of core scheduling to the fair class: the next task without taking it, another task
//! in its place, and the standing of a task among the threads of its core ([`crate::core`]).

use crate::core::Level;
use crate::fair::averages::Doing;
use crate::fair::entity::{Now, QueueId};
use crate::fair::order::{Before, QueueOrder};
use crate::fair::tree::{Member, Tree};
use crate::fair::{Fair, Order, by_order};
use crate::store::heap::Index;
use crate::time::VTime;

/// The clock of a queue when an episode began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshot {
    clock: VTime,
    /// The number of the episode; 0 before the first.
    episode: u64,
}

impl Fair {
    /// Returns the task that [`Fair::pick`] would take. A task that yielded is postponed.
    pub(crate) fn peek(&mut self, now: Now, before: &mut Before) -> Option<Index> {
        if self.tree.root().nr == 0 {
            return None;
        }
        if let Order::Eevdf(order) = &mut self.order
            && let Some(at) = before.yielded.take()
        {
            order.postpone(&mut self.tree, now, at);
        }
        let before = *before;
        Some(by_order!(&mut self.order, order => foresee(order, &mut self.tree, now, before)))
    }

    /// The opposite of [`Fair::put_prev`]. Like [`Fair::pick`], but takes this waiting task instead
    /// of the next one.
    pub(crate) fn take(&mut self, now: Now, task: Index, before: Before) {
        by_order!(&mut self.order, order => {
            let mut next = Some(task);
            while let Some(at) = next {
                let goes_on = !now.config.rules.renews && self.tree.is_above(at, before.ran);
                let member = Member::of(&self.tree, at);
                order.set_curr(&mut self.tree, now, member, goes_on);
                next = self.tree.above(at);
            }
        });
        self.note_switch(now, task, Doing::Runs);
    }

    /// Writes the lead of a task in its queue, and of the groups above it in theirs. The lead
    /// refers to the clock of the queue at the start of the `episode`. If the episode does not last
    /// yet, or did not know the queue, it refers to the current clock.
    pub(crate) fn stand(
        &self,
        task: Index,
        (episode, lasts): (u64, bool),
        snapshots: &mut Vec<Snapshot>,
        levels: &mut Vec<Level>,
    ) {
        let mut next = Some(task);
        while let Some(at) = next {
            let entity = self.tree.entity(at);
            let queue = self.tree.queue(entity.parent);
            let nth = entity.parent.index();
            if nth >= snapshots.len() {
                snapshots.resize(nth + 1, Snapshot::default());
            }
            let snapshot = &mut snapshots[nth];
            if !lasts || snapshot.episode != episode {
                *snapshot = Snapshot { clock: queue.clock, episode };
            }
            let lead = entity.vruntime.diff(snapshot.clock);
            levels.push(Level { group: queue.group, lead, latency_nice: entity.latency_nice });
            next = queue.entity;
        }
    }

    /// Returns which of two waiting tasks of different queues comes first: the one with less
    /// vruntime in the queue where both compete.
    pub(crate) fn is_before(&self, one: Index, other: Index) -> bool {
        let (one, other) = self.tree.matching_siblings(one, other);
        self.tree.entity(one).vruntime.diff(self.tree.entity(other).vruntime) < 0
    }

    /// Returns how long a task that is here may run in its turn.
    pub(crate) fn slice_of(&self, now: Now, at: Index) -> u64 {
        let member = Member::of(&self.tree, at);
        by_order!(&self.order, order => order.slice_of(&self.tree, now, member))
    }
}

fn foresee(order: &mut impl QueueOrder, tree: &mut Tree, now: Now, before: Before) -> Index {
    let mut queue = QueueId::ROOT;
    loop {
        let at = order.foresee(tree, now, queue, before);
        let entity = tree.entity(at);
        if entity.is_task() {
            return at;
        }
        queue = entity.own;
    }
}
