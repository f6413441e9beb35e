//! The results of runs as Arrow data that travels between processes, without loss.
//!
//! Rows with the same fields are one table with a column for each field: the rows of machines, the rows of tasks, and
//! so on. Each table is a stream in Arrow's IPC format. Its first columns name the run of a row, and the row's place in
//! the run. The first table has the runs with their reasons and metrics.

use crate::cell::Cell;
use crate::gather::{batch, common};
use crate::rows::Row;
use crate::run::Ran;
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The columns that name the run of a row, the row's place there, its kind and its name.
const OWN: [(&str, DataType); 4] = [
    ("run", DataType::Int64),
    ("row", DataType::Int64),
    ("kind", DataType::Utf8),
    ("name", DataType::Utf8),
];

/// Packs the results of these runs, each with its number in the plan, into streams of Arrow's IPC format.
///
/// ```
/// use runyard_sweep::{Ran, wire};
///
/// let ran = Ran { error: Some("no CPU".to_owned()), rows: Vec::new(), metrics: vec![None, Some(0.5)] };
/// let streams = wire::packed(&[(7, &ran)]);
/// assert_eq!(wire::unpacked(&streams).unwrap(), [(7, ran)]);
/// ```
#[must_use]
pub fn packed(all: &[(usize, &Ran)]) -> Vec<Vec<u8>> {
    let mut tables = vec![runs(all)];
    let mut shapes: Vec<Shape<'_>> = Vec::new();
    for &(run, ran) in all {
        for (nth, row) in ran.rows.iter().enumerate() {
            let place = shapes.iter_mut().find(|shape| shape.takes(row));
            let shape = match place {
                Some(shape) => shape,
                None => {
                    shapes.push(Shape::of(row));
                    shapes.last_mut().expect("it was pushed")
                }
            };
            shape.add((run, nth), row);
        }
    }
    tables.extend(shapes.iter().map(Shape::table));
    tables.iter().map(stream).collect()
}

/// Unpacks the runs that [`packed`] packed, in their order.
///
/// # Errors
/// The reason why the streams are not a result of [`packed`].
pub fn unpacked(streams: &[impl AsRef<[u8]>]) -> Result<Vec<(usize, Ran)>, String> {
    let read = || {
        let tables: Result<Vec<_>, ArrowError> =
            streams.iter().map(|stream| table(stream.as_ref())).collect();
        let tables = tables?;
        let (runs, rows) = tables.split_first().ok_or_else(|| wrong("there is none"))?;
        let mut all: Vec<(usize, Ran)> = runs_of(runs)?;
        let places: BTreeMap<usize, usize> =
            all.iter().enumerate().map(|(place, (run, _))| (*run, place)).collect();
        let mut found: Vec<BTreeMap<i64, Row>> = vec![BTreeMap::new(); all.len()];
        for table in rows {
            for at in 0..table.num_rows() {
                let place = places.get(&(integer(table, 0, at)? as usize));
                let place = *place.ok_or_else(|| wrong("a row is of a run that is not there"))?;
                found[place].insert(integer(table, 1, at)?, row(table, at)?);
            }
        }
        for ((_, ran), rows) in all.iter_mut().zip(found) {
            ran.rows = rows.into_values().collect();
        }
        Ok(all)
    };
    read().map_err(|error: ArrowError| error.to_string())
}

/// The fields of a table, and its rows.
struct Shape<'r> {
    example: &'r Row,
    types: Vec<Option<DataType>>,
    rows: Vec<((usize, usize), &'r Row)>,
}

impl<'r> Shape<'r> {
    fn of(row: &'r Row) -> Shape<'r> {
        Shape { example: row, types: vec![None; row.fields.len()], rows: Vec::new() }
    }

    /// Whether `row` has these fields, with values of these types.
    fn takes(&self, row: &Row) -> bool {
        let fits = |(known, (own, (name, cell))): (&Option<DataType>, (&Named, &Named))| {
            let alone = common(None, cell);
            own.0 == *name && (known.is_none() || alone.is_none() || *known == alone)
        };
        self.example.kind == row.kind
            && self.types.len() == row.fields.len()
            && self.types.iter().zip(self.example.fields.iter().zip(&row.fields)).all(fits)
    }

    fn add(&mut self, place: (usize, usize), row: &'r Row) {
        for (known, (_, cell)) in self.types.iter_mut().zip(&row.fields) {
            *known = known.take().or_else(|| common(None, cell));
        }
        self.rows.push((place, row));
    }

    fn table(&self) -> RecordBatch {
        let own = OWN.map(|(name, of)| Field::new(name, of, true));
        let field = |((name, _), known): (&Named, &Option<DataType>)| {
            Field::new(name, known.clone().unwrap_or(DataType::Int64), true)
        };
        let fields = self.example.fields.iter().zip(&self.types).map(field);
        let schema = Schema::new(own.into_iter().chain(fields).collect::<Vec<_>>());
        let mut columns: Vec<Vec<Cell>> = vec![Vec::new(); schema.fields().len()];
        for ((run, nth), row) in &self.rows {
            let name = row.name.as_deref().map_or(Cell::Null, Cell::text);
            let own = [
                Cell::Integer(*run as i64),
                Cell::Integer(*nth as i64),
                Cell::text(&row.kind),
                name,
            ];
            let cells = own.into_iter().chain(row.fields.iter().map(|(_, cell)| cell.clone()));
            columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
        }
        batch(&Arc::new(schema), &columns)
    }
}

type Named = (String, Cell);

/// The table of runs: their numbers, reasons, and metrics.
fn runs(all: &[(usize, &Ran)]) -> RecordBatch {
    let metrics = all.first().map_or(0, |(_, ran)| ran.metrics.len());
    let mut fields =
        vec![Field::new("run", DataType::Int64, true), Field::new("error", DataType::Utf8, true)];
    fields
        .extend((0..metrics).map(|at| Field::new(format!("metric_{at}"), DataType::Float64, true)));
    let column =
        |of: &dyn Fn(usize, &Ran) -> Cell| all.iter().map(|(run, ran)| of(*run, ran)).collect();
    let mut columns: Vec<Vec<Cell>> = vec![
        column(&|run, _| Cell::Integer(run as i64)),
        column(&|_, ran| ran.error.as_deref().map_or(Cell::Null, Cell::text)),
    ];
    columns.extend(
        (0..metrics).map(|at| column(&|_, ran| ran.metrics[at].map_or(Cell::Null, Cell::Number))),
    );
    batch(&Arc::new(Schema::new(fields)), &columns)
}

fn runs_of(table: &RecordBatch) -> Result<Vec<(usize, Ran)>, ArrowError> {
    let run = |at| {
        let metric = |column| match cell(table, column, at)? {
            Cell::Number(number) => Ok(Some(number)),
            Cell::Null => Ok(None),
            _ => Err(wrong("a metric is no number")),
        };
        let error = text(table, 1, at)?;
        let metrics = (2..table.num_columns()).map(metric).collect::<Result<_, ArrowError>>()?;
        Ok((integer(table, 0, at)? as usize, Ran { error, rows: Vec::new(), metrics }))
    };
    (0..table.num_rows()).map(run).collect()
}

fn row(table: &RecordBatch, at: usize) -> Result<Row, ArrowError> {
    let schema = table.schema();
    let field = |column: usize| Ok((schema.field(column).name().clone(), cell(table, column, at)?));
    Ok(Row {
        kind: text(table, 2, at)?.unwrap_or_default().into(),
        name: text(table, 3, at)?,
        fields: (OWN.len()..table.num_columns()).map(field).collect::<Result<_, ArrowError>>()?,
    })
}

fn integer(table: &RecordBatch, column: usize, at: usize) -> Result<i64, ArrowError> {
    match cell(table, column, at)? {
        Cell::Integer(integer) => Ok(integer),
        _ => Err(wrong("the number of a run is none")),
    }
}

fn text(table: &RecordBatch, column: usize, at: usize) -> Result<Option<String>, ArrowError> {
    match cell(table, column, at)? {
        Cell::Text(text) => Ok(Some(text)),
        Cell::Null => Ok(None),
        _ => Err(wrong("a text is none")),
    }
}

fn cell(table: &RecordBatch, column: usize, at: usize) -> Result<Cell, ArrowError> {
    let cells = table.columns().get(column).ok_or_else(|| wrong("a column is missing"))?;
    Cell::of(cells, at).ok_or_else(|| wrong("a column has values of another type"))
}

fn stream(table: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = StreamWriter::try_new(&mut bytes, &table.schema())
        .and_then(|mut writer| writer.write(table).and_then(|()| writer.finish()));
    written.expect("memory takes what is written");
    bytes
}

fn table(stream: &[u8]) -> Result<RecordBatch, ArrowError> {
    let mut reader = StreamReader::try_new(stream, None)?;
    reader.next().unwrap_or_else(|| Err(wrong("a stream has no table")))
}

fn wrong(what: &str) -> ArrowError {
    ArrowError::ParseError(format!("no runs of a sweep: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells() -> impl Strategy<Value = Cell> {
        prop_oneof![
            Just(Cell::Null),
            any::<bool>().prop_map(Cell::Boolean),
            any::<i64>().prop_map(Cell::Integer),
            prop::num::f64::NORMAL.prop_map(Cell::Number),
            "[a-c\"\\n]{0,3}".prop_map(Cell::Text),
        ]
    }

    fn rows() -> impl Strategy<Value = Row> {
        let fields = prop::collection::vec(("[a-b]", cells()), 0..4);
        ("machine|task", prop::option::of("[a-z]{0,2}"), fields).prop_map(|(kind, name, fields)| {
            // No report has a field twice.
            let fields = fields.into_iter().enumerate();
            let fields = fields.map(|(at, (name, cell))| (format!("{name}{at}"), cell)).collect();
            Row { kind: kind.into(), name, fields }
        })
    }

    fn ran() -> impl Strategy<Value = Ran> {
        let metrics = prop::collection::vec(prop::option::of(prop::num::f64::NORMAL), 2);
        (prop::option::of("[a-c]{0,3}"), prop::collection::vec(rows(), 0..5), metrics)
            .prop_map(|(error, rows, metrics)| Ran { error, rows, metrics })
    }

    proptest! {
        #[test]
        fn nothing_is_lost_on_the_way(all in prop::collection::vec(ran(), 0..6)) {
            let all: Vec<(usize, Ran)> = (3..).zip(all).collect();
            let given: Vec<(usize, &Ran)> = all.iter().map(|(run, ran)| (*run, ran)).collect();
            prop_assert_eq!(unpacked(&packed(&given)).unwrap(), all);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let ran = Ran { error: None, rows: Vec::new(), metrics: vec![Some(1.5)] };
        let mut streams = packed(&[(0, &ran)]);
        assert!(unpacked(&[] as &[Vec<u8>]).is_err());
        streams[0].truncate(20);
        assert!(unpacked(&streams).is_err());
        assert!(unpacked(&[b"what is this?"]).is_err());
    }
}
