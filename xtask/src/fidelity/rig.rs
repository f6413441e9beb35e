//! The command, and what it says of a scenario.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::workspace::{self, Outcome, program};

/// The release build, which is there, and a folder for what it is given.
pub(super) struct Rig {
    runyard: PathBuf,
    pub(super) folder: PathBuf,
    /// What the simulator is told of the kernel and its features, as its options.
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

    /// The report of a scenario, as `host` with such options runs it.
    pub(super) fn run(&self, host: &str, scenario: &Path, options: &[&str]) -> Outcome<Value> {
        json(program(&self.runyard).args([host, "--json"]).args(options).arg(scenario))
    }

    /// The report of a scenario that is simulated on such a `machine`.
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
