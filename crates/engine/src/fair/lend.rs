//! The first tasks of a queue are lent to the host, as the company of the one that runs there
//! ([`crate::run_queue::batch`]).
//!
//! They are in no heap and no list, but still count in everything that is counted of their queue and of those
//! above. All of them have the weight of the running one, and are idle if that is.

use crate::fair::cfs;
use crate::fair::entity::{Entity, Lag, Now, QueueId, QueueName, Standing};
use crate::fair::tree::{Counts, Member};
use crate::fair::{Company, Fair, Order};
use crate::group::Groups;
use crate::store::heap::Index;
use crate::time::{Nanos, VTime};

/// How far ahead of the first that was left anybody of a company may be polled. Short beside every slice, long
/// beside most polls: without it, of a hundred tasks that yield each would be beyond the first after each poll.
const SLACK: Nanos = Nanos::from_micros(100);

/// What became of the task that left its place to a stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Runnable,
    Asleep,
    Over,
}

/// Where tasks of a queue stand at an instant, for a host that cannot ask the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) queue: QueueName,
    pub(crate) at: VTime,
    /// Where a task that slept long starts.
    pub(crate) floor: VTime,
    /// How long each task may run in its turn. As far ahead of the clock a newcomer starts.
    pub(crate) slice: u64,
    pub(crate) weight: u32,
}

impl Fair {
    /// The company of the running task, if there is one.
    #[inline]
    pub(crate) fn company(&self) -> Option<Company> {
        self.company
    }

    /// The first task that waits for the root's queue with the host stands there. Where one stood before.
    #[inline]
    pub(crate) fn set_outside(&mut self, place: Option<VTime>) -> Option<VTime> {
        std::mem::replace(&mut self.tree.outside, place)
    }

    /// The first of those that wait with the host and of the one that comes from there now.
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

    /// The name of the root's queue, if tasks go there by their vruntimes alone.
    pub(crate) fn name_of_root(&self) -> Option<QueueName> {
        matches!(self.order, Order::Cfs(_)).then(|| self.tree.name(QueueId::ROOT))
    }

    /// Whether the running task can have company: those of its queue and of the queues above go by their
    /// vruntimes alone.
    pub(crate) fn can_have_company(&self, curr: Index) -> bool {
        let Order::Cfs(cfs) = &self.order else { return false };
        let mut lineage = self.tree.lineage(self.tree.entity(curr).parent);
        self.company.is_none()
            && self.pelt.is_none()
            && lineage.all(|id| cfs.is_in_plain_order(&self.tree, id))
    }

    /// The running task leaves its place to a stand-in. Where it stands then: asleep, or as one that is lent.
    pub(crate) fn begin_company(&mut self, now: Now, curr: Index, left: Left) -> Standing {
        debug_assert!(self.can_have_company(curr), "it was asked before");
        self.company = Some(Company { stand_in: curr, nr: 0 });
        let standing = self.standing_of(now, curr, left == Left::Asleep);
        if left != Left::Runnable
            && let Some(first) = self.tree.heaps.first(self.tree.entity(curr).parent)
        {
            // It would be picked now, and the clock of the queue follow it, however far ahead it is. It is polled before a
            // newcomer that waits outside, so the clock passes that.
            let ahead = self.tree.entity(first).vruntime;
            let stand_in = self.tree.entity_mut(curr);
            stand_in.vruntime = stand_in.vruntime.max(ahead);
            let queue = self.tree.queue_mut(self.tree.entity(curr).parent);
            queue.clock = queue.clock.max(ahead);
        }
        standing
    }

    /// The clock of the queue of the running task follows that, but does not pass `first`.
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

    /// The clock of the queue of the running task.
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

    /// Up to which vruntime the company goes before all others of its queue, as far as anybody waits there.
    pub(crate) fn bound(&self, stand_in: Index) -> Option<VTime> {
        let first = self.tree.heaps.first(self.tree.entity(stand_in).parent)?;
        let slack = self.tree.entity(stand_in).virtual_span(SLACK.0);
        Some(self.tree.entity(first).vruntime.after(slack))
    }

    /// How long the groups above the company go before all others of their queues, as far as anybody waits there.
    pub(crate) fn turn(&self, stand_in: Index) -> Option<Nanos> {
        let turn_in = |id: QueueId| {
            let (curr, first) = (self.tree.queue(id).curr?, self.tree.heaps.first(id)?);
            let [curr, first] = [curr, first].map(|at| self.tree.entity(at));
            let lead = first.vruntime.diff(curr.vruntime).max(0).cast_unsigned();
            Some(SLACK + Nanos(curr.real_span(lead)))
        };
        self.tree.lineage(self.tree.entity(stand_in).parent).skip(1).filter_map(turn_in).min()
    }

    /// The first task that waits beside the stand-in, unless that is a group, or too far from the clock to be lent.
    pub(crate) fn first_beside(&self, stand_in: Index) -> Option<Index> {
        self.first_task_beside(stand_in).filter(|&first| {
            let entity = self.tree.entity(first);
            let clock = self.tree.queue(entity.parent).clock;
            entity.vruntime <= clock.after(entity.virtual_span(SLACK.0))
        })
    }

    /// The first that waits beside the running task, if that is a task.
    pub(crate) fn first_task_beside(&self, curr: Index) -> Option<Index> {
        let first = self.tree.heaps.first(self.tree.entity(curr).parent)?;
        self.tree.entity(first).is_task().then_some(first)
    }

    /// Takes out a task that waits beside the stand-in, and still counts it. Where it stands.
    pub(crate) fn lend(&mut self, now: Now, at: Index) -> Standing {
        let standing = self.standing_of(now, at, false);
        let Entity { parent, vruntime, .. } = *self.tree.entity(at);
        self.lists.remove(at, false);
        self.tree.remove(parent, at);
        let company = self.company.as_mut().expect("somebody stands for it");
        company.nr += 1;
        // A task that wakes is compared with the stand-in as it would be with this one.
        let stand_in = self.tree.entity_mut(company.stand_in);
        stand_in.vruntime = stand_in.vruntime.max(vruntime);
        standing
    }

    /// The company is so large now.
    pub(crate) fn set_company(&mut self, now: Now, groups: &impl Groups, nr: u32) {
        let company = self.company.as_mut().expect("somebody stands for it");
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

    /// In the queue of the stand-in, and in those above, there are others than before.
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

    /// The stand-in gives its place to a task of the company, which stands there; or goes itself. The others are
    /// on their own, the first of them at `first`.
    pub(crate) fn end_company(
        &mut self,
        now: Now,
        groups: &impl Groups,
        standing: Option<Standing>,
        first: Option<VTime>,
    ) {
        self.set_company(now, groups, 0);
        let Company { stand_in, .. } = self.company.take().expect("somebody stands for it");
        if let Some(Standing { lag: Lag::Lent { vruntime, .. }, turn }) = standing {
            let entity = self.tree.entity_mut(stand_in);
            (entity.vruntime, entity.ran) = (vruntime, turn);
        }
        self.follow(stand_in, first);
    }
}
