//! `cargo xtask fidelity`: how near the simulator is to the kernel on this machine.
//!
//! Each scenario runs on `linux` and on `sim`, which is told what `runyard calibrate` says of this machine, and
//! nothing else. Without options it is the scenarios of `scenarios/fidelity` (`table`), with `--random` scenarios that
//! nobody chose (`random`). Prints the tables of `docs/figures/fidelity.md`.

mod bootstrap;
mod draw;
mod judge;
mod quiet;
mod random;
mod rig;
mod table;
mod verdict;

use std::path::PathBuf;

use clap::Args;

use crate::workspace::{self, Outcome, cargo};

/// How to compare.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How often each scenario runs on the kernel; the median counts
    #[arg(long, default_value_t = 3, value_name = "N", conflicts_with = "random")]
    pub repeat: usize,
    /// Only these scenarios, by the names of their files
    #[arg(value_name = "SCENARIO", conflicts_with = "random")]
    pub only: Vec<String>,
    /// Switch a feature of the simulator on, or off with NO_ before its name; repeatable
    #[arg(long, value_name = "[NO_]NAME")]
    pub feature: Vec<String>,
    /// What the simulated machine is a model of, whatever `runyard calibrate` says
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Scenarios that are drawn, instead of those of the tree.
    #[command(flatten)]
    pub random: Random,
}

/// Scenarios that are drawn.
#[derive(Args, Clone, Debug, Default)]
pub struct Random {
    /// Draw so many scenarios for each seed, and run each twice on the kernel and once simulated
    #[arg(long = "random", id = "random", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub scenarios: Option<u64>,
    /// What is drawn follows from it; the scenarios of several seeds are judged together
    #[arg(long, value_name = "S", value_delimiter = ',', default_value = "1", requires = "random")]
    pub seed: Vec<u64>,
    /// Only scenarios with a task of this kind, as the figures call kinds; so many of them
    #[arg(long, value_name = "KIND", value_parser = draw::KINDS, requires = "random")]
    pub kind: Option<String>,
    /// Print the figures as JSON on standard output, and nothing else there
    #[arg(long, requires = "random")]
    pub json: bool,
    /// Copy the scenarios and the reports of the tasks that are furthest apart into this folder
    #[arg(long, value_name = "DIR", requires = "random")]
    pub keep: Option<PathBuf>,
}

/// Builds the command, runs what is asked for and prints the figures.
pub fn run(options: &Options) -> Outcome {
    workspace::run(cargo().args(["build", "--release", "--quiet", "--package", "runyard-cli"]))?;
    match options.random.scenarios {
        Some(scenarios) => random::run(options, scenarios),
        None => table::run(options),
    }
}

/// This machine as the value of a scenario's `machine`, by the release build, which is there.
pub(crate) fn machine() -> Outcome<String> {
    rig::Rig::new(&[], None)?.machine()
}
