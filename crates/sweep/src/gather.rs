//! Tables made of runs, by one writer and in the order of the plan, wherever the runs took place.
//!
//! The runs are read twice. The first pass collects the statistics and the columns: those of any run, in the order of
//! their first appearance. The second pass writes the rows. One part at a time is in memory.

use crate::cell::Cell;
use crate::plan::Plan;
use crate::run::Ran;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use runyard_outcome::Failure;
use runyard_report::statistics::{Summaries, Summary};
use runyard_report::{metric_title, table};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The store of a plan's runs.
pub trait Parts {
    /// Reads the runs of this part, in the plan's order.
    ///
    /// # Errors
    /// The runs cannot be read.
    fn read(&self, part: usize) -> Result<Cow<'_, [Ran]>, Failure>;
}

/// The tables of a sweep.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The rows of all runs, a batch for each part.
    pub runs: Vec<RecordBatch>,
    /// Each metric of each point, over the seeds.
    pub summary: RecordBatch,
    /// The number of failed runs, and the first reason.
    pub failed: Option<(usize, String)>,
}

impl Tables {
    /// The tables of all runs of a plan.
    ///
    /// # Errors
    /// Those of `from`.
    pub fn of(plan: &Plan, from: &impl Parts) -> Result<Tables, Failure> {
        let gathered = Gathered::new(plan, from)?;
        let batch = |(part, runs)| Ok(gathered.batch(plan, runs, &from.read(part)?));
        let runs = parts(plan).enumerate().map(batch).collect::<Result<_, _>>()?;
        let summary = summary_batch(plan, &gathered.summary);
        Ok(Tables { runs, summary, failed: gathered.failed })
    }
}

/// The runs of each part of a plan.
pub fn parts(plan: &Plan) -> impl Iterator<Item = Range<usize>> + use<> {
    let (size, runs) = (plan.part_size(), plan.runs());
    (0..runs).step_by(size).map(move |first| first..(first + size).min(runs))
}

/// The number of rows of the statistics that are shown.
const SHOWN: usize = 60;

/// The titles of the columns that are shown after the swept ones.
const TITLES: [&str; 3] = ["metric", "mean", "95 % interval"];

/// The statistics of a metric over the seeds of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// The point.
    pub point: usize,
    /// The number of the metric in the plan.
    pub metric: usize,
    /// The statistics; `None` if no run has this metric.
    pub summary: Option<Summary>,
}

/// The results of the first pass over all runs.
#[derive(Clone, Debug)]
pub struct Gathered {
    schema: Arc<Schema>,
    /// The place of each field among the columns.
    places: BTreeMap<String, usize>,
    /// Each metric of each point.
    pub summary: Vec<SummaryRow>,
    /// The number of runs of each point.
    pub(crate) seeds: Vec<usize>,
    /// The number of failed runs, and the first reason.
    pub failed: Option<(usize, String)>,
}

impl Gathered {
    /// Reads all runs of a plan.
    ///
    /// # Errors
    /// Those of `from`.
    pub fn new(plan: &Plan, from: &impl Parts) -> Result<Gathered, Failure> {
        let mut columns = Columns::new(plan);
        let mut points = Points::new(plan);
        let mut seeds = vec![0; plan.points()];
        let mut failed: Option<(usize, String)> = None;
        for (part, runs) in parts(plan).enumerate() {
            for (run, ran) in runs.zip(&*from.read(part)?) {
                ran.rows
                    .iter()
                    .flat_map(|row| &row.fields)
                    .for_each(|(name, cell)| columns.add(name, cell));
                points.add(run, ran);
                seeds[plan.run(run).0] += usize::from(ran.took_place());
                if let Some(reason) = &ran.error {
                    failed.get_or_insert_with(|| (0, reason.clone())).0 += 1;
                }
            }
        }
        let (schema, places) = columns.schema();
        Ok(Gathered { schema, places, summary: points.summary, seeds, failed })
    }

    /// The number of intervals that are wider than the plan's precision.
    pub(crate) fn wide(&self, plan: &Plan) -> usize {
        let wide = |row: &&SummaryRow| row.summary.is_some_and(|summary| !plan.is_narrow(&summary));
        self.summary.iter().filter(wide).count()
    }

    /// The first rows of the table of statistics, with units and intervals.
    pub(crate) fn shown(&self, plan: &Plan) -> String {
        let swept = plan.columns();
        let titles: Vec<&str> = swept.iter().map(String::as_str).chain(TITLES).collect();
        let mut table = table(&titles, swept.len() + 1);
        for row in self.summary.iter().take(SHOWN) {
            let metric = &plan.metrics()[row.metric];
            let value = |it: f64| metric.unit().shown(it);
            let mean = row.summary.map(|summary| value(summary.mean));
            let interval = row.summary.and_then(|summary| summary.interval);
            let interval = interval.map(|(low, high)| format!("{} to {}", value(low), value(high)));
            let said = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let set = |cell: &Cell| said(Some(cell.to_string()).filter(|_| *cell != Cell::Null));
            let values = plan.point(row.point).values.iter().map(set).collect();
            let own = [Some(metric_title(&metric.to_string())), mean, interval].map(said);
            table.add_row([values, Vec::from(own)].concat());
        }
        let mut text = table.trim_fmt() + "\n";
        if let more @ 1.. = self.summary.len().saturating_sub(SHOWN) {
            text += &format!("and {more} more\n");
        }
        text
    }

    /// The columns of the table of runs.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.clone()
    }

    /// The rows of these runs.
    #[must_use]
    pub fn batch(&self, plan: &Plan, runs: Range<usize>, ran: &[Ran]) -> RecordBatch {
        let mut columns: Vec<Vec<Cell>> = vec![Vec::new(); self.schema.fields().len()];
        let text = |text: Option<&str>| text.map_or(Cell::Null, Cell::text);
        let swept = plan.columns().len();
        for (run, ran) in runs.zip(ran) {
            let (point, seed) = plan.run(run);
            let values = plan.point(point).values;
            for row in &ran.rows {
                let mut cells = vec![Cell::Null; columns.len()];
                cells[0] = Cell::Integer(point as i64);
                cells[1] = Cell::Integer(seed as i64);
                cells[2..][..swept].clone_from_slice(&values);
                cells[2 + swept] = text(Some(&row.kind));
                cells[3 + swept] = text(row.name.as_deref());
                cells[4 + swept] = text(ran.error.as_deref());
                for (name, cell) in &row.fields {
                    cells[self.places[name]] = cell.clone();
                }
                columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
            }
        }
        batch(&self.schema, &columns)
    }
}

/// The table of the statistics, as a batch.
fn summary_batch(plan: &Plan, summary: &[SummaryRow]) -> RecordBatch {
    let mut fields: Vec<Field> =
        (0..plan.columns().len()).map(|at| swept_field(plan, at)).collect();
    fields.push(Field::new("metric", DataType::Utf8, true));
    fields.push(Field::new("n", DataType::Int64, true));
    fields.extend(
        ["mean", "median", "lo", "hi"].map(|name| Field::new(name, DataType::Float64, true)),
    );
    let rows: Vec<Vec<Cell>> = summary.iter().map(|row| summary_cells(plan, row)).collect();
    let column = |at: usize| rows.iter().map(|row| row[at].clone()).collect();
    let columns: Vec<Vec<Cell>> = (0..fields.len()).map(column).collect();
    batch(&Arc::new(Schema::new(fields)), &columns)
}

/// A row of the table of statistics.
pub(crate) fn summary_cells(plan: &Plan, row: &SummaryRow) -> Vec<Cell> {
    let mut cells = plan.point(row.point).values;
    cells.push(Cell::Text(plan.metrics()[row.metric].to_string()));
    cells.push(Cell::Integer(row.summary.map_or(0, |summary| summary.n as i64)));
    let number = |number: Option<f64>| number.map_or(Cell::Null, Cell::Number);
    let interval = row.summary.and_then(|summary| summary.interval);
    cells.extend([
        number(row.summary.map(|summary| summary.mean)),
        number(row.summary.map(|summary| summary.median)),
        number(interval.map(|(low, _)| low)),
        number(interval.map(|(_, high)| high)),
    ]);
    cells
}

/// The metrics of the point that is being read, and the summaries of earlier points.
struct Points<'p> {
    plan: &'p Plan,
    values: Vec<Vec<f64>>,
    summaries: Summaries,
    summary: Vec<SummaryRow>,
}

impl<'p> Points<'p> {
    fn new(plan: &'p Plan) -> Points<'p> {
        let values = vec![Vec::new(); plan.metrics().len()];
        Points { plan, values, summaries: Summaries::default(), summary: Vec::new() }
    }

    fn add(&mut self, run: usize, ran: &Ran) {
        for (values, metric) in self.values.iter_mut().zip(&ran.metrics) {
            values.extend(metric);
        }
        let seeds = self.plan.seeds().len();
        if (run + 1).is_multiple_of(seeds) {
            for (metric, values) in self.values.iter_mut().enumerate() {
                let summary = self.summaries.of(values);
                self.summary.push(SummaryRow { point: run / seeds, metric, summary });
                values.clear();
            }
        }
    }
}

/// The type of a field of reports without a value. Most such fields are figures, a few are texts.
pub(crate) fn unsaid(name: &str) -> DataType {
    if ["cookie", "held_by"].contains(&name) { DataType::Utf8 } else { DataType::Int64 }
}

/// The columns seen so far, in their order, each with the common type of its cells.
struct Columns {
    fields: Vec<Field>,
    places: BTreeMap<String, usize>,
    /// The types of the figures' columns; `None` for a column that is always empty.
    types: Vec<Option<DataType>>,
}

impl Columns {
    fn new(plan: &Plan) -> Columns {
        let integer = |name: &str| Field::new(name, DataType::Int64, false);
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        let mut fields = vec![integer("point"), integer("seed")];
        fields.extend((0..plan.columns().len()).map(|at| swept_field(plan, at)));
        fields.extend(["kind", "name", "error"].map(text));
        Columns { fields, places: BTreeMap::new(), types: Vec::new() }
    }

    fn add(&mut self, name: &str, cell: &Cell) {
        let first = self.fields.len();
        let place = match self.places.get(name) {
            Some(&place) => place,
            None => {
                let place = first + self.types.len();
                self.places.insert(name.to_owned(), place);
                self.types.push(None);
                place
            }
        };
        let known = &mut self.types[place - first];
        *known = common(known.take(), cell);
    }

    fn schema(mut self) -> (Arc<Schema>, BTreeMap<String, usize>) {
        let mut names: Vec<(&String, &usize)> = self.places.iter().collect();
        names.sort_by_key(|(_, place)| **place);
        for ((name, _), known) in names.into_iter().zip(self.types) {
            self.fields.push(Field::new(name, known.unwrap_or_else(|| unsaid(name)), true));
        }
        (Arc::new(Schema::new(self.fields)), self.places)
    }
}

fn swept_field(plan: &Plan, column: usize) -> Field {
    let known = plan.values(column).into_iter().fold(None, common);
    Field::new(&plan.columns()[column], known.unwrap_or(DataType::Utf8), true)
}

/// The type that holds all values of a type and the cell too.
pub(crate) fn common(known: Option<DataType>, cell: &Cell) -> Option<DataType> {
    let own = match cell {
        Cell::Null => return known,
        Cell::Boolean(_) => DataType::Boolean,
        Cell::Integer(_) => DataType::Int64,
        Cell::Number(_) => DataType::Float64,
        Cell::Text(_) => DataType::Utf8,
    };
    Some(match known {
        None => own,
        Some(known) if known == own => own,
        Some(DataType::Int64 | DataType::Float64)
            if matches!(own, DataType::Int64 | DataType::Float64) =>
        {
            DataType::Float64
        }
        Some(_) => DataType::Utf8,
    })
}

pub(crate) fn batch(schema: &Arc<Schema>, columns: &[Vec<Cell>]) -> RecordBatch {
    let arrays = schema.fields().iter().zip(columns);
    let arrays = arrays.map(|(field, cells)| array(field.data_type(), cells)).collect();
    RecordBatch::try_new(schema.clone(), arrays).expect("the columns are those of the schema")
}

impl Cell {
    /// The value of a column; `None` if it has a type that no cell has.
    pub(crate) fn of(column: &dyn Array, at: usize) -> Option<Cell> {
        Some(match column.data_type() {
            _ if column.is_null(at) => Cell::Null,
            DataType::Boolean => Cell::Boolean(column.as_boolean().value(at)),
            DataType::Int64 => Cell::Integer(column.as_primitive::<Int64Type>().value(at)),
            DataType::Float64 => Cell::Number(column.as_primitive::<Float64Type>().value(at)),
            DataType::Utf8 => Cell::Text(column.as_string::<i32>().value(at).to_owned()),
            _ => return None,
        })
    }
}

fn array(of: &DataType, cells: &[Cell]) -> ArrayRef {
    match of {
        DataType::Boolean => {
            let truth = |cell: &Cell| if let Cell::Boolean(it) = cell { Some(*it) } else { None };
            Arc::new(BooleanArray::from_iter(cells.iter().map(truth)))
        }
        DataType::Int64 => {
            let integer = |cell: &Cell| if let Cell::Integer(it) = cell { Some(*it) } else { None };
            Arc::new(Int64Array::from_iter(cells.iter().map(integer)))
        }
        DataType::Float64 => Arc::new(Float64Array::from_iter(cells.iter().map(Cell::number))),
        _ => {
            let text = |cell: &Cell| Some(cell.to_string()).filter(|_| *cell != Cell::Null);
            Arc::new(StringArray::from_iter(cells.iter().map(text)))
        }
    }
}
