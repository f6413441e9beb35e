//! The static binaries: one file that runs on every Linux of its processor, in an archive with its papers.
//!
//! Rust's own linker and the C library of the target link them, so no C compiler is needed for another processor: no
//! dependency of the command is C code.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Release, notices};
use crate::workspace::{self, DIST, Outcome, cargo, output, program, set_rustflags};

/// The targets, each with a C library that can be inside a program.
pub(super) const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

/// The papers of the archive, from the root.
const PAPERS: [&str; 5] =
    ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "scenarios"];

/// The shells and the names that their completions have.
const SHELLS: [(&str, &str); 3] =
    [("bash", "runyard.bash"), ("zsh", "_runyard"), ("fish", "runyard.fish")];

/// Builds the command for `target`, and returns its path.
pub(super) fn build(release: &Release, target: &str) -> Outcome<PathBuf> {
    workspace::run(program("rustup").args(["target", "add", target]))?;
    let mut build = cargo();
    build.current_dir(&release.source).args(["build", "--profile", DIST, "--locked"]);
    build.args(["--package", "runyard-cli", "--bin", "runyard", "--target", target]);
    build.args(["--target-dir", "target"]);
    // A backtrace keeps the names of functions.
    build.env("CARGO_PROFILE_DIST_DEBUG", "false");
    build.env("CARGO_PROFILE_DIST_STRIP", "debuginfo");
    let linker = target.replace('-', "_").to_uppercase();
    build.env(format!("CARGO_TARGET_{linker}_LINKER"), "rust-lld");
    set_rustflags(&mut build, &unplaced(&release.source));
    workspace::run(&mut build)?;
    let binary = built(release, target);
    if needs_loader(&fs::read(&binary)?) {
        return Err(format!("{} is not static", binary.display()).into());
    }
    Ok(binary)
}

/// The place of the command for `target` after [`build`].
fn built(release: &Release, target: &str) -> PathBuf {
    release.source.join("target").join(target).join(DIST).join("runyard")
}

/// The flags that keep the folders of this machine out of the binary.
fn unplaced(source: &Path) -> String {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let folders = [(home, "/cargo"), (Some(source.to_owned()), "/runyard")];
    let flags = folders.into_iter().filter_map(|(folder, name)| {
        Some(format!("--remap-path-prefix={}={name}", folder?.display()))
    });
    flags.collect::<Vec<_>>().join(" ")
}

/// Whether the program asks for a dynamic loader: by a program header of the type `PT_INTERP` in a 64-bit ELF file.
fn needs_loader(elf: &[u8]) -> bool {
    const HEADERS_AT: usize = 32;
    const SIZE_AT: usize = 54;
    const COUNT_AT: usize = 56;
    const PT_INTERP: [u8; 4] = 3u32.to_le_bytes();
    let number = |at, length| {
        let bytes = elf.get(at..at + length).unwrap_or(&[]);
        bytes.iter().rev().fold(0, |sum, &byte| (sum << 8) | usize::from(byte))
    };
    let (start, size) = (number(HEADERS_AT, 8), number(SIZE_AT, 2));
    let mut headers = (0..number(COUNT_AT, 2)).map(|index| start + index * size);
    headers.any(|at| elf.get(at..at + 4) == Some(&PT_INTERP))
}

/// Writes the manual and the completions into `folder`, as the command `binary` of this processor says them.
pub(super) fn describe(binary: &Path, folder: &Path) -> Outcome {
    workspace::run(program(binary).args(["man", "--out"]).arg(folder.join("man")))?;
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)?;
    SHELLS.into_iter().try_for_each(|(shell, name)| {
        let script = output(program(binary).args(["completions", shell]))?.stdout;
        Ok(fs::write(completions.join(name), script)?)
    })
}

/// Puts the command for `target` into an archive, together with `described`, and returns the archive's path.
pub(super) fn pack(release: &Release, target: &str, described: &Path) -> Outcome<PathBuf> {
    let name = format!("runyard-{}-{target}", release.version);
    let folder = release.work.join(&name);
    fs::create_dir_all(&folder)?;
    let papers = PAPERS.map(|paper| release.source.join(paper));
    let described = ["man", "completions"].map(|part| described.join(part));
    let binary = built(release, target);
    let mut copy = program("cp");
    workspace::run(copy.arg("-r").arg(binary).args(papers).args(described).arg(&folder))?;
    fs::write(folder.join("LICENSES-THIRD-PARTY"), notices::of(&release.source, target)?)?;
    let archive = release.out.join(format!("{name}.tar.gz"));
    // The same files give the same archive: in order, of no user, at the time of the commit, with no time of packing.
    let mut tar = program("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("--use-compress-program=gzip -9n");
    tar.arg("-C").arg(&release.work).arg("-cf").arg(&archive).arg(&name);
    workspace::run(&mut tar)?;
    Ok(archive)
}

/// Unpacks the archive of this processor into an empty folder, and runs the command there without any variable of the
/// environment.
pub(super) fn try_out(release: &Release, archive: &Path) -> Outcome {
    let folder = release.work.join("tried");
    fs::create_dir_all(&folder)?;
    let unpack = ["--strip-components=1", "-xzf"];
    workspace::run(program("tar").args(unpack).arg(archive).arg("-C").arg(&folder))?;
    let mut command = program(folder.join("runyard"));
    command.env_clear().current_dir(&folder);
    output(command.args(["sim", "scenarios/rt-migrate.json", "--seed", "1", "--check"]))?;
    Ok(())
}

/// Installs the command below `prefix` as a user does, and runs it there.
pub(super) fn try_installed(script: &Path, prefix: &Path) -> Outcome {
    workspace::run(program("sh").arg(script).arg("--to").arg(prefix))?;
    let mut command = program(prefix.join("bin/runyard"));
    output(command.env_clear().arg("--version"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header of this type.
    fn elf(kind: u8) -> Vec<u8> {
        let mut file = vec![0; 120];
        (file[32], file[54], file[56], file[64]) = (64, 56, 1, kind);
        file
    }

    #[test]
    fn a_program_with_an_interpreter_needs_a_loader() {
        assert!(needs_loader(&elf(3)) && !needs_loader(&elf(1)) && !needs_loader(&[]));
    }
}
