//! `cargo xtask`: the checks that need more than one command line.
//!
//! A check that is one command is in `.ci/run`. A rule about the tree is a test; `tidy` runs those.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{
    book, command, fidelity, figures, first_answer, full, fuzz, instructions, lines, models, pages,
    pictures, price, python, release, replay, rt_app, same, siege, tidy, traces, wide, workspace,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Steps of the checks that need more than one command line")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the pages of docs as a book, into target/book, and check its links
    Book,
    /// Run the model tests of the locks, under loom and under shuttle
    Models(models::Options),
    /// Count instructions per operation, under callgrind
    Instructions(instructions::Options),
    /// Count what a task costs here and on tokio: instructions, locked instructions, allocations, system calls
    Price(price::Options),
    /// Fuzz the machine, guided by coverage, on the stable compiler
    Fuzz(fuzz::Options),
    /// Stop other people's code inside tasks at random instants, with each allocator
    Siege(siege::Options),
    /// Run the checks that are too long for every change: more than an hour
    Full(full::Options),
    /// Compare the simulator with the kernel of this machine
    Fidelity(fidelity::Options),
    /// Compare the simulator with real kernels, in an emulator whose clock counts instructions
    KernelLab(fidelity::lab::Options),
    /// Make the tables of the documents from the measurements in docs/figures
    Figures(figures::Options),
    /// Look at the pages of reports in a browser: in three widths, by day and by night
    Pages(pages::Options),
    /// Make the pictures of the documents in a browser
    Pictures(pictures::Options),
    /// Measure the way of a newcomer: from a clone to the first table, and to the wheel
    FirstAnswer(first_answer::Options),
    /// Count the lines of code: product, tooling, and the rest
    Lines(lines::Options),
    /// Hold the tree to its own rules, as tests
    Tidy(tidy::Options),
    /// Decode traces with Perfetto's own protocol buffers and compare them with their reports
    Traces(command::Options),
    /// Build the wheel as a user installs it, and test it: in Python, on a Ray cluster, in notebooks
    Python(python::Options),
    /// Make a release, but for the upload: versions, change log, packages, wheel, static binaries, checksums
    Release(release::Options),
    /// Record workloads here before and after a change, and compare with their replays and what-ifs
    Replay(replay::Options),
    /// Run rt-app's tutorials by rt-app and by every host, and compare their logs
    RtApp(rt_app::Options),
    /// Run all scenarios and random ones here and at another commit, and compare every byte
    Same(same::Options),
    /// Measure the runtime on 2 to 16 workers beside tokio, and run the siege: a machine with more CPUs in ten minutes
    Wide(wide::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Book => book::run(),
        Command::Models(options) => models::run(&options),
        Command::Instructions(options) => instructions::run(&options),
        Command::Price(options) => price::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Siege(options) => siege::run(&options),
        Command::Full(options) => full::run(&options),
        Command::Fidelity(options) => fidelity::run(&options),
        Command::KernelLab(options) => fidelity::lab::run(&options),
        Command::Figures(options) => figures::run(&options),
        Command::Pages(options) => pages::run(&options),
        Command::Pictures(options) => pictures::run(&options),
        Command::FirstAnswer(options) => first_answer::run(&options),
        Command::Lines(options) => lines::run(&options),
        Command::Tidy(options) => tidy::run(&options),
        Command::Traces(options) => traces::run(&options),
        Command::Python(options) => python::run(&options),
        Command::Release(options) => release::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::RtApp(options) => rt_app::run(&options),
        Command::Same(options) => same::run(&options),
        Command::Wide(options) => wide::run(&options),
    };
    report(outcome)
}

fn report(outcome: workspace::Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_of_all_steps_fit_together() {
        Arguments::command().debug_assert();
    }
}
