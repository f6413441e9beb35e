//! Foreign wakers, which may panic while the runtime calls them.

use crate::current::unpark::Unpark;
use crate::os::harmless::harmless;
use crate::os::sync::Arc;
use crate::task::Cell;
use std::task::{Wake, Waker};

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

/// Returns whether the waker calls no foreign code: it is the waker of the task that this thread polls, or of a thread
/// that waits in the runtime's code.
#[inline]
pub(crate) fn is_harmless(waker: &Waker) -> bool {
    let is_own = |task: Option<&Arc<Cell>>| task.is_some_and(|cell| cell.is_woken_by(waker));
    crate::current::task::task(is_own) || Unpark::is_behind(waker)
}

/// The careful waker of a handle that is polled again and again.
#[derive(Debug, Default)]
pub(crate) struct LastCareful(Option<(Waker, Waker)>);

impl LastCareful {
    /// Returns `waker` if it is harmless; otherwise a careful one that calls it.
    #[inline]
    pub(crate) fn of<'a>(&'a mut self, waker: &'a Waker) -> &'a Waker {
        if is_harmless(waker) {
            return waker;
        }
        let known = self.0.as_ref().is_some_and(|(foreign, _)| foreign.will_wake(waker));
        if !known {
            self.0 = Some((waker.clone(), Careful::wake_by(waker.clone())));
        }
        &self.0.as_ref().expect("the careful waker was just set").1
    }
}
