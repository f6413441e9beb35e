//! `cargo xtask instructions`: instructions per operation, under callgrind.
//!
//! Wall time on a shared machine varies by more than the changes that matter here; the number of instructions repeats
//! exactly. Each operation runs N and 2N times in processes of their own. The difference divided by N is the cost of
//! one operation: start-up and set-up cancel out.
//!
//! The measured program is the binary `instructions` of the benches. `--list` prints the names of its operations, one a
//! line; `NAME ITERATIONS` performs one of them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::Args;
use serde_json::json;

use crate::workspace::{self, DIST, Outcome, cargo, program};

/// The package of the benches.
const PACKAGE: &str = "runyard-benches";

/// Its binary that performs one operation many times.
const BINARY: &str = "instructions";

/// The operations in the shorter run. They are so many that a queue's growth by doubling does not show in the result.
/// They are so few that callgrind, some 50 times slower than the machine, needs about a second.
pub const ITERATIONS: u32 = 10_000;

/// The options of the measurement.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only operations whose name contains this
    pub filter: Option<String>,
    /// Operations in the shorter of the two runs
    #[arg(long, default_value_t = ITERATIONS, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Measure all operations so often, in turns, and print the median with the least and the largest count
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Compile each crate by itself, as a user's program has them, not optimised together
    #[arg(long)]
    pub apart: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The cost of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The operation.
    pub name: String,
    /// Instructions per operation: the median of the rounds.
    pub instructions: f64,
    /// The least and the largest count of a round.
    pub range: [f64; 2],
}

/// Builds the benches, measures and prints.
pub fn run(options: &Options) -> Outcome {
    let shown = output(program("valgrind").arg("--version"))?;
    let binary = build(BINARY, options.apart, None)?;
    let listed = output(program(&binary).arg("--list"))?;
    let names = selected(&text(&listed.stdout), options.filter.as_deref());
    if names.is_empty() {
        return Err("no operation has such a name".into());
    }
    let costs = all_costs(&binary, &names, options.iterations, options.rounds)?;
    if options.json {
        println!("{:#}", to_json(&costs, options.iterations, text(&shown.stdout).trim()));
    } else {
        print!("{}", to_table(&costs));
    }
    Ok(())
}

/// Builds the benches and measures the operations of these names.
pub fn costs(names: &[String], iterations: u32) -> Outcome<Vec<Cost>> {
    all_costs(&build(BINARY, false, None)?, names, iterations, 1)
}

fn all_costs(binary: &Path, names: &[String], iterations: u32, rounds: u32) -> Outcome<Vec<Cost>> {
    let mut counts = vec![Vec::new(); names.len()];
    for _ in 0..rounds {
        for (name, counts) in names.iter().zip(&mut counts) {
            counts.push(measure(binary, name, iterations)?);
        }
    }
    Ok(names.iter().zip(counts).map(|(name, counts)| Cost::of(name, counts)).collect())
}

impl Cost {
    /// The cost of an operation that had these counts, of which there is at least one.
    pub(crate) fn of(name: &str, mut counts: Vec<f64>) -> Cost {
        counts.sort_by(f64::total_cmp);
        let range = [counts[0], counts[counts.len() - 1]];
        Cost { name: name.to_owned(), instructions: counts[counts.len() / 2], range }
    }
}

/// Builds a binary of the benches, each crate by itself if they are `apart`, for a build with these flags in a folder of
/// their name.
pub(crate) fn build(binary: &str, apart: bool, flags: Option<(&str, &str)>) -> Outcome<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--profile", DIST, "-p", PACKAGE, "--bin", binary]);
    if apart {
        // Cargo's own values for a release.
        build.env("CARGO_PROFILE_DIST_LTO", "false").env("CARGO_PROFILE_DIST_CODEGEN_UNITS", "16");
    }
    if let Some((_, flags)) = flags {
        workspace::set_rustflags(&mut build, flags);
    }
    let folders = [flags.map(|(name, _)| name), apart.then_some("apart")];
    let folder = folders.into_iter().flatten().collect::<Vec<_>>().join("-");
    let folder = workspace::target(&folder)?;
    build.arg("--target-dir").arg(&folder);
    workspace::run(&mut build)?;
    Ok(folder.join(DIST).join(binary))
}

fn selected(listed: &str, filter: Option<&str>) -> Vec<String> {
    let names = listed.lines().map(str::trim).filter(|name| !name.is_empty());
    names.filter(|name| filter.is_none_or(|part| name.contains(part))).map(str::to_owned).collect()
}

/// The instructions of one operation.
fn measure(binary: &Path, name: &str, iterations: u32) -> Outcome<f64> {
    eprintln!("measuring {name}");
    let once = collected(binary, name, u64::from(iterations))?;
    let twice = collected(binary, name, 2 * u64::from(iterations))?;
    Ok((twice as f64 - once as f64) / f64::from(iterations))
}

/// The instructions of one whole process that performs `name` so many times.
fn collected(binary: &Path, name: &str, iterations: u64) -> Outcome<u64> {
    let mut command = program("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let output = output(command.arg(binary).arg(name).arg(iterations.to_string()))?;
    let said = text(&output.stderr);
    parse_collected(&said)
        .ok_or_else(|| format!("callgrind did not say what it collected:\n{said}").into())
}

/// The number of instructions in callgrind's last output.
#[must_use]
pub fn parse_collected(said: &str) -> Option<u64> {
    said.lines().rev().find_map(|line| {
        // `==PID== Collected : 127142`, or `==PID== I   refs:      127,142`.
        let (what, count) = line.rsplit_once(':')?;
        let what = what.rsplit("==").next()?.trim();
        let known = what == "Collected" || what.split_whitespace().eq(["I", "refs"]);
        known.then(|| count.trim().replace(',', "").parse().ok())?
    })
}

fn output(command: &mut Command) -> Outcome<Output> {
    let shown = workspace::show(command);
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{} is not installed", command.get_program().to_string_lossy())
        }
        _ => format!("cannot run `{shown}`: {error}"),
    })?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(format!("`{shown}` failed: {}\n{}", output.status, text(&output.stderr)).into())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn to_table(costs: &[Cost]) -> String {
    const HEADING: (&str, &str) = ("operation", "instructions");
    let width = costs.iter().map(|cost| cost.name.len()).chain([HEADING.0.len()]).max();
    let width = width.unwrap_or_default();
    let mut table = format!("{:width$}  {}\n", HEADING.0, HEADING.1);
    for Cost { name, instructions, range: [least, largest] } in costs {
        let count_width = HEADING.1.len();
        let range =
            if least == largest { String::new() } else { format!(" ({least:.1} to {largest:.1})") };
        table.push_str(&format!("{name:width$}  {instructions:count_width$.1}{range}\n"));
    }
    table
}

fn to_json(costs: &[Cost], iterations: u32, tool: &str) -> serde_json::Value {
    let operation = |Cost { name, instructions, range: [least, largest] }: &Cost| {
        let mut cost = json!({ "name": name, "instructions_per_operation": instructions });
        if least != largest {
            cost["least"] = json!(least);
            cost["largest"] = json!(largest);
        }
        cost
    };
    let operations: Vec<_> = costs.iter().map(operation).collect();
    json!({ "tool": tool, "iterations": iterations, "operations": operations })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
==5086== Callgrind, a call-graph generating cache profiler
==5086== Command: target/dist/instructions wake: 100
==5086== 
==5086== For interactive control, run 'callgrind_control -h'.
==5086== 
==5086== Events    : Ir
==5086== Collected : 127142
==5086== 
==5086== I   refs:      127,142
";

    #[test]
    fn the_count_is_read_from_either_line() {
        assert_eq!(parse_collected(SAID), Some(127_142));
        let without = |line: &str| SAID.lines().filter(|l| !l.contains(line)).collect::<Vec<_>>();
        assert_eq!(parse_collected(&without("Collected").join("\n")), Some(127_142));
        assert_eq!(parse_collected(&without("refs").join("\n")), Some(127_142));
    }

    #[test]
    fn no_count_is_not_zero() {
        assert_eq!(parse_collected("valgrind: Fatal error at startup: 12"), None);
        assert_eq!(parse_collected("==1== Collected : many"), None);
    }

    #[test]
    fn a_filter_selects_by_part_of_the_name() {
        let listed = "wake/8\nwake/64\n\nschedule/8\n";
        assert_eq!(selected(listed, None).len(), 3);
        assert_eq!(selected(listed, Some("wake")), ["wake/8", "wake/64"]);
        assert!(selected(listed, Some("no such")).is_empty());
    }

    #[test]
    fn costs_are_shown_as_a_table_and_as_json() {
        let costs =
            [Cost::of("schedule/16384", vec![97.25]), Cost::of("wake/8", vec![9.0, 7.0, 8.0])];
        assert_eq!(
            to_table(&costs),
            "operation       instructions\nschedule/16384          97.2\n\
             wake/8                   8.0 (7.0 to 9.0)\n"
        );
        let json = to_json(&costs, 10, "valgrind-3.19.0");
        assert_eq!(json["operations"][0]["instructions_per_operation"], 97.25);
        assert_eq!(json["operations"][0].get("least"), None);
        assert_eq!(json["operations"][1]["least"], 7.0);
        assert_eq!(json["operations"][1]["largest"], 9.0);
    }

    #[test]
    fn a_missing_program_is_said_in_one_line() {
        let error = output(&mut program("no-such-program")).unwrap_err().to_string();
        assert_eq!(error, "no-such-program is not installed");
    }
}
