//! What a person is told during a run, on standard error: standard output belongs to the report.

use std::fmt::Display;
use std::io::Write as _;

/// Says something on standard error. A message that cannot be written is not worth failing for.
pub fn say(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
