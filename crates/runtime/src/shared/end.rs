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

impl Shared {
    /// Accepts no more tasks, and ends every task at its next await. It may be called twice.
    pub(crate) fn close(&self) {
        self.registry.close();
        // Throttled tasks must end too.
        without_preemption(|| {
            let fx = &mut KickNow(&self.scheduler);
            self.scheduler.machine.lift_limits(os::thread::now(), fx);
        });
        self.registry.abort_all(false);
        self.scheduler.let_in(usize::MAX);
    }

    /// Ends the runtime, and waits until none of its tasks and threads is left.
    pub(crate) fn shut_down(self: &Arc<Shared>) {
        guards::delist(self.number);
        self.scheduler.teller.iter().for_each(Teller::prepare_for_end);
        self.close();
        self.registry.wait_for_the_last();
        self.scheduler.crew.end();
        self.scheduler.driver.leave_to_thread();
        self.scheduler.crew.keeper().look();
        self.scheduler.crew.maker().call();
        self.observation.stalls.iter().for_each(|stalls| stalls.call());
        // Servants end first, because the maker starts workers.
        let servants = self.scheduler.crew.take_servants();
        servants.into_iter().for_each(threads::join);
        self.scheduler.crew.say_if_deaf();
        for cpu in self.scheduler.machine.config().topology.iter() {
            ring(&self.scheduler, cpu);
        }
        for worker in self.scheduler.crew.threads().workers() {
            worker.thread.baton().free();
        }
        self.scheduler.crew.threads().join();
        self.scheduler.driver.end();
        self.deferred.errands.end();
        self.scheduler.teller.iter().for_each(Teller::end);
        self.deferred.bins.empty();
        self.registry.forget_boxes();
        self.serve_late();
        os::fork::end();
    }
}
