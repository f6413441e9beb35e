//! Tables that other libraries read through Arrow's capsule interface, without a copy.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule};
use runyard_sweep::tables;
use std::sync::Arc;

/// A table of Arrow data.
///
/// pandas (`pandas.DataFrame.from_arrow(table)`), polars (`polars.DataFrame(table)`), pyarrow (`pyarrow.table(table)`)
/// and DuckDB read it without a copy.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Table {
    schema: Arc<Schema>,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: Arc<Schema>, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
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

    fn __repr__(&self) -> String {
        format!("<runyard.Table of {} rows: {}>", self.__len__(), self.column_names().join(", "))
    }

    fn _repr_html_(&self) -> String {
        let empty = RecordBatch::new_empty(self.schema.clone());
        tables::html(self.batches.first().unwrap_or(&empty))
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

fn arrow(error: ArrowError) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(error.to_string())
}
