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

use crate::crew::kick::KickNow;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, AtomicU32, Mutex, Ordering, lock};
use crate::shared::Shared;
use runyard_engine::run_queue::Expired;
use runyard_engine::time::Time;
use runyard_engine::timer::Walk;
use std::thread;

/// The state of the thread that serves timers when no worker does.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Whether the thread exists.
    serves: Mutex<bool>,
    /// Futex on which the thread waits. It changes when the thread must check the timers.
    calls: AtomicU32,
}

impl Shared {
    /// Makes sure that timers are served if the runtime is over. Called in foreign code.
    pub(crate) fn serve_late(self: &Arc<Shared>) {
        if !self.is_over() || !self.has_timers() {
            return;
        }
        let starts =
            without_preemption(|| !std::mem::replace(&mut *lock(&self.timers.late.serves), true));
        if !starts {
            self.timers.late.calls.fetch_add(1, Ordering::SeqCst);
            return os::futex::wake(&self.timers.late.calls);
        }
        let shared = self.clone();
        let thread = thread::Builder::new().name("runyard-late".to_owned());
        if let Err(error) = thread.spawn(move || shared.serve_until_none()) {
            without_preemption(|| *lock(&self.timers.late.serves) = false);
            eprintln!(
                "runyard: timers of a runtime that has ended wait until the system starts a thread for \
                 them ({error})"
            );
        }
    }

    /// Runs the thread until there are no timers.
    fn serve_until_none(&self) {
        loop {
            let calls = self.timers.late.calls.load(Ordering::SeqCst);
            let next = self.serve_all(os::thread::now());
            let mut serves = lock(&self.timers.late.serves);
            *serves = self.has_timers();
            if !*serves {
                return;
            }
            drop(serves);
            os::futex::wait(&self.timers.late.calls, calls, next);
        }
    }

    /// Serves the due timers of all CPUs. Returns the time at which the next one is due.
    fn serve_all(&self, now: Time) -> Option<Time> {
        let cpus = || self.machine.config().topology.iter();
        for cpu in cpus() {
            while let Some(expired) = self.machine.expire(now, cpu, Walk::Idle, &mut KickNow(self))
            {
                if let Expired::Timer(expiry) = expired {
                    self.fire(now, cpu, expiry);
                }
            }
        }
        cpus().filter_map(|cpu| self.machine.sight().next_expiry(cpu)).min()
    }
}
