//! Saved reports: the output of `--json`.

use crate::plan::Text;
use runyard_outcome::Failure;
use runyard_report::{Report, SCHEMA};

/// Whether a text is a saved report, by its beginning.
///
/// ```
/// assert!(runyard_sweep::is_report("{\n  \"schema\": \"runyard.report/1\","));
/// assert!(!runyard_sweep::is_report("{\"tasks\": {}}"));
/// ```
#[must_use]
pub fn is_report(text: &str) -> bool {
    let start = text.trim_start().strip_prefix('{').map(str::trim_start);
    start.is_some_and(|text| text.starts_with("\"schema\""))
}

/// Reads a saved report.
pub(super) fn read(saved: &Text) -> Result<Report, Failure> {
    let Text { file, text } = saved;
    let report = serde_json::from_str(text).map_err(|error| wrong(file, text, &error))?;
    let Report { schema, .. } = &report;
    if schema == SCHEMA { Ok(report) } else { Err(another(file, schema)) }
}

/// The error for a text that is no report. It names the other schema, or says how scenarios are compared, or has the
/// reader's own words.
fn wrong(file: &str, text: &str, error: &serde_json::Error) -> Failure {
    if error.is_data()
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(text)
    {
        match value.get("schema").and_then(serde_json::Value::as_str) {
            Some(schema) if schema != SCHEMA => return another(file, schema),
            None if value.get("tasks").is_some_and(serde_json::Value::is_object) => {
                let what = "no report but a scenario; compare two reports, or two scenarios with --seeds 20";
                return Failure::Input(format!("{file}:1:1: {what}"));
            }
            _ => {}
        }
    }
    let (line, column) = (error.line().max(1), error.column().max(1));
    let what = error.to_string();
    let what = what.rsplit_once(" at line ").map_or(&*what, |(what, _)| what);
    Failure::input(format_args!("{file}:{line}:{column}: no report: {what}"))
}

fn another(file: &str, schema: &str) -> Failure {
    /// The characters of a schema's name that are shown.
    const SHOWN: usize = 60;
    let schema: String = schema.chars().take(SHOWN).collect();
    Failure::input(format_args!("{file}:1:1: its schema is {schema:?}, not {SCHEMA:?}"))
}
