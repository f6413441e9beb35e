//! Task groups in a report: their runtimes, their limits, and the effects of the limits.
//!
//! The runtime follows from the events. The effect of a limit does not, since drawing of a budget has no event: the
//! host hands over the scheduler's counts ([`Usage`]).

use crate::column::Place::{Limits, Page, Text};
use crate::column::{
    Cell, Scale, View, columns, counted, figures, part, placed, seldom, spanned, texts,
};
use crate::figure::{Figure, Unit};
use crate::names::shortened;
use crate::units::UNKNOWN;
use crate::why::CauseTimes;
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

columns! {
    /// One task group.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GroupReport from(group: &GroupInfo, runtime: Nanos, holder: Option<String>) {
        /// The path of the group.
        path: String = group.path.clone(), [
            texts(&[(Text, "group"), (Limits, "\ngroup")], |it, _| shortened(&it.path)),
            texts(&[(Page, "task group")], |it, _| it.path.clone()),
        ];
        /// The runtime of the tasks in it and in the groups below it.
        runtime_ns: Figure = Some(runtime.0), [
            figures(&[(Text, "runtime"), (Page, "runtime")], |it, _| spanned(it.runtime_ns)),
            figures(&[(Text, "%cpu"), (Page, "% of a CPU")], |it, row| part(it.runtime_ns, row.whole_ns)),
            figures(&[(Limits, "\n%limit"), (Page, "% of limit")], GroupReport::part_of_limit),
            View::Compared("runtime", Unit::Span, |it| it.runtime_ns),
            View::Compared("limit", Unit::Share, |it| it.limit.map(LimitReport::share_of_a_cpu)),
        ];
        /// Periods of its limit in which it drew of its budget or wanted to.
        nr_periods: Figure = group.used().map(|it| it.nr_periods), [
            figures(&[(Limits, "\nperiods"), (Page, "periods")], |it, _| counted(it.nr_periods)),
        ];
        /// The number of these periods in which it was throttled on some CPU.
        nr_throttled: Figure = group.used().map(|it| it.nr_throttled), [
            // The first line of the titles has "throttled" over three columns, and "bursts" over two.
            figures(&[(Limits, "throttled\nin"), (Page, "throttled")], |it, _| counted(it.nr_throttled)),
            View::Compared("throttled", Unit::Count, |it| it.nr_throttled),
            View::Compared("of its periods", Unit::Share, GroupReport::throttled_share),
        ];
        /// The time that it was throttled, summed over CPUs.
        throttled_ns: Figure = group.used().map(|it| it.throttled.0), [
            figures(&[(Limits, "\nfor"), (Page, "throttled for")], |it, _| spanned(it.throttled_ns)),
            figures(&[(Limits, "\nmost on"), (Page, "most on")], |it, _| placed(it.throttled_most())),
            View::Compared("throttled for", Unit::Delay, |it| it.throttled_ns),
        ];
        /// The number of periods in which it used more than its quota.
        nr_bursts: Figure = group.used().map(|it| it.nr_bursts), [
            figures(&[(Limits, "bursts\nin"), (Page, "bursts")], |it, _| counted(it.nr_bursts)),
            View::Compared("bursts", Unit::Count, |it| it.nr_bursts),
        ];
        /// The time that it used above its quota in these periods.
        burst_ns: Figure = group.used().map(|it| it.burst.0), [
            figures(&[(Limits, "\nof"), (Page, "burst time")], |it, _| spanned(it.burst_ns)),
        ];
        /// The time that CPUs used beyond their own parts of the runtime.
        borrowed_ns: Figure = group.used().map(|it| it.borrowed.0), [
            figures(&[(Limits, "\nborrowed"), (Page, "borrowed")], |it, _| spanned(it.borrowed_ns)),
            figures(&[(Limits, "drew most\non"), (Page, "drew most")], |it, _| placed(it.drew_most())),
            View::Compared("borrowed", Unit::Span, |it| it.borrowed_ns),
        ];
        /// Its limit: `runtime_us`, `period_us`, `burst_us`, `per_cpu`; `null` if it has none.
        #[serde(default)]
        limit: Option<LimitReport> = group.limit.map(LimitReport::from), [
            texts(&[(Limits, "\nlimit")], |it, _| it.limit.map_or_else(|| UNKNOWN.to_owned(), LimitReport::in_words)),
            texts(&[(Page, "limit")], |it, _| it.limit.map(LimitReport::in_words).unwrap_or_default()),
        ];
        /// The path of the ancestor that has less than this group's limit: the one with the least, and of several the
        /// nearest. `null` if this group has no limit, or no ancestor has less.
        #[serde(default)]
        held_by: Option<String> = holder, [
            texts(&[(Page, "held by")], |it, _| it.held_by.clone().unwrap_or_default()),
        ];
        /// The CPUs on which it used some of its limit or was throttled, from 0: `cpu`, `used_ns`, `nr_throttled`,
        /// `throttled_ns`, `borrowed_ns`. `null` if the host cannot know them.
        #[serde(default)]
        cpus: Option<Vec<GroupCpuReport>> = group.usage.as_ref().map(|(_, on)| cpu_reports(on)), [];
        /// The time in which some task of it, or of a group below it, was runnable and had no CPU (`some` of `cpu.pressure`).
        #[serde(default)]
        pressure_some_ns: Figure = None, [
            seldom(&[(Text, "%some"), (Page, "pressure: some, %")], GroupReport::some, |it, _| it.pressure_some_ns.is_some()),
        ];
        /// The part of that time in which none of these tasks had a CPU (`full` of `cpu.pressure`).
        #[serde(default)]
        pressure_full_ns: Figure = None, [
            seldom(&[(Text, "%full"), (Page, "full, %")], GroupReport::full, |it, _| it.pressure_full_ns.is_some()),
        ];
        /// The time that the tasks in it and in the groups below it waited, by cause; `null` if the host cannot know the
        /// causes. A task counts where it was when it waited.
        #[serde(default)]
        waits: Option<CauseTimes> = None, [];
    }
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

columns! {
    /// The effect of a task group's limit on one CPU.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct GroupCpuReport from(number: CpuId, did: UsageOnCpu) {
        /// Its number.
        cpu: usize = number.index(), [figures(&[(Page, "CPU")], |it, _| placed(Some(it.cpu)))];
        /// The time of the limit that the group used there.
        used_ns: u64 = did.used.0, [figures(&[(Page, "used")], |it, _| spanned(Some(it.used_ns)))];
        /// The number of times that it was throttled there.
        nr_throttled: u64 = did.nr_throttled, [figures(&[(Page, "throttled")], |it, _| counted(Some(it.nr_throttled)))];
        /// The time that it was throttled there.
        throttled_ns: u64 = did.throttled.0, [figures(&[(Page, "throttled for")], |it, _| spanned(Some(it.throttled_ns)))];
        /// The time that it used there beyond the CPU's own part of the runtime of each period.
        borrowed_ns: u64 = did.borrowed.0, [figures(&[(Page, "borrowed")], |it, _| spanned(Some(it.borrowed_ns)))];
    }
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
        GroupReport::of(&groups[at], runtime, held_by)
    };
    runtimes.into_iter().enumerate().map(report).collect()
}

/// The waits of each group with those of the groups below it.
pub(crate) fn with_those_below(groups: &[GroupInfo], own: &[CauseTimes]) -> Vec<CauseTimes> {
    let mut all = own.to_vec();
    for (at, own) in own.iter().enumerate() {
        above(groups, at).for_each(|ancestor| all[ancestor].add(own));
    }
    all
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

impl GroupInfo {
    /// The effect of its limit, if the host knows it.
    fn used(&self) -> Option<&Usage> {
        self.usage.as_ref().map(|(all, _)| all)
    }
}

impl GroupReport {
    /// Whether the group has a limit to show.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some() || self.nr_periods.is_some_and(|n| n > 0)
    }

    /// The pressure on it, in per cent of the run.
    fn some(&self, scale: &Scale) -> Cell {
        part(self.pressure_some_ns, scale.duration_ns)
    }

    /// The full pressure on it, in per cent of the run.
    fn full(&self, scale: &Scale) -> Cell {
        part(self.pressure_full_ns, scale.duration_ns)
    }

    /// The part of its limit that it used, for a cell.
    fn part_of_limit(&self, scale: &Scale) -> Cell {
        let granted = self.granted_ns(scale.duration_ns, scale.cpus);
        part(self.used_ns().filter(|_| granted.is_some()), granted.unwrap_or(0))
    }

    /// The used time of its limit, including the scheduler's work for it. If that is unknown, the runtime of its tasks.
    fn used_ns(&self) -> Figure {
        match &self.cpus {
            Some(cpus) => Some(cpus.iter().map(|cpu| cpu.used_ns).sum()),
            None => self.runtime_ns,
        }
    }

    /// The time that its limit allows in `duration_ns` on so many `cpus`, rounded down.
    fn granted_ns(&self, duration_ns: u64, cpus: usize) -> Figure {
        let LimitReport { runtime_us, period_us, per_cpu, .. } = self.limit?;
        let shares = if per_cpu { cpus.max(1) } else { 1 };
        let all = u128::from(runtime_us) * shares as u128 * u128::from(duration_ns);
        u64::try_from(all.checked_div(u128::from(period_us))?).ok()
    }

    /// The part of its periods in which it was throttled, in parts of a million.
    fn throttled_share(&self) -> Figure {
        let (throttled, periods) = self.nr_throttled.zip(self.nr_periods)?;
        let millionths = u128::from(throttled) * 1_000_000;
        u64::try_from(millionths.checked_div(u128::from(periods))?).ok()
    }

    /// The CPU on which most of its limit was used.
    fn drew_most(&self) -> Option<usize> {
        self.first_by(|cpu| cpu.used_ns)
    }

    /// The CPU on which it was throttled longest.
    fn throttled_most(&self) -> Option<usize> {
        self.first_by(|cpu| cpu.throttled_ns)
    }

    /// The first CPU with the largest `figure`, if that is not 0.
    fn first_by(&self, figure: impl Fn(&GroupCpuReport) -> u64) -> Option<usize> {
        let cpus = self.cpus.as_deref().unwrap_or_default();
        let first = cpus.iter().rev().max_by_key(|&cpu| figure(cpu))?;
        (figure(first) > 0).then_some(first.cpu)
    }
}

impl LimitReport {
    /// The limit in words, to the microsecond: `20 ms/100 ms`, with the burst.
    fn in_words(self) -> String {
        let LimitReport { runtime_us, period_us, burst_us, per_cpu } = self;
        let shown = |us: u64| match us {
            _ if us.is_multiple_of(1_000_000) => format!("{} s", us / 1_000_000),
            _ if us.is_multiple_of(1_000) => format!("{} ms", us / 1_000),
            _ => format!("{us} us"),
        };
        let burst = if burst_us > 0 { format!(" +{}", shown(burst_us)) } else { String::new() };
        let whose = if per_cpu { " a CPU" } else { "" };
        format!("{}/{}{burst}{whose}", shown(runtime_us), shown(period_us))
    }

    /// The limit in parts of a million of one CPU.
    fn share_of_a_cpu(self) -> u64 {
        let millionths = u128::from(self.runtime_us) * 1_000_000;
        let share = millionths.checked_div(u128::from(self.period_us)).unwrap_or(0);
        u64::try_from(share).unwrap_or(u64::MAX)
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
    let told = on.iter().filter(|(_, did)| *did != UsageOnCpu::default());
    let mut cpus: Vec<_> = told.map(|&(cpu, did)| GroupCpuReport::of(cpu, did)).collect();
    cpus.sort_by_key(|cpu| cpu.cpu);
    cpus
}
