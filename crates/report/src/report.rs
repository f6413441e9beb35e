//! The report that scripts of users read. Its names and meanings are fixed: fields may be added, none may be renamed or
//! dropped.
//!
//! [`Report`] has exactly the fields of the JSON, in their order. A figure that a host cannot know is `None` here and
//! `null` in JSON, and so is an undefined figure, such as the mean of no samples; it is never a zero. The names of
//! fields have their units.

use crate::account::{CpuTotals, TaskTotals};
use crate::balance::BalanceReport;
use crate::chains::{BlockedReport, ChainReport};
use crate::collect::{Counts, Totals};
use crate::column::Place::{Brief, Cards, Foot, Page, Text};
use crate::column::{
    Cell, Scale, View, add, columns, counted, figures, part, seldom, spanned, texts,
};
use crate::cookies::{self, CookieReport, cookie_reports};
use crate::course::SeriesReport;
use crate::figure::{Figure, LatencyReport, Unit, sum};
use crate::groups::{GroupInfo, GroupReport, group_reports, with_those_below};
use crate::json::{self, Rows};
use crate::names::shortened;
use crate::series::{Distribution, HistoryReport, distributions};
use crate::units::rate_cell;
use crate::why::{Bad, CauseTimes, WorstReport};
use runyard_engine::attr::{Cookie, GroupId, Policy};
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::{Level, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// The name and version of the report's format.
pub const SCHEMA: &str = "runyard.report/1";

/// The facts that a host knows about a run besides its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// `sim`, `live` or `linux`.
    pub host: String,
    /// The name of the scenario.
    pub scenario: String,
    /// The seed of the run's random draws.
    pub seed: u64,
    /// The kernel: the model of a simulated machine, or on `linux` the release.
    pub kernel: Option<String>,
    /// The names of the features that were on.
    pub features: Vec<String>,
    /// The number of CPUs of the machine. A CPU without an event was idle.
    pub cpus: usize,
    /// The topology of its CPUs, if known.
    pub topology: Option<Topology>,
    /// The time that the host itself took, by the wall clock.
    pub wall: Nanos,
    /// One entry for each task instance, in the order of the scenario's file.
    pub tasks: Vec<TaskInfo>,
    /// The task groups at the indices of their [`GroupId`]s, `/` first.
    pub groups: Vec<GroupInfo>,
    /// The names of the cookies, in the order of their numbers.
    pub cookies: Vec<String>,
    /// The changes of the scenario's timeline in words, in the order of their times.
    pub changes: Vec<Timed>,
    /// The violations that the checks found.
    pub violations: Vec<Violation>,
    /// The results of the chains, in the order of the scenario's file.
    pub chains: Vec<ChainReport>,
    /// The latencies of the chains over time, if they are kept.
    pub chain_series: Vec<SeriesReport>,
    /// The tasks that wait without an end when the run is over.
    pub blocked_at_end: Vec<BlockedReport>,
}

/// The facts that a host knows about a task. Policy, latency nice, group and cookie are the initial ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Its name in the events.
    pub id: TaskId,
    /// Its name in the scenario; with a number if it has several instances.
    pub name: String,
    /// The thread of the scenario whose instance it is.
    pub thread: String,
    /// Its policy with its priority or nice value.
    pub policy: Policy,
    /// Its latency nice, -20..=19.
    pub latency_nice: i64,
    /// Its task group.
    pub group: GroupId,
    /// Its cookie, its own or that of its task group.
    pub cookie: Option<Cookie>,
    /// The largest delay of its timers; zero for a real-time task.
    pub slack: Nanos,
    /// The number of times that it reached its timer after the next period had begun.
    pub missed: Figure,
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: String,
    /// The time at which it was found; in JSON nanoseconds since the run's start.
    #[serde(rename = "at_ns", with = "json::instant")]
    pub at: Time,
    /// The observed state.
    pub what: String,
}

impl Violation {
    /// The violation of a run that ended at `end`, if the causes of the waits of tasks, CPUs or groups are not all of them.
    #[must_use]
    pub fn of_waits(totals: &Totals, end: Time) -> Option<Violation> {
        let violation =
            |what| Violation { invariant: "waits-have-causes".to_owned(), at: end, what };
        totals.broken_waits().map(violation)
    }
}

/// A change of the scenario's timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timed {
    /// Its time; in JSON nanoseconds since the run's start.
    #[serde(rename = "at_ns", with = "json::instant")]
    pub at: Time,
    /// The change in words.
    pub change: String,
}

/// The report of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// `sim`, `live` or `linux`.
    pub host: String,
    /// The name of the scenario.
    pub scenario: String,
    /// The seed of the run's random draws.
    pub seed: u64,
    /// The kernel: the model of the machine, or on `linux` its release; `None` in reports of older versions.
    #[serde(default)]
    pub kernel: Option<String>,
    /// The names of the features that were on.
    pub features: Vec<String>,
    /// The duration of the run on the host's clock, or of the part of it that counts.
    pub duration_ns: u64,
    /// The machine as a whole.
    pub machine: MachineReport,
    /// Each CPU, from 0.
    pub cpus: Vec<CpuReport>,
    /// Each task instance, in the order of the scenario's file.
    pub tasks: Vec<TaskReport>,
    /// Each task group, `/` first.
    pub groups: Vec<GroupReport>,
    /// Timers other than the ticks.
    pub timers: TimersReport,
    /// The scheduler and its host.
    pub engine: EngineReport,
    /// The violations that the checks found.
    pub violations: Vec<Violation>,
    /// The activity of the CPUs over time; `None` if the host does not know it or was not asked for it.
    #[serde(default)]
    pub history: Option<HistoryReport>,
    /// The wake-up latencies of the scenario's tasks, all instances of each together.
    #[serde(default)]
    pub latencies: Vec<Distribution>,
    /// The beginning of the part of the run that counts, in nanoseconds since the run's start; 0 for the whole run.
    #[serde(default)]
    pub from_ns: u64,
    /// The latencies over time: of the first 24 tasks of the scenario, task groups and chains, in this order. Those
    /// without a latency are left out; the list is empty if the host does not keep them or was not asked for them.
    #[serde(default)]
    pub series: Vec<SeriesReport>,
    /// The results of balancing, by level and moment, in this order. Only those with a pass are listed, so the list is
    /// empty if the host knows of none.
    #[serde(default)]
    pub balance: Vec<BalanceReport>,
    /// The cookies of the scenario, and last the tasks without one; empty if the scenario has none.
    #[serde(default)]
    pub cookies: Vec<CookieReport>,
    /// The chains of the scenario, in the order of its file.
    #[serde(default)]
    pub chains: Vec<ChainReport>,
    /// The tasks that wait without an end when the run is over, in the order of the tasks.
    #[serde(default)]
    pub blocked_at_end: Vec<BlockedReport>,
    /// The changes that the scenario's timeline made, in the order of their times. The JSON of a run without changes
    /// does not have the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Timed>,
}

columns! {
    /// The machine as a whole.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct MachineReport from(
        info: (usize, Option<Topology>),
        cpus_and_tasks: (&[CpuReport], &[TaskReport]),
        counts: Counts,
        wasted_times: Option<CauseTimes>,
        duration: Nanos
    ) {
        /// The number of CPUs.
        cpus: usize = info.0, [];
        /// Non-idle time divided by CPU time, 0 to 1, rounded to six digits.
        utilization: Option<f64> = utilization(cpus_and_tasks.0, duration), [
            View::Compared("utilization", Unit::Share, |it| it.utilization.map(millionths)),
        ];
        /// The number of times that a task got a CPU that it did not have before.
        switches: Figure = sum(cpus_and_tasks.0, |cpu| cpu.switches), [
            figures(&[(Foot, "switch"), (Cards, "Switches")], |it, _| counted(it.switches)),
            View::Compared("switches", Unit::Count, |it| it.switches),
        ];
        /// The number of times that a task lost its CPU to another task involuntarily.
        preemptions: Figure = sum(cpus_and_tasks.1, |task| task.preemptions), [
            figures(&[(Foot, "preemption"), (Cards, "Preemptions")], |it, _| counted(it.preemptions)),
            View::Compared("preemptions", Unit::Count, |it| it.preemptions),
        ];
        /// The number of times that a task first executed on another CPU than the last time. Wake-ups count.
        migrations: Figure = sum(cpus_and_tasks.1, |task| task.migrations), [
            figures(&[(Foot, "migration"), (Cards, "Migrations")], |it, _| counted(it.migrations)),
            View::Compared("migrations", Unit::Count, |it| it.migrations),
        ];
        /// Timer interrupts, including ticks.
        timer_interrupts: Figure = Some(counts.timer_interrupts), [
            figures(&[(Foot, "timer interrupt"), (Cards, "Timer interrupts")], |it, _| counted(it.timer_interrupts)),
            View::Compared("timer interrupts", Unit::Count, |it| it.timer_interrupts),
        ];
        /// The topology, as `NODESxCORES` or `NODESxCORESxTHREADS`; unknown in a report of an older version.
        #[serde(default)]
        topology: Option<String> = info.1.map(|topology| topology.to_string()), [];
        /// The time that its tasks waited, by cause; `null` if the host cannot know the causes.
        #[serde(default)]
        waits: Option<CauseTimes> = sum_times(cpus_and_tasks.1.iter().map(|task| task.waits)), [];
        /// Idle CPU time that waiting tasks could have used: at each moment as many of the idle CPUs as tasks wait.
        #[serde(default)]
        wasted_ns: Figure = wasted_times.map(|times| times.total()), [];
        /// The same time by what kept the tasks from the idle CPUs.
        #[serde(default)]
        wasted: Option<CauseTimes> = wasted_times, [];
    }
}

impl MachineReport {
    /// The number of CPUs of a node; all CPUs if the report has no topology.
    #[must_use]
    pub fn cpus_per_node(&self) -> usize {
        let topology = self.topology.as_ref().and_then(|shape| shape.parse::<Topology>().ok());
        let node = |topology: Topology| topology.span(CpuId::at(0), Level::Node).len();
        topology.filter(|it| it.cpus() == self.cpus).map_or(self.cpus, node)
    }
}

/// The figure of a comparison that runs without cookies lack.
pub(crate) const FORCED_IDLE: &str = "forced idle";

columns! {
    /// One CPU. Idle and busy time sum to the duration; real-time, normal, idle-policy and overhead time sum to the busy
    /// time.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CpuReport from(number: usize, did: &CpuTotals, causes: Option<CauseTimes>) {
        /// The number of the CPU.
        cpu: usize = number, [
            texts(&[(Text, "CPU")], |it, row| match row.things {
                0 | 1 => it.cpu.to_string(),
                _ => "all".to_owned(),
            }),
        ];
        /// Time not idle.
        busy_ns: Figure = Some(did.busy().0), [View::Summed(|all, it| add(&mut all.busy_ns, it.busy_ns))];
        /// Time idle.
        idle_ns: Figure = Some(did.idle.0), [View::Summed(|all, it| add(&mut all.idle_ns, it.idle_ns))];
        /// Time in SCHED_FIFO and SCHED_RR tasks.
        rt_ns: Figure = Some(did.rt.0), [
            figures(&[(Text, "%rt")], |it, row| part(it.rt_ns, row.whole_ns)),
            View::Summed(|all, it| add(&mut all.rt_ns, it.rt_ns)),
        ];
        /// Time in SCHED_OTHER and SCHED_BATCH tasks.
        normal_ns: Figure = Some(did.normal.0), [
            figures(&[(Text, "%normal")], |it, row| part(it.normal_ns, row.whole_ns)),
            View::Summed(|all, it| add(&mut all.normal_ns, it.normal_ns)),
        ];
        /// Time in SCHED_IDLE tasks.
        idle_policy_ns: Figure = Some(did.idle_policy.0), [
            figures(&[(Text, "%idlepol")], |it, row| part(it.idle_policy_ns, row.whole_ns)),
            View::Summed(|all, it| add(&mut all.idle_policy_ns, it.idle_policy_ns)),
        ];
        /// Time of the scheduler's own work.
        overhead_ns: Figure = Some(did.overhead.0), [
            figures(&[(Text, "%ovh")], |it, row| part(it.overhead_ns, row.whole_ns)),
            figures(&[(Text, "%idle")], |it, row| part(it.idle_ns, row.whole_ns)),
            View::Summed(|all, it| add(&mut all.overhead_ns, it.overhead_ns)),
        ];
        /// The number of times that a task got this CPU that did not have it before.
        switches: Figure = Some(did.switches), [
            figures(&[(Text, "switches/s")], |it, row| (it.switches, rate_cell(it.switches, row.duration_ns))),
            View::Summed(|all, it| add(&mut all.switches, it.switches)),
        ];
        /// The part of the idle time in which tasks waited here whose cookie is not the core's.
        #[serde(default)]
        forced_idle_ns: Figure = Some(did.forced.0), [
            seldom(
                &[(Text, "%forced")],
                |it, row| part(it.forced_idle_ns, row.whole_ns),
                |it, _| it.forced_idle_ns > Some(0),
            ),
            View::Compared(FORCED_IDLE, Unit::Delay, |it| it.forced_idle_ns),
            View::Summed(|all, it| add(&mut all.forced_idle_ns, it.forced_idle_ns)),
        ];
        /// The time that tasks waited here, by cause; `null` if the host cannot know the causes. Tasks on their way here count.
        #[serde(default)]
        waits: Option<CauseTimes> = causes, [
            View::Summed(|all, it| all.waits = sum_times([all.waits, it.waits])),
        ];
    }
}

columns! {
    /// One task instance. Runtime, wait and sleep sum to its lifetime.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TaskReport from(
        info: TaskInfo,
        did: &TaskTotals,
        group_and_cookie: (String, Option<String>),
        causes: Option<CauseTimes>,
        worst_waits: Vec<WorstReport>
    ) {
        /// Its name in the scenario; with a number (`web-3`) if the thread has several instances.
        name: String = info.name, [
            texts(&[(Text, "\ntask")], |it, _| shortened(&it.name)),
            texts(&[(Page, "task"), (Brief, "task")], |it, _| it.name.clone()),
            figures(&[(Brief, "n")], |_, row| (Some(row.things), row.things.to_string())),
        ];
        /// The name in sched(7) of its initial policy.
        policy: String = info.policy.to_string(), [
            texts(
                &[(Text, "\npolicy"), (Page, "policy")],
                |it, _| it.policy.strip_prefix("SCHED_").unwrap_or(&it.policy).to_owned(),
            ),
            figures(&[(Brief, "policy")], |it, _| (None, it.policy.clone())),
        ];
        /// Its initial real-time priority or nice value.
        priority: i64 = info.policy.priority(), [
            figures(&[(Text, "\nprio")], |it, _| (None, it.priority.to_string())),
            seldom(&[(Text, "\nn")], |_, row| counted(Some(row.things)), |_, row| row.things > 1),
            // A priority may be below 0, so its value alone does not sort it.
            figures(&[(Page, "prio")], |it, _| {
                (u64::try_from(it.priority.saturating_add(64)).ok(), it.priority.to_string())
            }),
        ];
        /// Its initial latency nice; unknown if the host has none.
        latency_nice: Option<i64> = Some(info.latency_nice), [];
        /// The path of its initial task group.
        group: String = group_and_cookie.0, [texts(&[(Page, "task group")], |it, _| it.group.clone())];
        /// Time executing.
        runtime_ns: Figure = Some(did.runtime.0), [
            figures(&[(Text, "\nruntime"), (Page, "runtime")], |it, _| spanned(it.runtime_ns)),
            figures(&[(Page, "% CPU"), (Brief, "% of a CPU")], |it, row| part(it.runtime_ns, row.whole_ns)),
            View::Compared("runtime", Unit::Span, |it| it.runtime_ns),
            View::Summed(|all, it| add(&mut all.runtime_ns, it.runtime_ns)),
        ];
        /// Time runnable and not executing.
        wait_ns: Figure = Some(did.wait.0), [
            figures(&[(Text, "\nwait"), (Page, "wait")], |it, _| spanned(it.wait_ns)),
            View::Compared("wait", Unit::Delay, |it| it.wait_ns),
            View::Summed(|all, it| add(&mut all.wait_ns, it.wait_ns)),
        ];
        /// Time blocked.
        sleep_ns: Figure = Some(did.sleep.0), [
            figures(&[(Page, "sleep")], |it, _| spanned(it.sleep_ns)),
            View::Summed(|all, it| add(&mut all.sleep_ns, it.sleep_ns)),
        ];
        /// The number of wake-ups. The start counts.
        wakeups: Figure = Some(did.wakeups), [
            figures(&[(Text, "wake-\nups"), (Page, "wake-ups")], |it, _| counted(it.wakeups)),
            figures(&[(Brief, "wake-ups")], |it, _| counted(it.wakeup_latency.count)),
            View::Summed(|all, it| add(&mut all.wakeups, it.wakeups)),
        ];
        /// The number of times that it got a CPU that it did not have before.
        switches: Figure = Some(did.switches), [View::Summed(|all, it| add(&mut all.switches, it.switches))];
        /// The number of times that it lost its CPU to another task involuntarily.
        preemptions: Figure = Some(did.preemptions), [
            figures(&[(Text, "pre-\nempted"), (Page, "preempted")], |it, _| counted(it.preemptions)),
            View::Summed(|all, it| add(&mut all.preemptions, it.preemptions)),
        ];
        /// The number of times that it first executed on another CPU than the last time. Wake-ups count.
        migrations: Figure = Some(did.migrations), [
            figures(&[(Text, "mi-\ngrated"), (Page, "migrated")], |it, _| counted(it.migrations)),
            seldom(&[(Text, "\nmissed")], |it, _| counted(it.missed), |it, _| it.missed > Some(0)),
            View::Summed(|all, it| add(&mut all.migrations, it.migrations)),
        ];
        /// The spans from the moment at which its condition came true to its first instruction.
        wakeup_latency: LatencyReport = LatencyReport::new(&did.wakeup_latency), [
            // The first line of the title has "wake-up latency" over three columns.
            seldom(&[(Text, "wake-up\np50")], |it, _| spanned(it.wakeup_latency.p50_ns), |_, row| !row.marks),
            seldom(&[(Text, "wake-up\np50 ")], |it, _| marked_p50(it), |_, row| row.marks),
            figures(&[(Page, "p50"), (Brief, "p50")], |it, _| spanned(it.wakeup_latency.p50_ns)),
            figures(&[(Page, "p90")], |it, _| spanned(it.wakeup_latency.p90_ns)),
            figures(
                &[(Text, "latency\np99"), (Page, "p99"), (Brief, "p99")],
                |it, _| spanned(it.wakeup_latency.p99_ns),
            ),
            figures(&[(Page, "p99.9")], |it, _| spanned(it.wakeup_latency.p999_ns)),
            figures(&[(Text, "\nmax"), (Page, "max"), (Brief, "max")], |it, _| spanned(it.wakeup_latency.max_ns)),
        ];
        /// The thread of the scenario whose instance it is; empty in a report without it.
        #[serde(default)]
        thread: String = info.thread, [];
        /// Its initial cookie, its own or that of its task group.
        #[serde(default)]
        cookie: Option<String> = group_and_cookie.1, [];
        /// The initial largest delay of its timers.
        #[serde(default)]
        slack_ns: Figure = Some(info.slack.0), [];
        /// The number of its wake-ups that were late mostly because of their timer: at least half of the latency was
        /// over when the timer expired. It is 0 for a task without slack.
        #[serde(default)]
        slack_wakeups: Figure = Some(if info.slack > Nanos::ZERO { did.slack_wakeups } else { 0 }), [
            View::Summed(|all, it| add(&mut all.slack_wakeups, it.slack_wakeups)),
        ];
        /// The number of times that it reached its `timer` after the next period had begun.
        #[serde(default)]
        missed: Figure = info.missed, [
            View::Compared("missed", Unit::Count, |it| it.missed),
            // Only periodic tasks have deadlines to miss.
            View::Summed(|all, it| all.missed = all.missed.into_iter().chain(it.missed).reduce(|a, b| a + b)),
        ];
        /// Its worst wake-ups, at most ten, the longest first.
        #[serde(default)]
        worst: Vec<WorstReport> = worst_waits, [];
        /// The parts of `wait_ns` by cause; `null` if the host cannot know the causes.
        #[serde(default)]
        waits: Option<CauseTimes> = causes, [
            View::Summed(|all, it| all.waits = sum_times([all.waits, it.waits])),
        ];
    }
}

/// The p50 with a mark if it is mostly timer slack.
fn marked_p50(task: &TaskReport) -> Cell {
    let (p50, shown) = spanned(task.wakeup_latency.p50_ns);
    (p50, shown + if task.is_late_by_slack() { "*" } else { " " })
}

impl TaskReport {
    /// Whether most of its wake-up latencies are mostly timer slack, so that other tasks did not cause its p50.
    #[must_use]
    pub fn is_late_by_slack(&self) -> bool {
        let counts = self.slack_wakeups.zip(self.wakeup_latency.count);
        counts.is_some_and(|(slack, all)| slack > all / 2)
    }
}

/// Timers other than the ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimersReport {
    /// Timers armed.
    pub armed: Figure,
    /// Timers expired and run.
    pub expired: Figure,
    /// Expired timers that only the greedy walk ran so early.
    pub greedy: Figure,
    /// Timers cancelled before they expired.
    pub cancelled: Figure,
}

/// The scheduler and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    /// Decisions of the scheduler.
    pub decisions: Figure,
    /// Events of the host.
    pub events: Figure,
    /// The time that the host took, by the wall clock: the only figure of a `sim` report that differs from run to run.
    pub wall_ns: Figure,
}

impl Scale {
    /// The scale of rows whose times are parts of the duration.
    pub(crate) fn of(report: &Report) -> Scale {
        let (duration_ns, cpus) = (report.duration_ns, report.machine.cpus);
        Scale { duration_ns, whole_ns: duration_ns, cpus, things: 1, marks: false }
    }
}

impl Report {
    /// The report of a run whose events were all collected.
    ///
    /// # Panics
    /// If a task of `info` was in a group that `info` does not have.
    #[must_use]
    pub fn new(info: RunInfo, totals: &Totals) -> Report {
        let counts = totals.counts();
        let history = totals.history().map(|history| {
            let of = (history, totals.wait_steps());
            HistoryReport::new(of, info.cpus, totals.duration())
        });
        let latency = |task: &TaskInfo| totals.task(task.id).map(|did| &did.wakeup_latency);
        let latencies =
            distributions(info.tasks.iter().map(|task| (task.thread.as_str(), latency(task))));
        let waits = totals.waits();
        let cpu = |number| {
            let cpu = CpuId::at(number);
            CpuReport::of(number, &totals.cpu(cpu), waits.map(|waits| waits.of_cpu(cpu)))
        };
        let cpus: Vec<_> = (0..info.cpus).map(cpu).collect();
        let first = info.tasks.iter().map(|task| (task.id, task.group));
        let in_groups = totals.group_runtimes(info.groups.len(), first);
        let mut groups = group_reports(&info.groups, &in_groups, info.cpus);
        let mut waits = waits.map(|waits| with_those_below(&info.groups, &waits.of_groups()));
        for (group, id) in groups.iter_mut().zip((0..).map(GroupId)) {
            group.waits = waits.as_mut().map(|waits| std::mem::take(&mut waits[id.index()]));
            let pressure = totals.pressure(id);
            group.pressure_some_ns = pressure.map(|it| it.some.0);
            group.pressure_full_ns = pressure.map(|it| it.full.0);
        }
        let ran = |task: &TaskInfo| {
            (task.cookie, totals.task(task.id).map_or(Nanos::ZERO, |did| did.runtime))
        };
        let cookies = cookie_reports(&info.cookies, info.tasks.iter().map(ran), |cookie| {
            Some(totals.forced_idle(cookie).0)
        });
        let mut timeline = info.changes;
        let end = totals.begin() + totals.duration();
        timeline.retain(|change| (totals.begin()..=end).contains(&change.at));
        let tasks = task_reports(info.tasks, (&info.groups, &info.cookies), totals);
        Report {
            schema: SCHEMA.to_owned(),
            host: info.host,
            scenario: info.scenario,
            seed: info.seed,
            kernel: info.kernel,
            features: info.features,
            duration_ns: totals.duration().0,
            from_ns: totals.begin().0,
            machine: MachineReport::of(
                (info.cpus, info.topology),
                (&cpus, &tasks),
                counts,
                totals.wasted(),
                totals.duration(),
            ),
            cpus,
            tasks,
            groups,
            timers: TimersReport::from(counts),
            engine: EngineReport {
                decisions: Some(counts.decisions),
                events: Some(counts.events),
                wall_ns: Some(info.wall.0),
            },
            violations: info.violations,
            history,
            latencies,
            series: [totals.series(), info.chain_series].concat(),
            balance: totals.balance_rows(),
            cookies,
            chains: info.chains,
            blocked_at_end: info.blocked_at_end,
            timeline,
        }
    }

    /// Writes the report as JSON, with one line for each CPU, task, group and violation.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Rows::default());
        self.serialize(&mut serializer)?;
        out.write_all(b"\n")
    }
}

impl From<Counts> for TimersReport {
    fn from(counts: Counts) -> TimersReport {
        TimersReport {
            armed: Some(counts.timers_armed),
            expired: Some(counts.timers_expired),
            greedy: Some(counts.timers_greedy),
            cancelled: Some(counts.timers_cancelled),
        }
    }
}

fn task_reports(
    infos: Vec<TaskInfo>,
    (groups, cookies): (&[GroupInfo], &[String]),
    totals: &Totals,
) -> Vec<TaskReport> {
    let nothing = TaskTotals::default();
    let worst = worst_reports(&infos, totals);
    let report = |(info, worst): (TaskInfo, Vec<WorstReport>)| {
        let did = totals.task(info.id).unwrap_or(&nothing);
        let group = groups[info.group.index()].path.clone();
        let cookie = cookies::name(cookies, info.cookie);
        let causes = totals.waits().map(|waits| waits.of_task(info.id));
        TaskReport::of(info, did, (group, cookie), causes, worst)
    };
    infos.into_iter().zip(worst).map(report).collect()
}

/// The worst wake-ups of each task.
fn worst_reports(infos: &[TaskInfo], totals: &Totals) -> Vec<Vec<WorstReport>> {
    let names: BTreeMap<_, _> = infos.iter().map(|info| (info.id, info.name.as_str())).collect();
    let name =
        |task: TaskId| names.get(&task).map_or_else(|| task.to_string(), |&name| name.to_owned());
    let report = |bad: &Bad| bad.report(&name);
    infos.iter().map(|info| totals.worst(info.id).iter().map(report).collect()).collect()
}

/// The sum of times by cause; `None` if one of them is unknown, or there is none.
fn sum_times(all: impl IntoIterator<Item = Option<CauseTimes>>) -> Option<CauseTimes> {
    let mut all = all.into_iter();
    let first = all.next()?;
    all.fold(first, |sum, one| {
        let (mut sum, one) = sum.zip(one)?;
        sum.add(&one);
        Some(sum)
    })
}

/// A share in parts of a million.
fn millionths(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * 1e6).round() as u64
}

/// The utilization, from integers, so that it is the same number on every machine; `None` for a run without time.
fn utilization(cpus: &[CpuReport], duration: Nanos) -> Option<f64> {
    const MILLION: u128 = 1_000_000;
    let busy: u128 = cpus.iter().map(|cpu| cpu.busy_ns.map(u128::from)).sum::<Option<u128>>()?;
    let all = cpus.len() as u128 * u128::from(duration.0);
    let millionths = (busy * MILLION + all / 2).checked_div(all)?;
    Some(f64::from(u32::try_from(millionths).expect("a CPU is busy at most all the time")) / 1e6)
}
