//! Measures the live runtime beside its peers and prints tables or JSON.

use clap::{Parser, ValueEnum};
use runyard_benches::live::{
    Effort, LiveFigures, Side, Workload, be_memory_of, be_neighbour, set_workers, switch_features,
};
use runyard_engine::features::Switched;
use std::time::Duration;

/// Measure the live runtime and its peers in alternating turns, in this process
#[derive(Debug, Parser)]
struct Arguments {
    /// Workloads to measure; all by default
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    /// Turns of each side; the tables show their median. Default: 5, and 7 for `shares`. Turns in which the hypervisor
    /// steals CPU time are repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Length of a turn in seconds; `threads` and `shares` use 10 times this length, and `shares` 200 times where a
    /// share is small
    #[arg(long, default_value_t = 0.3, value_name = "S",
          value_parser = seconds)]
    seconds: f64,
    /// Iterations of a turn, in place of its length; turns of `pingpong_hog` always have a length. The number of tasks of
    /// `memory`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Number of periods of each probe; a period is 2 ms
    #[arg(long, default_value_t = 2_000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    periods: u32,
    /// Measure shares only in situations whose names contain this text
    #[arg(long, value_name = "TEXT")]
    situation: Option<String>,
    /// The number of workers, and of the CPUs that the workloads are made for
    #[arg(long, default_value_t = 2, value_name = "N")]
    workers: usize,
    /// Feature of the runtime to switch on, or off with `NO_`, in every workload
    #[arg(long = "feature", value_name = "NAME")]
    features: Vec<Switched>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Run as a neighbour process of `crowded`
    #[arg(long, hide = true, value_name = "SEED")]
    neighbour: Option<u64>,
    /// Run as a process that `memory` measures
    #[arg(long, hide = true, value_name = "HOST")]
    memory_of: Option<Side>,
    /// With tasks that sleep
    #[arg(long, hide = true, requires = "memory_of")]
    asleep: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    let sane = (0.001..=3_600.0).contains(&seconds);
    sane.then_some(seconds).ok_or_else(|| "a turn takes 0.001 to 3600 seconds".to_owned())
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.neighbour {
        be_neighbour(seed);
    }
    switch_features(arguments.features);
    set_workers(arguments.workers);
    if let Some(side) = arguments.memory_of {
        be_memory_of(side, arguments.iterations, arguments.asleep);
    }
    let effort = |workload: Workload| Effort {
        rounds: arguments.rounds.unwrap_or(workload.rounds()) as usize,
        iterations: arguments.iterations,
        span: Duration::from_secs_f64(arguments.seconds),
        periods: arguments.periods as usize,
        situation: arguments.situation.clone(),
    };
    let workloads = match arguments.workloads {
        none if none.is_empty() => Workload::value_variants().to_vec(),
        some => some,
    };
    let mut measured = LiveFigures::default();
    for workload in workloads {
        let name = workload.to_possible_value().expect("every workload has a name");
        eprintln!("{} ...", name.get_name());
        measured.add(workload, &effort(workload));
    }
    if arguments.json {
        println!("{}", measured.json());
    } else {
        print!("{}", measured.tables());
    }
}
