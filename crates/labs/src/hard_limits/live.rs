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
//! Beside them are programs under the kernel's own limit ([`kernels_own`]).
//!
//! Before, the runtime has no `HARD_LIMITS`. Those figures are measured once, for a shorter time and whatever others do.

use super::exact::{HELD, Held, WINDOW, scenario_of};
use super::kernels_own;
use crate::claims::{Claim, Reproduced};
use crate::figure::percent;
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried};
use crate::rows::{self, Row, Word};
use crate::usage::{SECOND, Usage, Used, Window};
use runyard_engine::kernel;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::live;
use runyard_hosts::machine;
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use std::ops::Range;
use std::time::Duration;

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
pub fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let machine = machine::cpus()?;
    let cpus = machine.len();
    let runs = length.pick(1, SOAK_RUNS);
    let takes = Duration::from_nanos(WINDOW.end.0);
    let all = takes * runs as u32 + SHORT + price::TAKES + kernels_own::TAKES;
    let mut course = Course::new(length, all, progress);
    let before = course.once("hogs without limits", SHORT, without)?;
    let price = price::measured(kernel::Experiment::HardLimits, cpus, &mut course)?;
    let own = kernels_own::TAKES;
    let own = course.once("the kernel's own limit", own, || kernels_own::measured(&machine))?;
    let after = course.runs("limited hogs beside others", takes, runs, |seed| {
        Run::of(scenario_of(cpus as u32).scenario()?, WINDOW, seed)
    })?;
    let mut claims = rows::claims(&rows(cpus), &[vec![Tried::quiet(before)], after]);
    claims.extend(own);
    claims.extend(price);
    Ok(Reproduced::of("hard-limits", "live", claims, |table| {
        format!(
            "hard-limits on live: {cpus} CPUs with a hog each that is not limited, and hogs that \
             are\n\n{table}\n"
        )
    }))
}

/// The claims without limits, in one short try: for tests that see them fail.
///
/// # Errors
/// If the machine refuses something.
pub fn live_without(progress: &Progress) -> Result<Vec<Claim>, Failure> {
    let tried = Course::of_one_try(progress).quiet("hogs without limits", SHORT, |_| without())?;
    let runs = [vec![tried.clone()], vec![tried]];
    Ok(rows::claims(&rows(runs[0][0].result.cpus), &runs))
}

/// The length of the run without limits.
const SHORT: Duration = Duration::from_secs(3);

/// The run without limits.
fn without() -> Result<Run, Failure> {
    let mut scenario = scenario_of(machine::cpus()?.len() as u32).scenario()?;
    scenario.use_model(kernel::Experiment::HardLimits.before());
    Run::of(scenario, Window::of_seconds(SECOND, SHORT.as_secs() as u32 - 1), 1)
}

/// A run on so many CPUs.
#[derive(Clone, Debug)]
pub(super) struct Run {
    cpus: usize,
    window: Window,
    /// The tasks' time on the runtime's CPUs in the window.
    had: Used,
    /// The tasks' CPU time over the whole run.
    used: Vec<Nanos>,
}

impl Run {
    fn of(mut scenario: Scenario, window: Window, seed: u64) -> Result<Run, Failure> {
        scenario.duration = Some(window.end.since(Time::ZERO));
        let cpus = scenario.machine.topology.cpus();
        let usage = Usage::new(window, Nanos::from_millis(100), cpus);
        let sink = Arc::new(Mutex::new(usage));
        let over = live::run(Plan::new(scenario, seed), cpus, sink.clone())?;
        let usage = lock(&sink).clone();
        let used = over.worked().collect();
        Ok(Run { cpus, window, had: usage.finish(window.end), used })
    }

    /// The time of some tasks on the runtime's CPUs, in CPUs.
    fn had(&self, tasks: Range<usize>) -> f64 {
        self.had.of(tasks).0 as f64 / self.window.span().0 as f64
    }

    /// The CPU time of some tasks, in CPUs.
    fn used(&self, tasks: Range<usize>) -> f64 {
        let used = self.used[tasks].iter().map(|used| used.0 as f64).sum::<f64>();
        used / self.window.end.since(Time::ZERO).0 as f64
    }
}

/// The rows of so many CPUs: each group's use of its limit, and the use of the rest. They are judged by the worst run.
pub(super) fn rows(cpus: usize) -> Vec<Row<Run>> {
    let of_limit = |Held { what, tasks, due }: Held| {
        let had = tasks.clone();
        let used = Row::new(format!("{what}: of its limit"), "%", move |runs: &[&Run]| {
            percent(runs.iter().map(|run| run.used(tasks.clone())).fold(0.0, f64::max) / due)
        });
        used.judged_by(Word::Holds, move |sides, [_, used]| {
            let got = |run: &&Run| percent(run.had(had.clone()) / due) >= LEAST_OF_LIMIT;
            used <= MOST_OF_LIMIT && sides[1].iter().all(got)
        })
    };
    let mut rows: Vec<_> = HELD.into_iter().map(of_limit).collect();
    let rest = cpus as f64 - HELD.iter().map(|held| held.due).sum::<f64>();
    let limited = HELD.into_iter().map(|held| held.tasks.end).max().unwrap_or_default();
    let others = limited..limited + cpus;
    let others = Row::new("those without a limit: of the rest", "%", move |runs: &[&Run]| {
        percent(runs.iter().map(|run| run.had(others.clone())).fold(f64::INFINITY, f64::min) / rest)
    });
    // They have more where the limited groups get less, which is a row of its own.
    let least = LEAST_REST.max(percent(1.0 - MOST_LACKED / rest));
    rows.push(others.holds(move |_, after| after >= least));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::Policy;
    use runyard_engine::cpu::CpuId;
    use runyard_engine::event::{Event, What};
    use runyard_engine::task::TaskId;
    use runyard_hosts::live::EventSink;

    /// A run on two CPUs in which each task has this fraction of the window.
    fn run(parts: [f64; 6]) -> Run {
        let mut usage = Usage::new(WINDOW, Nanos::from_millis(100), 6);
        let span = WINDOW.span().0 as f64;
        for (at, part) in parts.into_iter().enumerate() {
            let mut told = |at_time: Time, what| {
                let event = Event { at: at_time, cpu: CpuId(at as u16), what };
                EventSink::event(&mut usage, &event);
            };
            let task = TaskId(at as u64);
            told(WINDOW.from, What::Exec { task, policy: Policy::Idle });
            told(WINDOW.from + Nanos((span * part) as u64), What::Idle);
        }
        let whole = WINDOW.end.since(Time::ZERO).0 as f64;
        let used = parts.map(|part| Nanos((whole * part) as u64)).to_vec();
        Run { cpus: 2, window: WINDOW, had: usage.finish(WINDOW.end), used }
    }

    fn failed(runs: &[[f64; 6]]) -> Vec<String> {
        let runs = runs.iter().map(|&parts| Tried::quiet(run(parts))).collect();
        crate::claims::tests::failed(rows::claims(&rows(2), &[vec![], runs]))
    }

    const GOOD: [f64; 6] = [0.15, 0.15, 0.1, 0.1, 0.75, 0.75];

    #[test]
    fn what_is_claimed_is_who_has_the_cpus() {
        assert_eq!(failed(&[GOOD]), [""; 0]);
        assert_eq!(failed(&[[0.2, 0.15, 0.1, 0.1, 0.72, 0.72]]), ["30 of 100 ms: of its limit"]);
        assert_eq!(
            failed(&[GOOD, [0.15, 0.15, 0.05, 0.1, 0.77, 0.77], GOOD]),
            ["40 of 100 ms below 20: of its limit"]
        );
        assert_eq!(
            failed(&[[0.15, 0.15, 0.1, 0.1, 0.7, 0.7]]),
            ["those without a limit: of the rest"]
        );
    }

    #[test]
    fn a_group_has_what_the_runtime_gives_it_whatever_the_machine_takes() {
        let mut lent = run(GOOD);
        lent.used.iter_mut().for_each(|used| *used = Nanos(used.0 / 10 * 8));
        let claim = rows(2)[0].claim(&[vec![], vec![Tried::quiet(lent)]]);
        assert_eq!((claim.after, claim.verdict.fails()), (Some(80.0), false));
    }
}
