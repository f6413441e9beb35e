//! The progress of an experiment, for a person that waits.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over so many of `what`, on standard error if that is a terminal.
pub(crate) fn bar(what: &str, number: u64) -> ProgressBar {
    let template = format!("{{wide_bar}} {{pos}} of {{len}} {what}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("the template is right");
    ProgressBar::new(number).with_style(style)
}
