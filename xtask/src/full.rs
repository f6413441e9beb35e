//! `cargo xtask full`: the checks that take too long for every change: a siege of an hour, with each
//! allocator, long searches, the founding experiments on real CPUs, the simulator beside the kernel, counts of
//! instructions, the tests of the runtime where the system gives it little, and all of other people's libraries.
//!
//! It does not repeat what `.ci/run` does. Its times are for a machine that does nothing else.

use clap::Args;

use crate::workspace::{self, Outcome, cargo};
use crate::{fuzz, instructions, release, siege};

/// How long to fuzz, and how long the soak of the runtime lasts: ten minutes each.
const LONG: u64 = 600;

/// Some 13 s each.
const RANDOM_SCENARIOS: u64 = 10;

/// So few operations measure nothing; they show that measuring works.
const COUNTED: u32 = 100;

/// How long, and from which seed.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// For how long to besiege, over all allocators
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub minutes: u64,
    /// Fixes what is drawn
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u32,
}

/// Runs all of them, also after one failed.
pub fn run(options: &Options) -> Outcome {
    let &Options { minutes, seed } = options;
    let besiege = |minutes, feature| {
        siege::run(&siege::Options {
            minutes,
            seed: seed.into(),
            allocator: None,
            profile: siege::RELEASE.to_owned(),
            feature,
            only: vec![],
        })
    };
    let search = || fuzz::run(&fuzz::Options { seconds: LONG, seed, input: None });
    let checks: &[(&str, &dyn Fn() -> Outcome)] = &[
        ("siege", &|| besiege(minutes, vec![])),
        ("siege-unbatched", &|| besiege(minutes / 4, vec!["NO_BATCH_DISPATCH".to_owned()])),
        ("fuzz", &search),
        ("soak", &|| soak(seed)),
        ("reproduce", &reproduce),
        ("threads", &threads),
        ("fidelity", &|| fidelity(seed)),
        ("musl", &musl),
        ("others", &others),
        ("release", &release::rehearse),
        ("benches", &benches),
        ("instructions", &count),
        ("libraries", &libraries),
        ("one-cpu", &|| suite(&["taskset", "-c", "0"], &[])),
        // One test at a time: two have more threads than that.
        ("few-threads", &|| suite(&["prlimit", "--nproc=64"], &["--test-threads=1"])),
    ];
    workspace::all(checks.iter().map(|&(name, check)| (name, check())))
}

/// How near the simulator is to the kernel here, in scenarios that are drawn. It fails if it cannot run only: how near is
/// near enough is judged of more scenarios than these (`docs/fidelity.md`).
fn fidelity(seed: u32) -> Outcome {
    let (seed, scenarios) = (seed.to_string(), RANDOM_SCENARIOS.to_string());
    workspace::run(cargo().args(["xtask", "fidelity", "--random", &scenarios, "--seed", &seed]))
}

fn soak(seed: u32) -> Outcome {
    let mut command = cargo();
    command.args(["test", "-p", "runyard", "--test", "soak"]);
    command.env("RUNYARD_SOAK_SECONDS", LONG.to_string());
    workspace::run(command.env("RUNYARD_SOAK_SEED", seed.to_string()))
}

/// The tests of the runtime, by a command that gives them less than there is. The kernel does not hold root to
/// the limit of threads, but the runtime keeps to it.
fn suite(within: &[&str], arguments: &[&str]) -> Outcome {
    workspace::run(cargo().args(["test", "-p", "runyard", "--no-run"]))?;
    let mut command = workspace::program(within[0]);
    command.args(&within[1..]).arg(cargo().get_program());
    workspace::run(command.args(["test", "-p", "runyard", "--tests", "--"]).args(arguments))
}

/// The tests of the runtime with a C library that is inside the program: `.ci/run` has those of preemption only.
fn musl() -> Outcome {
    let target = ["--target", "x86_64-unknown-linux-musl"];
    workspace::run(
        cargo().args(["test", "-p", "runyard", "--tests", "--no-fail-fast"]).args(target),
    )
}

/// The command on systems that nobody runs here: `.ci/run` checks it on Windows only.
fn others() -> Outcome {
    const TARGETS: [&str; 2] = ["x86_64-apple-darwin", "aarch64-unknown-linux-gnu"];
    workspace::run(workspace::program("rustup").args(["target", "add"]).args(TARGETS))?;
    let mut check = cargo();
    check.args(["check", "-p", "runyard-cli"]).env("RUSTFLAGS", "-D warnings");
    workspace::run(check.args(TARGETS.map(|target| format!("--target={target}"))))
}

/// Every bench and example, optimised as a user builds it. In `.ci/run` clippy checks them.
fn benches() -> Outcome {
    let what = ["--workspace", "--exclude", "runyard-libraries", "--benches", "--examples"];
    workspace::run(cargo().args(["build", "--release"]).args(what))
}

/// Instructions of a few operations, by valgrind. It fails if that cannot count only: no count is too high here.
fn count() -> Outcome {
    let filter = Some("switch".to_owned());
    instructions::run(&instructions::Options { filter, iterations: COUNTED, json: false })
}

/// Other people's libraries, those included that take too long to build for `.ci/run`. It needs a PostgreSQL server.
fn libraries() -> Outcome {
    let all = ["-p", "runyard-libraries", "--all-features"];
    workspace::run(cargo().arg("clippy").args(all).args([
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    workspace::run(cargo().arg("test").args(all).arg("--no-fail-fast"))
}

/// The founding experiments say the same in the simulator, however many threads simulate: `.ci/run` has the shortest.
fn threads() -> Outcome {
    let said = |threads: &str| {
        let mut command = cargo();
        command.args(["run", "--release", "--quiet", "--", "reproduce", "--host", "sim", "--json"]);
        workspace::output(command.env("RAYON_NUM_THREADS", threads))
    };
    let (one, two) = (said("1")?, said("2")?);
    if one.stdout == two.stdout { Ok(()) } else { Err("two threads say another thing".into()) }
}

fn reproduce() -> Outcome {
    workspace::run(cargo().args(["run", "--release", "--", "reproduce", "--soak"]))
}
