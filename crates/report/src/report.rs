//! The report: what outsiders' scripts read. Its names and meanings are fixed; more may be added,
//! none renamed or dropped.
//!
//! [`Report`] has the fields of the JSON in their order, and nothing else. A figure that a host
//! cannot know is `None` here and `null` there, also one that nothing can be said of, as the mean
//! of no samples; it is never a zero. Units are in the names.

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

/// The name and version of the report's form.
pub const SCHEMA: &str = "runyard.report/1";

/// What a host knows about a run besides its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// `sim`, `live` or `linux`.
    pub host: String,
    /// The name of the scenario.
    pub scenario: String,
    /// What the run's random draws came from.
    pub seed: u64,
    /// The kernel: what a simulated machine was a model of, or on `linux` the release.
    pub kernel: Option<String>,
    /// The names of the features that were on.
    pub features: Vec<String>,
    /// How many CPUs the machine had; one that no event names was idle.
    pub cpus: usize,
    /// How its CPUs were grouped, if that is known.
    pub topology: Option<Topology>,
    /// How long the host itself took, by the clock on the wall.
    pub wall: Nanos,
    /// One entry for each task instance, in the order of the scenario's file.
    pub tasks: Vec<TaskInfo>,
    /// The task groups at the places of their [`GroupId`]s, `/` first.
    pub groups: Vec<GroupInfo>,
    /// The names of the cookies, in the order of their numbers.
    pub cookies: Vec<String>,
    /// What the checks found.
    pub violations: Vec<Violation>,
    /// What came of the chains, in the order of the scenario's file.
    pub chains: Vec<ChainReport>,
    /// Who waits in vain when the run is over.
    pub blocked_at_end: Vec<BlockedReport>,
}

/// What a host knows about a task. Policy, latency nice, group and cookie are those with which it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Its name in the events.
    pub id: TaskId,
    /// Its name in the scenario; with a number if it has several instances.
    pub name: String,
    /// The thread of the scenario that it is an instance of.
    pub thread: String,
    /// Its policy with its priority or nice value.
    pub policy: Policy,
    /// Its latency nice, -20..=19.
    pub latency_nice: i64,
    /// Its task group.
    pub group: GroupId,
    /// Its cookie, its own or that of its task group.
    pub cookie: Option<Cookie>,
    /// How much later than asked its timers might expire: none for a real-time task.
    pub slack: Nanos,
    /// How often it came to its timer after the next period had begun.
    pub missed: Figure,
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: String,
    /// When it was found broken; in JSON nanoseconds since the run's start.
    #[serde(rename = "at_ns", with = "json::instant")]
    pub at: Time,
    /// What was the case instead.
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
    /// What the run's random draws came from.
    pub seed: u64,
    /// The kernel: what the machine was a model of, or on `linux` its release; `None` in reports of before
    /// that was said.
    #[serde(default)]
    pub kernel: Option<String>,
    /// The names of the features that were on.
    pub features: Vec<String>,
    /// How long the run took on the host's clock.
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
    /// What the checks found.
    pub violations: Vec<Violation>,
    /// What the CPUs did when; `None` if the host does not know it or was not asked for it.
    #[serde(default)]
    pub history: Option<HistoryReport>,
    /// The wake-up latencies of the scenario's tasks, each with all its instances.
    #[serde(default)]
    pub latencies: Vec<Distribution>,
    /// What came of balancing, by level and moment, in this order; only where there was a pass, so
    /// empty also if the host cannot know of any.
    #[serde(default)]
    pub balance: Vec<BalanceReport>,
    /// The cookies of the scenario, and last the lack of one; empty if it has none.
    #[serde(default)]
    pub cookies: Vec<CookieReport>,
    /// The chains of the scenario, in the order of its file.
    #[serde(default)]
    pub chains: Vec<ChainReport>,
    /// The tasks that wait in vain when the run is over, in the order of the tasks.
    #[serde(default)]
    pub blocked_at_end: Vec<BlockedReport>,
}

/// The machine as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineReport {
    /// How many CPUs it has.
    pub cpus: usize,
    /// Non-idle time over CPU time, 0 to 1, rounded to six digits.
    pub utilization: Option<f64>,
    /// How many times a task got a CPU that it did not have before.
    pub switches: Figure,
    /// How many times a task lost its CPU to another task against its will.
    pub preemptions: Figure,
    /// How many times a task first executed on another CPU than the last time.
    pub migrations: Figure,
    /// Timer interrupts, ticks among them.
    pub timer_interrupts: Figure,
    /// How its CPUs are grouped, as `NODESxCORES` or `NODESxCORESxTHREADS`; `None` in a report that does not say.
    #[serde(default)]
    pub topology: Option<String>,
}

impl MachineReport {
    /// How many CPUs a node has; all of them where the report does not say.
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
    /// Not idle.
    pub busy_ns: Figure,
    /// Doing nothing.
    pub idle_ns: Figure,
    /// Executing SCHED_FIFO and SCHED_RR tasks.
    pub rt_ns: Figure,
    /// Executing SCHED_OTHER and SCHED_BATCH tasks.
    pub normal_ns: Figure,
    /// Executing SCHED_IDLE tasks.
    pub idle_policy_ns: Figure,
    /// Working for the scheduler.
    pub overhead_ns: Figure,
    /// How many times a task got this CPU that did not have it before.
    pub switches: Figure,
    /// The part of the idle time in which tasks waited here that do not have the cookie of the core.
    #[serde(default)]
    pub forced_idle_ns: Figure,
}

/// One task instance. Runtime, wait and sleep sum to its lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Its name in the scenario; with a number if it has several instances.
    pub name: String,
    /// The name in sched(7) of the policy with which it began.
    pub policy: String,
    /// The real-time priority or nice value with which it began.
    pub priority: i64,
    /// The latency nice with which it began; `None` if the host has none.
    pub latency_nice: Option<i64>,
    /// The path of the task group in which it began.
    pub group: String,
    /// Executing.
    pub runtime_ns: Figure,
    /// Runnable and not executing.
    pub wait_ns: Figure,
    /// Blocked.
    pub sleep_ns: Figure,
    /// How many times it was woken up; its start is one.
    pub wakeups: Figure,
    /// How many times it was switched in.
    pub switches: Figure,
    /// How many times it lost its CPU to another task against its will.
    pub preemptions: Figure,
    /// How many times it first executed on another CPU than the last time.
    pub migrations: Figure,
    /// From the moment at which its condition came true to its first instruction.
    pub wakeup_latency: LatencyReport,
    /// The thread of the scenario that it is an instance of; empty in a report that does not say.
    #[serde(default)]
    pub thread: String,
    /// The cookie with which it began, its own or that of its task group; `None` if it had none.
    #[serde(default)]
    pub cookie: Option<String>,
    /// How much later than asked its timers might expire when it began.
    #[serde(default)]
    pub slack_ns: Figure,
    /// How many of its wake-ups were late mostly because their timer was: at least half of the latency was over when
    /// the timer expired. It is 0 for a task without slack.
    #[serde(default)]
    pub slack_wakeups: Figure,
    /// How often it came to its timer after the next period had begun.
    #[serde(default)]
    pub missed: Figure,
    /// Its worst wake-ups, at most ten, the longest first.
    #[serde(default)]
    pub worst: Vec<WorstReport>,
}

impl TaskReport {
    /// Whether most of its wake-up latencies are mostly timer slack, so that their p50 is no delay by others.
    #[must_use]
    pub fn is_late_by_slack(&self) -> bool {
        let counts = self.slack_wakeups.zip(self.wakeup_latency.count);
        counts.is_some_and(|(slack, all)| slack > all / 2)
    }
}

/// Timers other than the ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimersReport {
    /// Armed.
    pub armed: Figure,
    /// Expired and run.
    pub expired: Figure,
    /// Those of the expired ones that only the greedy walk ran so early.
    pub greedy: Figure,
    /// Cancelled before they expired.
    pub cancelled: Figure,
}

/// The scheduler and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    /// Decisions of the scheduler.
    pub decisions: Figure,
    /// Events that the host emitted.
    pub events: Figure,
    /// How long the host took, by the clock on the wall: the only figure of a `sim` report that
    /// another run does not repeat.
    pub wall_ns: Figure,
}

impl Report {
    /// The report of a run of which all events were collected.
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

    /// Writes the report as JSON with one line for each CPU, task, group and violation.
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

/// From integers, so that it is the same number on every machine. Nothing can be said of no time.
fn utilization(cpus: &[CpuReport], duration: Nanos) -> Option<f64> {
    const MILLION: u128 = 1_000_000;
    let busy: u128 = cpus.iter().map(|cpu| cpu.busy_ns.map(u128::from)).sum::<Option<u128>>()?;
    let all = cpus.len() as u128 * u128::from(duration.0);
    let millionths = (busy * MILLION + all / 2).checked_div(all)?;
    Some(f64::from(u32::try_from(millionths).expect("a CPU is busy at most all the time")) / 1e6)
}
