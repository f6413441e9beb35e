//! The end of a runtime: first it accepts no more tasks, then all tasks end, then all threads.
//!
//! [`crate::runtime`] decides how long the caller waits for that.

use super::Shared;
use crate::crew::kick::KickNow;
use crate::crew::kick::ring;
use crate::mutex::guards;
use crate::observe::teller::Teller;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::sync::Arc;
use crate::os::threads;
use crate::stall::Stalls;

impl Shared {
    /// Accepts no more tasks, and ends every task at its next await. It may be called twice.
    pub(crate) fn close(&self) {
        self.registry.close();
        // Throttled tasks must end too.
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
        self.close();
        while self.registry.nr_live_but_serving() > 0 {
            self.registry.wait_for_an_end();
        }
        self.registry.close_for_servants();
        self.abort_all(true);
        while self.registry.nr_live() > 0 {
            self.registry.wait_for_an_end();
        }
    }

    /// Ends the runtime, and waits until none of its tasks and threads is left.
    pub(crate) fn shut_down(self: &Arc<Shared>) {
        guards::delist(self);
        self.observation.teller.iter().for_each(Teller::prepare_for_end);
        self.end_tasks();
        self.crew.end();
        self.driver.leave_to_thread();
        self.crew.keeper.look();
        self.crew.maker.call();
        self.observation.stalls.iter().for_each(Stalls::call);
        // Servants end first, because the maker starts workers.
        let servants = self.crew.take_servants();
        servants.into_iter().for_each(threads::join);
        self.say_if_deaf();
        for cpu in self.machine.config().topology.iter() {
            ring(self, cpu);
        }
        for worker in self.crew.threads.workers() {
            worker.baton.free();
        }
        self.crew.threads.join();
        self.driver.end();
        self.deferred.errands.end();
        self.observation.teller.iter().for_each(Teller::end);
        self.forget_boxes();
        self.serve_late();
        os::fork::end();
    }

    /// Frees the boxes of tasks that are over, because they refer to the runtime.
    pub(crate) fn forget_boxes(&self) {
        self.empty_bins();
        self.registry.forget_boxes();
    }
}
