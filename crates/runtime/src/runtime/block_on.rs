//! Runs a future on a thread that is not a worker's, or on a thread in the middle of a poll. Between the polls of the
//! future the thread waits on a word of its own, so code in a poll may park the thread as it likes.

use crate::current::runtime::Entered;
use crate::current::turn;
use crate::current::unpark::Unpark;
use crate::driver::budget;
use crate::local::LocalSet;
use crate::os::sync::Arc;
use crate::os::{self, here};
use crate::shared::Shared;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

/// Runs a future on the calling thread until it is ready, in the context of a runtime. Before it returns, every earlier
/// event has reached the observer, if there is one.
#[track_caller]
pub(crate) fn block_on<F: Future>(shared: &Arc<Shared>, future: F) -> F::Output {
    assert!(
        !here::is_paused(),
        "a future cannot be blocked on in virtual time, because that waits in real time; await it"
    );
    os::fork::refuse_in_child("a future cannot be blocked on");
    if let Some(single) = shared.scheduler.single() {
        single.refuse_here();
    }
    let _context = Entered::enter(shared);
    let _driver = shared.scheduler.driver().enter();
    if let Some(single) = shared.scheduler.single() {
        let set = LocalSet::new();
        let output = turn::without(|| single.block_on(shared, set.run_until(future)));
        shared.scheduler.flush();
        return output;
    }
    let (parker, waker) = Unpark::new();
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    turn::without(|| {
        loop {
            turn::begin(os::thread::now());
            budget::begin_poll();
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                shared.scheduler.flush();
                return value;
            }
            parker.park();
        }
    })
}
