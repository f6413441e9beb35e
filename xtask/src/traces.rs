//! `cargo xtask traces`: what other people's readers make of the traces.
//!
//! Perfetto publishes its protocol buffers for Python, so a small program in Python decodes each
//! trace with them and compares it with the report of the same run (`xtask/traces/check.py`). They
//! are installed into a folder of the build, at a fixed version.

use std::path::Path;

use crate::workspace::{self, Outcome, cargo, program};

/// The decoder.
const PERFETTO: &str = "perfetto==0.59.1";
/// Its only need.
const PROTOBUF: &str = "protobuf==7.36.2";

/// Runs, each with the host that it is on.
const RUNS: &[(&str, &str, &[&str])] = &[
    ("sim", "xtask/traces/everything.json", &["--check"]),
    ("sim", "scenarios/rt-migrate.json", &[]),
    ("sim", "scenarios/stuck-head.json", &["--feature", "NO_RT_PULL"]),
    ("sim", "scenarios/probes.json", &["--duration", "2s", "--topology", "2x2"]),
    ("live", "xtask/traces/everything.json", &["--duration", "1500ms"]),
    ("live", "scenarios/probes.json", &["--duration", "1s"]),
];

/// Makes traces and compares them with their reports.
pub fn run() -> Outcome {
    let folder = workspace::target("traces")?;
    let python = folder.join("venv/bin/python");
    if !python.exists() {
        workspace::run(program("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
        let install = ["-m", "pip", "install", "--quiet", PERFETTO, PROTOBUF];
        workspace::run(program(&python).args(install))?;
    }
    workspace::run(cargo().args(["build", "--release", "--quiet"]))?;
    for run in RUNS {
        for form in ["pftrace", "txt"] {
            compare(run, &folder, &python, form)?;
        }
    }
    Ok(())
}

fn compare(
    (host, scenario, options): &(&str, &str, &[&str]),
    folder: &Path,
    python: &Path,
    form: &str,
) -> Outcome {
    let trace = folder.join(format!("trace.{form}"));
    let report = folder.join("report.json");
    let runyard = workspace::target("release")?.join("runyard");
    let mut command = program(runyard);
    command.args([host, scenario, "--json", "--trace"]).arg(&trace).args(*options);
    command.stdout(std::fs::File::create(&report)?);
    workspace::run(&mut command)?;
    workspace::run(program(python).arg("xtask/traces/check.py").args([report, trace]))
}
