//! Whether a run had the machine to itself. `runyard calibrate` checks the same for its own threads. This program
//! depends on nothing that users build, so it asks about a process that has ended.

use std::fs::read_to_string;
use std::time::Instant;

use crate::cpu_time::{self, TICK};

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
    let read = |path| read_to_string(path).unwrap_or_default();
    let counted = || Counted::read(&read("/proc/stat"), &read("/proc/self/stat"));
    let (began, then) = (Instant::now(), counted());
    let done = run();
    (done, Company::between(then, counted(), began.elapsed().as_secs_f64()))
}

impl Counted {
    fn read(stat: &str, own: &str) -> Counted {
        let number = |text: &str, at| text.split_whitespace().nth(at).and_then(|n| n.parse().ok());
        let ticks = |text: &str, at| number(text, at).unwrap_or(0.0) * TICK;
        // cpu user nice system idle iowait irq softirq steal
        Counted {
            cpus: stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1)
                as f64,
            idle: ticks(stat, 4) + ticks(stat, 5),
            stolen: ticks(stat, 8),
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
        let then = Counted::read("cpu  10 0 5 100 20 0 0 3 9\ncpu0 1\ncpu1 2\nintr 7\n", own);
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
