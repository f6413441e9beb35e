//! The driver's own thread. It drives while all workers are busy, and whenever no worker may.

use super::Own;
use crate::current::runtime::Entered;
use crate::os;
use crate::os::harmless::harmless;
use crate::os::refusal::Refusal;
use crate::os::sync::{Arc, Ordering, lock};
use crate::os::thread::SHORTEST_SLICE;
use crate::shared::Shared;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;

/// Starts the thread of the runtime's own driver, if there is one.
///
/// # Errors
/// If the system refuses the thread.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), Refusal> {
    if let Some(own) = shared.scheduler.driver.own() {
        *lock(&own.thread) = Some(shared.start_servant("runyard-driver", run)?);
    }
    Ok(())
}

fn run(shared: &Arc<Shared>) {
    let Some(own) = shared.scheduler.driver.own() else { return };
    // Tasks of `tokio::spawn` run here, and they may spawn tasks.
    let _context = Entered::enter(shared);
    // One visit of the driver takes some microseconds.
    os::thread::set_slice(Some(SHORTEST_SLICE));
    if own.bell.is_none() {
        own.leave_to_thread();
    }
    // The thread drives until the first worker has started: hooks of threads may wait for tokio before that.
    own.wheel.call();
    let mut calls = 0;
    loop {
        own.wheel.wait(calls);
        calls = own.wheel.calls();
        if !own.wheel.take_as_thread() {
            // A worker drives. It calls again if it wants this thread to take the wheel.
            continue;
        }
        if own.drive(shared).is_break() {
            // The thread keeps the wheel, so no other thread drives from now on.
            return own.end();
        }
        own.is_asked_for.store(false, Ordering::Relaxed);
        own.wheel.leave_as_thread(os::thread::now().0);
        shared.scheduler.wake_driver();
    }
}

impl Own {
    /// Drives until a worker that could drive is asleep, or the driver ends.
    fn drive(&self, shared: &Shared) -> ControlFlow<()> {
        let mut after = None;
        let runtime = lock(&self.runtime);
        if let Some(tokio) = runtime.as_ref().filter(|_| !self.is_broken()) {
            harmless(|| after = Some(tokio.block_on(self.until_left(shared))));
        }
        drop(runtime);
        if after.is_none() {
            // A foreign waker panicked in the driver, whose state may be inconsistent.
            harmless(|| {
                eprintln!(
                    "runyard: a waker panicked in the tokio driver: its timers and sockets wake no more tasks"
                );
            });
        }
        after.unwrap_or(ControlFlow::Break(()))
    }

    async fn until_left(&self, shared: &Shared) -> ControlFlow<()> {
        let mut ends = pin!(self.ends.notified());
        poll_fn(|cx| {
            if ends.as_mut().poll(cx).is_ready() {
                return Poll::Ready(ControlFlow::Break(()));
            }
            self.parks.wake_after(cx);
            match self.may_leave(shared) {
                true => Poll::Ready(ControlFlow::Continue(())),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Returns whether a worker may drive, and one sleeps or has asked for the wheel.
    fn may_leave(&self, shared: &Shared) -> bool {
        let mut cpus = shared.scheduler.machine.config().topology.iter();
        self.bell.is_some()
            && !shared.scheduler.crew.is_over()
            && !self.parks.tasks_escape(&self.handle)
            && (self.is_asked_for.load(Ordering::Relaxed)
                || cpus.any(|cpu| shared.scheduler.crew.slot(cpu).is_asleep()))
    }

    fn end(&self) {
        let runtime = lock(&self.runtime).take();
        // The remaining tasks of `tokio::spawn` end. Their blocking functions are waited for.
        harmless(|| drop(runtime));
        self.parks.forget();
    }
}
