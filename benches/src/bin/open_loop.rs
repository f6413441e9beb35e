//! p99.9 slowdown against load, of the runtime, its peers and the simulator, as tables or as JSON.

use clap::{Parser, ValueEnum};
use runyard::Allocator;
use runyard_benches::live::switch_features;
use runyard_benches::open_loop::{Effort, Mix, OpenLoopFigures, Side, Told, compare};
use runyard_engine::features::Switched;
use std::path::PathBuf;
use std::{fs, io};

/// Requests are started by one thread and end on others, and nobody is to be stopped in between
/// with the allocator's lock.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator::system();

/// Answer requests that come at random, on two CPUs, and tell by how much they were slowed down
#[derive(Debug, Parser)]
struct Arguments {
    /// What requests ask, instead of everything
    #[arg(long = "mix", value_name = "MIX", ignore_case = true)]
    mixes: Vec<Mix>,
    /// Who answers them, instead of everybody
    #[arg(long = "side", value_name = "SIDE")]
    sides: Vec<Side>,
    /// Which parts of both CPUs the requests ask for
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', value_parser = load,
          default_values_t = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9])]
    loads: Vec<f64>,
    /// The length of a point, instead of the mix's own
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Turns of each side, each with other requests; the table has their median
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// A feature of the runtime to switch on, or with `NO_` off
    #[arg(long = "feature", value_name = "NAME")]
    features: Vec<Switched>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Measure nothing, and compare these runs, as they were printed in JSON, with those of `--after`
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// The runs to compare with those of `--before`
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
}

fn load(text: &str) -> Result<f64, String> {
    within(text, 0.01, 1.0, "a load is 0.01 to 1")
}

/// The simulator has room for a million tasks.
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
