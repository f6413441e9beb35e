//! How late a periodic task is for its timer, beside `cyclictest` (rt-tests), which measures the same of a
//! kernel thread with SCHED_FIFO: on an idle machine, and beside tasks or threads that keep all CPUs.
//!
//! cyclictest keeps idle CPUs from every idle state, unless it is to spare the battery (`--laptop`). So do
//! our turns beside it; and an idle machine that is let sleep has rows of its own. (Once ours did not ask for
//! it: who of the two was later was then a question of idle states.)
//!
//! Each is beside hogs of its own kind: ours are tasks of the runtime, of which the probe stops one each
//! time; cyclictest's are threads with SCHED_OTHER. Periods and their number are the same, turns are
//! interleaved. cyclictest tells whole microseconds, of which the middle is taken.

use super::Effort;
use super::host::{Host, Runyard, builder};
use super::probe::{
    LONG_POLLS, Lateness, PERIOD, PRIORITY, WORKERS, beside_hogs, beside_threads, percentiles,
    probe,
};
use runyard::{Task, TaskBuilder};
use serde::Serialize;
use std::process::Command;
use std::time::Duration;

/// What is around the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// CPUs that are kept from idle states.
    Idle,
    /// CPUs that enter idle states.
    IdleStates,
    /// CPUs that are busy.
    Hogs,
}

/// Whose lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Cyclictest,
    Fifo,
    Fair,
}

/// What is measured of whom; the first of each kind is what the others are compared with.
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

/// Buckets of cyclictest's histogram. What is later than that is counted as that late.
const MOST_MICROS: u64 = 100_000;

/// How late a probe was, and beside cyclictest.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// The figures.
    pub lateness: Lateness,
    /// The p50 over that of cyclictest; `null` if this machine does not permit cyclictest.
    pub p50_ratio: Option<f64>,
    /// The same for the p99.
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
        (Probe::Cyclictest, Around::Hogs) => beside_threads(|| cyclictest(periods, &[])),
        (Probe::Fifo, _) => Some(on_runyard(around, Task::builder().fifo(PRIORITY), periods)),
        (Probe::Fair, _) => Some(on_runyard(around, Task::builder(), periods)),
    }
}

fn on_runyard(around: Around, task: TaskBuilder, periods: usize) -> Vec<Duration> {
    let builder = builder(WORKERS);
    let runtime = Runyard(match around {
        Around::Idle | Around::Hogs => builder.cpu_latency(Duration::ZERO).build(),
        Around::IdleStates => builder.build(),
    });
    let task = task.slack(Duration::ZERO);
    let probed = async { task.spawn(probe(periods)).await.expect("the probe does not panic") };
    match around {
        Around::Idle | Around::IdleStates => runtime.block_on(probed),
        Around::Hogs => beside_hogs(&runtime, LONG_POLLS, probed),
    }
}

/// `None` if it is not there, or not permitted to be SCHED_FIFO.
fn cyclictest(periods: usize, more: &[&str]) -> Option<Vec<Duration>> {
    let (period, loops) = (PERIOD.as_micros().to_string(), periods.to_string());
    let (priority, most) = (PRIORITY.to_string(), MOST_MICROS.to_string());
    let arguments = ["-q", "-m", "-p", &priority, "-i", &period, "-l", &loops, "-h", &most];
    let output = Command::new("cyclictest").args(arguments).args(more).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = histogram(&text);
    (output.status.success() && !found.is_empty()).then_some(found)
}

/// What is in a histogram of cyclictest with one thread: `000012 000345`, microseconds and how often.
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
