//! How what workers share ends: first no task comes any more, then all tasks end, then all threads.
//!
//! How long the caller waits for that: [`crate::runtime`].

use super::{KickNow, Shared};
use crate::crew::threads;
use crate::mutex::guards;
use crate::observe::teller::Teller;
use crate::os;
use crate::os::sync::Arc;
use crate::stall::Stalls;
use crate::worker::current::without_preemption;
use crate::worker::ring;
use std::thread;

impl Shared {
    /// Takes no more tasks, and ends every task at its next await. It may be said twice.
    pub(crate) fn close(&self) {
        self.registry.close();
        // Who waits for budget is to end too.
        without_preemption(|| {
            self.machine.lift_limits(os::thread::now(), &mut KickNow(self));
        });
        self.abort_all(false);
        self.let_in(usize::MAX);
    }

    /// Aborts the tasks that serve others, or those that do not.
    fn abort_all(&self, serves: bool) {
        self.registry.cells().filter(|cell| cell.serves == serves).for_each(|cell| cell.abort());
    }

    /// Ends every task at its next await, and waits until all have ended.
    fn end_tasks(&self) {
        self.registry.be_closer();
        // Also if it is closed already: a task that ended before there was a closer is not counted any more after this.
        self.close();
        while self.registry.nr_live_but_serving() > 0 {
            thread::park();
        }
        self.registry.close_for_servants();
        self.abort_all(true);
        while self.registry.nr_live() > 0 {
            thread::park();
        }
    }

    /// Ends the runtime, and waits until no task and no thread of it is left.
    pub(crate) fn shut_down(self: &Arc<Shared>) {
        guards::delist(self);
        self.observation.teller.iter().for_each(Teller::prepare_for_end);
        self.end_tasks();
        self.crew.end();
        self.driver.leave_to_thread();
        self.crew.keeper.look();
        self.crew.maker.call();
        self.observation.stalls.iter().for_each(Stalls::call);
        // First, as the maker starts workers.
        let servants = self.crew.take_servants();
        servants.into_iter().for_each(threads::join);
        for cpu in self.machine.config().topology.iter() {
            ring(self, cpu);
        }
        for worker in self.crew.threads.workers() {
            worker.baton.free();
        }
        self.crew.threads.join();
        self.driver.end();
        self.errands.end();
        self.observation.teller.iter().for_each(Teller::end);
        self.forget_boxes();
        self.serve_late();
    }

    /// What is kept of tasks that are over knows the runtime, and goes.
    pub(crate) fn forget_boxes(&self) {
        self.empty_bins();
        self.registry.forget_boxes();
    }
}
