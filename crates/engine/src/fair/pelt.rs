//! Running averages of load (PELT): what was queued, could run and ran lately, under the feature `PELT`.
//!
//! There is an average for each queue of a CPU, for each entity in one, and for each task that is in none. Each is three
//! sums that [`decay`](crate::store::decay):
//!
//! | | of an entity | of a queue |
//! |---|---|---|
//! | load | time in the queue | that of each member, by its weight |
//! | runnable | the same without sleep in its place | that of each task in it or below |
//! | util | time on the CPU | time that a member ran |
//!
//! An average knows the *signal* that it is to add since it was last looked at, so it is brought up to an instant when
//! the signal changes ([`Fair::note`]) or somebody asks, and not in between.
//!
//! A task that falls asleep leaves its part in the averages of its queue, where it decays as the task's own does
//! ([`Fair::part_with`]). If it wakes up in that queue it finds its part there; if elsewhere, its part is taken out
//! ([`Fair::withdraw`]) and brought along ([`Fair::bring`]). Its time in the queues above is the same as in its own, so
//! its parts in runnable and util are the same in each of them. In load it is there through the entity of the group,
//! whose time in the queue is only estimated then, as in the kernel (`update_tg_cfs_load`).
//!
//! A group's share of a CPU goes by the load averages of its queues on all CPUs ([`Fair::publish`]). Each queue with
//! members publishes its own when that is off by more than a 64th (`update_tg_load_avg`). What the sleepers of a group left
//! in queues without members decays at one pace everywhere, so it is one sum of the group's, [`Blocked`], that whoever reads
//! it ages. The kernel has it in the sum of the others, and updates it every 32 ms.
//!
//! Accepted: a task whose ghost was taken out before it woke does not know how long that stayed; its load counts until it
//! fell asleep. The ghost's queue counts all of it. That is a few milliseconds of 47.
//!
//! Invariants ([`Fair::check`]): each signal is that of the queue or entity; no entity was queued for longer than always;
//! the members of a queue have no more of its load than it has.

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
    /// From now on there are averages, or none.
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

    /// A task is about to wait in a queue, with the average that it had while it was in none.
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

    /// The part of a task that left it in a queue of this CPU is no longer there, if that queue still is.
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

    /// Gives a task that is about to leave its queue the average that it takes along. It leaves its part there if it
    /// goes to sleep.
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

    /// Gives a task in a queue the average that it has.
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

    /// What is in a queue, and in those above it, may be something else from now on.
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

    /// A task in a queue does that from now on.
    #[inline]
    pub(super) fn note_task(&mut self, now: Now, at: Index, doing: Doing) {
        if let Some(pelt) = &mut self.pelt {
            pelt.entities[at].turn(now.clock, doing);
        }
    }

    /// A task runs from now on, or waits, and so do the groups above it.
    #[inline]
    pub(super) fn note_switch(&mut self, now: Now, at: Index, doing: Doing) {
        if self.pelt.is_some() {
            self.note_task(now, at, doing);
            self.note_from(now.clock, self.tree.entity(at).parent);
        }
    }

    /// A group has a queue from now on.
    pub(super) fn begin_average(&mut self, now: Now, id: QueueId, at: Index) {
        self.grow_averages(0);
        let Some(pelt) = &mut self.pelt else { return };
        let sums = LoadSums { at: now.clock, ..LoadSums::default() };
        pelt.queues[id] = QueueAverage { sums, ..QueueAverage::default() };
        *pelt.entities.cover(at) = EntityAverage { at: now.clock, ..EntityAverage::default() };
    }

    /// An empty queue is forgotten.
    pub(super) fn end_average(&mut self, now: Now, groups: &impl Groups, id: QueueId) {
        let Some(pelt) = &self.pelt else { return };
        let blocked = pelt.queues[id].blocked(now.clock);
        if blocked > 0 {
            let group = self.tree.queue(id).group;
            let _ = groups.exchange_blocked(group, period_of(now.clock), blocked, 0);
        }
    }

    /// Whether nothing of its average is lost if an empty queue is forgotten.
    pub(super) fn is_decayed(&self, now: Now, id: QueueId) -> bool {
        let aged = |pelt: &Pelt| pelt.queues[id].sums.aged(now.clock, pelt.queues[id].signal);
        self.pelt.as_deref().is_none_or(|pelt| aged(pelt).averages().load == 0)
    }

    /// Tells the other CPUs what the group of a queue has here, if that is another than they know. The load by which
    /// its share of this CPU goes, and the sum of the loads of all CPUs with that (`calc_group_shares`).
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

    /// The entity of a group is about to weigh something else (`reweight_entity`).
    pub(super) fn reweigh(&mut self, now: Now, at: Index, weight: u32) {
        let Fair { tree, pelt: Some(pelt), .. } = self else { return };
        let old = u64::from(tree.entity(at).weight);
        let (entity, queue) = pelt.entity_above(tree, now.clock, at);
        let load = u64::from(entity.load);
        queue.sums.load = (queue.sums.load + u64::from(weight) * load).saturating_sub(old * load);
    }

    /// The sums of the root's queue, and what is added to them since.
    pub(crate) fn load_sums(&self) -> Option<(LoadSums, Signal)> {
        let root = &self.pelt.as_deref()?.queues[QueueId::ROOT];
        Some((root.sums, root.signal))
    }

    /// The averages of a task in a queue.
    pub(crate) fn task_averages(&self, now: Time, at: Index) -> Option<TaskAverages> {
        let pelt = self.pelt.as_deref()?;
        let mut own = pelt.entities[at];
        own.age(now);
        let load = own.load_of(pelt.most_of(&self.tree, now, at));
        Some(TaskAverages { load, util: own.util() })
    }

    /// What a queue without members has of what its group's sleepers left everywhere.
    pub(crate) fn blocked(&self, id: QueueId) -> Blocked {
        let of = |pelt: &Pelt| {
            let own = &pelt.queues[id];
            Blocked::new(own.blocked, period_of(own.published))
        };
        self.pelt.as_deref().map_or(Blocked::default(), of)
    }

    /// Asserts what holds of the averages of a queue and of its members.
    pub(super) fn check_averages(&self, now: Now, id: QueueId, picture: &dyn Display) {
        let Some(pelt) = self.pelt.as_deref() else { return };
        let (own, queue) = (&pelt.queues[id], self.tree.queue(id));
        let (is, was) = (Signal::of(queue), own.signal);
        ensure!(picture, is == was, "queue {id:?} adds {is:?} to its averages, not {was:?}");
        // A part may have been taken out since the clock of the run queue was read last.
        let clock = now.clock.max(own.sums.at);
        let sums = own.sums.aged(clock, own.signal);
        let (mut load, mut slack) = (0, sums.load / SLACK_OF_SUM);
        for at in queue.curr.into_iter().chain(self.tree.heaps.iter(id)) {
            let mut entity = pelt.entities[at];
            let doing = self.doing(at);
            ensure!(picture, doing == entity.doing, "{at} is {doing:?}, and not as averaged");
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

    /// The sums of a queue, for tests.
    #[cfg(test)]
    pub(crate) fn sums(&self, now: Time, id: QueueId) -> LoadSums {
        let own = self.pelt.as_deref().expect("there are averages").queues[id];
        own.sums.aged(now, own.signal)
    }

    /// What an entity ran for, as of when it was last looked at, for tests.
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

/// By as much of it a sum may be too small: roundings.
const SLACK_OF_SUM: u64 = 10_000;

/// And by so many nanoseconds for each member.
const SLACK_OF_ENTITY: u64 = 1_000;

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
