//! Scenarios and options as Python passes them, converted into the types of the libraries.

use crate::failed::{bad_value, refused, scenario_error, shown};
use crate::json;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use runyard_engine::features::Switched;
use runyard_engine::kernel::Model;
use runyard_workload::document::Value;
use runyard_workload::import::{Recording, Wanted};
use runyard_workload::setting::Setting;
use runyard_workload::{DeadlinePolicy, Keys, MAX_TEXT, Overrides, Parsed, Window};
use std::ffi::CString;
use std::fs::File;
use std::io::Read;

/// The name of a text, and the text itself unless it is in the file of that name.
pub(crate) type Source = (String, Option<String>);

/// The name of a scenario without a name of its own, in reports.
const UNNAMED: &str = "scenario";

/// The name of a text that is in no file, in errors.
const NO_FILE: &str = "<dict>";

/// Returns the name of a source in reports.
pub(crate) fn name_of((file, text): &Source) -> String {
    match text {
        None => runyard_workload::name_of(file),
        Some(_) if file == NO_FILE => UNNAMED.to_owned(),
        Some(_) => file.clone(),
    }
}

/// The replacements for parts of a scenario.
#[derive(Clone, Debug, FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    duration: Option<String>,
    from_: Option<String>,
    until: Option<String>,
    features: Vec<String>,
    kernel: Option<String>,
    settings: Vec<(String, String)>,
}

impl Options {
    pub(crate) fn overrides(&self) -> PyResult<Overrides> {
        let features = self.features.iter().map(|name| name.parse::<Switched>());
        let settings = self.settings.iter().map(|(path, value)| Setting::new(path, value));
        let span = |text: &String| runyard_workload::span(text).map_err(bad_value);
        Ok(Overrides {
            kernel: model(self.kernel.as_deref())?,
            unless_said: Model::NEWEST,
            features: features.collect::<Result<_, _>>().map_err(bad_value)?,
            settings: settings.collect::<Result<_, _>>().map_err(bad_value)?,
            duration: self.duration.as_ref().map(span).transpose()?,
            window: window(self.from_.as_ref(), self.until.as_ref())?,
            ..Overrides::default()
        })
    }

    /// Returns the replacements as options of the command line.
    pub(crate) fn shown(&self) -> Vec<String> {
        let kernel = self.kernel.iter().map(|kernel| format!("--kernel {kernel}"));
        let features = self.features.iter().map(|name| format!("--feature {name}"));
        let settings = self.settings.iter().map(|(path, value)| format!("--set {path}={value}"));
        let span = self.duration.iter().map(|span| format!("--duration {span}"));
        let from = self.from_.iter().map(|at| format!("--from {at}"));
        let until = self.until.iter().map(|at| format!("--until {at}"));
        kernel.chain(features).chain(settings).chain(span).chain(from).chain(until).collect()
    }
}

fn window(from: Option<&String>, until: Option<&String>) -> PyResult<Window> {
    let moment = |text: &String| runyard_workload::moment(text).map_err(bad_value);
    Ok(Window { from: from.map(moment).transpose()?, until: until.map(moment).transpose()? })
}

fn model(name: Option<&str>) -> PyResult<Option<Model>> {
    name.map(|name| name.parse().map_err(bad_value)).transpose()
}

/// Returns the text of a source.
pub(crate) fn text((file, text): &Source) -> PyResult<String> {
    match text {
        Some(text) => Ok(text.clone()),
        None => String::from_utf8(bytes(file, MAX_TEXT as u64 + 1)?)
            .map_err(|_| bad_value(format_args!("{file}: the text is not UTF-8"))),
    }
}

fn bytes(file: &str, most: u64) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(file).and_then(|opened| opened.take(most).read_to_end(&mut bytes)) {
        Err(error) => Err(refused(file, &error)),
        Ok(_) => Ok(bytes),
    }
}

/// Parses a scenario with its replacements, and issues each diagnostic that is not an error as a warning.
pub(crate) fn parsed(py: Python<'_>, source: &Source, options: &Options) -> PyResult<Parsed> {
    parsed_text(py, source, &text(source)?, options)
}

/// Like [`parsed`], for the text of the source.
pub(crate) fn parsed_text(
    py: Python<'_>,
    source: &Source,
    text: &str,
    options: &Options,
) -> PyResult<Parsed> {
    let over = options.overrides()?;
    let parsed = py.detach(|| runyard_workload::parse(&source.0, text, &over));
    let parsed = parsed.map_err(|error| scenario_error(py, source, &error))?;
    for warning in &parsed.warnings {
        warn(py, &shown(source, warning))?;
    }
    Ok(parsed)
}

/// Issues a Python warning at the place that calls the package.
pub(crate) fn warn(py: Python<'_>, what: &str) -> PyResult<()> {
    let what = CString::new(what.replace('\0', " ")).map_err(bad_value)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &what, 2)
}

/// Returns the keys of a thread or a phase, and the names of events.
#[pyfunction]
pub(crate) fn known_keys() -> (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>) {
    let [thread, phase] = [Keys::Thread, Keys::Phase].map(Keys::known);
    (thread, phase, Keys::Events.known())
}

/// Reads a file in rt-app's language as a dict.
#[pyfunction]
pub(crate) fn read(py: Python<'_>, file: String) -> PyResult<Bound<'_, PyAny>> {
    let source = (file, None);
    let text = text(&source)?;
    let value = Value::read(&source.0, &text);
    json::document(py, value.map_err(|error| scenario_error(py, &source, &error))?)
}

/// What is wanted of a recording.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    kernel: Option<String>,
    snapshot: Option<String>,
    deadline_as_fifo: bool,
    tick_hz: Option<u32>,
    partly: bool,
    from_: Option<String>,
    until: Option<String>,
}

/// Converts a recording into a scenario, as a dict.
#[pyfunction]
pub(crate) fn import_recording(
    py: Python<'_>,
    file: String,
    asked: Asked,
) -> PyResult<Bound<'_, PyAny>> {
    let from = File::open(&file).map_err(|error| refused(&file, &error))?;
    let deadline = match asked.deadline_as_fifo {
        true => DeadlinePolicy::AsFifo,
        false => DeadlinePolicy::Refused,
    };
    let snapshot = asked.snapshot.map(|file| Ok::<_, PyErr>((text(&(file.clone(), None))?, file)));
    let snapshot = snapshot.transpose()?;
    let wanted = Wanted {
        snapshot: snapshot.as_ref().map(|(text, file)| (file.as_str(), text.as_str())),
        model: model(asked.kernel.as_deref())?,
        deadline,
        partly: asked.partly,
        tick_hz: asked.tick_hz,
        ..Wanted::default()
    };
    let part = window(asked.from_.as_ref(), asked.until.as_ref())?;
    let imported = py.detach(|| Recording::read(&file, from, part)?.import(wanted));
    let source = (file, None);
    let imported = imported.map_err(|error| scenario_error(py, &source, &error))?;
    for warning in &imported.warnings {
        warn(py, &format!("skipped: {warning}"))?;
    }
    for note in &imported.notes {
        warn(py, &shown(&source, note))?;
    }
    let value = Value::read(&source.0, &imported.scenario).map_err(bad_value)?;
    json::document(py, value)
}
