//! Packages of Debian's archive, extracted into a folder and not installed: kernels, the emulator, busybox.
//!
//! `apt-get` verifies the archive's signatures. It works on a configuration of its own, with the sources of this
//! machine in other suites, and with an empty list of installed packages: so it fetches all that a program needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::workspace::{self, Outcome, program};

/// The suites, oldest first. A kernel is in the suites that had it at its time.
const SUITES: [&str; 5] = ["bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"];

/// The suite of the emulator and of busybox.
const TOOLS_SUITE: &str = "trixie";

/// The keys of the archive, which Debian's base system has.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Lists that are older are fetched again.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// The kernels of Debian without a flavour.
const FLAVOUR: &str = "-amd64";

/// The archive, and the folder of what came from it.
pub(super) struct Archive {
    folder: PathBuf,
}

/// A kernel.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// The release, as `uname -r` prints it.
    pub(super) release: String,
    /// The package's version and hash.
    version: String,
    sha256: String,
    pub(super) vmlinuz: PathBuf,
    /// The folder of its drivers that are modules.
    pub(super) drivers: PathBuf,
    /// The configuration with which it was built.
    config: String,
}

impl Archive {
    /// Opens the archive below `folder`; the lists of packages are fetched if they are old.
    pub(super) fn open(folder: &Path) -> Outcome<Archive> {
        let archive = Archive { folder: folder.join("archive") };
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(archive.folder.join(part))?;
        }
        let (mirror, at) = (mirror()?, archive.folder.display());
        let source = |suite| format!("deb [signed-by={KEYS}] {mirror} {suite} main\n");
        fs::write(archive.folder.join("sources.list"), SUITES.map(source).concat())?;
        fs::write(archive.folder.join("status"), "")?;
        let conf = format!(
            "Dir::Etc::SourceList \"{at}/sources.list\";\nDir::Etc::SourceParts \"/dev/null\";\n\
             Dir::State::Lists \"{at}/lists\";\nDir::State::Status \"{at}/status\";\nDir::Cache \"{at}/cache\";\n\
             Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n"
        );
        fs::write(archive.folder.join("apt.conf"), conf)?;
        let fetched = archive.folder.join("fetched");
        let age = fs::metadata(&fetched).and_then(|it| it.modified()).ok().map(|at| at.elapsed());
        if !age.is_some_and(|age| age.is_ok_and(|age| age < FRESH)) {
            workspace::run(archive.tool("apt-get").args(["--quiet", "--quiet", "update"]))?;
            fs::write(fetched, "")?;
        }
        Ok(archive)
    }

    /// The folder with the emulator, busybox and all libraries that they need.
    pub(super) fn tools(&self) -> Outcome<PathBuf> {
        let tools = self.folder.join("tools");
        if !tools.exists() {
            let mut fetch = self.tool("apt-get");
            fetch.args([
                "install",
                "--yes",
                "--quiet",
                "--quiet",
                "--download-only",
                "--no-install-recommends",
            ]);
            fetch.args(["--target-release", TOOLS_SUITE, "qemu-system-x86", "busybox-static"]);
            workspace::run(&mut fetch)?;
            let unfinished = self.folder.join("tools.part");
            for entry in fs::read_dir(self.folder.join("cache/archives"))? {
                let package = entry?.path();
                if package.extension().is_some_and(|end| end == "deb") {
                    extract(&package, &unfinished)?;
                    fs::remove_file(package)?;
                }
            }
            fs::rename(unfinished, &tools)?;
        }
        Ok(tools)
    }

    /// The newest kernel of a series, as `6.12`, or of a release, as `6.18.15`.
    pub(super) fn image(&self, series: &str) -> Outcome<Image> {
        let names = workspace::output(self.tool("apt-cache").args(["pkgnames", "linux-"]))?.stdout;
        let names = String::from_utf8(names)?;
        // From 6.19 on, the image is in `linux-binary-`, and the configuration in `linux-base-`.
        let newest = |kind: &str| {
            let releases = names.lines().filter_map(|name| name.strip_prefix(kind));
            let releases = releases.filter(|release| is_of(release, series));
            releases.max_by_key(|release| numbers(release)).map(str::to_owned)
        };
        let (kind, release) = match newest("linux-binary-") {
            Some(release) => ("linux-binary-", release),
            None => (
                "linux-image-",
                newest("linux-image-").ok_or_else(|| {
                    format!(
                        "the archive has no kernel {series}: {} were searched",
                        SUITES.join(", ")
                    )
                })?,
            ),
        };
        let package = format!("{kind}{release}");
        let folder = self.folder.join(&release);
        if !folder.exists() {
            let unfinished = self.folder.join(format!("{release}.part"));
            self.fetch(&package, &unfinished)?;
            if kind == "linux-binary-" {
                self.fetch(&format!("linux-base-{release}"), &unfinished)?;
            }
            fs::rename(unfinished, &folder)?;
        }
        let shown =
            self.tool("apt-cache").args(["show", "--no-all-versions", &package]).output()?.stdout;
        let shown = String::from_utf8(shown)?;
        let field = |key: &str| {
            let value = shown.lines().find_map(|line| line.strip_prefix(key));
            value.map(str::to_owned).ok_or_else(|| format!("{package} has no field {key}"))
        };
        let places = [
            folder.join(format!("boot/vmlinuz-{release}")),
            folder.join(format!("usr/lib/modules/{release}/vmlinuz")),
        ];
        let vmlinuz = places.into_iter().find(|place| place.exists());
        Ok(Image {
            version: field("Version: ")?,
            sha256: field("SHA256: ")?,
            drivers: folder.join(format!("lib/modules/{release}/kernel/drivers")),
            vmlinuz: vmlinuz.ok_or_else(|| format!("{package} has no image"))?,
            config: fs::read_to_string(folder.join(format!("boot/config-{release}")))
                .unwrap_or_default(),
            release,
        })
    }

    /// Fetches a package and extracts what is not a module.
    fn fetch(&self, package: &str, into: &Path) -> Outcome {
        let place = self.folder.join("fetch");
        workspace::anew_at(&place)?;
        let mut fetch = self.tool("apt-get");
        workspace::run(
            fetch.args(["download", "--quiet", "--quiet", package]).current_dir(&place),
        )?;
        for entry in fs::read_dir(&place)? {
            extract(&entry?.path(), into)?;
        }
        let modules = into.join("usr/lib/modules");
        for entry in fs::read_dir(modules).into_iter().flatten() {
            let drivers = entry?.path().join("kernel");
            if drivers.exists() {
                fs::remove_dir_all(drivers)?;
            }
        }
        fs::remove_dir_all(place)?;
        Ok(())
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = program(name);
        command.env("APT_CONFIG", self.folder.join("apt.conf"));
        command
    }
}

impl Image {
    /// The value of an option of the configuration: `y`, a number, or `n` if it is not set.
    pub(super) fn option(&self, name: &str) -> &str {
        let key = format!("CONFIG_{name}=");
        self.config.lines().find_map(|line| line.strip_prefix(&key)).unwrap_or("n")
    }

    /// What it is, to be kept with each figure.
    pub(super) fn about(&self) -> Value {
        json!({"release": self.release, "version": self.version, "sha256": self.sha256})
    }
}

/// The address of Debian's archive in this machine's sources.
fn mirror() -> Outcome<String> {
    let mut targets = program("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let said = String::from_utf8(workspace::output(&mut targets)?.stdout)?;
    let debian = said.lines().find(|uri| uri.trim_end_matches('/').ends_with("/debian"));
    Ok(debian
        .ok_or("no source of this machine is Debian's archive, which has the kernels")?
        .to_owned())
}

fn extract(package: &Path, into: &Path) -> Outcome {
    fs::create_dir_all(into)?;
    workspace::run(program("dpkg-deb").arg("--extract").arg(package).arg(into))
}

/// Whether a package's name ends with a release of this series, without a flavour.
fn is_of(release: &str, series: &str) -> bool {
    let Some(plain) = release.strip_suffix(FLAVOUR) else { return false };
    let after = plain.strip_prefix(series);
    let flavoured = plain.contains("rt") || plain.contains("cloud") || plain.contains("unsigned");
    !flavoured && after.is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_digit()))
}

/// The numbers of a release, in order.
fn numbers(release: &str) -> Vec<u64> {
    let plain = release.strip_suffix(FLAVOUR).unwrap_or(release);
    plain.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_its_releases_and_no_flavour() {
        assert!(is_of("6.1.0-50-amd64", "6.1"));
        assert!(is_of("6.12.117+deb13-amd64", "6.12"));
        assert!(is_of("6.18.15+deb13-amd64", "6.18.15"));
        assert!(!is_of("6.12.117+deb13-amd64", "6.1"));
        assert!(!is_of("6.18.150+deb13-amd64", "6.18.15"));
        assert!(!is_of("6.1.0-50-rt-amd64", "6.1"));
        assert!(!is_of("6.1.0-50-amd64-dbg", "6.1"));
    }

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        let mut releases = ["6.12.90+deb12.1-amd64", "6.12.117+deb13-amd64", "6.12.90+deb12-amd64"];
        releases.sort_by_key(|release| numbers(release));
        assert_eq!(releases[2], "6.12.117+deb13-amd64");
        assert_eq!(releases[1], "6.12.90+deb12.1-amd64");
    }
}
