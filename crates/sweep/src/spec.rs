//! The reader of specifications: the swept settings, their values, and the seeds.
//!
//! A specification is JSON like a scenario, and every mistake in it has its place. The result is [`Spec`]: each value
//! of a setting, an axis or a kernel is a [`Choice`] with its change.

use crate::cell::Cell;
use crate::metric::Metric;
use crate::rows::Known;
use runyard_engine::features::Switched;
use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_workload::document::{Member, Value};
use runyard_workload::setting::{Path, Setting};
use runyard_workload::{Diagnostic, Window, advice};
use std::ops::Range;

/// The keys of a specification.
const KEYS: [&str; 13] = [
    "scenario", "set", "axes", "points", "sample", "features", "kernel", "seeds", "duration",
    "from", "until", "warmup", "metrics",
];

/// The columns that the tables of every sweep have.
const COLUMNS: [&str; 11] =
    ["point", "seed", "kind", "name", "error", "metric", "n", "mean", "median", "lo", "hi"];

/// The largest number of seeds for a point.
const MAX_SEEDS: u32 = 1_000_000;

/// The contents of a specification.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) scenario: Source,
    pub(crate) columns: Vec<String>,
    pub(crate) points: Points,
    pub(crate) seeds: Vec<u64>,
    pub(crate) duration: Option<Nanos>,
    pub(crate) window: Window,
    /// The metrics as written, each with its place. An empty list stands for the usual metrics.
    pub(crate) metrics: Vec<(Metric, Place)>,
}

/// The place of a scenario.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In a file of this name.
    File(String, Place),
    /// In the specification itself.
    Here(Range<usize>),
}

/// The points of a sweep.
#[derive(Clone, Debug)]
pub(crate) enum Points {
    /// All combinations of one choice for each dimension, or a sample of this size.
    Grid(Vec<Vec<Choice>>, Option<(u32, Place)>),
    /// The listed points. Each has a choice or none for each column.
    Listed(Vec<Vec<Option<Choice>>>),
}

/// One value of a dimension.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The value in the tables.
    pub(crate) value: Cell,
    pub(crate) changes: Vec<Change>,
    pub(crate) place: Place,
}

/// The change that a choice makes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Set(Setting),
    Switch(Vec<Switched>),
    Kernel(Model),
}

/// A place in the specification, for errors that are found later.
#[derive(Clone, Debug)]
pub(crate) struct Place(Diagnostic);

impl Place {
    pub(crate) fn wrong(&self, what: impl Into<String>) -> Diagnostic {
        Diagnostic { what: what.into(), ..self.0.clone() }
    }
}

fn place(value: Value<'_>) -> Place {
    Place(value.wrong(""))
}

/// Turns an error about a key's value into a diagnostic at its place.
fn refused<T>(result: Result<T, impl ToString>, member: &Member<'_>) -> Result<T, Diagnostic> {
    result.map_err(|what| member.wrong(what.to_string()))
}

impl Spec {
    /// # Errors
    /// The first mistake.
    pub(crate) fn read(file: &str, text: &str) -> Result<Spec, Diagnostic> {
        let root = Value::read(file, text)?;
        let members: Vec<Member<'_>> = root.members()?.collect();
        for member in &members {
            if !KEYS.contains(&member.key()) {
                let key = member.key();
                return Err(member.wrong(format!("a sweep has no {key:?}{}", advice(key, &KEYS))));
            }
        }
        let find = |key: &str| members.iter().find(|member| member.key() == key);
        let value = |key: &str| find(key).map(|member| member.value);
        let scenario = value("scenario").ok_or_else(|| root.wrong("a sweep has a \"scenario\""))?;
        let (columns, points) = match find("points") {
            None => grid(&members)?,
            Some(points) => {
                let others = ["set", "axes", "sample", "features", "kernel"];
                if let Some(other) = others.into_iter().find_map(find) {
                    let what = format!(
                        "points stand instead of a grid, which {:?} is a part of",
                        other.key()
                    );
                    return Err(other.wrong(what));
                }
                listed(points.value)?
            }
        };
        Ok(Spec {
            scenario: source(scenario)?,
            columns,
            points,
            seeds: value("seeds").map_or(Ok(vec![1]), seeds)?,
            duration: value("duration").map(duration).transpose()?,
            window: window(find)?,
            metrics: value("metrics").map_or(Ok(vec![]), metrics)?,
        })
    }
}

fn source(value: Value<'_>) -> Result<Source, Diagnostic> {
    match value.is_object() {
        true => Ok(Source::Here(value.place())),
        false if value.is_text() => Ok(Source::File(value.text()?.into_owned(), place(value))),
        false => Err(value.wrong("a scenario is the name of a file, or an object")),
    }
}

/// The dimensions of a grid, in the order: settings, axes, features, kernels.
fn grid(members: &[Member<'_>]) -> Result<(Vec<String>, Points), Diagnostic> {
    let find = |key: &str| members.iter().find(|member| member.key() == key);
    let mut grid = Grid::default();
    if let Some(set) = find("set") {
        for member in set.value.members()? {
            grid.setting(&member)?;
        }
    }
    if let Some(axes) = find("axes") {
        for member in axes.value.members()? {
            grid.axis(&member)?;
        }
    }
    if let Some(features) = find("features") {
        let choices = features.value.elements()?.map(switches).collect::<Result<_, _>>()?;
        grid.dimension(features, "features", choices)?;
    }
    if let Some(kernels) = find("kernel") {
        let choices = kernels.value.elements()?.map(kernel).collect::<Result<_, _>>()?;
        grid.dimension(kernels, "kernel", choices)?;
    }
    let sample = find("sample").map(|member| {
        let number = member.value.natural("a number of points", 1..=u32::MAX)?;
        Ok((number, place(member.value)))
    });
    Ok((grid.columns, Points::Grid(grid.dimensions, sample.transpose()?)))
}

#[derive(Debug, Default)]
struct Grid {
    columns: Vec<String>,
    dimensions: Vec<Vec<Choice>>,
    /// All paths that are set, each with the number of its column.
    paths: Vec<(Path, usize)>,
}

impl Grid {
    fn setting(&mut self, member: &Member<'_>) -> Result<(), Diagnostic> {
        let choice = |value: Value<'_>| {
            let changes = vec![Change::Set(setting(member, value)?)];
            Ok(Choice { value: cell(value), changes, place: place(value) })
        };
        if !member.value.is_list() {
            let what = "a path is swept over a list of values, as [1000, 3000]";
            return Err(member.value.wrong(what));
        }
        let choices = member.value.elements()?.map(choice).collect::<Result<_, _>>()?;
        self.dimension(member, member.key(), choices)
    }

    fn axis(&mut self, member: &Member<'_>) -> Result<(), Diagnostic> {
        let name = member.key();
        if COLUMNS.contains(&name)
            || ["features", "kernel"].contains(&name)
            || Known::new().has(name)
        {
            return Err(member.wrong(format!(
                "tables have a column {name:?} of their own: the axis needs another name"
            )));
        }
        let choice = |label: Member<'_>| {
            let changes = label.value.members()?.map(|it| Ok(Change::Set(setting(&it, it.value)?)));
            let changes = changes.collect::<Result<_, _>>()?;
            Ok(Choice { value: Cell::text(label.key()), changes, place: place(label.value) })
        };
        let choices = member.value.members()?.map(choice).collect::<Result<_, _>>()?;
        self.dimension(member, name, choices)
    }

    fn dimension(
        &mut self,
        member: &Member<'_>,
        name: &str,
        choices: Vec<Choice>,
    ) -> Result<(), Diagnostic> {
        if choices.is_empty() {
            return Err(member.value.wrong(format!("{name:?} has no value: there is no point")));
        }
        if self.columns.iter().any(|column| column == name) {
            return Err(member.wrong(format!("{name:?} is swept twice")));
        }
        for (at, choice) in choices.iter().enumerate() {
            if choices[..at].iter().any(|other| other.value == choice.value) {
                return Err(choice.place.wrong(format!("{name:?} has this value twice")));
            }
            for change in &choice.changes {
                self.claim(change, &choice.place)?;
            }
        }
        self.columns.push(name.to_owned());
        self.dimensions.push(choices);
        Ok(())
    }

    /// Notes that the next column sets a path. No other column may set it.
    fn claim(&mut self, change: &Change, place: &Place) -> Result<(), Diagnostic> {
        let Change::Set(setting) = change else { return Ok(()) };
        let own = self.columns.len();
        match self.paths.iter().find(|(path, _)| path == setting.path()) {
            Some(&(_, column)) if column != own => {
                let by = &self.columns[column];
                Err(place.wrong(format!("{} is swept already, by {by:?}", setting.path())))
            }
            Some(_) => Ok(()),
            None => {
                self.paths.push((setting.path().clone(), own));
                Ok(())
            }
        }
    }
}

/// Reads listed points. A path that a point does not name keeps the scenario's value there.
fn listed(list: Value<'_>) -> Result<(Vec<String>, Points), Diagnostic> {
    let mut columns: Vec<String> = Vec::new();
    let mut points = Vec::new();
    for object in list.elements()? {
        let mut point: Vec<Option<Choice>> = vec![None; columns.len()];
        for member in object.members()? {
            let changes = vec![Change::Set(setting(&member, member.value)?)];
            let choice = Choice { value: cell(member.value), changes, place: place(member.value) };
            let column = columns.iter().position(|column| column == member.key());
            let column = column.unwrap_or_else(|| {
                columns.push(member.key().to_owned());
                columns.len() - 1
            });
            point.resize(columns.len(), None);
            point[column] = Some(choice);
        }
        points.push(point);
    }
    if points.is_empty() {
        return Err(list.wrong("there is no point"));
    }
    points.iter_mut().for_each(|point| point.resize(columns.len(), None));
    Ok((columns, Points::Listed(points)))
}

fn setting(member: &Member<'_>, value: Value<'_>) -> Result<Setting, Diagnostic> {
    refused(Setting::new(member.key(), value.source()), member)
}

/// The cell of a value in the tables.
fn cell(value: Value<'_>) -> Cell {
    let source = value.source();
    match (source, source.parse(), source.parse()) {
        ("true", ..) => Cell::Boolean(true),
        ("false", ..) => Cell::Boolean(false),
        ("null", ..) => Cell::Null,
        (_, Ok(integer), _) => Cell::Integer(integer),
        (_, _, Ok(number)) => Cell::Number(number),
        _ => {
            Cell::Text(value.text().map_or_else(|_| value.one_line(), std::borrow::Cow::into_owned))
        }
    }
}

fn switches(list: Value<'_>) -> Result<Choice, Diagnostic> {
    let mut names = Vec::new();
    let mut switched = Vec::new();
    for value in list.elements()? {
        let name = value.text()?;
        let switch: Switched = name.parse().map_err(|it| value.wrong(format!("{it}")))?;
        switched.push(switch);
        names.push(name.into_owned());
    }
    let value = Cell::Text(names.join(" "));
    Ok(Choice { value, changes: vec![Change::Switch(switched)], place: place(list) })
}

fn kernel(value: Value<'_>) -> Result<Choice, Diagnostic> {
    let name = value.text()?;
    let model: Model = name.parse().map_err(|it| value.wrong(format!("{it}")))?;
    let changes = vec![Change::Kernel(model)];
    Ok(Choice { value: Cell::Text(name.into_owned()), changes, place: place(value) })
}

/// Seeds: a number for 1 up to it, or a list.
fn seeds(value: Value<'_>) -> Result<Vec<u64>, Diagnostic> {
    if !value.is_list() {
        let number = value.natural("a number of seeds, or a list of them", 1..=MAX_SEEDS)?;
        return Ok((1..=number.into()).collect());
    }
    let mut seeds: Vec<u64> = Vec::new();
    for element in value.elements()? {
        let seed = element.integer("a seed", 0..=i64::MAX)? as u64;
        if seeds.contains(&seed) {
            return Err(element.wrong(format!("seed {seed} is there twice")));
        }
        seeds.push(seed);
    }
    if seeds.is_empty() { Err(value.wrong("there is no seed")) } else { Ok(seeds) }
}

/// A duration: a number of seconds, or a text with a unit.
fn duration(value: Value<'_>) -> Result<Nanos, Diagnostic> {
    if value.is_text() {
        return runyard_workload::span(&value.text()?).map_err(|what| value.wrong(what));
    }
    let seconds: Option<f64> = value.source().parse().ok();
    let nanos = seconds.map(|seconds| (seconds * 1e9).round());
    match nanos.filter(|nanos| (1.0..1e18).contains(nanos)) {
        Some(nanos) => Ok(Nanos(nanos as u64)),
        None => Err(value.wrong("a duration is a number of seconds above 0, or a span as \"10s\"")),
    }
}

/// The part of a run that counts. `warmup` is another name of `from`.
fn window<'m, 'v: 'm>(find: impl Fn(&str) -> Option<&'m Member<'v>>) -> Result<Window, Diagnostic> {
    if let (Some(_), Some(both)) = (find("from"), find("warmup")) {
        return Err(both.wrong("\"warmup\" is another name of \"from\": one of both is enough"));
    }
    let read = |key: &str| find(key).map(|member| moment(member.value)).transpose();
    Ok(Window { from: read("from")?.or(read("warmup")?), until: read("until")? })
}

/// A moment of the run: a number of seconds, or a text with a unit.
fn moment(value: Value<'_>) -> Result<Nanos, Diagnostic> {
    match value.source() {
        "0" => Ok(Nanos::ZERO),
        _ if value.is_text() => {
            runyard_workload::moment(&value.text()?).map_err(|what| value.wrong(what))
        }
        _ => duration(value),
    }
}

fn metrics(list: Value<'_>) -> Result<Vec<(Metric, Place)>, Diagnostic> {
    let mut metrics: Vec<(Metric, Place)> = Vec::new();
    for value in list.elements()? {
        let metric: Metric = value.text()?.parse().map_err(|what: String| value.wrong(what))?;
        if metrics.iter().any(|(other, _)| *other == metric) {
            return Err(value.wrong(format!("{metric} is there twice")));
        }
        metrics.push((metric, place(value)));
    }
    Ok(metrics)
}
