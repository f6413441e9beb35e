//! The task groups of a machine: their tree, their weights, their load over all CPUs, and the pools of groups with a
//! limit.
//!
//! The table has a fixed capacity. A group's place becomes free when the group is removed. Its host removes a group
//! when no task is in it, and then no run queue has a queue of the group.
//!
//! The pools of a group share a lock. It is taken with a run-queue lock held or without, and no lock is taken under it.
//! Rejected: a pool in one atomic word. Draws are rare: one each time that a CPU starts to run a group, and one at the
//! end of a grant. An atomic word would save little compared with the cost of a switch. The lock also makes it simple
//! to order the accounts of a limit, the CPUs that wait for budget, and changes of the limit.
//!
//! Legend of access: (s) written while the group is added or its limit changes, which one thread at a time does under
//! `free`, and read by all threads.

use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Weight};
use runyard_engine::cpu::CpuId;
use runyard_engine::group::{Blocked, Groups};
use runyard_engine::limits::Pools;
use runyard_engine::limits::bandwidth::{CfsBandwidth, Control};
use runyard_engine::limits::pool::{Part, Pool};
use runyard_engine::limits::{Limit, Usage};
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::{Nanos, Time};
use std::fmt;

/// The error that the table has no room for another group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyGroups;

impl fmt::Display for TooManyGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are as many task groups as there is room for")
    }
}

impl std::error::Error for TooManyGroups {}

/// Bits of [`Group::limited`]: the group itself, or a group above it, has a limit that is enforced.
const OWN: u8 = 1;
const ABOVE: u8 = 2;
/// The bit of a group whose own limit is the kernel's bandwidth.
const BANDWIDTH: u8 = 4;

/// The parent of a place without a group.
const NOBODY: u32 = u32::MAX;

/// The groups, by [`GroupId`].
#[derive(Debug)]
pub struct GroupTable {
    groups: Box<[Group]>,
    /// The number of CPUs of the machine.
    cpus: usize,
    /// The CPUs share each pool. Otherwise each CPU has its own part.
    shared: bool,
    /// Limits are enforced.
    limits: bool,
    /// If limits without `per_cpu` are controlled as in the kernel: how.
    bandwidth: Option<Control>,
    /// The free places. A thread that changes the tree holds this lock.
    free: Mutex<Vec<GroupId>>,
}

#[derive(Debug)]
struct Group {
    /// (s)
    parent: AtomicU32,
    /// (s) The group is being removed or does not exist, so run queues no longer charge it.
    leaves: AtomicBool,
    /// (s)
    weight: AtomicU32,
    /// (s)
    idle: AtomicBool,
    /// (s)
    latency_nice: AtomicU8,
    /// (s) The cookie of its tasks, its own or inherited; 0 for none.
    cookie: AtomicU32,
    /// (s) Whether the group has a limit ([`OWN`]), and whether a group above it has one ([`ABOVE`]).
    limited: AtomicU8,
    /// (s) The number of limits that the group has had.
    epoch: AtomicU32,
    /// The sum of the CPUs' contributions. Each CPU adds and subtracts its part with its own lock held.
    load: AtomicU64,
    /// The load of the group's blocked tasks in queues that have become empty: [`Blocked`].
    blocked: AtomicU64,
    /// The pools: none without a limit, one if the CPUs share it, else one for each CPU.
    pools: Mutex<Vec<Pool>>,
    /// The bandwidth, if the limit is the kernel's. Then there are no pools.
    bandwidth: Mutex<Option<CfsBandwidth>>,
    /// The usage under earlier limits of the group.
    past: Mutex<Usage>,
}

impl Group {
    fn absent() -> Group {
        Group {
            parent: AtomicU32::new(NOBODY),
            leaves: AtomicBool::new(true),
            weight: AtomicU32::new(0),
            idle: AtomicBool::new(false),
            latency_nice: AtomicU8::new(0),
            cookie: AtomicU32::new(0),
            limited: AtomicU8::new(0),
            epoch: AtomicU32::new(0),
            load: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            pools: Mutex::new(Vec::new()),
            bandwidth: Mutex::new(None),
            past: Mutex::new(Usage::default()),
        }
    }

    fn become_as(&self, spec: GroupSpec) {
        let weight = if spec.idle { Weight::IDLE } else { spec.weight };
        self.weight.store(weight.get(), Ordering::Relaxed);
        self.idle.store(spec.idle, Ordering::Relaxed);
        let latency_nice = spec.latency_nice.get().cast_unsigned();
        self.latency_nice.store(latency_nice, Ordering::Relaxed);
        self.parent.store(spec.parent.0, Ordering::Release);
        self.leaves.store(false, Ordering::Release);
    }
}

impl GroupTable {
    /// Returns a table with `specs` and room for `more` groups, on a machine of `cpus`.
    ///
    /// # Panics
    /// If the first group is not the root, the root is idle or limited, or a parent does not precede its child.
    pub(crate) fn new(specs: &[GroupSpec], more: usize, cpus: usize) -> GroupTable {
        assert_eq!(specs.first().map(|root| root.parent), Some(GroupId::ROOT), "the root is first");
        assert!(!specs[0].idle && specs[0].limit.is_none(), "the root is neither idle nor limited");
        let ordered = specs.iter().enumerate().skip(1).all(|(at, spec)| spec.parent.index() < at);
        assert!(ordered, "a parent comes before its children");
        let room = specs.len() + more;
        let groups: Box<[Group]> = (0..room).map(|_| Group::absent()).collect();
        let free = (specs.len()..room).rev().map(|at| GroupId(at as u32)).collect();
        let table = GroupTable {
            groups,
            cpus,
            shared: true,
            limits: true,
            bandwidth: None,
            free: Mutex::new(free),
        };
        for (group, &spec) in table.groups.iter().zip(specs) {
            group.become_as(spec);
            table.inherit_cookie(group, spec);
        }
        table
    }

    /// Sets whether limits are enforced, and whether CPUs share their pools. It must precede the first limit.
    pub(crate) fn heeding(self, limits: bool, shared: bool) -> GroupTable {
        GroupTable { limits, shared, ..self }
    }

    /// Sets whether and how limits without `per_cpu` are controlled as in the kernel. It must precede the first limit.
    pub(crate) fn by_bandwidth(self, bandwidth: Option<Control>) -> GroupTable {
        GroupTable { bandwidth, ..self }
    }

    /// Reserves the memory of all limits that groups can have, so that setting a limit does not allocate under the
    /// lock.
    pub(crate) fn with_room_for_limits(self) -> GroupTable {
        let pools = if self.shared { 1 } else { self.cpus };
        self.groups.iter().for_each(|group| lock(&group.pools).reserve(pools));
        self
    }

    /// Returns the load of a group over all CPUs.
    #[must_use]
    pub fn load(&self, group: GroupId) -> u64 {
        self.group(group).load.load(Ordering::Acquire)
    }

    /// Returns the load over all CPUs of a group's blocked tasks in queues that have become empty.
    pub(crate) fn blocked(&self, group: GroupId) -> Blocked {
        Blocked::from_bits(self.group(group).blocked.load(Ordering::Acquire))
    }

    /// Returns the groups that exist.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> {
        let all = (0..self.groups.len()).map(|at| GroupId(at as u32));
        all.filter(|&id| self.group(id).parent.load(Ordering::Acquire) != NOBODY)
    }

    /// Adds a group without a limit.
    ///
    /// # Panics
    /// If its parent does not exist.
    pub(crate) fn add(&self, spec: GroupSpec) -> Result<GroupId, TooManyGroups> {
        let mut free = lock(&self.free);
        let parent = self.ids().any(|id| id == spec.parent);
        assert!(parent, "the parent of a group is there");
        let id = free.pop().ok_or(TooManyGroups)?;
        self.group(id).become_as(spec);
        self.inherit_cookie(self.group(id), spec);
        self.group(id).limited.store(self.is_below_limit(id), Ordering::Release);
        Ok(id)
    }

    /// Sets the group's cookie to its own or to that of its parent, which exists already.
    fn inherit_cookie(&self, group: &Group, spec: GroupSpec) {
        let above = || self.group(spec.parent).cookie.load(Ordering::Relaxed);
        group.cookie.store(spec.cookie.map_or_else(above, Cookie::get), Ordering::Release);
    }

    /// Returns whether a group has children.
    #[must_use]
    pub fn has_children(&self, group: GroupId) -> bool {
        self.ids().skip(1).any(|child| self.parent(child) == group)
    }

    /// Announces the removal of a group, before each run queue forgets it. For a thread that calls
    /// [`GroupTable::is_there`] under the lock of a run queue there are two cases. Either it sees the announcement, or
    /// that run queue has not forgotten the group yet.
    pub(crate) fn leave(&self, group: GroupId) {
        self.group(group).leaves.store(true, Ordering::Release);
    }

    /// Returns whether a group exists and is not being removed.
    pub(crate) fn is_there(&self, group: GroupId) -> bool {
        !self.group(group).leaves.load(Ordering::Acquire)
    }

    /// Frees the place of a group that has no queue in any run queue.
    pub(crate) fn remove(&self, group: GroupId) {
        let mut free = lock(&self.free);
        assert_eq!(self.load(group), 0, "a group that is removed has no task");
        self.group(group).parent.store(NOBODY, Ordering::Release);
        *lock(&self.group(group).past) = Usage::default();
        self.group(group).epoch.store(0, Ordering::Release);
        self.group(group).blocked.store(0, Ordering::Release);
        free.push(group);
    }

    /// Sets the weight of a group, unless the group is idle.
    pub(crate) fn set_weight(&self, group: GroupId, weight: Weight) {
        if !self.is_idle(group) {
            self.group(group).weight.store(weight.get(), Ordering::Relaxed);
        }
    }

    /// Sets the limit of a group, with the whole budget available at once. `online` returns the number of CPUs that
    /// share it. It is called under the lock that excludes other changes.
    pub(crate) fn set_limit(
        &self,
        now: Time,
        id: GroupId,
        limit: Option<Limit>,
        online: impl Fn() -> usize,
    ) {
        let free = lock(&self.free);
        self.fill(now, id, limit, online());
        self.renew_limited();
        drop(free);
    }

    /// Sets the first limits of all groups.
    pub(crate) fn set_limits(&self, specs: &[GroupSpec], online: usize) {
        let limited = self.ids().zip(specs).filter(|(_, spec)| spec.limit.is_some());
        limited.for_each(|(id, spec)| self.fill(Time::ZERO, id, spec.limit, online));
        self.renew_limited();
    }

    /// Creates the pools of a limit for a group.
    fn fill(&self, now: Time, id: GroupId, limit: Option<Limit>, online: usize) {
        let group = self.group(id);
        let limit = limit.filter(|_| self.limits);
        let epoch = group.epoch.fetch_add(1, Ordering::AcqRel) + 1;
        let past = self.usage(now, id);
        *lock(&group.past) = past;
        let kernels = self.bandwidth.zip(limit.filter(|limit| !limit.is_per_cpu()));
        let begin = |limit| (now, stagger(id, limit));
        let new = kernels.map(|(control, limit)| {
            // The periods of a group begin anywhere in those of another.
            let anywhere = (now, Nanos(16 * stagger(id, limit).0));
            CfsBandwidth::new(limit, self.cpus, epoch, control, anywhere)
        });
        let mut bandwidth = lock(&group.bandwidth);
        let new = match bandwidth.as_ref() {
            Some(old) => new.map(|new| new.after(old)),
            None => new,
        };
        let old = std::mem::replace(&mut *bandwidth, new);
        drop(bandwidth);
        drop(old);
        let own = match (limit, kernels) {
            (None, _) => 0,
            (Some(_), None) => OWN,
            (Some(_), Some(_)) => OWN | BANDWIDTH,
        };
        let limit = limit.filter(|_| kernels.is_none());
        let (nr, cpus_of_each) = if self.shared { (1, self.cpus) } else { (self.cpus, 1) };
        for at in 0..nr {
            let pool = |limit| {
                let begin = begin(limit);
                let part = self.part(limit, online);
                Pool::new(limit, part, (CpuId::at(at), cpus_of_each), epoch, begin)
            };
            // A pool of many CPUs owns memory. It is allocated and freed outside the pool's lock, because CPUs wait for
            // that lock while they hold a run-queue lock.
            let new = limit.map(pool);
            let old = exchange(&mut lock(&group.pools), at, new);
            drop(old);
        }
        group.limited.store(self.bits(id) & ABOVE | own, Ordering::Release);
    }

    /// Returns the limit of a group, if it has one that is enforced.
    #[must_use]
    pub fn limit(&self, group: GroupId) -> Option<Limit> {
        let pool = lock(&self.group(group).pools).first().map(Pool::limit);
        pool.or_else(|| lock(&self.group(group).bandwidth).as_ref().map(CfsBandwidth::limit))
    }

    /// Returns the usage under the limits of a group, as far as its pools know it.
    pub(crate) fn usage(&self, now: Time, group: GroupId) -> Usage {
        let past = *lock(&self.group(group).past);
        let mut pools = lock(&self.group(group).pools);
        let most = pools.iter_mut().fold(Usage::default(), |mut sum, pool| {
            let usage = pool.usage(now);
            sum.nr_periods = sum.nr_periods.max(usage.nr_periods);
            sum.nr_throttled = sum.nr_throttled.max(usage.nr_throttled);
            sum.nr_bursts += usage.nr_bursts;
            sum.burst += usage.burst;
            sum
        });
        drop(pools);
        let bandwidth = lock(&self.group(group).bandwidth).as_ref().map(CfsBandwidth::usage);
        let most = bandwidth.unwrap_or(most);
        Usage {
            nr_periods: past.nr_periods + most.nr_periods,
            nr_throttled: past.nr_throttled + most.nr_throttled,
            nr_bursts: past.nr_bursts + most.nr_bursts,
            burst: past.burst + most.burst,
            ..past
        }
    }

    /// Returns whether the group has or had a limit that is enforced.
    #[must_use]
    pub fn was_limited(&self, group: GroupId) -> bool {
        self.limits && self.group(group).epoch.load(Ordering::Acquire) > 0
    }

    /// Asserts that the load of a group is `sum`, that of its queues on all CPUs.
    pub(crate) fn check_load(&self, group: GroupId, sum: u64) {
        assert_eq!(sum, self.load(group), "the load of {group:?} is that of its CPUs");
    }

    /// Asserts that the load of a group's blocked tasks is that of its `parts`. `newest` is the newest period of a run
    /// queue.
    ///
    /// Removing a part rounds it down by less than a 64th of a weight. This happens at most once on each CPU in a
    /// period, and the error left in the sum decays. The remaining error is at most that of 47 periods.
    pub(crate) fn check_blocked(&self, group: GroupId, parts: &[Blocked], newest: u64) {
        // A part that decays to nothing disappears without an update of the sum, so the sum may be old.
        let all = self.blocked(group).at(newest);
        let sum: u64 = parts.iter().map(|part| part.at(all.period()).get()).sum();
        let rounded = 47 * self.cpus as u64;
        let slack = (1 << Blocked::FRACTION_BITS) + rounded + sum / 16;
        let off = all.get().abs_diff(sum);
        assert!(off <= slack, "{group:?}: its sleepers left {} on all CPUs, {sum}", all.get());
    }

    /// Asserts that the pools of a group's first limit account for exactly `used`.
    pub(crate) fn check_used(&self, id: GroupId, used: Nanos) {
        if self.has_bandwidth(id) {
            return;
        }
        let known = lock(&self.group(id).pools).iter().fold(Nanos::ZERO, |sum, it| sum + it.used());
        let first = self.group(id).epoch.load(Ordering::Acquire) == 1;
        assert!(!first || known == used, "{id:?} used {used}, and its pools know of {known}");
    }

    /// Adapts the pools to a new number of online CPUs. The online CPUs share the budget, and offline CPUs have no part
    /// in it.
    pub(crate) fn rescale(&self, now: Time, online: impl Fn() -> usize) {
        let free = lock(&self.free);
        let online = online();
        for id in self.ids() {
            for pool in lock(&self.group(id).pools).iter_mut() {
                pool.set_part(now, self.part(pool.limit(), online));
            }
        }
        drop(free);
    }

    /// Asserts that the pools of a group have the budget that the CPUs do not hold. `held` is the budget that each CPU
    /// holds.
    pub(crate) fn check(&self, group: GroupId, held: &[Nanos]) {
        if self.check_bandwidth(group, || held.iter().copied().fold(Nanos::ZERO, |a, b| a + b)) {
            return;
        }
        let pools = lock(&self.group(group).pools);
        match pools.len() {
            1 => pools[0].check(held.iter().copied().fold(Nanos::ZERO, |a, b| a + b)),
            _ => pools.iter().zip(held).for_each(|(pool, &held)| pool.check(held)),
        }
    }

    /// Asserts the same for the kernel's bandwidth, if the limit is that. Returns whether it is.
    fn check_bandwidth(&self, group: GroupId, held: impl Fn() -> Nanos) -> bool {
        let bandwidth = lock(&self.group(group).bandwidth);
        bandwidth.iter().for_each(|it| it.check(held()));
        bandwidth.is_some()
    }

    /// Asserts the same for the pools in which `cpu` has a part. `held` is the budget that the CPU holds, and `all`
    /// that of all CPUs.
    pub(crate) fn check_part(&self, group: GroupId, cpu: CpuId, held: Nanos, all: Nanos) {
        if self.check_bandwidth(group, || all) {
            return;
        }
        let pools = lock(&self.group(group).pools);
        match pools.len() {
            1 => pools[0].check(all),
            _ => pools.get(cpu.index()).into_iter().for_each(|pool| pool.check(held)),
        }
    }

    /// Returns a CPU that waits for budget of a group although its pool has some. `claims` returns the number of CPUs
    /// with a claim to that budget.
    pub(crate) fn waits_in_vain(
        &self,
        now: Time,
        group: GroupId,
        claims: impl Fn() -> u32,
    ) -> Option<CpuId> {
        let with = |claims| {
            lock(&self.group(group).pools).iter().find_map(|pool| pool.waits_in_vain(now, claims))
        };
        with(0).and_then(|waits| if self.shared { with(claims()) } else { Some(waits) })
    }

    /// Returns a CPU that waits for the bandwidth of a group beside more than a slice of it
    /// ([`CfsBandwidth::waits_beside_slice`]).
    pub(crate) fn waits_beside_slice(&self, now: Time, group: GroupId) -> Option<CpuId> {
        self.with_bandwidth(group, |pool| pool.waits_beside_slice(now)).flatten()
    }

    fn part(&self, limit: Limit, online: usize) -> Part {
        let n = online.max(1) as u64;
        let (runtime, burst) = (limit.runtime().0, limit.burst().0);
        let [quota, burst, of_cpu] = match (self.shared, limit.is_per_cpu()) {
            (true, true) => [runtime * n, burst * n, runtime],
            (true, false) => [runtime, burst, runtime / n],
            (false, true) => [runtime, burst, runtime],
            (false, false) => [runtime / n, burst / n, runtime / n],
        };
        Part { quota: Nanos(quota), burst: Nanos(burst), of_cpu: Nanos(of_cpu) }
    }

    /// Recomputes which groups have a limit above them.
    fn renew_limited(&self) {
        for id in self.ids().skip(1) {
            let bits = self.bits(id) & !ABOVE | self.is_below_limit(id);
            self.group(id).limited.store(bits, Ordering::Release);
        }
    }

    /// Returns [`ABOVE`] if a group above this one has a limit.
    fn is_below_limit(&self, id: GroupId) -> u8 {
        let mut above = self.parent(id);
        while above != GroupId::ROOT && self.bits(above) & OWN == 0 {
            above = self.parent(above);
        }
        if above == GroupId::ROOT { 0 } else { ABOVE }
    }

    fn bits(&self, group: GroupId) -> u8 {
        self.group(group).limited.load(Ordering::Acquire)
    }

    fn group(&self, group: GroupId) -> &Group {
        &self.groups[group.index()]
    }
}

/// Stores a pool at a place, or removes the last pool. Returns the pool that was replaced or removed.
fn exchange(pools: &mut Vec<Pool>, at: usize, new: Option<Pool>) -> Option<Pool> {
    match new {
        None => pools.pop(),
        Some(new) if at < pools.len() => Some(std::mem::replace(&mut pools[at], new)),
        Some(new) => {
            pools.push(new);
            None
        }
    }
}

/// Returns the delay of a group's periods against those of other groups with the same limit, at most a sixteenth of a
/// period. It keeps a thousand groups from a refill at one moment. Multiples of the golden ratio stay apart from each
/// other for any number of groups.
fn stagger(group: GroupId, limit: Limit) -> Nanos {
    const GOLDEN: u32 = 0x9E37_79B9;
    let fraction = u64::from(group.0.wrapping_mul(GOLDEN));
    Nanos(((limit.period().0 / 16) * (fraction >> 16)) >> 16)
}

impl Pools for GroupTable {
    fn has_limit(&self, group: GroupId) -> bool {
        self.bits(group) & OWN != 0
    }

    fn is_limited(&self, group: GroupId) -> bool {
        self.bits(group) != 0
    }

    fn has_bandwidth(&self, group: GroupId) -> bool {
        self.bits(group) & BANDWIDTH != 0
    }

    fn with_bandwidth<R>(
        &self,
        group: GroupId,
        act: impl FnOnce(&mut CfsBandwidth) -> R,
    ) -> Option<R> {
        lock(&self.group(group).bandwidth).as_mut().map(act)
    }

    fn with_pool<R>(
        &self,
        group: GroupId,
        cpu: CpuId,
        act: impl FnOnce(&mut Pool) -> R,
    ) -> Option<R> {
        let mut pools = lock(&self.group(group).pools);
        let at = if self.shared { 0 } else { cpu.index() };
        pools.get_mut(at).map(act)
    }
}

impl Groups for GroupTable {
    fn count(&self) -> usize {
        self.groups.len()
    }

    fn parent(&self, group: GroupId) -> GroupId {
        GroupId(self.group(group).parent.load(Ordering::Acquire))
    }

    fn weight(&self, group: GroupId) -> Weight {
        let weight = self.group(group).weight.load(Ordering::Relaxed);
        Weight::new(weight.into()).expect("it was a weight")
    }

    fn cookie(&self, group: GroupId) -> Option<Cookie> {
        Cookie::new(self.group(group).cookie.load(Ordering::Acquire))
    }

    fn is_idle(&self, group: GroupId) -> bool {
        self.group(group).idle.load(Ordering::Relaxed)
    }

    fn latency_nice(&self, group: GroupId) -> LatencyNice {
        let value = self.group(group).latency_nice.load(Ordering::Relaxed).cast_signed();
        LatencyNice::new(value.into()).expect("it was a latency nice value")
    }

    fn exchange_load(&self, group: GroupId, old: u64, new: u64) -> u64 {
        let delta = new.wrapping_sub(old);
        let load = &self.group(group).load;
        load.fetch_add(delta, Ordering::AcqRel).wrapping_add(delta)
    }

    fn exchange_blocked(&self, group: GroupId, period: u64, old: u64, new: u64) -> u64 {
        let word = &self.group(group).blocked;
        let aged = |bits: u64| Blocked::from_bits(bits).at(period);
        let mut bits = word.load(Ordering::Acquire);
        if old == new {
            return aged(bits).get();
        }
        loop {
            let next = aged(bits).exchange(old, new);
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            match word.compare_exchange(bits, next.to_bits(), success, failure) {
                Ok(_) => return next.get(),
                Err(is) => bits = is,
            }
        }
    }
}
