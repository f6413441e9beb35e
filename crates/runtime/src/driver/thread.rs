//! The driver's own thread. It drives while all workers are busy, and whenever no worker may.

use super::{Driver, Own};
use crate::os;
use crate::os::harmless::harmless;
use crate::os::refusal::Refusal;
use crate::os::sync::{Ordering, lock};
use crate::os::thread::SHORTEST_SLICE;
use crate::shared::Scheduler;
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use std::thread::JoinHandle;

impl Driver {
    /// Starts the thread of the runtime's own driver by `start`, if there is one.
    ///
    /// # Errors
    /// If the system refuses the thread.
    pub(crate) fn start(
        &self,
        start: impl FnOnce(&str) -> Result<JoinHandle<()>, Refusal>,
    ) -> Result<(), Refusal> {
        if let Some(own) = self.own() {
            *lock(&own.thread) = Some(start("runyard-driver")?);
        }
        Ok(())
    }

    /// Runs the thread, if the runtime has its own driver.
    pub(crate) fn run(&self, scheduler: &Scheduler) {
        self.own().into_iter().for_each(|own| run(own, scheduler));
    }
}

fn run(own: &Own, scheduler: &Scheduler) {
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
        if own.drive(scheduler).is_break() {
            // The thread keeps the wheel, so no other thread drives from now on.
            return own.end();
        }
        own.is_asked_for.store(false, Ordering::Relaxed);
        own.wheel.leave_as_thread(os::thread::now().0);
        scheduler.wake_driver();
    }
}

impl Own {
    /// Drives until a worker that could drive is asleep, or the driver ends.
    fn drive(&self, scheduler: &Scheduler) -> ControlFlow<()> {
        let mut after = None;
        let runtime = lock(&self.runtime);
        if let Some(tokio) = runtime.as_ref().filter(|_| !self.is_broken()) {
            harmless(|| after = Some(tokio.block_on(self.until_left(scheduler))));
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

    async fn until_left(&self, scheduler: &Scheduler) -> ControlFlow<()> {
        let mut ends = pin!(self.ends.notified());
        poll_fn(|cx| {
            if ends.as_mut().poll(cx).is_ready() {
                return Poll::Ready(ControlFlow::Break(()));
            }
            self.parks.wake_after(cx);
            match self.may_leave(scheduler) {
                true => Poll::Ready(ControlFlow::Continue(())),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Returns whether a worker may drive, and one sleeps or has asked for the wheel.
    fn may_leave(&self, scheduler: &Scheduler) -> bool {
        let mut cpus = scheduler.machine().config().topology.iter();
        self.bell.is_some()
            && !scheduler.crew().is_over()
            && !self.parks.tasks_escape(&self.handle)
            && (self.is_asked_for.load(Ordering::Relaxed)
                || cpus.any(|cpu| scheduler.crew().slot(cpu).is_asleep()))
    }

    fn end(&self) {
        let runtime = lock(&self.runtime).take();
        // The remaining tasks of `tokio::spawn` end. Their blocking functions are waited for.
        harmless(|| drop(runtime));
        self.parks.forget();
    }
}
