//! Visits of workers to the driver of the runtime's own. A worker that is out of work is in `block_on` of the tokio runtime
//! for one turn of the driver, with a wait or without. Then it runs what it woke there. One that is busy is there without a
//! wait.
//!
//! tokio polls the future of `block_on` only when that is woken. So the future is woken at the end of each wait, by tokio's
//! hook for that ([`Parks`]). On the thread that drives this takes no system call.
//!
//! The driver calls wakers, which are foreign code: they may take locks, compute, allocate and panic. A worker that is
//! called and does not come loses its slot ([`crate::protocol::handoff`]).

use super::Own;
use crate::os;
use crate::os::harmless::harmless;
use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::os::thread::Tid;
use runyard_engine::time::Time;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use tokio::runtime::{self, Handle};

/// How long a visit lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// One look at what is there.
    Now,
    /// Until something is there, or the bell is rung; until that instant at the latest.
    Woken(Option<Time>),
}

/// What whoever drives does as it begins to wait and ends to wait.
#[derive(Debug, Default)]
pub(super) struct Parks {
    /// Whether tasks that are none of the runtime's were seen in the driver's tokio runtime.
    escape: AtomicBool,
    said: AtomicBool,
    /// Who is woken at the end of the wait: the future of `block_on`.
    root: Mutex<Option<Waker>>,
}

impl Parks {
    pub(super) fn begin(&self) {
        _ = Handle::try_current().is_ok_and(|here| self.tasks_escape(&here));
    }

    pub(super) fn end(&self) {
        self.begin();
        let root = lock(&self.root).take();
        root.into_iter().for_each(Waker::wake);
    }

    /// The future of `block_on`, which is in a poll, is to be polled again after the next wait.
    pub(super) fn wake_after(&self, cx: &Context<'_>) {
        *lock(&self.root) = Some(cx.waker().clone());
    }

    /// The waker that is left holds what holds this.
    pub(super) fn forget(&self) {
        lock(&self.root).take();
    }

    /// Whether tasks that are none of the runtime's are there now.
    pub(super) fn tasks_escape(&self, tokio: &Handle) -> bool {
        let are_there = tokio.metrics().num_alive_tasks() > 0;
        if are_there && !self.escape.load(Ordering::Relaxed) {
            self.escape.store(true, Ordering::Relaxed);
        }
        are_there
    }

    /// Says once that there were some.
    pub(super) fn say(&self) {
        if self.escape.load(Ordering::Relaxed) && !self.said.swap(true, Ordering::Relaxed) {
            harmless(|| {
                eprintln!(
                    "runyard: something called tokio::spawn, perhaps a library: such tasks run on the thread of the \
                     tokio driver, without policies, groups, limits and preemption"
                );
            });
        }
    }
}

impl Own {
    /// Whether the worker on this thread drives from now on.
    pub(crate) fn take_wheel(&self, thread: Tid) -> bool {
        let takes = self.wheel.take();
        if takes {
            self.driving.store(thread.0, Ordering::Relaxed);
        }
        takes
    }

    /// As [`Own::take_wheel`], for a worker that is busy. If the thread drives, it leaves the wheel when it wakes next, and
    /// does not come back while workers visit the driver.
    pub(crate) fn take_wheel_in_passing(&self, thread: Tid) -> bool {
        let takes = self.take_wheel(thread);
        if !takes && !self.is_asked_for.load(Ordering::Relaxed) && self.wheel.is_thread_there() {
            self.is_asked_for.store(true, Ordering::Relaxed);
        }
        takes
    }

    /// The worker that drives has something else to do, or nothing that it could drive.
    pub(crate) fn leave_wheel(&self) {
        self.driving.store(0, Ordering::Relaxed);
        self.wheel.leave(os::thread::now().0);
    }

    /// Which turn of a worker at the wheel this is: another number for each.
    pub(crate) fn turn_at_wheel(&self) -> u64 {
        self.wheel.left_at()
    }

    /// The thread of the worker that drives, if one does.
    pub(crate) fn driving_thread(&self) -> Option<Tid> {
        let tid = self.driving.load(Ordering::Relaxed);
        (tid != 0).then_some(Tid(tid))
    }

    /// Whether a worker could drive.
    pub(crate) fn is_free(&self) -> bool {
        self.wheel.is_free()
    }

    /// Since when nobody drives, if that is so. May be called in a signal handler.
    pub(crate) fn free_since(&self) -> Option<Time> {
        self.wheel.free_since().map(Time)
    }

    /// One turn of the driver, on the thread of the worker that is at the wheel. `false` if no worker may drive any more:
    /// the thread is called.
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
                // The driver does not wait, as somebody was woken.
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
