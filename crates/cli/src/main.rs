//! The `runyard` command: reads its arguments, calls one subcommand, and says how it went.
//!
//! Exit codes: 0 done; 1 it ran, but a claim or an invariant failed; 2 bad input or usage; 3 the
//! host refused. Reports go to standard output, everything else to standard error.

mod compare;
mod figure;
mod greedy_timers;
mod hard_limits;
mod idle_balance;
mod import;
mod latency_nice;
mod linux;
mod live;
mod log;
mod machine;
mod options;
mod output;
mod outputs;
mod page;
mod play;
mod record;
mod reproduce;
mod rt_migrate;
mod sim;
mod sync;
mod trace;

use clap::{Parser, Subcommand};
use std::fmt::Display;
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
    /// Says what differs between two runs, from the reports that --json printed.
    Compare(compare::Arguments),
    /// Makes a scenario of a recorded machine: `perf sched script` or ftrace text.
    Import(import::Arguments),
}

/// Why the command did not do what it was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// It ran, and something that must hold does not. What is said about it was said.
    Broken,
    /// The input or the usage is wrong.
    Input(String),
    /// The host does not let it.
    Refused(String),
}

impl Failure {
    fn input(what: impl Display) -> Failure {
        Failure::Input(what.to_string())
    }
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Live(arguments) => live::run(&arguments),
        Command::Linux(arguments) => linux::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Broken) => ExitCode::from(1),
        Err(Failure::Input(what)) => {
            output::say(what);
            ExitCode::from(2)
        }
        Err(Failure::Refused(what)) => {
            output::say(what);
            ExitCode::from(3)
        }
    }
}
