//! Wakers are foreign code, and run as such: the holder of a lock that a waker wants may be stopped, and a waker may
//! panic or take long.

use crate::child::within;
use crate::common::{ms, spin, until, workers};
use runyard::{Policy, Runtime, Task, spawn, sync, time};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// A waker that runs a function before it records that it was called.
struct Does<F> {
    what: F,
    called: AtomicUsize,
}

impl<F: Fn() + Send + Sync + 'static> Does<F> {
    fn new(what: F) -> (Arc<Does<F>>, Waker) {
        let does = Arc::new(Does { what, called: AtomicUsize::new(0) });
        (does.clone(), Waker::from(does))
    }

    fn called(&self) -> usize {
        self.called.load(Ordering::SeqCst)
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        (self.what)();
        self.called.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a sleep that wakes `waker`.
fn armed(span: Duration, waker: &Waker) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut sleep = Box::pin(time::sleep(span));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    sleep
}

/// Lets a timer call a waker that waits for a lock. A task of `policy` holds the lock for 3 ms at a time, while a hog
/// competes for the only CPU.
fn let_a_waker_wait(runtime: &Runtime, policy: Policy) {
    let (lock, over) = (Arc::new(Mutex::new(0_u64)), Arc::new(AtomicBool::new(false)));
    let (holds, held_until) = (lock.clone(), over.clone());
    let holder = runtime.block_on(async move {
        let task = Task::builder().policy(policy);
        [task.spawn(async move {
            while !held_until.load(Ordering::SeqCst) {
                let mut held = holds.lock().unwrap();
                spin(ms(3));
                *held += 1;
                drop(held);
                spin(ms(1));
            }
        })]
    });
    until(|| lock.try_lock().is_err());
    let stops = over.clone();
    let hog = runtime.spawn(async move {
        while !stops.load(Ordering::SeqCst) {
            spin(Duration::from_micros(50));
        }
    });
    for _ in 0..5 {
        let wanted = lock.clone();
        let (does, waker) = Does::new(move || *wanted.lock().unwrap() += 1);
        until(|| lock.try_lock().is_err());
        let [sleep] = runtime.block_on(async { [armed(ms(1), &waker)] });
        until(|| does.called() == 1);
        drop(sleep);
    }
    over.store(true, Ordering::SeqCst);
    for handle in holder.into_iter().chain([hog]) {
        runtime.block_on(handle).unwrap();
    }
}

/// Seen failing: the worker that called the waker and the task with the lock waited for each other. The duration
/// depends on the holder's policy: SCHED_IDLE has 3 of 1,027 parts beside the hog.
#[test]
fn a_waker_gets_the_lock_of_a_stopped_task() {
    within(ms(120_000), "foreign_code::a_waker_gets_the_lock_of_a_stopped_task", || {
        let runtime = workers(1);
        let nice = Policy::Normal(runyard::Nice::new(19).unwrap());
        [Policy::Idle, nice].into_iter().for_each(|policy| let_a_waker_wait(&runtime, policy));
    });
}

/// Seen failing: when the runtime's own code called the waker, the task waited for its end.
#[test]
fn a_waker_that_lasts_keeps_no_timer_waiting() {
    within(ms(60_000), "foreign_code::a_waker_that_lasts_keeps_no_timer_waiting", || {
        let runtime = workers(1);
        let lateness = || {
            let (does, waker) = Does::new(|| thread::sleep(ms(200)));
            runtime.block_on(async {
                let sleep = armed(ms(5), &waker);
                let later = spawn(async {
                    let due = Instant::now() + ms(10);
                    time::sleep(ms(10)).await;
                    Instant::now().duration_since(due)
                });
                let late = later.await.unwrap();
                until(|| does.called() == 1);
                drop(sleep);
                late
            })
        };
        let mut tries = (0..10).map(|_| lateness());
        assert!(tries.any(|late| late < ms(50)), "others' timers are late");
    });
}

#[test]
fn wakers_are_called_once_and_in_their_order_whichever_of_them_panic() {
    within(
        ms(60_000),
        "foreign_code::wakers_are_called_once_and_in_their_order_whichever_of_them_panic",
        || {
            const WAKERS: usize = 200;
            let (runtime, calls) = (workers(1), Arc::new(Mutex::new(Vec::new())));
            let wakers = (0..WAKERS).map(|nth| {
                let calls = calls.clone();
                Does::new(move || {
                    calls.lock().unwrap().push(nth);
                    assert!(nth % 50 != 7, "on purpose, in a waker");
                })
            });
            let wakers: Vec<_> = wakers.collect();
            let sleeps = runtime.block_on(async {
                let nth = |nth: usize| ms(5) + Duration::from_micros(50 * nth as u64);
                let all = wakers.iter().enumerate();
                let sleeps = all.map(|(at, (_, waker))| armed(nth(at), waker));
                spawn(async {}).await.unwrap();
                sleeps.collect::<Vec<_>>()
            });
            until(|| calls.lock().unwrap().len() == WAKERS);
            thread::sleep(ms(10));
            assert_eq!(*calls.lock().unwrap(), (0..WAKERS).collect::<Vec<_>>());
            drop(sleeps);
        },
    );
}

/// Seen failing: when the runtime's own code called the waker, the task that unlocked the mutex waited for it.
#[test]
fn a_mutex_calls_a_foreign_waker_where_it_may_wait() {
    within(ms(60_000), "foreign_code::a_mutex_calls_a_foreign_waker_where_it_may_wait", || {
        let runtime = workers(1);
        let lasts = || {
            let mutex = Arc::new(sync::Mutex::new(()));
            let (does, waker) = Does::new(|| thread::sleep(ms(200)));
            runtime.block_on(async {
                let guard = mutex.clone();
                let mut waits = Box::pin(async move { drop(guard.lock().await) });
                let taken = mutex.clone();
                let gives = spawn(async move {
                    let guard = taken.lock().await;
                    time::sleep(ms(10)).await;
                    let began = Instant::now();
                    drop(guard);
                    began.elapsed()
                });
                time::sleep(ms(5)).await;
                assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                let took = gives.await.unwrap();
                until(|| does.called() == 1);
                waits.await;
                took
            })
        };
        let mut tries = (0..10).map(|_| lasts());
        assert!(tries.any(|took| took < ms(50)), "the task that unlocks a mutex waits for a waker");
    });
}

/// A task that must end waits, in foreign code, for a timer with a foreign waker.
#[test]
fn a_runtime_ends_after_who_waits_for_a_foreign_waker() {
    within(ms(60_000), "foreign_code::a_runtime_ends_after_who_waits_for_a_foreign_waker", || {
        let runtime = workers(1);
        let waits = runtime.spawn(async {
            let this = thread::current();
            let called = Arc::new(AtomicBool::new(false));
            let notes = called.clone();
            let (_, waker) = Does::new(move || {
                notes.store(true, Ordering::SeqCst);
                this.unpark();
            });
            let sleep = armed(ms(100), &waker);
            while !called.load(Ordering::SeqCst) {
                thread::park();
            }
            drop(sleep);
        });
        thread::sleep(ms(20));
        drop(runtime);
        assert!(waits.is_finished());
    });
}
