//! Runyard from Python: the module `runyard._runyard`, on which the package `runyard` is built.
//!
//! The crate contains glue only. It converts the values that come from Python, calls a library, and converts the
//! result. The interpreter lock is released meanwhile; it is taken again now and then to check for Ctrl-C.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments are converted from Python objects, and belong to the function"
)]

mod asked;
mod columns;
mod failed;
mod input;
mod json;
mod recording;
mod report;
mod sweep;
mod table;
mod waiting;

/// The contents of the module.
#[pyo3::pymodule]
mod _runyard {
    #[pymodule_export]
    use super::asked::{Comparison, Explanation, compare, compare_reports, explain};
    #[pymodule_export]
    use super::failed::ScenarioError;
    #[pymodule_export]
    use super::input::{import_recording, known_keys, read};
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
