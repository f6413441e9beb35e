//! The loan of the first tasks of a queue to the host, as the *company* of the task that runs there
//! (`run_queue/class/batch.rs`).
//!
//! Lent tasks are in no heap and no list, but all counts of their queue and of those above still
//! include them. All of them have the weight of the running task, and are idle if it is.

use crate::fair::cfs;
use crate::fair::entity::{Entity, Lag, Now, QueueId, QueueName, Standing};
use crate::fair::tree::{Counts, Member};
use crate::fair::{Company, Fair, Order};
use crate::group::Groups;
use crate::store::heap::Index;
use crate::time::{Nanos, VTime};

/// The lead over the first waiting task up to which a task of a company may be polled. It is short
/// compared with any slice, and long compared with most polls. Without it, a hundred tasks that
/// yield would each be beyond the first after each poll.
const SLACK: Nanos = Nanos::from_micros(100);

/// The state of the task that left its place to a stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Runnable,
    Asleep,
    Over,
}

/// The clock of a queue at an instant, for a host that cannot ask the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) queue: QueueName,
    pub(crate) at: VTime,
    /// The start of a task that slept long.
    pub(crate) floor: VTime,
    /// The length of a turn of each task. A newcomer starts this far ahead of the clock.
    pub(crate) slice: u64,
    pub(crate) weight: u32,
}

impl Fair {
    /// Returns the company of the running task, if there is one.
    #[inline]
    pub(crate) fn company(&self) -> Option<Company> {
        self.company
    }

    /// Sets the vruntime of the first task that waits with the host for the root queue. Returns the
    /// previous one.
    #[inline]
    pub(crate) fn set_outside(&mut self, place: Option<VTime>) -> Option<VTime> {
        std::mem::replace(&mut self.tree.outside, place)
    }

    /// Sets the time for which a tick leaves the CPU to a running entity.
    pub(crate) fn set_least_turn(&mut self, turn: Nanos) {
        self.tree.least_turn = turn;
    }

    /// Returns the lowest vruntime of the tasks that wait with the host and of the one that comes
    /// from there now.
    #[inline]
    pub(crate) fn outside_with(&self, comes: &Standing) -> Option<VTime> {
        let outside = self.tree.outside;
        match comes.lag {
            Lag::Lent { vruntime, queue, .. } if queue == self.tree.name(QueueId::ROOT) => {
                Some(outside.map_or(vruntime, |it| it.min(vruntime)))
            }
            _ => outside,
        }
    }

    /// Returns the name of the root queue, if vruntimes alone order its tasks.
    pub(crate) fn name_of_root(&self) -> Option<QueueName> {
        matches!(self.order, Order::Cfs(_)).then(|| self.tree.name(QueueId::ROOT))
    }

    /// Returns whether the running task can have company: vruntimes alone order its queue and the
    /// queues above.
    pub(crate) fn can_have_company(&self, curr: Index) -> bool {
        let Order::Cfs(cfs) = &self.order else { return false };
        let mut lineage = self.tree.lineage(self.tree.entity(curr).parent);
        self.company.is_none()
            && self.pelt.is_none()
            && lineage.all(|id| cfs.is_in_plain_order(&self.tree, id))
    }

    /// Replaces the running task by a stand-in. Returns the standing of the task: asleep or lent.
    pub(crate) fn begin_company(&mut self, now: Now, curr: Index, left: Left) -> Standing {
        debug_assert!(self.can_have_company(curr), "the caller asked `can_have_company`");
        self.company = Some(Company { stand_in: curr, nr: 0 });
        let standing = self.standing_of(now, curr, left == Left::Asleep);
        if left != Left::Runnable
            && let Some(first) = self.tree.heaps.first(self.tree.entity(curr).parent)
        {
            // The first waiting task would be picked now, and the clock of the queue would follow
            // it, however far ahead it is. It is polled before a newcomer that waits outside, so
            // the clock passes that one.
            let ahead = self.tree.entity(first).vruntime;
            let stand_in = self.tree.entity_mut(curr);
            stand_in.vruntime = stand_in.vruntime.max(ahead);
            let queue = self.tree.queue_mut(self.tree.entity(curr).parent);
            queue.clock = queue.clock.max(ahead);
        }
        standing
    }

    /// Advances the clock of the running task's queue to its vruntime, but not beyond `first`.
    fn follow(&mut self, curr: Index, first: Option<VTime>) {
        debug_assert!(matches!(self.order, Order::Cfs(_)), "no other order lends");
        let Entity { parent, vruntime, .. } = *self.tree.entity(curr);
        let least = first.map_or(vruntime, |first| vruntime.min(first));
        self.tree.queue_mut(parent).clock = cfs::clock_beside(&self.tree, parent, Some(least));
    }

    fn standing_of(&self, now: Now, at: Index, asleep: bool) -> Standing {
        let entity = self.tree.entity(at);
        let (queue, vruntime) = (self.tree.name(entity.parent), entity.vruntime);
        let lead = vruntime.diff(self.tree.queue(entity.parent).clock);
        let lag = match asleep {
            true => Lag::Asleep { vruntime, queue, lead, since: now.clock },
            false => Lag::Lent { vruntime, queue, lead },
        };
        Standing { lag, turn: 0 }
    }

    /// Returns the clock of the running task's queue.
    pub(crate) fn clock(&self, now: Now, curr: Index) -> Clock {
        let member = Member::of(&self.tree, curr);
        let (entity, queue) = (self.tree.entity(curr), self.tree.queue(member.queue));
        Clock {
            queue: self.tree.name(member.queue),
            at: queue.clock,
            floor: cfs::credited(&self.tree, now, member.queue, entity.idle),
            slice: cfs::slice_of_queued(&self.tree, now, member),
            weight: entity.weight,
        }
    }

    /// Returns the vruntime up to which the company precedes all others of its queue; `None` if
    /// none waits there.
    pub(crate) fn bound(&self, stand_in: Index) -> Option<VTime> {
        let first = self.tree.heaps.first(self.tree.entity(stand_in).parent)?;
        let slack = self.tree.entity(stand_in).virtual_span(SLACK.0);
        Some(self.tree.entity(first).vruntime.after(slack))
    }

    /// Returns the CPU time after which some group above the company is no longer the first of its
    /// queue; `None` if nothing else waits in these queues.
    pub(crate) fn turn(&self, stand_in: Index) -> Option<Nanos> {
        let turn_in = |id: QueueId| {
            let (curr, first) = (self.tree.queue(id).curr?, self.tree.heaps.first(id)?);
            let [curr, first] = [curr, first].map(|at| self.tree.entity(at));
            let lead = first.vruntime.diff(curr.vruntime).max(0).cast_unsigned();
            Some(SLACK + Nanos(curr.real_span(lead)))
        };
        self.tree.lineage(self.tree.entity(stand_in).parent).skip(1).filter_map(turn_in).min()
    }

    /// Returns the first waiting task beside the stand-in, unless it is a group, or too far from
    /// the clock to be lent.
    pub(crate) fn first_beside(&self, stand_in: Index) -> Option<Index> {
        self.first_task_beside(stand_in).filter(|&first| {
            let entity = self.tree.entity(first);
            let clock = self.tree.queue(entity.parent).clock;
            entity.vruntime <= clock.after(entity.virtual_span(SLACK.0))
        })
    }

    /// Returns the first waiting entity beside the running task, if it is a task.
    pub(crate) fn first_task_beside(&self, curr: Index) -> Option<Index> {
        let first = self.tree.heaps.first(self.tree.entity(curr).parent)?;
        self.tree.entity(first).is_task().then_some(first)
    }

    /// Takes out a task that waits beside the stand-in, and keeps it counted. Returns its standing.
    pub(crate) fn lend(&mut self, now: Now, at: Index) -> Standing {
        let standing = self.standing_of(now, at, false);
        let Entity { parent, vruntime, .. } = *self.tree.entity(at);
        self.lists.remove(at, false);
        self.clear_buddy(at);
        self.tree.remove(parent, at);
        let company = self.company.as_mut().expect("a stand-in runs");
        company.nr += 1;
        // A task that wakes is compared with the stand-in as it would be with this task.
        let stand_in = self.tree.entity_mut(company.stand_in);
        stand_in.vruntime = stand_in.vruntime.max(vruntime);
        standing
    }

    /// Sets the number of tasks in the company.
    pub(crate) fn set_company(&mut self, now: Now, groups: &impl Groups, nr: u32) {
        let company = self.company.as_mut().expect("a stand-in runs");
        let (stand_in, was) = (company.stand_in, std::mem::replace(&mut company.nr, nr));
        if nr == was {
            return;
        }
        let Entity { weight, idle, parent, .. } = *self.tree.entity(stand_in);
        let queue = self.tree.queue_mut(parent);
        queue.nr = queue.nr - was + nr;
        queue.load =
            queue.load + u64::from(weight) * u64::from(nr) - u64::from(weight) * u64::from(was);
        let counts = |nr: u32| Counts { nr, nr_idle: if idle { nr } else { 0 } };
        self.count_others(now, groups, stand_in, (counts(was), counts(nr)));
    }

    /// Replaces `before` by `after` in the counts of the stand-in's queue and of those above.
    fn count_others(
        &mut self,
        now: Now,
        groups: &impl Groups,
        stand_in: Index,
        (mut before, mut after): (Counts, Counts),
    ) {
        let mut id = self.tree.entity(stand_in).parent;
        if id == QueueId::ROOT {
            let weight = self.tree.idle_weight(stand_in);
            self.idle_load =
                self.idle_load + weight * u64::from(after.nr) - weight * u64::from(before.nr);
            self.tree.root_mut().add(after);
            return self.tree.root_mut().subtract(before);
        }
        let top = self.tree.top_of(id);
        let weight = self.tree.idle_weight(top);
        loop {
            let queue = self.tree.queue_mut(id);
            queue.add(after);
            queue.subtract(before);
            let Some(above) = queue.entity else { break };
            (before, after) = (queue.counts_above(before), queue.counts_above(after));
            let throttled = queue.throttled;
            self.update_share(now, groups, id);
            if throttled {
                return;
            }
            id = self.tree.entity(above).parent;
        }
        self.note_idle_load(weight, top);
    }

    /// Ends the company: a task of it takes the place of the stand-in, with its standing. The others
    /// are no longer counted; the first of them has the vruntime `first`.
    pub(crate) fn end_company(
        &mut self,
        now: Now,
        groups: &impl Groups,
        standing: Standing,
        first: Option<VTime>,
    ) {
        self.set_company(now, groups, 0);
        let Company { stand_in, .. } = self.company.take().expect("a stand-in runs");
        let Standing { lag: Lag::Lent { vruntime, .. }, turn } = standing else {
            panic!(
                "the task that takes the place of the stand-in is no task of the batch: {standing:?}"
            )
        };
        let entity = self.tree.entity_mut(stand_in);
        (entity.vruntime, entity.ran) = (vruntime, turn);
        self.follow(stand_in, first);
    }
}
