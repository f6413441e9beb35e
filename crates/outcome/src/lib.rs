//! The outcome of a run of a scenario: a failure, or the facts for its report.
//!
//! A run that does not take place gives a [`Failure`]. A report has parts that come from the scenario itself, whatever
//! host played it ([`scenario`]). The rows of a run become rt-app's log ([`log`]). Messages during a run are on standard
//! error ([`stderr`]).
//!
//! ```
//! use runyard_outcome::scenario::explained;
//! use runyard_workload::{Overrides, parse};
//!
//! let text = r#"{"machine": {"cpus": 2}, "tasks": {"a": {"loop": 1, "run": 10}}}"#;
//! let scenario = parse("two.json", text, &Overrides::default()).unwrap().scenario;
//! assert_eq!(explained(&scenario).cpus, 2);
//! ```
//!
//! This crate knows no host, so programs that only simulate are built without the runtime.

mod failure;
pub mod log;
pub mod scenario;
pub mod stderr;

pub use failure::Failure;
