//! Limits on this machine's CPUs, on the runtime: two limited task groups, one of them nested, beside a hog without a
//! limit for each CPU.
//!
//! The claims are that each group gets its limit and no more, and that tasks without a limit get the rest.
//! A group uses CPU time by the clocks of the threads, which stand still while the machine runs something else. That is
//! shown, and no more of it than the limit is allowed. A task gets time of the runtime's CPUs, as in the
//! idle-balance experiment: a daemon that has a CPU for a twentieth of the time has most of it from the limited groups,
//! since it comes whenever a worker changes its task. The claims are judged while
//! [others leave the CPUs alone](crate::quiet).
//!
//! Beside them are programs in the document's [three columns](super::columns): task programs under the runtime's limit
//! ([`programs`]), and the document's own programs under the kernel's own limit ([`kernels_own`]).
//!
//! Before, the runtime has no `HARD_LIMITS`. Those figures are measured once, for a shorter time and whatever others do.

use super::columns::Measured;
use super::exact::{HELD, Held, PERIOD, WINDOW, scenario_of};
use super::{kernels_own, programs};
use crate::claims::{Claim, Reproduced};
use crate::figure::percent;
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried};
use crate::rows::{self, Row, Word};
use crate::setting::{Seen, Setting};
use crate::usage::{SECOND, Window};
use runyard_engine::kernel::Experiment;
use runyard_engine::time::Time;
use runyard_hosts::machine;
use runyard_outcome::Failure;
use std::ops::Range;

/// The largest use of a limit, in per cent. The run ends within a period of the group, so eleven seconds may have the
/// budget of one more period. A debt at the end is not repaid within the run.
const MOST_OF_LIMIT: f64 = 105.0;

/// The least part of its limit that a group gets, in per cent. A machine that stops a worker for a period takes this
/// time from the group.
const LEAST_OF_LIMIT: f64 = 90.0;

/// The least part of the rest that tasks without a limit get, in per cent, for the same reason.
const LEAST_REST: f64 = 95.0;

/// The most that they lack of it, in CPUs. On a machine with many CPUs this is less. Without limits the limited tasks
/// would take more than three CPUs from them.
const MOST_LACKED: f64 = 1.0;

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 5;

/// Runs the experiment once on this machine, or several times in a soak. Of each figure the worst counts.
///
/// # Errors
/// If the machine refuses something.
pub(crate) fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?.len();
    let (before, after) = (without(cpus), setting(cpus, WINDOW));
    let (short, takes) = (before.takes(), after.takes());
    let runs = length.pick(1, SOAK_RUNS);
    let columns = programs::takes(length) + kernels_own::takes(length);
    let all = takes * runs as u32 + short + price::TAKES + columns;
    let mut course = Course::new(length, all, progress);
    let before = course.once("hogs without limits", short, || before.play(1))?;
    let price = price::measured(Experiment::HardLimits, cpus, &mut course)?;
    let mut columns = programs::measured(cpus, length, &mut course)?;
    columns.extend(kernels_own::measured(cpus, length, &mut course)?);
    let what = "limited hogs beside others";
    let after = course.runs(what, takes, runs, |seed| after.play(seed))?;
    let mut claims = rows::claims(&rows(cpus), &[vec![Tried::quiet(before)], after]);
    claims.extend(columns.iter().flat_map(Measured::claims));
    claims.extend(price);
    let lines: String = columns.iter().map(|one| format!("  {}\n", one.line())).collect();
    Ok(Reproduced::of("hard-limits", "live", claims, |table| {
        format!(
            "hard-limits on live: {cpus} CPUs with a hog each that is not limited, and hogs that \
             are\n\n{table}\nIn the document's three columns:\n{lines}"
        )
    }))
}

/// The claims without limits, in one short try: for tests that see them fail.
///
/// # Errors
/// If the machine refuses something.
pub(crate) fn live_without(progress: &Progress) -> Result<Vec<Claim>, Failure> {
    let cpus = machine::cpus()?.len();
    let without = without(cpus);
    let mut course = Course::of_one_try(progress);
    let tried = course.quiet("hogs without limits", without.takes(), |_| without.play(1))?;
    Ok(rows::claims(&rows(cpus), &[vec![tried.clone()], vec![tried]]))
}

/// The claims about a build under the runtime's limit and under the kernel's own, of builds without one: for tests that
/// see them fail.
///
/// # Errors
/// If the machine refuses something.
pub(crate) fn build_without_limit() -> Result<Vec<Claim>, Failure> {
    let cpus = machine::cpus()?.len();
    let runtime = programs::build_without_limit(cpus)?;
    Ok(runtime.into_iter().chain(kernels_own::build_without_limit(cpus)?).collect())
}

fn setting(cpus: usize, window: Window) -> Setting {
    scenario_of(cpus as u32).lasts(window.end.since(Time::ZERO)).window(window, PERIOD)
}

/// The same without limits, for a shorter time.
fn without(cpus: usize) -> Setting {
    setting(cpus, Window::of_seconds(SECOND, 2)).before(Experiment::HardLimits)
}

/// The time of some tasks on the runtime's CPUs in the window, in CPUs.
fn had(run: &Seen, tasks: Range<usize>) -> f64 {
    run.used.of(tasks).0 as f64 / run.used.span().0 as f64
}

/// The CPU time of some tasks over the whole run, in CPUs.
fn worked(run: &Seen, tasks: Range<usize>) -> f64 {
    run.worked[tasks].iter().map(|worked| worked.0 as f64).sum::<f64>() / run.time.0 as f64
}

/// The rows of so many CPUs: each group's use of its limit, and the use of the rest. They are judged by the worst run.
pub(super) fn rows(cpus: usize) -> Vec<Row<Seen>> {
    let of_limit = |Held { what, tasks, due }: Held| {
        let had = tasks.clone();
        let used = Row::new(format!("{what}: of its limit"), "%", move |runs: &[&Seen]| {
            percent(runs.iter().map(|run| worked(run, tasks.clone())).fold(0.0, f64::max) / due)
        });
        used.judged_by(Word::Holds, move |sides, [_, used]| {
            let got = |run: &&Seen| percent(self::had(run, had.clone()) / due) >= LEAST_OF_LIMIT;
            used <= MOST_OF_LIMIT && sides[1].iter().all(got)
        })
    };
    let mut rows: Vec<_> = HELD.into_iter().map(of_limit).collect();
    let rest = cpus as f64 - HELD.iter().map(|held| held.due).sum::<f64>();
    let limited = HELD.into_iter().map(|held| held.tasks.end).max().unwrap_or_default();
    let others = limited..limited + cpus;
    let others = Row::new("those without a limit: of the rest", "%", move |runs: &[&Seen]| {
        percent(
            runs.iter().map(|run| had(run, others.clone())).fold(f64::INFINITY, f64::min) / rest,
        )
    });
    // They have more where the limited groups get less, which is a row of its own.
    let least = LEAST_REST.max(percent(1.0 - MOST_LACKED / rest));
    rows.push(others.holds(move |_, after| after >= least));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Used;
    use runyard_engine::time::Nanos;

    /// A run in which each task has this fraction of the window, of which the machine takes a part.
    fn run(parts: [f64; 6], left: f64) -> Tried<Seen> {
        let time = |part: f64| Nanos((part * 1e9) as u64);
        let used = Used::of_tasks(SECOND, parts.map(time));
        let worked = parts.map(|part| time(part * left)).to_vec();
        Tried::quiet(Seen { time: SECOND, used, worked, ..Seen::default() })
    }

    fn failed(runs: Vec<Tried<Seen>>) -> Vec<String> {
        crate::claims::tests::failed(rows::claims(&rows(2), &[vec![], runs]))
    }

    const GOOD: [f64; 6] = [0.15, 0.15, 0.1, 0.1, 0.75, 0.75];

    #[test]
    fn what_is_claimed_is_who_has_the_cpus() {
        for (bad, what) in [
            ([0.2, 0.15, 0.1, 0.1, 0.72, 0.72], "30 of 100 ms: of its limit"),
            ([0.15, 0.15, 0.05, 0.1, 0.77, 0.77], "40 of 100 ms below 20: of its limit"),
            ([0.15, 0.15, 0.1, 0.1, 0.7, 0.7], "those without a limit: of the rest"),
        ] {
            assert_eq!(failed(vec![run(GOOD, 1.0), run(bad, 1.0), run(GOOD, 1.0)]), [what]);
        }
        assert_eq!(failed(vec![run(GOOD, 0.8)]), [""; 0], "the machine may take what it wants");
    }
}
