//! `cargo xtask replay`: what a replay says of six workloads before and after a real change, beside what then happened.
//!
//! Each workload is recorded by ftrace four times on this machine: as it is, the same again, and twice after the change.
//! From the first recording `runyard replay` computes a replay and, as a what-if, the change. Two questions are judged:
//!
//! * Does the replay wait as much as the recording did?
//! * Does the what-if change the waits, and their 99th percentile, as the real change did? A prediction is the quotient of
//!   the what-if and the replay, beside that of a recording after and one before.
//!
//! A run on a real machine is one of many, so the second recordings show how far the machine is from itself.

mod judge;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::command;
use crate::workspace::{self, Outcome, program, run as run_command};
use judge::{Judged, Replays};

/// The workloads, and the recordings that exist already.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    command: command::Options,
    /// Only these workloads
    #[arg(value_name = "NAME")]
    only: Vec<String>,
    /// Judge the recordings of the last time
    #[arg(long)]
    judge: bool,
    /// The kernel of this machine, by its name for the simulator
    #[arg(long, value_name = "NAME", default_value = "6.18")]
    kernel: String,
    /// A value of this machine that recordings do not tell
    #[arg(long, value_name = "PATH=VALUE")]
    known: Vec<String>,
}

/// A workload of `workloads.sh`, and its change for the simulator.
struct Workload {
    name: &'static str,
    change: &'static str,
    /// The names of the tasks whose waits count. The percentile is of the first.
    tasks: &'static [&'static str],
    what_if: WhatIf,
}

/// A change, in the words of `runyard replay`.
enum WhatIf {
    Cpus(&'static str),
    Set(&'static str),
    /// A setting of all tasks whose names begin so.
    Each(&'static [&'static str], &'static str),
    /// A setting of one of them.
    One(&'static str, &'static str),
}

const WORKLOADS: [Workload; 6] = [
    Workload {
        name: "pipeline",
        change: "a CPU less",
        tasks: &["gzip", "seq", "gawk"],
        what_if: WhatIf::Cpus("1"),
    },
    Workload {
        name: "web",
        change: "nice 10 for the batch work beside",
        tasks: &["nginx"],
        what_if: WhatIf::Each(&["gzip-"], "priority=10"),
    },
    Workload {
        name: "compile",
        change: "SCHED_IDLE for the job",
        tasks: &["rustc", "cargo", "cc", "ld", "build-script-bu"],
        what_if: WhatIf::Each(
            &[
                "rustc-",
                "cargo-",
                "cc-",
                "collect2-",
                "rust-lld-",
                "opt ",
                "lto ",
                "ctrl-c-",
                "coordinator-",
                "build-script-bu-",
                "timeout-",
            ],
            "policy=SCHED_IDLE",
        ),
    },
    Workload {
        name: "batch",
        change: "slice of 20 ms for the batch work",
        tasks: &["cyclictest"],
        what_if: WhatIf::Each(&["hog-"], "slice=20000"),
    },
    Workload {
        name: "limit",
        change: "cpu.max of 150 % instead of 80",
        tasks: &["pigz"],
        what_if: WhatIf::Set("groups./runyard-replay.cpu.max=\"150000 100000\""),
    },
    Workload {
        name: "database",
        change: "two more workers beside",
        tasks: &["postgres", "pgbench"],
        what_if: WhatIf::One("gzip-", "instance=2"),
    },
];

/// The recordings of a workload.
const VARIANTS: [&str; 4] = ["before", "before-again", "after", "after-again"];

/// The seeds of the replays, of which means are taken.
const SEEDS: [&str; 5] = ["1", "2", "3", "4", "5"];

/// Records and judges the workloads.
pub fn run(options: &Options) -> Outcome {
    let rig =
        Rig { runyard: options.command.path()?, folder: workspace::target("replay")?, options };
    std::fs::create_dir_all(&rig.folder)?;
    let is_wanted =
        |it: &&Workload| options.only.is_empty() || options.only.iter().any(|name| name == it.name);
    let workloads: Vec<_> = WORKLOADS.iter().filter(is_wanted).collect();
    if !options.judge {
        for (workload, variant) in
            workloads.iter().flat_map(|it| VARIANTS.map(|variant| (it, variant)))
        {
            rig.record(workload, variant)?;
        }
    }
    let judged: Vec<_> =
        workloads.iter().map(|workload| rig.judge(workload)).collect::<Outcome<_>>()?;
    println!("{}", judge::table(&judged));
    Ok(())
}

struct Rig<'o> {
    runyard: PathBuf,
    folder: PathBuf,
    options: &'o Options,
}

impl Rig<'_> {
    fn record(&self, workload: &Workload, variant: &str) -> Outcome {
        let script = workspace::root().join("xtask/src/replay/workloads.sh");
        let mut command = program("sh");
        command.arg(script).args(["record", workload.name, variant]).arg(&self.folder);
        let snapshot = workspace::root().join("docs/guides/snapshot.sh");
        run_command(command.env("RUNYARD", &self.runyard).env("SNAPSHOT", snapshot))
    }

    fn judge(&self, workload: &Workload) -> Outcome<Judged> {
        let [before, again, after, after_again] =
            VARIANTS.map(|it| self.folder.join(format!("{}-{it}.txt", workload.name)));
        let first = self.replay(&before, &[])?;
        let what_if = workload.what_if.options(&first);
        let replays = |file: &Path, what_if: &[String]| -> Outcome<Vec<Value>> {
            let of = |seed: &&str| {
                self.replay(file, &[&["--seed".to_owned(), (*seed).to_owned()], what_if].concat())
            };
            SEEDS.iter().map(of).collect()
        };
        let replays = Replays {
            before: replays(&before, &what_if)?,
            again: self.replay(&again, &[])?,
            after: self.replay(&after, &[])?,
            after_again: self.replay(&after_again, &[])?,
        };
        Ok(Judged::new(workload.name, workload.change, workload.tasks, &replays))
    }

    fn replay(&self, file: &Path, options: &[String]) -> Outcome<Value> {
        let mut command = program(&self.runyard);
        command.arg("replay").arg(file).arg("--snapshot").arg(file.with_extension("snapshot"));
        command.args(["--json", "--recorded-on", &self.options.kernel]).args(options);
        command.args(self.options.known.iter().map(|known| format!("--known={known}")));
        Ok(serde_json::from_slice(&workspace::output(&mut command)?.stdout)?)
    }
}

impl WhatIf {
    /// Returns the options of `runyard replay` for the tasks of this replay.
    fn options(&self, replay: &Value) -> Vec<String> {
        let tasks = || replay["tasks"].as_array().into_iter().flatten();
        match self {
            WhatIf::Cpus(number) => vec![format!("--cpus={number}")],
            WhatIf::Set(setting) => vec![format!("--set={setting}")],
            WhatIf::Each(begins, setting) => {
                let is_there =
                    |begin: &&&str| tasks().filter_map(name).any(|name| name.starts_with(**begin));
                let option = |begin| format!("--set=tasks.\"{begin}*\".{setting}");
                begins.iter().filter(is_there).map(option).collect()
            }
            WhatIf::One(begin, setting) => {
                let task = tasks().filter_map(name).find(|name| name.starts_with(begin));
                task.map(|name| format!("--set=tasks.\"{name}\".{setting}")).into_iter().collect()
            }
        }
    }
}

fn name(task: &Value) -> Option<&str> {
    task["name"].as_str()
}
