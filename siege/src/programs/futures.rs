//! futures-util: futures that share one result, and sets of futures. Both take locks of their own where they call
//! wakers.

use super::all;
use crate::draws::Draws;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use runyard::{spawn, time, yield_now};
use std::time::Duration;

/// Awaits one result in many tasks.
pub async fn shared(mut draws: Draws) {
    let (tasks, value, pause) = (draws.within(2, 24), draws.number(), draws.below(800));
    let result = async move {
        time::sleep(Duration::from_micros(pause)).await;
        yield_now().await;
        vec![value; 64]
    };
    let result = result.boxed().shared();
    let waits = (0..tasks).map(|_| spawn(result.clone()));
    let got = all(waits.collect::<Vec<_>>()).await;
    assert!(got.iter().flatten().all(|&got| got == value), "all see one result");
    assert_eq!(got.len() as u64, tasks);
}

/// Collects a set of futures: tasks, timers and yields. Each future is ready once.
pub async fn unordered(mut draws: Draws) {
    let many = draws.within(4, 64);
    let set: FuturesUnordered<_> = (0..many)
        .map(|nth| {
            let (kind, pause) = (draws.below(3), Duration::from_micros(draws.below(1_500)));
            async move {
                match kind {
                    0 => time::sleep(pause).await,
                    1 => yield_now().await,
                    _ => spawn(time::sleep(pause)).await.expect("it sleeps"),
                }
                nth
            }
        })
        .collect();
    let mut done: Vec<u64> = spawn(set.collect()).await.expect("it collects");
    done.sort_unstable();
    assert!(done.into_iter().eq(0..many), "each future is ready once");
}
