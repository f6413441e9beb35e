//! `--html FILE`: the page of a run, or of two.
//!
//! Whether the file can be written is found out before anything runs; a page that cannot be written
//! is the host's refusal, like a report that cannot.

use crate::Failure;
use crate::options::HostOptions;
use clap::Args;
use runyard_report::Collector;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

/// Where the page goes, if anywhere.
#[derive(Debug, Args)]
pub(crate) struct PageOptions {
    /// Write a page with charts and tables to FILE, for a browser; it needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl PageOptions {
    /// Whether there is to be a page.
    pub(crate) fn asked(&self) -> bool {
        self.html.is_some()
    }

    /// Makes sure that the page can be written. A page that is there stays until the new one is
    /// made.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        let Some(file) = &self.html else { return Ok(()) };
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened.map(|_| ()).map_err(|error| refused(file, &error))
    }

    /// Writes the page that `make` makes, if there is to be one.
    pub(crate) fn write(&self, make: impl FnOnce() -> String) -> Result<(), Failure> {
        let Some(file) = &self.html else { return Ok(()) };
        std::fs::write(file, make()).map_err(|error| refused(file, &error))
    }
}

fn refused(file: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("{}: {error}", file.display()))
}

/// What collects the events of a run: with its history if something shows it.
pub(crate) fn collector(options: &HostOptions) -> Collector {
    match options.json || options.page.asked() {
        true => Collector::with_history(),
        false => Collector::default(),
    }
}
