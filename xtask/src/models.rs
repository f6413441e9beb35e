//! `cargo xtask models`: the model tests of the locks.
//!
//! Loom tries every interleaving of a small model, shuttle very many of a larger one. Each replaces
//! the primitives in `sync.rs`, chosen by `--cfg` for the whole build, so each has a target folder
//! of its own; a cargo feature would be unified into ordinary builds.

use clap::ValueEnum;

use crate::workspace::{Outcome, cargo, run as run_command, set_rustflags, target};

/// The package whose locks are modelled.
const PACKAGE: &str = "runyard-smp";

/// Who explores the interleavings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Checker {
    /// Exhaustive, within bounds that each test states.
    Loom,
    /// Randomised, for models too large to exhaust.
    Shuttle,
}

impl Checker {
    /// The name of its `--cfg`, of its test file and of its target folder.
    fn name(self) -> &'static str {
        match self {
            Checker::Loom => "loom",
            Checker::Shuttle => "shuttle",
        }
    }
}

/// Runs the model tests of `only`, or of both checkers.
pub fn run(only: Option<Checker>) -> Outcome {
    let both = [Checker::Loom, Checker::Shuttle];
    both.into_iter().filter(|&checker| only.is_none_or(|only| only == checker)).try_for_each(check)
}

fn check(checker: Checker) -> Outcome {
    let name = checker.name();
    let mut command = cargo();
    command.args(["test", "--release", "-p", PACKAGE, "--test", name, "--target-dir"]);
    command.arg(target(name)?);
    set_rustflags(&mut command, &format!("--cfg {name}"));
    run_command(&mut command)
}
