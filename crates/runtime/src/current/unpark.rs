//! The waker of a thread that waits for a future.

use crate::os;
use crate::os::sync::{Arc, OnceLock};
use crate::protocol::parker::Parker;
use std::ptr;
use std::task::{RawWakerVTable, Wake, Waker};

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
