//! The command, and its reports of scenarios.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::quiet::{self, Company};
use crate::workspace::{self, Outcome, program};

/// The number of tries of a run before its scenario is dropped.
const TRIES: usize = 5;

/// The release build, which must exist, and a folder for its input.
pub(super) struct Rig {
    runyard: PathBuf,
    pub(super) folder: PathBuf,
    /// The simulator's options about the kernel and its features.
    simulated: Vec<String>,
}

impl Rig {
    pub(super) fn new(features: &[String], kernel: Option<&str>) -> Outcome<Rig> {
        let features = features.iter().map(|name| format!("--feature={name}"));
        let kernel = kernel.map(|name| format!("--kernel={name}"));
        let rig = Rig {
            runyard: workspace::target("release")?.join("runyard"),
            folder: workspace::target("fidelity")?,
            simulated: features.chain(kernel).collect(),
        };
        std::fs::create_dir_all(&rig.folder)?;
        Ok(rig)
    }

    /// This machine as the value of a scenario's `machine`.
    pub(super) fn machine(&self) -> Outcome<String> {
        let machine = json(program(&self.runyard).args(["calibrate", "--json"]))?;
        Ok(machine.to_string())
    }

    /// Runs a scenario on `host` with these options, and returns the report.
    pub(super) fn run(&self, host: &str, scenario: &Path, options: &[&str]) -> Outcome<Value> {
        json(program(&self.runyard).args([host, "--json"]).args(options).arg(scenario))
    }

    /// The kernel's report of an undisturbed run; `None` if the machine was never quiet.
    pub(super) fn run_quietly(&self, scenario: &Path, options: &[&str]) -> Outcome<Option<Value>> {
        for _ in 0..TRIES {
            let (report, company) = quiet::watched(|| self.run("linux", scenario, options));
            let report = report?;
            if company.is_quiet() {
                return Ok(Some(report));
            }
            let Company { others, stolen } = company;
            eprintln!("disturbed: others had {others:.1} % of the CPUs, the host {stolen:.1} %");
        }
        Ok(None)
    }

    /// Simulates a scenario on this `machine`, and returns the report.
    pub(super) fn simulate(&self, text: &str, machine: &str, options: &[&str]) -> Outcome<Value> {
        let file = self.folder.join("scenario.json");
        std::fs::write(&file, text.replacen('{', &format!("{{\"machine\": {machine},"), 1))?;
        let simulated = self.simulated.iter().map(String::as_str);
        let options: Vec<_> = options.iter().copied().chain(simulated).collect();
        self.run("sim", &file, &options)
    }
}

fn json(command: &mut Command) -> Outcome<Value> {
    Ok(serde_json::from_slice(&workspace::output(command)?.stdout)?)
}
