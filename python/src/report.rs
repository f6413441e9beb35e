//! One run, and its report.

use crate::failed::{bad_value, scenario_error};
use crate::input::{self, Options, Source};
use crate::json::to_python;
use crate::recording::{Recording, Wanted};
use crate::table::{Reduced, Table};
use crate::waiting::done_meanwhile;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use runyard_report::html::{self, Run};
use runyard_report::{Checks, TaskRows, render};
use runyard_sweep::{Check, Detail, How, Whole, tables, whole};
use runyard_workload::Scenario;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The results of one run: the report that the command `runyard sim --json` prints, as attributes and tables.
///
/// Times are in nanoseconds, and their names end in `_ns`. An unknown figure is None, and null in a table.
#[pyclass(frozen, module = "runyard")]
#[derive(Debug)]
pub(crate) struct Report {
    report: runyard_report::Report,
    /// Whether the invariants were verified.
    is_checked: bool,
    origin: Origin,
    scenario: OnceLock<Scenario>,
    /// The run once more, for figures that the report does not have.
    again: OnceLock<Whole>,
}

/// The text of a scenario and the replacements in it: the run follows from these and the seed.
#[derive(Clone, Debug)]
struct Origin {
    source: Source,
    options: Options,
}

impl Origin {
    /// The scenario. Its warnings were issued before.
    fn scenario(&self, py: Python<'_>) -> PyResult<Scenario> {
        let (over, source) = (self.options.overrides()?, &self.source);
        let text = source.1.as_deref().unwrap_or_default();
        let parsed = runyard_workload::parse(&source.0, text, &over);
        Ok(parsed.map_err(|error| scenario_error(py, source, &error))?.scenario)
    }
}

/// Runs a scenario in virtual time.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    source: Source,
    seed: u64,
    options: Options,
    wanted: Wanted,
) -> PyResult<Report> {
    let text = input::text(&source)?;
    let scenario = input::parsed_text(py, &source, &text, &options)?.scenario;
    let name = input::name_of(&source);
    let recording = Recording::open(&wanted)?;
    let how = recording.how(seed);
    let began = Instant::now();
    let mut run = run(py, (&name, &scenario), how)?;
    run.report.engine.wall_ns = Some(began.elapsed().as_nanos() as u64);
    recording.write(py, &scenario, &mut run)?;
    let report = Report {
        report: run.report,
        is_checked: how.check != Check::No,
        // A file may change, its text does not.
        origin: Origin { source: (source.0, Some(text)), options },
        scenario: OnceLock::from(scenario),
        again: OnceLock::new(),
    };
    report.tell_violations(py)?;
    Ok(report)
}

fn run(py: Python<'_>, scenario: (&str, &Scenario), how: How) -> PyResult<Whole> {
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

    /// The invariants that did not hold, if the run was checked: invariant, at_ns, what.
    #[getter]
    fn violations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report.violations)
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

    /// Returns the latency in nanoseconds that the part `q` of the latencies does not exceed, within 1 %; None if there is
    /// no latency.
    ///
    /// `name` is a task (the wake-ups of all its instances), one of several instances, or a chain. `q` is 0.95 for p95.
    /// The first call repeats the run, since a report does not keep all latencies.
    fn quantile(&self, py: Python<'_>, name: &str, q: f64) -> PyResult<Option<u64>> {
        if !(0.0..=1.0).contains(&q) {
            return Err(bad_value(format_args!("q is a part from 0 to 1, as 0.95, not {q}")));
        }
        let run = match self.again.get() {
            Some(run) => run,
            None => {
                let how = How::new(self.report.seed, Detail::Figures);
                let run = run(py, (&self.report.scenario, self.read_scenario(py)?), how)?;
                self.again.get_or_init(|| run)
            }
        };
        let found = run.quantile(name, (q * 1e6).round() as u32);
        let found = found.ok_or_else(|| PyKeyError::new_err(self.no_latencies(name)))?;
        Ok(found.map(|latency| latency.0))
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
        let how = How::new(self.report.seed, Detail::Page);
        let scenario = (self.report.scenario.as_str(), self.read_scenario(py)?);
        let Whole { mut report, stretches, .. } = run(py, scenario, how)?;
        report.engine.wall_ns = self.report.engine.wall_ns;
        Ok(html::page(Run { report: &report, stretches: stretches.as_ref() }))
    }

    fn _repr_html_(&self) -> String {
        html::brief(&self.report)
    }

    fn __str__(&self) -> String {
        let checks = if self.is_checked { Checks::Done } else { Checks::NotDone };
        render(&self.report, checks, TaskRows::Names)
    }

    /// Makes a report of what pickle kept.
    #[staticmethod]
    #[pyo3(name = "_of_state")]
    fn of_state(
        json: &str,
        is_checked: bool,
        source: Source,
        options: Options,
    ) -> PyResult<Report> {
        let report = serde_json::from_str(json).map_err(bad_value)?;
        let origin = Origin { source, options };
        Ok(Report { report, is_checked, origin, scenario: OnceLock::new(), again: OnceLock::new() })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Report>) -> PyResult<Reduced<'py, State>> {
        let own = slf.get();
        let Origin { source, options } = own.origin.clone();
        let state = (own.to_json()?, own.is_checked, source, options);
        Ok((slf.get_type().getattr("_of_state")?, state))
    }

    fn __repr__(&self) -> String {
        let runyard_report::Report { scenario, seed, duration_ns, tasks, .. } = &self.report;
        let seconds = *duration_ns as f64 / 1e9;
        let (tasks, cpus) = (tasks.len(), self.report.machine.cpus);
        format!(
            "<runyard.Report of {scenario}: seed {seed}, {seconds} s, tasks: {tasks}, CPUs: {cpus}>"
        )
    }
}

/// What pickle keeps of a report.
type State = (String, bool, Source, Options);

impl Report {
    /// The scenario of the run. A report that was pickled reads it when it is needed.
    fn read_scenario(&self, py: Python<'_>) -> PyResult<&Scenario> {
        match self.scenario.get() {
            Some(scenario) => Ok(scenario),
            None => {
                let scenario = self.origin.scenario(py)?;
                Ok(self.scenario.get_or_init(|| scenario))
            }
        }
    }

    /// Warns of the violations, if there are some.
    fn tell_violations(&self, py: Python<'_>) -> PyResult<()> {
        let all = &self.report.violations;
        let Some(first) = all.first() else { return Ok(()) };
        let what = format!(
            "invariants that did not hold: {}; the first is {} at {}: {}",
            all.len(),
            first.invariant,
            first.at,
            first.what
        );
        input::warn(py, &what)
    }

    /// The error for a name without latencies.
    fn no_latencies(&self, name: &str) -> String {
        let tasks = self.report.latencies.iter().map(|it| it.name.as_str());
        let chains = self.report.chains.iter().map(|it| it.name.as_str());
        let known: Vec<&str> = tasks.chain(chains).collect();
        format!("no task or chain is called {name:?}{}", runyard_workload::advice(name, &known))
    }

    pub(crate) fn inner(&self) -> &runyard_report::Report {
        &self.report
    }
}
