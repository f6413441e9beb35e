//! `cargo xtask figures`: every table of the documents, made from the measurements in `docs/figures`.

pub mod figure;
pub mod pages;
mod record;
pub mod table;

use std::fs;

use clap::Args;

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::workspace::{Outcome, root};
use pages::Pages;

/// What to make.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Change no file, and fail if a table differs from its measurement
    #[arg(long, conflicts_with = "record")]
    pub check: bool,
    /// Measure docs/figures/NAME.json again first, if it says how
    #[arg(long, value_name = "NAME")]
    pub record: Option<String>,
}

/// Makes the tables, or checks them.
pub fn run(options: &Options) -> Outcome {
    if options.check {
        return check(&Tree::read(root())?);
    }
    if let Some(name) = &options.record {
        record::record(name)?;
    }
    let pages = Pages::read(&Tree::read(root())?);
    for stale in &pages.stale {
        fs::write(root().join(&stale.path), &stale.text)?;
        println!("made {}", stale.path);
    }
    all_right(&pages.mistakes)
}

fn check(tree: &Tree) -> Outcome {
    all_right(&pages::tables_are_made_from_their_figures(tree))
}

fn all_right(violations: &[Violation]) -> Outcome {
    let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
    if lines.is_empty() { Ok(()) } else { Err(lines.join("\nerror: ").into()) }
}
