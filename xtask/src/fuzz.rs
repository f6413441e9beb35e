//! `cargo xtask fuzz`: libFuzzer, guided by coverage, on the stable compiler.
//!
//! `cargo-fuzz` needs a nightly compiler for its address sanitizer, which safe code does not need. The coverage pass
//! makes a fuzzer effective, and LLVM's own options reach it from stable. An explicit target keeps build scripts and
//! procedural macros free of the instrumentation, which they could not link.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::workspace::{self, Outcome, cargo, program, set_rustflags};

/// The name of the fuzz target: of its binary, its corpus and its findings.
const TARGET: &str = "machine";

/// Coverage in libFuzzer's form, and assertions as in tests.
const RUSTFLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions=on",
    "--cfg fuzzing",
];

/// The options of the search.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Seconds to search
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub seconds: u64,
    /// Seed of the search, to repeat one; 0 draws a new one
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u32,
    /// Replay this input instead of searching
    pub input: Option<PathBuf>,
}

/// Builds the fuzz target and searches, or replays one input.
pub fn run(options: &Options) -> Outcome {
    let input = options.input.as_deref().map(Path::canonicalize).transpose();
    let input = input.map_err(|error| format!("cannot read the input: {error}"))?;
    let binary = build()?;
    let corpus = folder("corpus")?;
    let findings = folder("artifacts")?;
    let mut fuzzer = program(binary);
    if let Some(input) = input {
        return workspace::run(fuzzer.arg(input));
    }
    fuzzer.arg(format!("-max_total_time={}", options.seconds));
    fuzzer.arg(format!("-seed={}", options.seed));
    fuzzer.arg(format!("-artifact_prefix={findings}/"));
    workspace::run(fuzzer.arg(corpus)).map_err(|error| {
        format!("{error}\nreplay what it found with `cargo xtask fuzz {findings}/FILE`").into()
    })
}

fn build() -> Outcome<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target = workspace::target("fuzz")?;
    let mut command = cargo();
    command.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    command.args(["--target", &triple, "--target-dir"]).arg(&target);
    set_rustflags(&mut command, &RUSTFLAGS.join(" "));
    workspace::run(&mut command)?;
    Ok(target.join(triple).join("release").join(TARGET))
}

/// A folder of the fuzz target. It is made here, since libFuzzer makes none.
fn folder(kind: &str) -> Outcome<String> {
    let folder = format!("fuzz/{kind}/{TARGET}");
    std::fs::create_dir_all(workspace::root().join(&folder))
        .map_err(|error| format!("cannot make {folder}: {error}"))?;
    Ok(folder)
}
