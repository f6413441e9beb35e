//! Prints the speed of the simulator on small to large machines, as a table.

use clap::Parser;
use runyard_benches::throughput::{SIZES, Simulation, Throughput};
use runyard_engine::features::Switched;

/// Simulate periodic tasks on machines of several sizes and print wake-ups per second
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of CPUs: simulate one machine of this size, in place of all sizes
    #[arg(long)]
    cpus: Option<usize>,
    /// Simulate the tasks of scenarios/large.json, with the same number per CPU, in place of periodic ones
    #[arg(long)]
    mixed: bool,
    /// Switch a feature: NAME or NO_NAME
    #[arg(long, value_name = "NAME")]
    feature: Vec<Switched>,
    /// Number of wake-ups of each run
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    wakeups: u64,
    /// Runs of each machine; the table shows their median
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: u32,
}

fn main() {
    let arguments = Arguments::parse();
    let sizes = arguments.cpus.map_or(SIZES.to_vec(), |cpus| vec![cpus]);
    let headings =
        ["CPUs", "wake-ups", "wall ms", "wake-ups/s", "ns each", "events", "events/s", "ratio"];
    print_row(headings.map(str::to_owned));
    let mut first = None;
    for cpus in sizes {
        let median = median(cpus, &arguments);
        let each = median.nanos_each();
        print_row([
            cpus.to_string(),
            median.wakeups.to_string(),
            median.took.as_millis().to_string(),
            format!("{:.0}", 1e9 / each),
            format!("{each:.0}"),
            median.events.to_string(),
            format!("{:.0}", median.event_rate()),
            format!("{:.2}", each / *first.get_or_insert(each)),
        ]);
    }
}

fn print_row(cells: [String; 8]) {
    let cells = cells.map(|cell| format!("{cell:>10}"));
    println!("{}", cells.join("  "));
}

fn median(cpus: usize, arguments: &Arguments) -> Throughput {
    let mut simulation = match arguments.mixed {
        true => Simulation::mixed(cpus, &arguments.feature),
        false => Simulation::switched(cpus, &arguments.feature),
    };
    let runs = arguments.runs.max(1);
    let mut runs: Vec<_> = (0..runs).map(|_| simulation.run(arguments.wakeups)).collect();
    runs.sort_by_key(|run| run.took);
    runs[runs.len() / 2]
}
