//! `cargo xtask fidelity`: compares the simulator with the kernel of this machine.
//!
//! Each scenario runs on `linux` and on `sim`. The simulator gets the output of `runyard calibrate` about this machine,
//! and nothing else. Without options the scenarios are those of `scenarios/fidelity` (`table`); with `--random` they
//! are drawn (`random`). With `--chains` they have chains (`chains`). The command prints the tables of `docs/figures/fidelity.md`.

mod bootstrap;
mod chains;
mod draw;
mod judge;
pub mod lab;
mod quiet;
mod random;
mod rig;
mod table;
mod verdict;

use std::path::PathBuf;

use clap::Args;

use crate::workspace::{self, Outcome, cargo};

/// The options of the comparison.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The number of runs of each scenario on the kernel; the median counts
    #[arg(long, default_value_t = 3, value_name = "N", conflicts_with = "random")]
    pub repeat: usize,
    /// Compare the latencies of the chains in `scenarios/fidelity/chains`
    #[arg(long, conflicts_with_all = ["random", "repeat", "only"])]
    pub chains: bool,
    /// Only these scenarios, by the names of their files
    #[arg(value_name = "SCENARIO", conflicts_with = "random")]
    pub only: Vec<String>,
    /// Switch a feature of the simulator on, or off with NO_ before its name; repeatable
    #[arg(long, value_name = "[NO_]NAME")]
    pub feature: Vec<String>,
    /// The model of the simulated machine, in place of that of `runyard calibrate`
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Random scenarios, in place of those of the tree.
    #[command(flatten)]
    pub random: Random,
}

/// The options for random scenarios.
#[derive(Args, Clone, Debug, Default)]
pub struct Random {
    /// Draw this number of scenarios for each seed, and run each twice on the kernel and once simulated
    #[arg(long = "random", id = "random", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub scenarios: Option<u64>,
    /// The seeds of the draws; the scenarios of several seeds are judged together
    #[arg(long, value_name = "S", value_delimiter = ',', default_value = "1", requires = "random")]
    pub seed: Vec<u64>,
    /// What the scenarios have
    #[arg(long, value_enum, default_value_t, requires = "random")]
    pub taste: draw::Taste,
    /// Only scenarios with a task of this kind, as named in the figures; the number counts these
    #[arg(long, value_name = "KIND", value_parser = draw::KINDS, requires = "random")]
    pub kind: Option<String>,
    /// Print only the figures, as JSON on standard output
    #[arg(long, requires = "random")]
    pub json: bool,
    /// Copy the scenarios and the reports of the tasks with the largest distances into this folder
    #[arg(long, value_name = "DIR", requires = "random")]
    pub keep: Option<PathBuf>,
}

/// Builds the command, runs the comparison and prints the figures.
pub fn run(options: &Options) -> Outcome {
    workspace::run(cargo().args(["build", "--release", "--quiet", "--package", "runyard-cli"]))?;
    match options.random.scenarios {
        Some(scenarios) => random::run(options, scenarios),
        None if options.chains => chains::run(options),
        None => table::run(options),
    }
}

/// This machine as the value of a scenario's `machine`, by the release build, which must exist.
pub(crate) fn machine() -> Outcome<String> {
    rig::Rig::new(&[], None)?.machine()
}
