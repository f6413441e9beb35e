//! Values that the runtime's own code discards, until they are dropped where the program's allocator may be called.
//!
//! The last owner of a task's box or cell, of a waker, a group or a mutex frees it, and own code may be the last owner.
//! So own code puts such values into the bin of its CPU. A worker empties the bin step by step: at the beginning of
//! each poll, in the name of the next task, where it can be stopped. The maker empties all bins ten times a second. A
//! thread that creates a group does so too, for the places of groups that are gone.
//!
//! A thread that is not a worker is never stopped, and drops at once.

use crate::deferred::errands::Bell;
use crate::os::above::without_preemption;
use crate::os::harmless::harmless;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};
use crate::task::{Cell, Job};
use crate::worker::Worker;
use runyard_engine::cpu::CpuId;
use runyard_smp::machine::TaskOf;
use std::fmt;

/// The number of values that a poll drops at its beginning: more than the end of a poll discards.
const A_FEW: usize = 4;

/// A value of a room that uses this one.
pub(crate) trait Discarded: fmt::Debug + Send + Sync {
    /// Drops this reference, in foreign code.
    fn end(self: Arc<Self>) {}
}

/// A value of which the calling code may be the last owner.
#[derive(Debug)]
#[expect(dead_code, reason = "it is kept to be dropped")]
pub(crate) enum Rubbish {
    Task(TaskOf<Job>),
    Cell(Arc<Cell>),
    Other(Arc<dyn Discarded>),
    /// A bell that has rung.
    Bell(Bell),
}

impl Rubbish {
    /// Drops the value, in foreign code.
    fn end(self) {
        harmless(|| match self {
            Rubbish::Bell(bell) => bell.end(),
            Rubbish::Other(other) => other.end(),
            rubbish => drop(rubbish),
        });
    }
}

/// The discarded values of one CPU.
#[derive(Debug, Default)]
struct Bin {
    rubbish: Mutex<List<Rubbish>>,
    len: AtomicUsize,
}

impl Bin {
    fn put(&self, rubbish: Rubbish) {
        let mut all = lock(&self.rubbish);
        all.push(rubbish);
        self.len.store(all.len(), Ordering::Relaxed);
    }

    /// Takes the value that was discarded last. Called in own code.
    fn take(&self) -> Option<Rubbish> {
        let mut all = lock(&self.rubbish);
        let last = all.pop();
        self.len.store(all.len(), Ordering::Relaxed);
        last
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Drops at most this many of the present values, in foreign code.
    fn empty(&self, most: usize) {
        for _ in 0..most.min(self.len.load(Ordering::Relaxed)) {
            if let Some(rubbish) = without_preemption(|| self.take()) {
                rubbish.end();
            }
        }
    }
}

/// Drops a value, or leaves it in the bin if the calling code is the runtime's own.
pub(crate) fn discard(rubbish: Rubbish) {
    let mut left = Some(rubbish);
    crate::current::worker::worker(|worker: &Worker| {
        if worker.own.is_here() {
            let bin = &worker.shared.deferred.bins.0[worker.thread.cpu().index()];
            left.take().into_iter().for_each(|rubbish| bin.put(rubbish));
        }
    });
    left.into_iter().for_each(Rubbish::end);
}

/// The discarded values of each CPU, which foreign code will free.
#[derive(Debug)]
pub(crate) struct Bins(Box<[Bin]>);

impl Bins {
    pub(crate) fn new(cpus: usize) -> Bins {
        Bins((0..cpus).map(|_| Bin::default()).collect())
    }

    /// Drops a few values, in foreign code, at the beginning of a poll on `cpu`.
    #[inline]
    pub(crate) fn empty_a_little(&self, cpu: CpuId) {
        let bin = &self.0[cpu.index()];
        if !bin.is_empty() {
            bin.empty(A_FEW);
        }
    }

    /// Drops all discarded values, in foreign code.
    pub(crate) fn empty(&self) {
        self.0.iter().for_each(|bin| bin.empty(usize::MAX));
    }
}
