//! Limits on this machine's CPUs, on the runtime: two limited task groups, one of them nested, beside a hog without a
//! limit for each CPU.
//!
//! The claims hold whatever else the machine does: no group uses more CPU time than its limit, and tasks without a
//! limit get the rest. CPU time comes from the threads' clocks, which stand still while the machine runs something
//! else. The rest is time of the runtime's CPUs, as in the idle-balance experiment. The bound for how near a group
//! comes to its limit is one that a busy machine keeps, since such a machine may stop a worker for whole periods. The
//! figure itself is shown.
//!
//! There is no "before": the runtime runs with its default features.

use super::exact::{HELD, Held, WINDOW, scenario_of};
use super::meter::{Meter, Used};
use crate::claims::{Claim, ClaimVerdict, Experiment, Reproduced};
use crate::figure::{Figure, percent};
use crate::length::Length;
use crate::progress;
use runyard_engine::event::Event;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::Failure;
use runyard_hosts::live::{self, EventSink};
use runyard_hosts::machine;
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_sim::Observer;

/// The largest use of a limit, in per cent. The run ends within a period of the group, so eleven seconds may have the
/// budget of one more period. A debt at the end is not repaid within the run.
const MOST_OF_LIMIT: f64 = 105.0;

/// The least use of a limit, in per cent. A machine that stops a worker for a period takes this time from the group.
const LEAST_OF_LIMIT: f64 = 90.0;

/// The least part of the rest that tasks without a limit get, in per cent, for the same reason.
const LEAST_REST: f64 = 95.0;

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 5;

/// Runs the experiment once on this machine, or several times in a soak. Of each figure the worst counts.
///
/// # Errors
/// If the machine refuses something.
pub fn live(length: Length) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?.len();
    let runs = length.pick(1, SOAK_RUNS);
    let bar = progress::bar("runs", runs);
    let all: Result<Vec<_>, _> =
        (1..=runs).map(|seed| run(cpus, seed).inspect(|_| bar.inc(1))).collect();
    bar.finish_and_clear();
    let claims = all?.iter().flat_map(|run| claims(cpus, run)).collect();
    let (name, host) = ("hard-limits".to_owned(), "live".to_owned());
    let experiment = Experiment { name, host, claims: worst(claims) };
    let text = format!(
        "hard-limits on live: {cpus} CPUs with a hog each that is not limited, and hogs that are\n\n{}\n",
        experiment.table()
    );
    Ok(Reproduced { experiment, text })
}

fn run(cpus: usize, seed: u64) -> Result<Run, Failure> {
    let mut scenario = scenario_of(cpus as u32)?;
    scenario.duration = Some(WINDOW.end.since(Time::ZERO));
    let meter = Meter::new(WINDOW, Nanos::from_millis(100), cpus as u32);
    let sink = Arc::new(Mutex::new(MeterSink(meter)));
    let plan = Plan::new(scenario, seed);
    let over = live::run(plan, cpus, sink.clone())?;
    let MeterSink(meter) = lock(&sink).clone();
    Ok(Run { had: meter.finish(WINDOW.end), used: over.worked().collect() })
}

/// The tasks' time on the runtime's CPUs in the window, and their CPU time over the whole run.
#[derive(Debug)]
struct Run {
    had: Used,
    used: Vec<Nanos>,
}

#[derive(Clone, Debug)]
struct MeterSink(Meter);

impl EventSink for MeterSink {
    fn event(&mut self, event: &Event) {
        (&mut &mut self.0).event(event);
    }
}

/// The claims about a run: each group's use of its limit, and the use of the rest.
fn claims(cpus: usize, Run { had, used }: &Run) -> Vec<Claim> {
    let whole = WINDOW.end.since(Time::ZERO).0 as f64;
    let seconds = WINDOW.end.since(WINDOW.from).0 as f64;
    let claim = |what: &str, part: f64, least: f64, most: f64| {
        let figure = percent(part);
        let so = (least..=most).contains(&figure);
        let figures = Figure { what, unit: "%", before: None, after: None };
        figures.claim(None, Some(figure), ClaimVerdict::of(so))
    };
    let mut all = Vec::new();
    let mut rest = cpus as f64;
    for Held { what, tasks, due } in HELD {
        rest -= had.of(tasks.clone()).0 as f64 / seconds;
        let used = used[tasks].iter().map(|used| used.0 as f64).sum::<f64>() / whole;
        all.push(claim(
            &format!("{what}: of its limit"),
            used / due,
            LEAST_OF_LIMIT,
            MOST_OF_LIMIT,
        ));
    }
    let limited = HELD.into_iter().map(|held| held.tasks.end).max().unwrap_or_default();
    let others = had.of(limited..limited + cpus).0 as f64 / seconds;
    all.push(claim("those without a limit: of the rest", others / rest, LEAST_REST, 100.1));
    all
}

/// Of the claims with one name: one that fails, or the last.
fn worst(claims: Vec<Claim>) -> Vec<Claim> {
    let mut kept: Vec<Claim> = Vec::new();
    for claim in claims {
        match kept.iter_mut().find(|known| known.what == claim.what) {
            Some(known) if known.verdict.holds() => *known = claim,
            Some(_) => {}
            None => kept.push(claim),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::Policy;
    use runyard_engine::cpu::CpuId;
    use runyard_engine::event::What;
    use runyard_engine::task::TaskId;

    /// A run in which each task has this fraction of the window, on a CPU of its own.
    fn run(parts: [f64; 6]) -> Run {
        let mut meter = Meter::new(WINDOW, Nanos::from_millis(100), 6);
        let span = WINDOW.end.since(WINDOW.from).0 as f64;
        for (at, part) in parts.into_iter().enumerate() {
            let mut told = |at_time: Time, what| {
                let event = Event { at: at_time, cpu: CpuId(at as u16), what };
                (&mut &mut meter).event(&event);
            };
            let task = TaskId(at as u64);
            told(WINDOW.from, What::Exec { task, policy: Policy::Idle });
            told(WINDOW.from + Nanos((span * part) as u64), What::Idle);
        }
        let whole = WINDOW.end.since(Time::ZERO).0 as f64;
        let used = parts.map(|part| Nanos((whole * part) as u64)).to_vec();
        Run { had: meter.finish(WINDOW.end), used }
    }

    fn failed(parts: [f64; 6]) -> Vec<String> {
        let failed = claims(2, &run(parts)).into_iter().filter(|claim| !claim.verdict.holds());
        failed.map(|claim| claim.what).collect()
    }

    #[test]
    fn what_is_claimed_is_who_has_the_cpus() {
        assert_eq!(failed([0.15, 0.15, 0.1, 0.1, 0.75, 0.75]), [""; 0]);
        assert_eq!(failed([0.2, 0.15, 0.1, 0.1, 0.72, 0.72]), ["30 of 100 ms: of its limit"]);
        assert_eq!(
            failed([0.15, 0.15, 0.05, 0.1, 0.77, 0.77]),
            ["40 of 100 ms below 20: of its limit"]
        );
        assert_eq!(
            failed([0.15, 0.15, 0.1, 0.1, 0.7, 0.7]),
            ["those without a limit: of the rest"]
        );
    }

    #[test]
    fn one_bad_run_of_several_fails() {
        let good = || claims(2, &run([0.15, 0.15, 0.1, 0.1, 0.75, 0.75]));
        let bad = claims(2, &run([0.3, 0.15, 0.1, 0.1, 0.67, 0.67]));
        let all = worst([good(), bad, good()].concat());
        assert_eq!(all.iter().filter(|claim| !claim.verdict.holds()).count(), 1);
        assert_eq!(all.len(), 3);
    }
}
