//! `Mutex`.

use super::rt;
use crate::{Flag, ends, ms};
use rt::sync::{Mutex, MutexGuard, OwnedMutexGuard, TryLockError};
use std::fmt::Display;
use std::sync::{Arc, Mutex as StdMutex};
use std::thread;

#[test]
fn a_mutex_is_a_static() {
    static SUM: Mutex<u32> = Mutex::const_new(0);
    ends(|| {
        rt::runtime(2).block_on(async {
            let tasks: Vec<_> =
                (0..10).map(|_| rt::spawn(async { *SUM.lock().await += 1 })).collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*SUM.lock().await, 10);
        });
    });
}

#[test]
fn what_is_locked_is_not_locked_again() {
    let mutex = Arc::new(Mutex::new(String::from("one")));
    let guard: MutexGuard<'_, String> = mutex.try_lock().unwrap();
    let refused: Result<_, TryLockError> = mutex.try_lock();
    assert!(refused.is_err() && mutex.clone().try_lock_owned().is_err());
    drop((refused, guard));
    let guard: OwnedMutexGuard<String> = mutex.clone().try_lock_owned().unwrap();
    assert!(mutex.try_lock().is_err());
    assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
    drop(guard);
    let guard = mutex.try_lock().unwrap();
    assert!(std::ptr::eq(MutexGuard::mutex(&guard), &raw const *mutex));
}

#[test]
fn it_shows_its_value_and_does_not_wait_for_it() {
    let mutex = Mutex::new(5);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: 5 }");
    let guard = mutex.try_lock().unwrap();
    assert_eq!(format!("{mutex:?}"), "Mutex { data: <locked> }");
    assert_eq!(format!("{guard:?} {guard}"), "5 5");
}

#[test]
fn a_value_comes_in_and_out() {
    let mut mutex = Mutex::from(1);
    *mutex.get_mut() += 1;
    assert_eq!(mutex.into_inner(), 2);
    assert_eq!(Mutex::<u8>::default().into_inner(), 0);
}

#[test]
fn a_value_may_have_no_size() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let mutex: Arc<Mutex<dyn Display + Send>> = Arc::new(Mutex::new(7));
            assert_eq!(mutex.lock().await.to_string(), "7");
            let guard = mutex.lock_owned().await;
            let shown = rt::spawn(async move { guard.to_string() });
            assert_eq!(shown.await.unwrap(), "7");
        });
    });
}

#[test]
fn who_came_first_has_it_first() {
    ends(|| {
        rt::runtime(2).block_on(async {
            let mutex = Arc::new(Mutex::new(Vec::new()));
            let guard = mutex.lock().await;
            let mut tasks = Vec::new();
            for nth in 0..10 {
                let (mutex, asked) = (mutex.clone(), Flag::default());
                let asks = asked.clone();
                tasks.push(rt::spawn(async move {
                    let mut lock = std::pin::pin!(mutex.lock());
                    let early = crate::poll_once(lock.as_mut()).await;
                    assert!(early.is_none());
                    asks.set();
                    lock.await.push(nth);
                }));
                asked.wait();
            }
            drop(guard);
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*mutex.lock().await, (0..10).collect::<Vec<_>>());
        });
    });
}

#[test]
fn who_gives_up_is_passed_over() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let mutex = Arc::new(Mutex::new(()));
            let guard = mutex.lock().await;
            assert!(rt::time::timeout(ms(1), mutex.lock()).await.is_err());
            assert!(rt::time::timeout(ms(1), mutex.clone().lock_owned()).await.is_err());
            drop(guard);
            drop(mutex.lock().await);
            assert_eq!(Arc::strong_count(&mutex), 1);
        });
    });
}

#[test]
fn a_thread_waits_for_it() {
    ends(|| {
        let runtime = rt::runtime(1);
        let mutex = Arc::new(Mutex::new(0));
        let guard = runtime.block_on(mutex.lock());
        let waits = {
            let mutex = mutex.clone();
            thread::spawn(move || {
                *mutex.blocking_lock() += 1;
                *mutex.blocking_lock_owned() += 1;
            })
        };
        drop(guard);
        waits.join().unwrap();
        let blocking = mutex.clone();
        let adds = async {
            rt::spawn_blocking(move || *blocking.blocking_lock() += 1).await.unwrap();
        };
        runtime.block_on(adds);
        assert_eq!(*mutex.blocking_lock(), 3);
    });
}

#[test]
fn a_panic_gives_it_back() {
    ends(|| {
        rt::runtime(1).block_on(async {
            let mutex = Arc::new(Mutex::new(1));
            let had = Arc::new(StdMutex::new(false));
            let (inside, has) = (mutex.clone(), had.clone());
            let panics = rt::spawn(async move {
                let mut guard = inside.lock().await;
                *guard = 2;
                *has.lock().unwrap() = true;
                panic!("as the test wants it");
            });
            assert!(panics.await.is_err());
            assert!(*had.lock().unwrap());
            assert_eq!(*mutex.lock().await, 2, "and is not poisoned");
        });
    });
}
