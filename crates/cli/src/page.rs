//! `--html FILE`: the page of a run, or of two.

use crate::output::{OpenFile, OutFile};
use clap::Args;
use runyard_outcome::Failure;

/// The destination of the page, if any.
#[derive(Debug, Args)]
pub(crate) struct PageOptions {
    /// Write a page with charts and tables to FILE, for a browser. The page needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<OutFile>,
}

impl PageOptions {
    /// Whether a page is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.html.is_some()
    }

    /// Opens the file of the page, if a page is wanted.
    pub(crate) fn open(&self) -> Result<Option<OpenFile>, Failure> {
        self.html.as_ref().map(OutFile::open).transpose()
    }
}
