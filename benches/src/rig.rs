//! The parts from which operations are built: machines, tasks, and a clock that advances on demand.

use runyard_engine::attr::{Attr, GroupId, LatencyNice, Nice, Policy, RtPrio};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Features, Switched};
use runyard_engine::run_queue::Prev;
use runyard_engine::spec::GroupSpec;
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::Topology;
use runyard_smp::control::Control;
use runyard_smp::machine::{Effects, Machine, TaskOf, Work};
use std::sync::Arc;

/// The host's data of a task: none.
pub(crate) type Payload = Work<()>;

/// A host that ignores requests. The operations know the CPU that must switch, and a migrating task arrives at once.
pub(crate) struct Quiet;

impl Effects<Work<()>> for Quiet {
    fn kick(&mut self, _: CpuId) {}
}

/// Virtual time, and a source of pseudo-random numbers.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    state: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { now: Time::ZERO, state: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Clock {
    /// Advances the clock by `span`.
    pub(crate) fn after(&mut self, span: Nanos) -> Time {
        self.now = self.now + span;
        self.now
    }

    /// Returns a pseudo-random span below `bound`, which is not zero (xorshift).
    pub(crate) fn below(&mut self, bound: Nanos) -> Nanos {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Nanos(self.state % bound.0)
    }
}

/// Returns the default policy on `cpus` CPUs of one node, with two changes. Turns are those of a single CPU, which end
/// at each tick. Real-time tasks have no limit, because some operations run no other tasks.
pub(crate) fn config(cpus: u32, features: Features) -> Config {
    let flat = |cpus| Topology::flat(cpus).expect("the machines here are small enough");
    Config { topology: flat(cpus), features, rt_runtime: None, ..Config::new(flat(1)) }
}

/// Returns a machine without task groups.
pub(crate) fn machine(cpus: u32, features: Features) -> Machine<Work<()>> {
    machine_with(cpus, features, &[])
}

/// Returns a machine with these task groups beside the root.
pub(crate) fn machine_with(
    cpus: u32,
    features: Features,
    groups: &[GroupSpec],
) -> Machine<Work<()>> {
    let groups = [&[GroupSpec::ROOT], groups].concat();
    Machine::new(config(cpus, features), &groups).expect("the configuration is valid")
}

/// Returns all features, with the fair class in EEVDF order.
pub(crate) fn eevdf() -> Features {
    let mut features = Features::default();
    features.set(Switched { feature: Feature::Eevdf, on: true });
    features
}

/// Returns two groups below the root and one below each of those, and the lower group of `task`.
pub(crate) fn nested(task: u32) -> (GroupId, [GroupSpec; 4]) {
    let below = |parent| GroupSpec { parent: GroupId(parent), ..GroupSpec::ROOT };
    (GroupId(3 + task % 2), [below(0), below(0), below(1), below(2)])
}

/// Returns SCHED_FIFO with this priority.
pub(crate) fn fifo(prio: i64) -> Policy {
    Policy::Fifo(rt_prio(prio))
}

/// Returns SCHED_RR with this priority.
pub(crate) fn rr(prio: i64) -> Policy {
    Policy::RoundRobin(rt_prio(prio))
}

fn rt_prio(prio: i64) -> RtPrio {
    RtPrio::new(prio).expect("a priority is in 1..=99")
}

/// Returns the attributes of a task of `policy` on the CPUs `affinity`.
pub(crate) fn attr(policy: Policy, affinity: CpuSet) -> Attr {
    Attr { policy, ..Attr::normal(affinity) }
}

/// Returns a task that last ran on `cpu`.
pub(crate) fn task(id: impl Into<u64>, attr: Attr, cpu: CpuId) -> TaskOf<Work<()>> {
    let work = Work { control: Arc::new(Control::default()), work: () };
    let mut task = Task::new(TaskId(id.into()), attr, work);
    task.set_cpu(cpu);
    task
}

/// The tasks that are latency-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sensitive {
    Nobody,
    OneInEight,
    Everybody,
}

impl Sensitive {
    pub(crate) const ALL: [Sensitive; 3] =
        [Sensitive::Nobody, Sensitive::OneInEight, Sensitive::Everybody];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Sensitive::Nobody => "nobody",
            Sensitive::OneInEight => "one-in-8",
            Sensitive::Everybody => "everybody",
        }
    }

    pub(crate) fn latency_nice(self, task: u32) -> LatencyNice {
        let is_sensitive = match self {
            Sensitive::Nobody => false,
            Sensitive::OneInEight => task.is_multiple_of(8),
            Sensitive::Everybody => true,
        };
        if is_sensitive { LatencyNice::MIN } else { LatencyNice::ZERO }
    }
}

pub(crate) fn nice_0(_: u32) -> Policy {
    Policy::Normal(Nice::default())
}

/// A CPU of a machine with the task that it runs, which the host keeps.
#[derive(Debug)]
pub(crate) struct Seat {
    cpu: CpuId,
    curr: Option<(TaskId, Payload)>,
}

impl Seat {
    pub(crate) fn idle(cpu: CpuId) -> Seat {
        Seat { cpu, curr: None }
    }

    /// Switches to a task other than the running one.
    pub(crate) fn switch(&mut self, machine: &Machine<Work<()>>, now: Time) {
        let prev = self.curr.take().map_or(Prev::Idle, |(_, payload)| Prev::Preempted(payload));
        self.curr = machine.schedule(now, self.cpu, prev, &mut Quiet).next;
    }

    /// Switches to `task`.
    pub(crate) fn switch_to(&mut self, machine: &Machine<Work<()>>, now: Time, task: TaskId) {
        self.switch(machine, now);
        assert_eq!(self.runs(), Some(task), "CPU {} has something to switch to", self.cpu);
    }

    /// Blocks the running task and returns it.
    pub(crate) fn block(&mut self, machine: &Machine<Work<()>>, now: Time) -> TaskOf<Work<()>> {
        let (_, payload) = self.curr.take().expect("a task that blocks runs");
        let switch = machine.schedule(now, self.cpu, Prev::Blocked(payload), &mut Quiet);
        self.curr = switch.next;
        switch.released.expect("a task that blocked is released").0
    }

    pub(crate) fn runs(&self) -> Option<TaskId> {
        self.curr.as_ref().map(|&(task, _)| task)
    }
}
