//! The `runyard` command: reads its arguments, calls one subcommand, and says how it went.
//!
//! What a subcommand does is done by libraries: the simulator, the hosts with real CPUs, the
//! experiments, the reports. Here are the arguments, the files and the exit code. Reports go to
//! standard output, everything else to standard error.

mod calibrate;
mod compare;
mod exit;
mod folder;
mod import;
mod linux;
mod live;
mod log;
mod options;
mod output;
mod outputs;
mod page;
mod record;
mod reproduce;
mod sim;
mod trace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// `live` stops tasks anywhere but in here.
#[global_allocator]
static ALLOCATOR: runyard::Allocator = runyard::Allocator::system();

/// Linux's scheduling policies, simulated on any machine and live on this one.
#[derive(Debug, Parser)]
#[command(name = "runyard", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Repeats the founding experiments, before and after, beside the published figures.
    Reproduce(reproduce::Arguments),
    /// Runs a scenario in virtual time, on simulated CPUs.
    Sim(sim::Arguments),
    /// Runs a scenario on this machine's CPUs, on the runyard runtime, in this process.
    Live(live::Arguments),
    /// Runs a scenario on this machine's CPUs, as kernel threads under its own scheduler.
    Linux(linux::Arguments),
    /// Measures this machine: the `machine` of scenarios that are to be simulated as if they ran here.
    Calibrate(calibrate::Arguments),
    /// Says what differs between two runs, from the reports that --json printed.
    Compare(compare::Arguments),
    /// Makes a scenario of a recorded machine: `perf sched script` or ftrace text.
    Import(import::Arguments),
}

fn main() -> ExitCode {
    exit::code(match Cli::parse().command {
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Live(arguments) => live::run(&arguments),
        Command::Linux(arguments) => linux::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
    })
}
