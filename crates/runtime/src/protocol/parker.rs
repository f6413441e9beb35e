//! A word on which one thread waits until another calls it.
//!
//! ```text
//!  waiting thread   CALLED -> QUIET: goes on;   QUIET -> PARKED: waits for the word
//!  caller           any -> CALLED; wakes the thread if the word was PARKED
//! ```
//!
//! Rejected: std's `thread::park`. Each thread has one token for it, which everybody uses: `mpsc::recv`,
//! `thread::scope` and any other executor on the thread consume the call that was meant for this wait, and this wait
//! consumes theirs.
//!
//! Invariants, modelled in loom: a call is never lost, and ends one wait.

use crate::os::sync::{AtomicU32, Ordering};
use crate::os::wait::{futex_wait, futex_wake};
#[cfg(not(loom))]
use crate::os::{self};
#[cfg(not(loom))]
use runyard_engine::time::Time;

/// The word. It belongs to one wait of one thread at a time.
#[derive(Debug)]
pub(crate) struct Parker(AtomicU32);

mod state {
    /// No call has come.
    pub(super) const QUIET: u32 = 0;
    /// The thread waits, or is about to wait.
    pub(super) const PARKED: u32 = 1;
    /// A call has come that no wait has consumed yet.
    pub(super) const CALLED: u32 = 2;
}

impl Parker {
    pub(crate) fn new() -> Parker {
        Parker(AtomicU32::new(state::QUIET))
    }

    /// Waits until a call comes, and consumes it with all that came before.
    pub(crate) fn park(&self) {
        while !self.change(state::CALLED, state::QUIET) {
            self.change(state::QUIET, state::PARKED);
            futex_wait(&self.0, state::PARKED);
        }
    }

    /// Waits as [`Parker::park`], and until `deadline` on the monotonic clock at the latest.
    #[cfg(not(loom))]
    pub(crate) fn park_until(&self, deadline: Option<Time>) {
        while !self.change(state::CALLED, state::QUIET) {
            if deadline.is_some_and(|deadline| os::thread::now() >= deadline) {
                // A call that comes from now on belongs to the next wait.
                self.change(state::PARKED, state::QUIET);
                return;
            }
            self.change(state::QUIET, state::PARKED);
            os::futex::wait(&self.0, state::PARKED, deadline);
        }
    }

    /// Ends the current wait, or else the next one.
    pub(crate) fn unpark(&self) {
        if self.0.swap(state::CALLED, Ordering::SeqCst) == state::PARKED {
            futex_wake(&self.0);
        }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::os::sync::{Arc, AtomicBool};
    use loom::thread;

    /// Seen failing: a wait that sets the word to PARKED whatever it was loses the call.
    #[test]
    fn whoever_is_called_goes_on_and_sees_why() {
        loom::model(|| {
            let (parker, ready) =
                (Arc::new(Parker::new()), Arc::new([(); 2].map(|()| AtomicBool::new(false))));
            let callers = [0, 1].map(|nth: usize| {
                let (parker, ready) = (parker.clone(), ready.clone());
                thread::spawn(move || {
                    ready[nth].store(true, Ordering::Release);
                    parker.unpark();
                })
            });
            while !ready.iter().all(|one| one.load(Ordering::Acquire)) {
                parker.park();
            }
            callers.into_iter().for_each(|caller| caller.join().unwrap());
        });
    }
}
