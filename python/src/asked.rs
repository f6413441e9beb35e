//! The questions that take several runs: why a task was late, and how two scenarios differ.

use crate::failed::{bad_value, failure};
use crate::input::{self, Options, Source};
use crate::json;
use crate::report::Report;
use crate::table::{Reduced, Table};
use crate::waiting::done_meanwhile;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use runyard_report::html;
use runyard_sweep::{Asking, Compared, Metric, Question, SEEDS, Side, Text, pool, tables};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The reasons why a task was late: how long it waited, part by part, and the cause of each part.
///
/// `str()` gives the text and the drawing that the command prints.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Explanation {
    text: String,
    json: String,
}

impl Explanation {
    /// A field of the JSON.
    fn field<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.to_dict(py)?.get_item(key)
    }
}

#[pymethods]
impl Explanation {
    /// The task that waited. A thread with several instances has the number of the instance behind its name.
    #[getter]
    fn task<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, "task")
    }

    /// Nanoseconds from the wake-up of the task until it ran.
    #[getter]
    fn latency_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, "worst")?.get_item("latency_ns")
    }

    /// The cause of most of the wait, as "important" or "placement".
    #[getter]
    fn cause<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, "worst")?.get_item("cause")
    }

    /// The parts of the wait: from_ns, to_ns, cpu, doing, task, cause, free_cpu.
    #[getter]
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.field(py, "parts")
    }

    /// Returns the whole explanation as dicts and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::loads(py, &self.json)
    }

    /// Returns the whole explanation as JSON: the text that the command prints with --json.
    fn to_json(&self) -> &str {
        &self.json
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn _repr_html_(&self) -> String {
        html::preformatted(&self.text)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (task, latency) = (self.task(py)?, self.latency_ns(py)?);
        Ok(format!("<runyard.Explanation: {task} waits {latency} ns>"))
    }

    /// Makes an explanation of what pickle kept.
    #[staticmethod]
    #[pyo3(name = "_of_state")]
    fn of_state(text: String, json: String) -> Explanation {
        Explanation { text, json }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Explanation>) -> PyResult<Reduced<'py, (String, String)>> {
        let own = slf.get();
        Ok((slf.get_type().getattr("_of_state")?, (own.text.clone(), own.json.clone())))
    }
}

/// The subject of an explanation: a task or thread with a moment, or a chain.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    task: Option<String>,
    at: Option<String>,
    chain: Option<String>,
}

/// Explains why a task was late.
#[pyfunction]
pub(crate) fn explain(
    py: Python<'_>,
    source: Source,
    seed: u64,
    options: Options,
    asked: Asked,
) -> PyResult<Explanation> {
    let scenario = input::parsed(py, &source, &options)?.scenario;
    let question = match asked {
        Asked { chain: Some(chain), .. } => Question::Chain(chain),
        Asked { task, at, .. } => Question::Task {
            name: task.unwrap_or_default(),
            at: at.map(|at| runyard_workload::moment(&at)).transpose().map_err(bad_value)?,
        },
    };
    let told = done_meanwhile(
        py,
        |stop| {
            let stop = || stop.load(Ordering::Relaxed);
            runyard_sweep::explain(&scenario, seed, &question, &stop)
        },
        |_| Ok(()),
    )?;
    let story = told.map_err(failure)?.ok_or_else(|| bad_value("the run was stopped"))?;
    Ok(Explanation { text: story.text().to_owned(), json: story.to_json() })
}

/// The differences between two sides, and the verdicts on the figures that are asked for.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Comparison {
    kept: Kept,
}

/// A comparison, or what pickle keeps of it.
#[derive(Debug)]
enum Kept {
    Whole(Box<runyard_sweep::Comparison>),
    Shown(Box<Shown>),
}

/// The views of a comparison.
#[derive(Clone, Debug, FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct Shown {
    text: String,
    json: String,
    page: String,
    judged: Table,
    changes: Table,
    names: [String; 2],
}

impl From<runyard_sweep::Comparison> for Comparison {
    fn from(comparison: runyard_sweep::Comparison) -> Comparison {
        Comparison { kept: Kept::Whole(Box::new(comparison)) }
    }
}

#[pymethods]
impl Comparison {
    /// The figures that are asked for, each with its verdict (change, noise, same, too_few_seeds) and its probability by
    /// chance (p).
    #[getter]
    fn judged(&self) -> Table {
        match &self.kept {
            Kept::Whole(whole) => tables::judged(whole.changes()).into(),
            Kept::Shown(shown) => shown.judged.clone(),
        }
    }

    /// Each figure before and after, and the difference with its 95 % interval.
    #[getter]
    fn changes(&self) -> Table {
        match &self.kept {
            Kept::Whole(whole) => tables::changes(whole.changes()).into(),
            Kept::Shown(shown) => shown.changes.clone(),
        }
    }

    /// Returns all as JSON: the text that the command prints with --json.
    fn to_json(&self) -> String {
        match &self.kept {
            Kept::Whole(whole) => whole.to_json(),
            Kept::Shown(shown) => shown.json.clone(),
        }
    }

    /// Returns the page that the command writes with --html.
    fn to_html(&self) -> String {
        match &self.kept {
            Kept::Whole(whole) => whole.html(),
            Kept::Shown(shown) => shown.page.clone(),
        }
    }

    fn __str__(&self) -> String {
        match &self.kept {
            Kept::Whole(whole) => whole.text(),
            Kept::Shown(shown) => shown.text.clone(),
        }
    }

    fn _repr_html_(&self) -> String {
        html::preformatted(&self.__str__())
    }

    fn __repr__(&self) -> String {
        let [before, after] = self.names();
        format!("<runyard.Comparison of {before} and {after}>")
    }

    /// Makes a comparison of what pickle kept.
    #[staticmethod]
    #[pyo3(name = "_of_state")]
    fn of_state(shown: Shown) -> Comparison {
        Comparison { kept: Kept::Shown(Box::new(shown)) }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Comparison>) -> PyResult<Reduced<'py, (Shown,)>> {
        Ok((slf.get_type().getattr("_of_state")?, (slf.get().shown(),)))
    }
}

impl Comparison {
    /// The names of both sides.
    fn names(&self) -> [String; 2] {
        match &self.kept {
            Kept::Whole(whole) => whole.reports().map(|report| report.scenario.clone()),
            Kept::Shown(shown) => shown.names.clone(),
        }
    }

    fn shown(&self) -> Shown {
        Shown {
            text: self.__str__(),
            json: self.to_json(),
            page: self.to_html(),
            judged: self.judged(),
            changes: self.changes(),
            names: self.names(),
        }
    }
}

/// Compares two reports.
#[pyfunction]
pub(crate) fn compare_reports(
    py: Python<'_>,
    before: &Report,
    after: &Report,
) -> PyResult<Comparison> {
    let (before, after) = (before.inner().clone(), after.inner().clone());
    let comparison = py.detach(|| runyard_sweep::Comparison::of([before, after]));
    Ok(comparison.into())
}

/// A side: the scenario, all replacements in it, and the replacements of this side alone.
type GivenSide = (Source, Options, Options);

/// Compares two scenarios over seeds, in pairs. `look` is called now and then with the number of finished runs.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    sides: [GivenSide; 2],
    asked: (u64, Vec<String>),
    jobs: Option<NonZeroUsize>,
    look: &Bound<'_, PyAny>,
) -> PyResult<Comparison> {
    let (seeds, metrics) = asked;
    if !SEEDS.contains(&seeds) {
        return Err(bad_value(format_args!("seeds must be {} to {}", SEEDS.start(), SEEDS.end())));
    }
    let [before, after] = sides;
    let sides = [side(py, &before)?, side(py, &after)?];
    let metrics = metrics.iter().map(|metric| metric.parse().map_err(bad_value));
    let asking = Asking {
        seeds,
        jobs: jobs.map_or_else(pool::cores, NonZeroUsize::get),
        metrics: metrics.collect::<PyResult<Vec<Metric>>>()?,
        conditions: Vec::new(),
    };
    let (done, look) = (AtomicUsize::new(0), look.clone().unbind());
    let compared = done_meanwhile(
        py,
        |stop| {
            let stop = || stop.load(Ordering::Relaxed);
            let progress = |now| done.store(now, Ordering::Relaxed);
            runyard_sweep::compare(&sides, &asking, &stop, progress)
        },
        |py| look.call1(py, (done.load(Ordering::Relaxed),)).map(drop),
    )?;
    let Compared { comparison, .. } = compared.map_err(failure)?;
    let comparison = comparison.ok_or_else(|| bad_value("the runs were stopped"))?;
    Ok(comparison.into())
}

fn side(py: Python<'_>, (source, options, own): &GivenSide) -> PyResult<Side> {
    // Parsing here reports a mistake with its place.
    input::parsed(py, source, options)?;
    // The name of a side is that of its file without the ending.
    let has_file = source.1.is_none();
    let file = if has_file { source.0.clone() } else { input::name_of(source) + ".json" };
    let text = Text { file, text: input::text(source)? };
    Side::new(text, own.shown(), &options.overrides()?).map_err(failure)
}
