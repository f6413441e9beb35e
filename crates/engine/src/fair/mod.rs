//! The fair class: task groups as a tree of queues, whatever their order.
//!
//! Each queue has a virtual clock. A member's vruntime is the CPU time that it got, divided by its
//! weight. A member is an *entity*: a task, or the queue of a group on this CPU. The entity of a
//! group is in the parent's queue, with the group's share as its weight. The running task and the
//! groups above it are each `curr` of their queue, outside its heaps.
//!
//! An order decides which member of a queue is next, which preempts which, and where a newcomer
//! starts. There are two orders: that of Linux 6.1 with latency nice (`cfs.rs`), and under `EEVDF`
//! that of 6.6 and later (`eevdf.rs`). `order.rs` is their interface.
//!
//! This module does not know the payload of a task, a limit, or another CPU. A task is an index,
//! and its request is copied into its entity. Off a queue, a vruntime has no meaning by itself: a
//! task takes a [`Standing`] along.
//!
//! A task that enters joins the queue of its group, and the group joins its parent's queue if the
//! task is its first. A task that leaves takes every queue that it leaves empty out of its
//! parent's. On the way up each queue counts it, up to the root queue or to a throttled group,
//! above which no queue counts it.
//!
//! A group's queue is made when its first member comes to this CPU. After the last member left, it
//! stays until its entity would be placed the same if it were made anew ([`Fair::next_to_reap`]).
//!
//! A pick may prefer a member that is warm in the caches (`buddies.rs`, `nominate.rs`). Of the skip
//! buddies there is only that of a task that yields.
//!
//! Under `DELAY_DEQUEUE` a sleeping entity may stay in its place for a while (`ghosts.rs`). Under
//! `PELT` a group's share follows the average loads of its queues (`pelt.rs`), otherwise their
//! current loads.
//!
//! Invariants ([`Fair::check`]): counts, loads and heaps equal those computed afresh. The entity of
//! a group is queued exactly while it is not throttled, and its queue has members or it sleeps in
//! its place.

mod ahead;
pub(crate) mod averages;
pub(crate) mod beside;
mod buddies;
pub(crate) mod cfs;
mod check;
pub(crate) mod eevdf;
pub(crate) mod entity;
mod ghosts;
pub(crate) mod heaps;
pub(crate) mod lend;
mod limbo;
mod nominate;
pub(crate) mod order;
mod passed_over;
mod pelt;
mod throttle;
pub(crate) mod tree;

use crate::attr::{GroupId, LatencyNice, Weight};
use crate::cpu::CpuId;
use crate::fair::averages::{Doing, Pelt};
use crate::fair::cfs::Cfs;
use crate::fair::eevdf::Eevdf;
use crate::fair::entity::{Ask, Entity, Now, QueueId, Standing};
use crate::fair::order::{Before, QueueOrder, Wakeup};
use crate::fair::tree::{Counts, Member, Queue, Tree};
use crate::features::Feature;
use crate::group::Groups;
use crate::rules::Buddies;
use crate::store::heap::Index;
use crate::store::list::{Links, List};
use crate::time::Nanos;

/// The order of the queues, with its state.
#[derive(Debug)]
pub(crate) enum Order {
    Cfs(Cfs),
    Eevdf(Eevdf),
}

/// Calls a method of the order; no other code tests which order it is for that.
macro_rules! by_order {
    ($order:expr, $it:ident => $does:expr) => {
        match $order {
            Order::Cfs($it) => $does,
            Order::Eevdf($it) => $does,
        }
    };
}
pub(crate) use by_order;

/// The fair tasks of one CPU.
#[derive(Debug)]
pub(crate) struct Fair {
    pub(crate) tree: Tree,
    pub(crate) order: Order,
    lists: Lists,
    ghosts: Ghosts,
    /// The weight of those entities of the root queue that have only SCHED_IDLE tasks.
    idle_load: u64,
    /// The queues of groups that exist, in order of group.
    group_queues: Vec<(GroupId, QueueId)>,
    nr_throttled: u32,
    /// The number of tasks in limbo ([`limbo`]).
    nr_in_limbo: u32,
    reap_cursor: usize,
    /// The company of the running task, if the first tasks of its queue are with the host
    /// ([`lend`]).
    company: Option<Company>,
    /// The averages, if there are any ([`pelt`]).
    pelt: Option<Box<Pelt>>,
}

/// A running stand-in, and the number of other tasks that it represents, as far as the queue knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Company {
    /// The running entity. Its own vruntime stands still.
    pub(crate) stand_in: Index,
    pub(crate) nr: u32,
}

/// The entities that sleep in their place ([`ghosts`]).
#[derive(Debug, Default)]
struct Ghosts {
    /// Whether there may be any.
    on: bool,
    /// The number of sleeping tasks and groups.
    nr: u32,
}

/// The queued and running tasks, in the order in which balance examines them.
#[derive(Debug, Default)]
struct Lists {
    links: Links,
    /// The tasks that compete. The one that balance examined last, or that came last, is last.
    competing: List,
    /// The tasks below throttled groups, which are not in `competing`.
    set_aside: List,
}

impl Lists {
    #[inline]
    fn put(&mut self, at: Index, aside: bool) {
        let list = if aside { &mut self.set_aside } else { &mut self.competing };
        self.links.push_back(list, at);
    }

    #[inline]
    fn remove(&mut self, at: Index, aside: bool) {
        let list = if aside { &mut self.set_aside } else { &mut self.competing };
        self.links.remove(list, at);
    }

    /// Moves the tasks of a queue, and of those below it that compete in it, to the list that
    /// balance does not see, or back. None of them runs.
    fn set_aside(&mut self, tree: &Tree, id: QueueId, aside: bool) {
        for at in tree.heaps.iter(id) {
            let entity = tree.entity(at);
            if !entity.is_task() {
                self.set_aside(tree, entity.own, aside);
            } else if !entity.delayed {
                self.remove(at, !aside);
                self.put(at, aside);
            }
        }
    }
}

impl Fair {
    pub(crate) fn new(cpu: CpuId, eevdf: bool) -> Fair {
        let mut fair = Fair {
            tree: Tree::new(cpu),
            order: match eevdf {
                true => Order::Eevdf(Eevdf::default()),
                false => Order::Cfs(Cfs::default()),
            },
            lists: Lists::default(),
            ghosts: Ghosts::default(),
            idle_load: 0,
            group_queues: Vec::new(),
            nr_throttled: 0,
            nr_in_limbo: 0,
            reap_cursor: 0,
            company: None,
            pelt: None,
        };
        fair.grow(0, 0);
        fair
    }

    /// Makes room for the indices `0..len`, and for `groups` queues of groups. Allocates.
    pub(crate) fn grow(&mut self, len: usize, groups: usize) {
        self.tree.grow(len, groups);
        self.lists.links.grow(len);
        let queues = self.tree.nr_queues();
        by_order!(&mut self.order, order => order.grow(len, queues));
        self.group_queues.reserve(groups.saturating_sub(self.group_queues.len()));
        self.grow_averages(len);
    }

    /// Opens the indices `0..len`, which have room, for use.
    pub(crate) fn open(&mut self, len: usize) {
        self.tree.open(len);
    }

    /// Makes room for as many indices as `room` has, with its memory. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Fair) {
        self.tree.grow_into(&mut room.tree);
        self.lists.links.grow_into(&mut room.lists.links);
        if let (Order::Eevdf(order), Order::Eevdf(room)) = (&mut self.order, &mut room.order) {
            order.grow_into(room);
        }
    }

    /// Returns the queue of the root, whose counts cover all fair tasks of the CPU.
    #[inline]
    pub(crate) fn root(&self) -> &Queue {
        self.tree.root()
    }

    /// Returns whether the SCHED_IDLE tasks weigh more than by themselves: some are in a group of
    /// normal weight.
    #[inline]
    pub(crate) fn idle_is_heavy(&self) -> bool {
        self.idle_load > u64::from(self.root().nr_idle_tasks * Weight::IDLE.get())
    }

    /// Returns the queues of groups that exist, in order of group.
    pub(crate) fn group_queues(&self) -> impl Iterator<Item = (GroupId, QueueId)> {
        self.group_queues.iter().copied()
    }

    /// Returns the queue of a group on this CPU, if there is one.
    #[inline]
    pub(crate) fn queue_of(&self, group: GroupId) -> Option<QueueId> {
        if group == GroupId::ROOT {
            return Some(QueueId::ROOT);
        }
        let found = self.group_queues.binary_search_by_key(&group, |&(id, _)| id);
        found.ok().map(|found| self.group_queues[found].1)
    }

    /// Makes the queue of `group` below `parent`, with its entity at `at`. Allocates if there is no
    /// room.
    pub(crate) fn add_queue(
        &mut self,
        now: Now,
        groups: &impl Groups,
        (group, parent): (GroupId, QueueId),
        at: Index,
    ) -> QueueId {
        let ask = Ask {
            weight: groups.weight(group).get(),
            latency_nice: groups.latency_nice(group),
            slice: None,
            idle: groups.is_idle(group),
        };
        let id = self.tree.add_queue(at, group, Entity::new(ask, parent));
        let queues = self.tree.nr_queues();
        let standing = by_order!(&mut self.order, order => {
            order.grow(0, queues);
            order.heed(at, ask, now.config);
            order.found(&mut self.tree, now, at)
        });
        let queue = self.tree.queue_mut(id);
        queue.standing = standing;
        queue.counts_as_idle = groups.counts_as_idle(group);
        let place = self.group_queues.partition_point(|&(id, _)| id < group);
        self.group_queues.insert(place, (group, id));
        self.begin_average(now, id, at);
        id
    }

    /// Removes an empty queue; returns the index that its entity had.
    pub(crate) fn remove_queue(&mut self, now: Now, groups: &impl Groups, id: QueueId) -> Index {
        self.end_average(now, groups, id);
        let nth = self.group_queues.iter().position(|&(_, queue)| queue == id);
        self.group_queues.remove(nth.expect("a group queue is listed"));
        self.tree.remove_queue(id)
    }

    /// Returns the queue of a group, by its number in the order of groups.
    pub(crate) fn nth_group_queue(&self, nth: usize) -> QueueId {
        self.group_queues[nth].1
    }

    /// Returns the number of groups that have a queue.
    pub(crate) fn nr_group_queues(&self) -> usize {
        self.group_queues.len()
    }

    /// Returns the next empty queue in turn, if it can be removed. `rests` answers that for its
    /// limit.
    pub(crate) fn next_to_reap(
        &mut self,
        now: Now,
        rests: impl Fn(QueueId) -> bool,
    ) -> Option<QueueId> {
        let Some(&(_, id)) = self.group_queues.get(self.reap_cursor) else {
            self.reap_cursor = 0;
            return None;
        };
        let queue = self.tree.queue(id);
        let at = queue.entity.expect("a group has an entity");
        let empty = queue.nr == 0 && queue.children == 0 && !self.tree.entity(at).delayed;
        let empty = empty && self.last_in_limbo(id).is_none();
        let order = &self.order;
        let rests = || rests(id) && self.is_decayed(now, id);
        let reap =
            empty && rests() && by_order!(order, order => order.is_at_rest(&self.tree, now, at));
        self.reap_cursor += usize::from(!reap);
        reap.then_some(id)
    }

    /// Enqueues a task in the queue `home`.
    pub(crate) fn enqueue(
        &mut self,
        now: Now,
        groups: &impl Groups,
        member: Member,
        (ask, standing): (Ask, &Standing),
    ) {
        let Member { queue: home, at } = member;
        self.lists.put(at, self.is_below_throttled(home));
        *self.tree.entity_mut(at) = Entity::new(ask, home);
        by_order!(&mut self.order, order => {
            order.heed(at, ask, now.config);
            order.attach(&mut self.tree, now, member, standing);
        });
        self.count(now, groups, member, Counts { nr: 1, nr_idle: u32::from(ask.idle) });
        self.note(now, home);
    }

    /// Takes a task out of its queue, and out of every group queue that it leaves empty. If it ran,
    /// the remaining groups above it wait again.
    pub(crate) fn dequeue(
        &mut self,
        now: Now,
        groups: &impl Groups,
        at: Index,
        asleep: bool,
    ) -> Standing {
        let member = Member::of(&self.tree, at);
        let counts = Counts { nr: 1, nr_idle: self.tree.entity(at).idle.into() };
        self.lists.remove(at, self.is_below_throttled(member.queue));
        let standing = self.leave(now, groups, member, (counts, asleep));
        self.note(now, member.queue);
        standing
    }

    /// Counts a newcomer in its queue and above, with all its tasks. The groups above it that had
    /// no member enter their queues. A throttled group stays out.
    #[inline]
    fn count(&mut self, now: Now, groups: &impl Groups, newcomer: Member, counts: Counts) {
        if newcomer.queue == QueueId::ROOT {
            self.tree.root_mut().add(counts);
            self.idle_load += self.tree.idle_weight(newcomer.at);
        } else {
            self.count_below(now, groups, newcomer.queue, counts);
        }
    }

    #[inline(never)]
    fn count_below(&mut self, now: Now, groups: &impl Groups, id: QueueId, counts: Counts) {
        let (mut id, mut counts, mut arriving) = (id, counts, true);
        let top = self.tree.top_of(id);
        let before = self.tree.idle_weight(top);
        loop {
            let queue = self.tree.queue_mut(id);
            queue.add(counts);
            let Some(above) = queue.entity else { break };
            arriving &= queue.nr == 1;
            // Whether the group counts as idle matters only above it.
            counts = queue.counts_above(counts);
            let throttled = queue.throttled;
            self.update_share(now, groups, id);
            self.reslice(now, id);
            if throttled {
                return;
            }
            if arriving && self.tree.entity(above).delayed {
                self.requeue(Member::of(&self.tree, above));
                arriving = false;
            } else if arriving {
                self.attach_group(now, id);
            }
            id = self.tree.entity(above).parent;
        }
        self.note_idle_load(before, top);
    }

    /// Puts the entity of a group into the queue of its parent.
    #[inline(never)]
    fn attach_group(&mut self, now: Now, id: QueueId) {
        let queue = self.tree.queue(id);
        let (at, standing) = (queue.entity.expect("the root stays"), queue.standing);
        let member = Member::of(&self.tree, at);
        by_order!(&mut self.order, order => order.attach(&mut self.tree, now, member, &standing));
    }

    /// Takes an entity out of its queue, and the groups above it that become empty out of theirs.
    #[inline]
    fn leave(
        &mut self,
        now: Now,
        groups: &impl Groups,
        member: Member,
        (counts, asleep): (Counts, bool),
    ) -> Standing {
        if member.queue != QueueId::ROOT {
            return self.leave_below(now, groups, member, (counts, asleep));
        }
        self.idle_load -= self.tree.idle_weight(member.at);
        self.tree.root_mut().subtract(counts);
        self.detach(now, member, asleep)
    }

    #[inline(never)]
    fn leave_below(
        &mut self,
        now: Now,
        groups: &impl Groups,
        member: Member,
        (counts, asleep): (Counts, bool),
    ) -> Standing {
        let Member { queue: mut id, at } = member;
        let is_task = self.tree.entity(at).is_task();
        let running = self.tree.queue(id).curr == Some(at);
        let top = self.tree.top_of(id);
        let before = self.tree.idle_weight(top);
        let standing = self.detach(now, member, asleep);
        let (mut counts, mut leaving) = (counts, true);
        loop {
            let queue = self.tree.queue_mut(id);
            queue.subtract(counts);
            let Some(above) = queue.entity else { break };
            leaving &= queue.nr == 0;
            counts = queue.counts_above(counts);
            let throttled = queue.throttled;
            self.update_share(now, groups, id);
            self.reslice(now, id);
            if throttled {
                return standing;
            }
            let member = Member::of(&self.tree, above);
            // Groups that become empty sleep, unless a throttled group left them.
            let falls_asleep = asleep || is_task;
            if leaving && falls_asleep && self.delay_group(now, member) {
                leaving = false;
            } else if leaving {
                self.tree.queue_mut(id).standing = self.detach(now, member, falls_asleep);
            } else if running && self.tree.queue(member.queue).curr == Some(above) {
                by_order!(&mut self.order, order => order.put_back(&mut self.tree, now, member));
            }
            id = member.queue;
        }
        self.note_idle_load(before, top);
        standing
    }

    #[inline]
    fn detach(&mut self, now: Now, member: Member, asleep: bool) -> Standing {
        by_order!(&mut self.order, order => order.detach(&mut self.tree, now, member, asleep))
    }

    /// Returns whether any group is throttled here.
    #[inline]
    pub(crate) fn is_any_throttled(&self) -> bool {
        self.nr_throttled > 0
    }

    /// Returns whether a queue is that of a throttled group or below one.
    #[inline]
    pub(crate) fn is_below_throttled(&self, id: QueueId) -> bool {
        self.nr_throttled > 0 && self.tree.lineage(id).any(|id| self.tree.queue(id).throttled)
    }

    /// Charges the running task and the groups above it. Returns whether the task makes way because
    /// of the charge, without a tick.
    #[inline]
    pub(crate) fn charge(&mut self, now: Now, curr: Index, span: Nanos) -> bool {
        if self.company.is_some() {
            return self.charge_above(now, curr, span);
        }
        by_order!(&mut self.order, order => charge(order, &mut self.tree, now, (curr, span)))
    }

    /// Like [`Fair::charge`], for a stand-in. The clock of its queue stands still: most tasks of
    /// the company have less vruntime.
    #[cold]
    fn charge_above(&mut self, now: Now, curr: Index, span: Nanos) -> bool {
        let entity = self.tree.entity_mut(curr);
        entity.vruntime = entity.vruntime.after(entity.virtual_span(span.0));
        entity.ran += span.0;
        let Some(above) = self.tree.above(curr) else { return false };
        by_order!(&mut self.order, order => charge(order, &mut self.tree, now, (above, span)))
    }

    /// Makes the running task a waiting one, and likewise the groups above it.
    #[inline(always)]
    pub(crate) fn put_prev(&mut self, now: Now, curr: Index) {
        by_order!(&mut self.order, order => put_prev(order, &mut self.tree, now, curr));
        self.note_switch(now, curr, Doing::Waits);
    }

    /// Picks the next task, and makes it and the groups above it `curr` of their queues. A task
    /// that yielded is passed over if that is not unfair to it.
    #[inline]
    pub(crate) fn pick(&mut self, now: Now, before: Before) -> Option<Index> {
        if self.tree.root().nr == 0 {
            return None;
        }
        let next = by_order!(&mut self.order, order => pick(order, &mut self.tree, now, before));
        self.note_switch(now, next, Doing::Runs);
        Some(next)
    }

    /// Returns whether the tick should end the turn of the running task.
    pub(crate) fn turn_is_over(&mut self, now: Now, curr: Index) -> bool {
        by_order!(&mut self.order, order => turn_is_over(order, &self.tree, now, curr))
    }

    /// Returns whether a woken task preempts the running one; if so, the turn of that one is over.
    /// If exactly one of the two entities that compete in one queue is idle, that decides: an idle
    /// entity is preempted by one that is not, and never the other way round. Otherwise the order
    /// decides, if the woken task `may` preempt its like.
    pub(crate) fn preempts(&mut self, now: Now, wakeup: Wakeup, may: bool) -> bool {
        let (curr, woken) = self.tree.matching_siblings(wakeup.curr, wakeup.woken);
        let is_idle = |at: Index| self.tree.entity(at).idle;
        let (curr_is_idle, woken_is_idle) = (is_idle(curr), is_idle(woken));
        if curr_is_idle != woken_is_idle {
            if curr_is_idle && now.config.rules.idle_ends_turn {
                self.end_turns(curr);
            }
            return curr_is_idle;
        }
        let wakeup = Wakeup { curr, woken, ..wakeup };
        may && by_order!(&mut self.order, order => order.preempts(&mut self.tree, now, wakeup))
    }

    /// Ends the turns of an entity and of those above it, because an entity that is not idle came.
    pub(crate) fn end_turns(&mut self, at: Index) {
        by_order!(&mut self.order, order => {
            let mut next = Some(at);
            while let Some(at) = next {
                order.end_turn(&self.tree, at);
                next = self.tree.above(at);
            }
        });
    }

    /// Changes the request of a task in place: its vruntime and its turn stay.
    pub(crate) fn reask(&mut self, now: Now, at: Index, ask: Ask) {
        by_order!(&mut self.order, order => order.reask(&mut self.tree, now, at, ask));
        self.reslice_from(now, self.tree.entity(at).parent);
    }

    /// Returns the standing of a task forked by the running task `parent`, which has not been
    /// charged for the last `uncharged` yet.
    pub(crate) fn forked(&self, now: Now, parent: Index, uncharged: Nanos) -> Standing {
        let order = &self.order;
        Standing::new(by_order!(order, order => {
            order.lead_of_child(&self.tree, now, parent, uncharged)
        }))
    }

    /// Applies another configuration to an entity, with the request of its task; `None` for a
    /// group.
    pub(crate) fn renew(&mut self, now: Now, at: Index, ask: Option<Ask>) {
        let latency_nice = self.tree.entity(at).latency_nice;
        let of_group = || Ask { weight: 0, latency_nice, slice: None, idle: false };
        let ask = ask.unwrap_or_else(of_group);
        by_order!(&mut self.order, order => {
            order.renew(&mut self.tree, now, at, ask);
        });
    }

    /// Updates the shares of the groups above the running task.
    pub(crate) fn update_shares(&mut self, now: Now, groups: &impl Groups, curr: Index) {
        let id = self.tree.entity(curr).parent;
        if id != QueueId::ROOT {
            self.update_shares_from(now, groups, id);
        }
    }

    /// Updates the shares of the group of a queue, and of those above it.
    pub(crate) fn update_shares_from(&mut self, now: Now, groups: &impl Groups, from: QueueId) {
        let mut id = from;
        let top = self.tree.top_of(id);
        let before = self.tree.idle_weight(top);
        while let Some(at) = self.tree.queue(id).entity {
            self.update_share(now, groups, id);
            id = self.tree.entity(at).parent;
        }
        self.note_idle_load(before, top);
        self.note(now, from);
    }

    /// Sets the weight of a group's entity to the group's share of this CPU (`calc_group_shares`).
    #[inline(never)]
    fn update_share(&mut self, now: Now, groups: &impl Groups, id: QueueId) {
        let (load, total) = match self.pelt {
            Some(_) => self.publish(now, groups, id),
            None => self.publish_weight(groups, id),
        };
        let queue = self.tree.queue(id);
        if queue.nr == 0 {
            return;
        }
        let (group, at) = (queue.group, queue.entity.expect("the root has no share"));
        let most = u64::from(groups.weight(group).get());
        let share = (most * load / total.max(load)).clamp(2.min(most), most) as u32;
        if self.tree.entity(at).weight == share {
            return;
        }
        self.reweigh(now, at, share);
        if self.tree.is_attached(at) {
            by_order!(&mut self.order, order => order.reweight(&mut self.tree, now, at, share));
        } else {
            self.tree.entity_mut(at).weight = share;
        }
    }

    /// Like [`Fair::publish`], for shares by current loads.
    fn publish_weight(&mut self, groups: &impl Groups, id: QueueId) -> (u64, u64) {
        let queue = self.tree.queue_mut(id);
        let load = queue.load;
        let total = groups.exchange_load(queue.group, queue.contribution, load);
        queue.contribution = load;
        (load, total)
    }

    /// Updates the slices of the group of a queue, and of those above it, by the slices of their
    /// members.
    fn reslice_from(&mut self, now: Now, mut id: QueueId) {
        while let Some(at) = self.tree.queue(id).entity {
            self.reslice(now, id);
            id = self.tree.entity(at).parent;
        }
    }

    /// Updates the slices of all groups, after those of their members changed.
    pub(crate) fn reslice_all(&mut self, now: Now) {
        // A child has a greater number than its parent.
        for nth in (0..self.group_queues.len()).rev() {
            self.reslice(now, self.group_queues[nth].1);
        }
    }

    /// Requests for the entity of a group with members the shortest slice in its queue, if the
    /// rules say so. An entity with a latency nice value has the slice of that value.
    #[inline]
    fn reslice(&mut self, now: Now, id: QueueId) {
        let Order::Eevdf(order) = &mut self.order else { return };
        let queue = self.tree.queue(id);
        if !now.config.rules.shortest_of_group || queue.nr == 0 {
            return;
        }
        let at = queue.entity.expect("the root wants nothing");
        let latency_nice = self.tree.entity(at).latency_nice;
        if latency_nice == LatencyNice::ZERO || !now.config.features.has(Feature::LatencyNice) {
            order.reslice(&self.tree, now, at);
        }
    }

    /// Updates the idle weight after one entity of the root queue changed, which had added
    /// `before`.
    fn note_idle_load(&mut self, before: u64, top: Index) {
        self.idle_load = self.idle_load - before + self.tree.idle_weight(top);
    }

    /// Returns the task that balance has not examined for longest. There must be one.
    #[inline]
    pub(crate) fn look_at_next(&mut self) -> Index {
        self.lists.links.rotate(&mut self.lists.competing)
    }

    /// Returns whether a task counts as SCHED_IDLE on this CPU, by its policy or by a group that it
    /// is below ([`Groups::counts_as_idle`]).
    #[inline]
    pub(crate) fn is_idle_class(&self, at: Index) -> bool {
        self.tree.is_idle_class(at)
    }

    /// Returns whether a task is eligible; in CFS every task is.
    pub(crate) fn is_eligible(&self, at: Index) -> bool {
        match &self.order {
            Order::Eevdf(order) => order.is_eligible(&self.tree, Member::of(&self.tree, at)),
            Order::Cfs(_) => true,
        }
    }

    /// Returns the load that a task adds to the CPU: its weight, scaled by the shares above it.
    pub(crate) fn task_load(&self, at: Index) -> u64 {
        self.tree.task_load(at)
    }
}

// Each of these functions is compiled for each order, so neither order pays for the other.

#[inline(always)]
fn charge(
    order: &mut impl QueueOrder,
    tree: &mut Tree,
    now: Now,
    (curr, span): (Index, Nanos),
) -> bool {
    let (mut at, mut makes_way) = (curr, false);
    loop {
        let member = Member::of(tree, at);
        makes_way |= order.charge(tree, now, member, span);
        let Some(above) = tree.queue(member.queue).entity else { return makes_way };
        at = above;
    }
}

#[inline(always)]
fn put_prev(order: &mut impl QueueOrder, tree: &mut Tree, now: Now, curr: Index) {
    let mut at = curr;
    loop {
        let member = Member::of(tree, at);
        debug_assert_eq!(tree.queue(member.queue).curr, Some(at), "the entity was running");
        order.put_back(tree, now, member);
        let Some(above) = tree.queue(member.queue).entity else { return };
        at = above;
    }
}

#[inline(never)]
fn pick(order: &mut impl QueueOrder, tree: &mut Tree, now: Now, before: Before) -> Index {
    if let Some(at) = before.yielded {
        order.postpone(tree, now, at);
    }
    let mut goes_on = !now.config.rules.renews;
    let mut queue = QueueId::ROOT;
    loop {
        let at = order.choose(tree, now, queue, before);
        // Below the queue where another member was chosen, no member continues its turn.
        goes_on = goes_on && tree.is_above(at, before.ran);
        order.set_curr(tree, now, Member { queue, at }, goes_on);
        let entity = tree.entity(at);
        if entity.is_task() {
            return at;
        }
        queue = entity.own;
    }
}

fn turn_is_over(order: &mut impl QueueOrder, tree: &Tree, now: Now, curr: Index) -> bool {
    let (mut at, mut is_over) = (curr, false);
    loop {
        is_over |= order.turn_is_over(tree, now, Member::of(tree, at));
        // A tick may clear a buddy on each level.
        if is_over && now.config.rules.buddies == Buddies::Ignored {
            return true;
        }
        let Some(above) = tree.above(at) else { return is_over };
        at = above;
    }
}
