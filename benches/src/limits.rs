//! What hard limits cost: on top of a switch, and each time a group is throttled.
//!
//! `limits/yield` and `limits/tick` are switches between tasks of task groups, as of [`crate::switch`]:
//! with `HARD_LIMITS` off, with it on where no group has a limit, and where all have one that they do not
//! reach. In one group all of the time that was drawn stays with it; of several, another one has the CPU
//! after each turn.
//!
//! `limits/throttle` is a whole period of a group that uses its runtime and is throttled until it has
//! some again, while nobody else wants the CPU: two interrupts and two switches at least, whatever is
//! drawn in between. What it costs more with more tasks in the group is what throttling pays for each.

use crate::rig::{Clock, Payload, Quiet, Seat, attr, machine_with, nice_0, task};
use crate::switch::{self, Cause};
use crate::{Operation, Runner};
use runyard_engine::attr::{Attr, GroupId};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Features};
use runyard_engine::limits::Limit;
use runyard_engine::run_queue::Resched;
use runyard_engine::spec::GroupSpec;
use runyard_engine::time::Nanos;
use runyard_engine::timer::Walk;
use runyard_smp::machine::Machine;

/// The CPUs of the machine, and the one on which everything happens.
const CPUS: u32 = 16;
const HERE: CpuId = CpuId(0);

/// Tasks of a switch, and of how many groups they are.
const QUEUED: u32 = 64;
const GROUPS: [(&str, u32); 2] = [("one-group", 1), ("8-groups", 8)];

/// Tasks of a group that is throttled.
const THROTTLED: [u32; 3] = [1, 10, 100];

/// The period of a group that is throttled, of which it may use the half.
const PERIOD: Nanos = Nanos::from_millis(2);

pub(crate) fn operations() -> Vec<Operation> {
    let all = Features::default();
    // More than a CPU has.
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

/// A machine with so many alike groups.
fn machine(features: Features, groups: u32, limit: Option<Limit>) -> Machine<Payload> {
    let group = GroupSpec { limit, ..GroupSpec::ROOT };
    machine_with(CPUS, features, &vec![group; groups as usize])
}

/// Of one of `groups` task groups.
fn attr_of(id: u32, groups: u32) -> Attr {
    let group = GroupId(1 + id % groups);
    Attr { group, ..attr(nice_0(id), CpuSet::only(HERE)) }
}

fn switches((features, limit): (Features, Option<Limit>), groups: u32, cause: Cause) -> Runner {
    let attrs = (0..QUEUED).map(move |id| attr_of(id, groups));
    switch::in_machine(machine(features, groups, limit), attrs, (features, cause))
}

/// A CPU whose only tasks are those of one group.
struct World {
    machine: Machine<Payload>,
    seat: Seat,
    clock: Clock,
}

impl World {
    /// Whatever comes next on the CPU.
    fn step(&mut self) {
        let due = self.machine.next_expiry(HERE).expect("a limit has its timers");
        self.clock.now = self.clock.now.max(due);
        let now = self.clock.now;
        while self.machine.expire(now, HERE, Walk::Busy, &mut Quiet).is_some() {}
        if self.machine.resched(HERE) == Resched::Yes {
            self.seat.switch(&self.machine, now);
        }
    }

    /// Until somebody runs, or nobody does.
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
