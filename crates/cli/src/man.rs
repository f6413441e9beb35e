//! `runyard man`: prints the manual, made from the descriptions of the arguments.

use crate::exit::Done;
use crate::folder::takes_files;
use crate::output;
use clap::{Args, Command};
use clap_mangen::Man;
use runyard_outcome::Failure;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The arguments of `runyard man`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write `runyard.1` and a page for each subcommand into this folder; otherwise `runyard.1` goes to standard
    /// output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, command: Command) -> Result<Done, Failure> {
    match &arguments.out {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page).expect("memory takes all");
            output::report(|out| out.write_all(&page))?;
        }
        Some(folder) => write(folder, command)
            .map_err(|error| Failure::Refused(format!("{}: {error}", folder.display())))?,
    }
    Ok(Done::Well)
}

fn write(folder: &Path, command: Command) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    takes_files(folder)?;
    clap_mangen::generate_to(command, folder)
}
