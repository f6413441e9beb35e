//! The columns of a table as Python's values, and back: rows of dicts and pickled tables are made of them.

use crate::failed::bad_value;
use crate::table::arrow;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyList};
use runyard_sweep::tables;
use std::sync::Arc;

/// A column: the name, the type, whether a value may be null, the values.
pub(crate) type Column<'py> = (String, String, bool, Bound<'py, PyList>);

/// The name of the type of a list of pairs, each of a task and a time.
const PAIRS: &str = "pairs";

/// A task and the nanoseconds for which it ran.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Ran {
    task: String,
    ns: i64,
}

/// The value of a column in a row. A type that no table has gives None.
pub(crate) fn value<'py>(
    py: Python<'py>,
    column: &ArrayRef,
    at: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let none = || Ok(py.None().into_bound(py));
    if column.is_null(at) {
        return none();
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(at).into_bound_py_any(py),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(at).into_bound_py_any(py),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(at).into_bound_py_any(py),
        DataType::Utf8 => column.as_string::<i32>().value(at).into_bound_py_any(py),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(at);
            (0..items.len())
                .map(|at| value(py, &items, at))
                .collect::<PyResult<Vec<_>>>()?
                .into_bound_py_any(py)
        }
        DataType::Struct(fields) => {
            let dict = PyDict::new(py);
            for (field, column) in fields.iter().zip(column.as_struct().columns()) {
                dict.set_item(field.name(), value(py, column, at)?)?;
            }
            Ok(dict.into_any())
        }
        _ => none(),
    }
}

/// The column of this number.
pub(crate) fn column<'py>(
    py: Python<'py>,
    schema: &Schema,
    batches: &[RecordBatch],
    nth: usize,
) -> PyResult<Column<'py>> {
    let field = schema.field(nth);
    let values = PyList::empty(py);
    for batch in batches {
        let column = batch.column(nth);
        (0..column.len()).try_for_each(|at| values.append(value(py, column, at)?))?;
    }
    Ok((field.name().clone(), name(field.data_type()).to_owned(), field.is_nullable(), values))
}

/// The table of these columns.
pub(crate) fn batch(columns: Vec<Column<'_>>) -> PyResult<RecordBatch> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays = Vec::with_capacity(columns.len());
    for (name, kind, nullable, values) in columns {
        let array = array(&kind, &values)?;
        fields.push(Field::new(name, array.data_type().clone(), nullable));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(arrow)
}

fn name(kind: &DataType) -> &'static str {
    match kind {
        DataType::Boolean => "boolean",
        DataType::Int64 => "int64",
        DataType::Float64 => "float64",
        DataType::List(_) => PAIRS,
        _ => "utf8",
    }
}

fn array(kind: &str, values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    Ok(match kind {
        "boolean" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
        "int64" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
        "float64" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        "utf8" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
        PAIRS => {
            let rows = values.extract::<Vec<Vec<Ran>>>()?.into_iter();
            tables::ran(rows.map(|row| row.into_iter().map(|it| (it.task, it.ns)).collect()))
        }
        _ => return Err(bad_value(format_args!("no table has the type {kind:?}"))),
    })
}
