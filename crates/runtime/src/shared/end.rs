//! The end of a runtime: first it accepts no more tasks, then all tasks end, then all threads.
//!
//! [`crate::runtime`] decides how long the caller waits for that.

use super::live::Part;
use super::{KickNow, Shared};
use crate::crew::threads;
use crate::mutex::guards;
use crate::observe::teller::Teller;
use crate::os;
use crate::os::sync::{Arc, Ordering, lock};
use crate::stall::Stalls;
use crate::worker::current::without_preemption;
use crate::worker::ring;
use std::thread;

impl Shared {
    /// Accepts no more tasks, and ends every task at its next await. It may be called twice.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Throttled tasks must end too.
        without_preemption(|| {
            self.machine.lift_limits(os::thread::now(), &mut KickNow(self));
        });
        self.abort_all(false);
        self.let_in(usize::MAX);
    }

    /// Aborts the tasks that serve others, or those that do not.
    fn abort_all(&self, serves: bool) {
        self.cells().filter(|cell| cell.serves == serves).for_each(|cell| cell.abort());
    }

    /// Ends every task at its next await, and waits until all have ended.
    fn end_tasks(&self) {
        let _ = self.closer.set(thread::current());
        // This closes the runtime even if it is closed already: a task that ended before there was a closer no longer
        // counts as live.
        self.close();
        while self.nr_live_but_serving() > 0 {
            thread::park();
        }
        self.serves_nobody.store(true, Ordering::SeqCst);
        self.abort_all(true);
        while self.nr_live() > 0 {
            thread::park();
        }
    }

    fn nr_live_but_serving(&self) -> usize {
        let in_part = |part: &Part| part.nr_live - part.nr_serving;
        without_preemption(|| self.parts.iter().map(|part| in_part(&lock(part))).sum())
    }

    /// Counts a task that is over, or was refused, after it has left its part.
    pub(super) fn one_less_live(&self) {
        if self.closed.load(Ordering::SeqCst)
            && let Some(closer) = self.closer.get()
        {
            closer.unpark();
        }
    }

    /// Ends the runtime, and waits until none of its tasks and threads is left.
    pub(crate) fn shut_down(self: &Arc<Shared>) {
        guards::delist(self);
        self.teller.iter().for_each(Teller::prepare_for_end);
        self.end_tasks();
        self.over.store(true, Ordering::Release);
        self.driver.leave_to_thread();
        self.keeper.look();
        self.maker.call();
        self.stalls.iter().for_each(Stalls::call);
        // Servants end first, because the maker starts workers.
        let servants = std::mem::take(&mut *lock(&self.servants));
        servants.into_iter().for_each(threads::join);
        for cpu in self.machine.config().topology.iter() {
            ring(self, cpu);
        }
        for worker in self.threads.workers() {
            worker.baton.free();
        }
        self.threads.join();
        self.driver.end();
        self.errands.end();
        self.teller.iter().for_each(Teller::end);
        self.forget_boxes();
        self.serve_late();
    }

    /// Frees the boxes of tasks that are over, because they refer to the runtime.
    pub(crate) fn forget_boxes(&self) {
        self.empty_bins();
        for part in &self.parts {
            drop(std::mem::take(&mut lock(part).boxes));
        }
    }
}
