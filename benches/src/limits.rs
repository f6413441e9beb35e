//! The cost of hard limits: the addition to a switch, and the cost of each throttling.
//!
//! `limits/yield` and `limits/tick` are switches between tasks of task groups, as in [`crate::switch`]. They are
//! measured with `HARD_LIMITS` off, with it on and no limit, and with a limit on each group that it does not reach.
//! With one group, the time that the CPU drew stays with that group. With several, each turn gives the CPU to another
//! group.
//!
//! `limits/throttle` is a whole period of a group that uses up its runtime and is throttled until its refill, on an
//! otherwise idle CPU. It has at least two interrupts and two switches, plus the draws in between. Its growth with the
//! number of tasks in the group is the cost of throttling for each task.

use crate::rig::{Clock, Payload, Quiet, Seat, attr, machine_with, nice_0, task};
use crate::switch::{self, Cause};
use crate::{Operation, Runner};
use runyard_engine::attr::{Attr, GroupId};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Features};
use runyard_engine::limits::Limit;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::Nanos;
use runyard_engine::timer::Walk;
use runyard_smp::machine::Machine;

/// Number of CPUs of the machine, and the CPU of all tasks.
const CPUS: u32 = 16;
const HERE: CpuId = CpuId(0);

/// Number of tasks of a switch, and numbers of their groups.
const QUEUED: u32 = 64;
const GROUPS: [(&str, u32); 2] = [("one-group", 1), ("8-groups", 8)];

/// Numbers of tasks of a throttled group.
const THROTTLED: [u32; 3] = [1, 10, 100];

/// Period of a throttled group, which may use half of it.
const PERIOD: Nanos = Nanos::from_millis(2);

pub(crate) fn operations() -> Vec<Operation> {
    let all = Features::default();
    // A limit above the capacity of a CPU.
    let enough = limit(Nanos(2 * Limit::PERIOD.0), Limit::PERIOD);
    let forms = [
        ("off", all.without(Feature::HardLimits), None),
        ("unlimited", all, None),
        ("limited", all, Some(enough)),
    ];
    let causes = [("yield", Cause::Yield), ("tick", Cause::Tick(Nanos::from_millis(1)))];
    let mut operations = Vec::new();
    for (cause_word, cause) in causes {
        for (word, features, limit) in forms {
            for (groups_word, groups) in GROUPS {
                let name = format!("limits/{cause_word}/{word}/{groups_word}");
                let prepare = move || switches((features, limit), groups, cause);
                operations.push(Operation::new(name, prepare));
            }
        }
    }
    let throttled =
        |tasks| Operation::new(format!("limits/throttle/{tasks}"), move || throttle(tasks));
    operations.extend(THROTTLED.map(throttled));
    operations
}

fn limit(runtime: Nanos, period: Nanos) -> Limit {
    Limit::new(runtime, period, Nanos::ZERO, false).expect("the kernel takes it")
}

/// Returns a machine with `groups` equal groups.
fn machine(features: Features, groups: u32, limit: Option<Limit>) -> Machine<Payload> {
    let group = GroupSpec { limit, ..GroupSpec::ROOT };
    machine_with(CPUS, features, &vec![group; groups as usize])
}

/// Returns the attributes of a task in one of `groups` groups.
fn attr_of(id: u32, groups: u32) -> Attr {
    let group = GroupId(1 + id % groups);
    Attr { group, ..attr(nice_0(id), CpuSet::only(HERE)) }
}

fn switches((features, limit): (Features, Option<Limit>), groups: u32, cause: Cause) -> Runner {
    let attrs = (0..QUEUED).map(move |id| attr_of(id, groups));
    switch::in_machine(machine(features, groups, limit), attrs, (features, cause))
}

/// A CPU whose tasks all belong to one group.
struct World {
    machine: Machine<Payload>,
    seat: Seat,
    clock: Clock,
}

impl World {
    /// Advances to the next expiry on the CPU and handles it.
    fn step(&mut self) {
        let due = self.machine.sight().next_expiry(HERE).expect("a limit has its timers");
        self.clock.now = self.clock.now.max(due);
        let now = self.clock.now;
        while self.machine.expire(now, HERE, Walk::Busy, &mut Quiet).is_some() {}
        if self.machine.cpu(HERE).resched().is_due() {
            self.seat.switch(&self.machine, now);
        }
    }

    /// Advances until the CPU runs a task (`runs`) or is idle (not `runs`).
    fn until(&mut self, runs: bool) {
        while self.seat.runs().is_some() != runs {
            self.step();
        }
    }
}

fn throttle(tasks: u32) -> Runner {
    let half = limit(Nanos(PERIOD.0 / 2), PERIOD);
    let machine = machine(Features::default(), 1, Some(half));
    let mut world = World { machine, seat: Seat::idle(HERE), clock: Clock::default() };
    for id in 0..tasks {
        let task = task(id, attr_of(id, 1), HERE);
        world.machine.wake(world.clock.now, task, None, &mut Quiet);
    }
    world.seat.switch(&world.machine, world.clock.now);
    Box::new(move |times| {
        for _ in 0..times {
            let before = world.clock.now;
            world.until(false);
            world.until(true);
            let took = world.clock.now.since(before);
            assert!(took <= Nanos(2 * PERIOD.0), "throttled once in a period, not in {took}");
        }
    })
}
