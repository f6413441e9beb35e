//! `cargo xtask siege`: runs other people's code inside tasks that are stopped at random instants, with each allocator.
//!
//! The programs are a package of their own, `siege`, with a binary for each allocator. They are built without link-time
//! optimisation, which would take minutes for each.

use std::path::PathBuf;

use clap::Args;

use crate::workspace::{self, Outcome, cargo, program};

/// The binaries of the package `siege`, by their allocators.
const ALLOCATORS: [&str; 5] = ["system", "strict", "jemalloc", "mimalloc", "runyard"];

/// The profiles: as users build, and one that builds in half the time.
pub const RELEASE: &str = "release";
const PROFILES: [&str; 2] = [RELEASE, "quick"];

/// The options of the siege.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Minutes, over all allocators
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub minutes: u64,
    /// The seed of all draws
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Only with this allocator
    #[arg(long, value_parser = ALLOCATORS, value_name = "NAME")]
    pub allocator: Option<String>,
    /// The build profile of the programs, of `siege/Cargo.toml`
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

/// Builds the binaries, and returns their folder.
fn build(profile: &str) -> Outcome<PathBuf> {
    let target = workspace::target("siege")?;
    let mut command = cargo();
    command.args(["build", "--locked", "--manifest-path", "siege/Cargo.toml"]);
    command.args(["--profile", profile]);
    workspace::run(command.arg("--target-dir").arg(&target))?;
    Ok(target.join(profile))
}
