//! The assertions of the kernel's selftests about CPU time, on this machine's kernel and in the simulator: the second
//! table of `cargo xtask fidelity`.
//!
//! The assertions are those of `tools/testing/selftests/cgroup/test_cpu.c` that two CPUs can show, with its rule for
//! close values, and one of the same kind for SCHED_IDLE, which the kernel does not test. A case names a scenario of
//! `scenarios/fidelity` and its task groups or threads.

use std::collections::BTreeMap;

/// The CPU time of groups, by path, and of thread objects, by name, in per cent of one CPU.
pub(crate) type Usage = BTreeMap<String, f64>;

/// A case of a selftest.
pub(crate) struct Case {
    /// The scenario.
    pub(crate) scenario: &'static str,
    /// The kernel's name of the case.
    pub(crate) name: &'static str,
    /// The groups or threads whose CPU time is compared.
    pub(crate) of: &'static [&'static str],
    /// The assertion in words.
    pub(crate) asserts: &'static str,
    /// Whether the assertion holds for these figures, in the order of `of`.
    pub(crate) holds: fn(&[f64]) -> bool,
}

/// The cases, in the order of the table.
pub(crate) const CASES: [Case; 7] = [
    Case {
        scenario: "cgroup-weights",
        name: "weight_overprovisioned",
        of: &["/a", "/b", "/c"],
        asserts: "a < b < c; b - a and c - b as a (35 %)",
        holds: |of| {
            let steps = [of[1] - of[0], of[2] - of[1]];
            steps.iter().all(|&step| step > 0.0 && close(step, of[0], 35.0))
        },
    },
    Case {
        scenario: "cgroup-underprovisioned",
        name: "weight_underprovisioned, of two",
        of: &["/a", "/b"],
        asserts: "a as b (15 %)",
        holds: |of| close(of[0], of[1], 15.0),
    },
    Case {
        scenario: "cgroup-nested",
        name: "nested_weight_overprovisioned",
        of: &["/a/b", "/a/c/d", "/a/c/e"],
        asserts: "b as d + e (15 %)",
        holds: |of| close(of[0], of[1] + of[2], 15.0),
    },
    Case {
        scenario: "cgroup-max",
        name: "cpucg_max",
        of: &["/a"],
        asserts: "a as 1 ms of 100 (10 %)",
        holds: |of| close(of[0], 1.0, 10.0),
    },
    Case {
        scenario: "cgroup-max-nested",
        name: "cpucg_max_nested",
        of: &["/a/b"],
        asserts: "b as 1 ms of 100 (10 %)",
        holds: |of| close(of[0], 1.0, 10.0),
    },
    Case {
        scenario: "sched-idle-weights",
        name: "none: SCHED_IDLE, a policy",
        of: &["nice-0", "nice-19", "idle"],
        asserts: "nice-19 as nice-0 x 15 / 1024, idle as nice-19 x 3 / 15 (35 %)",
        holds: |of| {
            let [normal, least, idle] = [1024.0, 15.0, 3.0];
            close(of[1], of[0] * least / normal, 35.0) && close(of[2], of[1] * idle / least, 35.0)
        },
    },
    Case {
        scenario: "cgroup-idle",
        name: "none: cpu.idle, a group",
        of: &["/a", "/b"],
        asserts: "b as a x 3 / 1024 (35 %)",
        holds: |of| close(of[1], of[0] * 3.0 / 1024.0, 35.0),
    },
];

/// `values_close` of the selftests.
fn close(a: f64, b: f64, err: f64) -> bool {
    (a - b).abs() <= (a + b) / 100.0 * err
}

/// The head of the table.
pub(crate) const HEAD: &str = "\
| scenario | selftest | asserted | kernel, % of a CPU | simulated | |
|---|---|---|---|---|---|";

impl Case {
    /// A row of the table, from the measured usage. A group that the kernel did not make is missing there.
    pub(crate) fn row(&self, kernel: &Usage, simulated: &Usage) -> String {
        let [theirs, ours] = [kernel, simulated].map(|usage| self.figures(usage));
        let verdict = match (self.verdict(&theirs), self.verdict(&ours)) {
            (Some(true), Some(true)) => "holds on both".to_owned(),
            (Some(true), _) => "**not simulated**".to_owned(),
            (Some(false), Some(true)) => "**not on the kernel**".to_owned(),
            (Some(false), _) => "**on neither**".to_owned(),
            (None, _) => "no groups here".to_owned(),
        };
        let [theirs, ours] = [theirs, ours].map(|of| shown(&of));
        let Case { scenario, name, asserts, .. } = self;
        format!("| {scenario} | {name} | {asserts} | {theirs} | {ours} | {verdict} |")
    }

    fn figures(&self, usage: &Usage) -> Option<Vec<f64>> {
        self.of.iter().map(|name| usage.get(*name).copied()).collect()
    }

    fn verdict(&self, of: &Option<Vec<f64>>) -> Option<bool> {
        of.as_ref().map(|of| (self.holds)(of))
    }
}

fn shown(of: &Option<Vec<f64>>) -> String {
    let Some(of) = of else { return "-".to_owned() };
    of.iter().map(|usage| format!("{usage:.1}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(scenario: &str) -> &'static Case {
        CASES.iter().find(|case| case.scenario == scenario).expect("a case of that scenario")
    }

    #[test]
    fn each_case_is_about_a_scenario_that_is_there() {
        for case in &CASES {
            let file = format!("scenarios/fidelity/{}.json", case.scenario);
            let text = std::fs::read_to_string(crate::workspace::root().join(&file)).expect(&file);
            let names = |name: &&str| text.contains(&format!("\"{name}\":"));
            assert!(case.of.iter().all(names), "{file} has {:?}", case.of);
        }
    }

    #[test]
    fn close_is_what_the_selftests_take_for_it() {
        // The ratios that the rule allows.
        for (err, ratio) in [(1.0, 1.02), (10.0, 1.22), (15.0, 1.35), (35.0, 2.07)] {
            assert!(close(100.0, 100.0 * ratio, err) && close(100.0 * ratio, 100.0, err), "{err}");
            assert!(!close(100.0, 101.0 * ratio, err), "{err}");
        }
    }

    #[test]
    fn the_assertions_tell_weights_and_limits_from_none() {
        let weights = case("cgroup-weights").holds;
        assert!(weights(&[33.3, 66.7, 100.0]) && weights(&[30.0, 71.0, 99.0]));
        assert!(!weights(&[66.0, 67.0, 68.0]) && !weights(&[33.0, 100.0, 67.0]));
        let free = case("cgroup-underprovisioned").holds;
        assert!(free(&[99.0, 100.0]) && !free(&[50.0, 150.0]));
        let nested = case("cgroup-nested").holds;
        assert!(nested(&[100.0, 50.0, 50.0]) && !nested(&[66.7, 66.7, 66.7]));
        let idle = case("sched-idle-weights").holds;
        assert!(
            idle(&[98.3, 1.44, 0.29]) && !idle(&[98.3, 1.44, 0.0]) && !idle(&[60.0, 20.0, 20.0])
        );
    }

    #[test]
    fn a_row_says_on_which_of_the_two_it_holds() {
        let case = case("cgroup-underprovisioned");
        let usage = |a: f64| Usage::from([("/a".to_owned(), a), ("/b".to_owned(), 100.0)]);
        let verdict = |kernel: &Usage, simulated: &Usage| {
            let row = case.row(kernel, simulated);
            row.trim_end_matches(" |").rsplit("| ").next().map(str::to_owned)
        };
        let says =
            |kernel, simulated| verdict(&usage(kernel), &usage(simulated)).expect("a verdict");
        assert_eq!(says(100.0, 100.0), "holds on both");
        assert_eq!(says(100.0, 10.0), "**not simulated**");
        assert_eq!(says(10.0, 100.0), "**not on the kernel**");
        assert_eq!(says(10.0, 10.0), "**on neither**");
        assert_eq!(verdict(&Usage::new(), &usage(100.0)).as_deref(), Some("no groups here"));
        assert!(case.row(&usage(99.95), &usage(100.0)).contains("| 100.0, 100.0 | 100.0, 100.0 |"));
    }
}
