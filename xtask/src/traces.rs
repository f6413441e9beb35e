//! `cargo xtask traces`: checks the traces with other people's readers.
//!
//! Perfetto publishes its protocol buffers for Python. A small Python program decodes each trace with them and compares
//! it with the report of the same run (`xtask/traces/check.py`). They are installed into a folder of the build, at a
//! fixed version.

use std::path::Path;

use crate::command;
use crate::workspace::{self, Outcome, program};

/// The decoder.
const PERFETTO: &str = "perfetto==0.59.1";
/// The decoder's only dependency.
const PROTOBUF: &str = "protobuf==7.36.2";

/// A run whose traces are compared.
struct Run {
    host: &'static str,
    scenario: &'static str,
    options: &'static [&'static str],
    /// The contents that its traces must have: options of `check.py`.
    shows: &'static [&'static str],
}

const RUNS: [Run; 6] = [
    Run {
        host: "sim",
        scenario: "xtask/traces/everything.json",
        options: &["--check"],
        shows: &["--arrows", "--throttling"],
    },
    Run { host: "sim", scenario: "scenarios/rt-migrate.json", options: &[], shows: &["--arrows"] },
    Run {
        host: "sim",
        scenario: "scenarios/stuck-head.json",
        options: &["--feature", "NO_RT_PULL"],
        shows: &[],
    },
    Run {
        host: "sim",
        scenario: "scenarios/probes.json",
        options: &["--duration", "2s", "--topology", "2x2"],
        shows: &[],
    },
    Run {
        host: "live",
        scenario: "xtask/traces/everything.json",
        options: &["--duration", "1500ms"],
        shows: &["--arrows"],
    },
    Run {
        host: "live",
        scenario: "scenarios/probes.json",
        options: &["--duration", "1s"],
        shows: &[],
    },
];

/// Makes traces and compares them with their reports.
pub fn run(options: &command::Options) -> Outcome {
    let folder = workspace::target("traces")?;
    let python = folder.join("venv/bin/python");
    if !python.exists() {
        workspace::run(program("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
        let install = ["-m", "pip", "install", "--quiet", PERFETTO, PROTOBUF];
        workspace::run(program(&python).args(install))?;
    }
    let runyard = options.path()?;
    for run in &RUNS {
        for form in ["pftrace", "txt"] {
            compare(run, &runyard, &folder.join(format!("trace.{form}")), &python)?;
        }
    }
    Ok(())
}

fn compare(run: &Run, runyard: &Path, trace: &Path, python: &Path) -> Outcome {
    let report = trace.with_file_name("report.json");
    let mut command = program(runyard);
    command.args([run.host, run.scenario, "--json", "--trace"]).arg(trace).args(run.options);
    command.stdout(std::fs::File::create(&report)?);
    workspace::run(&mut command)?;
    let mut check = program(python);
    check.arg("xtask/traces/check.py").args(run.shows).args([&*report, trace]);
    workspace::run(&mut check)
}
