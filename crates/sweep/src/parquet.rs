//! A table in a file of the format Parquet. It is written in pieces, so that not all rows are in memory.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type as values;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// The number of rows from which on they are written: a reader has so many in memory at once.
const ROWS_TOGETHER: usize = 1 << 16;

/// The writer of a table whose columns have the types of a [cell](crate::Cell).
pub(crate) struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    /// The rows that are not written.
    held: Vec<RecordBatch>,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a file for a table of this schema.
    pub(crate) fn new(out: W, schema: &Schema) -> io::Result<Writer<W>> {
        let begun = || {
            let fields = schema.fields().iter().map(|field| Ok(Arc::new(leaf(field)?)));
            let fields = fields.collect::<Result<_, ParquetError>>()?;
            let schema = Type::group_type_builder("runs").with_fields(fields).build()?;
            let compressed = WriterProperties::builder().set_compression(Compression::SNAPPY);
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(compressed.build()))
        };
        Ok(Writer { file: begun().map_err(io::Error::other)?, held: Vec::new() })
    }

    /// Adds rows.
    pub(crate) fn add(&mut self, rows: RecordBatch) -> io::Result<()> {
        self.held.push(rows);
        let held: usize = self.held.iter().map(RecordBatch::num_rows).sum();
        if held < ROWS_TOGETHER { Ok(()) } else { self.write().map_err(io::Error::other) }
    }

    /// Writes the last rows and the end of the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.write().and_then(|()| self.file.close()).map(drop).map_err(io::Error::other)
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        let Some(first) = self.held.first() else { return Ok(()) };
        let schema = first.schema();
        let mut rows = self.file.next_row_group()?;
        for (at, field) in schema.fields().iter().enumerate() {
            let mut column = rows.next_column()?.expect("the file has the columns of the schema");
            let pieces: Vec<&dyn Array> = self.held.iter().map(|rows| &**rows.column(at)).collect();
            write_column(&mut column, field, &pieces)?;
            column.close()?;
        }
        rows.close()?;
        self.held.clear();
        Ok(())
    }
}

/// The column of a field.
fn leaf(field: &Field) -> Result<Type, ParquetError> {
    let (physical, logical) = match field.data_type() {
        DataType::Boolean => (Physical::BOOLEAN, None),
        DataType::Int64 => (Physical::INT64, None),
        DataType::Float64 => (Physical::DOUBLE, None),
        _ => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if field.is_nullable() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(field.name(), physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

fn write_column(
    column: &mut SerializedColumnWriter<'_>,
    field: &Field,
    pieces: &[&dyn Array],
) -> Result<(), ParquetError> {
    let pieces = pieces.iter();
    match field.data_type() {
        DataType::Boolean => {
            put::<values::BoolType>(column, field, pieces.flat_map(|it| it.as_boolean()))
        }
        DataType::Int64 => {
            let all = pieces.flat_map(|it| it.as_primitive::<Int64Type>());
            put::<values::Int64Type>(column, field, all)
        }
        DataType::Float64 => {
            let all = pieces.flat_map(|it| it.as_primitive::<Float64Type>());
            put::<values::DoubleType>(column, field, all)
        }
        _ => {
            let all = pieces.flat_map(|it| it.as_string::<i32>());
            put::<values::ByteArrayType>(column, field, all.map(|text| Some(text?.into())))
        }
    }
}

/// Writes the values of a column, where it has some, and at which rows it has none.
fn put<T: values::DataType>(
    column: &mut SerializedColumnWriter<'_>,
    field: &Field,
    all: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut there, mut present) = (Vec::new(), Vec::new());
    for value in all {
        present.push(i16::from(value.is_some()));
        there.extend(value);
    }
    let present = field.is_nullable().then_some(&present[..]);
    column.typed::<T>().write_batch(&there, present, None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;
    use crate::gather::batch;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    #[test]
    fn rows_are_read_as_they_were_added() {
        let field = |name: &str, of| Field::new(name, of, true);
        let fields = vec![
            Field::new("point", DataType::Int64, false),
            field("busy", DataType::Float64),
            field("is_new", DataType::Boolean),
            field("name", DataType::Utf8),
        ];
        let schema = Arc::new(Schema::new(fields));
        let row = |point, others: [Cell; 3]| [vec![Cell::Integer(point)], others.to_vec()].concat();
        let added = [
            row(1, [Cell::Number(0.5), Cell::Boolean(true), Cell::text("web")]),
            row(2, [Cell::Null, Cell::Null, Cell::Null]),
            row(3, [Cell::Number(-1e300), Cell::Boolean(false), Cell::text("")]),
        ];
        let columns = |rows: &[Vec<Cell>]| -> Vec<Vec<Cell>> {
            (0..4).map(|at| rows.iter().map(|row| row[at].clone()).collect()).collect()
        };
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &schema).unwrap();
        writer.add(batch(&schema, &columns(&added[..1]))).unwrap();
        writer.add(batch(&schema, &columns(&added[1..]))).unwrap();
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let rows: Vec<_> = rows.map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows,
            [
                r#"{point: 1, busy: 0.5, is_new: true, name: "web"}"#,
                "{point: 2, busy: null, is_new: null, name: null}",
                r#"{point: 3, busy: -1E300, is_new: false, name: ""}"#,
            ]
        );
    }
}
