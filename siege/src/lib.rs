//! The siege: programs that use other people's code inside tasks, on a runtime that stops them at random
//! instants, and changes their attributes and CPUs meanwhile.
//!
//! There is a binary for each allocator. Each is two processes: the besieged one, which runs the
//! [programs](programs), and a [supervisor], which shares no lock with it. What hangs is ended with a picture
//! of the runtime and all stacks; what fails says by which seed. `cargo xtask siege` runs all of them.

pub mod besieged;
pub mod draws;
pub mod programs;
pub mod supervisor;
pub mod watchdog;

use clap::Parser;
use runyard::experiments::Switched;
use std::process::ExitCode;

/// What to run.
#[derive(Parser, Clone, Debug)]
pub struct Options {
    /// For how long
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub seconds: u64,
    /// Fixes what is drawn: which programs run together, their rounds, and when tasks are stopped
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// A feature of the runtime: `NAME` switches it on, `NO_NAME` off
    #[arg(long, value_name = "NAME")]
    pub feature: Vec<Switched>,
    /// Only these programs, all at once
    #[arg(value_name = "PROGRAM")]
    pub only: Vec<String>,
    /// This is the process that the supervisor started
    #[arg(long, hide = true)]
    pub besieged: bool,
}

/// The whole of each binary, but for its allocator.
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
