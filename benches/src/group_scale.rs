//! The cost of many limited task groups on a large machine: 1,024 simulated CPUs, with the same number of tasks for any
//! number of groups.
//!
//! Ten periodic tasks for each CPU are distributed over the groups. Each group has no limit, a limit above the demand
//! of its tasks, or a limit of half that demand. Without groups all tasks are in the root.

use crate::Operation;
use crate::throughput::{RUN_US, Simulation, periodic, with};
use clap::ValueEnum;
use runyard_engine::attr::GroupId;
use runyard_engine::features::Switched;
use runyard_engine::limits::Limit;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::Nanos;
use runyard_workload::Scenario;
use runyard_workload::scenario::TaskGroup;
use rustix::time::{ClockId, clock_gettime};

/// Numbers of CPUs of the machine and of its tasks.
const CPUS: u32 = 1_024;
const TASKS: u32 = 10 * CPUS;

/// The measured numbers of groups.
pub const SIZES: [u32; 4] = [0, 100, 1_000, 10_000];

/// Period of a task in us. A task needs a time of [`RUN_US`] in each period, so a CPU is busy for five eighths of the
/// time.
const PERIOD_US: u64 = 2_000;

/// The limit of each group relative to its demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Room {
    /// No limit
    Unlimited,
    /// One and a half times the demand
    Plenty,
    /// Half of the demand: each group is throttled in each period
    Half,
}

pub(crate) fn operations() -> Vec<Operation> {
    let operation = |(room, word, groups): (Room, &str, u32)| {
        Operation::new(format!("groups/{word}/{groups}"), move || {
            let mut simulation = Simulation::of(scenario(groups, room));
            Box::new(move |wakeups| {
                let _ = simulation.run(wakeups);
            })
        })
    };
    // `Room::Half` is left out: throttling shows only after more wake-ups than callgrind can simulate.
    let rooms = [(Room::Unlimited, "unlimited"), (Room::Plenty, "plenty")];
    let all = rooms.into_iter().flat_map(|(room, word)| SIZES.map(|groups| (room, word, groups)));
    // Without groups there is no limit.
    all.filter(|&(room, _, groups)| groups > 0 || room == Room::Unlimited).map(operation).collect()
}

/// Returns the nanoseconds of CPU time for each of `wakeups` wake-ups with `groups` groups, after the same number of
/// unmeasured wake-ups.
#[must_use]
pub fn measure(groups: u32, room: Room, features: &[Switched], wakeups: u64) -> f64 {
    let mut simulation = Simulation::of(with(scenario(groups, room), features));
    let _ = simulation.run(wakeups);
    let begun = cpu_time();
    let ran = simulation.run(wakeups);
    (cpu_time() - begun).0 as f64 / ran.wakeups as f64
}

/// Returns the CPU time of this process.
fn cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the peak resident memory of this process in KiB.
///
/// # Panics
///
/// Panics if the kernel does not report it.
#[must_use]
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells of us");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok());
    peak.expect("the kernel knows the peak")
}

fn scenario(groups: u32, room: Room) -> Scenario {
    let mut scenario = periodic(CPUS as usize, TASKS as usize, PERIOD_US);
    if groups > 0 {
        deal_out(&mut scenario, groups, room);
    }
    scenario
}

/// Distributes the tasks over the groups in round-robin order.
fn deal_out(scenario: &mut Scenario, groups: u32, room: Room) {
    let periodic = scenario.tasks.remove(0);
    for nth in 0..groups {
        let mut task = periodic.clone();
        task.name = format!("periodic-{nth}");
        task.instances = (TASKS - nth).div_ceil(groups);
        task.properties.group = Some(GroupId(1 + nth));
        let spec = GroupSpec { limit: limit(task.instances, room), ..GroupSpec::ROOT };
        scenario.groups.push(TaskGroup { path: format!("/{nth}"), spec, cpuset: None });
        scenario.tasks.push(task);
    }
}

/// Returns the limit of a group of `tasks` tasks.
fn limit(tasks: u32, room: Room) -> Option<Limit> {
    let wants = RUN_US[1] * u64::from(tasks) * (Limit::PERIOD.0 / 1_000) / PERIOD_US;
    let runtime = match room {
        Room::Unlimited => return None,
        Room::Plenty => wants * 3 / 2,
        Room::Half => wants / 2,
    };
    let runtime = Nanos::from_micros(runtime);
    let limit = Limit::new(runtime, Limit::PERIOD, Nanos::ZERO, false);
    Some(limit.expect("the kernel takes it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tasks_are_dealt_out_whatever_the_number_of_groups() {
        for groups in SIZES {
            let scenario = scenario(groups, Room::Half);
            assert_eq!(scenario.instances().count(), TASKS as usize);
            assert_eq!(scenario.groups.len(), 1 + groups as usize);
        }
    }
}
