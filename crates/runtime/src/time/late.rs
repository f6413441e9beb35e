//! Timers of a runtime that has ended.
//!
//! Code outside of tasks may wait for timers of a runtime that ends meanwhile, or has ended:
//! [`Handle::block_on`](crate::Handle::block_on), or another executor behind a guard of
//! [`Handle::enter`](crate::Handle::enter). No worker is left to serve them. So a separate thread does, from the first
//! such timer to the last.
//!
//! Rejected: to panic, as tokio does, because a handle never panics after the end. Also rejected: to end such waits at
//! once, because a loop that waits for the next second would spin. Also rejected: to wait in `block_on` itself, because
//! other executors wait for timers as well.
//!
//! ```text
//!  arming a timer       enters it, reads that the runtime is over, and asks for the thread
//!  the end of a runtime says that it is over, ends the workers, and asks for the thread
//!  the thread           finds no timer, with the lock of its state held, and ends
//! ```
//!
//! Invariant: a runtime is not over, or it has this thread, or no code waits for one of its timers. A timer that was
//! registered before the end is found by the end. Code that registers one later finds the runtime over.

use crate::os;
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, AtomicU32, Mutex, Ordering, lock};
use crate::shared::{Scheduler, Shared};
use crate::time::timers::Timers;
use std::thread;

/// The state of the thread that serves timers when no worker does.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Whether the thread exists.
    serves: Mutex<bool>,
    /// Futex on which the thread waits. It changes when the thread must check the timers.
    calls: AtomicU32,
}

impl Late {
    /// Runs the thread until there are no timers.
    fn serve_until_none(&self, timers: &Timers, scheduler: &Scheduler) {
        loop {
            let calls = self.calls.load(Ordering::SeqCst);
            let next = timers.serve_all(scheduler, os::thread::now());
            let mut serves = lock(&self.serves);
            *serves = timers.has_any();
            if !*serves {
                return;
            }
            drop(serves);
            os::futex::wait(&self.calls, calls, next);
        }
    }
}

impl Shared {
    /// Makes sure that timers are served if the runtime is over. Called in foreign code.
    pub(crate) fn serve_late(self: &Arc<Shared>) {
        if !self.scheduler.crew().is_over() || !self.timers.has_any() {
            return;
        }
        let starts = without_preemption(|| !std::mem::replace(&mut *lock(&self.late.serves), true));
        if !starts {
            self.late.calls.fetch_add(1, Ordering::SeqCst);
            return os::futex::wake(&self.late.calls);
        }
        let shared = self.clone();
        let thread = thread::Builder::new().name("runyard-late".to_owned());
        let serve = move || shared.late.serve_until_none(&shared.timers, &shared.scheduler);
        if let Err(error) = thread.spawn(serve) {
            without_preemption(|| *lock(&self.late.serves) = false);
            eprintln!(
                "runyard: timers of a runtime that has ended wait until the system starts a thread for \
                 them ({error})"
            );
        }
    }
}
