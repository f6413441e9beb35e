//! The future of `block_on`, and the task that stands in for it in the machine.
//!
//! The future stays in the frame of `block_on`, so it need not be `Send` nor live long. When its *stand-in* is picked, the
//! loop polls the future with the stand-in's waker. The stand-in is over when the future is ready.

use crate::os;
use crate::os::sync::{Arc, AtomicBool, OnceLock, Ordering};
use crate::shared::Shared;
use crate::task::Cell;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What the loop and the stand-in tell each other.
#[derive(Debug, Default)]
struct Told {
    waker: OnceLock<Waker>,
    /// Whether the main future is ready.
    is_ready: AtomicBool,
}

/// The future of the stand-in.
struct StandIn(Arc<Told>);

impl Future for StandIn {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.is_ready.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        self.0.waker.get_or_init(|| cx.waker().clone());
        Poll::Pending
    }
}

/// The main future of one call of `block_on`, while that runs tasks.
pub(super) struct Main<'a> {
    stand_in: Arc<Cell>,
    told: Arc<Told>,
    /// Polls the future. Returns whether it is ready.
    polls: &'a mut dyn FnMut(&mut Context<'_>) -> bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Main<'a> {
    /// Spawns the stand-in of a future.
    pub(super) fn new(
        shared: &Arc<Shared>,
        polls: &'a mut dyn FnMut(&mut Context<'_>) -> bool,
    ) -> Main<'a> {
        let told = Arc::new(Told::default());
        let stand_in = shared.spawn_stand_in(StandIn(told.clone()));
        Main { stand_in, told, polls, panic: None }
    }

    /// Returns whether `cell` is of the stand-in.
    pub(super) fn is(&self, cell: &Arc<Cell>) -> bool {
        Arc::ptr_eq(cell, &self.stand_in)
    }

    /// Returns whether the stand-in is over: the future is ready, or the runtime is over.
    pub(super) fn is_over(&self) -> bool {
        self.stand_in.is_done()
    }

    /// Polls the future. The stand-in was picked.
    pub(super) fn poll(&mut self) {
        // The turn of the stand-in begins, so that a wake-up from now on is seen.
        os::future::run(os::future::Found::new(&self.stand_in));
        let Some(waker) = self.told.waker.get().filter(|_| !self.is_over()) else { return };
        let mut cx = Context::from_waker(waker);
        let is_ready = match catch_unwind(AssertUnwindSafe(|| (self.polls)(&mut cx))) {
            Ok(is_ready) => is_ready,
            Err(panic) => {
                self.panic = Some(panic);
                true
            }
        };
        if is_ready {
            self.told.is_ready.store(true, Ordering::Relaxed);
            self.stand_in.wake();
            os::future::run(os::future::Found::new(&self.stand_in));
        }
    }

    /// Returns whether the future is ready.
    ///
    /// # Errors
    /// The panic of the future.
    pub(super) fn end(self) -> Result<bool, Box<dyn Any + Send>> {
        match self.panic {
            Some(panic) => Err(panic),
            None => Ok(self.told.is_ready.load(Ordering::Relaxed)),
        }
    }
}
