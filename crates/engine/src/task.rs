//! A task: the unit of scheduling. It is an owned box that moves: it is in exactly one run queue,
//! or with its host. No flag records where it is: the owner of the box knows.

use crate::account::{Account, Kept};
use crate::attr::{Attr, Cookie, GroupId, LatencyNice, Policy, RtPrio, Slice};
use crate::class::Class;
use crate::cpu::CpuId;
use crate::fair::averages::TaskAverages;
use crate::fair::entity::{Ask, Lag, Standing};
use crate::store::heap::Index;
use crate::time::{Nanos, Time};
use std::fmt;

/// The unique name of a task; it is not reused within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

impl TaskId {
    /// Returns the index of this task in an array with one element for each task.
    #[inline]
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

/// A place in one run queue. It belongs to a task as long as the task stays in that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueIndex(pub(crate) Index);

impl QueueIndex {
    /// Returns the place as a number, for a host that must keep it in a word.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the place of a number from [`QueueIndex::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u32) -> QueueIndex {
        QueueIndex(bits)
    }
}

/// The unit of scheduling. `P` is the payload that the host needs to run it; it is here except
/// while the task runs.
///
/// A host may have a million tasks, most of them blocked, so no field is wider than necessary.
#[derive(Debug)]
pub struct Task<P> {
    /// Its unique name.
    pub id: TaskId,
    /// The data of the host; absent while the task runs.
    pub payload: Option<P>,
    pub(crate) attr: Attr,
    /// The best real-time priority of the tasks that wait for a resource that this task holds.
    pub(crate) boost: Option<RtPrio>,
    /// The number of the group in which it competes instead of its own, or [`NO_GROUP`]: see
    /// [`Change::inherited_group`].
    inherited_group: u32,
    /// The CPU where it ran or was queued last.
    pub(crate) cpu: CpuId,
    /// Bits: [`MIGRATORY`] and [`PLAIN`]. They follow from its attributes.
    is: u8,
    /// The time until which it ran; [`Time::ZERO`] if it never did: no task can have run by then.
    pub(crate) ran_until: Time,
    /// Its place relative to its fair queue while it is in none.
    pub(crate) standing: Standing,
    /// The used part of its SCHED_RR slice.
    pub(crate) rr_used: Nanos,
    /// CPU time that it was charged in its life.
    pub(crate) runtime: Nanos,
    /// Its other data, for observers and averages.
    pub(crate) kept: Kept,
}

/// See [`Task::is_migratory`].
const MIGRATORY: u8 = 1;
/// See [`Task::is_plain`].
const PLAIN: u8 = 2;

/// The value of [`Task::inherited_group`] for a task that competes in its own group. There are
/// never that many groups.
const NO_GROUP: u32 = u32::MAX;

impl<P> Task<P> {
    /// Returns a task that has not run yet.
    #[must_use]
    pub fn new(id: TaskId, attr: Attr, payload: P) -> Box<Task<P>> {
        Box::new(Task::fresh(id, attr, payload))
    }

    /// Returns a task without a payload, which represents others while a batch of them runs on
    /// `cpu`.
    #[must_use]
    pub fn stand_in(id: TaskId, cpu: CpuId) -> Box<Task<P>> {
        let attr = Attr::normal(std::iter::once(cpu).collect());
        Box::new(Task::without_payload(id, attr))
    }

    /// Like [`Task::new`], in the box of a task that has ended.
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
        let mut task = Task {
            is: 0,
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
        };
        task.note_attr();
        task
    }

    /// Notes what follows from its attributes.
    #[inline]
    pub(crate) fn note_attr(&mut self) {
        let plain =
            self.attr.is_plain() && self.boost.is_none() && self.inherited_group == NO_GROUP;
        let migratory = self.attr.affinity.len() > 1;
        self.is = (u8::from(migratory) * MIGRATORY) | (u8::from(plain) * PLAIN);
    }

    /// Returns its attributes.
    #[must_use]
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Returns its class: that of its policy, or the real-time class by a priority that it inherits,
    /// whichever is more important.
    #[inline]
    #[must_use]
    pub fn class(&self) -> Class {
        self.attr.policy.class().boosted(self.boost)
    }

    /// Returns the group that has the queue where it competes if it is fair.
    #[must_use]
    pub fn queue_group(&self) -> GroupId {
        self.inherited_group().unwrap_or(self.attr.group)
    }

    /// Returns the group in which it competes instead of its own.
    pub(crate) fn inherited_group(&self) -> Option<GroupId> {
        (self.inherited_group != NO_GROUP).then_some(GroupId(self.inherited_group))
    }

    /// Returns the time until which it ran, if it ever did.
    pub(crate) fn ran_until(&self) -> Option<Time> {
        (self.ran_until > Time::ZERO).then_some(self.ran_until)
    }

    /// Returns the CPU on which it ran or was queued last.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns the CPU where it may still have a ghost in its queue, if it sleeps
    /// ([`Tasks::has_ghost_of`](crate::run_queue::Tasks::has_ghost_of)).
    #[inline]
    #[must_use]
    pub fn sleeps_on(&self) -> Option<CpuId> {
        match self.standing.lag {
            Lag::Delayed { queue, .. } => Some(queue.cpu),
            _ => None,
        }
    }

    /// Returns the CPU that has its part in the averages since it fell asleep, if it sleeps and
    /// there are averages ([`Queues::withdraw`](crate::run_queue::Queues::withdraw)).
    #[inline]
    #[must_use]
    pub fn left_on(&self) -> Option<CpuId> {
        self.kept.average()?.left_on()
    }

    /// Returns its averages, if it sleeps, was ever in a fair queue, and there are averages
    /// (`PELT`). For a task that waits or runs, its run queue has them
    /// ([`Queues::task_averages`](crate::run_queue::Queues::task_averages)).
    #[must_use]
    pub fn averages(&self, now: Time) -> Option<TaskAverages> {
        Some(self.kept.average()?.averages(now))
    }

    /// Returns how often it recently woke another task than the time before
    /// ([`FairRules::wake_wide`](crate::rules::FairRules::wake_wide)).
    #[must_use]
    pub fn wakee_flips(&self) -> u32 {
        self.kept.flips()
    }

    /// Sets the CPU that the task comes from, before its first wake-up or for a host that moved it.
    pub fn set_cpu(&mut self, cpu: CpuId) {
        self.cpu = cpu;
    }

    /// Notes, before the first wake-up, that the task existed before the run and slept: it starts as a woken task, not as a
    /// forked one.
    pub fn set_slept(&mut self) {
        self.standing = Standing::slept();
    }

    /// Returns the CPU time that it was charged in its life, including the cost of its switches.
    #[must_use]
    pub fn runtime(&self) -> Nanos {
        self.runtime
    }

    /// Starts its counters, for [`Task::account`]. A host calls this before the first wake-up if
    /// [`Config::accounts`](crate::config::Config::accounts) is set. Allocates, unless the box of
    /// the task has had counters before.
    pub fn keep_account(&mut self) {
        self.kept.begin();
    }

    /// Returns its counters, as of its last charge: only CPU time, unless [counters are
    /// kept](Task::keep_account).
    #[must_use]
    pub fn account(&self) -> Account {
        self.kept.account(self.runtime)
    }

    /// Notes that it waits for a CPU from now on: it was blocked, or is new. The host calls this
    /// once for each wake-up.
    #[inline]
    pub fn wakes(&mut self, now: Time) {
        self.kept.wakes(now);
    }

    /// Returns the time since which it has waited for a CPU: its wake-up, or the last time that it
    /// ran. This is valid only while it is in a run queue and does not run. If a task lost its CPU
    /// in the instant of its arrival, the wait may begin earlier.
    #[must_use]
    pub fn waits_since(&self) -> Time {
        self.ran_until.max(self.kept.since())
    }

    /// Returns its request to the fair class.
    pub(crate) fn ask(&self) -> Ask {
        let Attr { policy, latency_nice, slice, .. } = self.attr;
        let weight = policy.weight().get();
        Ask { weight, latency_nice, slice, idle: policy == Policy::Idle }
    }

    /// Returns whether it could run on another CPU; only then is it ever pushed or pulled.
    #[inline]
    #[must_use]
    pub fn is_migratory(&self) -> bool {
        self.is & MIGRATORY != 0
    }

    /// Returns whether it asks for nothing ([`Attr::is_plain`]), and inherits neither a priority nor a group.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.is & PLAIN != 0
    }

    /// Makes a stand-in ask for the same policy, group and slice as a task of the batch.
    pub(crate) fn asks_as(&mut self, task: &Task<P>) {
        let Attr { policy, group, slice, .. } = task.attr;
        (self.attr.policy, self.attr.group, self.attr.slice) = (policy, group, slice);
        self.note_attr();
    }

    /// Applies a change while the task is with its owner, in no run queue.
    pub fn apply(&mut self, change: Change) {
        if change.policy.is_some() || change.reorders() {
            self.standing = self.standing.without_ghost();
        }
        if let Some(policy) = change.policy {
            self.attr.policy = policy;
            self.rr_used = Nanos::ZERO;
        }
        if let Some(affinity) = change.affinity {
            self.attr.affinity = affinity;
        }
        let before = self.queue_group();
        self.attr.group = change.group.unwrap_or(self.attr.group);
        let inherited = change.inherited_group.applied_to(self.inherited_group());
        self.inherited_group = inherited.map_or(NO_GROUP, |group| group.0);
        if self.queue_group() != before {
            self.standing = self.standing.in_another_queue();
        }
        self.attr.latency_nice = change.latency_nice.unwrap_or(self.attr.latency_nice);
        self.attr.slice = change.slice.applied_to(self.attr.slice);
        self.attr.cookie = change.cookie.applied_to(self.attr.cookie);
        self.boost = change.boost.applied_to(self.boost);
        self.note_attr();
    }
}

/// A request to change a task, wherever it is; absent parts stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The new policy.
    pub policy: Option<crate::attr::Policy>,
    /// The new CPUs. Never empty.
    pub affinity: Option<crate::cpu::CpuSet>,
    /// The new task group.
    pub group: Option<crate::attr::GroupId>,
    /// The new latency nice value.
    pub latency_nice: Option<LatencyNice>,
    /// The new slice; without one, its latency nice determines the slice.
    pub slice: Update<Slice>,
    /// The new cookie of its own, or none.
    pub cookie: Update<Cookie>,
    /// The best real-time priority of the tasks that wait for this task; none if no task does.
    pub boost: Update<RtPrio>,
    /// The lowest group that contains both the task and a task that waits for a resource that it
    /// holds. It competes there, and no limit of a group below stops it, though those groups pay
    /// for its CPU time. Without such a group it competes in its own.
    pub inherited_group: Update<GroupId>,
}

/// The change of a value that a task may have or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update<T> {
    /// The value stays unchanged.
    #[default]
    Keep,
    /// The task has no value from then on.
    Clear,
    /// The task has this value from then on.
    Set(T),
}

impl<T> Update<T> {
    /// Returns whether a change is requested.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !matches!(self, Update::Keep)
    }

    /// Returns the value after the change, if it was `old` before.
    #[must_use]
    pub fn applied_to(self, old: Option<T>) -> Option<T> {
        match self {
            Update::Keep => old,
            Update::Clear => None,
            Update::Set(new) => Some(new),
        }
    }

    /// Combines two requests; the later one wins.
    fn then(self, later: Update<T>) -> Update<T> {
        if later.is_asked() { later } else { self }
    }
}

/// Requests exactly this state.
impl<T> From<Option<T>> for Update<T> {
    fn from(wanted: Option<T>) -> Update<T> {
        wanted.map_or(Update::Clear, Update::Set)
    }
}

impl Change {
    /// Returns whether the change may move a task to another queue, or change its weight.
    pub(crate) fn moves_in_queue(&self) -> bool {
        self.policy.is_some()
            || self.group.is_some()
            || self.boost.is_asked()
            || self.inherited_group.is_asked()
    }

    /// Returns whether the change may move a fair task within its queue.
    pub(crate) fn reorders(&self) -> bool {
        self.latency_nice.is_some() || self.slice.is_asked()
    }

    /// Adds a later request; its parts win.
    pub fn merge(&mut self, later: Change) {
        self.policy = later.policy.or(self.policy);
        self.affinity = later.affinity.or(self.affinity.take());
        self.group = later.group.or(self.group);
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

    /// A host keeps one value for each living task.
    #[test]
    fn a_task_is_small() {
        let payload = size_of::<Option<[Box<()>; 3]>>();
        assert_eq!(payload, 24, "with a payload as large as the runtime's");
        assert_eq!(size_of::<Task<[Box<()>; 3]>>(), 152);
    }
}
