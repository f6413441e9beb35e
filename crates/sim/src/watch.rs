//! What a simulation is asked to verify, and what it keeps for that. `touched` has when it verifies what.

use runyard_engine::attr::GroupId;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::run_queue::Importance;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_smp::check::Sums;
use std::collections::BTreeSet;

/// What is verified, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing but what costs nothing.
    #[default]
    No,
    /// After every event what it touched and the counters of the whole machine; everything after so many
    /// events ([`Check::EVENTS`]), and at the end.
    Touched,
    /// Everything after every event.
    Full,
}

impl Check {
    /// After how many events everything is verified, where most of them only have verified what they touched.
    pub const EVENTS: u32 = 10_000;
}

/// A fair task that waits, and where it may run.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) task: TaskId,
    /// Where it waits.
    pub(crate) on: CpuId,
    /// It waits for tasks of its kind.
    pub(crate) normal: bool,
    pub(crate) cpus: CpuSet,
}

/// Which of those that wait elsewhere a CPU has to have, after a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Takes {
    /// It is busy, or something that it does not know of is on its way there.
    #[default]
    Nobody,
    /// It has SCHED_IDLE tasks alone.
    Normal,
    /// It idles.
    Anybody,
}

impl Takes {
    /// Whether `cpu`, which takes that, has to have `waiter`.
    pub(crate) fn wants(self, cpu: CpuId, waiter: &Waiter) -> bool {
        let kind = self == Takes::Anybody || self == Takes::Normal && waiter.normal;
        kind && waiter.cpus.contains(cpu)
    }
}

/// A CPU idles, and somebody waits elsewhere that may run there, this task the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waste {
    pub(crate) task: TaskId,
    /// Where that waits.
    pub(crate) on: CpuId,
    pub(crate) since: Time,
}

/// What was seen of the machine, where it is verified by parts.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) is_on: bool,
    /// CPUs that the event touched.
    pub(crate) touched: Vec<CpuId>,
    /// By CPU, whether it is among them.
    pub(crate) is_touched: Vec<bool>,
    /// It touched an object that tasks share.
    pub(crate) objects: bool,
    /// Events since everything was verified.
    pub(crate) events: u32,
    pub(crate) sums: Sums,
    pub(crate) seen: Vec<Seen>,
    /// Tasks that are in run queues, and on their way.
    pub(crate) housed: usize,
    /// CPUs where a fair task waits.
    pub(crate) waiting: BTreeSet<CpuId>,
    /// CPUs that take a task which waits elsewhere.
    pub(crate) takers: BTreeSet<CpuId>,
    /// CPUs where a real-time task waits.
    pub(crate) waiting_rt: BTreeSet<CpuId>,
    /// By CPU, for the check that it does not idle while somebody waits for long.
    pub(crate) waste: Vec<Option<Waste>>,
    /// Groups that were throttled though there was budget when they were looked at last.
    pub(crate) stranded: BTreeSet<GroupId>,
}

/// A CPU when it was touched last.
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

    /// Something of `cpu` changes.
    #[inline]
    pub(crate) fn note(&mut self, cpu: CpuId) {
        if self.is_on && !std::mem::replace(&mut self.is_touched[cpu.index()], true) {
            self.touched.push(cpu);
        }
    }

    /// Something of an object changes.
    pub(crate) fn note_objects(&mut self) {
        self.objects = true;
    }
}
