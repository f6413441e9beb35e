//! `cargo xtask siege`: other people's code inside tasks, stopped at random instants, with each allocator.
//!
//! The programs are a package of their own, `siege`, and a binary for each allocator. They are built without
//! link-time optimisation, as that would take minutes for each.

use std::path::PathBuf;

use clap::Args;

use crate::workspace::{self, Outcome, cargo, program};

/// The binaries of the package `siege`, by the allocators that they have.
const ALLOCATORS: [&str; 5] = ["system", "strict", "jemalloc", "mimalloc", "runyard"];

/// As users build, and in half the time.
pub const RELEASE: &str = "release";
const PROFILES: [&str; 2] = [RELEASE, "quick"];

/// What to besiege, and for how long.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// For how long, over all allocators
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub minutes: u64,
    /// Fixes what is drawn
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Only with this allocator
    #[arg(long, value_parser = ALLOCATORS, value_name = "NAME")]
    pub allocator: Option<String>,
    /// How the programs are built: a profile of `siege/Cargo.toml`
    #[arg(long, default_value = RELEASE, value_parser = PROFILES, value_name = "NAME")]
    pub profile: String,
    /// A feature of the runtime: `NAME` switches it on, `NO_NAME` off
    #[arg(long, value_name = "NAME")]
    pub feature: Vec<String>,
    /// Only these programs, all at once
    #[arg(value_name = "PROGRAM")]
    pub only: Vec<String>,
}

/// Builds the programs and runs them with one allocator after the other, all of them even after one failed.
pub fn run(options: &Options) -> Outcome {
    let binaries = build(&options.profile)?;
    let is_asked = |name: &&str| options.allocator.as_deref().is_none_or(|only| only == *name);
    let asked: Vec<_> = ALLOCATORS.into_iter().filter(is_asked).collect();
    let seconds = options.minutes * 60 / asked.len() as u64;
    let besiege = |name: &str| {
        let mut siege = program(binaries.join(name));
        siege.args(["--seconds", &seconds.to_string(), "--seed", &options.seed.to_string()]);
        siege.args(options.feature.iter().flat_map(|name| ["--feature", name]));
        workspace::run(siege.args(&options.only))
    };
    workspace::all(asked.into_iter().map(|name| (name, besiege(name))))
}

/// Where the binaries are.
fn build(profile: &str) -> Outcome<PathBuf> {
    let target = workspace::target("siege")?;
    let mut command = cargo();
    command.args(["build", "--locked", "--manifest-path", "siege/Cargo.toml"]);
    command.args(["--profile", profile]);
    workspace::run(command.arg("--target-dir").arg(&target))?;
    Ok(target.join(profile))
}
