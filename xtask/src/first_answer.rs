//! `cargo xtask first-answer`: the time that a newcomer waits, in a clone of the last commit.
//!
//! It measures the README's first command, from the start of the build to the first table of `reproduce`, then the size
//! of the command, then the build of the wheel. The dependencies are fetched first, so the network takes no part. All
//! of it runs on two CPUs. Other work on these CPUs makes the times longer, and the CPU times a little.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::workspace::{self, Outcome, anew, cargo, program};
use crate::{cpu_time, python};

/// The CPUs that a newcomer is expected to have: two.
const CPUS: &str = "0,1";

/// The bytes of a megabyte.
const MEGABYTE: f64 = 1e6;

/// The measured quantities, with the goals of the project. They are round numbers: a reader of the README waits three
/// minutes, and a program of 15 MB is fetched in seconds.
const FIRST_TABLE: Goal = Goal { name: "from the clone to the first table, s", most: Some(180.0) };
const FIRST_CPU: Goal = Goal { name: "CPU time until then, s", most: Some(300.0) };
const WHEEL: Goal = Goal { name: "the wheel, s", most: Some(300.0) };
const WHEEL_CPU: Goal = Goal { name: "CPU time of the wheel, s", most: None };
const COMMAND: Goal = Goal { name: "the command as it is built, MB", most: None };
const STRIPPED: Goal = Goal { name: "the command without its symbols, MB", most: Some(15.0) };

/// The options of the measurement.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Print JSON, and hold nothing to its goal
    #[arg(long)]
    pub json: bool,
}

/// A quantity, and the most that it may be.
#[derive(Clone, Copy, Debug)]
struct Goal {
    name: &'static str,
    most: Option<f64>,
}

/// A measured quantity.
type Measured = (Goal, f64);

/// The time that something took, in seconds.
#[derive(Clone, Copy, Debug)]
struct Took {
    wall: f64,
    cpu: f64,
}

/// Measures and prints. Fails if a goal is missed.
pub fn run(options: &Options) -> Outcome {
    // All programs that this thread starts inherit it.
    let pid = std::process::id().to_string();
    workspace::output(program("taskset").args(["--cpu-list", "--pid", CPUS, &pid]))?;
    let work = anew("first-answer")?;
    let source = work.join("source");
    workspace::run(program("git").args(["clone", "--quiet"]).arg(workspace::root()).arg(&source))?;
    workspace::run(cargo().current_dir(&source).args(["fetch", "--locked"]))?;
    let first = timed(|| first_table(&source))?;
    let sizes = sizes(&source)?;
    let builder = python::builder(&source, &work)?;
    let epoch = workspace::epoch()?;
    let wheel = timed(|| python::wheel_of(&builder, &source, &work, &epoch).map(drop))?;
    let measured = [
        (FIRST_TABLE, first.wall),
        (FIRST_CPU, first.cpu),
        (WHEEL, wheel.wall),
        (WHEEL_CPU, wheel.cpu),
        (COMMAND, sizes[0]),
        (STRIPPED, sizes[1]),
    ];
    fs::remove_dir_all(&work)?;
    if options.json {
        println!("{:#}", to_json(&measured));
        return Ok(());
    }
    measured.iter().for_each(|(goal, value)| println!("{:<40}{value:>8.1}", goal.name));
    missed(&measured)
}

/// The time of `what`, with the CPU time of the programs that it starts and waits for.
fn timed(what: impl FnOnce() -> Outcome) -> Outcome<Took> {
    let (began, used) = (Instant::now(), cpu_time::own());
    what()?;
    Ok(Took { wall: began.elapsed().as_secs_f64(), cpu: cpu_time::own() - used })
}

/// Runs the README's command in the clone until it prints. An experiment prints its table at its end, in one piece.
fn first_table(source: &Path) -> Outcome {
    let mut command = cargo();
    command.current_dir(source).args(["run", "--release", "--locked", "--target-dir", "target"]);
    command.args(["--", "reproduce"]);
    eprintln!("$ {}", workspace::show(&command));
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let said = child.stdout.take().map(BufReader::new).and_then(|out| out.lines().next());
    // Cargo has become the command, so nothing is left running.
    child.kill()?;
    child.wait()?;
    said.ok_or("`reproduce` has printed no table")??;
    Ok(())
}

/// The size of the command as it is built, and without its symbols, in megabytes.
fn sizes(source: &Path) -> Outcome<[f64; 2]> {
    let built = source.join("target/release/runyard");
    let stripped = built.with_extension("stripped");
    workspace::run(program("strip").arg("-o").arg(&stripped).arg(&built))?;
    Ok([fs::metadata(built)?.len(), fs::metadata(stripped)?.len()].map(|n| n as f64 / MEGABYTE))
}

fn to_json(measured: &[Measured]) -> Value {
    let rows = measured.iter().map(|(goal, value)| json!({ "what": goal.name, "measured": value }));
    json!({ "rows": rows.collect::<Vec<_>>() })
}

fn missed(measured: &[Measured]) -> Outcome {
    let missed = measured.iter().filter_map(|&(Goal { name, most }, value)| {
        let most = most.filter(|&most| value > most)?;
        Some(format!("{name}: {value:.1}, and the goal is {most:.1}"))
    });
    let missed: Vec<_> = missed.collect();
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\nerror: ").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_goal_is_named() {
        assert!(missed(&[(STRIPPED, 15.0), (WHEEL_CPU, 1e9)]).is_ok());
        let error = missed(&[(FIRST_TABLE, 180.1), (WHEEL, 300.0)]).unwrap_err().to_string();
        assert_eq!(error, "from the clone to the first table, s: 180.1, and the goal is 180.0");
    }

    #[test]
    fn the_programs_that_end_within_are_timed() {
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let took = timed(|| workspace::run(program("sh").args(["-c", busy]))).unwrap();
        assert!(took.cpu > 0.0 && took.wall > 0.0, "{took:?}");
    }

    #[test]
    fn the_rows_are_those_of_the_figure() {
        let file = "docs/figures/build/first-answer.json";
        let figure = fs::read_to_string(workspace::root().join(file)).unwrap();
        for goal in [FIRST_TABLE, FIRST_CPU, WHEEL, WHEEL_CPU, COMMAND, STRIPPED] {
            assert!(figure.contains(&format!("[\"{}\", ", goal.name)), "{file}: {}", goal.name);
        }
    }
}
