//! Prints p99.9 slowdown against load for the runtime, its peers and the simulator, as tables or JSON.

use clap::{Parser, ValueEnum};
use runyard::Allocator;
use runyard_benches::live::switch_features;
use runyard_benches::open_loop::{Effort, Mix, OpenLoopFigures, Side, Told, compare};
use runyard_engine::features::Switched;
use std::path::PathBuf;
use std::{fs, io};

/// Requests are spawned on one thread and freed on others. This allocator keeps a thread from being preempted while it
/// holds the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

/// Answer requests that arrive at random, on two CPUs, and report their slowdown
#[derive(Debug, Parser)]
struct Arguments {
    /// Mixes of requests; all by default
    #[arg(long = "mix", value_name = "MIX", ignore_case = true)]
    mixes: Vec<Mix>,
    /// Sides that answer the requests; all by default
    #[arg(long = "side", value_name = "SIDE")]
    sides: Vec<Side>,
    /// Loads: the parts of both CPUs that the requests ask for
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', value_parser = load,
          default_values_t = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9])]
    loads: Vec<f64>,
    /// Length of a point in seconds; the mix's own length by default
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Turns of each side, each with different requests; the tables show their median
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Feature of the runtime to switch on, or off with `NO_`
    #[arg(long = "feature", value_name = "NAME")]
    features: Vec<Switched>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// JSON output of earlier runs to compare with those of `--after`, without a measurement
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// JSON output of the runs to compare with those of `--before`
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
}

fn load(text: &str) -> Result<f64, String> {
    within(text, 0.01, 1.0, "a load is 0.01 to 1")
}

/// Parses the length of a point. The simulator has room for a million tasks, which bounds it.
fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.1, 25.0, "a point takes 0.1 to 25 seconds")
}

fn within(text: &str, least: f64, greatest: f64, what: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().map_err(|error| error.to_string())?;
    (least..=greatest).contains(&number).then_some(number).ok_or_else(|| what.to_owned())
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    if !arguments.before.is_empty() {
        print!("{}", compare(&read(&arguments.before)?, &read(&arguments.after)?));
        return Ok(());
    }
    switch_features(arguments.features);
    let mut loads = arguments.loads;
    loads.sort_unstable_by(f64::total_cmp);
    let effort = Effort { loads, seconds: arguments.seconds, rounds: arguments.rounds };
    let sides = all_if_none(arguments.sides);
    let mut measured = OpenLoopFigures::on_two_cpus();
    for mix in all_if_none(arguments.mixes) {
        measured.add(mix, &sides, &effort, |load, side| eprintln!("{mix:?} {side:?} {load} ..."));
    }
    if arguments.json {
        println!("{}", measured.json());
    } else {
        print!("{}", measured.tables());
    }
    Ok(())
}

fn read(files: &[PathBuf]) -> io::Result<Told> {
    let mut told = Told::default();
    for file in files {
        told.add(&fs::read_to_string(file)?)?;
    }
    Ok(told)
}

fn all_if_none<T: ValueEnum + Clone>(some: Vec<T>) -> Vec<T> {
    if some.is_empty() { T::value_variants().to_vec() } else { some }
}
