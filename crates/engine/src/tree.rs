//! The tree of groups on one CPU: who enters it and leaves it, and what its queues count.
//!
//! A task that enters makes the queues of its groups as far as they are missing, and enters theirs if
//! it is the first of its own; one that leaves takes every queue that it leaves empty out of its
//! parent's. On the way up each queue counts it, up to the root's or to a throttled group's, above
//! which nobody knows of it (`throttle.rs`).
//!
//! Invariants: those of `fair.rs`.

use crate::attr::{GroupId, Policy};
use crate::fair::{Entity, FairQueue, GroupQueue, Lag};
use crate::group::Groups;
use crate::heap::Index;
use crate::run_queue::{Member, RunQueue};

impl<P, G: Groups> RunQueue<P, G> {
    pub(crate) fn enqueue_fair(&mut self, at: Index) {
        let (group, policy) = {
            let task = self.task(at);
            (task.queue_group(), task.attr.policy)
        };
        let home = self.group_queue(group);
        let stopped = self.is_below_throttled(home);
        let list = if stopped { &mut self.fair.aside } else { &mut self.fair.tasks };
        self.links.push_back(list, at);
        self.join_tree(at, home, (1, u32::from(policy == Policy::Idle)));
    }

    /// Takes a task out of its queue and out of every group queue that it leaves empty. If it ran,
    /// the groups above it that stay go back among those who wait.
    pub(crate) fn dequeue_fair(&mut self, at: Index, asleep: bool) {
        let idle = self.task(at).attr.policy == Policy::Idle;
        self.leave_tree(at, (1, u32::from(idle)), asleep);
        let stopped = self.is_stopped(at);
        let list = if stopped { &mut self.fair.aside } else { &mut self.fair.tasks };
        self.links.remove(list, at);
    }

    /// Puts an entity into a queue, with the tasks that it counts for (all of them, and the SCHED_IDLE
    /// ones), and the groups above it that had nobody into theirs. What is throttled stays out.
    pub(crate) fn join_tree(&mut self, at: Index, level: Option<Index>, counts: (u32, u32)) {
        let (nr, mut nr_idle) = counts;
        let top = level.map_or(at, |level| self.top(level));
        let idle_load = level.map_or(0, |_| self.idle_weight(top));
        let (mut arriving, mut level) = (Some(at), level);
        loop {
            if let Some(entity) = arriving {
                self.attach(level, entity);
            }
            let queue = self.queue_mut(level);
            queue.nr_tasks += nr;
            queue.nr_idle_tasks += nr_idle;
            let Some(above) = level else { break };
            arriving = arriving.filter(|_| queue.nr == 1).map(|_| above);
            // What the group is says something to those above it only.
            nr_idle = self.idle_of(above, (nr, nr_idle));
            self.update_share(above);
            if self.is_throttled_group(above) {
                return;
            }
            level = self.entity(above).parent;
        }
        self.note_idle_load(idle_load, top);
    }

    /// The opposite of [`RunQueue::join_tree`].
    pub(crate) fn leave_tree(&mut self, at: Index, counts: (u32, u32), asleep: bool) {
        let running = self.curr == Some(at);
        let top = self.top(at);
        let idle_load = self.idle_weight(top);
        let (nr, mut nr_idle) = counts;
        // Groups that are left empty sleep, unless it is a throttled one that leaves them.
        let sleep = matches!(self.member(at), Member::Task(_));
        let (mut next, mut leaving) = (Some(at), true);
        while let Some(entity) = next {
            let level = self.entity(entity).parent;
            if leaving {
                self.detach_entity(level, entity, asleep || sleep && entity != at);
            } else if running && self.queue(level).curr == Some(entity) {
                self.put_back(level, entity);
            }
            let queue = self.queue_mut(level);
            queue.nr_tasks -= nr;
            queue.nr_idle_tasks -= nr_idle;
            leaving &= queue.nr == 0;
            if let Some(above) = level {
                nr_idle = self.idle_of(above, (nr, nr_idle));
                self.update_share(above);
                if self.is_throttled_group(above) {
                    return;
                }
            }
            next = level;
        }
        self.note_idle_load(idle_load, top);
    }

    /// How many of some tasks of a group count as SCHED_IDLE ones to those above it.
    fn idle_of(&self, at: Index, (nr, nr_idle): (u32, u32)) -> u32 {
        if self.groups.counts_as_idle(self.group(at).group) { nr } else { nr_idle }
    }

    /// What a group's entity counts for in its parent's queue: its tasks, and those that are
    /// SCHED_IDLE ones there.
    pub(crate) fn counts_above(&self, at: Index) -> (u32, u32) {
        let FairQueue { nr_tasks, nr_idle_tasks, .. } = self.group(at).queue;
        (nr_tasks, self.idle_of(at, (nr_tasks, nr_idle_tasks)))
    }

    /// Refreshes the shares of the groups above the running task.
    pub(crate) fn update_shares(&mut self, curr: Index) {
        if self.entity(curr).parent.is_none() {
            return;
        }
        let top = self.top(curr);
        let idle_load = self.idle_weight(top);
        let mut level = self.entity(curr).parent;
        while let Some(above) = level {
            self.update_share(above);
            level = self.entity(above).parent;
        }
        self.note_idle_load(idle_load, top);
    }

    /// The entity above (or at) this one that competes in the root's queue.
    fn top(&self, mut at: Index) -> Index {
        while let Some(above) = self.entity(at).parent {
            at = above;
        }
        at
    }

    /// What an entity of the root's queue adds to [`Fair::idle_load`].
    pub(crate) fn idle_weight(&self, top: Index) -> u64 {
        let idle = match self.member(top) {
            Member::Task(task) => task.attr.policy == Policy::Idle,
            Member::Group(it) => {
                let only = it.queue.nr_tasks == it.queue.nr_idle_tasks;
                only || self.groups.counts_as_idle(it.group)
            }
        };
        if idle && self.is_attached(top) { self.entity(top).weight.into() } else { 0 }
    }

    /// After one entity of the root's queue changed, which had added `before`.
    fn note_idle_load(&mut self, before: u64, top: Index) {
        self.fair.idle_load = self.fair.idle_load - before + self.idle_weight(top);
    }

    /// Forgets one empty group queue that would be placed no differently if it were made anew.
    pub(crate) fn reap_one(&mut self) {
        let Some(&(_, at)) = self.fair.group_queues.get(self.fair.reap_cursor) else {
            self.fair.reap_cursor = 0;
            return;
        };
        let group = self.group(at);
        let ahead = || match self.is_eevdf() {
            true => self.owes(group.lag),
            false => self.is_ahead(at),
        };
        let rests = group.budget.is_none_or(|budget| budget.is_at_rest(self.clock));
        if group.queue.nr > 0 || group.children > 0 || !rests || ahead() {
            self.fair.reap_cursor += 1;
            return;
        }
        self.remove_group_queue(at);
    }

    /// Whether an empty queue's entity would be placed further back if it were made anew. Where the
    /// clock of its parent stands still, as nobody is there, a lead is worked off by time, as that of a
    /// task that wakes elsewhere.
    fn is_ahead(&self, at: Index) -> bool {
        let GroupQueue { group, entity, lag, .. } = self.group(at);
        let start = self.credited(entity.parent, *group);
        let by_time = |lead: i64, since| {
            let left = lead.saturating_sub_unsigned(self.clock.since(since).0);
            self.queue(entity.parent).clock.after(left.cast_unsigned())
        };
        let place = match *lag {
            Lag::Asleep { lead, since, .. } => entity.vruntime.min(by_time(lead, since)),
            Lag::New { .. } | Lag::Moving { .. } => entity.vruntime,
        };
        place > start
    }

    pub(crate) fn remove_group_queue(&mut self, at: Index) {
        let (queue, parent) = (self.group(at), self.group(at).entity.parent);
        assert_eq!((queue.queue.nr, queue.children), (0, 0), "{:?} is empty", queue.group);
        let nth = self.fair.group_queues.iter().position(|&(_, queue)| queue == at);
        self.fair.group_queues.remove(nth.expect("a group queue is listed"));
        if let Member::Group(unused) = self.members.remove(at) {
            self.fair.unused.push(unused);
        }
        if let Some(above) = parent {
            self.group_mut(above).children -= 1;
        }
    }

    /// The queue of a group other than the root on this CPU, if there is one.
    pub(crate) fn queue_of(&self, group: GroupId) -> Option<Index> {
        let found = self.fair.group_queues.binary_search_by_key(&group, |&(id, _)| id);
        found.ok().map(|found| self.fair.group_queues[found].1)
    }

    /// The queue of `group` on this CPU, made if need be; `None` is the root's.
    pub(crate) fn group_queue(&mut self, group: GroupId) -> Option<Index> {
        if group == GroupId::ROOT {
            return None;
        }
        if let Some(at) = self.queue_of(group) {
            return Some(at);
        }
        self.reap_one();
        let parent = self.group_queue(self.groups.parent(group));
        let (weight, latency_nice) = (self.groups.weight(group), self.groups.latency_nice(group));
        let mut entity = Entity::new(weight, latency_nice);
        entity.parent = parent;
        let lag = match self.is_eevdf() {
            true => Lag::New { lead: 0 },
            false => {
                entity.vruntime = self.credited(parent, group);
                let (queue, since) = (self.queue_name(parent), self.clock);
                Lag::Asleep { vruntime: entity.vruntime, queue, lead: 0, since }
            }
        };
        self.fair.epochs += 1;
        let queue = FairQueue { epoch: self.fair.epochs, ..FairQueue::default() };
        let budget = self.fresh_budget(group);
        let made = GroupQueue { group, entity, lag, queue, contribution: 0, budget, children: 0 };
        let made = self.fair.boxed(made);
        let at = self.add_member(Member::Group(made));
        if let Some(above) = parent {
            self.group_mut(above).children += 1;
        }
        let place = self.fair.group_queues.partition_point(|&(id, _)| id < group);
        self.fair.group_queues.insert(place, (group, at));
        Some(at)
    }

    /// Sets the weight of a group's entity to the group's share of this CPU (`calc_group_shares`).
    fn update_share(&mut self, at: Index) {
        let GroupQueue { group, contribution, ref queue, .. } = *self.group(at);
        let (load, nr) = (queue.load, queue.nr);
        let total = self.groups.exchange_load(group, contribution, load);
        self.group_mut(at).contribution = load;
        if nr > 0 {
            let most = u64::from(self.groups.weight(group).get());
            let share = (most * load / total.max(load)).clamp(2.min(most), most);
            self.reweight(at, share as u32);
        }
    }
}
