//! `cargo xtask python`: builds the wheel, installs it as a user does, and tests it.
//!
//! There are two new environments in the build's folder. The user's has the wheel and the packages that the tests
//! compare it with. That of the nodes of a Ray cluster has only Ray. The wheel is built anew each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::command;
use crate::workspace::{self, DIST, Outcome, program};

/// The packages that the tests need besides the wheel, at fixed versions.
const NEEDS: &str = "python/tests/requirements.txt";
/// The packages of a cluster's nodes.
const NODES_NEED: &str = "python/tests/requirements-nodes.txt";

/// The options: a part to leave out, and arguments for pytest.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only build the wheel, into target/python/wheels
    #[arg(long)]
    pub build_only: bool,
    /// Build the wheel with the profile of tests
    #[arg(long, conflicts_with = "build_only")]
    pub debug: bool,
    /// The command that the package is compared with
    #[command(flatten)]
    pub command: command::Options,
    /// Arguments of pytest, as `-k ray`
    #[arg(last = true)]
    pub pytest: Vec<String>,
}

/// Builds the wheel and tests it.
pub fn run(options: &Options) -> Outcome {
    let folder = workspace::target("python")?;
    let user = environment(&folder.join("user"), &["-r", NEEDS])?;
    let profile = if options.debug { "dev" } else { DIST };
    let wheel = wheel(&folder, wheels_by(&user, workspace::root(), profile))?;
    if options.build_only {
        println!("{}", wheel.display());
        return Ok(());
    }
    let workers = environment(&folder.join("workers"), &["-r", NODES_NEED])?;
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"];
    workspace::run(program(python(&user)).args(install).arg(&wheel))?;
    let runyard = options.command.path()?;
    types(&user)?;
    let examples = ["-m", "pytest", "-q", "--doctest-modules", "--pyargs", "runyard"];
    workspace::run(program(python(&user)).args(examples).current_dir(&user))?;
    let mut tests = program(python(&user));
    tests.args(["-m", "pytest", "-q", "--durations=5", "python/tests"]).args(&options.pytest);
    tests.env("RUNYARD", runyard);
    tests.env("RUNYARD_WORKERS", python(&workers));
    workspace::run(&mut tests)
}

/// Checks the package's types, and compares the stubs with the Rust code.
fn types(user: &Path) -> Outcome {
    let mypy = user.join("bin/mypy");
    // The folder has no sources, so the installed package is checked.
    workspace::run(program(&mypy).args(["--strict", "-p", "runyard"]).current_dir(user))?;
    workspace::run(program(user.join("bin/stubtest")).arg("runyard._runyard").current_dir(user))
}

/// An environment in `folder` with the builder of wheels that the checkout `source` names, and with nothing else.
pub fn builder(source: &Path, folder: &Path) -> Outcome<PathBuf> {
    let needs = fs::read_to_string(source.join(NEEDS))?;
    let maturin = needs.lines().find(|line| line.starts_with("maturin=="));
    let maturin = maturin.ok_or("the requirements of the tests name no maturin")?;
    environment(&folder.join("maturin"), &[maturin])
}

/// Builds the wheel of the checkout `source` in `folder` as it is released, with files of the time `epoch`, and returns
/// its path.
pub fn wheel_of(builder: &Path, source: &Path, folder: &Path, epoch: &str) -> Outcome<PathBuf> {
    let mut build = wheels_by(builder, source, DIST);
    build.env("SOURCE_DATE_EPOCH", epoch);
    wheel(folder, build)
}

/// The command by which an environment builds wheels of the checkout `source`.
fn wheels_by(environment: &Path, source: &Path, profile: &str) -> Command {
    let mut build = program(environment.join("bin/maturin"));
    build.current_dir(source).args(["build", "--quiet", "-m", "python/Cargo.toml"]);
    build.args(["--profile", profile]);
    build
}

/// Builds the wheel, the only file in its folder.
fn wheel(folder: &Path, mut build: Command) -> Outcome<PathBuf> {
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    workspace::run(build.arg("--out").arg(&wheels))?;
    let built = fs::read_dir(&wheels)?.next().ok_or("maturin has built no wheel")??;
    Ok(built.path())
}

/// An environment with these packages, made if it is missing.
fn environment(folder: &Path, needs: &[&str]) -> Outcome<PathBuf> {
    if !python(folder).exists() {
        workspace::run(program("python3").args(["-m", "venv"]).arg(folder))?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    workspace::run(program(python(folder)).args(pip).args(needs))?;
    Ok(folder.to_owned())
}

fn python(environment: &Path) -> PathBuf {
    environment.join("bin/python")
}
