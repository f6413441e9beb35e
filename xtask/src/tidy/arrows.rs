//! The arrows between the crates.
//!
//! `engine <- smp <- {sim, runtime}`. `workload` and `report` know at most the engine. `sim` and `runtime` never know
//! each other. `macros` writes code for users of `runtime`, and knows no crate. `outcome` has the outcome of
//! a run on any host. `hosts` plays scenarios on the runtime, `labs` runs experiments on `sim` and `hosts`, `sweep` runs many
//! simulations and knows no runtime. The programs are on top, and no crate depends on a program. A crate that the table does not name fails: its place is decided before its code is written.
//!
//! Dependencies of tests and examples do not bind users. They may go to any crate of the same layer or a lower one, but
//! not to a program, and not between the two hosts: a comparison of the hosts belongs on top.

use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind, Metadata, Package as Declared};

use super::Violation;

/// A crate's place.
struct Place {
    /// Its folder.
    folder: &'static str,
    /// Its distance from the engine; [`PROGRAM`] for crates on top.
    layer: u8,
    /// The folders of the crates that it may be built on.
    uses: &'static [&'static str],
}

/// The layer of crates that no crate depends on.
const PROGRAM: u8 = 5;

const ENGINE: &str = "crates/engine";
const SMP: &str = "crates/smp";
const WORKLOAD: &str = "crates/workload";
const REPORT: &str = "crates/report";
const SIM: &str = "crates/sim";
const MACROS: &str = "crates/macros";
const RUNTIME: &str = "crates/runtime";
const OUTCOME: &str = "crates/outcome";
const HOSTS: &str = "crates/hosts";
const LABS: &str = "crates/labs";
const SWEEP: &str = "crates/sweep";
const LIBRARIES: &[&str] =
    &[ENGINE, SMP, WORKLOAD, REPORT, SIM, MACROS, RUNTIME, OUTCOME, HOSTS, LABS, SWEEP];

/// Simulator and runtime, which never know each other.
const APART: &[&str] = &[SIM, RUNTIME];

const PLACES: &[Place] = &[
    Place { folder: ENGINE, layer: 0, uses: &[] },
    Place { folder: MACROS, layer: 0, uses: &[] },
    Place { folder: SMP, layer: 1, uses: &[ENGINE] },
    Place { folder: WORKLOAD, layer: 1, uses: &[ENGINE] },
    Place { folder: REPORT, layer: 1, uses: &[ENGINE] },
    Place { folder: SIM, layer: 2, uses: &[ENGINE, SMP, WORKLOAD] },
    Place { folder: RUNTIME, layer: 2, uses: &[ENGINE, SMP, MACROS] },
    Place { folder: OUTCOME, layer: 2, uses: &[ENGINE, WORKLOAD, REPORT] },
    Place { folder: HOSTS, layer: 3, uses: &[ENGINE, SMP, WORKLOAD, REPORT, OUTCOME, RUNTIME] },
    Place { folder: SWEEP, layer: 3, uses: &[ENGINE, SMP, WORKLOAD, REPORT, OUTCOME, SIM] },
    Place {
        folder: LABS,
        layer: 4,
        uses: &[ENGINE, SMP, WORKLOAD, REPORT, OUTCOME, SIM, RUNTIME, HOSTS],
    },
    Place { folder: "crates/cli", layer: PROGRAM, uses: LIBRARIES },
    Place { folder: "benches", layer: PROGRAM, uses: LIBRARIES },
    Place { folder: "examples", layer: PROGRAM, uses: LIBRARIES },
    Place { folder: "libraries", layer: PROGRAM, uses: LIBRARIES },
    Place { folder: "python", layer: PROGRAM, uses: &[ENGINE, WORKLOAD, REPORT, OUTCOME, SWEEP] },
    Place { folder: "xtask", layer: PROGRAM, uses: &[] },
];

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its folder, relative to the root.
    pub folder: String,
    /// Its manifest.
    pub manifest: String,
    /// Its dependencies in the workspace.
    pub arrows: Vec<Arrow>,
}

/// A dependency on another package of the workspace.
#[derive(Clone, Debug)]
pub struct Arrow {
    /// The name in the manifest.
    pub name: String,
    /// The folder of the other package.
    pub to: String,
    /// Whether only tests, benches and examples need it.
    pub dev: bool,
}

/// The packages of the workspace at `root`.
#[must_use]
pub fn packages(metadata: &Metadata, root: &Path) -> Vec<Package> {
    metadata.packages.iter().map(|declared| package(declared, root)).collect()
}

fn package(declared: &Declared, root: &Path) -> Package {
    let relative = |path: &Path| {
        path.strip_prefix(root).map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let arrow = |dependency: &Dependency| {
        Some(Arrow {
            name: dependency.rename.as_ref().unwrap_or(&dependency.name).clone(),
            to: relative(dependency.path.as_ref()?.as_std_path()),
            dev: dependency.kind == DependencyKind::Development,
        })
    };
    let manifest = declared.manifest_path.as_std_path();
    Package {
        folder: relative(manifest.parent().unwrap_or(root)),
        manifest: std::fs::read_to_string(manifest).unwrap_or_default(),
        arrows: declared.dependencies.iter().filter_map(arrow).collect(),
    }
}

/// Every crate has a place, and depends only on the crates that its place allows.
#[must_use]
pub fn dependencies_follow_the_arrows(packages: &[Package]) -> Vec<Violation> {
    packages.iter().flat_map(faults).collect()
}

fn faults(package: &Package) -> Vec<Violation> {
    let Some(from) = place(&package.folder) else {
        let reason = "this crate has no place in the table of xtask/src/tidy/arrows.rs: decide \
                      what it may know before it knows too much";
        return vec![violation(package, "name", reason)];
    };
    package.arrows.iter().filter_map(|arrow| fault(package, from, arrow)).collect()
}

fn fault(package: &Package, from: &Place, arrow: &Arrow) -> Option<Violation> {
    let Package { folder, .. } = package;
    let Arrow { to, .. } = arrow;
    let (allowed, reason) = if arrow.dev {
        let allowed = place(to).is_some_and(|to| may_test_with(from, to));
        let rule = "tests use their own layer and the lower ones, no program, not the other host";
        (allowed, format!("{folder} may not test with {to}: {rule}"))
    } else {
        let uses = if from.uses.is_empty() { "nothing".to_owned() } else { from.uses.join(", ") };
        let allowed = from.uses.contains(&to.as_str());
        (allowed, format!("{folder} may not know {to}: of this workspace it knows {uses}"))
    };
    (!allowed).then(|| violation(package, &arrow.name, &reason))
}

fn may_test_with(from: &Place, to: &Place) -> bool {
    let between_hosts =
        from.folder != to.folder && APART.contains(&from.folder) && APART.contains(&to.folder);
    to.layer < PROGRAM && to.layer <= from.layer && !between_hosts
}

fn place(folder: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.folder == folder)
}

/// A violation at the first line of the manifest with `key`.
fn violation(package: &Package, key: &str, reason: &str) -> Violation {
    let line = package.manifest.lines().position(|line| line.trim_start().starts_with(key));
    Violation {
        path: format!("{}/Cargo.toml", package.folder),
        line: line.map_or(1, |index| index + 1),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_of(folder: &str, to: &str, dev: bool) -> Vec<String> {
        let arrow = Arrow { name: "other".to_owned(), to: to.to_owned(), dev };
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nother.workspace = true\n";
        let folder = folder.to_owned();
        let package = Package { folder, manifest: manifest.to_owned(), arrows: vec![arrow] };
        let found = dependencies_follow_the_arrows(&[package]);
        found.iter().map(|found| format!("{}:{}", found.path, found.line)).collect()
    }

    #[test]
    fn an_arrow_goes_down_only() {
        assert!(places_of(SMP, ENGINE, false).is_empty());
        assert_eq!(places_of(ENGINE, SMP, false), ["crates/engine/Cargo.toml:4"]);
        assert_eq!(places_of(REPORT, WORKLOAD, false), ["crates/report/Cargo.toml:4"]);
        assert_eq!(places_of(RUNTIME, WORKLOAD, false), ["crates/runtime/Cargo.toml:4"]);
        assert!(places_of(LABS, HOSTS, false).is_empty());
        assert_eq!(places_of(HOSTS, LABS, false), ["crates/hosts/Cargo.toml:4"]);
        assert_eq!(places_of(HOSTS, SIM, false), ["crates/hosts/Cargo.toml:4"]);
    }

    #[test]
    fn what_only_simulates_is_built_without_the_runtime() {
        for upper in [RUNTIME, HOSTS] {
            assert_eq!(places_of(OUTCOME, upper, false), ["crates/outcome/Cargo.toml:4"]);
            assert_eq!(places_of(SWEEP, upper, false), ["crates/sweep/Cargo.toml:4"]);
            assert_eq!(places_of("python", upper, false), ["python/Cargo.toml:4"]);
        }
    }

    #[test]
    fn the_hosts_never_know_each_other() {
        for dev in [false, true] {
            assert_eq!(places_of(SIM, RUNTIME, dev), ["crates/sim/Cargo.toml:4"]);
            assert_eq!(places_of(RUNTIME, SIM, dev), ["crates/runtime/Cargo.toml:4"]);
        }
    }

    #[test]
    fn nobody_depends_on_a_program() {
        for program in PLACES.iter().filter(|place| place.layer == PROGRAM) {
            for folder in [SIM, "crates/cli", "xtask", "benches"] {
                assert_eq!(places_of(folder, program.folder, false).len(), 1);
                assert_eq!(places_of(folder, program.folder, true).len(), 1);
            }
        }
    }

    #[test]
    fn tests_may_use_their_own_layer_and_below() {
        assert!(places_of(REPORT, WORKLOAD, true).is_empty());
        assert!(places_of(RUNTIME, WORKLOAD, true).is_empty());
        assert_eq!(places_of(ENGINE, SMP, true).len(), 1);
        assert_eq!(places_of(WORKLOAD, SIM, true).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(places_of("crates/new", ENGINE, false), ["crates/new/Cargo.toml:2"]);
    }
}
