//! The runtime's operations on tasks: a poll, a wake-up, a spawn, and a section in which no task is stopped, as the
//! allocator enters twice for each value.
//!
//! There is one worker, and no preemption: under callgrind a tick would come some fifty times as often as it does. The
//! runtime's other threads look after it by the clock, so counts differ between runs by some per cent: take the least
//! of several.

use crate::{Operation, Runner};
use runyard::{Runtime, spawn, without_preemption, yield_now};
use std::future::poll_fn;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// The tasks that yield in turns.
const YIELDING: u64 = 8;

/// The tasks that are spawned in one poll. It is so small that they start soon, and so large that few polls are needed.
const SPAWNED_AT_ONCE: u64 = 64;

pub(crate) fn operations() -> Vec<Operation> {
    let operation = |name: &str, prepare: fn() -> Runner| Operation::new(name.to_owned(), prepare);
    vec![
        operation("runtime/poll", poll),
        operation("runtime/wake", wake),
        operation("runtime/spawn", spawns),
        operation("runtime/section", section),
    ]
}

fn started() -> Runtime {
    Runtime::builder().workers(1).preempt(false).build()
}

/// A task yields, and the next one is polled.
fn poll() -> Runner {
    let runtime = started();
    Box::new(move |times| {
        let yielding = |yields| async move {
            for _ in 0..yields {
                yield_now().await;
            }
            yields
        };
        let share = |task| times / YIELDING + u64::from(task < times % YIELDING);
        let polls = runtime.block_on(async {
            let tasks: Vec<_> = (0..YIELDING).map(|task| spawn(yielding(share(task)))).collect();
            let mut polls = 0;
            for task in tasks {
                polls += task.await.expect("nothing panics");
            }
            polls
        });
        assert_eq!(polls, times);
    })
}

/// A task wakes another one and yields; the other one is polled and waits again.
fn wake() -> Runner {
    let runtime = started();
    Box::new(move |times| {
        let waiting: Arc<Mutex<Option<Waker>>> = Arc::default();
        let slot = waiting.clone();
        let woken = runtime.block_on(async move {
            let waiter = spawn(async move {
                for _ in 0..times {
                    wait_once(&slot).await;
                }
            });
            spawn(async move {
                let mut woken = 0;
                while woken < times {
                    let waker = waiting.lock().expect("nothing panics").take();
                    woken += u64::from(waker.is_some());
                    waker.into_iter().for_each(Waker::wake);
                    yield_now().await;
                }
                waiter.await.expect("nothing panics");
                woken
            })
            .await
            .expect("nothing panics")
        });
        assert_eq!(woken, times);
    })
}

/// Leaves a waker in `slot`, and waits until it is used.
async fn wait_once(slot: &Mutex<Option<Waker>>) {
    let mut left = false;
    poll_fn(|context| {
        if left {
            return Poll::Ready(());
        }
        left = true;
        *slot.lock().expect("nothing panics") = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

/// A task starts another one, which ends at once; nobody waits for it.
fn spawns() -> Runner {
    let runtime = started();
    Box::new(move |times| {
        let spawning = runtime.handle().spawn(async move {
            let mut left = times;
            while left > 0 {
                let now = left.min(SPAWNED_AT_ONCE);
                spawn_some(now).await;
                left -= now;
            }
        });
        runtime.block_on(spawning).expect("nothing panics");
    })
}

/// Starts tasks within one poll of the calling task, and waits until all have ended.
async fn spawn_some(tasks: u64) {
    let running = Arc::new(());
    for _ in 0..tasks {
        let running = running.clone();
        drop(spawn(async move { drop(black_box(running)) }));
    }
    while Arc::strong_count(&running) > 1 {
        yield_now().await;
    }
}

/// A task enters a section in which it is not stopped, and leaves it.
fn section() -> Runner {
    let runtime = started();
    Box::new(move |times| {
        let sections =
            async move { (0..times).map(|_| without_preemption(|| black_box(1))).sum::<u64>() };
        let entered = runtime.block_on(runtime.handle().spawn(sections)).expect("nothing panics");
        assert_eq!(entered, times);
    })
}
