//! Holds the tree to the rules of `xtask::tidy`, and each rule to small trees that break it.

use cargo_metadata::semver::VersionReq;
use cargo_metadata::{DependencyKind, Metadata, Package};

use xtask::tidy::circles::no_files_use_each_other_in_a_circle;
use xtask::tidy::tree::{Tree, walked};
use xtask::tidy::{RULES, Rule, Violation, arrows, packages, places, source};
use xtask::workspace::{metadata, root};

/// Small trees, each with the places where it breaks a rule. `@rule` starts one, `@file` a file in it; `@finds` ends it
/// with the places.
const BROKEN: &str = include_str!("broken.txt");

fn none_of(violations: &[Violation]) {
    let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "violations: {}\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn the_tree_keeps_every_rule() {
    let tree = Tree::read(root()).expect("the tree can be read");
    assert!(tree.file("Cargo.toml").is_some(), "this is not the root of the workspace");
    let broken = |(name, rule): &(&str, Rule)| {
        let lines: Vec<_> = rule(&tree).iter().map(|found| format!("  {found}")).collect();
        (!lines.is_empty()).then(|| format!("{name}:\n{}", lines.join("\n")))
    };
    let broken: Vec<_> = RULES.iter().filter_map(broken).collect();
    assert!(broken.is_empty(), "broken rules: {}\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn every_rule_finds_what_breaks_it() {
    let mut seen = Vec::new();
    let broken = BROKEN
        .replace("{machine path}", source::MACHINE_PATHS[0])
        .replace("{600 lines}\n", &"// why\n\nconst A: u8 = 1;\n".repeat(600));
    for example in broken.split("@rule ").skip(1) {
        let (tree, found) = example.split_once("@finds").expect("an example says what is found");
        let (name, tree) = tree.split_once('\n').expect("an example has lines");
        let files: Vec<_> = tree
            .split("@file ")
            .skip(1)
            .map(|file| file.split_once('\n').expect("a file has a path and a text"))
            .collect();
        let (_, rule) = RULES.iter().find(|(known, _)| *known == name).expect(name);
        // The words after an empty line are about the next example.
        let found = found.split("\n\n").next().unwrap_or_default();
        let expected: Vec<_> = found.split_whitespace().collect();
        assert_eq!(places(*rule, &files), expected, "{example}");
        seen.extend((!expected.is_empty()).then(|| name.to_owned()));
    }
    let unseen: Vec<_> =
        RULES.iter().filter(|(name, _)| !seen.iter().any(|seen| seen == name)).collect();
    assert!(unseen.is_empty(), "rules that no example breaks: {unseen:?}");
}

#[test]
fn dependencies_follow_the_arrows() {
    none_of(&arrows::dependencies_follow_the_arrows(&workspace()));
}

fn workspace() -> Metadata {
    metadata().expect("cargo knows the workspace")
}

/// The number of faults if the package in the folder `from` depends on that in `to` and on no other.
fn faults(from: &str, to: &str, dev: bool) -> usize {
    let mut metadata = workspace();
    let from = metadata.workspace_root.join(from).join("Cargo.toml");
    let to = metadata.workspace_root.join(to);
    let mut package = metadata.packages.swap_remove(0);
    let mut arrow = package.dependencies[0].clone();
    arrow.path = Some(to);
    arrow.kind = if dev { DependencyKind::Development } else { DependencyKind::Normal };
    (package.manifest_path, package.dependencies) = (from, vec![arrow]);
    metadata.packages = vec![package];
    arrows::dependencies_follow_the_arrows(&metadata).len()
}

#[test]
fn an_arrow_goes_down_only() {
    for (from, to, dev, is_allowed) in [
        ("crates/smp", "crates/engine", false, true),
        ("crates/engine", "crates/smp", false, false),
        ("crates/report", "crates/workload", false, false),
        ("crates/runtime", "crates/workload", false, false),
        ("crates/labs", "crates/hosts", false, true),
        ("crates/hosts", "crates/labs", false, false),
        ("crates/hosts", "crates/sim", false, false),
        // What only simulates is built without the runtime.
        ("crates/outcome", "crates/hosts", false, false),
        ("crates/sweep", "crates/runtime", false, false),
        ("python", "crates/runtime", false, false),
        ("python", "crates/hosts", false, false),
        // The hosts never know each other.
        ("crates/sim", "crates/runtime", false, false),
        ("crates/sim", "crates/runtime", true, false),
        ("crates/runtime", "crates/sim", true, false),
        // Tests may use their own layer and those below.
        ("crates/report", "crates/workload", true, true),
        ("crates/runtime", "crates/workload", true, true),
        ("crates/engine", "crates/smp", true, false),
        ("crates/workload", "crates/sim", true, false),
        // Nobody depends on a program.
        ("crates/sim", "crates/cli", true, false),
        ("xtask", "crates/cli", false, false),
        ("benches", "libraries", true, false),
    ] {
        let found = faults(from, to, dev);
        assert_eq!(found, usize::from(!is_allowed), "{from} -> {to}, for tests: {dev}");
    }
    assert_eq!(faults("crates/new", "crates/engine", false), 1, "a crate without a place");
}

#[test]
fn published_packages_are_complete() {
    none_of(&packages::published_packages_are_complete(&workspace()));
}

#[test]
fn a_published_package_that_lacks_something_is_found() {
    let faults = |spoil: &dyn Fn(&mut Package), name: &str| {
        let mut metadata = workspace();
        metadata.packages.retain(|package| package.name.as_str() == name);
        spoil(&mut metadata.packages[0]);
        packages::published_packages_are_complete(&metadata).len()
    };
    assert_eq!(faults(&|_| {}, "runyard-smp"), 0);
    assert_eq!(faults(&|package| package.description = None, "runyard-smp"), 1);
    assert_eq!(faults(&|package| package.keywords.clear(), "runyard-smp"), 1);
    assert_eq!(faults(&|package| package.dependencies[0].req = VersionReq::STAR, "runyard-smp"), 1);
    // A private package may lack everything, among it the files beside the manifest.
    assert_eq!(faults(&|_| {}, "xtask"), 0);
    assert!(faults(&|package| package.publish = None, "xtask") > 3);
}

#[test]
fn an_archive_is_read_as_a_checkout_is() {
    let walked = walked(root()).expect("the folders can be read");
    assert!(walked.contains(&"xtask/src/tidy/tree.rs".to_owned()));
    assert!(!walked.iter().any(|path| path.starts_with("target/")));
    let tree = Tree::read(root()).expect("the tree can be read");
    let missing = tree.files().iter().find(|file| !walked.contains(&file.path));
    assert_eq!(missing.map(|file| &file.path), None);
}

#[test]
fn a_circle_is_shown_with_its_shortest_way_around() {
    let one = "use crate::two::Two;\nuse crate::three::Three;";
    let files = [
        ("crates/a/src/one.rs", one),
        ("crates/a/src/three.rs", "use crate::two::Two;"),
        ("crates/a/src/two.rs", "use crate::one::One;"),
    ];
    let found = no_files_use_each_other_in_a_circle(&Tree::of(&files));
    let expected = "crates/a/src/one.rs:1: 3 in a circle (one.rs, three.rs, two.rs); the shortest: \
                    crates/a/src/one.rs:1 uses `Two` of two.rs; crates/a/src/two.rs:1 uses `One` of one.rs";
    assert_eq!(found[0].to_string(), expected);
}
