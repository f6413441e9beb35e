//! The arrows between the crates.
//!
//! `engine <- smp <- {sim, runtime}`. `workload` and `report` know at most the engine. `sim` and `runtime` never know
//! each other. `macros` writes code for users of `runtime`, and knows no crate. `outcome` has the outcome of a run on
//! any host. `hosts` plays scenarios on the runtime, `labs` runs experiments on `sim` and `hosts`, `sweep` runs many
//! simulations and knows no runtime. The programs are on top, and no crate depends on a program. A crate that the table
//! does not name fails: its place is decided before its code is written.
//!
//! Dependencies of tests and examples do not bind users. They may go to any crate of the same layer or a lower one, but
//! not to a program, and not between the two hosts: a comparison of the hosts belongs on top.

use cargo_metadata::camino::Utf8Path;
use cargo_metadata::{DependencyKind, Metadata, Package};

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

/// The fault of a crate that the table does not name.
const NO_PLACE: &str = "no place in the table of xtask/src/tidy/arrows.rs: \
                        decide what it may know before it knows too much";

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
    // The laboratory counts traces with the reader of recordings.
    Place { folder: "xtask", layer: PROGRAM, uses: &[ENGINE, WORKLOAD] },
];

/// Every crate has a place, and depends only on the crates that its place allows.
#[must_use]
pub fn dependencies_follow_the_arrows(metadata: &Metadata) -> Vec<Violation> {
    let root = metadata.workspace_root.as_path();
    let folder =
        |path: &Utf8Path| path.strip_prefix(root).map(Utf8Path::to_string).unwrap_or_default();
    let faults = |package: &Package| {
        let manifest = folder(&package.manifest_path);
        let from = manifest.trim_end_matches("/Cargo.toml");
        let reasons: Vec<_> = match place(from) {
            None => vec![format!("{from} has {NO_PLACE}")],
            Some(from) => {
                let arrows = package.dependencies.iter();
                let arrows = arrows.filter_map(|to| Some((folder(to.path.as_ref()?), to.kind)));
                arrows.filter_map(|(to, kind)| fault(from, &to, kind)).collect()
            }
        };
        reasons.into_iter().map(|reason| Violation::new(&manifest, 1, reason)).collect::<Vec<_>>()
    };
    metadata.packages.iter().flat_map(faults).collect()
}

fn fault(from: &Place, to: &str, kind: DependencyKind) -> Option<String> {
    let folder = from.folder;
    if kind == DependencyKind::Development {
        let between_hosts = folder != to && APART.contains(&folder) && APART.contains(&to);
        let is_below = place(to).is_some_and(|to| to.layer < PROGRAM && to.layer <= from.layer);
        let rule = "tests use their own layer and the lower ones, no program, not the other host";
        return (between_hosts || !is_below)
            .then(|| format!("{folder} may not test with {to}: {rule}"));
    }
    let reason =
        || format!("{folder} may not know {to}: of this workspace it knows {:?}", from.uses);
    (!from.uses.contains(&to)).then(reason)
}

fn place(folder: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.folder == folder)
}
