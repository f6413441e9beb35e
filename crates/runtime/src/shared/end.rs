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
use crate::single::Single;
use crate::task::Cell;

/// The most tasks that are named.
const NAMED: usize = 5;

impl Shared {
    /// Accepts no more tasks, and ends every task at its next await. A blocking function runs to its end. It may be called
    /// twice.
    pub(crate) fn close(&self) {
        self.registry.close();
        // Throttled tasks must end too.
        without_preemption(|| {
            let fx = &mut KickNow(&self.scheduler);
            self.scheduler.machine.lift_limits(os::thread::now(), fx);
        });
        self.registry.abort_all(|cell| !cell.serves() && !cell.is_function());
        self.scheduler.let_in(usize::MAX);
    }

    /// Says on standard error for which tasks the end waits, unless its caller does not.
    fn say_who_is_left(&self) {
        if self.registry.is_cut_off() {
            return;
        }
        let left: Vec<_> = self.registry.cells().filter(|cell| !cell.serves()).collect();
        let named = |cell: &Arc<Cell>| match cell.name() {
            Some(name) => format!("`{name}` (task {})", cell.id.0),
            None => format!("task {}", cell.id.0),
        };
        let mut names: Vec<_> = left.iter().take(NAMED).map(named).collect();
        names.extend((left.len() > NAMED).then(|| format!("{} more", left.len() - NAMED)));
        eprintln!(
            "runyard: the end of a runtime has waited for a second for {}. A poll that does not end, and a blocking \
             function, keep the runtime; `shutdown_timeout` leaves them behind",
            names.join(", ")
        );
    }

    /// Ends the runtime, and waits until none of its tasks and threads is left.
    pub(crate) fn shut_down(self: &Arc<Shared>) {
        guards::delist(self.number);
        self.scheduler.teller.iter().for_each(Teller::prepare_for_end);
        self.close();
        self.registry.wait_for_the_last(
            || self.say_who_is_left(),
            |deadline, are_over| match self.scheduler.single() {
                Some(single) => single.help(self, deadline, are_over),
                None => self.registry.wait_for_call(deadline),
            },
        );
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
        self.scheduler.single().into_iter().for_each(Single::end);
        self.scheduler.driver.end();
        self.deferred.errands.end();
        self.scheduler.teller.iter().for_each(Teller::end);
        self.deferred.bins.empty();
        self.registry.forget_boxes();
        self.serve_late();
        os::fork::end();
    }
}
