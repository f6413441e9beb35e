//! The questions that take several runs: why a task was late, and how two scenarios differ.

use crate::failed::{bad_value, failure};
use crate::input::{self, Options, Source};
use crate::json;
use crate::report::Report;
use crate::table::Table;
use crate::waiting::done_meanwhile;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use runyard_report::html;
use runyard_sweep::{Asking, Compared, Metric, Question, SEEDS, Side, Story, Text, pool, tables};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The reasons why a task was late: how long it waited, part by part, and the cause of each part.
///
/// `str()` gives the text and the drawing that the command prints.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Explanation {
    story: Story,
}

#[pymethods]
impl Explanation {
    /// The task that waited. A thread with several instances has the number of the instance behind its name.
    #[getter]
    fn task(&self) -> &str {
        self.story.task()
    }

    /// Nanoseconds from the wake-up of the task until it ran.
    #[getter]
    fn latency_ns(&self) -> u64 {
        self.story.explanation().worst.latency_ns
    }

    /// The cause of most of the wait, as "important" or "placement".
    #[getter]
    fn cause<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.story.explanation().worst.cause)
    }

    /// The parts of the wait: from_ns, to_ns, cpu, doing, task, cause, free_cpu.
    #[getter]
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.story.explanation().parts)
    }

    /// Returns the whole explanation as dicts and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.story)
    }

    /// Returns the whole explanation as JSON: the text that the command prints with --json.
    fn to_json(&self) -> String {
        self.story.to_json()
    }

    fn __str__(&self) -> &str {
        self.story.text()
    }

    fn _repr_html_(&self) -> String {
        html::preformatted(self.story.text())
    }

    fn __repr__(&self) -> String {
        let worst = &self.story.explanation().worst;
        format!("<runyard.Explanation: {} waits {} ns>", self.story.task(), worst.latency_ns)
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
    Ok(Explanation { story })
}

/// The differences between two sides, and the verdicts on the figures that are asked for.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Comparison {
    comparison: runyard_sweep::Comparison,
}

#[pymethods]
impl Comparison {
    /// The figures that are asked for, each with its verdict (change, noise, same, too_few_seeds) and its probability by
    /// chance (p).
    #[getter]
    fn judged(&self) -> Table {
        tables::judged(self.comparison.changes()).into()
    }

    /// Each figure before and after, and the difference with its 95 % interval.
    #[getter]
    fn changes(&self) -> Table {
        tables::changes(self.comparison.changes()).into()
    }

    /// Returns all as JSON: the text that the command prints with --json.
    fn to_json(&self) -> String {
        self.comparison.to_json()
    }

    /// Returns the page that the command writes with --html.
    fn to_html(&self) -> String {
        self.comparison.html()
    }

    fn __str__(&self) -> String {
        self.comparison.text()
    }

    fn _repr_html_(&self) -> String {
        html::preformatted(&self.comparison.text())
    }

    fn __repr__(&self) -> String {
        let [before, after] = self.comparison.reports();
        format!("<runyard.Comparison of {} and {}>", before.scenario, after.scenario)
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
    Ok(Comparison { comparison })
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
    Ok(Comparison { comparison })
}

fn side(py: Python<'_>, (source, options, own): &GivenSide) -> PyResult<Side> {
    // Parsing here reports a mistake with its place.
    input::parsed(py, source, options)?;
    let text = Text { file: source.0.clone(), text: input::text(source)? };
    Side::new(text, own.shown(), &options.overrides()?).map_err(failure)
}
