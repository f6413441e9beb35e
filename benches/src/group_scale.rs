//! What many limited task groups cost a large machine: 1,024 simulated CPUs, and as many tasks whatever the
//! number of groups.
//!
//! Ten periodic tasks for each CPU are dealt out to the groups. Each group has a limit, with room for all
//! that its tasks want or for half of it, or none; without groups all of them are in the root.

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

/// The machine, and its tasks.
const CPUS: u32 = 1_024;
const TASKS: u32 = 10 * CPUS;

/// Numbers of groups.
pub const SIZES: [u32; 4] = [0, 100, 1_000, 10_000];

/// A task wants a time of [`RUN_US`] in each period, so that a CPU is busy for five eighths of the time;
/// us.
const PERIOD_US: u64 = 2_000;

/// What the groups may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Room {
    /// They have no limit.
    Unlimited,
    /// Half as much again as they want.
    Plenty,
    /// Half of what they want: each is throttled in each period.
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
    // That half is not enough is seen after more wake-ups than callgrind can be asked for.
    let rooms = [(Room::Unlimited, "unlimited"), (Room::Plenty, "plenty")];
    let all = rooms.into_iter().flat_map(|(room, word)| SIZES.map(|groups| (room, word, groups)));
    // Without groups nobody has a limit.
    all.filter(|&(room, _, groups)| groups > 0 || room == Room::Unlimited).map(operation).collect()
}

/// Nanoseconds of CPU time for each of so many wake-ups on a machine with so many groups, after the first
/// as many.
#[must_use]
pub fn measure(groups: u32, room: Room, features: &[Switched], wakeups: u64) -> f64 {
    let mut simulation = Simulation::of(with(scenario(groups, room), features));
    let _ = simulation.run(wakeups);
    let begun = cpu_time();
    let ran = simulation.run(wakeups);
    (cpu_time() - begun).0 as f64 / ran.wakeups as f64
}

/// Of this process.
fn cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The most memory that this process had at once, in KiB.
///
/// # Panics
/// If the kernel does not say.
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

/// Each group has the next task, in turn.
fn deal_out(scenario: &mut Scenario, groups: u32, room: Room) {
    let periodic = scenario.tasks.remove(0);
    for nth in 0..groups {
        let mut task = periodic.clone();
        task.name = format!("periodic-{nth}");
        task.instances = (TASKS - nth).div_ceil(groups);
        task.properties.group = Some(GroupId(1 + nth));
        let spec = GroupSpec { limit: limit(task.instances, room), ..GroupSpec::ROOT };
        scenario.groups.push(TaskGroup { path: format!("/{nth}"), spec });
        scenario.tasks.push(task);
    }
}

/// Of a group with so many tasks.
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
