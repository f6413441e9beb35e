//! `cargo xtask release`: everything of a release but the upload.
//!
//! The release is made in a clone of the last commit, so a step that fails leaves the checkout as it was. The clone's
//! versions and change log are raised first; packages, wheel and binaries are made of that. After the last step the
//! edited files replace those of the checkout, and are left for a person to look at and to commit.

mod binary;
mod edit;
mod notices;

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::semver::Version;
use clap::Args;

use crate::workspace::{self, Outcome, anew, cargo, output, program, root};
use crate::{packages, python};

const MANIFEST: &str = "Cargo.toml";
const CHANGELOG: &str = "CHANGELOG.md";
const SUMS: &str = "SHA256SUMS";
const INSTALL: &str = "install.sh";

/// The lock files that name our crates.
const LOCKS: [&str; 3] = ["Cargo.lock", "fuzz/Cargo.lock", "siege/Cargo.lock"];

/// Which release to make, and where.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The version of the release: that of the tree or a later one
    #[arg(value_name = "VERSION")]
    pub version: Version,
    /// The folder for wheel, archives, install script and checksums; else target/release-VERSION
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Make all of it, but leave the tree as it is, and go on where the tree is not ready
    #[arg(long)]
    pub dry_run: bool,
}

/// A release on its way.
struct Release {
    version: String,
    /// Seconds since 1970 of the commit: the time of all files in archives.
    epoch: String,
    /// The folder of everything that is not handed out.
    work: PathBuf,
    /// The clone, in `work`.
    source: PathBuf,
    /// The folder of everything that is handed out.
    out: PathBuf,
}

/// Makes the release; see the head of this file.
pub fn run(options: &Options) -> Outcome {
    let unready = unready(&options.version)?;
    for fault in &unready {
        eprintln!("the tree is not ready: {fault}");
    }
    if !unready.is_empty() && !options.dry_run {
        return Err("nothing was done".into());
    }
    let release = Release::begin(options)?;
    let edited = release.edit()?;
    packages::check(&release.source, &release.work.join("packages"))?;
    release.make()?;
    if !options.dry_run {
        for path in edited {
            fs::copy(release.source.join(path), root().join(path))?;
        }
        println!("Look at the change, commit it and tag it: v{}.", release.version);
    }
    println!("{}", release.out.display());
    Ok(fs::remove_dir_all(&release.work)?)
}

/// A trial of the release after the present one, for `cargo xtask full`.
pub fn rehearse() -> Outcome {
    let mut version = present()?;
    version.patch += 1;
    run(&Options { version, out: None, dry_run: true })
}

/// The reasons why no release can be made.
fn unready(version: &Version) -> Outcome<Vec<String>> {
    let mut faults = Vec::new();
    if !output(program("git").args(["status", "--porcelain"]))?.stdout.is_empty() {
        faults.push(
            "it has changes that are not committed; a release is made of the last commit"
                .to_owned(),
        );
    }
    let log = fs::read_to_string(root().join(CHANGELOG))?;
    if !edit::has_unreleased(&log) {
        faults.push(format!("{CHANGELOG} has no entry under Unreleased; add what changed"));
    }
    let present = present()?;
    if *version < present || edit::has_section(&log, &version.to_string()) {
        faults.push(format!("{version} is out or older than {present}; choose a later version"));
    }
    Ok(faults)
}

/// The version that the tree has.
fn present() -> Outcome<Version> {
    let metadata = workspace::metadata()?;
    let runyard = metadata.packages.into_iter().find(|package| *package.name == "runyard");
    Ok(runyard.ok_or("the workspace has no package `runyard`")?.version)
}

impl Release {
    /// Clones the last commit, and makes new folders.
    fn begin(options: &Options) -> Outcome<Release> {
        let version = options.version.to_string();
        let out = match &options.out {
            Some(out) => std::path::absolute(out)?,
            None => anew(&format!("release-{version}"))?,
        };
        fs::create_dir_all(&out)?;
        if fs::read_dir(&out)?.next().is_some() {
            return Err(
                format!("{} is not empty; give a new folder to --out", out.display()).into()
            );
        }
        let work = anew("release-work")?;
        let source = work.join("source");
        workspace::run(program("git").args(["clone", "--quiet"]).arg(root()).arg(&source))?;
        let epoch = workspace::epoch()?;
        Ok(Release { version, epoch, work, source, out })
    }

    /// Raises the versions and the change log of the clone, and returns the paths of the edited files.
    fn edit(&self) -> Outcome<Vec<&'static str>> {
        let (from, to) = (present()?.to_string(), self.version.as_str());
        let date = String::from_utf8(output(program("date").args(["-u", "+%F"]))?.stdout)?;
        self.replace(MANIFEST, |text| edit::manifest(text, &from, to))?;
        self.replace(CHANGELOG, |text| edit::changelog(text, to, date.trim()))?;
        for path in LOCKS {
            self.replace(path, |text| edit::lock(text, &from, to))?;
            // Cargo refuses a lock file that does not fit the manifests.
            let manifest = Path::new(path).with_extension("toml");
            let mut fits = cargo();
            fits.current_dir(&self.source).args(["metadata", "--locked", "--format-version=1"]);
            output(fits.arg("--manifest-path").arg(manifest))?;
        }
        Ok([MANIFEST, CHANGELOG].into_iter().chain(LOCKS).collect())
    }

    fn replace(&self, path: &str, edit: impl Fn(&str) -> String) -> Outcome {
        let path = self.source.join(path);
        Ok(fs::write(&path, edit(&fs::read_to_string(&path)?))?)
    }

    /// Makes the wheel, the archives, the script that installs the command, and the sums of them.
    fn make(&self) -> Outcome {
        let builder = python::builder(&self.source, &self.work)?;
        let wheel = python::wheel_of(&builder, &self.source, &self.work, &self.epoch)?;
        let mut made = vec![self.out.join(wheel.file_name().ok_or("a wheel without a name")?)];
        fs::copy(&wheel, &made[0])?;
        for target in binary::TARGETS {
            let binary = binary::build(self, target)?;
            if is_native(target) {
                binary::describe(&binary, &self.work)?;
            }
        }
        for target in binary::TARGETS {
            let archive = binary::pack(self, target, &self.work)?;
            if is_native(target) {
                binary::try_out(self, &archive)?;
            }
            made.push(archive);
        }
        let install = self.out.join(INSTALL);
        fs::write(&install, include_str!("install.sh"))?;
        made.push(install.clone());
        let mut sums = program("sha256sum");
        sums.current_dir(&self.out).args(made.iter().filter_map(|path| path.file_name()));
        fs::write(self.out.join(SUMS), output(&mut sums)?.stdout)?;
        binary::try_installed(&install, &self.work.join("installed"))
    }
}

/// Whether binaries for `target` run on this machine.
fn is_native(target: &str) -> bool {
    target.starts_with(std::env::consts::ARCH)
}
