//! The `runyard` command: reads its arguments, calls one subcommand, and says how it went.
//!
//! Exit codes: 0 done; 1 it ran, but a claim or an invariant failed; 2 bad input or usage; 3 the
//! host refused. Reports go to standard output, everything else to standard error.

mod options;
mod output;
mod record;
mod reproduce;
mod rt_migrate;
mod sim;

use clap::{Parser, Subcommand};
use std::fmt::Display;
use std::process::ExitCode;

/// Linux's scheduling policies, simulated on any machine.
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
