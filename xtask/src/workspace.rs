//! The place of the workspace, and the way to run a command in it.
//!
//! Each command is shown before it runs, in the form of a shell, so that a failed step can be repeated by hand.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cargo_metadata::{Metadata, MetadataCommand};

/// The result of a step. An error is one line for a person.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The profile of programs that are released or measured. `release` is for trying.
pub const DIST: &str = "dist";

/// The root of the checkout that this program was built from.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// The packages of the workspace as they are declared. Nothing is resolved, so neither the network nor a lock file is
/// needed.
pub fn metadata() -> Outcome<Metadata> {
    let mut command = MetadataCommand::new();
    command.no_deps().current_dir(root()).other_options(vec!["--offline".to_owned()]);
    Ok(command.exec()?)
}

/// The folder for a step that builds with its own flags: it must not evict the ordinary build.
pub fn target(step: &str) -> Outcome<PathBuf> {
    Ok(metadata()?.target_directory.join(step).into())
}

/// The folder of a step as [`target`] gives it, emptied.
pub fn anew(step: &str) -> Outcome<PathBuf> {
    let folder = target(step)?;
    anew_at(&folder)?;
    Ok(folder)
}

/// Makes an empty folder; what was there is removed.
pub fn anew_at(folder: &Path) -> Outcome {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    Ok(())
}

/// The time of the last commit, in seconds since 1970.
pub fn epoch() -> Outcome<String> {
    let said = output(program("git").args(["log", "-1", "--format=%ct"]))?.stdout;
    Ok(String::from_utf8(said)?.trim().to_owned())
}

/// The cargo that runs this program, at the root of the workspace.
#[must_use]
pub fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Any program, at the root of the workspace.
pub fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Compiles with `flags` and no others, wherever other flags were set.
pub fn set_rustflags(command: &mut Command, flags: &str) {
    command.env("RUSTFLAGS", flags).env_remove("CARGO_ENCODED_RUSTFLAGS");
}

/// Shows `command`, runs it to its end and turns a failure into an error.
pub fn run(command: &mut Command) -> Outcome {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().map_err(|error| format!("cannot run `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed: {status}").into()) }
}

/// Runs all steps, even after one failed, and returns the failures as one error.
pub fn all<'a>(steps: impl Iterator<Item = (&'a str, Outcome)>) -> Outcome {
    let failed = steps.filter_map(|(name, outcome)| Some(format!("{name}: {}", outcome.err()?)));
    let failed: Vec<_> = failed.collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\nerror: ").into()) }
}

/// Shows `command`, runs it to its end and returns its output. The error of a failed command contains its output.
pub fn output(command: &mut Command) -> Outcome<Output> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let output = command.output().map_err(|error| format!("cannot run `{shown}`: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(format!("`{shown}` failed: {}\n{said}", output.status).into())
}

/// The command line in the form of a shell, with the variables that it sets.
#[must_use]
pub fn show(command: &Command) -> String {
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let program = Path::new(command.get_program());
    let short = program.strip_prefix(root()).ok().map(Path::as_os_str).or(program.file_name());
    let words = std::iter::once(quoted(short.unwrap_or(program.as_os_str())))
        .chain(command.get_args().map(quoted));
    set.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_takes_it() {
        let mut command = cargo();
        command.args(["test", "a b", "it's"]);
        set_rustflags(&mut command, "--cfg loom");
        assert_eq!(show(&command), r"RUSTFLAGS='--cfg loom' cargo test 'a b' 'it'\''s'");
    }

    #[test]
    fn a_failed_command_is_an_error_that_names_it() {
        let error = run(program("false").arg("x")).unwrap_err().to_string();
        assert!(error.starts_with("`false x` failed"), "{error}");
        let error = run(&mut program("no-such-program")).unwrap_err().to_string();
        assert!(error.starts_with("cannot run `no-such-program`"), "{error}");
    }

    #[test]
    fn all_steps_run_after_one_failed() {
        let mut ran = 0;
        let mut step = |name| {
            ran += 1;
            (name, if name == "b" { Err("it broke".into()) } else { Ok(()) })
        };
        let error = all(["a", "b", "c"].into_iter().map(&mut step)).unwrap_err().to_string();
        assert_eq!(error, "b: it broke");
        assert_eq!(ran, 3);
    }

    #[test]
    fn what_a_command_says_is_its_output_or_in_its_error() {
        let shell = |line| output(program("sh").args(["-c", line]));
        assert_eq!(shell("echo here").unwrap().stdout, b"here\n");
        let error = shell("echo out; echo why >&2; exit 3").unwrap_err().to_string();
        assert!(error.contains("failed: exit status: 3\nout\nwhy\n"), "{error}");
    }

    #[test]
    fn the_root_has_the_workspace_manifest() {
        assert!(root().join("Cargo.toml").is_file());
    }
}
