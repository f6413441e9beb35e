//! The command at another commit and at the working tree, both built in the same fast way.
//!
//! Decisions do not depend on optimisation, so link-time optimisation, which takes minutes, is left out. The command of
//! a commit is kept under the commit's name and built only once. Each of the two trees has its own build folder: cargo
//! names a crate by its path in the workspace and compares times, so in a common folder it would take the other tree's
//! crates.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::{self, Outcome, cargo, output, program, root};

/// The two commands.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The command at the commit.
    pub before: PathBuf,
    /// The command at the working tree.
    pub after: PathBuf,
}

/// Builds the missing commands in `folder`. `rev` is any name of a commit that git accepts.
pub fn both(rev: &str, folder: &Path) -> Outcome<Programs> {
    let after = folder.join("working").join("runyard");
    let before = folder.join(commit(rev)?).join("runyard");
    if !before.exists() {
        build_commit(rev, folder, &before)?;
    }
    build(root(), &folder.join("build-working"), &after)?;
    Ok(Programs { before, after })
}

/// The full name of the commit `rev`.
fn commit(rev: &str) -> Outcome<String> {
    let mut git = program("git");
    git.args(["rev-parse", "--verify", "--end-of-options"]).arg(format!("{rev}^{{commit}}"));
    Ok(String::from_utf8(output(&mut git)?.stdout)?.trim().to_owned())
}

/// Builds `rev` in a work tree of its own, which is removed afterwards.
fn build_commit(rev: &str, folder: &Path, to: &Path) -> Outcome {
    let tree = folder.join("tree");
    let add = ["worktree", "add", "--quiet", "--force", "--detach"];
    let remove = ["worktree", "remove", "--force"];
    if tree.exists() {
        workspace::run(program("git").args(remove).arg(&tree))?;
    }
    workspace::run(program("git").args(add).arg(&tree).arg(rev))?;
    let built = build(&tree, &folder.join("build-commit"), to);
    workspace::run(program("git").args(remove).arg(&tree))?;
    built
}

/// Builds the command of the workspace at `tree` in the folder `target` and keeps it as `to`.
fn build(tree: &Path, target: &Path, to: &Path) -> Outcome {
    let mut command = cargo();
    command.current_dir(tree).args(["build", "--release", "--quiet", "--package", "runyard-cli"]);
    command.env("CARGO_TARGET_DIR", target);
    command.env("CARGO_PROFILE_RELEASE_LTO", "off");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "none");
    workspace::run(&mut command)?;
    fs::create_dir_all(to.parent().expect("a command is in a folder"))?;
    // The last step is a rename, so the file is never half a program.
    let new = to.with_extension("new");
    fs::copy(target.join("release").join("runyard"), &new)?;
    Ok(fs::rename(new, to)?)
}
