//! Running averages of load (PELT): the recent queued, runnable and running time, under the feature
//! `PELT`.
//!
//! There is an average for each queue of a CPU, for each entity in one, and for each task that is
//! in none. Each average is three sums that [`decay`](crate::store::decay):
//!
//! | | of an entity | of a queue |
//! |---|---|---|
//! | load | time in the queue | that of each member, times its weight |
//! | runnable | the same without sleep in its place | that of each task in it or below |
//! | util | time on the CPU | time in which a member ran |
//!
//! An average has the *signal* that is added since it was last updated. So it is updated when the
//! signal changes ([`Fair::note`]) or when it is read, and not in between.
//!
//! A task that falls asleep leaves its part in the averages of its queue, where the part decays as
//! the task's own average does ([`Fair::part_with`]). If it wakes up in that queue, its part is
//! still there. If it wakes up elsewhere, its part is taken out ([`Fair::withdraw`]) and added to
//! the new queue ([`Fair::bring`]). Its time in the queues above equals that in its own, so its
//! parts in runnable and util are the same in each of them. Its part in their load exists only
//! through the entity of the group. The queued time of that entity is then only estimated, as in
//! the kernel (`update_tg_cfs_load`).
//!
//! A group's share of a CPU depends on the load averages of its queues on all CPUs
//! ([`Fair::publish`]). Each queue with members publishes its own average when the published one is
//! off by more than a 64th (`update_tg_load_avg`). The load that sleepers left in queues without
//! members decays at one rate everywhere. So it is one sum of the group, [`Blocked`], which each
//! reader ages. The kernel has it in the sum of the others, and updates it every 32 ms.
//!
//! Accepted: a task whose ghost was dropped before it woke does not know how long the ghost stayed.
//! Its own load counts until it fell asleep, while the ghost's queue counts the whole stay. The
//! difference is a few milliseconds of 47.
//!
//! Invariants ([`Fair::check`]): each signal is that of the queue or entity. No average is ahead of
//! the clock of the run queue. No entity was queued for more than all of the time. The members of a
//! queue have no more of its load than it has.

use crate::ensure::ensure;
use crate::fair::Fair;
use crate::fair::averages::{
    Carried, Doing, EntityAverage, LoadSums, Pelt, QueueAverage, Signal, TaskAverages,
};
use crate::fair::entity::{Entity, Now, QueueId};
use crate::fair::tree::{Member, Tree};
use crate::group::{Blocked, Groups};
use crate::store::decay::{full, period_of};
use crate::store::heap::Index;
use crate::time::Time;
use std::fmt::Display;

impl Fair {
    /// Turns averages on or off.
    pub(crate) fn keep_averages(&mut self, on: bool) {
        self.pelt = on.then(|| Box::new(Pelt::new()));
        self.grow_averages(0);
    }

    pub(super) fn grow_averages(&mut self, len: usize) {
        if let Some(pelt) = &mut self.pelt {
            pelt.entities.grow(len);
            pelt.queues.grow(self.tree.nr_queues(), QueueAverage::default);
        }
    }

    /// Adds the average of a task, which was in no queue, to the queue that it is about to wait in.
    pub(crate) fn bring(
        &mut self,
        now: Now,
        groups: &impl Groups,
        (member, weight): (Member, u32),
        carried: &mut Option<Carried>,
    ) {
        let name = self.tree.name(member.queue);
        let is_elsewhere = |it: &&mut Carried| it.left > 0 && it.name != name;
        if let Some(carried) = carried.as_mut().filter(is_elsewhere) {
            self.withdraw(now, groups, carried);
        }
        let Fair { tree, pelt: Some(pelt), .. } = self else { return };
        let clock = now.clock;
        let new = || pelt.of_new(clock, member.queue, name, weight);
        let carried = carried.get_or_insert_with(new);
        let average = carried.aged(clock).no_later_than(clock);
        let left = std::mem::take(&mut carried.left);
        if left == 0 {
            let part = Carried::of(average, (name, member.queue));
            pelt.add(tree, clock, &Carried { left: weight, ..part });
        } else if left != weight {
            let queue = &mut pelt.queues[member.queue];
            queue.age(clock);
            let load = u64::from(average.load);
            let without = queue.sums.load.saturating_sub(u64::from(left) * load);
            queue.sums.load = without + u64::from(weight) * load;
        }
        *pelt.entities.cover(member.at) = EntityAverage { doing: Doing::Waits, ..average };
    }

    /// Takes the part that a task left out of a queue of this CPU, if that queue still exists.
    pub(crate) fn withdraw(&mut self, now: Now, groups: &impl Groups, carried: &mut Carried) {
        let Fair { tree, pelt: Some(pelt), .. } = self else { return };
        let left = std::mem::take(&mut carried.left);
        let is_there = tree.has_queue(carried.queue) && tree.name(carried.queue) == carried.name;
        if left == 0 || !is_there {
            return;
        }
        let average = carried.aged(now.clock).no_later_than(now.clock);
        let part = Carried { left, ..Carried::of(average, (carried.name, carried.queue)) };
        pelt.subtract(tree, now.clock, &part, false);
        let mut id = carried.queue;
        while let Some(at) = self.tree.queue(id).entity {
            self.publish(now, groups, id);
            id = self.tree.entity(at).parent;
        }
    }

    /// Gives the average that it takes along to a task that is about to leave its queue. A task
    /// that goes to sleep leaves its part there.
    pub(crate) fn part_with(
        &mut self,
        now: Now,
        at: Index,
        asleep: bool,
        to: &mut Option<Carried>,
    ) {
        self.tell_average(now, at, to);
        let (Fair { tree, pelt: Some(pelt), .. }, Some(carried)) = (self, to) else { return };
        pelt.entities[at].doing = Doing::Away;
        if !asleep {
            pelt.subtract(tree, now.clock, carried, true);
            carried.left = 0;
        }
    }

    /// Copies the average of a queued task to `to`.
    pub(crate) fn tell_average(&mut self, now: Now, at: Index, to: &mut Option<Carried>) {
        let Fair { tree, pelt: Some(pelt), .. } = self else { return };
        pelt.entities[at].age(now.clock);
        let Entity { weight, parent, .. } = *tree.entity(at);
        let most = match parent {
            QueueId::ROOT => weight,
            _ => pelt.most_of(tree, now.clock, at).try_into().unwrap_or(u32::MAX),
        };
        let of = Carried::of(pelt.entities[at], (tree.name(parent), parent));
        *to = Some(Carried { left: weight, most, ..of });
    }

    /// Updates the signals of a queue and those above it, after a change.
    #[inline]
    pub(super) fn note(&mut self, now: Now, id: QueueId) {
        if self.pelt.is_some() {
            self.note_from(now.clock, id);
        }
    }

    #[inline]
    fn note_from(&mut self, now: Time, id: QueueId) {
        if id != QueueId::ROOT {
            self.note_groups(now, id);
        }
        let Fair { tree, pelt: Some(pelt), .. } = self else { return };
        pelt.queues[QueueId::ROOT].turn(now, Signal::of(tree.root()));
    }

    #[inline(never)]
    fn note_groups(&mut self, now: Time, mut id: QueueId) {
        let Fair { tree, pelt: Some(pelt), .. } = self else { return };
        while let Some(at) = tree.queue(id).entity {
            pelt.queues[id].turn(now, Signal::of(tree.queue(id)));
            pelt.entities[at].turn(now, doing_of_group(tree, at));
            id = tree.entity(at).parent;
        }
    }

    /// Notes a new state of a queued task.
    #[inline]
    pub(super) fn note_task(&mut self, now: Now, at: Index, doing: Doing) {
        if let Some(pelt) = &mut self.pelt {
            pelt.entities[at].turn(now.clock, doing);
        }
    }

    /// Notes that a task and the groups above it run from now on, or wait.
    #[inline]
    pub(super) fn note_switch(&mut self, now: Now, at: Index, doing: Doing) {
        if self.pelt.is_some() {
            self.note_task(now, at, doing);
            self.note_from(now.clock, self.tree.entity(at).parent);
        }
    }

    /// Starts the averages of a group's new queue.
    pub(super) fn begin_average(&mut self, now: Now, id: QueueId, at: Index) {
        self.grow_averages(0);
        let Some(pelt) = &mut self.pelt else { return };
        let sums = LoadSums { at: now.clock, ..LoadSums::default() };
        pelt.queues[id] = QueueAverage { sums, ..QueueAverage::default() };
        *pelt.entities.cover(at) = EntityAverage { at: now.clock, ..EntityAverage::default() };
    }

    /// Ends the averages of an empty queue that is removed.
    pub(super) fn end_average(&mut self, now: Now, groups: &impl Groups, id: QueueId) {
        let Some(pelt) = &self.pelt else { return };
        let blocked = pelt.queues[id].blocked(now.clock);
        if blocked > 0 {
            let group = self.tree.queue(id).group;
            let _ = groups.exchange_blocked(group, period_of(now.clock), blocked, 0);
        }
    }

    /// Returns whether no part of its average is lost if an empty queue is removed.
    pub(super) fn is_decayed(&self, now: Now, id: QueueId) -> bool {
        let aged = |pelt: &Pelt| pelt.queues[id].sums.aged(now.clock, pelt.queues[id].signal);
        self.pelt.as_deref().is_none_or(|pelt| aged(pelt).averages().load == 0)
    }

    /// Publishes the load of a group on this CPU to the others, if it differs enough from the
    /// published one. Returns the load that determines its share of this CPU, and the sum of the
    /// loads of all CPUs including that one (`calc_group_shares`).
    pub(super) fn publish(&mut self, now: Now, groups: &impl Groups, id: QueueId) -> (u64, u64) {
        let Fair { tree, pelt: Some(pelt), .. } = self else { unreachable!("there are averages") };
        let (queue, own) = (tree.queue_mut(id), &mut pelt.queues[id]);
        own.turn(now.clock, Signal::of(queue));
        let (group, period, known) = (queue.group, period_of(now.clock), queue.contribution);
        let blocked = own.blocked(now.clock);
        let blocks = if queue.nr == 0 { own.load_to_block() } else { 0 };
        let average = if queue.nr == 0 { 0 } else { own.load() };
        let begins_or_ends = (known == 0) != (average == 0);
        let is_off = average.abs_diff(known) > known / 64;
        let may = now.clock.since(own.published) >= now.config.rules.publishes_every;
        let new = if begins_or_ends || is_off && may { average } else { known };
        let active = groups.exchange_load(group, known, new);
        let asleep = groups.exchange_blocked(group, period, blocked, blocks);
        if new != known || blocks != blocked {
            (queue.contribution, own.published, own.blocked) = (new, now.clock, blocks);
        }
        let load = queue.load.max(average);
        (load, active - new + (asleep >> Blocked::FRACTION_BITS) + load)
    }

    /// Prepares a change of the weight of a group's entity (`reweight_entity`).
    pub(super) fn reweigh(&mut self, now: Now, at: Index, weight: u32) {
        let Fair { tree, pelt: Some(pelt), .. } = self else { return };
        let old = u64::from(tree.entity(at).weight);
        let (entity, queue) = pelt.entity_above(tree, now.clock, at);
        let load = u64::from(entity.load);
        queue.sums.load = (queue.sums.load + u64::from(weight) * load).saturating_sub(old * load);
    }

    /// Returns the sums of the root queue, and the signal that is added to them since.
    pub(crate) fn load_sums(&self) -> Option<(LoadSums, Signal)> {
        let root = &self.pelt.as_deref()?.queues[QueueId::ROOT];
        Some((root.sums, root.signal))
    }

    /// Returns the averages of a task in a queue.
    pub(crate) fn task_averages(&self, now: Time, at: Index) -> Option<TaskAverages> {
        let pelt = self.pelt.as_deref()?;
        let mut own = pelt.entities[at];
        own.age(now);
        let load = own.load_of(pelt.most_of(&self.tree, now, at));
        Some(TaskAverages { load, util: own.util() })
    }

    /// Returns the part of a queue without members in the load that the group's sleepers left on
    /// all CPUs.
    pub(crate) fn blocked(&self, id: QueueId) -> Blocked {
        let of = |pelt: &Pelt| {
            let own = &pelt.queues[id];
            Blocked::new(own.blocked, period_of(own.published))
        };
        self.pelt.as_deref().map_or(Blocked::default(), of)
    }

    /// Asserts the invariants of the averages of a queue and of its members.
    pub(super) fn check_averages(&self, now: Now, id: QueueId, picture: &dyn Display) {
        let Some(pelt) = self.pelt.as_deref() else { return };
        let (own, queue) = (&pelt.queues[id], self.tree.queue(id));
        let (is, was) = (Signal::of(queue), own.signal);
        ensure!(picture, is == was, "queue {id:?} adds {is:?} to its averages, not {was:?}");
        let clock = now.clock;
        ensure!(picture, own.sums.at <= clock, "queue {id:?} is averaged up to {}", own.sums.at);
        let sums = own.sums.aged(clock, own.signal);
        let (mut load, mut slack) = (0, SLACK_OF_LEAVERS);
        for at in queue.curr.into_iter().chain(self.tree.heaps.iter(id)) {
            let mut entity = pelt.entities[at];
            let doing = self.doing(at);
            ensure!(picture, doing == entity.doing, "{at} is {doing:?}, and not as averaged");
            ensure!(picture, entity.at <= clock, "{at} is averaged up to {}", entity.at);
            entity.age(clock);
            let most = full(entity.at);
            let EntityAverage { load: queued, runnable, util, .. } = entity;
            let bounded = [queued, runnable, util].into_iter().all(|sum| u64::from(sum) <= most);
            ensure!(picture, bounded, "{at} has at most all of the time: {entity:?}");
            // The task of a ghost may have taken its part elsewhere.
            if self.tree.entity(at).is_task() && doing == Doing::Delayed {
                continue;
            }
            let weight = u64::from(self.tree.entity(at).weight);
            load += weight * u64::from(queued);
            slack += weight * SLACK_OF_ENTITY;
        }
        let has = sums.load + slack;
        ensure!(picture, load <= has, "the members of queue {id:?} have {load} of {}", sums.load);
    }

    /// For tests: returns the sums of a queue.
    #[cfg(test)]
    pub(crate) fn sums(&self, now: Time, id: QueueId) -> LoadSums {
        let own = self.pelt.as_deref().expect("there are averages").queues[id];
        own.sums.aged(now, own.signal)
    }

    /// For tests: returns the running time of an entity, as of its last update.
    #[cfg(test)]
    pub(crate) fn util_sum(&self, at: Index) -> u32 {
        self.pelt.as_deref().expect("there are averages").entities[at].util
    }

    fn doing(&self, at: Index) -> Doing {
        match self.tree.entity(at) {
            entity if !entity.is_task() => doing_of_group(&self.tree, at),
            entity if entity.delayed => Doing::Delayed,
            _ if self.tree.queue_of(at).curr == Some(at) => Doing::Runs,
            _ => Doing::Waits,
        }
    }
}

/// The nanoseconds by which the average of a member may exceed its part in the sum of its queue. A
/// queue is updated whenever a member is, and perhaps in between. Two steps over the borders of
/// periods are rounded otherwise than one step over both, by less than a nanosecond. What an average
/// is off by decays as the average does, so that all its steps together are off by less than 47. The
/// last one is for factors, which have 32 bits.
const SLACK_OF_ENTITY: u64 = 48;

/// The same error of members that have left, or that had another weight before. Their parts were
/// taken out of the sum as they are in their own averages, and the error stays until it has decayed.
/// In theory it is that of a member for each of them. But most steps err the other way, and errors
/// cancel out: in 20,000 random lives it was less than a nanosecond of the heaviest task, whose
/// weight is 88761.
const SLACK_OF_LEAVERS: u64 = 4 * 88_761;

fn doing_of_group(tree: &Tree, at: Index) -> Doing {
    let entity = tree.entity(at);
    let own = tree.queue(entity.own);
    match () {
        () if entity.delayed => Doing::Delayed,
        () if own.nr == 0 || own.throttled => Doing::Away,
        () if tree.queue(entity.parent).curr == Some(at) => Doing::Runs,
        () => Doing::Waits,
    }
}
