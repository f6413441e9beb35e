//! The activity of the CPUs over the time of a run, in bounded memory.
//!
//! The run is divided into at most [`STEPS`] equal *steps*. Each step has the time of each kind of work, for the
//! machine, and the busy time of its first [`LANES`] CPUs. The accounts' closed stretches are added to the steps
//! ([`History::add`]), so the sums are those of the accounts. When the run outgrows the steps, they become twice as
//! wide and neighbours are added up. A width is a power of two, so a shift finds the step of an instant.
//!
//! Rejected: samples at fixed moments (they miss shorter spans); steps of a width chosen beforehand (a host may not
//! know the length of its run); floating sums (they depend on the order).
//!
//! Invariant: the steps of a kind sum to the accounts of all CPUs, to the nanosecond.

use crate::account::Doing;
use crate::lanes::LANES;
use runyard_engine::attr::Policy;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;
use std::ops::Range;

/// The largest number of steps: as many as a chart has room for. A run that is long enough has at least half as many.
pub(crate) const STEPS: usize = 200;

/// The width of the first steps: 2^10 ns, shorter than a context switch.
pub(crate) const FIRST_SHIFT: u32 = 10;

/// The number of kinds of work; in the rest of its time a CPU is idle.
pub(crate) const KINDS: usize = 4;

/// Nanoseconds of each kind: real-time, normal, idle policy, overhead.
pub(crate) type Step = [u64; KINDS];

/// Collects the history of one run.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The width of a step is 2^shift nanoseconds.
    shift: u32,
    machine: Vec<Step>,
    /// The busy time of each of the first CPUs.
    lanes: Vec<Vec<u64>>,
}

impl History {
    pub(crate) fn new() -> History {
        History { shift: FIRST_SHIFT, machine: Vec::with_capacity(STEPS), lanes: Vec::new() }
    }

    /// Adds a span in which a CPU did `doing`. The spans of all CPUs come in the order of their ends.
    #[inline]
    pub(crate) fn add(&mut self, cpu: CpuId, doing: Doing, span: Range<Time>) {
        let kind = match doing {
            Doing::Idle | Doing::Forced { .. } => return,
            Doing::Overhead => 3,
            Doing::Exec { policy, .. } => kind(policy),
        };
        if span.start >= span.end {
            return;
        }
        self.reach(span.end);
        let mut from = span.start.0;
        while from < span.end.0 {
            let step = from >> self.shift;
            let last = from | (self.step_ns() - 1);
            let to = span.end.0.min(last.saturating_add(1));
            self.count(cpu.index(), step as usize, (kind, to - from));
            from = to;
        }
    }

    /// Makes steps that reach until `end`.
    #[inline]
    pub(crate) fn reach(&mut self, end: Time) {
        while end.0.saturating_sub(1) >> self.shift >= STEPS as u64 {
            self.widen();
        }
    }

    #[inline]
    fn count(&mut self, cpu: usize, step: usize, (kind, ns): (usize, u64)) {
        if step >= self.machine.len() {
            self.machine.resize(step + 1, Step::default());
        }
        self.machine[step][kind] += ns;
        if cpu < LANES {
            if cpu >= self.lanes.len() {
                self.lanes.resize_with(cpu + 1, || vec![0; STEPS]);
            }
            self.lanes[cpu][step] += ns;
        }
    }

    /// Makes every step twice as wide.
    #[cold]
    fn widen(&mut self) {
        self.shift += 1;
        let steps = self.machine.len().div_ceil(2);
        for step in 0..steps {
            let second = self.machine.get(2 * step + 1).copied().unwrap_or_default();
            let first = self.machine[2 * step];
            self.machine[step] = std::array::from_fn(|kind| first[kind] + second[kind]);
        }
        self.machine.truncate(steps);
        for lane in &mut self.lanes {
            for step in 0..STEPS {
                let pair = lane.get(2 * step..).unwrap_or_default();
                lane[step] = pair.iter().take(2).sum();
            }
        }
    }

    /// The time of each kind of work of the machine.
    pub(crate) fn sums(&self) -> Step {
        let add = |sums: Step, step: &Step| std::array::from_fn(|kind| sums[kind] + step[kind]);
        self.machine.iter().fold(Step::default(), add)
    }

    /// The width of a step, in nanoseconds.
    pub(crate) fn step_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The machine's steps, from the beginning to the last step with any work.
    pub(crate) fn machine(&self) -> &[Step] {
        &self.machine
    }

    /// The busy time in the steps of one of the first CPUs; empty if it was never busy.
    pub(crate) fn lane(&self, cpu: usize) -> &[u64] {
        self.lanes.get(cpu).map_or(&[], Vec::as_slice)
    }
}

#[inline]
fn kind(policy: Policy) -> usize {
    match policy {
        Policy::Fifo(_) | Policy::RoundRobin(_) => 0,
        Policy::Normal(_) | Policy::Batch(_) => 1,
        Policy::Idle => 2,
    }
}
