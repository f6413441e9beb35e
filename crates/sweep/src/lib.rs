//! Sweeps: many simulations of one scenario, over settings and seeds, and the tables of their results.
//!
//! ```text
//! SPEC, scenario -> Plan: points x seeds, in a fixed order        (pure)
//!                    each run -> Runner -> Ran: rows, metrics       (pure; on any thread, in any process)
//!                                 parts -> Gathered: tables, page   (by one writer, in the plan's order)
//! ```
//!
//! Three steps make a sweep: [`Plan`] lists the runs, [`Runner`] does one, [`Gathered`] makes the tables. They exchange
//! only values, so the runs may take place on other machines. [`sweep`] keeps all results in memory. [`Folder`] keeps
//! them in a folder, and continues there after it was killed.
//!
//! [`compare`] runs two scenarios with the same seeds, and tells whether the figures that are asked for changed.
//! [`explain`] runs a scenario until it can tell why a task was late.
//!
//! The same specification, scenario and version give the same bytes. No clock, no host and no order of threads has an
//! influence; floats are added in the order of the seeds.
//!
//! ```
//! use runyard_sweep::{Plan, Text};
//!
//! let text = r#"{
//!     "scenario": {"machine": {"cpus": 1}, "tasks": {"web": {"run": 2000, "sleep": 1000}, "batch": {"run": 1000}}},
//!     "set": {"tasks.web.priority": [0, -5]},
//!     "duration": "100ms",
//!     "seeds": 3,
//!     "metrics": ["share(tasks.web)"],
//! }"#;
//! let spec = Text { file: "spec.json".to_owned(), text: text.to_owned() };
//! let plan = Plan::new(spec, |_| unreachable!("the scenario is there")).unwrap();
//! let tables = runyard_sweep::sweep(&plan, 2, &|| false).unwrap();
//! assert_eq!(tables.summary.num_rows(), plan.points());
//! ```

mod cell;
mod compare;
mod explain;
mod folder;
mod gather;
mod metric;
mod page;
mod parquet;
mod plan;
pub mod pool;
mod precision;
mod rows;
mod run;
mod simulated;
mod spec;
pub mod tables;
pub mod wire;

pub use cell::Cell;
pub use compare::{
    Asking, Compared, Comparison, Condition, Is, Outcome, SEEDS, Side, USUAL_SEEDS, compare,
    is_report,
};
pub use explain::{Question, Story, explain};
pub use folder::{Finished, Folder, Progress};
pub use gather::{Gathered, Parts, SummaryRow, Tables, parts};
pub use metric::Metric;
pub use plan::{Plan, Point, Text};
pub use rows::Row;
pub use run::{Ran, Runner};
pub use simulated::{Detail, How, Named, Whole, info, reaches, report, whole};

pub use runyard_sim::Check;

use runyard_outcome::Failure;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Runs a whole sweep in memory, on `jobs` threads; `None` if `stop` ended it.
#[must_use]
pub fn sweep(plan: &Plan, jobs: usize, stop: &(dyn Fn() -> bool + Sync)) -> Option<Tables> {
    let mut all: Vec<Option<Ran>> = vec![None; plan.runs()];
    let complete = precision::each(plan, (jobs, stop), BTreeMap::new(), |run, ran| {
        all[run] = Some(ran);
        true
    });
    complete.then(|| gathered(plan, &all.into_iter().flatten().collect::<Vec<_>>()))
}

/// The tables of all runs of a plan, in its order, wherever they ran.
///
/// # Panics
/// If the number of runs is not that of the plan.
#[must_use]
pub fn gathered(plan: &Plan, ran: &[Ran]) -> Tables {
    assert_eq!(ran.len(), plan.runs(), "each run of the plan, and no other");
    let tables = Tables::of(plan, &Memory { plan, ran });
    tables.unwrap_or_else(|_| unreachable!("what is in memory can be read"))
}

/// Runs in memory.
struct Memory<'r> {
    plan: &'r Plan,
    ran: &'r [Ran],
}

impl Parts for Memory<'_> {
    fn read(&self, part: usize) -> Result<Cow<'_, [Ran]>, Failure> {
        let runs = parts(self.plan).nth(part).expect("the plan has the part");
        Ok(Cow::Borrowed(&self.ran[runs]))
    }
}
