//! `runyard reproduce`: the founding experiments, before and after, beside the published figures.
//!
//! Each experiment gives [claims](Claims); what is printed and what is written as JSON are views of
//! them. Speed is no claim: a time on real CPUs is shown beside what it is to be compared with, has
//! no bound, and cannot fail.

use crate::Failure;
use crate::output;
use crate::rt_migrate;
use clap::{Args, ValueEnum};
use runyard_report::{Claims, Experiment};
use std::io::Write as _;
use std::path::PathBuf;

/// The arguments of `runyard reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Which; all of them if none is named.
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Name>,
    /// On which host; without it on each, one after the other.
    #[arg(long, value_enum)]
    host: Option<Host>,
    /// As long as the original on `sim`, 20 runs on `live`: every run with its own seed, none may
    /// fail.
    #[arg(long)]
    soak: bool,
    /// Print the claims as JSON on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// Write `reproduce.json` and the text of each experiment into this folder as well.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    RtMigrate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Host {
    /// In virtual time.
    Sim,
    /// On this machine's CPUs, on the runyard runtime.
    Live,
}

/// An experiment that was run: its claims, and what a person wants to see.
pub(crate) struct Reproduced {
    pub(crate) experiment: Experiment,
    pub(crate) text: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let all = [Name::RtMigrate];
    let wanted = &arguments.experiments;
    let mut reproduced = Vec::new();
    for name in all.iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        for host in [Host::Sim, Host::Live] {
            if arguments.host.is_some_and(|only| only != host) {
                continue;
            }
            let one = match one(*name, host, arguments.soak) {
                // It does not exist here, and was not asked for by name.
                Err(Failure::Refused(why)) if arguments.host.is_none() => {
                    output::say(why);
                    continue;
                }
                one => one?,
            };
            if !arguments.json {
                output::report(|out| out.write_all(one.text.as_bytes()))?;
            }
            reproduced.push(one);
        }
    }
    if let Some(folder) = &arguments.out {
        write(folder, &reproduced)
            .map_err(|error| Failure::Refused(format!("{}: {error}", folder.display())))?;
    }
    let claims = Claims::new(reproduced.into_iter().map(|one| one.experiment).collect());
    if arguments.json {
        output::report(|out| out.write_all(json(&claims).as_bytes()))?;
    }
    if claims.hold() { Ok(()) } else { Err(Failure::Broken) }
}

fn one(name: Name, host: Host, soak: bool) -> Result<Reproduced, Failure> {
    match (name, host) {
        (Name::RtMigrate, Host::Sim) => rt_migrate::simulated(soak),
        (Name::RtMigrate, Host::Live) => rt_migrate::real(soak),
    }
}

fn json(claims: &Claims) -> String {
    serde_json::to_string_pretty(claims).expect("claims are plain data") + "\n"
}

fn write(folder: &std::path::Path, reproduced: &[Reproduced]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for Reproduced { experiment, text } in reproduced {
        std::fs::write(folder.join(format!("{}-{}.txt", experiment.name, experiment.host)), text)?;
    }
    let all = reproduced.iter().map(|one| one.experiment.clone()).collect();
    std::fs::write(folder.join("reproduce.json"), json(&Claims::new(all)))
}
