//! `cargo xtask models`: the model tests of the locks.
//!
//! Loom tries every interleaving of a small model, shuttle very many of a larger one. Each replaces
//! the primitives in `sync.rs`, chosen by `--cfg` for the whole build, so each has a target folder
//! of its own; a cargo feature would be unified into ordinary builds.

use clap::ValueEnum;

use crate::workspace::{Outcome, cargo, run as run_command, set_rustflags, target};

/// What each checker explores: the locks of the machine, and how a slot of the runtime changes
/// hands, which is modelled beside its code.
const MODELS: [(Checker, &[&str]); 3] = [
    (Checker::Loom, &["-p", "runyard-smp", "--test", "loom"]),
    (Checker::Loom, &["-p", "runyard", "--test", "models"]),
    (Checker::Shuttle, &["-p", "runyard-smp", "--test", "shuttle"]),
];

/// Who explores the interleavings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Checker {
    /// Exhaustive, within bounds that each test states.
    Loom,
    /// Randomised, for models too large to exhaust.
    Shuttle,
}

impl Checker {
    /// The name of its `--cfg` and of its target folder.
    fn name(self) -> &'static str {
        match self {
            Checker::Loom => "loom",
            Checker::Shuttle => "shuttle",
        }
    }
}

/// Runs the model tests of `only`, or of both checkers.
pub fn run(only: Option<Checker>) -> Outcome {
    let wanted = |checker| only.is_none_or(|only| only == checker);
    let models = MODELS.into_iter().filter(|&(checker, _)| wanted(checker));
    models.into_iter().try_for_each(|(checker, what)| check(checker, what))
}

fn check(checker: Checker, what: &[&str]) -> Outcome {
    let name = checker.name();
    let mut command = cargo();
    command.args(["test", "--release"]).args(what).arg("--target-dir").arg(target(name)?);
    // Models are built many and run briefly: what a release takes to link would take longer than they do.
    command
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    set_rustflags(&mut command, &format!("--cfg {name}"));
    run_command(&mut command)
}
