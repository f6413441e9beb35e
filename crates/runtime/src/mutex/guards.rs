//! Guards of mutexes that outlive the task that locked them.
//!
//! A mutex identifies its holder by the task's place among the live tasks. A guard may be sent to another task, and its
//! own task may end. The place is then reserved, with the number of such guards and without a task, so that no other
//! task is mistaken for the one that is over. The last of these guards frees the place.
//!
//! A worker counts the guards that its poll takes and releases, with plain adds, and the task has the sum. The place
//! itself is changed only when a guard is released that another task took.

use crate::os::above::without_preemption;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicI32, Mutex, Ordering, Weak, lock};
use crate::protocol::places::Places;
use crate::shared::Shared;
use crate::task::Cell;
use crate::worker::Worker;

/// The live tasks. The place of a task that is over is reserved while guards of it remain.
impl Places<Arc<Cell>> {
    /// Ends the task at a place. The caller owns its cell as well.
    pub(crate) fn end(&mut self, at: usize) {
        match self.get(at).map_or(0, |cell| cell.guards.count()) {
            0 => drop(self.remove(at)),
            left => drop(self.leave(at, left)),
        }
    }

    /// Adds `more` guards to the task at a place. The number is negative for guards that others release.
    pub(crate) fn count_guard(&mut self, at: usize, more: i32) {
        match self.get(at) {
            Some(cell) => cell.guards.add(more),
            None => self.count_for(at, more),
        }
    }
}

/// Number of guards that a task holds: those that its polls took, less those that were released. It is negative for a
/// moment if guards of the current poll are not yet counted.
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

/// Registers the runtime of this number, so that the mutexes find it.
pub(crate) fn enlist(runtime: u16, shared: Weak<Shared>) {
    let known = (runtime, shared);
    without_preemption(|| lock(&RUNTIMES).push(known));
}

/// Unregisters the runtime of this number. Its last task is over, or will be.
pub(crate) fn delist(runtime: u16) {
    let gone = without_preemption(|| {
        let mut all = lock(&RUNTIMES);
        let at = all.iter().position(|&(number, _)| number == runtime);
        at.map(|at| all.swap_remove(at))
    });
    drop(gone);
}

/// Counts `more` guards for the task at a `place` of the runtime `number`. The number is negative for a release.
pub(crate) fn count(number: u16, place: u64, more: i32) {
    let here =
        |worker: &Worker| worker.shared.number == number && worker.poll.count_guard(place, more);
    if crate::current::worker::worker(here) == Some(true) {
        return;
    }
    let shared = without_preemption(|| {
        let all = lock(&RUNTIMES);
        let shared = all.iter().find(|&&(of, _)| of == number).and_then(|(_, it)| it.upgrade());
        drop(all);
        shared.inspect(|shared| shared.registry.count_guard_at(place, more))
    });
    // The reference is dropped where a drop is allowed.
    drop(shared);
}
