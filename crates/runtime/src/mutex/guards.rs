//! Guards of mutexes that outlive the task that locked them.
//!
//! A mutex knows who has it by the task's place among the live ones. A guard may be sent away, and its task
//! end: then the place is kept, with the number of such guards and nobody in it, so that no other task is
//! taken for the one that is over. The last of these guards gives it free.
//!
//! What a poll takes and gives back its worker counts, with plain adds; the task has the sum. Only who
//! gives back what another took comes to the place itself.

use crate::os::list::List;
use crate::os::sync::{Arc, AtomicI32, Mutex, Ordering, Weak, lock};
use crate::protocol::places::Places;
use crate::shared::Shared;
use crate::task::Cell;
use crate::worker::Worker;
use crate::worker::current::without_preemption;

/// The live tasks. Of one that is over, of which guards are left, the place is kept for as many.
impl Places<Arc<Cell>> {
    /// The task at a place is over. The caller owns its cell as well.
    pub(crate) fn end(&mut self, at: usize) {
        match self.get(at).map_or(0, |cell| cell.guards.count()) {
            0 => drop(self.remove(at)),
            left => drop(self.leave(at, left)),
        }
    }

    /// The task at a place takes so many guards more, or others give them back.
    pub(crate) fn count_guard(&mut self, at: usize, more: i32) {
        match self.get(at) {
            Some(cell) => cell.guards.add(more),
            None => self.count_for(at, more),
        }
    }
}

/// How many guards a task has: what its polls took, less what was given back. For a moment less than
/// none, while what its present poll took is not yet counted.
#[derive(Debug, Default)]
pub(crate) struct Guards(AtomicI32);

impl Guards {
    fn count(&self) -> i32 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn add(&self, more: i32) {
        self.0.fetch_add(more, Ordering::AcqRel);
    }
}

/// The runtimes of this process, by their numbers.
static RUNTIMES: Mutex<List<(u16, Weak<Shared>)>> = Mutex::new(List::new());

pub(crate) fn enlist(shared: &Arc<Shared>) {
    let known = (shared.number, Arc::downgrade(shared));
    without_preemption(|| lock(&RUNTIMES).push(known));
}

pub(crate) fn delist(shared: &Shared) {
    let gone = without_preemption(|| {
        let mut all = lock(&RUNTIMES);
        let at = all.iter().position(|&(number, _)| number == shared.number);
        at.map(|at| all.swap_remove(at))
    });
    drop(gone);
}

/// The task at a `place` of the runtime `number` takes a mutex, or somebody gives back what it took.
pub(crate) fn count(number: u16, place: u64, more: i32) {
    let here = |worker: &Worker| worker.count_guard((number, place), more);
    if crate::worker::current::worker(here) == Some(true) {
        return;
    }
    let shared = without_preemption(|| {
        let all = lock(&RUNTIMES);
        let shared = all.iter().find(|&&(of, _)| of == number).and_then(|(_, it)| it.upgrade());
        drop(all);
        shared.inspect(|shared| shared.count_guard_at(place, more))
    });
    // Where it may be dropped.
    drop(shared);
}
