//! Runs a future on a thread that is not a worker's, or on a thread in the middle of a poll. Between the polls of the
//! future the thread waits on a word of its own, so code in a poll may park the thread as it likes.

use super::context::Entered;
use crate::os::sync::{Arc, OnceLock};
use crate::os::{self, here};
use crate::protocol::parker::Parker;
use crate::shared::Shared;
use std::future::Future;
use std::pin::pin;
use std::ptr;
use std::task::{Context, Poll, RawWakerVTable, Wake, Waker};

/// Runs a future on the calling thread until it is ready, in the context of a runtime. Before it returns, every earlier
/// event has reached the observer, if there is one.
pub(crate) fn block_on<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    assert!(
        !here::is_paused(),
        "a future cannot be blocked on in virtual time, because that waits in real time; await it"
    );
    os::fork::refuse_in_child("a future cannot be blocked on");
    let _context = Entered::enter(shared);
    let _driver = shared.driver.enter();
    let (parker, waker) = Unpark::new();
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            shared.flush();
            return value;
        }
        parker.park();
    }
}

/// A waker that ends the wait of a thread.
pub(crate) struct Unpark(Parker);

/// The vtable that all `Unpark` wakers share. It is set when the first of them is made.
static UNPARKS: OnceLock<&'static RawWakerVTable> = OnceLock::new();

impl Unpark {
    /// Makes the word of a wait, and the waker that ends it.
    pub(crate) fn new() -> (Arc<Unpark>, Waker) {
        let word = Arc::new(Unpark(Parker::new()));
        let waker = Waker::from(word.clone());
        UNPARKS.get_or_init(|| waker.vtable());
        (word, waker)
    }

    /// Waits until the waker was woken since the last wait.
    ///
    /// # Panics
    /// In a child of fork, where nobody would wake it.
    pub(crate) fn park(&self) {
        os::fork::refuse_in_child("a thread cannot wait for a future");
        self.0.park();
    }

    /// Returns whether `waker` ends such a wait. Wakers with the same vtable behave alike.
    pub(crate) fn is_behind(waker: &Waker) -> bool {
        UNPARKS.get().is_some_and(|&unparks| ptr::eq(unparks, waker.vtable()))
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
