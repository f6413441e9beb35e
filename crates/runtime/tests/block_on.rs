//! No wake-up of a future that is blocked on is lost, whatever code in the poll parks the thread. What is always ready in a
//! task, or in that future, lets the rest of it go on.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{ends, ms, workers};
use futures_util::future::join;
use runyard::sync::Mutex;
use runyard::time::{MissedTickBehavior, interval_at, timeout};
use runyard::{Handle, JoinSet, Runtime, spawn, time};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// When the task ends that the future waits for.
const EARLY: u64 = 20;

/// When the code in the poll ends.
const LATE: u64 = 60;

/// Waits for a task that ends while `parks` parks the thread in the same poll.
async fn awaits_while(parks: impl FnOnce()) {
    let task = spawn(time::sleep(ms(EARLY)));
    let (ended, ()) = join(task, async { parks() }).await;
    ended.unwrap();
}

fn by_a_channel() {
    let (sends, receives) = channel();
    thread::spawn(move || {
        thread::sleep(ms(LATE));
        sends.send(()).unwrap();
    });
    receives.recv().unwrap();
}

fn by_a_scope() {
    thread::scope(|scope| {
        scope.spawn(|| thread::sleep(ms(LATE)));
    });
}

fn by_a_park() {
    let end = Instant::now() + ms(LATE);
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|it| !it.is_zero()) {
        thread::park_timeout(left);
    }
}

fn by_another_executor() {
    let sleeps = Handle::current().spawn(time::sleep(ms(LATE)));
    futures_executor::block_on(sleeps).unwrap();
}

fn by_block_on() {
    Handle::current().block_on(time::sleep(ms(LATE)));
}

fn by_another_runtime() {
    Runtime::builder().workers(1).build().block_on(time::sleep(ms(LATE)));
}

fn by_a_mutex() {
    let mutex = Arc::new(Mutex::new(()));
    let locks = mutex.clone();
    let (tells, told) = channel();
    thread::spawn(move || {
        let guard = locks.blocking_lock();
        tells.send(()).unwrap();
        thread::sleep(ms(LATE));
        drop(guard);
    });
    told.recv().unwrap();
    drop(mutex.blocking_lock());
}

const WAYS: [fn(); 7] = [
    by_a_channel,
    by_a_scope,
    by_a_park,
    by_another_executor,
    by_block_on,
    by_another_runtime,
    by_a_mutex,
];

/// Seen failing: the wake-up of the task was taken, and the call never ended.
#[test]
fn what_parks_the_thread_takes_no_wake_up_of_block_on() {
    for parks in WAYS {
        ends(move || workers(2).block_on(awaits_while(parks)));
        ends(move || {
            let runtime = workers(2);
            runtime.handle().block_on(awaits_while(parks));
        });
    }
}

#[runyard::main]
async fn a_main() {
    awaits_while(by_a_scope).await;
}

#[test]
fn what_parks_the_thread_takes_no_wake_up_of_main() {
    ends(a_main);
}

#[test]
fn what_parks_a_task_takes_no_wake_up_of_a_block_on_in_it() {
    for parks in WAYS {
        ends(move || {
            workers(2).block_on(async move {
                let task = spawn(async move { Handle::current().block_on(awaits_while(parks)) });
                task.await.unwrap();
            });
        });
    }
}

/// Code that was told that its thread is to go on finds that out after `block_on`. Seen failing: the wait took it.
#[test]
fn block_on_takes_no_wake_up_of_others() {
    ends(|| {
        let runtime = workers(1);
        thread::current().unpark();
        runtime.block_on(time::sleep(ms(5)));
        let locked = Arc::new(Mutex::new(()));
        let guard = locked.clone().try_lock_owned().unwrap();
        runtime.spawn(async move {
            time::sleep(ms(5)).await;
            drop(guard);
        });
        drop(locked.blocking_lock());
        // A task that is alive makes the end wait.
        runtime.spawn(async { thread::sleep(ms(5)) });
        drop(runtime);
        thread::park();
    });
}

/// Runs a future that never ends within a timeout, and beside a heartbeat in the same task.
async fn has_an_end(always_ready: impl Future<Output = ()>) {
    let ends = pin!(timeout(ms(30), always_ready));
    let heart = async {
        let mut interval = interval_at(Instant::now(), ms(1));
        loop {
            interval.tick().await;
        }
    };
    let mut both = (ends, pin!(heart));
    poll_fn(|cx| {
        assert!(both.1.as_mut().poll(cx).is_pending());
        both.0.as_mut().poll(cx).map(|ended| assert!(ended.is_err()))
    })
    .await;
}

/// Seen failing: a timeout around a loop that is always ready never ended.
#[test]
fn what_is_always_ready_lets_the_rest_of_its_task_go_on() {
    async fn all() {
        let mutex = Mutex::new(0);
        has_an_end(async {
            loop {
                *mutex.lock().await += 1;
            }
        })
        .await;
        let mutex = Arc::new(Mutex::new(0));
        has_an_end(async {
            loop {
                *mutex.clone().lock_owned().await += 1;
            }
        })
        .await;
        let mut late = interval_at(Instant::now() - ms(3_600_000), Duration::from_nanos(10));
        late.set_missed_tick_behavior(MissedTickBehavior::Burst);
        has_an_end(async {
            loop {
                late.tick().await;
            }
        })
        .await;
        let empty = Arc::new(Mutex::new(JoinSet::<()>::new()));
        has_an_end(async {
            loop {
                assert!(empty.lock().await.join_next().await.is_none());
            }
        })
        .await;
    }
    ends(|| {
        let runtime = workers(1);
        runtime.block_on(async { spawn(all()).await.unwrap() });
        runtime.block_on(all());
    });
}
