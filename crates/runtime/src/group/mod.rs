//! Task groups: sets of tasks that compete as one, and that share a limit of CPU time.
//!
//! A group exists as long as a handle names it, a task is in it, or a group lies below it. The last of these removes it
//! when it is dropped. Rejected: a call that removes a group and is refused while tasks are in it. To remove a tenant,
//! the caller would have to find its tasks, end them, and try again. A forgotten handle would keep the place for ever.
//!
//! A task holds the group that it is in. It also holds a group that it leaves, until the engine has applied the change,
//! so that the group's number is not reused before.

pub(crate) mod latency_nice;
pub(crate) mod limit;
pub(crate) mod quota;

use crate::crew::kick::KickNow;
use crate::current::section::blocking;
use crate::deferred::rubbish::{Discarded, Rubbish, discard};
use crate::group::latency_nice::{LatencyNiceError, allowed};
use crate::group::limit::Limit;
use crate::mutex::lending;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicU32, Mutex, Ordering, Weak, lock};
use crate::shared::Shared;
use crate::task::Cell;
use runyard_engine::account::Account;
use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Weight};
use runyard_engine::limits::BadLimit;
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::Change;
use runyard_engine::time::Nanos;
use runyard_smp::groups::TooManyGroups;
use std::fmt;
use std::iter::successors;
use std::thread;
use std::time::Duration;

/// Milliseconds for which a new group waits for the place of a group that is about to be removed.
const PATIENCE: u32 = 1_000;

/// The panic message if a task is to be in a group of another runtime.
pub(crate) const ONE_RUNTIME: &str = "a task and its group belong to the same runtime";

/// A handle of a task group. It is cheap to clone. The group is removed with the last of its handles, its tasks, and
/// the groups below it.
///
/// The group competes with its siblings by its weight, and its tasks share the CPU time that it gets. Its limit holds
/// for all of them together, wherever they run. A task that is spawned by a task of the group is in that group too,
/// unless it asks for another.
///
/// ```
/// use runyard::{Limit, Runtime, Task};
///
/// let runtime = Runtime::new();
/// let tenants = runtime.group("tenants").limit(Limit::percent_of_machine(80.0)).create().unwrap();
/// let alice = tenants.group("alice").weight(512).create().unwrap();
/// runtime.block_on(async {
///     Task::builder().group(&alice).spawn(async {}).await.unwrap();
/// });
/// ```
#[derive(Clone)]
pub struct Group {
    inner: Arc<Inner>,
}

/// The runtime's record of a group. It does not keep the group alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakGroup {
    id: GroupId,
    inner: Weak<Inner>,
}

impl WeakGroup {
    /// Returns the group, if it still exists.
    pub(crate) fn upgrade(&self) -> Option<Group> {
        self.inner.upgrade().map(|inner| Group { inner })
    }

    pub(crate) fn is_of(&self, id: GroupId) -> bool {
        self.id == id
    }
}

struct Inner {
    shared: Arc<Shared>,
    id: GroupId,
    name: String,
    parent: Option<Group>,
    /// The limit that was last asked for; `weight` likewise.
    limit: Mutex<Option<Limit>>,
    weight: AtomicU32,
    /// Account of the tasks that ended in the group, and in groups that were below it.
    ended: Mutex<Account>,
    /// Set at its end.
    has_left: bool,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("path", &self.path()).field("id", &self.id()).finish()
    }
}

impl Group {
    /// Returns a builder for a group below this one.
    #[must_use]
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder { parent: Some(self.clone()), ..GroupBuilder::new(&self.inner.shared, name) }
    }

    /// Returns the group's number, which identifies it in the events of an [`crate::Observer`]. After the group is
    /// removed, another group may get the same number.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.inner.id
    }

    /// Returns the name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the path of the group: the names of the groups above it and its own, such as `/tenants/alice`.
    #[must_use]
    pub fn path(&self) -> String {
        let mut names: Vec<_> = self.lineage().map(Group::name).collect();
        names.push("");
        names.reverse();
        names.join("/")
    }

    /// Returns the group above this one, if there is one.
    #[must_use]
    pub fn parent(&self) -> Option<&Group> {
        self.inner.parent.as_ref()
    }

    /// Returns the limit that was last asked for the group.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        without_preemption(|| *lock(&self.inner.limit))
    }

    /// Gives the group another limit, or none. The whole budget of the new limit is available at once, and throttled
    /// tasks run.
    ///
    /// # Errors
    /// If it is not a valid limit. The group then keeps its limit.
    pub fn set_limit(&self, limit: impl Into<Option<Limit>>) -> Result<(), BadLimit> {
        let (limit, shared) = (limit.into(), &self.inner.shared);
        without_preemption(|| {
            // The capacity is read under the lock. So the maker, which changes it and then visits each group, has the
            // last word.
            let mut asked = lock(&self.inner.limit);
            let (capacity, cpus) = shared.bounds.capacity.get();
            let new = limit.map(|limit| limit.of(capacity, cpus)).transpose()?;
            *asked = limit;
            let fx = &mut KickNow(&shared.scheduler);
            shared.scheduler.machine().set_limit(os::thread::now(), self.id(), new, fx);
            Ok(())
        })?;
        // A task that is throttled now may hold a lock for which other tasks wait.
        if lending::somebody_waits() {
            shared
                .registry
                .cells()
                .for_each(|cell| without_preemption(|| cell.stands_differently()));
        }
        Ok(())
    }

    /// Adapts a limit that is a part of the machine, after the capacity of the runtime has changed.
    pub(crate) fn follow_capacity(&self) {
        let shared = &self.inner.shared;
        without_preemption(|| {
            let asked = lock(&self.inner.limit);
            let (capacity, cpus) = shared.bounds.capacity.get();
            let new = asked.and_then(|limit| limit.after(capacity, cpus));
            // A runtime that ends has lifted all limits.
            if new.is_some() && !shared.registry.is_closed() {
                let fx = &mut KickNow(&shared.scheduler);
                shared.scheduler.machine().set_limit(os::thread::now(), self.id(), new, fx);
            }
        });
    }

    /// Returns the weight that was last asked for the group.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.inner.weight.load(Ordering::Relaxed)
    }

    /// Gives the group another weight beside its siblings, in 2..=262144, at once on every CPU. An
    /// [idle](GroupBuilder::idle) group stays idle, whatever its weight.
    ///
    /// ```
    /// let runtime = runyard::Runtime::new();
    /// let tenant = runtime.group("tenant").create().unwrap();
    /// assert_eq!(tenant.weight(), 1024);
    /// tenant.set_weight(256);
    /// assert_eq!(tenant.weight(), 256);
    /// ```
    ///
    /// # Panics
    /// If the weight is not in 2..=262144.
    #[track_caller]
    pub fn set_weight(&self, weight: u32) {
        let new = Weight::new(weight.into()).expect("a weight must be in 2..=262144");
        let shared = &self.inner.shared;
        self.inner.weight.store(weight, Ordering::Relaxed);
        without_preemption(|| {
            let fx = &mut KickNow(&shared.scheduler);
            shared.scheduler.machine().set_weight(os::thread::now(), self.id(), new, fx);
        });
    }

    /// Returns the CPU time that the group has used since it was created, with or without a limit, and the effects of
    /// its limits.
    ///
    /// ```
    /// use runyard::{Runtime, Task};
    /// use std::time::{Duration, Instant};
    ///
    /// let runtime = Runtime::new();
    /// let tenant = runtime.group("tenant").create().unwrap();
    /// runtime.block_on(async {
    ///     let computes = async {
    ///         let began = Instant::now();
    ///         while began.elapsed() < Duration::from_millis(5) {}
    ///     };
    ///     Task::builder().group(&tenant).spawn(computes).await.unwrap();
    /// });
    /// assert!(tenant.usage().used > Duration::ZERO);
    /// ```
    #[must_use]
    pub fn usage(&self) -> GroupUsage {
        let (now, shared) = (os::thread::now(), &self.inner.shared);
        let machine = shared.scheduler.machine();
        let all = without_preemption(|| machine.usage(now, self.id()));
        let cpus = machine.config().topology.iter().filter_map(|cpu| {
            let (used, limited) = without_preemption(|| {
                let used = machine.used_in(now, self.id(), cpu, &mut KickNow(&shared.scheduler));
                (used, machine.cpu(cpu).usage(now, self.id()))
            });
            let there = limited.unwrap_or_default();
            let was_here = used > Nanos::ZERO || limited.is_some();
            was_here.then(|| UsageOnCpu {
                cpu: cpu.index(),
                used: span(used),
                nr_throttled: there.nr_throttled,
                throttled: span(there.throttled),
                borrowed: span(there.borrowed),
            })
        });
        let cpus: Vec<_> = cpus.collect();
        GroupUsage {
            used: cpus.iter().map(|there| there.used).sum(),
            nr_periods: all.nr_periods,
            nr_throttled: all.nr_throttled,
            throttled: span(all.throttled),
            nr_bursts: all.nr_bursts,
            burst: span(all.burst),
            borrowed: span(all.borrowed),
            held_by: self.held_by(),
            cpus,
        }
    }

    /// Returns the group whose limit is the tightest: of this group and those above it, the one that leaves the least
    /// CPU time per second. Returns `None` if none of them has a limit. A group may ask for more than the groups above
    /// it, but their limits still hold.
    #[must_use]
    pub fn held_by(&self) -> Option<Group> {
        let narrowest = self.lineage().filter_map(|group| Some((group.rate()?, group)));
        narrowest.min_by_key(|&(rate, _)| rate).map(|(_, group)| group.clone())
    }

    /// Returns the CPU time in a second that its own limit leaves, if it has one.
    fn rate(&self) -> Option<u128> {
        let shared = &self.inner.shared;
        let limit = without_preemption(|| shared.scheduler.machine().groups().limit(self.id()))?;
        let parts = if limit.is_per_cpu() { shared.scheduler.machine().all().len() } else { 1 };
        let runtime = u128::from(limit.runtime().0) * parts as u128;
        Some(runtime * 1_000_000_000 / u128::from(limit.period().0))
    }

    /// Returns the group itself, and those above it.
    pub(crate) fn lineage(&self) -> impl Iterator<Item = &Group> {
        successors(Some(self), |group| group.parent())
    }

    /// Returns the account of the tasks that ended in the group.
    pub(crate) fn ended(&self) -> Account {
        without_preemption(|| *lock(&self.inner.ended))
    }

    fn note_ended(&self, account: &Account) {
        lock(&self.inner.ended).add(account);
    }

    pub(crate) fn is_in(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.inner.shared, shared)
    }
}

/// The group that a task has left which is over.
impl Discarded for Inner {
    fn end(self: Arc<Inner>) {
        let shared = self.shared.clone();
        drop(self);
        shared.registry.leavers().one_less();
    }
}

impl Inner {
    /// Takes the group out of the machine, once. Returns the group above it.
    fn leave(&mut self) -> Option<Group> {
        if std::mem::replace(&mut self.has_left, true) {
            return None;
        }
        self.shared.observation.groups.forget(self.id);
        without_preemption(|| {
            let ended = *lock(&self.ended);
            self.parent.iter().for_each(|parent| parent.note_ended(&ended));
            let fx = &mut KickNow(&self.shared.scheduler);
            self.shared.scheduler.machine().remove_group(os::thread::now(), self.id, fx);
        });
        self.parent.take()
    }
}

impl Drop for Inner {
    /// Ends the group, and in turn those above it that only this one kept. A drop within a drop would take a stack as
    /// deep as groups are nested.
    fn drop(&mut self) {
        let mut above = self.leave();
        while let Some(mut inner) = above.and_then(|group| Arc::into_inner(group.inner)) {
            above = inner.leave();
        }
    }
}

pub(crate) fn is_same_runtime(group: Option<&Group>, shared: &Arc<Shared>) -> bool {
    group.is_none_or(|group| group.is_in(shared))
}

fn span(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos.0)
}

/// A builder for a task group.
#[derive(Clone, Debug)]
pub struct GroupBuilder {
    shared: Arc<Shared>,
    parent: Option<Group>,
    name: String,
    weight: Weight,
    idle: bool,
    latency_nice: LatencyNice,
    limit: Option<Limit>,
    cookie: Option<Cookie>,
}

impl GroupBuilder {
    pub(crate) fn new(shared: &Arc<Shared>, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder {
            shared: shared.clone(),
            parent: None,
            name: name.into(),
            weight: Weight::NICE_0,
            idle: false,
            latency_nice: LatencyNice::ZERO,
            limit: None,
            cookie: None,
        }
    }

    /// Sets the weight of the group beside its siblings, which are tasks and groups, in 2..=262144. The default is
    /// 1024, the weight of a task at nice 0.
    ///
    /// # Panics
    /// If the weight is not in 2..=262144.
    #[must_use]
    #[track_caller]
    pub fn weight(mut self, weight: u32) -> GroupBuilder {
        self.weight = Weight::new(weight.into()).expect("a weight must be in 2..=262144");
        self
    }

    /// Makes the group idle: like a SCHED_IDLE task, it gets only the CPU time that its siblings leave, whatever its
    /// weight.
    #[must_use]
    pub fn idle(mut self) -> GroupBuilder {
        self.idle = true;
        self
    }

    /// Sets the latency nice value, in -20..=19, with which its tasks compete against the siblings of the group. The
    /// default is 0.
    ///
    /// # Panics
    /// If the value is not in -20..=19.
    #[must_use]
    #[track_caller]
    pub fn latency_nice(mut self, nice: i8) -> GroupBuilder {
        let nice = LatencyNice::new(nice.into()).expect("a latency nice value must be in -20..=19");
        self.latency_nice = nice;
        self
    }

    /// Sets the limit of the group. There is none by default.
    #[must_use]
    pub fn limit(mut self, limit: impl Into<Option<Limit>>) -> GroupBuilder {
        self.limit = limit.into();
        self
    }

    /// Sets the [cookie](crate::Builder::cookies) of its tasks, and of those in groups below it, that have no cookie of
    /// their own. The default is the cookie of the group above.
    #[must_use]
    pub fn cookie(mut self, cookie: impl Into<Option<Cookie>>) -> GroupBuilder {
        self.cookie = cookie.into();
        self
    }

    /// Creates the group.
    ///
    /// # Errors
    /// If there is no room for another group, the limit is not valid, or the latency nice value is below the lowest of
    /// the runtime.
    pub fn create(self) -> Result<Group, GroupError> {
        let GroupBuilder { shared, parent, name, weight, idle, latency_nice, limit, cookie } = self;
        let latency_nice = allowed(shared.bounds.lowest_latency_nice, latency_nice)
            .map_err(GroupError::LatencyNice)?;
        let capacity = shared.bounds.capacity.get();
        let engines = limit.map(|limit| limit.of(capacity.0, capacity.1)).transpose();
        let engines = engines.map_err(GroupError::Limit)?;
        let above = parent.as_ref().map_or(GroupId::ROOT, Group::id);
        let spec = GroupSpec { parent: above, weight, idle, latency_nice, limit: engines, cookie };
        shared.registry.leavers().may_come();
        let add =
            || without_preemption(|| shared.scheduler.machine().add_group(os::thread::now(), spec));
        let mut added = add();
        for _ in 0..PATIENCE {
            if added.is_ok() || !shared.registry.leavers().are_left() {
                break;
            }
            // A group whose last task is over may not be removed yet. Another thread may be about to do that.
            shared.deferred.bins.empty();
            blocking(|| thread::sleep(Duration::from_millis(1)));
            added = add();
        }
        let id = added.map_err(|TooManyGroups| GroupError::NoRoom)?;
        let (limit, ended) = (Mutex::new(limit), Mutex::default());
        let weight = AtomicU32::new(weight.get());
        let has_left = false;
        let inner = Arc::new(Inner { shared, id, name, parent, limit, weight, ended, has_left });
        inner.shared.observation.groups.note(WeakGroup { id, inner: Arc::downgrade(&inner) });
        let group = Group { inner };
        if group.inner.shared.bounds.capacity.get() != capacity {
            // The maker may have visited all groups just before this one was noted.
            group.follow_capacity();
        }
        Ok(group)
    }
}

/// The reason why a task group was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The runtime has no room for another group ([`crate::Builder::max_groups`]).
    NoRoom,
    /// The limit is not valid.
    Limit(BadLimit),
    /// The latency nice value is below the lowest that the runtime allows.
    LatencyNice(LatencyNiceError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::NoRoom => TooManyGroups.fmt(f),
            GroupError::Limit(why) => why.fmt(f),
            GroupError::LatencyNice(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GroupError::NoRoom => None,
            GroupError::Limit(why) => Some(why),
            GroupError::LatencyNice(why) => Some(why),
        }
    }
}

/// The CPU time that a task group has used, and the effects of its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupUsage {
    /// CPU time used by the tasks of the group and of the groups below it, including removed groups.
    pub used: Duration,
    /// Number of periods in which the group used its budget, or wanted to.
    pub nr_periods: u64,
    /// Number of these periods in which the group was throttled on at least one CPU.
    pub nr_throttled: u64,
    /// Time for which the group was throttled, summed over CPUs.
    pub throttled: Duration,
    /// Number of periods in which the group used more than its runtime, out of the CPU time that it had carried over.
    pub nr_bursts: u64,
    /// CPU time beyond its runtime that the group used in these periods.
    pub burst: Duration,
    /// CPU time that CPUs used beyond their own parts of the runtime.
    pub borrowed: Duration,
    /// The group whose limit is the tightest ([`Group::held_by`]).
    pub held_by: Option<Group>,
    /// Usage on each CPU on which the group ran.
    pub cpus: Vec<UsageOnCpu>,
}

/// The CPU time that a task group has used on one CPU, and the effects of its limits there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UsageOnCpu {
    /// The CPU, as an index among the runtime's CPUs.
    pub cpu: usize,
    /// CPU time that the group used there.
    pub used: Duration,
    /// Number of times that the group was throttled there.
    pub nr_throttled: u64,
    /// Time for which the group was throttled there.
    pub throttled: Duration,
    /// CPU time that the group used beyond the CPU's own part of the runtime of each period.
    pub borrowed: Duration,
}

/// The group that a task is in, and the groups that it left before the engine applied the change.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    pub(crate) group: Option<Group>,
    former: List<Group>,
}

impl Membership {
    pub(crate) fn of(group: Group) -> Membership {
        Membership { group: Some(group), former: List::new() }
    }
}

impl Cell {
    /// Returns the number of the task's group.
    pub(crate) fn group_id(&self) -> GroupId {
        // Every task in a group bequeaths it, except one that serves others.
        let rest = self.rest_if_any().filter(|_| self.bequeaths() || self.serves());
        rest.map_or(GroupId::ROOT, |rest| {
            lock(&rest.membership).group.as_ref().map_or(GroupId::ROOT, Group::id)
        })
    }

    /// Moves the task to another group, or to none.
    pub(crate) fn move_to_group(&self, group: Option<Group>) {
        let id = group.as_ref().map_or(GroupId::ROOT, Group::id);
        self.note_heritage();
        let gone = without_preemption(|| {
            let mut membership = lock(&self.rest().membership);
            if self.is_done() {
                return List::from_iter(group);
            }
            let old = std::mem::replace(&mut membership.group, group);
            membership.former.extend(old);
            let change = Change { group: Some(id), ..Change::default() };
            self.shared.scheduler.change(self, change);
            self.do_what_was_asked_while_parked();
            // A request is pending if another thread is moving the task to a run queue, or to its parking place.
            let pending = self.tag.was_asked();
            if pending { List::new() } else { std::mem::take(&mut membership.former) }
        });
        without_preemption(|| self.stands_differently());
        drop(gone);
    }

    /// Returns the task's group, if it has one.
    pub(crate) fn group(&self) -> Option<Group> {
        let rest = self.rest_if_any()?;
        without_preemption(|| lock(&rest.membership).group.clone())
    }

    /// Adds the account of a task that is over to its group.
    pub(crate) fn note_ended(&self, account: &Account) {
        if let Some(rest) = self.rest_if_any() {
            lock(&rest.membership).group.iter().for_each(|group| group.note_ended(account));
        }
    }

    /// Takes a task that is over out of its groups.
    pub(crate) fn leave_groups(&self) {
        let Some(rest) = self.rest_if_any() else { return };
        let Membership { group, former } = std::mem::take(&mut *lock(&rest.membership));
        for Group { inner } in group.into_iter().chain(former) {
            self.shared.registry.leavers().one_more();
            discard(Rubbish::Other(inner));
        }
    }
}
