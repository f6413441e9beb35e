//! One run of a plan, from its number to its rows.

use crate::metric::{Metric, spans};
use crate::plan::Plan;
use crate::pool;
use crate::rows::{Figures, Row};
use crate::simulated;
use runyard_workload::Scenario;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// The reason of a failure; `None` if the run succeeded.
    pub error: Option<String>,
    /// The figures. A failed run has one row of the machine without figures. A run that the sweep's precision does not
    /// need has no row.
    pub rows: Vec<Row>,
    /// The plan's metrics; `None` for a metric that the run does not have.
    pub metrics: Vec<Option<f64>>,
}

impl Ran {
    /// The result of a run that the sweep's precision does not need.
    pub(crate) fn skipped() -> Ran {
        Ran { error: None, rows: Vec::new(), metrics: Vec::new() }
    }

    /// Whether the run took place. Each run that took place has a row of the machine.
    pub(crate) fn took_place(&self) -> bool {
        !self.rows.is_empty()
    }
}

/// Does the runs of a plan one after the other, and keeps the scenario of the last point.
#[derive(Debug, Default)]
pub struct Runner {
    kept: Option<(usize, Scenario)>,
}

impl Runner {
    /// Does the run of this number. It calls `stop` now and then, and returns `None` if `stop` returns `true`. A run
    /// that fails, even by a panic of the simulator, is a result with a reason.
    ///
    /// # Panics
    /// If the plan has fewer runs.
    pub fn run(&mut self, plan: &Plan, run: usize, stop: &dyn Fn() -> bool) -> Option<Ran> {
        let (point, seed) = plan.run(run);
        let scenario = match self.kept.take() {
            Some((at, scenario)) if at == point => Ok(scenario),
            _ => plan.parse(&plan.point(point)).map_err(|error| error.to_string()),
        };
        let spans = spans(plan.metrics());
        let whole = |scenario: Scenario| {
            let run = pool::caught(|| {
                simulated::measured((plan.name(), &scenario), (seed, &spans), stop)
            });
            self.kept = Some((point, scenario));
            run.and_then(|run| run)
        };
        match scenario.and_then(whole) {
            Ok(run) => {
                let run = run?;
                let figures = Figures::new(&run.report);
                let metric = |metric: &Metric| metric.of(&run, &figures);
                let metrics = plan.metrics().iter().map(metric).collect();
                Some(Ran { error: None, rows: figures.rows(), metrics })
            }
            Err(reason) => Some(Ran {
                error: Some(reason),
                rows: vec![Row { kind: Cow::Borrowed("machine"), name: None, fields: Vec::new() }],
                metrics: vec![None; plan.metrics().len()],
            }),
        }
    }
}
