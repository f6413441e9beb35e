//! The workload language of Runyard: rt-app's JSON with a few extensions.
//!
//! [`parse`] turns a text into a [`Scenario`]: a machine, its task groups, and the programs of its tasks. In a scenario
//! every name is resolved and every value is in range. For an invalid text, [`parse`] returns the first [`Diagnostic`]
//! with its place. Nothing is guessed. A feature of rt-app that this crate lacks causes one warning, which names the
//! effect instead. So does an unknown key, which rt-app ignores silently.
//!
//! ```
//! use runyard_workload::{Overrides, parse};
//!
//! let text = r#"{
//!     "machine": {"cpus": 2},
//!     "tasks": {
//!         "tick": {"policy": "SCHED_FIFO", "timer": {"ref": "t", "period": 1000}, "run": 100},
//!         "work": {"instance": 3, "run": {"exponential": 500}, "sleep": 200}, // microseconds
//!     },
//!     "global": {"duration": 1}, // seconds
//! }"#;
//! let parsed = parse("example.json", text, &Overrides::default()).unwrap();
//! let names: Vec<_> = parsed.scenario.instances().map(|(_, _, name)| name).collect();
//! assert_eq!(names, ["tick", "work-0", "work-1", "work-2"]);
//!
//! let error = parse("-", "{\"tasks\": {\"a\": {\"run\": -1}}}", &Overrides::default()).unwrap_err();
//! assert!(error.to_string().starts_with("-:1:25: expected "));
//! ```
//!
//! The crate also has the parts that every host needs to run a scenario, for any clock:
//!
//! * [`cursor`] walks a task through its program.
//! * [`objects`] has the mutexes, pipes and other objects that tasks share.
//! * [`draw`] has the random durations and their generators.
//! * [`log`] writes rt-app's log of a task.
//!
//! [`import`](mod@import) turns recordings of real machines into scenarios.
//!
//! Start at [`scenario`], the types that hosts run. `json` reads the text, and `lower` checks each section and builds
//! the scenario. `docs/reference/language.md` describes the whole language, and the decisions where rt-app leaves the
//! meaning open.

pub mod arrivals;
pub mod cpusets;
pub mod cursor;
mod diagnostic;
pub mod document;
pub mod draw;
mod edit;
mod ids;
pub mod import;
mod json;
pub mod log;
mod lower;
mod nearest;
pub mod objects;
mod overrides;
mod preemption;
mod properties;
pub mod scenario;
pub mod setting;
mod shape;
mod span;
mod steps;
mod text;
mod timeline;
pub mod tunables;

pub use diagnostic::{Diagnostic, Place};
pub use nearest::advice;
pub use overrides::{DeadlinePolicy, Overrides, Window};
pub use scenario::Scenario;
pub use shape::Keys;
pub use span::{moment, moment_text, span};
pub use text::{MAX_TEXT, TOO_LONG};

use edit::Edited;

/// A scenario and its warnings.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The scenario.
    pub scenario: Scenario,
    /// The warnings, in the order of their places.
    pub warnings: Vec<Diagnostic>,
}

/// Reads the scenario `text`. `file` is its name in diagnostics.
///
/// # Errors
/// The first error found in the text.
pub fn parse(file: &str, text: &str, over: &Overrides) -> Result<Parsed, Diagnostic> {
    let (text, root) = text::read(file, text)?;
    if over.settings.is_empty() {
        return lowered(&Edited::not(file, text), root, over);
    }
    let edited = Edited::new(file, text, &over.settings)?;
    let new = text::within_limits(edited.text()).and_then(|()| json::sound(edited.text()));
    let new = new.map_err(|fault| edited.locate(vec![fault]).remove(0))?;
    let over = edited.overrides(over);
    let parsed = lowered(&edited, new, &over).map(|mut parsed| {
        parsed.warnings.extend(edited.without_effect(over.real_cores));
        parsed
    });
    parsed.map_err(|error| {
        let is_in_file = matches!(error.place, Place::Text { .. });
        // An error that the text does not have without the settings comes from the settings.
        match is_in_file && lower::scenario(file, root, &over).is_ok() {
            true => edited.blamed_on_settings(error),
            false => error,
        }
    })
}

/// Returns the scenario at `root`, the value of a text.
fn lowered(
    edited: &Edited<'_>,
    root: json::Node<'_>,
    over: &Overrides,
) -> Result<Parsed, Diagnostic> {
    match lower::scenario(edited.file(), root, over) {
        Ok((scenario, warnings)) => Ok(Parsed { scenario, warnings: edited.locate(warnings) }),
        Err(fault) => Err(edited.locate(vec![fault]).remove(0)),
    }
}

/// Returns the name of a scenario in reports: the name of its file without the extension.
///
/// ```
/// assert_eq!(runyard_workload::name_of("scenarios/web.json"), "web");
/// assert_eq!(runyard_workload::name_of("-"), "-");
/// ```
#[must_use]
pub fn name_of(file: &str) -> String {
    let stem = std::path::Path::new(file).file_stem();
    stem.map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that every key of a shape is read: an error about the null value, or about the repeated key, proves it.
    #[test]
    fn every_known_key_is_read() {
        let program =
            |inner: String| format!("{{'tasks': {{'a': {{'run': 1, 'loop': 1, {inner}}}}}}}");
        let top = |inner: String| format!("{{{inner}, 'tasks': {{'a': {{'run': 1, 'loop': 1}}}}}}");
        type Text<'a> = &'a dyn Fn(&str) -> String;
        let change = |key: &str| match key {
            "online" => format!("'cpu': 0, 'at': 1, '{key}': null"),
            "weight" | "runtime" | "period" | "burst" | "per_cpu" | "cpu.max" | "cpu.max.burst"
            | "cpu.weight" | "cpu.weight.nice" => {
                format!("'group': '/a', 'at': 1, '{key}': null")
            }
            "policy" | "priority" | "cpus" | "latency_nice" | "slice" => {
                format!("'task': 'a', 'at': 1, '{key}': null")
            }
            "at" | "odd-one-out" => format!("'start': 'a', '{key}': null"),
            "cpu" => "'online': true, 'at': 1, 'cpu': null".to_owned(),
            _ => format!("'at': 1, '{key}': null"),
        };
        let all: [(shape::Shape, Text<'_>); 15] = [
            (shape::ROOT, &|key| top(format!("'{key}': null"))),
            (shape::GLOBAL, &|key| top(format!("'global': {{'{key}': null}}"))),
            (shape::MACHINE, &|key| top(format!("'machine': {{'{key}': null}}"))),
            (shape::SMT, &|key| top(format!("'machine': {{'smt': {{'{key}': null}}}}"))),
            (shape::COSTS, &|key| top(format!("'machine': {{'costs': {{'{key}': null}}}}"))),
            (shape::CHAIN, &|key| top(format!("'chains': {{'c': {{'{key}': null}}}}"))),
            (shape::ARRIVALS, &|key| top(format!("'arrivals': {{'c': {{'{key}': null}}}}"))),
            (shape::RATE, &|key| {
                top(format!("'arrivals': {{'c': {{'rates': [{{'{key}': null}}]}}}}"))
            }),
            (shape::GROUP, &|key| top(format!("'groups': {{'/a': {{'{key}': null}}}}"))),
            (shape::CHANGE, &|key| {
                top(format!("'groups': {{'/a': {{}}}}, 'timeline': [{{{}}}]", change(key)))
            }),
            (shape::THREAD, &|key| program(format!("'{key}': null"))),
            (shape::TIMER, &|key| program(format!("'timer': {{'{key}': null}}"))),
            (shape::CONDITION, &|key| program(format!("'wait': {{'{key}': null}}"))),
            (shape::PIPE, &|key| program(format!("'send': {{'{key}': null}}"))),
            (shape::MEMRUN, &|key| program(format!("'memrun': {{'{key}': null}}"))),
        ];
        for (shape, text) in all {
            for key in shape.keys() {
                let text = text(key);
                let error = parse("-", &text, &Overrides::default()).expect_err(&text).to_string();
                let is_read = error.contains("expected") || error.contains("is repeated");
                assert!(is_read, "{text}: {error}");
            }
            let odd = text("odd-one-out");
            let found = parse("-", &odd, &Overrides::default());
            let told = found.map_or_else(|error| error.what, |it| format!("{:?}", it.warnings));
            assert!(told.contains("not known") || told.contains("memrun"), "{odd}: {told}");
        }
    }
}
