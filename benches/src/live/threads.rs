//! The number of threads of a process in which 1,000 tasks have polls of 300 us, with and without batches. A task that
//! is preempted in the middle of a poll keeps its thread, so a runtime that preempts many polls has many threads.

use super::Effort;
use super::host::{Runyard, builder, features, workers};
use super::probe::{Hogs, beside_hogs};
use super::rates::median;
use runyard::experiments::{Experiments, Feature};
use serde::Serialize;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The tasks.
const HOGS: Hogs = Hogs { tasks: 1_000, poll: Duration::from_micros(300) };
/// Length of a run in turns. A turn is 0.3 s by default, so a run is 3 s.
const SPANS: u32 = 10;
/// Interval of the samples.
const LOOK: Duration = Duration::from_millis(10);

/// The threads of a process.
#[derive(Clone, Debug, Serialize)]
pub struct Threads {
    /// Whether tasks are polled in batches.
    pub dispatch: &'static str,
    /// The greatest number in a run: the median of the runs.
    pub greatest: f64,
    /// The least and the greatest of these numbers over the runs.
    pub range: [f64; 2],
    /// The mean number in a run: the median of the runs.
    pub mean: f64,
}

/// Measures both modes, in turns.
pub(crate) fn measure(effort: &Effort) -> [Threads; 2] {
    let mut sides = [const { Vec::new() }; 2];
    for _ in 0..effort.rounds {
        for (batches, runs) in [true, false].into_iter().zip(&mut sides) {
            runs.push(run(batches, effort.span * SPANS));
        }
    }
    let [with, without] = sides;
    [summary("in batches", &with), summary("without batches", &without)]
}

fn summary(dispatch: &'static str, runs: &[Counted]) -> Threads {
    let of = |figure: fn(&Counted) -> f64| {
        let mut figures: Vec<_> = runs.iter().map(figure).collect();
        (median(&mut figures), [figures[0], figures[figures.len() - 1]])
    };
    let (greatest, range) = of(|run| run.greatest);
    Threads { dispatch, greatest, range, mean: of(|run| run.mean).0 }
}

/// The threads of this process in a run.
#[derive(Clone, Copy, Debug)]
struct Counted {
    greatest: f64,
    mean: f64,
}

fn run(batches: bool, span: Duration) -> Counted {
    let features = match batches {
        true => features().with(Feature::BatchDispatch),
        false => features().without(Feature::BatchDispatch),
    };
    let host = Runyard(builder(workers()).features(features).build());
    // The thread that waits for the hogs is not one of the runtime's, so it may sleep between samples.
    beside_hogs(&host, HOGS, async { count(span) })
}

fn count(span: Duration) -> Counted {
    let (begin, mut counts) = (Instant::now(), Vec::new());
    while begin.elapsed() < span {
        thread::sleep(LOOK);
        counts.extend(threads());
    }
    let all: f64 = counts.iter().sum();
    let greatest = counts.iter().copied().fold(0.0, f64::max);
    Counted { greatest, mean: all / counts.len().max(1) as f64 }
}

/// Returns the number of threads of this process by proc(5), or `None` on a system that does not report it.
fn threads() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let said = text.lines().find_map(|line| line.strip_prefix("Threads:"))?;
    said.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;

    #[test]
    fn threads_are_counted_with_batches_and_without() {
        for batches in [true, false] {
            let counted = within_time(move || run(batches, Duration::from_millis(100)));
            assert!(counted.greatest > workers() as f64, "{batches}: {counted:?}");
            assert!(counted.mean <= counted.greatest, "{batches}: {counted:?}");
        }
    }
}
