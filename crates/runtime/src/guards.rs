//! Guards of mutexes that outlive the task that locked them.
//!
//! A mutex knows who has it by the task's place among the live ones. A guard may be sent away, and its task
//! end: then the place is kept, with the number of such guards and nobody in it, so that no other task is
//! taken for the one that is over. The last of these guards gives it free.
//!
//! What a poll takes and gives back its worker counts, with plain adds; the task has the sum. Only who
//! gives back what another took comes to the place itself.

use crate::list::List;
use crate::os;
use crate::primitives::{Arc, AtomicI32, Mutex, Ordering, Weak, lock};
use crate::shared::Shared;
use crate::task::{Cell, without_preemption};
use crate::worker::Worker;

/// Who is at a place among the live tasks.
#[derive(Debug)]
pub(crate) enum Live {
    Task(Arc<Cell>),
    /// One that is over, of which so many guards are left.
    Over(i32),
}

impl Live {
    pub(crate) fn cell(&self) -> Option<&Arc<Cell>> {
        match self {
            Live::Task(cell) => Some(cell),
            Live::Over(_) => None,
        }
    }

    /// The task is over. Whether the place is free.
    pub(crate) fn end(&mut self) -> bool {
        let left = self.cell().map_or(0, |cell| cell.guards.count());
        *self = Live::Over(left);
        left == 0
    }

    /// The task takes so many guards more, or others give them back. Whether the place is free.
    pub(crate) fn count_guard(&mut self, more: i32) -> bool {
        match self {
            Live::Task(cell) => {
                cell.guards.add(more);
                false
            }
            Live::Over(left) => {
                *left += more;
                *left == 0
            }
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
    if os::local::worker(here) == Some(true) {
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
