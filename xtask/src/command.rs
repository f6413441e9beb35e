//! The `runyard` command, for the steps that compare something with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::workspace::{self, Outcome, cargo, program};

/// The command to compare with.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)] // Steps put these beside options of their own.
pub struct Options {
    /// A built `runyard`; else a release is built
    #[arg(long, value_name = "PATH")]
    command: Option<PathBuf>,
}

impl Options {
    /// Its path, once it is built.
    pub fn path(&self) -> Outcome<PathBuf> {
        if let Some(command) = &self.command {
            return Ok(command.canonicalize().map_err(|error| {
                format!("--command {}: {error}; name a built `runyard`", command.display())
            })?);
        }
        workspace::run(cargo().args(["build", "--release", "--quiet"]))?;
        Ok(workspace::target("release")?.join("runyard"))
    }
}

/// The command line of these words, with the paths in place of `INPUT` and `OUT`.
pub fn filled(runyard: &Path, words: &[&str], input: &Path, out: &Path) -> Command {
    let mut command = program(runyard);
    for &word in words {
        match word {
            "INPUT" => command.arg(input),
            "OUT" => command.arg(out),
            word => command.arg(word),
        };
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_exist_is_named() {
        let options = Options { command: Some("no/such/runyard".into()) };
        let error = options.path().unwrap_err().to_string();
        assert!(error.starts_with("--command no/such/runyard: "), "{error}");
    }
}
