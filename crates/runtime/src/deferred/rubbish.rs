//! What the runtime's own code lets go of, until it is dropped where the program's allocator may be called.
//!
//! The last owner of a task's box or cell, of a waker, a group or a mutex frees it, and own code may be the last owner.
//! So own code puts such things into the bin of its CPU. A worker empties the bin bit by bit: at the beginning of each
//! poll, in the name of the task that is next, where it can be stopped. The maker empties all bins ten times a
//! second. A thread that creates a group does so too, for the places of groups that are gone.
//!
//! A thread that is no worker is never stopped, and drops at once.

use crate::deferred::errands::Bell;
use crate::group::Membership;
use crate::mutex::lending::Core;
use crate::os::harmless::harmless;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};
use crate::shared::Shared;
use crate::task::{Cell, Job};
use crate::worker::Worker;
use crate::worker::current::without_preemption;
use runyard_engine::cpu::CpuId;
use runyard_smp::machine::TaskOf;

/// How many things a poll drops at its beginning: more than the end of a poll leaves.
const A_FEW: usize = 4;

/// Something of which the calling code may be the last owner.
#[derive(Debug)]
#[expect(dead_code, reason = "it is kept to be dropped")]
pub(crate) enum Rubbish {
    Task(TaskOf<Job>),
    Cell(Arc<Cell>),
    Groups(Membership),
    Core(Arc<Core>),
    /// It has rung.
    Bell(Bell),
}

impl Rubbish {
    /// In foreign code.
    fn end(self) {
        harmless(|| match self {
            Rubbish::Bell(bell) => bell.end(),
            Rubbish::Groups(groups) => groups.end(),
            rubbish => drop(rubbish),
        });
    }
}

/// The rubbish of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Bin {
    rubbish: Mutex<List<Rubbish>>,
    len: AtomicUsize,
}

impl Bin {
    fn put(&self, rubbish: Rubbish) {
        let mut all = lock(&self.rubbish);
        all.push(rubbish);
        self.len.store(all.len(), Ordering::Relaxed);
    }

    /// Takes the last thing of those that were put here. In own code.
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

    /// Drops so many things at the most of those that are here now, in foreign code.
    fn empty(&self, most: usize) {
        for _ in 0..most.min(self.len.load(Ordering::Relaxed)) {
            if let Some(rubbish) = without_preemption(|| self.take()) {
                rubbish.end();
            }
        }
    }
}

/// Drops something, or leaves it to be dropped if the calling code is the runtime's own.
pub(crate) fn discard(rubbish: Rubbish) {
    let mut left = Some(rubbish);
    crate::worker::current::worker(|worker: &Worker| {
        if worker.is_in_own_code() {
            let bin = &worker.shared.bins[worker.cpu().index()];
            left.take().into_iter().for_each(|rubbish| bin.put(rubbish));
        }
    });
    left.into_iter().for_each(Rubbish::end);
}

impl Shared {
    /// Drops a few things, in foreign code, at the beginning of a poll on `cpu`.
    #[inline]
    pub(crate) fn empty_bin_a_little(&self, cpu: CpuId) {
        let bin = &self.bins[cpu.index()];
        if !bin.is_empty() {
            bin.empty(A_FEW);
        }
    }

    /// Drops whatever was discarded, in foreign code.
    pub(crate) fn empty_bins(&self) {
        self.bins.iter().for_each(|bin| bin.empty(usize::MAX));
    }
}
