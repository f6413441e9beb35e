//! Foreign code that may panic while the runtime calls it: the destructor of a result that is never taken, a waker, an
//! observer. The panic hook reports the panic, as every panic, and the panic goes no further.

use crate::os;
use crate::os::sync::Arc;
use crate::runtime::Unpark;
use crate::task::{Cell, JoinError};
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Wake, Waker};

/// Calls code that may panic.
pub(crate) fn harmless(foreign: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(foreign)) else { return };
    // The payload is foreign as well. If dropping it panics, the second payload is leaked.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(another);
    }
}

/// The result of a task. A panic of its destructor goes no further.
pub(crate) struct Outcome<T>(Option<Result<T, JoinError>>);

impl<T> Outcome<T> {
    pub(crate) fn new(result: Result<T, JoinError>) -> Outcome<T> {
        Outcome(Some(result))
    }

    pub(crate) fn take(mut self) -> Result<T, JoinError> {
        self.0.take().expect("a result is taken once")
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        if let Some(result) = self.0.take() {
            harmless(|| drop(result));
        }
    }
}

impl<T> fmt::Debug for Outcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outcome")
    }
}

/// A foreign waker. A panic of it goes no further.
#[derive(Debug)]
pub(crate) struct Careful(Option<Waker>);

impl Careful {
    pub(crate) fn new(foreign: Waker) -> Careful {
        Careful(Some(foreign))
    }

    fn wake_by(foreign: Waker) -> Waker {
        Waker::from(Arc::new(Careful::new(foreign)))
    }

    pub(crate) fn call(&self) {
        harmless(|| self.0.iter().for_each(Waker::wake_by_ref));
    }

    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        self.0.as_ref().is_some_and(|foreign| foreign.will_wake(waker))
    }
}

impl Wake for Careful {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
    }
}

impl Drop for Careful {
    fn drop(&mut self) {
        harmless(|| drop(self.0.take()));
    }
}

/// Returns whether the waker calls no foreign code: it belongs to the task in whose poll this is called, or to a thread
/// that waits in the runtime's code.
pub(crate) fn is_harmless(waker: &Waker) -> bool {
    let is_own = |task: Option<&Arc<Cell>>| task.is_some_and(|cell| cell.is_woken_by(waker));
    os::local::task(is_own) || Unpark::is_behind(waker)
}

/// The careful waker of a handle that is polled again and again.
#[derive(Debug, Default)]
pub(crate) struct LastCareful(Option<(Waker, Waker)>);

impl LastCareful {
    /// Returns `waker` if it is harmless; otherwise a careful one that calls it.
    pub(crate) fn of<'a>(&'a mut self, waker: &'a Waker) -> &'a Waker {
        if is_harmless(waker) {
            return waker;
        }
        let known = self.0.as_ref().is_some_and(|(foreign, _)| foreign.will_wake(waker));
        if !known {
            self.0 = Some((waker.clone(), Careful::wake_by(waker.clone())));
        }
        &self.0.as_ref().expect("it was just set").1
    }
}
