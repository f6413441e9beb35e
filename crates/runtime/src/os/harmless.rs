//! Foreign code that may panic while the runtime calls it: the destructor of a result that nobody takes, a
//! waker, an observer. The panic hook reports the panic, as every panic, and the panic goes no further.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls what may panic.
pub(crate) fn harmless(foreign: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) else { return };
    // The payload is foreign as well. One that panics again is left where it is.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(another);
    }
}

/// The result of a task. A panic of its destructor harms nobody.
pub(crate) struct Outcome<T, E>(Option<Result<T, E>>);

impl<T, E> Outcome<T, E> {
    pub(crate) fn new(result: Result<T, E>) -> Outcome<T, E> {
        Outcome(Some(result))
    }

    pub(crate) fn take(mut self) -> Result<T, E> {
        self.0.take().expect("a result is taken once")
    }
}

impl<T, E> Drop for Outcome<T, E> {
    fn drop(&mut self) {
        if let Some(result) = self.0.take() {
            harmless(|| drop(result));
        }
    }
}

impl<T, E> fmt::Debug for Outcome<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outcome")
    }
}
