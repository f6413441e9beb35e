//! Timer lateness of a periodic task, beside `cyclictest` (rt-tests), which measures the same of a kernel thread with
//! SCHED_FIFO. The machine is idle, or tasks or threads keep all CPUs busy.
//!
//! cyclictest keeps idle CPUs out of every idle state, except with `--laptop`. Our probe does so too in the turns
//! beside it. An idle machine with idle states has rows of its own. Without this split, the comparison would measure
//! idle states.
//!
//! Each probe runs beside hogs of its own kind. Ours are tasks of the runtime, one of which the probe preempts each
//! time; those of cyclictest are threads with SCHED_OTHER. Periods and their number are the same, and turns are
//! interleaved. cyclictest reports whole microseconds; the middle of each is used.

use super::Effort;
use super::host::{Host, Runyard, builder, workers};
use super::probe::{
    Lateness, PERIOD, PRIORITY, beside_hogs, beside_threads, long_polls, percentiles, probe,
};
use runyard::{Task, TaskBuilder};
use serde::Serialize;
use std::process::Command;
use std::time::Duration;

/// The state of the machine around the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// Idle CPUs that are kept out of idle states.
    Idle,
    /// Idle CPUs that enter idle states.
    IdleStates,
    /// Busy CPUs.
    Hogs,
}

/// The probe whose lateness is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Cyclictest,
    Fifo,
    Fair,
}

/// The measured rows. The first row of each state is the base of its ratios.
const ROWS: [(Around, Probe, &str); 9] = [
    (Around::Idle, Probe::Cyclictest, "idle: cyclictest, SCHED_FIFO"),
    (Around::Idle, Probe::Fifo, "idle: runyard, FIFO"),
    (Around::Idle, Probe::Fair, "idle: runyard, fair, no slack"),
    (Around::IdleStates, Probe::Cyclictest, "idle states: cyclictest --laptop"),
    (Around::IdleStates, Probe::Fifo, "idle states: runyard, FIFO"),
    (Around::IdleStates, Probe::Fair, "idle states: runyard, fair, no slack"),
    (Around::Hogs, Probe::Cyclictest, "hogs: cyclictest, SCHED_FIFO"),
    (Around::Hogs, Probe::Fifo, "hogs: runyard, FIFO"),
    (Around::Hogs, Probe::Fair, "hogs: runyard, fair, no slack"),
];

/// Number of buckets of cyclictest's histogram. Greater latenesses count as this one.
const MOST_MICROS: u64 = 100_000;

/// The lateness of a probe, alone and relative to cyclictest.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// The figures of the probe.
    pub lateness: Lateness,
    /// The p50 over that of cyclictest; `null` if this machine does not permit cyclictest.
    pub p50_ratio: Option<f64>,
    /// The p99 over that of cyclictest, likewise.
    pub p99_ratio: Option<f64>,
}

/// Measures every probe, in turns.
pub(crate) fn measure(effort: &Effort) -> Vec<Accuracy> {
    let periods = effort.periods.div_ceil(effort.rounds).max(1);
    let mut all = ROWS.map(|_| Some(Vec::new()));
    for _ in 0..effort.rounds {
        for ((around, probe, _), sum) in ROWS.into_iter().zip(&mut all) {
            let turn = lateness(around, probe, periods);
            *sum = sum.take().zip(turn).map(|(sum, turn)| [sum, turn].concat());
        }
    }
    let figures = all.map(|late| late.map(percentiles));
    let rows = ROWS.into_iter().zip(figures).map(|((around, _, name), own)| {
        let first = ROWS.iter().position(|&(it, ..)| it == around).expect("it is one of them");
        let both = own.zip(figures[first]);
        Accuracy {
            lateness: Lateness { probe: name, figures: own },
            p50_ratio: both.map(|(own, first)| own.p50_ns as f64 / first.p50_ns as f64),
            p99_ratio: both.map(|(own, first)| own.p99_ns as f64 / first.p99_ns as f64),
        }
    });
    rows.collect()
}

fn lateness(around: Around, probe: Probe, periods: usize) -> Option<Vec<Duration>> {
    match (probe, around) {
        (Probe::Cyclictest, Around::Idle) => cyclictest(periods, &[]),
        (Probe::Cyclictest, Around::IdleStates) => cyclictest(periods, &["--laptop"]),
        (Probe::Cyclictest, Around::Hogs) => beside_threads(0, || cyclictest(periods, &[])),
        (Probe::Fifo, _) => Some(on_runyard(around, Task::builder().fifo(PRIORITY), periods)),
        (Probe::Fair, _) => Some(on_runyard(around, Task::builder(), periods)),
    }
}

fn on_runyard(around: Around, task: TaskBuilder, periods: usize) -> Vec<Duration> {
    let builder = builder(workers());
    let runtime = Runyard(match around {
        Around::Idle | Around::Hogs => builder.cpu_latency(Duration::ZERO).build(),
        Around::IdleStates => builder.build(),
    });
    let task = task.slack(Duration::ZERO);
    let probed = async { task.spawn(probe(periods)).await.expect("the probe does not panic") };
    match around {
        Around::Idle | Around::IdleStates => runtime.block_on(probed),
        Around::Hogs => beside_hogs(&runtime, long_polls(), probed),
    }
}

/// Runs cyclictest. Returns `None` if it is not installed, or may not use SCHED_FIFO.
fn cyclictest(periods: usize, more: &[&str]) -> Option<Vec<Duration>> {
    let (period, loops) = (PERIOD.as_micros().to_string(), periods.to_string());
    let (priority, most) = (PRIORITY.to_string(), MOST_MICROS.to_string());
    let arguments = ["-q", "-m", "-p", &priority, "-i", &period, "-l", &loops, "-h", &most];
    let output = Command::new("cyclictest").args(arguments).args(more).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = histogram(&text);
    (output.status.success() && !found.is_empty()).then_some(found)
}

/// Parses a histogram of cyclictest with one thread. A line is a number of microseconds and a count: `000012 000345`.
fn histogram(text: &str) -> Vec<Duration> {
    const MIDDLE: Duration = Duration::from_nanos(500);
    let bucket = |line: &str| {
        let overflows = line.strip_prefix("# Histogram Overflows:");
        let (micros, count) = match overflows {
            Some(count) => (MOST_MICROS, count),
            None => line.split_once(' ').and_then(|(at, count)| Some((at.parse().ok()?, count)))?,
        };
        let count = count.trim().parse().ok()?;
        Some(std::iter::repeat_n(Duration::from_micros(micros) + MIDDLE, count))
    };
    text.lines().filter_map(bucket).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::within_time;

    #[test]
    fn every_probe_has_every_period() {
        for (around, probe, name) in ROWS {
            let found = within_time(move || lateness(around, probe, 20));
            let permitted = found.map(|found| found.len());
            assert!(permitted == Some(20) || probe == Probe::Cyclictest, "{name}: {permitted:?}");
        }
    }

    #[test]
    fn a_histogram_is_read_with_what_was_too_late_for_it() {
        let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000003 000002\n000004 000000\n\
                    000007 000001\n# Total: 000000003\n# Histogram Overflows: 00001\n";
        let found = histogram(text);
        let micros: Vec<_> = found.iter().map(Duration::as_micros).collect();
        assert_eq!(micros, [3, 3, 7, u128::from(MOST_MICROS)]);
    }
}
