//! The fair class: task groups as a tree of queues, whatever their order.
//!
//! Each queue has a virtual clock. A member's vruntime is the CPU time it got divided by its
//! weight. A member is an *entity*: a task, or the queue of a group on this CPU, which stands in its
//! parent's queue with the group's share as its weight. The running task and the groups above it are
//! each `curr` of their queue, outside its heaps.
//!
//! Who of a queue is next, who preempts whom, and where a newcomer starts is for one of two orders:
//! that of Linux 6.1 with latency nice (`cfs.rs`), and under `EEVDF` that of 6.12 (`eevdf.rs`). Both
//! have two heaps to keep it with, [`FairQueue::waiting`] and [`FairQueue::urgent`].
//!
//! Off a queue, a vruntime means nothing by itself: what is kept is the [`Lag`].
//!
//! A group's queue is made when its first member comes to this CPU and stays after the last left
//! until its entity would be placed the same if it were made anew ([`RunQueue::reap_one`]).
//!
//! Left out: next, last and skip buddies but for `yield` (they serve cache affinity), PELT (a group's
//! share follows the instantaneous load of its queues instead of their average).
//!
//! Invariants ([`RunQueue::check`]): counts, loads and heaps equal those counted afresh; a group's
//! entity is queued exactly while its queue has members.

use crate::attr::{GroupId, LatencyNice, Policy};
use crate::cpu::CpuId;
use crate::features::Feature;
use crate::group::Groups;
use crate::heap::{Forest, Heap, Index};
use crate::list::List;
use crate::run_queue::{Member, RunQueue};
use crate::task::Change;
use crate::throttle::Budget;
use crate::time::{Nanos, Time, VTime};

/// The weight at which virtual time runs as fast as time.
const UNIT: u64 = 1024;

/// What competes in a fair queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entity {
    pub(crate) vruntime: VTime,
    pub(crate) weight: u32,
    pub(crate) latency_nice: LatencyNice,
    /// When, in virtual time, it shall have had what it asked for (EEVDF).
    pub(crate) deadline: VTime,
    /// Until when, in virtual time, it keeps the CPU against its equals (EEVDF).
    pub(crate) turn_ends: VTime,
    /// CPU time charged so far, and what it was when the entity was last picked.
    runtime: u64,
    runtime_at_pick: u64,
    /// The group queue in whose heap it is; `None` for the root's. Kept while queued.
    pub(crate) parent: Option<Index>,
}

impl Entity {
    pub(crate) fn new(weight: crate::attr::Weight, latency_nice: LatencyNice) -> Entity {
        Entity {
            vruntime: VTime(0),
            weight: weight.get(),
            latency_nice,
            deadline: VTime(0),
            turn_ends: VTime(0),
            runtime: 0,
            runtime_at_pick: 0,
            parent: None,
        }
    }

    pub(crate) fn virtual_span(&self, span: u64) -> u64 {
        if u64::from(self.weight) == UNIT {
            span
        } else {
            span.saturating_mul(UNIT) / u64::from(self.weight)
        }
    }

    pub(crate) fn ran_since_pick(&self) -> u64 {
        self.runtime - self.runtime_at_pick
    }
}

/// Where an entity stands while it is in no queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lag {
    /// It never ran. Who forked it was ahead of the clock by as much CPU time.
    New { lead: u64 },
    /// It left to sleep. The lead is that of [`Lag::Moving`].
    Asleep { vruntime: VTime, queue: QueueName, lead: i64, since: Time },
    /// It is on its way to another queue, so far ahead of the clock of the one it left: in CFS in
    /// virtual time, in EEVDF in CPU time that it owes, whatever its weight will be.
    Moving { lead: i64 },
}

impl Lag {
    /// The same for a task that is sent to a queue of another group meanwhile.
    pub(crate) fn in_another_queue(self) -> Lag {
        match self {
            Lag::Asleep { lead, .. } => Lag::Moving { lead: lead.max(0) },
            Lag::New { .. } => Lag::New { lead: 0 },
            lag @ Lag::Moving { .. } => lag,
        }
    }
}

/// One queue of one CPU, for ever: a queue that is made again gets another epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueName {
    cpu: CpuId,
    epoch: u32,
}

/// The key of a heap, a virtual time; who came first is first of equals.
pub(crate) type Key = (VTime, u64);

/// The queue of the root or of a group on one CPU.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// Who waits, by vruntime; in EEVDF those who are not eligible, as far as is known.
    pub(crate) waiting: Heap,
    /// Who waits and may go before the first of those: in CFS the latency-sensitive ones, who are
    /// among the others as well, by vruntime and offset; in EEVDF, by deadline, those who were
    /// eligible when that was looked at.
    pub(crate) urgent: Heap,
    pub(crate) curr: Option<Index>,
    /// Who was `curr` and goes on with its turn at the next pick (EEVDF).
    pub(crate) resumes: Option<Index>,
    /// Since when sensitive ones go before the first of those who wait; and who got its turn since that
    /// had been so for too long (CFS).
    pub(crate) passed_over: Option<Time>,
    pub(crate) owed: Option<Index>,
    /// The virtual clock: in CFS that of the member that had least, never running back
    /// (`min_vruntime`); in EEVDF the average as of the last look.
    pub(crate) clock: VTime,
    /// The sum of how far members are ahead of the clock, by weight (EEVDF).
    pub(crate) ahead: i128,
    /// The longest slice of any member since the queue was empty (EEVDF).
    pub(crate) longest_slice: u64,
    /// The sum of the members' weights.
    pub(crate) load: u64,
    /// Members, `curr` included.
    pub(crate) nr: u32,
    /// Tasks in the queue and in all queues below it.
    pub(crate) nr_tasks: u32,
    /// Those of them that are SCHED_IDLE, or in a queue below it whose group counts as that
    /// ([`Groups::counts_as_idle`]): what the queue's own group is says nothing here
    /// (`idle_h_nr_running`).
    pub(crate) nr_idle_tasks: u32,
    pub(crate) epoch: u32,
}

/// A group on this CPU.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct GroupQueue {
    /// First, as in a task: see [`RunQueue::entity`].
    pub(crate) entity: Entity,
    pub(crate) group: GroupId,
    pub(crate) lag: Lag,
    pub(crate) queue: FairQueue,
    /// What this CPU adds to the group's load.
    pub(crate) contribution: u64,
    /// What it has of its limit, if it has one.
    pub(crate) budget: Option<Budget>,
    /// Group queues of this CPU whose parent this is, empty ones included.
    pub(crate) children: u32,
}

/// The fair part of a run queue.
#[derive(Debug)]
pub(crate) struct Fair {
    pub(crate) root: FairQueue,
    /// The nodes of the heaps [`FairQueue::waiting`], and of [`FairQueue::urgent`].
    pub(crate) forest: Forest<Key>,
    pub(crate) urgent_forest: Forest<Key>,
    /// Queued and running fair tasks; whom balance looked at last, and who came last, is last.
    pub(crate) tasks: List,
    /// Those below throttled groups, which are not among the others.
    pub(crate) aside: List,
    /// What those entities of the root's queue weigh that have SCHED_IDLE tasks only.
    pub(crate) idle_load: u64,
    /// The group queues that exist, in order of group.
    pub(crate) group_queues: Vec<(GroupId, Index)>,
    /// Boxes for those to come, so that making one does not allocate.
    #[expect(clippy::vec_box, reason = "boxes go in and out of the members")]
    pub(crate) unused: Vec<Box<GroupQueue>>,
    /// Orders equal vruntimes by arrival.
    pub(crate) arrivals: u64,
    pub(crate) epochs: u32,
    pub(crate) reap_cursor: usize,
}

impl Fair {
    pub(crate) fn new() -> Fair {
        Fair {
            root: FairQueue::default(),
            forest: Forest::new(),
            urgent_forest: Forest::new(),
            tasks: List::default(),
            aside: List::default(),
            idle_load: 0,
            group_queues: Vec::new(),
            unused: Vec::new(),
            arrivals: 0,
            epochs: 0,
            reap_cursor: 0,
        }
    }

    /// Makes room for `len` group queues in all.
    pub(crate) fn reserve_groups(&mut self, len: usize) {
        let more = len.saturating_sub(self.group_queues.len());
        self.group_queues.reserve(more);
        self.unused.reserve(len.saturating_sub(self.unused.len()));
        let made = (self.unused.len()..more).map(|_| Box::new(GroupQueue::unused()));
        self.unused.extend(made);
    }

    pub(crate) fn boxed(&mut self, made: GroupQueue) -> Box<GroupQueue> {
        let mut place = self.unused.pop().unwrap_or_else(|| Box::new(GroupQueue::unused()));
        *place = made;
        place
    }
}

impl GroupQueue {
    fn unused() -> GroupQueue {
        GroupQueue {
            group: GroupId::ROOT,
            entity: Entity::new(crate::attr::Weight::NICE_0, LatencyNice::ZERO),
            lag: Lag::New { lead: 0 },
            queue: FairQueue::default(),
            contribution: 0,
            budget: None,
            children: 0,
        }
    }
}

impl<P, G: Groups> RunQueue<P, G> {
    /// Charges the running fair task and the groups above it.
    pub(crate) fn charge_fair(&mut self, curr: Index, span: Nanos) {
        let mut at = curr;
        loop {
            let entity = self.entity_mut(at);
            let virtual_span = entity.virtual_span(span.0);
            entity.vruntime = entity.vruntime.after(virtual_span);
            entity.runtime += span.0;
            let level = entity.parent;
            if self.is_eevdf() {
                self.charge_eevdf(level, at, virtual_span);
            } else {
                self.advance_clock(level);
            }
            let Some(above) = level else { break };
            at = above;
        }
    }

    /// The running task goes back among those who wait, and so do the groups above it.
    pub(crate) fn put_prev_fair(&mut self, curr: Index) {
        let mut next = Some(curr);
        while let Some(at) = next {
            let level = self.entity(at).parent;
            debug_assert_eq!(self.queue(level).curr, Some(at), "who is put back was running");
            self.put_back(level, at);
            next = level;
        }
    }

    /// The opposite of [`RunQueue::put_prev_fair`], for a running task that became fair.
    pub(crate) fn set_curr_fair(&mut self, curr: Index) {
        let mut next = Some(curr);
        while let Some(at) = next {
            let level = self.entity(at).parent;
            self.remove(level, at);
            self.set_curr(level, at);
            next = level;
        }
    }

    /// Changes what a fair task asks for where it is: its vruntime and its turn stay.
    pub(crate) fn reorder_fair(&mut self, at: Index, change: Change) {
        let level = self.entity(at).parent;
        let waits = self.waits(at);
        let was_urgent = waits && self.fair.urgent_forest.contains(at);
        if waits {
            self.remove(level, at);
        }
        self.task_mut(at).apply(change);
        self.heed_slice(level, at);
        if waits {
            self.insert(level, at, was_urgent);
        }
    }

    /// Picks the next fair task and makes it and the groups above it `curr` of their queues.
    /// A task that yielded is passed over if that is not unfair to it.
    pub(crate) fn pick_fair(&mut self, yielded: Option<Index>) -> Option<Index> {
        if self.is_eevdf() {
            yielded.into_iter().for_each(|at| self.postpone(at));
        }
        let mut level = None;
        while self.queue(level).nr > 0 {
            let at = match self.is_eevdf() {
                true => self.choose_eevdf(level),
                false => self.choose_cfs(level, yielded),
            };
            self.remove(level, at);
            self.set_curr(level, at);
            match self.member(at) {
                Member::Task(_) => return Some(at),
                Member::Group(_) => level = Some(at),
            }
        }
        assert_eq!(level, None, "a queued group has members");
        None
    }

    /// Whether the tick should end the turn of the running fair task.
    pub(crate) fn fair_turn_is_over(&mut self, curr: Index) -> bool {
        let mut next = Some(curr);
        while let Some(at) = next {
            self.note_turn(at);
            let entity = self.entity(at);
            let over = || match self.is_eevdf() {
                true => !entity.is_in_turn(),
                false => self.turn_is_over(at),
            };
            if self.queue(entity.parent).nr > 1 && over() {
                return true;
            }
            next = entity.parent;
        }
        false
    }

    /// Whether a woken fair task preempts the running fair one (`check_preempt_wakeup`), whose turn
    /// is over then.
    ///
    /// What is idle is preempted by what is not, and never the other way round. As in 6.1 that is
    /// asked twice: of the tasks, whatever their groups and the features; then, for a SCHED_OTHER
    /// task and under `WAKEUP_PREEMPTION`, of the entities that compete in one queue.
    pub(crate) fn preempts_on_wakeup(&mut self, curr: Index, woken: Index) -> bool {
        let [running, arrival] = [curr, woken].map(|at| self.task(at).attr.policy);
        if running == Policy::Idle && arrival != Policy::Idle {
            self.end_turns(curr);
            return true;
        }
        if !self.has(Feature::WakeupPreemption)
            || matches!(arrival, Policy::Batch(_) | Policy::Idle)
        {
            return false;
        }
        let (curr, woken) = self.matching_siblings(curr, woken);
        let (curr_is_idle, woken_is_idle) = (self.is_idle_entity(curr), self.is_idle_entity(woken));
        if curr_is_idle != woken_is_idle {
            if curr_is_idle {
                self.end_turns(curr);
            }
            return curr_is_idle;
        }
        match self.is_eevdf() {
            true => self.preempts_eevdf(curr, woken),
            false => self.preempts_cfs(curr, woken),
        }
    }

    /// What a task adds to the load of the CPU: its weight, scaled by the shares above it.
    pub(crate) fn task_load(&self, at: Index) -> u64 {
        let mut entity = self.entity(at);
        let mut load = u64::from(entity.weight);
        while let Some(above) = entity.parent {
            let queue_load = self.queue(Some(above)).load;
            entity = self.entity(above);
            load = load * u64::from(entity.weight) / queue_load.max(1);
        }
        load
    }

    /// Whether a fair task counts as SCHED_IDLE on this CPU, by its policy or by a group that it is
    /// below ([`Groups::counts_as_idle`]).
    pub(crate) fn is_idle_class(&self, at: Index) -> bool {
        let task = self.task(at);
        task.attr.policy == Policy::Idle || self.groups.is_below_idle(task.queue_group())
    }

    /// Whether an entity makes way for every other (`se_is_idle`): a SCHED_IDLE task or an idle
    /// group.
    pub(crate) fn is_idle_entity(&self, at: Index) -> bool {
        match self.member(at) {
            Member::Task(task) => task.attr.policy == Policy::Idle,
            Member::Group(group) => self.groups.is_idle(group.group),
        }
    }

    pub(crate) fn attach(&mut self, level: Option<Index>, at: Index) {
        let lag = self.lag(at);
        let (vruntime, deadline) = match self.is_eevdf() {
            true => self.place_eevdf(level, at, lag),
            false => (self.place(level, at, lag), VTime(0)),
        };
        let entity = self.entity_mut(at);
        (entity.vruntime, entity.deadline, entity.parent) = (vruntime, deadline, level);
        let weight = entity.weight;
        let queue = self.queue_mut(level);
        queue.nr += 1;
        queue.load += u64::from(weight);
        if self.is_eevdf() {
            self.join(level, at);
        }
        self.insert(level, at, matches!(lag, Lag::Asleep { .. }));
    }

    fn lag(&self, at: Index) -> Lag {
        match self.member(at) {
            Member::Task(task) => task.lag,
            Member::Group(group) => group.lag,
        }
    }

    pub(crate) fn detach_entity(&mut self, level: Option<Index>, at: Index, asleep: bool) {
        let Entity { weight, vruntime, latency_nice, .. } = *self.entity(at);
        let lead = match self.is_eevdf() {
            true => self.lead(level, at),
            false => vruntime.diff(self.queue(level).clock),
        };
        let queue = self.queue_mut(level);
        queue.nr -= 1;
        queue.load -= u64::from(weight);
        if queue.nr == 0 {
            (queue.passed_over, queue.owed) = (None, None);
        }
        if queue.curr == Some(at) {
            queue.curr = None;
            if latency_nice >= LatencyNice::ZERO {
                // It had the CPU for as long as it wanted it.
                queue.passed_over = None;
            }
        } else {
            self.remove(level, at);
        }
        let lag = if asleep {
            Lag::Asleep { vruntime, queue: self.queue_name(level), lead, since: self.clock }
        } else {
            Lag::Moving { lead }
        };
        match self.member_mut(at) {
            Member::Task(task) => task.lag = lag,
            Member::Group(group) => group.lag = lag,
        }
        if self.is_eevdf() {
            self.part(level, at);
        } else {
            self.advance_clock(level);
        }
    }

    pub(crate) fn reweight(&mut self, at: Index, weight: u32) {
        let Entity { weight: old, parent: level, .. } = *self.entity(at);
        if old == weight {
            return;
        }
        let attached = self.is_attached(at);
        if attached && self.is_eevdf() {
            self.reweight_eevdf(level, at, weight);
            return;
        }
        self.entity_mut(at).weight = weight;
        if attached {
            let queue = self.queue_mut(level);
            queue.load = queue.load - u64::from(old) + u64::from(weight);
        }
    }

    pub(crate) fn is_attached(&self, at: Index) -> bool {
        self.waits(at) || self.queue(self.entity(at).parent).curr == Some(at)
    }

    /// Whether `at` is `task` or a group above it.
    pub(crate) fn is_above(&self, at: Index, task: Option<Index>) -> bool {
        std::iter::successors(task, |&below| self.entity(below).parent).any(|below| below == at)
    }

    /// The two entities above (or at) the tasks that compete in the same queue.
    fn matching_siblings(&self, mut a: Index, mut b: Index) -> (Index, Index) {
        let (mut deep_a, mut deep_b) = (self.depth(a), self.depth(b));
        let up = |at: Index| self.entity(at).parent.expect("the roots of two tasks are one");
        while self.entity(a).parent != self.entity(b).parent {
            let (from_a, from_b) = (deep_a >= deep_b, deep_b >= deep_a);
            if from_a {
                (a, deep_a) = (up(a), deep_a - 1);
            }
            if from_b {
                (b, deep_b) = (up(b), deep_b - 1);
            }
        }
        (a, b)
    }

    fn depth(&self, at: Index) -> usize {
        std::iter::successors(self.entity(at).parent, |&above| self.entity(above).parent).count()
    }

    pub(crate) fn queue_name(&self, level: Option<Index>) -> QueueName {
        QueueName { cpu: self.cpu, epoch: self.queue(level).epoch }
    }

    pub(crate) fn put_back(&mut self, level: Option<Index>, at: Index) {
        self.queue_mut(level).curr = None;
        if self.is_eevdf() && self.entity(at).is_in_turn() {
            self.queue_mut(level).resumes = Some(at);
        }
        self.insert(level, at, false);
    }

    fn set_curr(&mut self, level: Option<Index>, at: Index) {
        let queue = self.queue_mut(level);
        (queue.curr, queue.resumes) = (Some(at), None);
        let entity = self.entity_mut(at);
        entity.runtime_at_pick = entity.runtime;
        if self.is_eevdf() {
            self.begin_turn(at);
        }
    }

    /// Puts an entity among those who wait, where its order has it.
    fn insert(&mut self, level: Option<Index>, at: Index, woken: bool) {
        if self.is_eevdf() {
            return self.insert_eevdf(level, at);
        }
        let Entity { vruntime, latency_nice, .. } = *self.entity(at);
        self.insert_waiting(level, at, vruntime);
        if latency_nice < LatencyNice::ZERO {
            self.insert_sensitive(level, at, woken);
        }
    }

    pub(crate) fn is_eevdf(&self) -> bool {
        self.has(Feature::Eevdf)
    }

    pub(crate) fn queue(&self, level: Option<Index>) -> &FairQueue {
        match level {
            None => &self.fair.root,
            Some(group) => &self.group(group).queue,
        }
    }

    pub(crate) fn queue_mut(&mut self, level: Option<Index>) -> &mut FairQueue {
        match level {
            None => &mut self.fair.root,
            Some(group) => &mut self.group_mut(group).queue,
        }
    }
}
