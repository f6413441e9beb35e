//! The workload language of Runyard: rt-app's JSON with a few extensions.
//!
//! [`parse`] turns text into a [`Scenario`], in which every name is resolved and every value is in
//! range, or into the first [`Diagnostic`] of what is wrong with it. Nothing is guessed at: what
//! rt-app has and this program has not is warned about once, with what happens instead, and so is an
//! unknown key, which rt-app ignores silently.
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
//! What hosts need to run one, whatever their clock, is here too: the [`cursor`] of a task in its
//! program, the [`objects`] that tasks share, the generators that durations are [drawn](draw) from,
//! and rt-app's [`log`] of what a task did.
//!
//! [`import`](mod@import) makes scenarios of recorded machines.
//!
//! `docs/reference/language.md` has the whole language and what was decided where rt-app leaves it open.

pub mod cursor;
mod diagnostic;
pub mod document;
pub mod draw;
mod edit;
pub mod import;
mod json;
pub mod log;
mod lower;
mod nearest;
pub mod objects;
pub mod scenario;
pub mod setting;
mod shape;
mod shared;
mod span;
mod steps;
pub mod tunables;

pub use diagnostic::{Diagnostic, Place};
pub use nearest::advice;
pub use scenario::Scenario;
pub use span::{moment, span};

use diagnostic::{Fault, locate};
use edit::Edited;
use runyard_engine::features::Switched;
use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_engine::topology::Topology;
use setting::Setting;

/// What the command line says, which counts more than what the file says. It is applied before
/// the scenario is checked: a task pinned to CPU 12 is an error only if the machine has no such CPU.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The number of CPUs. The topology stays if it has that size; else all are on one node.
    pub cpus: Option<usize>,
    /// The shape of the machine, and with it the number of CPUs.
    pub topology: Option<Topology>,
    /// What the machine is a model of, whatever the file says.
    pub kernel: Option<Model>,
    /// What the machine is a model of if nobody says it.
    pub unless_said: Model,
    /// Switches, applied after those of the file.
    pub features: Vec<Switched>,
    /// How long to run.
    pub duration: Option<Nanos>,
    /// What becomes of SCHED_DEADLINE.
    pub deadline: DeadlinePolicy,
    /// Values that replace the file's, in this order, after [`Overrides::cpus`] and before the scenario is checked.
    pub settings: Vec<Setting>,
    /// Whether the run has real cores, whatever the file says of its machine. It is not warned then that simulated ones
    /// have too few threads for cookies.
    pub real_cores: bool,
}

/// What becomes of the policy SCHED_DEADLINE, which the engine does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadlinePolicy {
    /// A scenario that asks for it is refused.
    #[default]
    Refused,
    /// It is SCHED_FIFO of the highest priority, without a budget.
    AsFifo,
    /// The host has it: its tasks have a [`Reservation`](scenario::Reservation).
    Native,
}

/// A scenario and what is odd about it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The scenario.
    pub scenario: Scenario,
    /// What the user should know, in the order of the places.
    pub warnings: Vec<Diagnostic>,
}

/// Reads the scenario `text`. `file` is what the diagnostics call it.
///
/// # Errors
/// The first thing found that is wrong with the text.
pub fn parse(file: &str, text: &str, over: &Overrides) -> Result<Parsed, Diagnostic> {
    let (text, root) = read(file, text)?;
    if over.settings.is_empty() {
        return lowered(&Edited::not(file, text), root, over);
    }
    let edited = Edited::new(file, text, &over.settings)?;
    let new = within_limits(edited.text()).and_then(|()| json::sound(edited.text()));
    let new = new.map_err(|fault| edited.locate(vec![fault]).remove(0))?;
    let over = edited.overrides(over);
    let parsed = lowered(&edited, new, &over).map(|mut parsed| {
        parsed.warnings.extend(edited.without_effect(over.real_cores));
        parsed
    });
    parsed.map_err(|error| {
        let is_in_file = matches!(error.place, Place::Text { .. });
        // What is not wrong without the settings comes of them.
        match is_in_file && lower::scenario(root, &over).is_ok() {
            true => edited.blamed_on_settings(error),
            false => error,
        }
    })
}

/// The one value that a text is, and the text without an editor's mark that it is UTF-8, which no editor counts as a
/// column.
fn read<'t>(file: &str, text: &'t str) -> Result<(&'t str, json::Node<'t>), Diagnostic> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = within_limits(text).and_then(|()| json::document(text, shape::needs_no_value));
    Ok((text, root.map_err(|fault| locate(file, text, vec![fault]).remove(0))?))
}

/// The scenario at `root`, the value of a text.
fn lowered(
    edited: &Edited<'_>,
    root: json::Node<'_>,
    over: &Overrides,
) -> Result<Parsed, Diagnostic> {
    match lower::scenario(root, over) {
        Ok((scenario, warnings)) => Ok(Parsed { scenario, warnings: edited.locate(warnings) }),
        Err(fault) => Err(edited.locate(vec![fault]).remove(0)),
    }
}

/// What reports call the scenario of a file: the file's name without the ending.
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

/// The longest text of a scenario, in bytes.
pub const MAX_TEXT: usize = 100_000_000;

/// That a text is longer than [`MAX_TEXT`].
pub const TOO_LONG: &str = "larger than 100 MB";

/// Whatever is counted in a text of this size fits 32 bits.
fn within_limits(text: &str) -> Result<(), Fault> {
    match text.len() <= MAX_TEXT {
        true => Ok(()),
        false => Err(Fault::new(Fault::NOWHERE, TOO_LONG)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_may_be_as_long_as_that() {
        let said = |text: &str| parse("-", text, &Overrides::default()).unwrap_err().to_string();
        let long = " ".repeat(MAX_TEXT + 1);
        assert_eq!(said(&long), "-:1:1: larger than 100 MB");
        assert_eq!(said(&long[1..]), "-:1:1: the file is empty");
    }

    /// Every key that a shape has is read: its value, null, is what is wrong, if anything is.
    #[test]
    fn every_known_key_is_read() {
        let program =
            |inner: String| format!("{{'tasks': {{'a': {{'run': 1, 'loop': 1, {inner}}}}}}}");
        let top = |inner: String| format!("{{{inner}, 'tasks': {{'a': {{'run': 1, 'loop': 1}}}}}}");
        type Text<'a> = &'a dyn Fn(&str) -> String;
        let all: [(shape::Shape, Text<'_>); 12] = [
            (shape::ROOT, &|key| top(format!("'{key}': null"))),
            (shape::GLOBAL, &|key| top(format!("'global': {{'{key}': null}}"))),
            (shape::MACHINE, &|key| top(format!("'machine': {{'{key}': null}}"))),
            (shape::SMT, &|key| top(format!("'machine': {{'smt': {{'{key}': null}}}}"))),
            (shape::COSTS, &|key| top(format!("'machine': {{'costs': {{'{key}': null}}}}"))),
            (shape::CHAIN, &|key| top(format!("'chains': {{'c': {{'{key}': null}}}}"))),
            (shape::GROUP, &|key| top(format!("'groups': {{'/a': {{'{key}': null}}}}"))),
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
