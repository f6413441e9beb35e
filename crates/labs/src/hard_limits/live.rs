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
//! Beside them are the document's own programs under the kernel's own limit ([`kernels_own`]).
//!
//! Before, the runtime has no `HARD_LIMITS`. Those figures are measured once, for a shorter time and whatever others do.

use super::exact::{HELD, Held, WINDOW, scenario_of};
use super::kernels_own::{self, Extent};
use crate::claims::{Claim, Reproduced};
use crate::figure::percent;
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried, deciding, verdict};
use crate::usage::{SECOND, Usage, Used, Window};
use runyard_engine::kernel;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::live;
use runyard_hosts::machine;
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
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
    let cpus = machine::cpus()?.len();
    let runs = length.pick(1, SOAK_RUNS);
    let takes = Duration::from_nanos(WINDOW.end.0);
    let own = Extent::of(length);
    let all = takes * runs as u32 + SHORT + price::TAKES + own.takes();
    let mut course = Course::new(length, all, progress);
    let before = course.once("hogs without limits", SHORT, without)?;
    let price = price::measured(kernel::Experiment::HardLimits, cpus, &mut course)?;
    let own = kernels_own::measured(cpus, own, &mut course)?;
    let run = |seed: u64| {
        course.quiet("limited hogs beside others", takes, |attempt| {
            let seed = seed + (u64::from(attempt) << u32::BITS);
            Run::of(scenario_of(cpus as u32)?, WINDOW, seed)
        })
    };
    let runs = (1..=runs).map(run).collect::<Result<Vec<_>, _>>()?;
    let mut claims = claims(&before, &runs);
    claims.extend(kernels_own::claims(&own));
    claims.extend(price);
    Ok(Reproduced::of("hard-limits", "live", claims, |table| {
        format!(
            "hard-limits on live: {cpus} CPUs with a hog each that is not limited, and hogs that \
             are\n\n{table}\n{}",
            kernels_own::text(&own)
        )
    }))
}

/// The claims without limits, in one short try: for tests that see them fail.
///
/// # Errors
/// If the machine refuses something.
pub fn live_without(progress: &Progress) -> Result<Vec<Claim>, Failure> {
    let tried = Course::of_one_try(progress).quiet("hogs without limits", SHORT, |_| without())?;
    Ok(claims(&tried.result, std::slice::from_ref(&tried)))
}

/// The claims about a build under the kernel's own limit, of a build without it: for tests that see them fail.
///
/// # Errors
/// If the machine refuses something.
pub fn build_without_limit() -> Result<Vec<Claim>, Failure> {
    kernels_own::build_without_limit(machine::cpus()?.len())
}

/// The length of the run without limits.
const SHORT: Duration = Duration::from_secs(3);

/// The run without limits.
fn without() -> Result<Run, Failure> {
    let mut scenario = scenario_of(machine::cpus()?.len() as u32)?;
    scenario.use_model(kernel::Experiment::HardLimits.before());
    Run::of(scenario, Window::of_seconds(SECOND, SHORT.as_secs() as u32 - 1), 1)
}

/// A run on so many CPUs.
#[derive(Clone, Debug)]
struct Run {
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

    /// Each group's use of its limit, and the use of the rest.
    fn figures(&self) -> Vec<Measured> {
        let whole = self.window.end.since(Time::ZERO).0 as f64;
        let seconds = self.window.span().0 as f64;
        let of_limit = |Held { what, tasks, due }: Held| {
            let got = percent(self.had.of(tasks.clone()).0 as f64 / seconds / due);
            let used = self.used[tasks].iter().map(|used| used.0 as f64).sum::<f64>();
            let used = percent(used / whole / due);
            let what = format!("{what}: of its limit");
            Measured { what, percent: used, holds: used <= MOST_OF_LIMIT && got >= LEAST_OF_LIMIT }
        };
        let mut figures: Vec<_> = HELD.into_iter().map(of_limit).collect();
        let rest = self.cpus as f64 - HELD.iter().map(|held| held.due).sum::<f64>();
        let limited = HELD.into_iter().map(|held| held.tasks.end).max().unwrap_or_default();
        let others = self.had.of(limited..limited + self.cpus).0 as f64 / seconds;
        let least = LEAST_REST.max(percent(1.0 - MOST_LACKED / rest));
        figures.push(Measured {
            what: "those without a limit: of the rest".to_owned(),
            percent: percent(others / rest),
            // They have more where the limited groups get less, which is a claim of its own.
            holds: percent(others / rest) >= least,
        });
        figures
    }
}

/// A figure of a run in per cent, and whether it is as claimed.
#[derive(Clone, Debug)]
struct Measured {
    what: String,
    percent: f64,
    holds: bool,
}

/// The claims about these runs, with the figures of a run before. A figure after is that of the first run in which it is
/// out of bounds, or of the last run.
fn claims(before: &Run, runs: &[Tried<Run>]) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    let before = before.figures();
    let mut figures: Vec<_> = deciding(runs).into_iter().map(Run::figures).collect();
    let Some(mut kept) = figures.pop() else { return claims };
    for (at, kept) in kept.iter_mut().enumerate() {
        if let Some(broken) = figures.iter().map(|run| &run[at]).find(|figure| !figure.holds) {
            *kept = broken.clone();
        }
        let figures = [Some(before[at].percent), Some(kept.percent)];
        claims.push(Claim::of(&kept.what, "%", figures, verdict(runs, kept.holds)));
    }
    claims
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::claims::ClaimVerdict;
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

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let mut claims = claims(&run(GOOD), &[Tried::quiet(run(GOOD))]);
        claims.extend(kernels_own::claims(&kernels_own::tests::nothing()));
        claims.extend(price::tests::named());
        claims
    }

    fn failed(runs: &[[f64; 6]]) -> Vec<String> {
        let quiet = |&parts: &[f64; 6]| Tried::quiet(run(parts));
        let runs: Vec<_> = runs.iter().map(quiet).collect();
        crate::claims::tests::failed(claims(&runs[0].result, &runs))
    }

    const GOOD: [f64; 6] = [0.15, 0.15, 0.1, 0.1, 0.75, 0.75];

    #[test]
    fn what_is_claimed_is_who_has_the_cpus() {
        assert_eq!(failed(&[GOOD]), [""; 0]);
        assert_eq!(failed(&[[0.2, 0.15, 0.1, 0.1, 0.72, 0.72]]), ["30 of 100 ms: of its limit"]);
        assert_eq!(
            failed(&[[0.15, 0.15, 0.05, 0.1, 0.77, 0.77]]),
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
        let claims = claims(&run(GOOD), &[Tried::quiet(lent)]);
        assert_eq!((claims[0].after, claims[0].verdict), (Some(80.0), ClaimVerdict::Holds));
    }

    #[test]
    fn one_bad_run_of_several_fails() {
        let bad = [0.3, 0.15, 0.1, 0.1, 0.72, 0.72];
        assert_eq!(failed(&[GOOD, bad, GOOD]), ["30 of 100 ms: of its limit"]);
        assert_eq!(failed(&[GOOD, GOOD, bad]), ["30 of 100 ms: of its limit"]);
    }
}
