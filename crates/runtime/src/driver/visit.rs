//! Visits of workers to the driver that the runtime owns. A worker that is out of work runs `block_on` of the tokio
//! runtime for one turn of the driver, with or without a wait. Then it runs the task that it woke there. A busy worker
//! visits without a wait.
//!
//! tokio polls the future of `block_on` only when that is woken. So tokio's hook wakes the future at the end of each
//! wait ([`Parks`]). On the driving thread this needs no system call.
//!
//! The driver calls wakers, which are foreign code: they may take locks, compute, allocate and panic. A worker that is
//! called and does not return loses its slot ([`crate::protocol::handoff`]).

use super::Own;
use crate::os;
use crate::os::harmless::harmless;
use crate::os::sync::{Ordering, lock};
use crate::os::thread::Tid;
use runyard_engine::time::Time;
use std::future::poll_fn;
use std::task::Poll;
use tokio::runtime;

/// The length of a visit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// One turn without a wait.
    Now,
    /// A wait until the driver wakes a task, or the bell is rung; until that instant at the latest.
    Woken(Option<Time>),
}

impl Own {
    /// Returns whether the worker on this thread drives from now on.
    pub(crate) fn take_wheel(&self, thread: Tid) -> bool {
        let takes = self.wheel.take();
        if takes {
            self.driving.store(thread.0, Ordering::Relaxed);
        }
        takes
    }

    /// Takes the wheel as [`Own::take_wheel`], for a busy worker. If the driver's thread has it, that leaves the wheel
    /// when it wakes next, and does not take it again while workers visit the driver.
    pub(crate) fn take_wheel_in_passing(&self, thread: Tid) -> bool {
        let takes = self.take_wheel(thread);
        if !takes && !self.is_asked_for.load(Ordering::Relaxed) && self.wheel.is_thread_there() {
            self.is_asked_for.store(true, Ordering::Relaxed);
        }
        takes
    }

    /// Gives up the wheel. The worker that drives has other work, or cannot drive any more.
    pub(crate) fn leave_wheel(&self) {
        self.driving.store(0, Ordering::Relaxed);
        self.wheel.leave(os::thread::now().0);
    }

    /// Returns the number of the current turn of a worker at the wheel. Each turn has another number.
    pub(crate) fn turn_at_wheel(&self) -> u64 {
        self.wheel.left_at()
    }

    /// Returns the thread of the worker that drives, if one does.
    pub(crate) fn driving_thread(&self) -> Option<Tid> {
        let tid = self.driving.load(Ordering::Relaxed);
        (tid != 0).then_some(Tid(tid))
    }

    /// Returns whether a worker could take the wheel.
    pub(crate) fn is_free(&self) -> bool {
        self.wheel.is_free()
    }

    /// Returns the time since which no thread drives, if none does. May be called in a signal handler.
    pub(crate) fn free_since(&self) -> Option<Time> {
        self.wheel.free_since().map(Time)
    }

    /// Runs one turn of the driver, on the thread of the worker that has the wheel. Returns `false` if no worker may
    /// drive any more; the driver's thread is then called.
    pub(crate) fn visit(&self, until: Until) -> bool {
        let mut goes_on = None;
        let runtime = lock(&self.runtime);
        harmless(|| goes_on = runtime.as_ref().map(|tokio| self.turn(tokio, until)));
        drop(runtime);
        if goes_on.is_none() {
            self.is_broken.store(true, Ordering::SeqCst);
        }
        let goes_on = goes_on == Some(true);
        if !goes_on {
            self.leave_to_thread();
        }
        goes_on
    }

    fn turn(&self, tokio: &runtime::Runtime, until: Until) -> bool {
        let Some(bell) = &self.bell else { return false };
        let mut has_been_there = false;
        let visit = poll_fn(|cx| {
            if self.parks.tasks_escape(&self.handle) {
                return Poll::Ready(false);
            }
            if has_been_there {
                return Poll::Ready(true);
            }
            has_been_there = true;
            match until {
                // The driver does not wait if a waker was woken.
                Until::Now => cx.waker().wake_by_ref(),
                Until::Woken(_) if bell.listen(cx) => self.parks.wake_after(cx),
                Until::Woken(_) => return Poll::Ready(false),
            }
            Poll::Pending
        });
        match until {
            Until::Now => tokio.block_on(visit),
            Until::Woken(at) => bell.wait_until(at, || tokio.block_on(visit)),
        }
    }
}
