//! One run, and its report.

use crate::failed::bad_value;
use crate::input::{self, Options, Source};
use crate::json::to_python;
use crate::table::Table;
use crate::waiting::done_meanwhile;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use runyard_report::html::{self, Run};
use runyard_report::{Checks, TaskRows, render};
use runyard_sweep::{Detail, Whole, tables, whole};
use runyard_workload::Scenario;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The results of one run: the report that the command `runyard sim --json` prints, as attributes and tables.
///
/// Times are in nanoseconds, and their names end in `_ns`. An unknown figure is None, and null in a table.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Report {
    report: runyard_report::Report,
    name: String,
    scenario: Scenario,
}

/// Runs a scenario in virtual time.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    source: Source,
    seed: u64,
    options: Options,
) -> PyResult<Report> {
    let scenario = input::parsed(py, &source, &options)?.scenario;
    let name = runyard_workload::name_of(&source.0);
    let began = Instant::now();
    let mut report = run(py, (&name, &scenario), (seed, Detail::Report))?.report;
    report.engine.wall_ns = Some(began.elapsed().as_nanos() as u64);
    Ok(Report { report, name, scenario })
}

fn run(py: Python<'_>, scenario: (&str, &Scenario), how: (u64, Detail)) -> PyResult<Whole> {
    let run = done_meanwhile(
        py,
        |stop| whole(scenario, how, &|| stop.load(Ordering::Relaxed)),
        |_| Ok(()),
    )?;
    // Only an exception stops the run, and `done_meanwhile` has returned that exception already.
    run.map_err(bad_value)?.ok_or_else(|| bad_value("the run was stopped"))
}

#[pymethods]
impl Report {
    /// The scenario's name.
    #[getter]
    fn scenario(&self) -> &str {
        &self.report.scenario
    }

    /// The seed from which all random draws of the run follow.
    #[getter]
    fn seed(&self) -> u64 {
        self.report.seed
    }

    /// The kernel version whose rules the machine followed.
    #[getter]
    fn kernel(&self) -> Option<&str> {
        self.report.kernel.as_deref()
    }

    /// The names of the features that were on.
    #[getter]
    fn features(&self) -> Vec<String> {
        self.report.features.clone()
    }

    /// The length of the run, or of the part of it that counts, in virtual time.
    #[getter]
    fn duration_ns(&self) -> u64 {
        self.report.duration_ns
    }

    /// The beginning of the part of the run that counts; 0 for the whole run.
    #[getter(from_ns)]
    fn begin_ns(&self) -> u64 {
        self.report.from_ns
    }

    /// The machine as a whole: utilization, switches, preemptions, migrations.
    #[getter]
    fn machine<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report.machine)
    }

    /// Timers other than the ticks: how many expired, on how many interrupts, and how late.
    #[getter]
    fn timers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report.timers)
    }

    /// The simulator: the number of events, and the wall-clock time that they took.
    #[getter]
    fn engine<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report.engine)
    }

    /// The tasks that wait without an end when the run is over.
    #[getter]
    fn blocked_at_end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report.blocked_at_end)
    }

    /// The tasks, a row for each instance.
    #[getter]
    fn tasks(&self) -> Table {
        tables::tasks(&self.report).into()
    }

    /// The CPUs, a row for each.
    #[getter]
    fn cpus(&self) -> Table {
        tables::cpus(&self.report).into()
    }

    /// The task groups, a row for each, "/" first.
    #[getter]
    fn groups(&self) -> Table {
        tables::groups(&self.report).into()
    }

    /// The chains, a row for each: end-to-end latencies and missed deadlines.
    #[getter]
    fn chains(&self) -> Table {
        tables::chains(&self.report).into()
    }

    /// The cookies of core scheduling, a row for each. The last row is for tasks without a cookie.
    #[getter]
    fn cookies(&self) -> Table {
        tables::cookies(&self.report).into()
    }

    /// The worst wake-ups of each task, the longest first, each with its cause.
    #[getter]
    fn worst(&self) -> Table {
        tables::worst(&self.report).into()
    }

    /// Latencies over time, a row for each step of each task, task group and chain: count, p50_ns, p99_ns, max_ns.
    #[getter]
    fn series(&self) -> Table {
        tables::series(&self.report).into()
    }

    /// The distributions of the latencies of tasks and chains: a row for each latency_ns, with its count.
    #[getter]
    fn distributions(&self) -> Table {
        tables::distributions(&self.report).into()
    }

    /// Returns the whole report as dicts and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report)
    }

    /// Returns the whole report as JSON: the text that the command prints with --json.
    fn to_json(&self) -> PyResult<String> {
        let mut bytes = Vec::new();
        self.report.write_json(&mut bytes).map_err(bad_value)?;
        String::from_utf8(bytes).map_err(bad_value)
    }

    /// Returns the page that the command writes with --html: charts, tables and the timeline, in one file.
    ///
    /// The run is repeated for the page, since a report does not keep the timeline.
    fn to_html(&self, py: Python<'_>) -> PyResult<String> {
        let how = (self.report.seed, Detail::Page);
        let Whole { mut report, stretches, .. } = run(py, (&self.name, &self.scenario), how)?;
        report.engine.wall_ns = self.report.engine.wall_ns;
        Ok(html::page(Run { report: &report, stretches: stretches.as_ref() }))
    }

    fn _repr_html_(&self) -> String {
        html::brief(&self.report)
    }

    fn __str__(&self) -> String {
        render(&self.report, Checks::NotDone, TaskRows::Names)
    }

    fn __repr__(&self) -> String {
        let runyard_report::Report { scenario, seed, duration_ns, tasks, .. } = &self.report;
        let seconds = *duration_ns as f64 / 1e9;
        let (tasks, cpus) = (tasks.len(), self.report.machine.cpus);
        format!(
            "<runyard.Report of {scenario}: seed {seed}, {seconds} s, {tasks} tasks on {cpus} CPUs>"
        )
    }
}

impl Report {
    pub(crate) fn inner(&self) -> &runyard_report::Report {
        &self.report
    }
}
