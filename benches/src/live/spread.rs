//! The CPU time of two groups whose weights are as one to three, over all workers: each has four tasks for each worker,
//! which compute in polls of 1 ms.

use super::host::{builder, workers};
use super::probe::compute_for;
use super::{Effort, rates::median};
use runyard::{Group, Task, TaskHandle, yield_now};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The tasks of each group for each worker.
const TASKS: usize = 4;
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
    let of = |figure: fn(&Run) -> f64| {
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

struct Run {
    share: f64,
    single: [f64; 2],
}

fn run(span: Duration) -> Run {
    let runtime = builder(workers()).build();
    let stop = Arc::new(AtomicBool::new(false));
    let groups = WEIGHTS.map(|weight| {
        let group = runtime.group(format!("weight-{weight}")).weight(weight).create();
        group.expect("there is room for two groups")
    });
    let tasks = runtime.block_on(async { groups.each_ref().map(|group| start(group, &stop)) });
    thread::sleep(RUN_IN);
    let before = tasks.each_ref().map(|tasks| used(tasks));
    thread::sleep(span);
    let after = tasks.each_ref().map(|tasks| used(tasks));
    stop.store(true, Ordering::Relaxed);
    let [lighter, heavier] = [0, 1].map(|nth| {
        let pairs = after[nth].iter().zip(&before[nth]);
        pairs.map(|(now, then)| (*now - *then).as_secs_f64()).collect::<Vec<_>>()
    });
    let [all, most] = [lighter.iter().chain(&heavier).sum::<f64>(), heavier.iter().sum()];
    let over_mean = |tasks: &[f64]| {
        let mean = tasks.iter().sum::<f64>() / tasks.len() as f64;
        tasks.iter().map(move |used| used / mean).collect::<Vec<_>>()
    };
    let single = [over_mean(&lighter), over_mean(&heavier)].concat();
    let single = [
        single.iter().copied().fold(f64::INFINITY, f64::min),
        single.iter().copied().fold(0.0, f64::max),
    ];
    Run { share: most / all, single }
}

fn start(group: &Group, stop: &Arc<AtomicBool>) -> Vec<TaskHandle> {
    let one = |_| {
        let stop = stop.clone();
        let task = Task::builder().group(group).spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                compute_for(POLL);
                yield_now().await;
            }
        });
        task.task().clone()
    };
    (0..TASKS * workers()).map(one).collect()
}

fn used(tasks: &[TaskHandle]) -> Vec<Duration> {
    tasks.iter().map(|task| task.usage().used).collect()
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
