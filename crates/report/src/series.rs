//! What of a report is drawn and not only read: the machine's time in steps, and distributions of
//! wake-up latencies. A saved report has them, so a chart can be made of it later.

use crate::figure::LatencyReport;
use crate::histogram::Histogram;
use crate::history::History;
use crate::lanes::LANES;
use runyard_engine::time::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many points a distribution has at most. The buckets of a factor of three are 57; those of
/// a wider distribution are added up two by two, or four by four.
const POINTS: usize = 128;

/// What the CPUs did when: nanoseconds of CPU time in each of at most 200 steps. The steps of a
/// kind sum to the figures of the CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryReport {
    /// How long a step is; the last one ends with the run.
    pub step_ns: u64,
    /// Executing SCHED_FIFO and SCHED_RR tasks.
    pub rt_ns: Vec<u64>,
    /// Executing SCHED_OTHER and SCHED_BATCH tasks.
    pub normal_ns: Vec<u64>,
    /// Executing SCHED_IDLE tasks.
    pub idle_policy_ns: Vec<u64>,
    /// Working for the scheduler.
    pub overhead_ns: Vec<u64>,
    /// Doing nothing.
    pub idle_ns: Vec<u64>,
    /// The first 64 CPUs.
    pub cpus: Vec<CpuHistory>,
}

/// What one CPU did when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuHistory {
    /// Its number.
    pub cpu: usize,
    /// Not idle.
    pub busy_ns: Vec<u64>,
}

/// The wake-up latencies of one task of the scenario, all its instances together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// The name in the scenario, without the number of an instance.
    pub name: String,
    /// How many instances there were.
    pub tasks: u64,
    /// The figures of all of them together.
    pub wakeup_latency: LatencyReport,
    /// Latencies in nanoseconds, ascending, each with how many wake-ups it stands for: at most 128.
    pub points: Vec<(u64, u64)>,
}

impl HistoryReport {
    /// # Panics
    /// If CPUs did more in a step than it has time for.
    pub(crate) fn new(history: &History, cpus: usize, duration: Nanos) -> HistoryReport {
        let step_ns = history.step_ns();
        let steps = usize::try_from(duration.0.div_ceil(step_ns)).expect("steps are few");
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
        }
    }
}

/// The latencies of tasks, each with the thread of the scenario that it is an instance of: those of
/// one thread together, in the order in which the threads come first.
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
        points: pool.points(POINTS).iter().map(|&(value, count)| (value.0, count)).collect(),
    };
    pools.into_iter().map(distribution).collect()
}
