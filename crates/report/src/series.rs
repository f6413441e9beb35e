//! The parts of a report that are drawn: the machine's time in steps, and distributions of wake-up latencies. A saved
//! report has them, so charts can be made of it later.

use crate::figure::LatencyReport;
use crate::histogram::Histogram;
use crate::history::History;
use crate::lanes::LANES;
use crate::waits::WaitSteps;
use crate::why::Cause;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The largest number of points of a distribution. The buckets of a factor of three are 57. Those of a wider
/// distribution are joined by twos or fours.
const POINTS: usize = 128;

/// The activity of the CPUs over time: nanoseconds of CPU time in each of at most 200 steps. The steps of a kind sum to
/// the figures of the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryReport {
    /// The width of a step; the last one ends with the run.
    pub step_ns: u64,
    /// Time in SCHED_FIFO and SCHED_RR tasks.
    pub rt_ns: Vec<u64>,
    /// Time in SCHED_OTHER and SCHED_BATCH tasks.
    pub normal_ns: Vec<u64>,
    /// Time in SCHED_IDLE tasks.
    pub idle_policy_ns: Vec<u64>,
    /// Time of the scheduler's own work.
    pub overhead_ns: Vec<u64>,
    /// Time idle.
    pub idle_ns: Vec<u64>,
    /// The first 1,024 CPUs.
    pub cpus: Vec<CpuHistory>,
    /// The waits of all tasks in each step, by cause, without causes of none; `None` if the host cannot know the causes. The
    /// steps of a cause sum to `machine.waits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<BTreeMap<Cause, Vec<u64>>>,
}

/// The activity of one CPU over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuHistory {
    /// Its number.
    pub cpu: usize,
    /// Time not idle.
    pub busy_ns: Vec<u64>,
}

/// The wake-up latencies of one task of the scenario, all its instances together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// The name in the scenario, without the number of an instance.
    pub name: String,
    /// The number of instances.
    pub tasks: u64,
    /// The figures of all of them together.
    pub wakeup_latency: LatencyReport,
    /// At most 128 ascending latencies in nanoseconds, each with the number of wake-ups that it stands for.
    pub points: Vec<(u64, u64)>,
}

impl HistoryReport {
    /// # Panics
    /// If CPUs did more in a step than it has time for, or the waits have other steps.
    pub(crate) fn new(
        (history, waits): (&History, Option<&WaitSteps>),
        cpus: usize,
        duration: Nanos,
    ) -> HistoryReport {
        let step_ns = history.step_ns();
        let steps = usize::try_from(duration.0.div_ceil(step_ns)).expect("steps are few");
        assert!(waits.is_none_or(|waits| waits.step_ns() == step_ns), "all steps are as wide");
        let kind = |kind: usize| {
            let mut spans: Vec<_> = history.machine().iter().map(|step| step[kind]).collect();
            spans.resize(steps, 0);
            spans
        };
        let [rt_ns, normal_ns, idle_policy_ns, overhead_ns] = [0, 1, 2, 3].map(kind);
        let idle = |step: usize| {
            let wide = step_ns.min(duration.0 - step as u64 * step_ns);
            let busy = rt_ns[step] + normal_ns[step] + idle_policy_ns[step] + overhead_ns[step];
            wide.saturating_mul(cpus as u64)
                .checked_sub(busy)
                .expect("a CPU does one thing at a time")
        };
        let lane = |cpu: usize| {
            let mut busy_ns = history.lane(cpu).to_vec();
            busy_ns.resize(steps, 0);
            CpuHistory { cpu, busy_ns }
        };
        HistoryReport {
            step_ns,
            idle_ns: (0..steps).map(idle).collect(),
            cpus: (0..cpus.min(LANES)).map(lane).collect(),
            rt_ns,
            normal_ns,
            idle_policy_ns,
            overhead_ns,
            waits: waits.map(|waits| wait_lists(waits, steps)),
        }
    }
}

/// The waits in each of so many steps, by cause.
fn wait_lists(waits: &WaitSteps, steps: usize) -> BTreeMap<Cause, Vec<u64>> {
    let list = |cause: Cause| {
        let mut spans: Vec<_> = waits.steps().iter().map(|step| step[cause]).collect();
        spans.resize(steps, 0);
        (cause, spans)
    };
    let lists = Cause::ALL.into_iter().map(list);
    lists.filter(|(_, spans)| spans.iter().any(|&span| span > 0)).collect()
}

/// A distribution as at most 128 ascending latencies in nanoseconds, each with the number that it stands for.
pub(crate) fn points(latencies: &Histogram) -> Vec<(u64, u64)> {
    latencies.points(POINTS).iter().map(|&(value, count)| (value.0, count)).collect()
}

/// The distributions of tasks, each given with its thread. The tasks of one thread are together, in the order of the
/// threads' first tasks.
pub fn distributions<'a>(
    tasks: impl IntoIterator<Item = (&'a str, Option<&'a Histogram>)>,
) -> Vec<Distribution> {
    let mut places = BTreeMap::new();
    let mut pools: Vec<(&str, u64, Histogram)> = Vec::new();
    for (name, latencies) in tasks {
        let place = *places.entry(name).or_insert(pools.len());
        if place == pools.len() {
            pools.push((name, 0, Histogram::default()));
        }
        let (_, tasks, pool) = &mut pools[place];
        *tasks += 1;
        if let Some(latencies) = latencies {
            pool.merge(latencies);
        }
    }
    let distribution = |(name, tasks, pool): (&str, u64, Histogram)| Distribution {
        name: name.to_owned(),
        tasks,
        wakeup_latency: LatencyReport::new(&pool),
        points: points(&pool),
    };
    pools.into_iter().map(distribution).collect()
}
