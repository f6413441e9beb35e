//! `runyard completions`: prints the script by which a shell completes the command's arguments.

use crate::exit::Done;
use crate::output;
use clap::{Args, Command};
use clap_complete::Shell;
use runyard_outcome::Failure;
use std::io::Write;

/// The arguments of `runyard completions`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell that reads the script.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut command: Command) -> Result<Done, Failure> {
    // The generator writes into memory, since it panics when its reader goes away.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "runyard", &mut script);
    output::report(|out| out.write_all(&script))?;
    Ok(Done::Well)
}
