//! The order of a sweep's runs, and the number of seeds that a precision takes.
//!
//! Without a precision, each point runs with all seeds. With one, each point runs with ten seeds, then with ten more,
//! until the interval of each metric is narrow enough. A look takes the runs in the order of the seeds, after complete
//! tens, so the number of seeds depends on no thread. It looks at the width alone: a rule that waits for a significant
//! difference finds one too often.

use crate::plan::{Plan, ROUND};
use crate::pool;
use crate::run::{Ran, Runner};
use runyard_report::statistics::Summaries;
use std::collections::BTreeMap;

/// The metrics of finished runs, by their numbers. Without a precision nobody looks at the metrics, so they are empty.
pub(crate) type Found = BTreeMap<usize, Vec<Option<f64>>>;

/// Does the runs of a plan that are not in `found`, on `jobs` threads, and calls `take` with each result. Runs that the
/// precision does not need have an empty result. It returns `false` if `stop` or `take` ended it before all were done.
pub(crate) fn each(
    plan: &Plan,
    (jobs, stop): (usize, &(dyn Fn() -> bool + Sync)),
    mut found: Found,
    mut take: impl FnMut(usize, Ran) -> bool,
) -> bool {
    let seeds = plan.seeds().len();
    // Some points at a time, so that the parts of the first ones are complete early.
    let together = if plan.precision().is_some() { jobs.max(1) } else { plan.points() };
    let mut open: Vec<(usize, usize)> =
        (0..plan.points()).map(|point| (point * seeds, 0)).collect();
    while !open.is_empty() {
        let mut now: Vec<_> = open.drain(..together.min(open.len())).collect();
        let next = |done: usize| (done + ROUND).max(plan.least_seeds()).min(seeds);
        let runs = now.iter().flat_map(|&(first, done)| first + done..first + next(done));
        let runs: Vec<usize> = runs.filter(|run| !found.contains_key(run)).collect();
        let work = |runner: &mut Runner, run| runner.run(plan, run, stop);
        let complete = pool::each((jobs, &runs), stop, work, |run, ran| {
            found.insert(run, looked_at(plan, &ran));
            take(run, ran)
        });
        if !complete {
            return false;
        }
        now.iter_mut().for_each(|(_, done)| *done = next(*done));
        let is_over = |&(first, done): &(usize, usize)| {
            done == seeds || is_narrow(plan, &found, first..first + done)
        };
        let (over, more): (Vec<_>, Vec<_>) = now.into_iter().partition(is_over);
        let skipped = over.into_iter().flat_map(|(first, done)| first + done..first + seeds);
        let mut skipped = skipped.filter(|run| !found.contains_key(run));
        if !skipped.all(|run| take(run, Ran::skipped())) {
            return false;
        }
        open.splice(..0, more);
    }
    true
}

/// The metrics of a run that a look at the precision needs.
pub(crate) fn looked_at(plan: &Plan, ran: &Ran) -> Vec<Option<f64>> {
    if plan.precision().is_some() { ran.metrics.clone() } else { Vec::new() }
}

/// Whether the interval of each metric over these runs is as narrow as the plan's precision. A metric that no run has
/// needs no more runs.
fn is_narrow(plan: &Plan, found: &Found, runs: std::ops::Range<usize>) -> bool {
    let mut summaries = Summaries::default();
    let ran: Vec<_> = found.range(runs).map(|(_, metrics)| metrics).collect();
    (0..plan.metrics().len()).all(|metric| {
        let values: Vec<f64> = ran.iter().filter_map(|metrics| *metrics.get(metric)?).collect();
        summaries.of(&values).is_none_or(|summary| plan.is_narrow(&summary))
    })
}
