//! What is printed: reports on standard output, everything else on standard error.
//!
//! A reader that stops reading has what it wanted. A report that cannot be written otherwise is a
//! refusal of the host; a message that cannot be written is not worth failing for.

use crate::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Writes a report to standard output.
pub(crate) fn report(
    write: impl FnOnce(&mut io::StdoutLock<'static>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Refused(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Says something on standard error.
pub(crate) fn say(what: impl Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Progress over so many of `what`, on standard error if a person looks at it.
pub(crate) fn bar(what: &str, number: u64) -> ProgressBar {
    let template = format!("{{wide_bar}} {{pos}} of {{len}} {what}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("the template is right");
    ProgressBar::new(number).with_style(style)
}
