//! The licences of other people's code in a binary: most ask to be handed on with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{MetadataCommand, Package};

use crate::workspace::{Outcome, cargo, output};

/// The starts of the names that files with a licence have.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// Code that lies in the tree itself: the library that draws the charts of pages.
const VENDORED: (&str, &str) = ("Apache ECharts", "crates/report/vendor/echarts");

/// All packages of the command for `target` with their licences, then each text once, under the packages that have it.
pub(super) fn of(source: &Path, target: &str) -> Outcome<String> {
    let mut list = String::from("The runyard command contains these packages.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages(source, target)? {
        let name = format!("{} {}", package.name, package.version);
        list += &format!("{name}: {}\n", package.license.as_deref().unwrap_or("see below"));
        let folder = package.manifest_path.parent().ok_or("a manifest without a folder")?;
        add(&mut texts, &name, folder.as_std_path())?;
    }
    add(&mut texts, VENDORED.0, &source.join(VENDORED.1))?;
    list += &format!("{}: Apache-2.0\n", VENDORED.0);
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, one), (_, other)| one.cmp(other));
    let rule = "-".repeat(80);
    list.extend(
        texts.iter().map(|(text, names)| {
            format!("\n{rule}\n{}\n\n{}\n", names.join(", "), text.trim_end())
        }),
    );
    Ok(list)
}

/// The packages of other people that are in the command, in the order of their names.
fn packages(source: &Path, target: &str) -> Outcome<Vec<Package>> {
    let mut tree = cargo();
    tree.current_dir(source).args(["tree", "--locked", "--package", "runyard-cli"]);
    tree.args(["--target", target, "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let listed = String::from_utf8(output(&mut tree)?.stdout)?;
    let listed: BTreeSet<_> = listed.lines().map(name_and_version).collect();
    let mut command = MetadataCommand::new();
    let metadata = command.current_dir(source).other_options(vec!["--locked".to_owned()]).exec()?;
    let is_inside = |package: &Package| {
        package.source.is_some()
            && listed.contains(&format!("{} v{}", package.name, package.version))
    };
    let mut packages: Vec<_> = metadata.packages.into_iter().filter(is_inside).collect();
    packages.sort_by(|one, other| (&*one.name, &one.version).cmp(&(&*other.name, &other.version)));
    Ok(packages)
}

/// The first two words of a line of `cargo tree`; notes follow them.
fn name_and_version(line: &str) -> String {
    line.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn add(texts: &mut BTreeMap<String, Vec<String>>, name: &str, folder: &Path) -> Outcome {
    for file in licences(folder)? {
        texts.entry(fs::read_to_string(file)?).or_default().push(name.to_owned());
    }
    Ok(())
}

/// The files of a package that have a licence, in the order of their names.
fn licences(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|start| name.starts_with(start))
    };
    let paths: Result<Vec<_>, _> =
        fs::read_dir(folder)?.map(|entry| Ok::<_, std::io::Error>(entry?.path())).collect();
    let mut found: Vec<_> = paths?.into_iter().filter(is_licence).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;

    #[test]
    fn a_text_is_there_once_under_all_names_that_have_it() {
        let mut texts = BTreeMap::new();
        for name in ["a 1.0.0", "b 2.0.0"] {
            add(&mut texts, name, root()).unwrap();
        }
        assert_eq!(texts.len(), 2, "the licences of the project");
        assert!(texts.values().all(|names| names == &["a 1.0.0", "b 2.0.0"]));
    }

    #[test]
    fn a_line_of_the_tree_is_a_name_and_a_version() {
        assert_eq!(name_and_version("serde v1.0.1 (*)"), "serde v1.0.1");
        assert_eq!(name_and_version("prost v0.14.4"), "prost v0.14.4");
    }
}
