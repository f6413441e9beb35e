//! Patches 1 and 8 by themselves: each is a scenario of a few tasks on one CPU, run without latency nice and with it.
//!
//! The document gives no figures for them, only what each repairs. So each claim has a bound for both runs: what is to be
//! repaired must be seen before.

use super::rounds::Rounds;
use super::shipped::simulate;
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::micros;
use crate::virtual_time::scenario;
use runyard_engine::kernel::Model;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;

/// The watched task, which is the first of each scenario.
const WATCHED: TaskId = TaskId(0);

/// The period of all tasks that timers wake.
const PERIOD: Nanos = Nanos::from_millis(20);

/// The tasks of a scenario, what is measured of the first, and the bounds of it.
#[derive(Clone, Copy)]
struct Patch {
    what: &'static str,
    unit: &'static str,
    tasks: &'static str,
    measure: fn(&Rounds) -> f64,
    least_before: f64,
    most_after: f64,
}

/// The time within which a round of the third scenario is done, if only the real-time task keeps it waiting.
const WITHIN: Nanos = Nanos::from_micros(1_600);

const PATCHES: [Patch; 4] = [
    // A sleeper is owed 3 ms at most. A granularity of 1 ms, divided by a small weight, is more than that.
    Patch {
        what: "patch 1: a sleeper of nice 19 beside a task that never sleeps: median wait",
        unit: "us",
        tasks: r#""it": {"priority": 19, "timer_slack": 0, TIMER, "run": 50}, "hog": {"run": 1000}"#,
        measure: median,
        least_before: 500.0,
        most_after: 10.0,
    },
    Patch {
        what: "patch 1: a sleeper of nice 10 beside a task that never sleeps: median wait",
        unit: "us",
        tasks: r#""it": {"priority": 10, "timer_slack": 0, TIMER, "run": 50}, "hog": {"run": 1000}"#,
        measure: median,
        least_before: 500.0,
        most_after: 10.0,
    },
    // Another sleeper wakes up meanwhile, which is as far behind.
    Patch {
        what: "patch 8: a real-time task preempts a sensitive one: turns that another task delays",
        unit: "%",
        tasks: r#""it": {"latency_nice": -20, "timer_slack": 0, TIMER, "run": 500},
                  "rt": {"policy": "SCHED_FIFO", "timer_slack": 0, "delay": 200, TIMER, "run": 1000},
                  "other": {"timer_slack": 0, "delay": 700, TIMER, "run": 3000},
                  "hog": {"run": 1000}"#,
        measure: Rounds::late_percent,
        least_before: 90.0,
        most_after: 0.0,
    },
    Patch {
        what: "patch 8: a sensitive task wakes up beside a real-time one, for 0.8 ms: mean wait",
        unit: "us",
        tasks: r#""it": {"latency_nice": -20, "timer_slack": 0, TIMER, "run": 6000},
                  "rt": {"policy": "SCHED_FIFO", "timer_slack": 0, "delay": 19800, TIMER, "run": 1000},
                  "other": {"timer_slack": 0, "delay": 19900, TIMER, "run": 3000},
                  "hog": {"run": 1000}"#,
        measure: mean,
        least_before: 1_500.0,
        most_after: 820.0,
    },
];

fn median(rounds: &Rounds) -> f64 {
    rounds.latency.quantile(500).map_or(f64::NAN, micros)
}

fn mean(rounds: &Rounds) -> f64 {
    rounds.latency.mean().map_or(f64::NAN, micros)
}

impl Patch {
    fn run(&self, model: Model) -> Result<f64, Failure> {
        let timer = format!(
            r#""timer": {{"ref": "unique", "period": {}, "mode": "absolute"}}"#,
            PERIOD.0 / 1_000
        );
        let text = format!(
            r#"{{"machine": {{"cpus": 1, "kernel": "6.1 + founding", "costs": {{"jitter_ns": 0}}}},
                 "global": {{"duration": 5}}, "tasks": {{{}}}}}"#,
            self.tasks.replace("TIMER", &timer)
        );
        let mut scenario = scenario("patches.json", &text)?;
        scenario.use_model(model);
        let rounds = vec![Rounds::new(PERIOD, WITHIN, Time::ZERO)];
        let rounds = simulate(&scenario, 1, WATCHED, rounds, |_| ())?;
        Ok((self.measure)(&rounds[0]))
    }

    fn claim(&self, [before, after]: [f64; 2]) -> Claim {
        let verdict = ClaimVerdict::of(before >= self.least_before && after <= self.most_after);
        Claim::of(self.what, self.unit, [Some(before), Some(after)], verdict)
    }
}

/// The figures of each patch on these models.
pub(super) fn pairs(before: Model, after: Model) -> Result<Vec<[f64; 2]>, Failure> {
    PATCHES.iter().map(|patch| Ok([patch.run(before)?, patch.run(after)?])).collect()
}

/// The claims about the figures of each patch.
pub(super) fn claims(pairs: &[[f64; 2]]) -> Vec<Claim> {
    PATCHES.iter().zip(pairs).map(|(patch, &pair)| patch.claim(pair)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use runyard_engine::kernel::Experiment;

    /// Figures with which all claims hold.
    pub(in crate::latency_nice) fn good() -> Vec<[f64; 2]> {
        PATCHES.iter().map(|patch| [patch.least_before, patch.most_after]).collect()
    }

    #[test]
    fn each_patch_repairs_something_and_none_holds_without_latency_nice() {
        let before = Experiment::LatencyNice.before();
        for (model, holds) in [(Model::default(), true), (before, false)] {
            let claims = claims(&pairs(before, model).unwrap());
            assert!(claims.iter().all(|it| it.verdict.fails() != holds), "{claims:#?}");
        }
    }
}
