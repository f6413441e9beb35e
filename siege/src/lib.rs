//! The siege: programs that use other people's code inside tasks. The runtime preempts the tasks at random instants,
//! and changes their attributes and CPUs meanwhile.
//!
//! There is a binary for each allocator. Each binary is two processes: the besieged one, which runs the
//! [programs](programs), and a [supervisor], which shares no lock with it. If a program hangs, the siege prints the
//! state of the runtime and all stacks, and ends. If a program has a wrong result, the siege prints the seed that
//! repeats it. `cargo xtask siege` runs all binaries.

pub mod besieged;
pub mod draws;
pub mod programs;
pub mod quota;
pub mod supervisor;
pub mod watchdog;

use clap::Parser;
use runyard::experiments::Switched;
use std::process::ExitCode;

/// The options of a siege.
#[derive(Parser, Clone, Debug)]
pub struct Options {
    /// Length of the run in seconds
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub seconds: u64,
    /// Seed of all draws: the programs that run together, their rounds, and the instants of preemptions
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Feature of the runtime: `NAME` switches it on, `NO_NAME` off
    #[arg(long, value_name = "NAME")]
    pub feature: Vec<Switched>,
    /// Programs to run, at most ten at once; without any, all programs
    #[arg(value_name = "PROGRAM")]
    pub only: Vec<String>,
    /// Run as the process that the supervisor starts
    #[arg(long, hide = true)]
    pub besieged: bool,
}

/// Runs the whole binary. The binaries differ only in their allocators.
#[must_use]
pub fn main() -> ExitCode {
    let options = Options::parse();
    let known = |name: &String| programs::PROGRAMS.iter().any(|program| program.name == name);
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let names: Vec<_> = programs::PROGRAMS.iter().map(|program| program.name).collect();
        eprintln!("error: there is no program `{unknown}`; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    if options.besieged { besieged::run(&options) } else { supervisor::run(&options) }
}
