//! How what workers share ends: first no task comes any more, then all tasks end, then all threads.
//!
//! How long the caller waits for that: [`crate::runtime`].

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
    /// Takes no more tasks, and ends every task at its next await. It may be said twice.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Who waits for budget is to end too.
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
        // Also if it is closed already: a task that ended before there was a closer is not counted any more after this.
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

    /// A task is over, or never was one. After it has left its part.
    pub(super) fn one_less_live(&self) {
        if self.closed.load(Ordering::SeqCst)
            && let Some(closer) = self.closer.get()
        {
            closer.unpark();
        }
    }

    /// Ends the runtime, and waits until no task and no thread of it is left.
    pub(crate) fn shut_down(self: &Arc<Shared>) {
        guards::delist(self);
        self.teller.iter().for_each(Teller::prepare_for_end);
        self.end_tasks();
        self.over.store(true, Ordering::Release);
        self.driver.leave_to_thread();
        self.keeper.look();
        self.maker.call();
        self.stalls.iter().for_each(Stalls::call);
        // First, as the maker starts workers.
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

    /// What is kept of tasks that are over knows the runtime, and goes.
    pub(crate) fn forget_boxes(&self) {
        self.empty_bins();
        for part in &self.parts {
            drop(std::mem::take(&mut lock(part).boxes));
        }
    }
}
