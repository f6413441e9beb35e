//! Whether a run had the machine to itself. `runyard calibrate` checks the same for its own threads. This program
//! depends on nothing that users build, so it asks about a process that has ended.

use std::fs::read_to_string;
use std::time::Instant;

use crate::cpu_time;
use crate::stat::Stat;

/// The largest part of the CPUs that other processes may take in a run, and likewise the machine's host, in per cent.
const MOST: f64 = 1.0;

/// The kernel's counts, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    cpus: f64,
    idle: f64,
    stolen: f64,
    /// The time of this process and of its children.
    own: f64,
}

/// The use of the CPUs by others during a run, in per cent of all CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Company {
    /// Other processes; this includes the kernel's own work and idle loops.
    pub(super) others: f64,
    /// The host of a virtual machine.
    pub(super) stolen: f64,
}

impl Company {
    pub(super) fn is_quiet(self) -> bool {
        self.others <= MOST && self.stolen <= MOST
    }

    /// The kernel samples the running thread and measures idle time, so the share of others is the rest.
    fn between(then: Counted, now: Counted, wall: f64) -> Company {
        let all = wall * now.cpus;
        let stolen = now.stolen - then.stolen;
        let others = all - (now.idle - then.idle) - stolen - (now.own - then.own);
        Company { others: others.max(0.0) / all * 100.0, stolen: stolen / all * 100.0 }
    }
}

/// Calls `run`, and returns the use of the CPUs by others meanwhile.
pub(super) fn watched<T>(run: impl FnOnce() -> T) -> (T, Company) {
    let own = || read_to_string("/proc/self/stat").unwrap_or_default();
    let counted = || Counted::read(Stat::now(None), &own());
    let (began, then) = (Instant::now(), counted());
    let done = run();
    (done, Company::between(then, counted(), began.elapsed().as_secs_f64()))
}

impl Counted {
    fn read(stat: Stat, own: &str) -> Counted {
        Counted {
            cpus: stat.cpus as f64,
            idle: stat.idle_ns as f64 / 1e9,
            stolen: stat.stolen_ns as f64 / 1e9,
            own: cpu_time::of(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_what_nobody_is_known_to_have() {
        let own = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 300 40 9 9";
        let stat = Stat { cpus: 2, idle_ns: 1_200_000_000, stolen_ns: 30_000_000 };
        let then = Counted::read(stat, own);
        let said = |counted: Counted| {
            [counted.cpus, counted.idle, counted.stolen, counted.own].map(|n| (n * 100.0).round())
        };
        assert_eq!(said(then), [200.0, 120.0, 3.0, 460.0]);
        // One second of two CPUs: 1.2 s idle, 0.02 stolen, 0.74 for the run itself, which leaves 0.04.
        let now = Counted {
            cpus: 2.0,
            idle: then.idle + 1.2,
            stolen: then.stolen + 0.02,
            own: then.own + 0.74,
        };
        let company = Company::between(then, now, 1.0);
        assert!(
            (company.others - 2.0).abs() < 1e-9 && (company.stolen - 1.0).abs() < 1e-9,
            "{company:?}"
        );
        assert!(!company.is_quiet() && Company { others: 1.0, stolen: 1.0 }.is_quiet());
    }
}
