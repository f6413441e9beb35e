//! The errors of the libraries, as Python exceptions.

use crate::input::Source;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use runyard_outcome::Failure;
use runyard_workload::{Diagnostic, Place};
use std::io;

pyo3::create_exception!(
    runyard,
    ScenarioError,
    PyValueError,
    "A mistake in a scenario, in a specification of a sweep, or in a recording.\n\nThe attributes are the `file`, the `line` and the `column`, counted from 1, and the mistake itself as `what`. A mistake in\na setting or in a trace of Perfetto has no place: `line` and `column` are None."
);

/// Returns a diagnostic as text. For a source that is not a file, the text also shows the line.
pub(crate) fn shown(source: &Source, found: &Diagnostic) -> String {
    let mut text = found.to_string();
    if let (Place::Text { file, line, column }, Some(own)) = (&found.place, &source.1)
        && *file == source.0
        && let Some(line) = own.lines().nth(line - 1)
    {
        text.push_str(&format!("\n{line}\n{:>column$}", "^"));
    }
    text
}

/// Returns the exception for a mistake in a source.
pub(crate) fn scenario_error(py: Python<'_>, source: &Source, found: &Diagnostic) -> PyErr {
    let place = match &found.place {
        Place::Text { file, line, column } => Some((file, *line, *column)),
        Place::Packet { .. } | Place::Setting(_) => None,
    };
    let error = ScenarioError::new_err(shown(source, found));
    let value = error.value(py);
    let set = || {
        value.setattr("file", place.map(|(file, ..)| file))?;
        value.setattr("line", place.map(|(_, line, _)| line))?;
        value.setattr("column", place.map(|(.., column)| column))?;
        value.setattr("what", &found.what)
    };
    set().err().unwrap_or(error)
}

/// Returns the exception for an operation that failed.
pub(crate) fn failure(failure: Failure) -> PyErr {
    match failure {
        Failure::Input(what) => PyValueError::new_err(what),
        Failure::Refused(what) => PyOSError::new_err(what),
    }
}

/// Returns the exception for a file that cannot be read. Its class is Python's class for the reason, as
/// `FileNotFoundError`.
pub(crate) fn refused(file: &str, error: &io::Error) -> PyErr {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.raw_os_error(), text, file.to_owned()))
}

/// Returns the exception for a value that is not accepted.
pub(crate) fn bad_value(what: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(what.to_string())
}
