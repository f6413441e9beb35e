//! Runs a future on a thread that is no worker's, or on one in the middle of a poll: between its polls the thread is
//! parked.

use super::context::Entered;
use crate::os::here;
use crate::os::sync::{Arc, OnceLock};
use crate::shared::Shared;
use std::future::Future;
use std::pin::pin;
use std::ptr;
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};
use std::thread::{self, Thread};

/// Runs a future on the calling thread until it is ready, in the context of a runtime. The observer, if there is one, has
/// heard of all that happened until then when this returns.
pub(crate) fn block_on<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    assert!(
        !here::is_paused(),
        "in virtual time a future is awaited: who blocks on it waits in real time"
    );
    let _context = Entered::enter(shared);
    let _driver = shared.driver.enter();
    let waker = Unpark::this_thread();
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            shared.flush();
            return value;
        }
        thread::park();
    }
}

/// Lets a thread go on that waits for something.
pub(crate) struct Unpark(Thread);

/// What all wakers have in common that let a thread go on; there when the first of them is.
static UNPARKS: OnceLock<&'static RawWakerVTable> = OnceLock::new();

impl Unpark {
    /// A waker for the calling thread.
    pub(crate) fn this_thread() -> Waker {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        UNPARKS.get_or_init(|| waker.vtable());
        waker
    }

    /// Whether it is a waker for a thread that waits so: another with the same functions does the same.
    pub(crate) fn is_behind(waker: &Waker) -> bool {
        UNPARKS.get().is_some_and(|&unparks| ptr::eq(unparks, waker.vtable()))
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
