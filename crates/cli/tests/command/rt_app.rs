//! The workloads of Debian's package `rt-app`, which users of rt-app have.

use crate::rig::call;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder into which the package installs the workloads.
const EXAMPLES: &str = "/usr/share/doc/rt-app/examples";

/// Returns all `.json` files below `folder`, except those in `merge`, which are fragments.
fn workloads(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("merge") {
            found.extend(workloads(&path));
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_workload_of_the_package_runs_and_every_invariant_holds() {
    let workloads = workloads(Path::new(EXAMPLES));
    if workloads.is_empty() {
        // `eprintln!` would show the line for failed tests only.
        let mut err = std::io::stderr();
        writeln!(err, "skipped: no {EXAMPLES}; `apt-get install rt-app` brings it").unwrap();
        return;
    }
    assert!(workloads.len() >= 18, "the package has 18: {workloads:?}");
    for path in workloads {
        let path = path.to_str().unwrap();
        let said = call(&["sim", path, "--check", "--duration", "2s", "--deadline-as-fifo"]);
        assert_eq!(said.code, Some(0), "{path}: {}", said.err);
        assert!(said.out.ends_with("Invariants: checked, all held.\n"), "{path}: {}", said.out);
        assert!(said.err.lines().all(|line| line.starts_with("warning: ")), "{path}: {}", said.err);
        // Some workloads resume tasks by names that no task has.
        let left = ["is ever suspended", "in vain", "found it not suspended", "deadlock"];
        let left = |line: &&str| left.iter().any(|what| line.contains(what));
        let others = said.err.lines().filter(|line| !left(line)).count();
        assert!(others <= 1, "{path}: {}", said.err);
    }
}
