//! The `runyard` command: reads its arguments, calls one subcommand, and reports the outcome.
//!
//! Libraries do the work of the subcommands: the simulator, the hosts on real CPUs, the experiments, the reports. This
//! crate has the arguments, the files and the exit code. Reports go to standard output; everything else goes to
//! standard error.

mod calibrate;
mod compare;
mod completions;
mod examples;
mod exit;
mod explain;
mod folder;
mod import;
mod interrupt;
mod kernels;
mod linux;
mod lists;
mod live;
mod log;
mod man;
mod names;
mod options;
mod output;
mod outputs;
mod page;
mod progress;
mod ray;
mod record;
mod replay;
mod reproduce;
mod sim;
mod sweep;
mod trace;
mod window;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// `live` does not stop a task inside the allocator.
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
    /// Tells why a task was late: the story of its worst wake-up, or of the wake-up nearest to a moment.
    Explain(explain::Arguments),
    /// Measures this machine: the value of `machine` for scenarios that simulate it.
    Calibrate(calibrate::Arguments),
    /// Runs a scenario over settings and seeds, on all CPUs: tables with statistics, and a page.
    Sweep(sweep::Arguments),
    /// Shows the differences between two saved reports; or between two scenarios, over several seeds.
    Compare(compare::Arguments),
    /// Lists the numbers of the machine and the scheduler that a scenario and --set may set.
    Tunables(lists::Arguments),
    /// Lists the features: the mechanisms of the scheduler that can be switched on and off.
    Features(lists::Arguments),
    /// Lists the kernels by name, and how near their simulation is to kernels that ran.
    Kernels(kernels::Arguments),
    /// Makes a scenario of a real machine's recording: perf, trace-cmd, ftrace, systrace or Perfetto.
    Import(import::Arguments),
    /// Simulates a recording, and compares the replay with it; perhaps also a what-if.
    Replay(replay::Arguments),
    /// Prints the script by which a shell completes the command's arguments.
    Completions(completions::Arguments),
    /// Prints the manual page, or writes all of them.
    Man(man::Arguments),
}

/// The command's arguments, with examples of each subcommand. `linux` refuses some of the options that all hosts share,
/// so it does not offer them.
fn command() -> clap::Command {
    const REFUSED: [&str; 3] = ["feature", "kernel", "trace"];
    let command = Cli::command().mut_subcommand("linux", |linux| {
        REFUSED.into_iter().fold(linux, |linux, name| linux.mut_arg(name, |it| it.hide(true)))
    });
    examples::shown(command).mut_subcommands(|subcommand| subcommand.mut_args(names::hinted))
}

fn main() -> ExitCode {
    let read = Cli::from_arg_matches(&command().get_matches());
    exit::code(match read.unwrap_or_else(|error| error.exit()).command {
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Live(arguments) => live::run(&arguments),
        Command::Linux(arguments) => linux::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Tunables(arguments) => lists::tunables(&arguments),
        Command::Features(arguments) => lists::features(&arguments),
        Command::Kernels(arguments) => kernels::kernels(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, command()),
        Command::Man(arguments) => man::run(&arguments, command()),
    })
}
