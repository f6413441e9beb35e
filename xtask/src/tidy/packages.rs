//! The rules for published packages. Cargo publishes even without most of these properties, and then a version without
//! a page, or one that cannot be built, is public.
//!
//! A package of the workspace says `publish = false`, or has all of them. `.ci/run` also packs and checks each package;
//! this module has the parts that it cannot see.

use std::path::Path;

use cargo_metadata::{Metadata, Package};

use super::Violation;

/// The files beside the manifest. A package has no files from the folders above it.
const FILES: &[&str] = &["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// The largest number of keywords that a registry takes.
const KEYWORDS: usize = 5;

/// Every published package has a description and its files, and depends on published versions.
#[must_use]
pub fn published_packages_are_complete(metadata: &Metadata, root: &Path) -> Vec<Violation> {
    let published = metadata.packages.iter().filter(|package| !is_private(package));
    published.flat_map(|package| faults(package, root)).collect()
}

/// Whether the manifest says `publish = false`, which keeps it from every registry.
fn is_private(package: &Package) -> bool {
    package.publish.as_ref().is_some_and(Vec::is_empty)
}

fn faults(package: &Package, root: &Path) -> Vec<Violation> {
    let manifest = package.manifest_path.as_std_path();
    let folder = manifest.parent().unwrap_or(root);
    let missing = FILES.iter().filter(|file| !folder.join(file).is_file());
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
        package.dependencies.iter().filter(|it| it.path.is_some() && it.req.to_string() == "*");
    let bare = bare.map(|it| format!("{} has a path and no version", it.name));
    let path = manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy().into_owned();
    files
        .chain(unsaid)
        .chain(bare)
        .map(|fault| Violation {
            path: path.clone(),
            line: 1,
            reason: format!(
                "{fault}: a package that is published has it, or say `publish = false`"
            ),
        })
        .collect()
}
