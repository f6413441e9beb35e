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
use tokio::task::coop::{RestoreOnPending, poll_proceed};

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
    use tokio::sync::mpsc::unbounded_channel;

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
}
