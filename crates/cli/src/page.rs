//! `--html FILE`: the page of a run, or of two.

use crate::Failure;
use crate::options::HostOptions;
use crate::output::OutFile;
use clap::Args;
use runyard_report::Collector;
use std::io::Write;

/// Where the page goes, if anywhere.
#[derive(Debug, Args)]
pub(crate) struct PageOptions {
    /// Write a page with charts and tables to FILE, for a browser; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<OutFile>,
}

impl PageOptions {
    /// Whether there is to be a page.
    pub(crate) fn asked(&self) -> bool {
        self.html.is_some()
    }

    /// Makes sure that the page can be written.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        self.html.as_ref().map_or(Ok(()), OutFile::prepare)
    }

    /// Writes the page that `make` makes, if there is to be one.
    pub(crate) fn write(&self, make: impl FnOnce() -> String) -> Result<(), Failure> {
        let Some(file) = &self.html else { return Ok(()) };
        file.write(|out| out.write_all(make().as_bytes()))
    }
}

/// What collects the events of a run: with its history if something shows it.
pub(crate) fn collector(options: &HostOptions) -> Collector {
    match options.json || options.page.asked() {
        true => Collector::with_history(),
        false => Collector::default(),
    }
}
