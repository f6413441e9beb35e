//! crossbeam: channels that block, memory that is freed when no thread uses it any more, and deques for work stealing.

use super::all;
use crate::draws::Draws;
use crossbeam::deque::{Steal, Worker};
use crossbeam::epoch;
use crossbeam::queue::SegQueue;
use crossbeam_skiplist::SkipMap;
use runyard::{spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sends over a channel. Senders and receiver block in the kernel.
pub async fn channel(mut draws: Draws) {
    let (senders, many) = (draws.within(1, 4), draws.within(1, 300));
    let (to, from) = crossbeam::channel::bounded(draws.below(16) as usize);
    let send = |sender| {
        let to = to.clone();
        spawn(async move { (0..many).for_each(|nth| to.send(sender * many + nth).expect("sent")) })
    };
    let sending: Vec<_> = (0..senders).map(send).collect();
    drop(to);
    let received = spawn(async move { from.iter().collect::<Vec<_>>() });
    all(sending).await;
    let mut got = received.await.expect("it receives");
    got.sort_unstable();
    assert!(got.into_iter().eq(0..senders * many), "each message arrives once");
}

/// Uses a map and a queue without locks. Epochs free their memory.
pub async fn epochs(mut draws: Draws) {
    let (tasks, many) = (draws.within(2, 6), draws.within(1, 300));
    let (map, queue) = (Arc::new(SkipMap::new()), Arc::new(SegQueue::new()));
    let turn = |nth: u64| {
        let (map, queue) = (map.clone(), queue.clone());
        spawn(async move {
            let mut sum = 0;
            for number in nth * many..(nth + 1) * many {
                map.insert(number, vec![number; 8]);
                queue.push(number);
                let taken: u64 = queue.pop().expect("as many are put in as are taken out");
                sum += taken;
                let guard = epoch::pin();
                let entry = map.remove(&number).expect("no other task removes it");
                assert!(entry.value().iter().all(|&part| part == number), "a value is whole");
                guard.flush();
            }
            sum
        })
    };
    let sum: u64 = all((0..tasks).map(turn).collect::<Vec<_>>()).await.into_iter().sum();
    assert_eq!(sum, (0..tasks * many).sum::<u64>(), "each number is taken once");
    assert!(map.is_empty());
}

/// Takes and steals numbers from a deque. Each number is taken once.
pub async fn deques(mut draws: Draws) {
    let (thieves, many) = (draws.within(1, 6), draws.within(1, 2_000));
    let (own, done) = (Worker::new_fifo(), Arc::new(AtomicU64::new(0)));
    let steal = |_| {
        let (from, done) = (own.stealer(), done.clone());
        spawn(async move {
            let mut sum = 0;
            while done.load(Ordering::SeqCst) < many {
                match from.steal() {
                    Steal::Success(number) => {
                        sum += number;
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                    Steal::Retry => {}
                    Steal::Empty => yield_now().await,
                }
            }
            sum
        })
    };
    let stealing: Vec<_> = (0..thieves).map(steal).collect();
    let mut sum = 0;
    for number in 0..many {
        own.push(number);
        if number % 3 == 0
            && let Some(number) = own.pop()
        {
            sum += number;
            done.fetch_add(1, Ordering::SeqCst);
        }
    }
    sum += all(stealing).await.into_iter().sum::<u64>();
    assert_eq!(sum, (0..many).sum::<u64>(), "each number is taken once");
}
