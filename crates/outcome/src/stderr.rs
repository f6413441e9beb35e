//! Messages to the user during a run, on standard error: standard output belongs to the report.

use std::fmt::Display;
use std::io::Write as _;

/// Prints a message on standard error. A message that cannot be written is ignored.
pub fn say(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "{what}");
}
