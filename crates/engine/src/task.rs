//! A task: what is scheduled. An owned box that moves: it is in exactly one run queue, or with its
//! host. No flag says where it is; who has the box knows.

use crate::account::{Account, Kept};
use crate::attr::{Attr, Cookie, GroupId, LatencyNice, Policy, RtPrio, Slice};
use crate::cpu::CpuId;
use crate::fair::averages::TaskAverages;
use crate::fair::entity::{Ask, Lag, Standing};
use crate::store::heap::Index;
use crate::time::{Nanos, Time};
use std::fmt;

/// A task for ever; never used again within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

impl TaskId {
    /// The place of this task in an array with one element for each task.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A place in one run queue. It stays a task's as long as the task stays in that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueIndex(pub(crate) Index);

impl QueueIndex {
    /// The place as a number, for a host that must keep it in a word.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The place that [`QueueIndex::to_bits`] gave.
    #[must_use]
    pub fn from_bits(bits: u32) -> QueueIndex {
        QueueIndex(bits)
    }
}

/// What is scheduled. `P` is what the host needs to run it; it is here except while the task runs.
///
/// A host may have a million of them, most of them blocked, so none of the fields is wider than it must be.
#[derive(Debug)]
pub struct Task<P> {
    /// Its name for ever.
    pub id: TaskId,
    /// The host's part; absent while the task runs.
    pub payload: Option<P>,
    pub(crate) attr: Attr,
    /// The best real-time priority among those who wait for what this task holds.
    pub(crate) boost: Option<RtPrio>,
    /// The number of the group in which it competes instead of in its own, or [`NO_GROUP`]: see
    /// [`Change::inherited_group`].
    inherited_group: u32,
    /// Where it ran or was queued last.
    pub(crate) cpu: CpuId,
    /// See [`Task::is_migratory`].
    migratory: bool,
    /// Until when it ran. [`Time::ZERO`] if it never did: nobody has had CPU time by then.
    pub(crate) ran_until: Time,
    /// Where it stands against the others of its fair queue while it is in none.
    pub(crate) standing: Standing,
    /// How much of its SCHED_RR slice is used.
    pub(crate) rr_used: Nanos,
    /// CPU time that it was charged in its life.
    pub(crate) runtime: Nanos,
    /// What else it did, for who watches.
    pub(crate) kept: Kept,
}

/// In [`Task::inherited_group`]: it competes in its own group. There are never that many.
const NO_GROUP: u32 = u32::MAX;

impl<P> Task<P> {
    /// A task that has not run yet.
    #[must_use]
    pub fn new(id: TaskId, attr: Attr, payload: P) -> Box<Task<P>> {
        Box::new(Task::fresh(id, attr, payload))
    }

    /// A task without a payload, that takes the place of others while a batch of them runs on `cpu`.
    #[must_use]
    pub fn stand_in(id: TaskId, cpu: CpuId) -> Box<Task<P>> {
        let attr = Attr::normal(std::iter::once(cpu).collect());
        Box::new(Task::without_payload(id, attr))
    }

    /// As [`Task::new`], in the box of a task that is over.
    #[must_use]
    #[inline]
    pub fn renewed(mut self: Box<Self>, id: TaskId, attr: Attr, payload: P) -> Box<Task<P>> {
        let kept = self.kept.renewed();
        *self = Task { kept, ..Task::fresh(id, attr, payload) };
        self
    }

    #[inline]
    fn fresh(id: TaskId, attr: Attr, payload: P) -> Task<P> {
        Task { payload: Some(payload), ..Task::without_payload(id, attr) }
    }

    #[inline]
    fn without_payload(id: TaskId, attr: Attr) -> Task<P> {
        Task {
            migratory: attr.affinity.len() > 1,
            id,
            payload: None,
            attr,
            boost: None,
            inherited_group: NO_GROUP,
            cpu: CpuId::default(),
            ran_until: Time::ZERO,
            standing: Standing::new(0),
            rr_used: Nanos::ZERO,
            runtime: Nanos::ZERO,
            kept: Kept::default(),
        }
    }

    /// What its user asks for it.
    #[must_use]
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Its real-time priority, its own or inherited, whichever is better; `None` if it is fair.
    #[must_use]
    pub fn rt_prio(&self) -> Option<RtPrio> {
        self.attr.policy.rt_prio().max(self.boost)
    }

    /// The group in whose queue it competes if it is fair.
    #[must_use]
    pub fn queue_group(&self) -> GroupId {
        self.inherited_group().unwrap_or(self.attr.group)
    }

    /// The group in which it competes instead of in its own.
    pub(crate) fn inherited_group(&self) -> Option<GroupId> {
        (self.inherited_group != NO_GROUP).then_some(GroupId(self.inherited_group))
    }

    /// Until when it ran, if it ever did.
    pub(crate) fn ran_until(&self) -> Option<Time> {
        (self.ran_until > Time::ZERO).then_some(self.ran_until)
    }

    /// The CPU on which it ran or was queued last.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// The CPU on which it left something in its queue that may still be there, if it sleeps
    /// ([`RunQueue::has_ghost_of`](crate::run_queue::RunQueue::has_ghost_of)).
    #[inline]
    #[must_use]
    pub fn sleeps_on(&self) -> Option<CpuId> {
        match self.standing.lag {
            Lag::Delayed { queue, .. } => Some(queue.cpu),
            _ => None,
        }
    }

    /// The CPU in whose averages it left its part when it fell asleep, if it sleeps and there are averages
    /// ([`RunQueue::withdraw`](crate::run_queue::RunQueue::withdraw)).
    #[inline]
    #[must_use]
    pub fn left_on(&self) -> Option<CpuId> {
        self.kept.average()?.left_on()
    }

    /// Its averages, if it sleeps, was ever in a fair queue, and there are averages (`PELT`). One that waits or runs is
    /// to be asked for where it is ([`RunQueue::task_averages`](crate::run_queue::RunQueue::task_averages)).
    #[must_use]
    pub fn averages(&self, now: Time) -> Option<TaskAverages> {
        Some(self.kept.average()?.averages(now))
    }

    /// How often it woke another task than the time before, of late
    /// ([`FairRules::wake_wide`](crate::rules::FairRules::wake_wide)).
    #[must_use]
    pub fn wakee_flips(&self) -> u32 {
        self.kept.flips()
    }

    /// Says where the task comes from, before its first wake-up or for a host that moved it.
    pub fn set_cpu(&mut self, cpu: CpuId) {
        self.cpu = cpu;
    }

    /// CPU time that it was charged in its life, the cost of its switches included.
    #[must_use]
    pub fn runtime(&self) -> Nanos {
        self.runtime
    }

    /// Has what it does counted from now on, for [`Task::account`]. A host calls this before the first wake-up where
    /// [`Config::accounts`](crate::config::Config::accounts) asks for that. Allocates, unless the box of the task
    /// has been counted with before.
    pub fn keep_account(&mut self) {
        self.kept.begin();
    }

    /// What it did in its life, as of its last charge. CPU time alone if nothing else [is kept](Task::keep_account).
    #[must_use]
    pub fn account(&self) -> Account {
        self.kept.account(self.runtime)
    }

    /// It waits for a CPU from now on: it was blocked, or is new. To be said once for each wake-up.
    #[inline]
    pub fn wakes(&mut self, now: Time) {
        self.kept.wakes(now);
    }

    /// Since when it waits for a CPU: for its wake-up, or since it ran. Only while it is in a run queue and does not
    /// run that is so. One that lost its CPU in the instant in which it came may wait since before that.
    #[must_use]
    pub fn waits_since(&self) -> Time {
        self.ran_until.max(self.kept.since())
    }

    /// What it asks of the fair class.
    pub(crate) fn ask(&self) -> Ask {
        let Attr { policy, latency_nice, slice, .. } = self.attr;
        let weight = policy.weight().get();
        Ask { weight, latency_nice, slice, idle: policy == Policy::Idle }
    }

    /// Whether it could run anywhere else than where it is; only then is it ever pushed or pulled.
    #[inline]
    #[must_use]
    pub fn is_migratory(&self) -> bool {
        self.migratory
    }

    /// Takes over what was asked while the task is with its owner, in no run queue.
    pub fn apply(&mut self, change: Change) {
        if change.policy.is_some() || change.reorders() {
            self.standing = self.standing.without_ghost();
        }
        if let Some(policy) = change.policy {
            self.attr.policy = policy;
            self.rr_used = Nanos::ZERO;
        }
        if let Some(affinity) = change.affinity {
            self.migratory = affinity.len() > 1;
            self.attr.affinity = affinity;
        }
        let before = self.queue_group();
        self.attr.group = change.group.unwrap_or(self.attr.group);
        let inherited = change.inherited_group.applied_to(self.inherited_group());
        self.inherited_group = inherited.map_or(NO_GROUP, |group| group.0);
        if self.queue_group() != before {
            self.standing = self.standing.in_another_queue();
        }
        self.attr.slack = change.slack.unwrap_or(self.attr.slack);
        self.attr.latency_nice = change.latency_nice.unwrap_or(self.attr.latency_nice);
        self.attr.slice = change.slice.applied_to(self.attr.slice);
        self.attr.cookie = change.cookie.applied_to(self.attr.cookie);
        self.boost = change.boost.applied_to(self.boost);
    }
}

/// What is asked for a task, wherever it is; absent parts stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Another policy.
    pub policy: Option<crate::attr::Policy>,
    /// Other CPUs. Never empty.
    pub affinity: Option<crate::cpu::CpuSet>,
    /// Another task group.
    pub group: Option<crate::attr::GroupId>,
    /// Another timer slack.
    pub slack: Option<Nanos>,
    /// Another latency nice value.
    pub latency_nice: Option<LatencyNice>,
    /// Another slice; without one it has what its latency nice makes of it.
    pub slice: Update<Slice>,
    /// Another cookie of its own, or none.
    pub cookie: Update<Cookie>,
    /// The best real-time priority among those who wait for the task; none if nobody does.
    pub boost: Update<RtPrio>,
    /// The lowest group in which both the task is and somebody who waits for what it holds:
    /// it competes there, and no limit of a group below holds it back, though it pays for what it
    /// uses. Without one it competes in its own.
    pub inherited_group: Update<GroupId>,
}

/// What is asked of something that a task may have or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update<T> {
    /// Nothing: it stays as it is.
    #[default]
    Keep,
    /// The task has none from then on.
    Clear,
    /// The task has this one from then on.
    Set(T),
}

impl<T> Update<T> {
    /// Whether anything is asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !matches!(self, Update::Keep)
    }

    /// What the task has afterwards, if it had `old`.
    #[must_use]
    pub fn applied_to(self, old: Option<T>) -> Option<T> {
        match self {
            Update::Keep => old,
            Update::Clear => None,
            Update::Set(new) => Some(new),
        }
    }

    /// Both requests, of which the later wins.
    fn then(self, later: Update<T>) -> Update<T> {
        if later.is_asked() { later } else { self }
    }
}

/// To have exactly that.
impl<T> From<Option<T>> for Update<T> {
    fn from(wanted: Option<T>) -> Update<T> {
        wanted.map_or(Update::Clear, Update::Set)
    }
}

impl Change {
    /// Whether a task may belong to another queue with it, or weigh as much as another.
    pub(crate) fn moves_in_queue(&self) -> bool {
        self.policy.is_some()
            || self.group.is_some()
            || self.boost.is_asked()
            || self.inherited_group.is_asked()
    }

    /// Whether a fair task may have another place in the queue where it is with it.
    pub(crate) fn reorders(&self) -> bool {
        self.latency_nice.is_some() || self.slice.is_asked()
    }

    /// Adds a later request; its parts win.
    pub fn merge(&mut self, later: Change) {
        self.policy = later.policy.or(self.policy);
        self.affinity = later.affinity.or(self.affinity.take());
        self.group = later.group.or(self.group);
        self.slack = later.slack.or(self.slack);
        self.latency_nice = later.latency_nice.or(self.latency_nice);
        self.slice = self.slice.then(later.slice);
        self.cookie = self.cookie.then(later.cookie);
        self.boost = self.boost.then(later.boost);
        self.inherited_group = self.inherited_group.then(later.inherited_group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host keeps one for each task that lives.
    #[test]
    fn a_task_is_small() {
        let payload = size_of::<Option<[Box<()>; 3]>>();
        assert_eq!(payload, 24, "with a payload as large as the runtime's");
        assert_eq!(size_of::<Task<[Box<()>; 3]>>(), 160);
    }
}
