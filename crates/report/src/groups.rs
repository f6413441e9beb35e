//! Task groups in a report: what they ran, what their limits are, and what these did to them.
//!
//! What was executed follows from the events. What a limit did does not, since a budget is drawn
//! without a word about it: the host hands over what the scheduler counted ([`Usage`]).

use crate::figure::Figure;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::{Limit, Usage, UsageOnCpu};
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// What a host knows about a task group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupInfo {
    /// Its path from the root, as `/web/api`.
    pub path: String,
    /// The group of which it is a child; `None` for `/`.
    pub parent: Option<GroupId>,
    /// What it may use at the most.
    pub limit: Option<Limit>,
    /// What its limit did to it, nothing if it has none; `None` if the host cannot know.
    pub usage: Option<GroupUsage>,
}

/// What a limit did to a group: all in all, and on the CPUs, each at most once.
pub type GroupUsage = (Usage, Vec<(CpuId, UsageOnCpu)>);

/// One task group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Its path.
    pub path: String,
    /// What the tasks in it and in the groups below it executed.
    pub runtime_ns: Figure,
    /// Periods of its limit in which it drew of its budget or wanted to.
    pub nr_periods: Figure,
    /// Those of the periods in which it was throttled on some CPU.
    pub nr_throttled: Figure,
    /// How long it was throttled, summed over CPUs.
    pub throttled_ns: Figure,
    /// Those of the periods in which it used more than its quota.
    pub nr_bursts: Figure,
    /// What it used above its quota in them.
    pub burst_ns: Figure,
    /// What CPUs used beyond their own parts of the runtime.
    pub borrowed_ns: Figure,
    /// What it asks for; `None` if for no limit.
    #[serde(default)]
    pub limit: Option<LimitReport>,
    /// The path of the group above it that has less than it asks for: the one that has least, the
    /// nearest of several. `None` if it asks for no limit, or nobody has less.
    #[serde(default)]
    pub held_by: Option<String>,
    /// The CPUs on which it used something of its limit or was throttled, from 0; `None` if the
    /// host cannot know them.
    #[serde(default)]
    pub cpus: Option<Vec<GroupCpuReport>>,
}

/// The limit of a task group, with the keys of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReport {
    /// CPU time in a period.
    pub runtime_us: u64,
    /// The window of the limit.
    pub period_us: u64,
    /// What may be carried over from one period to the next.
    pub burst_us: u64,
    /// Whether the runtime is each CPU's own.
    pub per_cpu: bool,
}

/// What the limit of a task group did on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCpuReport {
    /// Its number.
    pub cpu: usize,
    /// What the group used there of its limit.
    pub used_ns: u64,
    /// How often it was throttled there.
    pub nr_throttled: u64,
    /// How long it was throttled there.
    pub throttled_ns: u64,
    /// What it used there beyond the CPU's own part of the runtime of each period.
    pub borrowed_ns: u64,
}

/// The reports of these `groups` on a machine of so many `cpus`, when the tasks of each ran `own`
/// while they were in the group itself: that counts for it and for all groups above it.
///
/// # Panics
/// If there is not one of `own` for each group, or a parent is not among the groups.
#[must_use]
pub fn group_reports(groups: &[GroupInfo], own: &[Nanos], cpus: usize) -> Vec<GroupReport> {
    assert_eq!(groups.len(), own.len(), "each group ran for some time, or for none");
    let mut runtimes = vec![Nanos::ZERO; groups.len()];
    for (at, &own) in own.iter().enumerate() {
        runtimes[at] += own;
        above(groups, at).for_each(|ancestor| runtimes[ancestor] += own);
    }
    let report = |(at, runtime): (usize, Nanos)| {
        let held_by = holder(groups, at, cpus).map(|holder| groups[holder].path.clone());
        GroupReport::new(&groups[at], runtime, held_by)
    };
    runtimes.into_iter().enumerate().map(report).collect()
}

/// The groups above the one at `at`, from its parent to the root.
fn above(groups: &[GroupInfo], at: usize) -> impl Iterator<Item = usize> {
    let parent = |&at: &usize| Some(groups[at].parent?.index());
    std::iter::successors(parent(&at), parent).take(groups.len())
}

/// The group that holds the one at `at` below what it asks for.
fn holder(groups: &[GroupInfo], at: usize, cpus: usize) -> Option<usize> {
    let asked = groups[at].limit?;
    let limits = above(groups, at).filter_map(|above| Some((above, groups[above].limit?)));
    let (holder, least) = limits.min_by(|(_, a), (_, b)| compare(a, b, cpus))?;
    (compare(&least, &asked, cpus) == Ordering::Less).then_some(holder)
}

/// Which of two limits is less CPU time in the same time, over all of a machine's CPUs.
fn compare(a: &Limit, b: &Limit, cpus: usize) -> Ordering {
    let granted = |it: &Limit| {
        let shares = if it.is_per_cpu() { cpus.max(1) } else { 1 };
        u128::from(it.runtime().0) * shares as u128
    };
    let period = |it: &Limit| u128::from(it.period().0);
    (granted(a) * period(b)).cmp(&(granted(b) * period(a)))
}

impl GroupReport {
    fn new(group: &GroupInfo, runtime: Nanos, held_by: Option<String>) -> GroupReport {
        let usage = group.usage.as_ref().map(|(all, _)| *all);
        let span = |part: fn(&Usage) -> Nanos| usage.as_ref().map(|usage| part(usage).0);
        GroupReport {
            path: group.path.clone(),
            runtime_ns: Some(runtime.0),
            nr_periods: usage.map(|usage| usage.nr_periods),
            nr_throttled: usage.map(|usage| usage.nr_throttled),
            throttled_ns: span(|usage| usage.throttled),
            nr_bursts: usage.map(|usage| usage.nr_bursts),
            burst_ns: span(|usage| usage.burst),
            borrowed_ns: span(|usage| usage.borrowed),
            limit: group.limit.map(LimitReport::from),
            held_by,
            cpus: group.usage.as_ref().map(|(_, on)| cpu_reports(on)),
        }
    }

    /// Whether there is something to say about a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some() || self.nr_periods.is_some_and(|n| n > 0)
    }

    /// What it used of its limit, with the scheduler's work for it. Where that is not known, what its tasks
    /// ran.
    pub(crate) fn used_ns(&self) -> Figure {
        match &self.cpus {
            Some(cpus) => Some(cpus.iter().map(|cpu| cpu.used_ns).sum()),
            None => self.runtime_ns,
        }
    }

    /// What its limit comes to in `duration_ns` on so many `cpus`, rounded down.
    pub(crate) fn granted_ns(&self, duration_ns: u64, cpus: usize) -> Figure {
        let LimitReport { runtime_us, period_us, per_cpu, .. } = self.limit?;
        let shares = if per_cpu { cpus.max(1) } else { 1 };
        let all = u128::from(runtime_us) * shares as u128 * u128::from(duration_ns);
        u64::try_from(all.checked_div(u128::from(period_us))?).ok()
    }

    /// Those of its periods in which it was throttled, as parts of a million.
    pub(crate) fn throttled_share(&self) -> Figure {
        let (throttled, periods) = self.nr_throttled.zip(self.nr_periods)?;
        let millionths = u128::from(throttled) * 1_000_000;
        u64::try_from(millionths.checked_div(u128::from(periods))?).ok()
    }

    /// The CPU on which most of its limit was used.
    pub(crate) fn drew_most(&self) -> Option<usize> {
        self.first_by(|cpu| cpu.used_ns)
    }

    /// The CPU on which it was throttled for longest.
    pub(crate) fn throttled_most(&self) -> Option<usize> {
        self.first_by(|cpu| cpu.throttled_ns)
    }

    /// The first CPU with the most of some `figure`, if that is not 0.
    fn first_by(&self, figure: impl Fn(&GroupCpuReport) -> u64) -> Option<usize> {
        let cpus = self.cpus.as_deref().unwrap_or_default();
        let first = cpus.iter().rev().max_by_key(|&cpu| figure(cpu))?;
        (figure(first) > 0).then_some(first.cpu)
    }
}

impl From<Limit> for LimitReport {
    fn from(limit: Limit) -> LimitReport {
        let micros = |span: Nanos| span.0 / 1_000;
        LimitReport {
            runtime_us: micros(limit.runtime()),
            period_us: micros(limit.period()),
            burst_us: micros(limit.burst()),
            per_cpu: limit.is_per_cpu(),
        }
    }
}

/// The CPUs of which there is something to say.
fn cpu_reports(on: &[(CpuId, UsageOnCpu)]) -> Vec<GroupCpuReport> {
    let report = |&(cpu, did): &(CpuId, UsageOnCpu)| GroupCpuReport {
        cpu: cpu.index(),
        used_ns: did.used.0,
        nr_throttled: did.nr_throttled,
        throttled_ns: did.throttled.0,
        borrowed_ns: did.borrowed.0,
    };
    let told = on.iter().filter(|(_, did)| *did != UsageOnCpu::default());
    let mut cpus: Vec<_> = told.map(report).collect();
    cpus.sort_by_key(|cpu| cpu.cpu);
    cpus
}
