//! `cargo xtask rt-app`: runs rt-app's tutorials by rt-app itself and by every host, on this machine.
//!
//! Each writes rt-app's log. The medians of its columns are shown side by side, as in the table of
//! `docs/figures/fidelity.md`. Two measurements come first. One is the time of rt-app's loops, of which a `run`
//! consists; rt-app itself rounds it to whole nanoseconds. The other is the cost of timers and idle CPUs for the
//! simulated machine, as in the comparison with the kernel.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::fidelity;
use crate::median::median;
use crate::workspace::{self, Outcome, cargo, program};

/// The folder of the tutorials in Debian's package.
const TUTORIALS: &str = "/usr/share/doc/rt-app/examples/tutorial";

/// The hosts beside rt-app, in the order of the columns.
const HOSTS: [&str; 3] = ["linux", "live", "sim"];

/// The seconds for which rt-app measures its loops.
const CALIBRATION_SECONDS: u32 = 4;

/// The columns of the log.
const RUN: usize = 2;
const PERIOD: usize = 3;

/// A compared figure: the tutorial, the task, the figure's name, the requested microseconds, and the function that
/// reads it from a line of the log.
struct Compared {
    tutorial: u32,
    task: &'static str,
    what: &'static str,
    asked: f64,
    shown: fn(&[f64]) -> f64,
}

const fn of(
    tutorial: u32,
    task: &'static str,
    what: &'static str,
    asked: u32,
    shown: fn(&[f64]) -> f64,
) -> Compared {
    Compared { tutorial, task, what, asked: asked as f64, shown }
}

/// The tutorials that make sense on two CPUs. The third has 12 threads that ask for more than there is, so its log
/// shows the scheduler. The eighth needs a third CPU.
const COMPARED: [Compared; 12] = [
    of(1, "thread0", "sleep", 80_000, |row| row[PERIOD] - row[RUN]),
    of(1, "thread0", "run", 20_000, |row| row[RUN]),
    of(2, "thread0", "timer", 100_000, |row| row[PERIOD]),
    of(2, "thread0", "run", 10_000, |row| row[RUN]),
    of(4, "thread0", "run", 10_000, |row| row[RUN]),
    of(5, "thread0", "timer", 200_000, |row| row[PERIOD]),
    of(5, "thread0", "run", 120_000, |row| row[RUN]),
    of(5, "thread1", "run", 30_000, |row| row[RUN]),
    of(6, "thread0", "sleep, mem, iorun", 5_000, |row| row[PERIOD] - row[RUN]),
    of(6, "thread0", "run", 1_000, |row| row[RUN]),
    of(7, "task0", "runtime, sleep, barrier", 9_000, |row| row[PERIOD]),
    of(7, "task1", "runtime", 5_000, |row| row[RUN]),
];

/// The options of the comparison.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Seconds for which each program runs each tutorial
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub seconds: u32,
    /// The number of repetitions: the speed of a shared machine changes from minute to minute
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub repeat: u32,
}

/// Runs the tutorials and prints the table.
pub fn run(options: &Options) -> Outcome {
    if !Path::new(TUTORIALS).is_dir() {
        return Err(format!("{TUTORIALS} is not there: `apt-get install rt-app`").into());
    }
    workspace::run(cargo().args(["build", "--release", "--quiet", "--package", "runyard-cli"]))?;
    let folder = workspace::target("rt-app")?;
    let machine = Machine::measured(&folder)?;
    let mut tutorials: Vec<u32> = COMPARED.iter().map(|compared| compared.tutorial).collect();
    tutorials.dedup();
    for round in 0..options.repeat {
        for &tutorial in &tutorials {
            perform(&folder, (tutorial, round), &machine, options.seconds)?;
        }
    }
    print!("{}", table(&folder, options.repeat)?);
    Ok(())
}

/// The facts about this machine for rt-app and the simulator.
struct Machine {
    /// The time of one of rt-app's loops in nanoseconds; or, in quotes, the CPU on which rt-app measures its loops.
    loop_ns: String,
    /// The value of `machine`.
    here: String,
}

impl Machine {
    /// Reads the loop time from rt-app's log of the first tutorial, where rt-app has measured its loops itself. Takes
    /// the machine from `runyard calibrate`.
    fn measured(folder: &Path) -> Outcome<Machine> {
        let here = fidelity::machine()?;
        let into = logs(folder, (1, 0), "calibration")?;
        let unknown = Machine { loop_ns: "\"CPU0\"".to_owned(), here: here.clone() };
        let said = said(program("rt-app").arg(copy(&into, 1, &unknown, CALIBRATION_SECONDS)?))?;
        let own = said.split("pLoad = ").nth(1).and_then(|rest| rest.split("ns").next());
        let own: f64 = own.ok_or("rt-app does not say how long its loops are")?.parse()?;
        let [_, run, ..] = COMPARED;
        let rows = rows(&into, run.task)?;
        let runs = median(rows.iter().map(|row| (run.shown)(row)));
        let loop_ns = own * runs.ok_or("rt-app logged no run")? / run.asked;
        eprintln!(
            "rt-app measured {own} ns a loop; by its runs of {} us it is {loop_ns:.1} ns. The simulated \
             machine is {here}.",
            run.asked
        );
        Ok(Machine { loop_ns: loop_ns.round().to_string(), here })
    }
}

/// Runs a tutorial by rt-app and by each host.
fn perform(folder: &Path, which: Which, machine: &Machine, seconds: u32) -> Outcome {
    let (tutorial, _) = which;
    let into = logs(folder, which, "rt-app")?;
    let file = copy(&into, tutorial, machine, seconds)?;
    said(program("rt-app").arg(file))?;
    let runyard = workspace::target("release")?.join("runyard");
    for host in HOSTS {
        let into = logs(folder, which, host)?;
        let file = copy(&into, tutorial, machine, seconds)?;
        said(program(&runyard).arg(host).arg(file).args(["--cpus", "2", "--log"]).arg(&into))?;
    }
    Ok(())
}

/// A tutorial, and the number of its repetition.
type Which = (u32, u32);

fn name((tutorial, round): Which, whom: &str) -> String {
    format!("{tutorial}-{whom}-{round}")
}

/// An empty folder for the logs of a tutorial by `whom`.
fn logs(folder: &Path, which: Which, whom: &str) -> Outcome<PathBuf> {
    let into = folder.join(name(which, whom));
    if into.exists() {
        fs::remove_dir_all(&into)?;
    }
    fs::create_dir_all(&into)?;
    Ok(into)
}

/// A copy of a tutorial that logs into `folder`. Repeated keys are numbered, as `workgen` does for rt-app.
fn copy(folder: &Path, tutorial: u32, machine: &Machine, seconds: u32) -> Outcome<PathBuf> {
    let text = fs::read_to_string(format!("{TUTORIALS}/example{tutorial}.json"))?;
    let global = text.find("\"global\"").or_else(|| text.rfind('}')).ok_or("no scenario")?;
    let tasks = text[..global].trim_end().trim_end_matches(',');
    let logdir = folder.display();
    let Machine { loop_ns, here } = machine;
    let global = format!(
        "\"machine\": {here},\n\
         \"global\": {{\"duration\": {seconds}, \"calibration\": {loop_ns}, \"lock_pages\": false, \
         \"logdir\": \"{logdir}\", \"log_basename\": \"rt-app\"}}"
    );
    let file = folder.join("scenario.json");
    fs::write(&file, format!("{},\n{global}}}\n", numbered(tasks)))?;
    Ok(file)
}

/// `text` with a number after each event's key. Another key is still the same event.
fn numbered(text: &str) -> String {
    const EVENTS: [&str; 6] = ["run", "lock", "unlock", "suspend", "resume", "signal"];
    let mut parts = text.split('"');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (at, part) in parts.enumerate() {
        let _ = write!(numbered, "\"{part}");
        if EVENTS.contains(&part) {
            let _ = write!(numbered, "{at}");
        }
    }
    numbered
}

/// Runs a command to its end, and returns its output.
fn said(command: &mut Command) -> Outcome<String> {
    let output = workspace::output(command)?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The numbers of each line in the log of a task. rt-app numbers its log files, the hosts do not.
fn rows(folder: &Path, task: &str) -> Outcome<Vec<Vec<f64>>> {
    let own = format!("rt-app-{task}");
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&own) && name.ends_with(".log") {
            let text = fs::read_to_string(path)?;
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let numbers = lines.map(|line| line.split_whitespace().map(str::parse).collect());
            return Ok(numbers.collect::<Result<_, _>>()?);
        }
    }
    Err(format!("{} has no log of {task}", folder.display()).into())
}

fn table(folder: &Path, repeat: u32) -> Outcome<String> {
    let mut table = String::from(
        "| tutorial | task | | asked | rt-app | linux | live | sim |\n|---|---|---|---|---|---|---|---|\n",
    );
    for Compared { tutorial, task, what, asked, shown } in COMPARED {
        let of = |whom: &str| -> Outcome<f64> {
            let mut all = Vec::new();
            for round in 0..repeat {
                all.extend(rows(&folder.join(name((tutorial, round), whom)), task)?);
            }
            let shown = median(all.iter().map(|row| shown(row)));
            shown.ok_or_else(|| format!("{whom} logged no {what} of {task}").into())
        };
        let original = of("rt-app")?;
        let _ = write!(table, "| {tutorial} | {task} | {what} | {asked} | {original} |");
        for host in HOSTS {
            let here = of(host)?;
            let _ = write!(table, " {here} ({:+.1} %) |", (here / original - 1.0) * 100.0);
        }
        table.push('\n');
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_different_and_stay_events() {
        let text = r#"{"a": {"run": 1, "resume": "a", "run": 2}}"#;
        assert_eq!(numbered(text), r#"{"a": {"run2": 1, "resume4": "a", "run8": 2}}"#);
    }
}
