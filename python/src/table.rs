//! Tables that other libraries read through Arrow's capsule interface, without a copy. For Python itself a table is a
//! sequence of rows, each a dict.

use crate::columns::{self, Column};
use crate::failed::bad_value;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::{PyImportError, PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule, PyDict, PyList, PySlice};
use runyard_sweep::tables;
use std::sync::Arc;

/// A table of Arrow data.
///
/// pandas (`table.to_pandas()`), polars (`table.to_polars()`), pyarrow (`pyarrow.table(table)`) and DuckDB read it. It is
/// also a sequence of rows, each a dict: `table[0]["name"]`, `table[-1]`, `for row in table`. A slice is a table, and
/// `table["name"]` is the list of a column's values.
#[pyclass(frozen, from_py_object, sequence, module = "runyard")]
#[derive(Clone, Debug)]
pub(crate) struct Table {
    schema: Arc<Schema>,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: Arc<Schema>, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }

    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The row of this number, which the table has.
    fn row<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyDict>> {
        let row = PyDict::new(py);
        let mut at = at;
        for batch in &self.batches {
            if at < batch.num_rows() {
                for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
                    row.set_item(field.name(), columns::value(py, column, at)?)?;
                }
                break;
            }
            at -= batch.num_rows();
        }
        Ok(row)
    }

    /// The rows of these numbers, each of which the table has.
    fn rows(&self, py: Python<'_>, numbers: &[usize]) -> PyResult<Table> {
        let columns = self.columns(py)?.into_iter().map(|(name, kind, nullable, values)| {
            let chosen = numbers.iter().map(|&at| values.get_item(at));
            Ok((name, kind, nullable, PyList::new(py, chosen.collect::<PyResult<Vec<_>>>()?)?))
        });
        Table::of_columns(columns.collect::<PyResult<_>>()?)
    }

    /// The columns as Python's values.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Vec<Column<'py>>> {
        let column = |nth| columns::column(py, &self.schema, &self.batches, nth);
        (0..self.schema.fields().len()).map(column).collect()
    }
}

impl From<RecordBatch> for Table {
    fn from(batch: RecordBatch) -> Table {
        Table { schema: batch.schema(), batches: vec![batch] }
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The rows one after the other, each a dict.
    fn __iter__<'py>(slf: &Bound<'py, Table>) -> PyResult<Bound<'py, PyAny>> {
        // It asks for row after row until there is none.
        let sequence = slf.py().import("collections.abc")?.getattr("Sequence")?;
        sequence.getattr("__iter__")?.call1((slf,))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
        let rows = self.__len__() as isize;
        if let Ok(slice) = key.cast::<PySlice>() {
            let chosen = slice.indices(rows)?;
            let numbers = (0..chosen.slicelength as isize)
                .map(|nth| (chosen.start + nth * chosen.step) as usize)
                .collect::<Vec<_>>();
            return Ok(Py::new(py, self.rows(py, &numbers)?)?.into_any());
        }
        if let Ok(name) = key.extract::<String>() {
            let Ok(nth) = self.schema.index_of(&name) else {
                let names = self.column_names();
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                let what = format!("no column {name:?}{}", runyard_workload::advice(&name, &known));
                return Err(PyKeyError::new_err(what));
            };
            let (.., values) = columns::column(py, &self.schema, &self.batches, nth)?;
            return Ok(values.into_any().unbind());
        }
        let number = key.extract::<isize>().map_err(|_| {
            PyTypeError::new_err(
                "a table takes the number of a row, a slice, or the name of a column",
            )
        })?;
        let at = if number < 0 { number + rows } else { number };
        if !(0..rows).contains(&at) {
            let what = format!("row {number} of a table of {rows} rows");
            return Err(PyIndexError::new_err(what));
        }
        Ok(self.row(py, at as usize)?.into_any().unbind())
    }

    /// Returns the table as a `pandas.DataFrame`. It needs pandas and pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Table>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "pandas", "to_pandas", "pandas pyarrow")?;
        let pyarrow = needed(slf.py(), "pyarrow", "to_pandas", "pandas pyarrow")?;
        pyarrow.call_method1("table", (slf,))?.call_method0("to_pandas")
    }

    /// Returns the table as a `polars.DataFrame`. It needs polars.
    fn to_polars<'py>(slf: &Bound<'py, Table>) -> PyResult<Bound<'py, PyAny>> {
        needed(slf.py(), "polars", "to_polars", "polars")?.call_method1("DataFrame", (slf,))
    }

    /// Makes a table of columns: the name, the type, whether it may be null, the values.
    #[staticmethod]
    #[pyo3(name = "_of_columns")]
    fn of_columns(columns: Vec<Column<'_>>) -> PyResult<Table> {
        Ok(columns::batch(columns)?.into())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Table>) -> PyResult<Reduced<'py, (Vec<Column<'py>>,)>> {
        let columns = slf.get().columns(slf.py())?;
        Ok((slf.get_type().getattr("_of_columns")?, (columns,)))
    }

    fn __repr__(&self) -> String {
        format!("<runyard.Table of {} rows: {}>", self.__len__(), self.column_names().join(", "))
    }

    fn _repr_html_(&self) -> String {
        let empty = RecordBatch::new_empty(self.schema.clone());
        tables::html(self.batches.first().unwrap_or(&empty), self.__len__())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema).map_err(arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The interface lets a producer ignore `requested_schema`, and this one does.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// What pickle keeps of an object: the function that makes it anew, and the function's arguments.
pub(crate) type Reduced<'py, T> = (Bound<'py, PyAny>, T);

/// Imports a package that a method needs.
fn needed<'py>(
    py: Python<'py>,
    package: &str,
    method: &str,
    install: &str,
) -> PyResult<Bound<'py, PyModule>> {
    py.import(package).map_err(|error| {
        let what = format!("{method} needs {package}: pip install {install}");
        let raised = PyImportError::new_err(what);
        raised.set_cause(py, Some(error));
        raised
    })
}

pub(crate) fn arrow(error: ArrowError) -> PyErr {
    bad_value(error)
}
