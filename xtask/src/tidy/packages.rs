//! The rules for published packages. Cargo publishes even without most of these properties, and then a version without
//! a page, or one that cannot be built, is public.
//!
//! A package of the workspace says `publish = false`, or has all of them. `.ci/run` also packs and checks each package;
//! this module has the parts that it cannot see.

use cargo_metadata::camino::Utf8Path;
use cargo_metadata::semver::VersionReq;
use cargo_metadata::{Metadata, Package};

use super::Violation;

/// The files beside the manifest. A package has no files from the folders above it.
const FILES: &[&str] = &["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// The largest number of keywords that a registry takes.
const KEYWORDS: usize = 5;

/// Every published package has a description and its files, and depends on published versions.
#[must_use]
pub fn published_packages_are_complete(metadata: &Metadata) -> Vec<Violation> {
    // A package that says `publish = false` is kept from every registry.
    let is_published =
        |package: &&Package| package.publish.as_ref().is_none_or(|to| !to.is_empty());
    let published = metadata.packages.iter().filter(is_published);
    published.flat_map(|package| faults(package, &metadata.workspace_root)).collect()
}

fn faults(package: &Package, root: &Utf8Path) -> Vec<Violation> {
    let manifest = &package.manifest_path;
    let missing = FILES.iter().filter(|file| !manifest.with_file_name(file).is_file());
    let files = missing.map(|file| format!("{file} is not beside the manifest"));
    let said = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("readme", package.readme.is_some()),
        ("documentation", package.documentation.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("keywords", (1..=KEYWORDS).contains(&package.keywords.len())),
        ("categories", !package.categories.is_empty()),
        ("package.metadata.docs.rs", package.metadata.pointer("/docs/rs").is_some()),
    ];
    let unsaid = said.into_iter().filter(|(_, is_said)| !is_said);
    let unsaid = unsaid.map(|(key, _)| format!("`{key}` is missing or strange"));
    let bare =
        package.dependencies.iter().filter(|it| it.path.is_some() && it.req == VersionReq::STAR);
    let bare = bare.map(|it| format!("{} has a path and no version", it.name));
    let path = manifest.strip_prefix(root).unwrap_or(manifest).as_str();
    let why = "a package that is published has it, or say `publish = false`";
    let faults = files.chain(unsaid).chain(bare);
    faults.map(|fault| Violation::new(path, 1, format!("{fault}: {why}"))).collect()
}
