//! Locks and notifications. Counts under a lock are exact, and every waiting task is woken.

use super::all;
use crate::draws::Draws;
use dashmap::DashMap;
use event_listener::Event;
use runyard::{spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, Notify};

/// Counts under a mutex of tokio's, which tasks hold over awaits.
pub async fn tokio_mutex(mut draws: Draws) {
    let (tasks, many) = (draws.within(2, 8), draws.within(1, 100));
    let count = Arc::new(Mutex::new(0));
    let add = |_| {
        let count = count.clone();
        spawn(async move {
            for nth in 0..many {
                let mut count = count.lock().await;
                let old = *count;
                if nth % 8 == 0 {
                    yield_now().await;
                }
                *count = old + 1;
            }
        })
    };
    all((0..tasks).map(add).collect::<Vec<_>>()).await;
    assert_eq!(*count.lock().await, tasks * many, "a count under a lock is exact");
}

/// Passes permits between two tasks by `Notify` of tokio's. Each permit wakes one task.
pub async fn tokio_notify(mut draws: Draws) {
    let many = draws.within(1, 200);
    let (ping, pong) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (there, back) = (ping.clone(), pong.clone());
    let other = spawn(async move {
        for _ in 0..many {
            there.notified().await;
            back.notify_one();
        }
        many
    });
    for _ in 0..many {
        ping.notify_one();
        pong.notified().await;
    }
    assert_eq!(other.await.expect("it answers"), many);
}

/// Waits for an event of event-listener's. Half of the tasks wait in the kernel.
pub async fn events(mut draws: Draws) {
    let (tasks, last) = (draws.within(2, 8), draws.within(1, 60));
    let (event, turn) = (Arc::new(Event::new()), Arc::new(AtomicU64::new(0)));
    let wait = |nth: u64| {
        let (event, turn) = (event.clone(), turn.clone());
        spawn(async move {
            while turn.load(Ordering::SeqCst) < last {
                let listener = event.listen();
                if turn.load(Ordering::SeqCst) >= last {
                    break;
                }
                match nth % 2 {
                    0 => listener.await,
                    _ => event_listener::Listener::wait(listener),
                }
            }
        })
    };
    let waiting: Vec<_> = (0..tasks).map(wait).collect();
    for _ in 0..last {
        turn.fetch_add(1, Ordering::SeqCst);
        event.notify(usize::MAX);
        yield_now().await;
    }
    all(waiting).await;
}

/// Uses the mutex, the reader-writer lock and the condition variable of parking_lot's.
pub async fn parking(mut draws: Draws) {
    let (tasks, many) = (draws.within(2, 8), draws.within(1, 400));
    let count = Arc::new((parking_lot::Mutex::new(0), parking_lot::Condvar::new()));
    let pair = Arc::new(parking_lot::RwLock::new((0, 0)));
    let add = |nth: u64| {
        let (count, pair) = (count.clone(), pair.clone());
        spawn(async move {
            for step in 0..many {
                *count.0.lock() += 1;
                if (nth + step).is_multiple_of(4) {
                    let mut pair = pair.write();
                    pair.0 += 1;
                    pair.1 += 1;
                } else {
                    let pair = pair.read();
                    assert_eq!(pair.0, pair.1, "a reader sees no half of a write");
                }
            }
            count.1.notify_all();
        })
    };
    let adding: Vec<_> = (0..tasks).map(add).collect();
    let waits = spawn(async move {
        let mut sum = count.0.lock();
        while *sum < tasks * many {
            count.1.wait(&mut sum);
        }
        *sum
    });
    assert_eq!(waits.await.expect("it waits"), tasks * many);
    all(adding).await;
    assert_eq!(pair.read().0, pair.read().1);
}

/// Counts by key in a map of dashmap's.
pub async fn dash(mut draws: Draws) {
    let (tasks, many, keys) = (draws.within(2, 8), draws.within(1, 600), draws.within(1, 64));
    let map = Arc::new(DashMap::new());
    let add = |nth: u64| {
        let map = map.clone();
        spawn(async move {
            for step in 0..many {
                *map.entry((nth * 7 + step) % keys).or_insert(0) += 1;
                if step % 64 == 0 {
                    assert!(map.len() as u64 <= keys);
                }
            }
        })
    };
    all((0..tasks).map(add).collect::<Vec<_>>()).await;
    assert_eq!(map.iter().map(|entry| *entry.value()).sum::<u64>(), tasks * many);
}
