//! `cargo xtask wide`: the runtime on a machine with more CPUs than the one on which the figures of this project are
//! measured.
//!
//! For each number of workers, the programs may use as many CPUs (`taskset`), and measure beside tokio: the heartbeat of the
//! README, a pair of tasks, yields, tasks that start others, echoes over a socket, the shares of two groups, and the threads
//! beside many short polls. At last the siege runs on all CPUs. It takes ten minutes after the build.

use std::fs;

use clap::Args;
use serde_json::Value;

use crate::siege;
use crate::workspace::{self, DIST, Outcome, cargo, program};

/// The workloads of `live`.
const WORKLOADS: [&str; 7] =
    ["probe", "pair", "yield_many", "ping_pong", "spawn_many_remote_idle", "spread", "threads"];

/// The rounds of each workload, and the beats of each heartbeat.
const ROUNDS: &str = "3";
const BEATS: &str = "600";

/// The options of the measurement.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Numbers of workers; those that exceed the CPUs of this process are left out
    #[arg(value_name = "WORKERS", default_values_t = [2, 4, 8, 16])]
    pub workers: Vec<usize>,
    /// The length of the siege in minutes; 0 leaves it out
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub siege: u64,
    /// The build profile
    #[arg(long, default_value = DIST, value_name = "NAME")]
    pub profile: String,
}

/// Measures for each number of workers, prints a table, and runs the siege.
pub fn run(options: &Options) -> Outcome {
    let cpus = allowed(&fs::read_to_string("/proc/self/status")?)
        .ok_or("the system does not tell the CPUs of this process")?;
    build(options)?;
    let mut rows = Vec::new();
    for &workers in &options.workers {
        match cpus.get(..workers).filter(|some| !some.is_empty()) {
            Some(some) => rows.push(row(options, some)?),
            None => eprintln!("{workers} workers: left out, there are {} CPUs", cpus.len()),
        }
    }
    println!("{}\n\n{HEAD}{}", machine()?, rows.concat());
    match options.siege {
        0 => Ok(()),
        minutes => siege::run(&siege::Options {
            minutes,
            seed: 1,
            allocator: Some("system".to_owned()),
            profile: siege::RELEASE.to_owned(),
            feature: vec![],
            only: vec![],
        }),
    }
}

fn build(options: &Options) -> Outcome {
    let programs =
        [["runyard-benches", "--bin", "live"], ["runyard-libraries", "--example", "echo"]];
    programs.into_iter().try_for_each(|[package, kind, name]| {
        let mut build = cargo();
        build.args(["build", "--profile", &options.profile, "--package", package, kind, name]);
        workspace::run(&mut build)
    })
}

/// The head of the table. Times are in microseconds; ratios are our time over tokio's.
const HEAD: &str = "\
| workers | SCHED_FIFO beat: p99, max | ordinary beat | tokio's beat | pair | yield | ping-pong | spawn from outside | echo: ours, tokio's | heavier group, of 75 % | threads |
|---|---|---|---|---|---|---|---|---|---|---|
";

fn row(options: &Options, cpus: &[usize]) -> Outcome<String> {
    let workers = cpus.len().to_string();
    let folder = workspace::target(&options.profile)?;
    let list: Vec<_> = cpus.iter().map(usize::to_string).collect();
    let bound = |name: &str| {
        let mut command = program("taskset");
        command.args(["--cpu-list", &list.join(",")]).arg(folder.join(name));
        command
    };
    let mut live = bound("live");
    live.args(["--json", "--workers", &workers, "--rounds", ROUNDS, "--periods", BEATS]);
    let live = workspace::output(live.args(WORKLOADS))?.stdout;
    let echo = workspace::output(bound("examples/echo").args([ROUNDS, &workers]))?.stdout;
    Ok(line(&workers, &serde_json::from_slice(&live)?, &String::from_utf8(echo)?))
}

/// The line of a number of workers; what was not measured is a dash.
fn line(workers: &str, live: &Value, echo: &str) -> String {
    let one = |list: &str, key: &str, name: &str| {
        let all = live[list].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().find(|it| it[key] == name).cloned().unwrap_or_default()
    };
    let beat = |name: &str| {
        let figures = &one("lateness", "probe", name)["figures"];
        let us = |key: &str| figures[key].as_f64().map(|ns| format!("{:.0}", ns / 1e3));
        [us("p99_ns"), us("max_ns")].map(or_dash).join(", ")
    };
    let ratio = |name: &str| {
        let ratio = &one("comparisons", "workload", name)["ratio"];
        or_dash(ratio.as_f64().map(|ratio| format!("{ratio:.2}")))
    };
    let share = live["spread"][0]["measured"].as_f64();
    let threads = one("threads", "dispatch", "in batches")["greatest"].as_f64();
    let cells = [
        workers.to_owned(),
        beat("runyard, FIFO"),
        beat("runyard, fair"),
        beat("tokio"),
        ratio("pair"),
        ratio("yield_many"),
        ratio("ping_pong"),
        ratio("spawn_many_remote_idle"),
        ["own driver", "tokio"].map(|host| or_dash(echoed(echo, host))).join(", "),
        or_dash(share.map(|share| format!("{:.1}", share * 100.0))),
        or_dash(threads.map(|threads| format!("{threads:.0}"))),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// The median of a host's echoes, by the first line of the program `echo`: `echo, us  tokio 11.20 [9.00-12.00]  ...`.
fn echoed(text: &str, host: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("echo"))?;
    let (_, after) = line.split_once(&format!("  {host} "))?;
    after.split_whitespace().next().map(str::to_owned)
}

fn or_dash(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| "-".to_owned())
}

/// The processor, the kernel and the time.
fn machine() -> Outcome<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unknown processor", |(_, model)| model.trim());
    let said = |name: &str, args: &[&str]| -> Outcome<String> {
        let said = workspace::output(program(name).args(args))?.stdout;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let (date, commit) =
        (said("date", &["-u", "+%Y-%m-%d"])?, said("git", &["rev-parse", "--short=12", "HEAD"])?);
    Ok(format!("{model}, Linux {}, {date}, commit {commit}", kernel.trim()))
}

/// The CPUs of this process, by the text of `/proc/self/status`.
fn allowed(status: &str) -> Option<Vec<usize>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    Some(ranges.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_cpus_of_a_process_are_a_list_of_ranges() {
        let status = "Name:\tx\nCpus_allowed_list:\t0-2,5,8-9\n";
        assert_eq!(allowed(status), Some(vec![0, 1, 2, 5, 8, 9]));
        assert_eq!(allowed("Name:\tx\n"), None);
        assert_eq!(allowed("Cpus_allowed_list:\tall\n"), None);
    }

    #[test]
    fn a_line_has_what_was_measured_and_dashes() {
        let live = json!({
            "lateness": [{"probe": "runyard, FIFO", "figures": {"p99_ns": 130_400, "max_ns": 2e6}},
                         {"probe": "tokio", "figures": null}],
            "comparisons": [{"workload": "pair", "ratio": 1.256}],
            "spread": [{"measured": 0.7512}],
            "threads": [{"dispatch": "without batches", "greatest": 99.0}, {"dispatch": "in batches", "greatest": 12.0}]});
        let echo = "echo, us                  tokio 11.20 [9.00-12.00]  with a handle 20.00 [1-2]  own driver 14.50 [1-2]\n";
        assert_eq!(
            line("4", &live, echo),
            "| 4 | 130, 2000 | -, - | -, - | 1.26 | - | - | - | 14.50, 11.20 | 75.1 | 12 |\n"
        );
    }
}
