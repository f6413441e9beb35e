//! Conversion of JSON and of serialisable values into Python objects.

use crate::failed::bad_value;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};
use runyard_workload::document::Value;
use serde::Serialize;

/// Returns the Python object that `json.loads` makes of a value.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    value: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    loads(py, &serde_json::to_string(value).map_err(bad_value)?)
}

/// Returns the Python object of a JSON text.
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

/// Returns a value of a scenario's text as a Python object.
///
/// A dict has no key twice, so a key that repeats gets a number behind it from the second time. The language reads
/// `run2` as `run`, as rt-app does.
pub(crate) fn document<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    if value.is_list() {
        let list = PyList::empty(py);
        for element in value.elements().map_err(bad_value)? {
            list.append(document(py, element)?)?;
        }
        return Ok(list.into_any());
    }
    if value.is_object() {
        let dict = PyDict::new(py);
        for member in value.all_members().map_err(bad_value)? {
            let key = member.key();
            let mut own = key.to_owned();
            for number in 2.. {
                if !dict.contains(&own)? {
                    break;
                }
                own = format!("{key}{number}");
            }
            dict.set_item(own, document(py, member.value)?)?;
        }
        return Ok(dict.into_any());
    }
    if value.is_text() {
        return Ok(value.text().map_err(bad_value)?.into_pyobject(py)?.into_any());
    }
    loads(py, value.source())
}
