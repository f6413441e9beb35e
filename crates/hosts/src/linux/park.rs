//! Threads that run a future each, and sleep in the kernel while it waits.
//!
//! A thread sleeps on a word of its own ([futex(2)](https://man7.org/linux/man-pages/man2/futex.2.html)). Tasks that are woken
//! together, as at a barrier, are woken by one call of the kernel, as the C library does it: the waking thread loses its
//! CPU after all of them are woken. So their words are first joined to one word.

use crate::sync::{Arc, AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, requeue, wait, wake};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

/// The values of a thread's word.
const ASLEEP: u32 = 0;
const WOKEN: u32 = 1;

/// The sleep of a thread. Its word says whether it was woken since it last began to sleep.
struct Sleep(AtomicU32);

thread_local! {
    /// The sleeps that this thread is to end together.
    static TOGETHER: RefCell<Option<Vec<Arc<Sleep>>>> = const { RefCell::new(None) };
}

/// Runs a future on the calling thread, which sleeps while the future waits.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let sleep = Arc::new(Sleep(AtomicU32::new(ASLEEP)));
    let waker = Waker::from(sleep.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        sleep.sleep();
    }
}

/// Wakes the threads of these wakers, all by one call of the kernel.
pub(super) fn wake_together(wakers: Vec<Waker>) {
    if wakers.len() < 2 {
        return wakers.into_iter().for_each(Waker::wake);
    }
    TOGETHER.set(Some(Vec::with_capacity(wakers.len())));
    wakers.into_iter().for_each(Waker::wake);
    let sleeps = TOGETHER.take().unwrap_or_default();
    let all = AtomicU32::new(ASLEEP);
    for Sleep(word) in sleeps.iter().map(Arc::as_ref) {
        word.store(WOKEN, Ordering::Release);
        // A thread that is about to sleep sees its word.
        requeue(word, Flags::PRIVATE, 0, 1, &all).expect("both words are this process's own");
    }
    wake_all(&all);
}

/// Wakes all threads that sleep on a word.
pub(super) fn wake_all(word: &AtomicU32) {
    wake(word, Flags::PRIVATE, i32::MAX.unsigned_abs())
        .expect("a word of one's own process can be woken on");
}

impl Sleep {
    fn sleep(&self) {
        while self.0.swap(ASLEEP, Ordering::Acquire) == ASLEEP {
            match wait(&self.0, Flags::PRIVATE, ASLEEP, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => panic!("a thread sleeps on a word of its own process: {error}"),
            }
        }
    }
}

impl Wake for Sleep {
    fn wake(self: Arc<Self>) {
        let left = TOGETHER.with_borrow_mut(|together| match together {
            Some(together) => {
                together.push(self);
                None
            }
            None => Some(self),
        });
        if let Some(sleep) = left {
            sleep.0.store(WOKEN, Ordering::Release);
            wake_all(&sleep.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicUsize, Mutex};
    use std::future::poll_fn;
    use std::thread;
    use std::time::Duration;

    /// Threads wait again and again, and all of them are woken together each time: none is left asleep.
    #[test]
    fn all_of_a_crowd_wake_up() {
        const CROWD: usize = 4;
        const ROUNDS: usize = 500;
        let (waiting, round) = (Mutex::new(Vec::<Waker>::new()), AtomicUsize::new(0));
        let live = || {
            for nth in 1..=ROUNDS {
                block_on(poll_fn(|cx| {
                    if round.load(Ordering::SeqCst) >= nth {
                        return Poll::Ready(());
                    }
                    waiting.lock().unwrap().push(cx.waker().clone());
                    match round.load(Ordering::SeqCst) >= nth {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                }));
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..CROWD).map(|_| scope.spawn(live)).collect();
            for nth in 1..=ROUNDS {
                if nth.is_multiple_of(50) {
                    thread::sleep(Duration::from_millis(1));
                }
                round.store(nth, Ordering::SeqCst);
                wake_together(std::mem::take(&mut *waiting.lock().unwrap()));
            }
            while threads.iter().any(|thread| !thread.is_finished()) {
                wake_together(std::mem::take(&mut *waiting.lock().unwrap()));
                thread::yield_now();
            }
        });
    }
}
