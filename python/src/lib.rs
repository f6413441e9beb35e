//! Runyard from Python: the module `runyard._runyard`, on which the package `runyard` is built.
//!
//! There is nothing here but glue. Values come from Python, a library does the work, and what comes of it goes back. The
//! interpreter is free meanwhile; now and then it is asked whether somebody pressed Ctrl-C.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments are made of what Python hands over, and belong to the function"
)]

mod asked;
mod failed;
mod input;
mod json;
mod report;
mod sweep;
mod table;
mod waiting;

/// What is in the module.
#[pyo3::pymodule]
mod _runyard {
    #[pymodule_export]
    use super::asked::{Comparison, Explanation, compare, compare_reports, explain};
    #[pymodule_export]
    use super::failed::ScenarioError;
    #[pymodule_export]
    use super::input::{import_recording, read};
    #[pymodule_export]
    use super::report::{Report, simulate};
    #[pymodule_export]
    use super::sweep::{Plan, Sweep, SweepFolder};
    #[pymodule_export]
    use super::table::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
