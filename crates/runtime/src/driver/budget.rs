//! tokio's budget of a poll. tokio's channels, locks, sockets and timers are pending now and then although they are ready: a
//! task of tokio begins each poll with a budget of 128 operations. Elsewhere a thread has no budget, and a future that is
//! always ready never ends its poll.
//!
//! tokio gives a budget only to its own tasks. So a small task of tokio's on this thread asks for a hundred operations
//! ([`poll_proceed`]), and keeps the answers. An answer that is dropped later gives the thread the budget that was left
//! before it: 128 operations, 127 and so on. Each poll here begins with one of them.
//!
//! Rejected: a task of tokio for each poll. Its entry takes 24 ns, while a yield of the only task takes 73 ns.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::task::LocalSet;
use tokio::task::coop::{RestoreOnPending, poll_proceed, unconstrained};

/// The answers that one small task keeps. The last of them gives 29 operations.
const KEPT: usize = 100;

thread_local! {
    static BUDGETS: RefCell<Vec<RestoreOnPending>> = const { RefCell::new(Vec::new()) };
}

/// Gives the calling thread a budget for the poll that begins. Called in foreign code: it may allocate.
#[inline]
pub(crate) fn begin_poll() {
    // The thread may be at its end.
    let _ = BUDGETS.try_with(|budgets| {
        // A signal never finds it borrowed: the handler takes no budget.
        let mut budgets = budgets.borrow_mut();
        if budgets.is_empty() {
            *budgets = more();
        }
        drop(budgets.pop());
    });
}

/// Runs code without a budget, and then gives the thread the budget of before: the code is not a poll of this runtime, or
/// one with a budget of its own.
pub(crate) fn apart<R>(code: impl FnOnce() -> R) -> R {
    let mut code = Some(code);
    // tokio restores the budget at the end of this poll.
    let once = poll_fn(|_| Poll::Ready((code.take().expect("it is polled once"))()));
    match pin!(unconstrained(once)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it is always ready"),
    }
}

/// Takes as many answers as are kept. The first gives most, and is the last of the list.
#[cold]
fn more() -> Vec<RestoreOnPending> {
    let answers = Rc::new(RefCell::new(Vec::with_capacity(KEPT)));
    let (set, kept) = (LocalSet::new(), answers.clone());
    // The result of the task is not awaited: that is an operation, and the thread's budget may be used up.
    set.spawn_local(poll_fn(move |cx| {
        for _ in 0..KEPT {
            match poll_proceed(cx) {
                Poll::Ready(answer) => kept.borrow_mut().push(answer),
                Poll::Pending => break,
            }
        }
        kept.borrow_mut().reverse();
        Poll::Ready(())
    }));
    let _ = pin!(set).poll(&mut Context::from_waker(Waker::noop()));
    answers.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalSet, Runtime, blocking, spawn, spawn_blocking};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    const MANY: usize = 1_000;

    /// Returns the receiver of a channel with more messages than a budget.
    fn full() -> UnboundedReceiver<usize> {
        let (sender, receiver) = unbounded_channel();
        (0..MANY).for_each(|nth| sender.send(nth).unwrap());
        receiver
    }

    /// Receives all messages in one poll by another executor. Returns whether a budget stopped it.
    fn is_stopped(mut receiver: UnboundedReceiver<usize>) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        (0..MANY).any(|_| receiver.poll_recv(&mut cx).is_pending())
    }

    /// It fails if a newer tokio answers otherwise.
    #[test]
    fn a_poll_has_the_budget_of_a_task_of_tokio() {
        let (sender, mut receiver) = unbounded_channel();
        (0..1_000).for_each(|nth| sender.send(nth).unwrap());
        let mut cx = Context::from_waker(Waker::noop());
        for poll in 0..3 * KEPT {
            begin_poll();
            let mut received = 0;
            while received < 1_000 && receiver.poll_recv(&mut cx).is_ready() {
                received += 1;
            }
            assert_eq!(received, 128 - poll % KEPT);
            (0..received).for_each(|nth| sender.send(nth).unwrap());
        }
    }

    #[test]
    fn code_that_blocks_has_no_budget() {
        let runtime = Runtime::builder().workers(1).build();
        let function = runtime.spawn_blocking(|| is_stopped(full()));
        assert!(!runtime.block_on(function).unwrap(), "of a blocking function");
        let section = runtime.spawn(async {
            let stopped = blocking(|| is_stopped(full()));
            (stopped, is_stopped(full()))
        });
        assert_eq!(runtime.block_on(section).unwrap(), (false, true), "of a task");
        let main = async { (blocking(|| is_stopped(full())), is_stopped(full())) };
        assert_eq!(runtime.block_on(main), (false, true), "of the main future");
    }

    #[test]
    fn a_thread_has_no_budget_after_block_on() {
        let runtime = Runtime::builder().workers(1).build();
        assert!(runtime.block_on(async { is_stopped(full()) }));
        assert!(!is_stopped(full()));
    }

    #[test]
    fn a_poll_has_its_own_budget_after_another_runtime_in_its_middle() {
        let runtime = Runtime::builder().workers(1).build();
        let task = runtime.spawn(async {
            let inner = Runtime::builder().workers(1).build();
            inner.block_on(async {
                let _ = spawn_blocking(|| ()).await;
                spawn(async {}).await.unwrap();
            });
            (is_stopped(full()), is_stopped(full()))
        });
        assert_eq!(runtime.block_on(task).unwrap(), (true, true));
    }

    #[test]
    fn a_local_set_leaves_no_budget_behind() {
        let set = LocalSet::new();
        let task = set.spawn_local(async { is_stopped(full()) });
        let mut cx = Context::from_waker(Waker::noop());
        let mut set = pin!(set);
        assert!(set.as_mut().poll(&mut cx).is_ready());
        assert!(!is_stopped(full()), "after its tasks");
        assert!(matches!(pin!(task).poll(&mut cx), Poll::Ready(Ok(true))));
        let inside = set.run_until(async { is_stopped(full()) });
        assert!(matches!(pin!(inside).poll(&mut cx), Poll::Ready(true)));
        assert!(!is_stopped(full()), "after run_until");
    }

    #[test]
    fn hooks_of_threads_have_no_budget() {
        let (sends, stopped) = std::sync::mpsc::channel();
        let at_stop = move || sends.send(is_stopped(full())).unwrap();
        let runtime = Runtime::builder().workers(1).on_thread_stop(at_stop).build();
        assert!(runtime.block_on(runtime.spawn(async { is_stopped(full()) })).unwrap());
        drop(runtime);
        assert!(stopped.into_iter().all(|stopped| !stopped));
    }
}
