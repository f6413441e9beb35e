//! `cargo xtask full`: the checks that take too long for every change. They are a siege of an hour with each allocator,
//! long searches, all models, the founding experiments on real CPUs, the simulator beside the kernel, the pages of reports in a
//! browser, counts of instructions, the tests of the runtime with few resources, and the tests of all other people's libraries.
//!
//! Of the checks of `.ci/run` it repeats only those that are longer here. Its times are for a machine without other
//! work.

use clap::Args;

use crate::workspace::{self, Outcome, cargo};
use crate::{fuzz, instructions, models, pages, release, siege};

/// The seconds of fuzzing, and of the runtime's soak: ten minutes each.
const LONG: u64 = 600;

/// The seconds of a simulated queue.
const QUEUE_SECONDS: u64 = 200;

/// The number of random scenarios, some 13 s each.
const RANDOM_SCENARIOS: u64 = 10;

/// The number of counted operations. So few measure nothing; they show that measuring works.
const COUNTED: u32 = 100;

/// The number of CPUs of the smallest machine in the founding documents.
const DOCUMENTS_CPUS: usize = 4;

/// The programs of the documents' benchmarks. Without them some claims are not judged.
const DOCUMENTS_PROGRAMS: [&str; 4] = ["hackbench", "lat_ctx", "make", "cc"];

/// The length of the siege, and the seed.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Minutes of siege, over all allocators
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub minutes: u64,
    /// The seed of all draws
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u32,
}

/// Runs all checks, even after one failed.
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
        ("models", &|| models::run(&models::Options { checker: None, all: true })),
        ("soak", &|| soak(seed)),
        ("queues", &queues),
        ("first-answer", &first_answer),
        ("reproduce", &reproduce),
        ("threads", &threads),
        ("fidelity", &|| fidelity(seed)),
        ("musl", &musl),
        ("others", &others),
        ("pages", &pages::all),
        ("release", &release::rehearse),
        ("benches", &benches),
        ("instructions", &count),
        ("libraries", &libraries),
        ("one-cpu", &|| suite(&["taskset", "-c", "0"], &[])),
        // One test runs at a time, since two have more threads than the limit.
        ("few-threads", &|| suite(&["prlimit", "--nproc=64"], &["--test-threads=1"])),
    ];
    workspace::all(checks.iter().map(|&(name, check)| (name, check())))
}

/// Compares the simulator with the kernel in random scenarios. It fails only if it cannot run; a judgement needs more
/// scenarios than these (`docs/figures/fidelity.md`).
fn fidelity(seed: u32) -> Outcome {
    let (seed, scenarios) = (seed.to_string(), RANDOM_SCENARIOS.to_string());
    workspace::run(cargo().args(["xtask", "fidelity", "--random", &scenarios, "--seed", &seed]))
}

fn soak(seed: u32) -> Outcome {
    let mut command = cargo();
    // Optimised, as `.ci/run` has it.
    command.args(["test", "-p", "runyard", "--test", "soak"]);
    command.args(["--config", "profile.dev.package.runyard.opt-level=3"]);
    command.env("RUNYARD_SOAK_SECONDS", LONG.to_string());
    workspace::run(command.env("RUNYARD_SOAK_SEED", seed.to_string()))
}

/// Compares queues with theory. A run has so many requests that the mean of ten is within 1 %, or nearly.
fn queues() -> Outcome {
    let mut command = cargo();
    command.args(["test", "--release", "-p", "runyard-sweep", "--test", "queues"]);
    workspace::run(command.env("RUNYARD_QUEUE_SECONDS", QUEUE_SECONDS.to_string()))
}

/// Runs the tests of the runtime under a command that limits their resources. The kernel does not hold root to the
/// limit of threads, but the runtime keeps to it.
fn suite(within: &[&str], arguments: &[&str]) -> Outcome {
    workspace::run(cargo().args(["test", "-p", "runyard", "--no-run"]))?;
    let mut command = workspace::program(within[0]);
    command.args(&within[1..]).arg(cargo().get_program());
    workspace::run(command.args(["test", "-p", "runyard", "--tests", "--"]).args(arguments))
}

/// Runs the tests of the runtime with a static C library. `.ci/run` has only those of preemption.
fn musl() -> Outcome {
    let target = ["--target", "x86_64-unknown-linux-musl"];
    workspace::run(
        cargo().args(["test", "-p", "runyard", "--tests", "--no-fail-fast"]).args(target),
    )
}

/// Checks the command for systems on which no test runs. `.ci/run` checks it only for Windows.
fn others() -> Outcome {
    const TARGETS: [&str; 2] = ["x86_64-apple-darwin", "aarch64-unknown-linux-gnu"];
    workspace::run(workspace::program("rustup").args(["target", "add"]).args(TARGETS))?;
    let mut check = cargo();
    check.args(["check", "-p", "runyard-cli"]).env("RUSTFLAGS", "-D warnings");
    workspace::run(check.args(TARGETS.map(|target| format!("--target={target}"))))
}

/// Builds every bench and example with optimisation, as a user does. In `.ci/run` clippy checks them.
fn benches() -> Outcome {
    let what = ["--workspace", "--exclude", "runyard-libraries", "--benches", "--examples"];
    workspace::run(cargo().args(["build", "--release"]).args(what))
}

/// Counts the instructions of a few operations, by valgrind. It fails only if it cannot count: no count is too high
/// here.
fn count() -> Outcome {
    let filter = Some("switch".to_owned());
    instructions::run(&instructions::Options {
        filter,
        iterations: COUNTED,
        rounds: 1,
        apart: false,
        json: false,
    })
}

/// Runs the tests of other people's libraries, including those that take too long to build for `.ci/run`. It needs a
/// PostgreSQL server.
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

/// Checks that the simulated experiments do not depend on the number of threads. `.ci/run` has the shortest experiment.
fn threads() -> Outcome {
    let said = |threads: &str| {
        let mut command = cargo();
        command.args(["run", "--release", "--quiet", "--", "reproduce", "--host", "sim", "--json"]);
        workspace::output(command.env("RAYON_NUM_THREADS", threads))
    };
    let (one, two) = (said("1")?, said("2")?);
    if one.stdout == two.stdout { Ok(()) } else { Err("two threads say another thing".into()) }
}

/// Measures the builds of a newcomer. In a process of its own: it keeps to two CPUs.
fn first_answer() -> Outcome {
    workspace::run(cargo().args(["xtask", "first-answer"]))
}

/// Whether a folder of the path has this program.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Repeats the founding experiments at length. Some claims are not judged with fewer CPUs than the documents, or
/// without their programs.
fn reproduce() -> Outcome {
    let mut command = cargo();
    command.args(["run", "--release", "--", "reproduce", "--soak"]);
    let has_cpus = std::thread::available_parallelism()?.get() >= DOCUMENTS_CPUS;
    if has_cpus && DOCUMENTS_PROGRAMS.into_iter().all(is_installed) {
        command.arg("--strict");
    }
    workspace::run(&mut command)
}
