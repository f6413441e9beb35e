//! The calling thread's worker, and the calls that the folder [`os`](crate::os) makes to it.

use crate::os::above::{Above, Calls, Signals};
use crate::os::local::{self, Lent};
use crate::os::stack::Copied;
use crate::os::sync::Arc;
use crate::worker::Worker;
use std::ops::Range;

thread_local! {
    static WORKER: Lent<Worker> = const { Lent::none() };
}

/// Makes the calling thread `worker` while `body` runs.
pub(crate) fn with_worker(worker: &Arc<Worker>, body: impl FnOnce()) {
    WORKER.with(|word| word.lend(worker, body));
}

/// Calls `body` with the calling thread's worker, if it is one. May be called in a signal handler.
#[inline]
pub(crate) fn worker<R>(body: impl FnOnce(&Worker) -> R) -> Option<R> {
    WORKER.with(|word| word.with(|worker| worker.map(body)))
}

/// Calls `section`, through the calling thread's worker if it is one.
#[inline]
pub(crate) fn section<R, F: FnOnce() -> R>(section: F, on_worker: fn(&Worker, F) -> R) -> R {
    WORKER.with(|word| {
        word.with(|worker| match worker {
            Some(worker) => on_worker(worker, section),
            None => section(),
        })
    })
}

impl Calls for Above {
    type Copied = Copied;

    #[inline]
    fn without_preemption<R>(own: impl FnOnce() -> R) -> R {
        section(own, Worker::without_preemption)
    }

    fn is_in_own_code() -> bool {
        let is_own = |worker: &Worker| {
            worker.own.is_here() && !worker.section.is_foreign(worker.own.count())
        };
        local::steers() || worker(is_own) == Some(true)
    }

    fn rung<C: FnOnce(&Copied, u32, u64, Range<usize>)>(
        at_unsafe_point: bool,
        deaf_to: Signals,
        copy: C,
    ) {
        worker(|worker| {
            if let Some(stalls) = &worker.shared.observation.stalls {
                let (poll, stack) =
                    (worker.poll.clock().time().poll(), worker.poll.clock().time().stack());
                copy(&stalls.copied, worker.thread.id().0, poll, stack);
            }
            worker.rung(at_unsafe_point, deaf_to);
        });
    }
}
