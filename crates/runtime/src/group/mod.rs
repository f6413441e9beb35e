//! Task groups: who competes as one, and what they may use together.
//!
//! A group is there as long as anybody can name it: by a handle, as a task that is in it, or as a group
//! below it. Whoever is the last of them removes it. (Rejected: a call that removes a group and is
//! refused while somebody is in it. Who wants to be rid of a tenant would have to find its tasks, end
//! them, and try again; a handle that is forgotten would keep the place for ever.)
//!
//! A task holds the group that it is in, and one that it leaves until the engine has carried that out:
//! nobody else may have the group's number before.

pub(crate) mod limit;
pub(crate) mod quota;

use crate::deferred::rubbish::{Rubbish, discard};
use crate::group::limit::Limit;
use crate::mutex::lending;
use crate::os;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicU32, Mutex, Ordering, Weak, lock};
use crate::shared::{KickNow, Shared};
use crate::task::Cell;
use crate::task::builder::{LatencyNiceError, blocking};
use crate::worker::current::without_preemption;
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

/// How many milliseconds a group that is created waits for the place of one that is about to be removed.
const PATIENCE: u32 = 1_000;

/// A task group, by whoever wants to put tasks in it or to know about it. Cheap to clone. The group goes
/// with the last of its handles, tasks and groups below it.
///
/// Its tasks share what the group gets beside its siblings, by its weight, and are held to its limit
/// together, wherever they run. A task that is spawned by one of a group is in that group too, unless it
/// is told another.
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

/// What the runtime knows a group by that nobody may have any more.
#[derive(Clone, Debug)]
pub(crate) struct WeakGroup {
    id: GroupId,
    inner: Weak<Inner>,
}

impl WeakGroup {
    /// The group, if somebody has it still.
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
    /// As they were asked for last.
    limit: Mutex<Option<Limit>>,
    weight: AtomicU32,
    /// What the tasks did that ended in it, and in groups that were below.
    ended: Mutex<Account>,
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
    /// A group below this one, to be created.
    #[must_use]
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder { parent: Some(self.clone()), ..GroupBuilder::new(&self.inner.shared, name) }
    }

    /// Its number: its name in the events of an [`crate::Observer`]. That of a group that is gone may be
    /// another's later.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.inner.id
    }

    /// The name that it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The names of the groups above it and its own: `/tenants/alice`.
    #[must_use]
    pub fn path(&self) -> String {
        let mut names: Vec<_> = self.lineage().map(Group::name).collect();
        names.push("");
        names.reverse();
        names.join("/")
    }

    /// The group above it, if it has one.
    #[must_use]
    pub fn parent(&self) -> Option<&Group> {
        self.inner.parent.as_ref()
    }

    /// The limit that was asked for it last.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        without_preemption(|| *lock(&self.inner.limit))
    }

    /// Gives it another limit, or none. It has the whole budget of that at once, and who was throttled
    /// runs.
    ///
    /// # Errors
    /// If it is no limit; the group keeps the one that it has.
    pub fn set_limit(&self, limit: impl Into<Option<Limit>>) -> Result<(), BadLimit> {
        let (limit, shared) = (limit.into(), &self.inner.shared);
        let new = limit.map(|limit| shared.limit_of(limit)).transpose()?;
        without_preemption(|| {
            let mut asked = lock(&self.inner.limit);
            *asked = limit;
            let fx = &mut KickNow(shared);
            shared.machine.set_limit(os::thread::now(), self.id(), new, fx);
        });
        // A task that is held back now may have what others wait for.
        if lending::somebody_waits() {
            shared.cells().for_each(|cell| without_preemption(|| cell.stands_differently()));
        }
        Ok(())
    }

    /// The weight that was asked for it last.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.inner.weight.load(Ordering::Relaxed)
    }

    /// Gives it another share beside its siblings, 2..=262144, at once on every CPU. An [idle](GroupBuilder::idle) group
    /// stays one, whatever its weight is.
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
    /// If the weight is not one.
    pub fn set_weight(&self, weight: u32) {
        let new = Weight::new(weight.into()).expect("a weight is in 2..=262144");
        let shared = &self.inner.shared;
        self.inner.weight.store(weight, Ordering::Relaxed);
        without_preemption(|| {
            let fx = &mut KickNow(shared);
            shared.machine.set_weight(os::thread::now(), self.id(), new, fx);
        });
    }

    /// What it used in its life, with a limit or without one, and what its limits did to it.
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
        let machine = &shared.machine;
        let all = without_preemption(|| machine.usage(now, self.id()));
        let cpus = machine.config().topology.iter().filter_map(|cpu| {
            let (used, limited) = without_preemption(|| {
                let used = machine.used_in(now, self.id(), cpu, &mut KickNow(shared));
                (used, machine.usage_on(now, self.id(), cpu))
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

    /// The one that holds it: of itself and those above it the one whose limit leaves it least, if any
    /// has a limit. A group may ask for more than those above it; it is held by them all the same.
    #[must_use]
    pub fn held_by(&self) -> Option<Group> {
        let narrowest = self.lineage().filter_map(|group| Some((group.rate()?, group)));
        narrowest.min_by_key(|&(rate, _)| rate).map(|(_, group)| group.clone())
    }

    /// What its own limit leaves it in a second.
    fn rate(&self) -> Option<u128> {
        let shared = &self.inner.shared;
        let limit = without_preemption(|| shared.machine.limit(self.id()))?;
        let parts = if limit.is_per_cpu() { shared.machine.all().len() } else { 1 };
        let runtime = u128::from(limit.runtime().0) * parts as u128;
        Some(runtime * 1_000_000_000 / u128::from(limit.period().0))
    }

    /// The group itself, and those above it.
    pub(crate) fn lineage(&self) -> impl Iterator<Item = &Group> {
        successors(Some(self), |group| group.parent())
    }

    /// What the tasks did that ended in it.
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

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.groups.forget(self.id);
        without_preemption(|| {
            let ended = *lock(&self.ended);
            self.parent.iter().for_each(|parent| parent.note_ended(&ended));
            let fx = &mut KickNow(&self.shared);
            self.shared.machine.remove_group(os::thread::now(), self.id, fx);
        });
    }
}

fn span(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos.0)
}

/// A task group that is about to be created.
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

    /// Its share beside its siblings, tasks and groups alike, 2..=262144; 1024, which is that of a task
    /// at nice 0, if not said.
    ///
    /// # Panics
    /// If the weight is not one.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> GroupBuilder {
        self.weight = Weight::new(weight.into()).expect("a weight is in 2..=262144");
        self
    }

    /// It gets what its siblings leave, as a SCHED_IDLE task does, whatever its weight is.
    #[must_use]
    pub fn idle(mut self) -> GroupBuilder {
        self.idle = true;
        self
    }

    /// The latency nice value by which its tasks wait beside its siblings, -20..=19; 0 if not said.
    ///
    /// # Panics
    /// If the value is not one.
    #[must_use]
    pub fn latency_nice(mut self, nice: i8) -> GroupBuilder {
        let nice = LatencyNice::new(nice.into()).expect("a latency nice value is in -20..=19");
        self.latency_nice = nice;
        self
    }

    /// What it may use at the most; none if not said.
    #[must_use]
    pub fn limit(mut self, limit: impl Into<Option<Limit>>) -> GroupBuilder {
        self.limit = limit.into();
        self
    }

    /// The [cookie](crate::Builder::cookies) of its tasks that have none of their own, and of those in groups below it that have
    /// none; that of the group above it if not said.
    #[must_use]
    pub fn cookie(mut self, cookie: impl Into<Option<Cookie>>) -> GroupBuilder {
        self.cookie = cookie.into();
        self
    }

    /// Creates the group.
    ///
    /// # Errors
    /// If there is no room for another group, the limit is none, or the latency nice value is below
    /// the lowest of the runtime.
    pub fn create(self) -> Result<Group, GroupError> {
        let GroupBuilder { shared, parent, name, weight, idle, latency_nice, limit, cookie } = self;
        let lowest = shared.lowest_latency_nice;
        if latency_nice < lowest {
            return Err(GroupError::LatencyNice(LatencyNiceError { asked: latency_nice, lowest }));
        }
        let engines = limit.map(|limit| shared.limit_of(limit)).transpose();
        let engines = engines.map_err(GroupError::Limit)?;
        let above = parent.as_ref().map_or(GroupId::ROOT, Group::id);
        let spec = GroupSpec { parent: above, weight, idle, latency_nice, limit: engines, cookie };
        shared.has_groups.store(true, Ordering::SeqCst);
        let add = || without_preemption(|| shared.machine.add_group(os::thread::now(), spec));
        let mut added = add();
        for _ in 0..PATIENCE {
            if added.is_ok() || shared.nr_leaving.load(Ordering::SeqCst) == 0 {
                break;
            }
            // The last task of a group is over, and the group not yet removed; maybe it is in other hands.
            shared.empty_bins();
            blocking(|| thread::sleep(Duration::from_millis(1)));
            added = add();
        }
        let id = added.map_err(|TooManyGroups| GroupError::NoRoom)?;
        let (limit, ended) = (Mutex::new(limit), Mutex::default());
        let weight = AtomicU32::new(weight.get());
        let inner = Arc::new(Inner { shared, id, name, parent, limit, weight, ended });
        inner.shared.groups.note(WeakGroup { id, inner: Arc::downgrade(&inner) });
        Ok(Group { inner })
    }
}

/// Why a task group was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// There are as many groups as the runtime has room for ([`crate::Builder::max_groups`]).
    NoRoom,
    /// What is asked for as its limit is none.
    Limit(BadLimit),
    /// The runtime allows no latency nice value that is as low.
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

/// What a task group used, and what its limits did to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupUsage {
    /// CPU time that its tasks and those of the groups below used, those of groups included that are gone.
    pub used: Duration,
    /// Periods in which it drew of its budget or wanted to.
    pub nr_periods: u64,
    /// Those of them in which it was throttled on some CPU.
    pub nr_throttled: u64,
    /// How long it was throttled, summed over CPUs.
    pub throttled: Duration,
    /// Periods in which it used more than its runtime, of what it had carried over.
    pub nr_bursts: u64,
    /// What it used beyond its runtime in them.
    pub burst: Duration,
    /// What CPUs used beyond their own parts of the runtime.
    pub borrowed: Duration,
    /// Whose limit holds it ([`Group::held_by`]).
    pub held_by: Option<Group>,
    /// The CPUs on which it ran.
    pub cpus: Vec<UsageOnCpu>,
}

/// What a task group used on one CPU, and what its limits did to it there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UsageOnCpu {
    /// Which of the runtime's CPUs.
    pub cpu: usize,
    /// CPU time that the group used there.
    pub used: Duration,
    /// How often it was throttled there.
    pub nr_throttled: u64,
    /// How long it was throttled there.
    pub throttled: Duration,
    /// What it used beyond the CPU's own part of the runtime of each period.
    pub borrowed: Duration,
}

/// The group that a task is in, and those that it left without the engine having heard of it.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    pub(crate) group: Option<Group>,
    former: List<Group>,
}

impl Membership {
    pub(crate) fn of(group: Group) -> Membership {
        Membership { group: Some(group), former: List::new() }
    }

    /// One of its groups, if there is any.
    fn some(&self) -> Option<&Group> {
        self.group.as_ref().or_else(|| self.former.first())
    }

    /// That of a task that is over: removes the groups of which it was the last, in foreign code.
    pub(crate) fn end(self) {
        let shared = self.some().map(|group| group.inner.shared.clone());
        drop(self);
        shared.into_iter().for_each(|shared| _ = shared.nr_leaving.fetch_sub(1, Ordering::SeqCst));
    }
}

impl Cell {
    /// The group that it is in.
    pub(crate) fn group_id(&self) -> GroupId {
        // A group is passed on, but by a task that serves others.
        let rest = self.rest_if_any().filter(|_| self.bequeaths() || self.serves);
        rest.map_or(GroupId::ROOT, |rest| {
            lock(&rest.membership).group.as_ref().map_or(GroupId::ROOT, Group::id)
        })
    }

    /// Brings the task to another group, or to none.
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
            self.shared.change(self, change);
            self.do_what_was_asked_while_parked();
            // Somebody brings the task to a run queue just now, or to where it is parked.
            let pending = self.tag.was_asked();
            if pending { List::new() } else { std::mem::take(&mut membership.former) }
        });
        without_preemption(|| self.stands_differently());
        drop(gone);
    }

    /// The group that it is in, if it is in one.
    pub(crate) fn group(&self) -> Option<Group> {
        let rest = self.rest_if_any()?;
        without_preemption(|| lock(&rest.membership).group.clone())
    }

    /// The task is over, having done this in its life.
    pub(crate) fn note_ended(&self, account: &Account) {
        if let Some(rest) = self.rest_if_any() {
            lock(&rest.membership).group.iter().for_each(|group| group.note_ended(account));
        }
    }

    /// The task is over, and in no group any more.
    pub(crate) fn leave_groups(&self) {
        let Some(rest) = self.rest_if_any() else { return };
        let left = std::mem::take(&mut *lock(&rest.membership));
        if left.some().is_some() {
            self.shared.nr_leaving.fetch_add(1, Ordering::SeqCst);
            discard(Rubbish::Groups(left));
        }
    }
}
