//! Task groups in a report: their runtimes, their limits, and the effects of the limits.
//!
//! The runtime follows from the events. The effect of a limit does not, since drawing of a budget has no event: the
//! host hands over the scheduler's counts ([`Usage`]).

use crate::figure::Figure;
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuId;
use runyard_engine::limits::{Limit, Usage, UsageOnCpu};
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The facts about a task group that a host knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupInfo {
    /// Its path from the root, as `/web/api`.
    pub path: String,
    /// The parent group; `None` for `/`.
    pub parent: Option<GroupId>,
    /// Its limit, if it has one.
    pub limit: Option<Limit>,
    /// The effect of its limit, zero if it has none; `None` if the host cannot know it.
    pub usage: Option<GroupUsage>,
}

/// The effect of a limit on a group: in total, and on each CPU at most once.
pub type GroupUsage = (Usage, Vec<(CpuId, UsageOnCpu)>);

/// One task group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Its path.
    pub path: String,
    /// The runtime of the tasks in it and in the groups below it.
    pub runtime_ns: Figure,
    /// Periods of its limit in which it drew of its budget or wanted to.
    pub nr_periods: Figure,
    /// The number of these periods in which it was throttled on some CPU.
    pub nr_throttled: Figure,
    /// The time that it was throttled, summed over CPUs.
    pub throttled_ns: Figure,
    /// The number of periods in which it used more than its quota.
    pub nr_bursts: Figure,
    /// The time that it used above its quota in these periods.
    pub burst_ns: Figure,
    /// The time that CPUs used beyond their own parts of the runtime.
    pub borrowed_ns: Figure,
    /// Its limit; `None` if it has none.
    #[serde(default)]
    pub limit: Option<LimitReport>,
    /// The path of the ancestor that has less than this group's limit: the one with the least, and of several the
    /// nearest. `None` if this group has no limit, or no ancestor has less.
    #[serde(default)]
    pub held_by: Option<String>,
    /// The CPUs on which it used some of its limit or was throttled, from 0; `None` if the host cannot know them.
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
    /// The time that may be carried over from one period to the next.
    pub burst_us: u64,
    /// Whether each CPU has this runtime.
    pub per_cpu: bool,
}

/// The effect of a task group's limit on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCpuReport {
    /// Its number.
    pub cpu: usize,
    /// The time of the limit that the group used there.
    pub used_ns: u64,
    /// The number of times that it was throttled there.
    pub nr_throttled: u64,
    /// The time that it was throttled there.
    pub throttled_ns: u64,
    /// The time that it used there beyond the CPU's own part of the runtime of each period.
    pub borrowed_ns: u64,
}

/// The reports of these `groups` on a machine of so many `cpus`. `own` has the runtime of each group's own tasks; it
/// counts for the group and for all groups above it.
///
/// # Panics
/// If the length of `own` is not that of `groups`, or a parent is not among the groups.
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

/// The groups above the group at index `at`, from its parent to the root.
fn above(groups: &[GroupInfo], at: usize) -> impl Iterator<Item = usize> {
    let parent = |&at: &usize| Some(groups[at].parent?.index());
    std::iter::successors(parent(&at), parent).take(groups.len())
}

/// The ancestor that holds the group at index `at` below its own limit.
fn holder(groups: &[GroupInfo], at: usize, cpus: usize) -> Option<usize> {
    let asked = groups[at].limit?;
    let limits = above(groups, at).filter_map(|above| Some((above, groups[above].limit?)));
    let (holder, least) = limits.min_by(|(_, a), (_, b)| compare(a, b, cpus))?;
    (compare(&least, &asked, cpus) == Ordering::Less).then_some(holder)
}

/// Compares two limits by the CPU time that they allow in the same time, over all CPUs.
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

    /// Whether the group has a limit to show.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some() || self.nr_periods.is_some_and(|n| n > 0)
    }

    /// The used time of its limit, including the scheduler's work for it. If that is unknown, the runtime of its tasks.
    pub(crate) fn used_ns(&self) -> Figure {
        match &self.cpus {
            Some(cpus) => Some(cpus.iter().map(|cpu| cpu.used_ns).sum()),
            None => self.runtime_ns,
        }
    }

    /// The time that its limit allows in `duration_ns` on so many `cpus`, rounded down.
    pub(crate) fn granted_ns(&self, duration_ns: u64, cpus: usize) -> Figure {
        let LimitReport { runtime_us, period_us, per_cpu, .. } = self.limit?;
        let shares = if per_cpu { cpus.max(1) } else { 1 };
        let all = u128::from(runtime_us) * shares as u128 * u128::from(duration_ns);
        u64::try_from(all.checked_div(u128::from(period_us))?).ok()
    }

    /// The part of its periods in which it was throttled, in parts of a million.
    pub(crate) fn throttled_share(&self) -> Figure {
        let (throttled, periods) = self.nr_throttled.zip(self.nr_periods)?;
        let millionths = u128::from(throttled) * 1_000_000;
        u64::try_from(millionths.checked_div(u128::from(periods))?).ok()
    }

    /// The CPU on which most of its limit was used.
    pub(crate) fn drew_most(&self) -> Option<usize> {
        self.first_by(|cpu| cpu.used_ns)
    }

    /// The CPU on which it was throttled longest.
    pub(crate) fn throttled_most(&self) -> Option<usize> {
        self.first_by(|cpu| cpu.throttled_ns)
    }

    /// The first CPU with the largest `figure`, if that is not 0.
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

/// The CPUs with a figure that is not 0.
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
