//! The packages of every crate that is published, built by the least Rust version.

use std::path::Path;

use crate::workspace::{self, Outcome, cargo};

/// Packs the crates of the checkout `source`, and builds each from its package. In a new folder, as Cargo keeps the unpacked
/// packages by folder and version, and would build the old ones after a change.
pub fn check(source: &Path, folder: &Path) -> Outcome {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    let least = least_version()?;
    let install = ["toolchain", "install", &least, "--profile", "minimal", "--no-self-update"];
    workspace::run(workspace::program("rustup").args(install))?;
    let which = ["which", "--toolchain", &least, "rustc"];
    let rustc = workspace::output(workspace::program("rustup").args(which))?.stdout;
    let mut publish = cargo();
    publish.current_dir(source);
    publish.args(["publish", "--workspace", "--dry-run", "--allow-dirty", "--target-dir"]);
    publish.arg(folder).env("CARGO_PROFILE_DEV_DEBUG", "false");
    workspace::run(publish.env("RUSTC", String::from_utf8(rustc)?.trim()))
}

/// The least Rust version that published crates take.
fn least_version() -> Outcome<String> {
    let metadata = workspace::metadata()?;
    let least = metadata.packages.iter().filter_map(|package| package.rust_version.as_ref()).min();
    Ok(least.ok_or("no package says its least Rust version")?.to_string())
}
