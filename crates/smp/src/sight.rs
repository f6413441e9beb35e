//! What every CPU sees of the machine without a lock: its configuration, its groups, and the [hints](crate::hints) that
//! CPUs publish for each other.

use crate::cores::Cores;
use crate::groups::GroupTable;
use crate::hints::Hints;
use crate::sync::Arc;
use runyard_engine::attr::{Attr, Cookie, Policy};
use runyard_engine::balance::{Domain, Measure, Seen, power_of_cpu};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::group::Groups;
use runyard_engine::run_queue::{Bounds, Importance, LoadAverages, Start};
use runyard_engine::task::Task;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;
use std::borrow::Cow;

/// The machine as every CPU sees it without a lock.
#[derive(Debug)]
pub struct Sight {
    pub(crate) config: Arc<Config>,
    pub(crate) all: CpuSet,
    pub(crate) hints: Hints,
    /// The levels with more than one CPU group to balance between, from small to large.
    pub(crate) domains: Box<[(Level, Domain)]>,
    pub(crate) groups: Arc<GroupTable>,
    /// The start of newcomers on each CPU, if the host may keep newcomers waiting itself.
    pub(crate) starts: Box<[Start]>,
    /// The cores, in machines with core scheduling.
    pub(crate) cores: Option<Cores>,
}

impl Sight {
    pub(crate) fn new(config: Arc<Config>, groups: Arc<GroupTable>, starts: Box<[Start]>) -> Sight {
        let (topology, features) = (config.topology, config.features);
        let n = topology.cpus();
        let domain = |level| (level, Domain::of(level, topology, features));
        Sight {
            all: CpuSet::first(n),
            hints: Hints::new(n),
            domains: topology.levels().map(domain).collect(),
            groups,
            starts,
            cores: config.cookies.then(|| Cores::new(topology)).flatten(),
            config,
        }
    }

    #[inline]
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.config.features.has(feature)
    }

    #[inline]
    pub(crate) fn nr_cpus(&self) -> usize {
        self.config.topology.cpus()
    }

    /// Returns the CPUs of the root domain of `cpu`, itself included.
    #[inline]
    pub(crate) fn peers(&self, cpu: CpuId) -> &CpuSet {
        self.config.domains.of(cpu).unwrap_or(&self.all)
    }

    /// Returns the part of `affinity` that is in the root domain of `cpu`. That is all of it if the domain has none of
    /// it, because the task then has to leave the domain.
    #[inline]
    #[must_use]
    pub fn within<'a>(&self, cpu: CpuId, affinity: &'a CpuSet) -> Cow<'a, CpuSet> {
        let Some(domain) = self.config.domains.of(cpu) else { return Cow::Borrowed(affinity) };
        let both = affinity.intersection(domain);
        if both.is_empty() { Cow::Borrowed(affinity) } else { Cow::Owned(both) }
    }

    /// Returns whether `cpu` has no load balance (`isolcpus`, an isolated partition).
    #[inline]
    #[must_use]
    pub fn is_isolated(&self, cpu: CpuId) -> bool {
        self.config.domains.is_isolated(cpu)
    }

    /// Returns whether `cpu` is online, as a hint.
    #[inline]
    #[must_use]
    pub fn is_online(&self, cpu: CpuId) -> bool {
        self.hints.online.contains(cpu)
    }

    #[inline]
    pub(crate) fn nr_online(&self) -> usize {
        self.hints.online.count(&self.all, 0..self.nr_cpus())
    }

    /// Returns the time by which the next timer interrupt of `cpu` must come.
    #[inline]
    #[must_use]
    pub fn next_expiry(&self, cpu: CpuId) -> Option<Time> {
        self.hints.next_expiry(cpu)
    }

    /// Does the same as [`Sight::next_expiry`] without the tick, which may come late. Returns [`Time::MAX`] if there
    /// is no timer.
    #[inline]
    #[must_use]
    pub fn next_timer(&self, cpu: CpuId) -> Time {
        self.hints.next_timer(cpu)
    }

    /// Returns whether a task waits for `cpu`, as a hint.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self, cpu: CpuId) -> bool {
        let seen = self.hints.counts(cpu);
        let waits_for_core = || self.cores.as_ref().is_some_and(|cores| cores.is_in_episode(cpu));
        match seen.nr_fair + seen.nr_rt {
            0 => false,
            1 => waits_for_core(),
            _ => true,
        }
    }

    /// Returns whether a real-time task runs on `cpu`, as a hint.
    #[inline]
    #[must_use]
    pub fn runs_rt(&self, cpu: CpuId) -> bool {
        matches!(self.hints.cpupri.of(cpu).importance, Importance::Rt(_))
    }

    /// Returns whether a real-time task runs or waits on `cpu`, as a hint.
    #[inline]
    #[must_use]
    pub fn has_rt(&self, cpu: CpuId) -> bool {
        self.hints.counts(cpu).nr_rt > 0
    }

    /// Returns an idle CPU that could take a task from `cpu`, as a hint.
    #[inline]
    #[must_use]
    pub fn idle_cpu_for(&self, cpu: CpuId) -> Option<CpuId> {
        let hints = &self.hints;
        let gives = hints.overloaded.contains(cpu) || hints.pushable(cpu).is_some();
        hints.idle.ring(&self.all, 0..self.nr_cpus(), cpu).next().filter(|_| gives)
    }

    /// Returns whether any task is on `cpu`, as a hint.
    #[inline]
    #[must_use]
    pub fn has_tasks(&self, cpu: CpuId) -> bool {
        let seen = self.hints.counts(cpu);
        seen.nr_fair + seen.nr_rt > 0
    }

    /// Returns whether the machine must place a new task that a host would otherwise keep waiting for `cpu`. This holds
    /// if real-time tasks are on `cpu`, or if some CPU has only SCHED_IDLE tasks, which would give way.
    #[inline]
    #[must_use]
    pub fn has_others_than_fair(&self, cpu: CpuId) -> bool {
        !self.hints.sched_idle.is_empty() || self.hints.counts(cpu).nr_rt > 0
    }

    /// Returns whether `cpu` is idle, as a hint.
    #[inline]
    #[must_use]
    pub fn is_idle(&self, cpu: CpuId) -> bool {
        self.hints.idle.contains(cpu)
    }

    /// Returns the next idle CPU other than `cpu`, as a hint.
    #[inline]
    #[must_use]
    pub fn idle_cpu_beside(&self, cpu: CpuId) -> Option<CpuId> {
        self.hints.idle.next_beside(cpu)
    }

    /// Returns the bound up to which the tasks of the batch of `cpu` precede all others. It is a hint, read without the
    /// lock.
    #[inline]
    #[must_use]
    pub fn batch_bounds(&self, cpu: CpuId) -> Bounds {
        Bounds { vruntime: self.hints.bound(cpu), until: None }
    }

    /// Returns whether a task with these attributes counts as SCHED_IDLE, by its policy or by a group above it.
    #[inline]
    #[must_use]
    pub fn counts_as_idle(&self, attr: &Attr) -> bool {
        attr.policy == Policy::Idle || self.groups.is_below_idle(attr.group)
    }

    /// Returns `cpu` if the task may run there now, else the next CPU where it may run, else `cpu`.
    pub(crate) fn usable_or_any(&self, task: &Task<impl Sized>, cpu: CpuId) -> CpuId {
        let affinity = &task.attr().affinity;
        if affinity.contains(cpu) && self.hints.online.contains(cpu) {
            return cpu;
        }
        self.hints.online.ring(affinity, 0..self.nr_cpus(), cpu).next().unwrap_or(cpu)
    }

    /// Returns the state of another CPU as a balancing CPU sees it. Under the rules of 5.5 this is the recent average,
    /// not the state of the moment.
    #[inline(always)]
    pub(crate) fn seen(&self, now: Time, cpu: CpuId, measure: Measure) -> Seen {
        let full = power_of_cpu(self.config.topology, self.config.features);
        let seen = self.hints.seen(now, cpu, full, measure);
        let lately = self.has(Feature::BalanceByRoom) && self.has(Feature::Pelt);
        if !lately || measure != Measure::All {
            return seen;
        }
        let LoadAverages { load, runnable, util } = self.hints.averages(now, cpu);
        Seen { load, runnable, util, ..seen }
    }

    /// Returns whether `cpu` has been idle for so long that SCHED_IDLE tasks must not wake it.
    #[inline]
    pub(crate) fn sleeps_deep(&self, now: Time, cpu: CpuId) -> bool {
        let deep = |since| now.since(since) >= self.config.deep_sleep;
        self.has(Feature::PowerSavings) && self.hints.idle_since(cpu).is_some_and(deep)
    }

    /// Returns the cookie of a task: its own, or that of its group.
    pub(crate) fn cookie_of(&self, task: &Task<impl Sized>) -> Option<Cookie> {
        self.cores.as_ref()?;
        self.groups.cookie_of(task.attr())
    }

    /// Returns the cookie that the core of `cpu` runs, if core scheduling is on and some thread of the core is busy. It
    /// is a hint, read without the core's lock.
    #[inline]
    #[must_use]
    pub fn core_runs(&self, cpu: CpuId) -> Option<Option<Cookie>> {
        let runs = self.cores.as_ref()?.word(cpu).runs?;
        let is_idle = |thread| self.hints.idle.contains(CpuId::at(thread));
        let idles = self.config.topology.span(cpu, Level::Smt).all(is_idle);
        (!idles).then_some(runs)
    }

    /// Returns whether a task with this cookie could run beside the tasks of the core of `cpu`
    /// (`sched_core_cookie_match`).
    #[inline]
    pub(crate) fn suits_core(&self, cpu: CpuId, cookie: Option<Cookie>) -> bool {
        self.core_runs(cpu).is_none_or(|runs| runs == cookie)
    }

    /// Returns whether a task with this cookie that waits on `from` gains from a move to `to`, which is idle. It gains
    /// if it would run at once or would wait among fewer tasks.
    #[inline]
    pub(crate) fn gains_at(&self, to: CpuId, from: CpuId, cookie: Option<Cookie>) -> bool {
        let on_core = |cpu| {
            let threads = self.config.topology.span(cpu, Level::Smt).map(CpuId::at);
            threads.map(|thread| self.hints.counts(thread).nr_fair).sum::<u32>()
        };
        self.suits_core(to, cookie) || on_core(to) + 1 < on_core(from)
    }
}
