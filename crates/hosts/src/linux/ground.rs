//! The parts of the machine that a run on kernel threads has: its CPUs, and the control groups and cookies that it
//! needs.

use super::cgroup::Tree;
use super::cookies::Cookies;
use super::cpuset::Sets;
use crate::sync::OnceLock;
use runyard_engine::cpu::CpuSet;
use runyard_outcome::stderr::say;
use runyard_workload::Scenario;

/// The parts of the machine that the tasks of a run have.
#[derive(Debug)]
pub struct Ground {
    /// The machine's numbers of the run's CPUs.
    pub(super) cpus: Vec<usize>,
    /// The groups of the run, if the kernel makes any.
    pub(super) groups: Option<Tree>,
    /// The cpusets of the run, if it has some and the kernel makes them.
    pub(super) sets: Option<Sets>,
    /// The cookies of the run, if it has some.
    pub(super) cookies: Option<Cookies>,
    /// Set when the warning was printed that the kernel takes no slices.
    said_no_slices: OnceLock<()>,
    /// Set when the warning was printed that the kernel takes no real-time tasks in groups.
    said_no_real_time: OnceLock<()>,
}

impl Ground {
    /// These CPUs, by the machine's numbers, without groups and cookies: all tasks have the process's own.
    #[must_use]
    pub fn new(cpus: Vec<usize>) -> Ground {
        Ground {
            cpus,
            groups: None,
            sets: None,
            cookies: None,
            said_no_slices: OnceLock::new(),
            said_no_real_time: OnceLock::new(),
        }
    }

    /// These CPUs, and the kernel's groups for a scenario that has some. Where the kernel makes none, a warning says
    /// so, and the run has none.
    #[must_use]
    pub fn with_groups(cpus: Vec<usize>, scenario: &Scenario) -> Ground {
        let groups = groups(scenario, cpus.len());
        let sets = sets(scenario, &cpus, groups.as_ref());
        Ground { groups, sets, ..Ground::new(cpus) }
    }

    /// Whether the kernel has not yet refused a real-time task in a group.
    pub(super) fn takes_real_time(&self) -> bool {
        self.said_no_real_time.get().is_none()
    }

    pub(super) fn say_that_real_time_is_refused(&self, why: &str) {
        self.said_no_real_time.get_or_init(|| {
            say(format_args!(
                "warning: the kernel takes no real-time tasks in task groups: on linux they are outside of all groups ({why})"
            ));
        });
    }

    pub(super) fn say_that_slices_are_refused(&self) {
        self.said_no_slices.get_or_init(|| {
            say("warning: the kernel takes no slices: linux runs as if none was asked for");
        });
    }
}

fn sets(scenario: &Scenario, cpus: &[usize], groups: Option<&Tree>) -> Option<Sets> {
    let sets = scenario.cpusets(CpuSet::first(cpus.len()));
    if sets.is_everything() {
        return None;
    }
    let refused = |why: &String| {
        say(format_args!(
            "warning: linux makes no cpusets, each task asks for its CPUs itself: {why}"
        ));
    };
    Sets::make(&scenario.groups, &sets, cpus, groups).inspect_err(refused).ok()
}

fn groups(scenario: &Scenario, cpus: usize) -> Option<Tree> {
    let wanted = (scenario.groups.len() > 1).then_some(&scenario.groups)?;
    if wanted.iter().any(|group| group.spec.limit.is_some_and(|limit| limit.is_per_cpu())) {
        say("warning: linux limits all CPUs together, `per_cpu` or not");
    }
    let refused = |why: &String| {
        say(format_args!("warning: linux makes no task groups, all tasks are in /: {why}"));
    };
    Tree::make(wanted, cpus).inspect_err(refused).ok()
}
