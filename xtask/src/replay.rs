//! `cargo xtask replay`: compares the replay of a recording with the recording.
//!
//! It records some workloads on this machine with `perf sched record`, and shows what `runyard replay` says of the output
//! of `perf script`. Waits and wake-up latencies are decisions of the kernel. So are the run times of tasks that could
//! have run more.
//!
//! The time that the kernel itself charged to tasks, `sched_stat_runtime`, is shown too: run times computed from
//! switches could be wrong in the importer and in the replay alike.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::workspace::{self, Outcome, cargo, program, run as run_command};

/// A workload to record.
struct Workload {
    name: &'static str,
    /// The program that it needs.
    program: &'static str,
    /// A command line of the shell. Hogs end by themselves.
    line: &'static str,
    /// The kernel's names of its tasks. The recording has other tasks too.
    tasks: &'static [&'static str],
}

const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "hackbench",
        program: "hackbench",
        line: "hackbench -g 2 -l 500",
        tasks: &["hackbench"],
    },
    Workload {
        name: "perf bench sched messaging",
        program: "perf",
        line: "perf bench sched messaging -g 2 -l 500",
        tasks: &["sched-messaging"],
    },
    Workload {
        name: "a compile job",
        program: "cargo",
        line: "cargo build -q -p runyard-macros --target-dir target/replay/compiled",
        tasks: &["cargo", "rustc", "ld", "cc"],
    },
    Workload {
        name: "cyclictest beside hogs",
        program: "cyclictest",
        line: "for i in 1 2 3; do timeout 3 sh -c 'while :; do :; done' & done; \
               cyclictest -q -i 2000 -D 2 -t 2 -p 80",
        tasks: &["cyclictest", "sh"],
    },
];

/// The error of a run time that counts as none, in per cent.
const TOLERANCE: f64 = 5.0;

/// A task that ran less is only counted: the cost of tracepoints is a large part of its time.
const LEAST_RUN: f64 = 1e6;

/// A task with fewer wake-ups on a side has no 99th percentile there.
const LEAST_WAKEUPS: f64 = 50.0;

/// The figures of one task, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// Whether its waits agree, and whether they were long enough to tell.
    within: bool,
    judged: bool,
    recorded: f64,
    charged: f64,
    replayed: f64,
    waited: f64,
    replay_waited: f64,
    /// The 99th percentile of its wake-up latencies, if there are enough.
    p99: Option<f64>,
    replay_p99: Option<f64>,
}

/// Records, replays and compares the workloads whose programs are installed.
pub fn run() -> Outcome {
    let is_here = |name: &str| program(name).arg("--help").output().is_ok();
    if !is_here("perf") {
        return Err("perf is not installed".into());
    }
    run_command(cargo().args(["build", "-p", "runyard-cli"]))?;
    let runyard = workspace::target("debug")?.join("runyard");
    let folder = workspace::target("replay")?;
    std::fs::create_dir_all(&folder)?;
    for heading in [HEADINGS.join(" | "), ["---"; HEADINGS.len()].join("|")] {
        println!("| {heading} |");
    }
    for (nth, workload) in WORKLOADS.iter().enumerate() {
        if !is_here(workload.program) {
            eprintln!("{} is not installed: {} is not recorded", workload.program, workload.name);
            continue;
        }
        measure(&runyard, &folder.join(nth.to_string()), workload)?;
    }
    Ok(())
}

const HEADINGS: [&str; 8] = [
    "tasks of",
    "number",
    "wait within 1.5, of those above 1 ms",
    "run time within 5 %",
    "charged within 5 %, of those above 1 ms",
    "run time recorded, replayed",
    "wait recorded, replayed",
    "p99 of wake-ups within two, of those with 50 on both sides",
];

/// Measures one workload and prints its rows.
fn measure(runyard: &Path, files: &Path, workload: &Workload) -> Outcome {
    let [data, text] = ["data", "txt"].map(|end| files.with_extension(end));
    let mut record = perf(["sched", "record", "-q", "-o"]);
    run_command(record.arg(&data).args(["--", "sh", "-c", workload.line]).stdout(Stdio::null()))?;
    let mut script = perf(["script", "--ns", "--header", "-i"]);
    run_command(script.arg(&data).stdout(File::create(&text)?))?;
    let mut replay = program(runyard);
    let output = workspace::output(replay.arg("replay").arg(&text).arg("--json"))?;
    let compared: Value = serde_json::from_slice(&output.stdout)?;
    let tasks = tasks(&compared);
    let is_own =
        |name: &str| name.rsplit_once('-').is_some_and(|(comm, _)| workload.tasks.contains(&comm));
    let own: Vec<_> =
        tasks.iter().filter(|(name, _)| is_own(name)).map(|(_, task)| *task).collect();
    let all: Vec<_> = tasks.into_values().collect();
    println!("| {} | {} |", workload.name, row(&own));
    let millis = number(&compared, "duration_ns") / 1e6;
    println!("| all that ran in its {millis:.0} ms | {} |", row(&all));
    Ok(())
}

fn perf<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = program("perf");
    command.args(arguments);
    command
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(0.0)
}

/// The tasks by name.
fn tasks(compared: &Value) -> BTreeMap<String, Task> {
    let task = |task: &Value| {
        let name = task["name"].as_str().unwrap_or_default().to_owned();
        let [recorded, replayed] = ["recorded", "replayed"].map(|side| &task[side]);
        let figures = Task {
            within: task["verdict"] == "within",
            judged: task["verdict"] != "not judged",
            recorded: number(recorded, "runtime_ns"),
            charged: number(recorded, "charged_ns"),
            waited: number(recorded, "wait_ns"),
            p99: p99(recorded),
            replayed: number(replayed, "runtime_ns"),
            replay_waited: number(replayed, "wait_ns"),
            replay_p99: p99(replayed),
        };
        (name, figures)
    };
    compared["tasks"].as_array().into_iter().flatten().map(task).collect()
}

/// The 99th percentile of a task's wake-up latencies, if there are enough.
fn p99(task: &Value) -> Option<f64> {
    let latency = &task["wakeup_latency"];
    (number(latency, "count") >= LEAST_WAKEUPS).then(|| number(latency, "p99_ns"))
}

/// The error of `value`, in per cent.
fn percent(value: f64, expected: f64) -> f64 {
    if expected == 0.0 { 0.0 } else { (value - expected).abs() * 100.0 / expected }
}

fn row(tasks: &[Task]) -> String {
    let sum = |of: fn(&Task) -> f64| tasks.iter().map(of).sum::<f64>() / 1e6;
    let share = |holds: fn(&Task) -> bool, among: fn(&Task) -> bool| {
        let among: Vec<_> = tasks.iter().filter(|task| among(task)).collect();
        format!("{} of {}", among.iter().filter(|task| holds(task)).count(), among.len())
    };
    let within = share(|task| task.within, |task| task.judged);
    let run = share(|task| percent(task.replayed, task.recorded) <= TOLERANCE, |_| true);
    let charged = share(
        |task| percent(task.charged, task.recorded) <= TOLERANCE,
        |task| task.charged > 0.0 && task.recorded >= LEAST_RUN,
    );
    let p99 = share(
        |task| {
            let both = task.p99.zip(task.replay_p99);
            both.is_some_and(|(one, other)| one.max(other) <= 2.0 * one.min(other))
        },
        |task| task.p99.is_some() && task.replay_p99.is_some(),
    );
    format!(
        "{} | {within} | {run} | {charged} | {:.0}, {:.0} ms | {:.0}, {:.0} ms ({:+.0} %) | {p99}",
        tasks.len(),
        sum(|task| task.recorded),
        sum(|task| task.replayed),
        sum(|task| task.waited),
        sum(|task| task.replay_waited),
        (sum(|task| task.replay_waited) / sum(|task| task.waited) - 1.0) * 100.0,
    )
}
