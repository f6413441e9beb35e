//! The CPU time of two groups whose weights are as one to three, over all workers: each has four tasks for each worker,
//! which compute in polls of 1 ms.

use super::Effort;
use super::host::{builder, workers};
use super::rates::median;
use super::shares::{Charged, Used, start};
use super::situations::Does;
use runyard::{Group, Task};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The tasks of each group for each worker.
const TASKS: u32 = 4;
/// The time for which a task computes before it yields.
const POLL: Duration = Duration::from_millis(1);
/// The time before a measurement, and its length in turns.
const RUN_IN: Duration = Duration::from_millis(300);
const SPANS: u32 = 10;
/// The weights of the groups, and so the expected share of the second.
const WEIGHTS: [u32; 2] = [100, 300];

/// The shares of two groups over several workers.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// The number of workers.
    pub workers: usize,
    /// The share of the heavier group that its weight promises.
    pub expected: f64,
    /// Its share: the median of the runs.
    pub measured: f64,
    /// The least and the greatest share of a run.
    pub range: [f64; 2],
    /// The least and the greatest time of a task over the mean of its group: medians of the runs.
    pub single: [f64; 2],
}

/// Measures the shares.
pub(crate) fn measure(effort: &Effort) -> Spread {
    let runs: Vec<_> = (0..effort.rounds).map(|_| run(effort.span * SPANS)).collect();
    let of = |figure: fn(&Charged) -> f64| {
        let mut figures: Vec<_> = runs.iter().map(figure).collect();
        (median(&mut figures), [figures[0], figures[figures.len() - 1]])
    };
    let (measured, range) = of(|run| run.share);
    let [lighter, heavier] = WEIGHTS.map(f64::from);
    Spread {
        workers: workers(),
        expected: heavier / (lighter + heavier),
        measured,
        range,
        single: [of(|run| run.single[0]).0, of(|run| run.single[1]).0],
    }
}

/// Returns the charge of the heavier group in a run. Its `single` is over the tasks of both groups.
fn run(span: Duration) -> Charged {
    let runtime = builder(workers()).build();
    let stop = Arc::new(AtomicBool::new(false));
    let groups = WEIGHTS.map(|weight| {
        let group = runtime.group(format!("weight-{weight}")).weight(weight).create();
        group.expect("there is room for two groups")
    });
    let start = |group: Group| {
        let task = || Task::builder().group(&group);
        (start(Does::Yields(POLL), TASKS * workers() as u32, task, &stop), Some(group.clone()))
    };
    let parts = runtime.block_on(async { groups.map(start) });
    thread::sleep(RUN_IN);
    let before = parts.each_ref().map(Used::of);
    thread::sleep(span);
    let after = parts.each_ref().map(Used::of);
    stop.store(true, Ordering::Relaxed);
    let [lighter, heavier] = [0, 1].map(|nth| after[nth].since(&before[nth]));
    let whole = (lighter.all + heavier.all).as_secs_f64();
    let [lighter, heavier] = [lighter, heavier].map(|group| group.charged(whole));
    let [a, b] = [lighter.single, heavier.single];
    Charged { single: [a[0].min(b[0]), a[1].max(b[1])], ..heavier }
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;

    #[test]
    fn the_heavier_group_has_more() {
        let run = within_time(|| run(Duration::from_millis(300)));
        assert!(run.share > 0.5 && run.share < 1.0, "{}", run.share);
        assert!(run.single[0] <= 1.0 && 1.0 <= run.single[1], "{:?}", run.single);
    }
}
