//! Prints time and memory of limited task groups on a simulated machine of 1,024 CPUs, as a table.

use clap::{Parser, ValueEnum as _};
use runyard_benches::group_scale::{Room, SIZES, measure, peak_kib};
use runyard_engine::features::Switched;
use std::process::Command;

/// Simulate the same number of tasks in ever more limited task groups, each machine in its own process
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of groups: measure only this number, in this process
    #[arg(long)]
    groups: Option<u32>,
    /// CPU time that the groups may use
    #[arg(long, value_enum, default_value = "plenty")]
    room: Room,
    /// Switch a feature: NAME or NO_NAME
    #[arg(long, value_name = "NAME")]
    feature: Vec<Switched>,
    /// Number of measured wake-ups, after the same number of unmeasured ones
    #[arg(long, default_value_t = 500_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    wakeups: u64,
}

fn main() {
    let arguments = Arguments::parse();
    let room = arguments.room.to_possible_value().expect("each has a name");
    let Some(groups) = arguments.groups else {
        println!("{:>8} {:>10} {:>14} {:>12}", "groups", "room", "CPU ns each", "peak KiB");
        for groups in SIZES {
            let this = std::env::current_exe().expect("this program is somewhere");
            let wakeups = arguments.wakeups.to_string();
            let mut command = Command::new(this);
            command.args(["--groups", &groups.to_string(), "--wakeups", &wakeups]);
            command.args(["--room", room.get_name()]);
            let names = arguments.feature.iter().map(ToString::to_string);
            command.args(names.flat_map(|name| ["--feature".to_owned(), name]));
            let status = command.status().expect("it runs again");
            assert!(status.success(), "{groups} groups: {status}");
        }
        return;
    };
    let each = measure(groups, arguments.room, &arguments.feature, arguments.wakeups);
    println!("{groups:>8} {:>10} {each:>14.0} {:>12}", room.get_name(), peak_kib());
}
