//! `cargo xtask models`: the model tests of the locks.
//!
//! Loom tries every interleaving of a small model; shuttle tries very many of a larger one. Each replaces the
//! primitives in `sync.rs`. A `--cfg` for the whole build selects it, so each has a target folder of its own. A cargo
//! feature would be unified into ordinary builds.

use clap::{Args, ValueEnum};

use crate::workspace::{Outcome, cargo, run as run_command, set_rustflags, target};

/// The packages that each checker explores: the locks of the machine, and the protocol by which a slot of the runtime
/// changes hands. The models are beside the code.
const MODELS: [(Checker, &[&str]); 3] = [
    (Checker::Loom, &["-p", "runyard-smp", "--test", "loom"]),
    (Checker::Loom, &["-p", "runyard", "--test", "models"]),
    (Checker::Shuttle, &["-p", "runyard-smp", "--test", "shuttle"]),
];

/// The models that take half a minute and more.
const LONG: [&str; 2] = ["a_policy_races_a_pull", "going_offline_races_a_switch"];

/// The model checkers.
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

/// The options: which models.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only this checker
    #[arg(value_enum)]
    pub checker: Option<Checker>,
    /// Also the models that take half a minute or more
    #[arg(long)]
    pub all: bool,
}

/// Runs the model tests.
pub fn run(options: &Options) -> Outcome {
    let wanted = |checker| options.checker.is_none_or(|only| only == checker);
    let models = MODELS.into_iter().filter(|&(checker, _)| wanted(checker));
    models.into_iter().try_for_each(|(checker, what)| check(checker, what, options.all))
}

fn check(checker: Checker, what: &[&str], all: bool) -> Outcome {
    let name = checker.name();
    let mut command = cargo();
    command.args(["test", "--release"]).args(what).arg("--target-dir").arg(target(name)?);
    if !all {
        command.arg("--").args(LONG.iter().flat_map(|name| ["--skip", name]));
    }
    // The checkers' own code takes most of the time.
    command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3");
    set_rustflags(&mut command, &format!("--cfg {name}"));
    run_command(&mut command)
}
