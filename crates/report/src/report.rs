//! The report that scripts of users read. Its names and meanings are fixed: fields may be added, none may be renamed or
//! dropped.
//!
//! [`Report`] has exactly the fields of the JSON, in their order. A figure that a host cannot know is `None` here and
//! `null` in JSON, and so is an undefined figure, such as the mean of no samples; it is never a zero. The names of
//! fields have their units.

use crate::account::TaskTotals;
use crate::balance::BalanceReport;
use crate::chains::{BlockedReport, ChainReport};
use crate::collect::{Counts, Totals};
use crate::cookies::{self, CookieReport, cookie_reports};
use crate::figure::{Figure, LatencyReport, sum};
use crate::groups::{GroupInfo, GroupReport, group_reports};
use crate::json::{self, Rows};
use crate::series::{Distribution, HistoryReport, distributions};
use crate::why::{Bad, WorstReport};
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
    /// The violations that the checks found.
    pub violations: Vec<Violation>,
    /// The results of the chains, in the order of the scenario's file.
    pub chains: Vec<ChainReport>,
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
    /// The duration of the run on the host's clock.
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
}

/// The machine as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineReport {
    /// The number of its CPUs.
    pub cpus: usize,
    /// Non-idle time divided by CPU time, 0 to 1, rounded to six digits.
    pub utilization: Option<f64>,
    /// The number of times that a task got a CPU that it did not have before.
    pub switches: Figure,
    /// The number of times that a task lost its CPU to another task involuntarily.
    pub preemptions: Figure,
    /// The number of times that a task first executed on another CPU than the last time.
    pub migrations: Figure,
    /// Timer interrupts, including ticks.
    pub timer_interrupts: Figure,
    /// The topology, as `NODESxCORES` or `NODESxCORESxTHREADS`; `None` in a report without it.
    #[serde(default)]
    pub topology: Option<String>,
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

/// One CPU. Idle and busy time sum to the duration; real-time, normal, idle-policy and overhead
/// time sum to the busy time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuReport {
    /// Its number.
    pub cpu: usize,
    /// Time not idle.
    pub busy_ns: Figure,
    /// Time idle.
    pub idle_ns: Figure,
    /// Time in SCHED_FIFO and SCHED_RR tasks.
    pub rt_ns: Figure,
    /// Time in SCHED_OTHER and SCHED_BATCH tasks.
    pub normal_ns: Figure,
    /// Time in SCHED_IDLE tasks.
    pub idle_policy_ns: Figure,
    /// Time of the scheduler's own work.
    pub overhead_ns: Figure,
    /// The number of times that a task got this CPU that did not have it before.
    pub switches: Figure,
    /// The part of the idle time in which tasks waited here whose cookie is not the core's.
    #[serde(default)]
    pub forced_idle_ns: Figure,
}

/// One task instance. Runtime, wait and sleep sum to its lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Its name in the scenario; with a number if it has several instances.
    pub name: String,
    /// The name in sched(7) of its initial policy.
    pub policy: String,
    /// Its initial real-time priority or nice value.
    pub priority: i64,
    /// Its initial latency nice; `None` if the host has none.
    pub latency_nice: Option<i64>,
    /// The path of its initial task group.
    pub group: String,
    /// Time executing.
    pub runtime_ns: Figure,
    /// Time runnable and not executing.
    pub wait_ns: Figure,
    /// Time blocked.
    pub sleep_ns: Figure,
    /// The number of wake-ups. The start counts.
    pub wakeups: Figure,
    /// The number of times that it was switched in.
    pub switches: Figure,
    /// The number of times that it lost its CPU to another task involuntarily.
    pub preemptions: Figure,
    /// The number of times that it first executed on another CPU than the last time.
    pub migrations: Figure,
    /// The spans from the moment at which its condition came true to its first instruction.
    pub wakeup_latency: LatencyReport,
    /// The thread of the scenario whose instance it is; empty in a report without it.
    #[serde(default)]
    pub thread: String,
    /// Its initial cookie, its own or that of its task group; `None` if it had none.
    #[serde(default)]
    pub cookie: Option<String>,
    /// The initial largest delay of its timers.
    #[serde(default)]
    pub slack_ns: Figure,
    /// The number of its wake-ups that were late mostly because of their timer: at least half of the latency was over
    /// when the timer expired. It is 0 for a task without slack.
    #[serde(default)]
    pub slack_wakeups: Figure,
    /// The number of times that it reached its timer after the next period had begun.
    #[serde(default)]
    pub missed: Figure,
    /// Its worst wake-ups, at most ten, the longest first.
    #[serde(default)]
    pub worst: Vec<WorstReport>,
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

impl Report {
    /// The report of a run whose events were all collected.
    ///
    /// # Panics
    /// If a task of `info` was in a group that `info` does not have.
    #[must_use]
    pub fn new(info: RunInfo, totals: &Totals) -> Report {
        let counts = totals.counts();
        let history = totals.history();
        let history =
            history.map(|history| HistoryReport::new(history, info.cpus, totals.duration()));
        let latency = |task: &TaskInfo| totals.task(task.id).map(|did| &did.wakeup_latency);
        let latencies =
            distributions(info.tasks.iter().map(|task| (task.thread.as_str(), latency(task))));
        let cpus = cpu_reports(info.cpus, totals);
        let first = info.tasks.iter().map(|task| (task.id, task.group));
        let in_groups = totals.group_runtimes(info.groups.len(), first);
        let groups = group_reports(&info.groups, &in_groups, info.cpus);
        let ran = |task: &TaskInfo| {
            (task.cookie, totals.task(task.id).map_or(Nanos::ZERO, |did| did.runtime))
        };
        let cookies = cookie_reports(&info.cookies, info.tasks.iter().map(ran), |cookie| {
            Some(totals.forced_idle(cookie).0)
        });
        let tasks = task_reports(info.tasks, (&info.groups, &info.cookies), totals);
        Report {
            schema: SCHEMA.to_owned(),
            host: info.host,
            scenario: info.scenario,
            seed: info.seed,
            kernel: info.kernel,
            features: info.features,
            duration_ns: totals.duration().0,
            machine: MachineReport {
                cpus: info.cpus,
                utilization: utilization(&cpus, totals.duration()),
                switches: sum(&cpus, |cpu| cpu.switches),
                preemptions: sum(&tasks, |task| task.preemptions),
                migrations: sum(&tasks, |task| task.migrations),
                timer_interrupts: Some(counts.timer_interrupts),
                topology: info.topology.map(|topology| topology.to_string()),
            },
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
            balance: totals.balance_rows(),
            cookies,
            chains: info.chains,
            blocked_at_end: info.blocked_at_end,
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

fn cpu_reports(cpus: usize, totals: &Totals) -> Vec<CpuReport> {
    let report = |cpu| {
        let did = totals.cpu(CpuId::at(cpu));
        CpuReport {
            cpu,
            busy_ns: Some(did.busy().0),
            idle_ns: Some(did.idle.0),
            rt_ns: Some(did.rt.0),
            normal_ns: Some(did.normal.0),
            idle_policy_ns: Some(did.idle_policy.0),
            overhead_ns: Some(did.overhead.0),
            switches: Some(did.switches),
            forced_idle_ns: Some(did.forced.0),
        }
    };
    (0..cpus).map(report).collect()
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
        TaskReport {
            name: info.name,
            policy: info.policy.to_string(),
            priority: info.policy.priority(),
            latency_nice: Some(info.latency_nice),
            group: groups[info.group.index()].path.clone(),
            runtime_ns: Some(did.runtime.0),
            wait_ns: Some(did.wait.0),
            sleep_ns: Some(did.sleep.0),
            wakeups: Some(did.wakeups),
            switches: Some(did.switches),
            preemptions: Some(did.preemptions),
            migrations: Some(did.migrations),
            wakeup_latency: LatencyReport::new(&did.wakeup_latency),
            thread: info.thread,
            cookie: cookies::name(cookies, info.cookie),
            slack_ns: Some(info.slack.0),
            slack_wakeups: Some(if info.slack > Nanos::ZERO { did.slack_wakeups } else { 0 }),
            missed: info.missed,
            worst,
        }
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

/// The utilization, from integers, so that it is the same number on every machine; `None` for a run without time.
fn utilization(cpus: &[CpuReport], duration: Nanos) -> Option<f64> {
    const MILLION: u128 = 1_000_000;
    let busy: u128 = cpus.iter().map(|cpu| cpu.busy_ns.map(u128::from)).sum::<Option<u128>>()?;
    let all = cpus.len() as u128 * u128::from(duration.0);
    let millionths = (busy * MILLION + all / 2).checked_div(all)?;
    Some(f64::from(u32::try_from(millionths).expect("a CPU is busy at most all the time")) / 1e6)
}
