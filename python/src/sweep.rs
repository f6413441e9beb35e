//! Sweeps: on the threads of this machine, or by a caller that executes the runs of a plan elsewhere.

use crate::failed::{bad_value, failure, refused, scenario_error, shown};
use crate::input::{self, Source};
use crate::table::{Reduced, Table};
use crate::waiting::done_meanwhile;
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes};
use runyard_sweep::{Folder, Ran, Runner, Text, pool, tables, wire};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The runs of a sweep: points in a fixed order, each with all seeds.
///
/// A plan follows from two texts, the specification and the scenario.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Plan {
    plan: Arc<runyard_sweep::Plan>,
}

#[pymethods]
impl Plan {
    #[new]
    fn new(py: Python<'_>, source: Source) -> PyResult<Plan> {
        let text = input::text(&source)?;
        let file = source.0.clone();
        let folder = match source.1 {
            Some(_) => PathBuf::new(),
            None => Path::new(&file).parent().unwrap_or(Path::new("")).to_owned(),
        };
        let read = |name: &str| {
            let file = folder.join(name).to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            Ok(Text { file, text })
        };
        let plan = py.detach(|| runyard_sweep::Plan::new(Text { file, text }, read));
        let plan = plan.map_err(|error| scenario_error(py, &source, &error))?;
        // A scenario within a dict has no file that gives it a name.
        let has_file = source.1.is_none() || plan.scenario().file != source.0;
        let plan = if has_file { plan } else { plan.called(input::name_of(&source)) };
        for warning in plan.warnings() {
            input::warn(py, &shown(&source, warning))?;
        }
        Ok(Plan { plan: Arc::new(plan) })
    }

    /// Makes a plan from the texts of another plan. They were checked when that plan was made.
    #[staticmethod]
    fn of_texts(texts: [(String, String); 2]) -> PyResult<Plan> {
        let [spec, scenario] = texts.map(|(file, text)| Text { file, text });
        let plan = runyard_sweep::Plan::checked_before(spec, scenario);
        Ok(Plan { plan: Arc::new(plan.map_err(bad_value)?) })
    }

    /// Returns the specification and the scenario from which the plan follows, each as the name of its file and its
    /// text.
    fn texts(&self) -> [(String, String); 2] {
        [self.plan.spec(), self.plan.scenario()].map(|it| (it.file.clone(), it.text.clone()))
    }

    /// The number of points.
    #[getter]
    fn points(&self) -> usize {
        self.plan.points()
    }

    /// The number of runs: points times seeds.
    #[getter]
    fn runs(&self) -> usize {
        self.plan.runs()
    }

    /// The names of the swept paths and axes.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.plan.columns().to_vec()
    }

    /// The metrics that are measured in each run.
    #[getter]
    fn metrics(&self) -> Vec<String> {
        self.plan.metrics().iter().map(ToString::to_string).collect()
    }

    /// Executes these runs one after the other, and returns their results as bytes.
    fn run<'py>(&self, py: Python<'py>, runs: Vec<usize>) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(run) = runs.iter().find(|&&run| run >= self.plan.runs()) {
            return Err(bad_value(format_args!(
                "run {run} is beyond the plan's {} runs",
                self.plan.runs()
            )));
        }
        let packed = done_meanwhile(
            py,
            |stop| {
                let (stop, mut runner) = (|| stop.load(Ordering::Relaxed), Runner::default());
                let ran = runs.iter().map_while(|&run| runner.run(&self.plan, run, &stop));
                let ran: Vec<Ran> = ran.collect();
                let numbered: Vec<_> = runs.iter().copied().zip(&ran).collect();
                wire::packed(&numbered)
            },
            |_| Ok(()),
        )?;
        Ok(PyBytes::new(py, &packed))
    }

    fn __repr__(&self) -> String {
        let (points, runs) = (self.plan.points(), self.plan.runs());
        format!("<runyard.Plan: {runs} runs, {points} points>")
    }
}

/// The folder of a sweep, which collects the results of the runs and writes the tables.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct SweepFolder {
    dir: PathBuf,
    plan: Arc<runyard_sweep::Plan>,
    folder: Mutex<Folder>,
}

#[pymethods]
impl SweepFolder {
    #[new]
    fn new(plan: &Plan, dir: PathBuf, resume: bool) -> PyResult<SweepFolder> {
        let plan = plan.plan.clone();
        let folder = Folder::open(&dir, plan.clone(), resume).map_err(failure)?;
        Ok(SweepFolder { dir, plan, folder: Mutex::new(folder) })
    }

    /// Returns the runs whose results are missing, in their order.
    fn missing(&self) -> Vec<usize> {
        self.folder().missing()
    }

    /// Executes the missing runs on `jobs` threads. `look` is called now and then with the number of finished runs.
    fn run(
        &self,
        py: Python<'_>,
        jobs: Option<NonZeroUsize>,
        look: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (done, look) = (AtomicUsize::new(0), look.clone().unbind());
        let jobs = jobs.map_or_else(pool::cores, NonZeroUsize::get);
        let ran = done_meanwhile(
            py,
            |stop| {
                let stop = || stop.load(Ordering::Relaxed);
                let progress =
                    |now: runyard_sweep::Progress| done.store(now.done, Ordering::Relaxed);
                self.folder().run(jobs, &stop, progress)
            },
            |py| look.call1(py, (done.load(Ordering::Relaxed),)).map(drop),
        )?;
        ran.map_err(failure)?;
        look.call1(py, (done.load(Ordering::Relaxed),)).map(drop)
    }

    /// Stores the results of runs from the bytes that a plan returned. Returns the number of runs.
    fn take(&self, py: Python<'_>, packed: Vec<u8>) -> PyResult<usize> {
        py.detach(|| {
            let all = wire::unpacked(&packed).map_err(bad_value)?;
            let (count, mut folder) = (all.len(), self.folder());
            for (run, ran) in all {
                if run >= self.plan.runs() {
                    return Err(bad_value(format_args!(
                        "run {run} is beyond the plan's {} runs",
                        self.plan.runs()
                    )));
                }
                folder.take(run, ran).map_err(failure)?;
            }
            Ok(count)
        })
    }

    /// Writes the tables and the page. The results of all runs must be present.
    fn finish(&self, py: Python<'_>) -> PyResult<Sweep> {
        py.detach(|| {
            let folder = self.folder();
            folder.finish().map_err(failure)?;
            let tables = folder.tables().map_err(failure)?;
            let file = self.dir.join("index.html");
            let page = std::fs::read_to_string(&file)
                .map_err(|error| refused(&file.to_string_lossy(), &error))?;
            Ok(Sweep { tables, page, points: self.plan.points(), runs: self.plan.runs() })
        })
    }
}

impl SweepFolder {
    fn folder(&self) -> MutexGuard<'_, Folder> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What pickle keeps of a sweep besides the tables: failed runs, the page, the numbers of points and runs.
type State = (Option<(usize, String)>, String, usize, usize);

/// The results of a sweep.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Sweep {
    tables: runyard_sweep::Tables,
    page: String,
    points: usize,
    runs: usize,
}

#[pymethods]
impl Sweep {
    /// The rows of all runs: of the machine, each thread, group and chain, by point and seed.
    #[getter]
    fn runs(&self) -> Table {
        let batches = self.tables.runs.clone();
        let schema =
            batches.first().map_or_else(|| self.tables.summary.schema(), RecordBatch::schema);
        Table::new(schema, batches)
    }

    /// Each metric at each point: mean, median, and the 95 % interval of the mean over the seeds.
    #[getter]
    fn summary(&self) -> Table {
        self.tables.summary.clone().into()
    }

    /// The number of runs that failed, and the first reason; None if no run failed.
    #[getter]
    fn failed(&self) -> Option<(usize, String)> {
        self.tables.failed.clone()
    }

    /// Returns the page of the sweep in one file: a figure against an axis with its band, and a table.
    fn to_html(&self) -> &str {
        &self.page
    }

    fn _repr_html_(&self) -> String {
        tables::html(&self.tables.summary, self.tables.summary.num_rows())
    }

    /// Makes the results of what pickle kept.
    #[staticmethod]
    #[pyo3(name = "_of_state")]
    fn of_state(tables: (Table, Table), state: State) -> PyResult<Sweep> {
        let (runs, summary) = tables;
        let (failed, page, points, count) = state;
        let summary = summary.batches().first().ok_or_else(|| bad_value("it has no summary"))?;
        let tables = runyard_sweep::Tables {
            runs: runs.batches().to_vec(),
            summary: summary.clone(),
            failed,
        };
        Ok(Sweep { tables, page, points, runs: count })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Sweep>) -> PyResult<Reduced<'py, ((Table, Table), State)>> {
        let own = slf.get();
        let state = (own.failed(), own.page.clone(), own.points, own.runs);
        Ok((slf.get_type().getattr("_of_state")?, ((own.runs(), own.summary()), state)))
    }

    fn __repr__(&self) -> String {
        format!("<runyard.Sweep: {} runs, {} points>", self.runs, self.points)
    }
}
