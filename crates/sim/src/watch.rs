//! The verification options of a simulation, and the state that they need. `touched` decides when each invariant is
//! verified.

use runyard_engine::attr::GroupId;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::run_queue::Importance;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::check::Sums;
use std::collections::BTreeSet;

/// The invariants to verify, and the times to do so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Only the checks without cost.
    #[default]
    No,
    /// After every event, the parts that it touched and the counters of the whole machine. Everything is verified each
    /// [`Check::EVENTS`] events and at the end.
    Touched,
    /// Everything after every event.
    Full,
}

impl Check {
    /// The number of events between two full verifications with [`Check::Touched`].
    pub const EVENTS: u32 = 10_000;
}

/// A waiting fair task, and the CPUs where it may run.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) task: TaskId,
    /// The CPU where it waits.
    pub(crate) on: CpuId,
    /// Whether it is a normal task. Otherwise it is a SCHED_IDLE task.
    pub(crate) normal: bool,
    pub(crate) cpus: CpuSet,
}

/// The kind of tasks waiting elsewhere that a CPU should have after a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Takes {
    /// No task: the CPU is busy, or a task or message that it does not know of is on its way to it.
    #[default]
    Nobody,
    /// A normal task: the CPU has only SCHED_IDLE tasks.
    Normal,
    /// Any task: the CPU idles.
    Anybody,
}

impl Takes {
    /// Returns whether `cpu`, which takes tasks of this kind, should have `waiter`.
    pub(crate) fn wants(self, cpu: CpuId, waiter: &Waiter) -> bool {
        let kind = self == Takes::Anybody || self == Takes::Normal && waiter.normal;
        kind && waiter.cpus.contains(cpu)
    }
}

/// The state of a CPU that idles while tasks wait elsewhere that may run there. The task is the last one found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waste {
    pub(crate) task: TaskId,
    /// The CPU where the task waits.
    pub(crate) on: CpuId,
    pub(crate) since: Time,
}

/// The observed state of a machine that is verified in parts.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) is_on: bool,
    /// The CPUs that the event touched.
    pub(crate) touched: Vec<CpuId>,
    /// For each CPU, whether the event touched it.
    pub(crate) is_touched: Vec<bool>,
    /// The event touched an object that tasks share.
    pub(crate) objects: bool,
    /// The number of events since everything was verified.
    pub(crate) events: u32,
    pub(crate) sums: Sums,
    pub(crate) seen: Vec<Seen>,
    /// The number of tasks in run queues and on their way.
    pub(crate) housed: usize,
    /// The CPUs where a fair task waits.
    pub(crate) waiting: BTreeSet<CpuId>,
    /// The CPUs that take a task waiting elsewhere.
    pub(crate) takers: BTreeSet<CpuId>,
    /// The CPUs where a real-time task waits.
    pub(crate) waiting_rt: BTreeSet<CpuId>,
    /// For each CPU, the record for the check that it does not idle for long while a task waits.
    pub(crate) waste: Vec<Option<Waste>>,
    /// The groups that were throttled with budget left at the last check.
    pub(crate) stranded: BTreeSet<GroupId>,
    /// The longest work of a task in the kernel.
    pub(crate) longest_stay: Nanos,
}

/// A CPU at its last touch.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) housed: usize,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) takes: Takes,
    pub(crate) runs: Option<Importance>,
}

impl Watch {
    pub(crate) fn new(check: Check, cpus: usize) -> Watch {
        let waste = vec![None; cpus];
        let mut watch = Watch { is_on: check == Check::Touched, waste, ..Watch::default() };
        if watch.is_on {
            watch.is_touched = vec![false; cpus];
            watch.seen.resize_with(cpus, Seen::default);
            (0..cpus).for_each(|at| watch.note(CpuId::at(at)));
        }
        watch
    }

    /// Notes a change of `cpu`.
    #[inline]
    pub(crate) fn note(&mut self, cpu: CpuId) {
        if self.is_on && !std::mem::replace(&mut self.is_touched[cpu.index()], true) {
            self.touched.push(cpu);
        }
    }

    /// Notes a change of an object.
    pub(crate) fn note_objects(&mut self) {
        self.objects = true;
    }
}
