//! rayon: threads that are not workers wait for tasks, and tasks wait for such threads.

use super::all;
use crate::draws::Draws;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use runyard::spawn;
use std::sync::Arc;

/// Computes in the process's pool, which the first task makes.
pub async fn global_pool(mut draws: Draws) {
    let (tasks, many) = (draws.within(1, 5), draws.within(1, 20_000));
    let sum =
        |nth: u64| spawn(async move { (0..many).into_par_iter().map(|it| it ^ nth).sum::<u64>() });
    let sums = all((0..tasks).map(sum).collect::<Vec<_>>()).await;
    for (nth, sum) in (0..tasks).zip(sums) {
        assert_eq!(sum, (0..many).map(|it| it ^ nth).sum::<u64>());
    }
}

/// Computes in a pool that the round makes and drops. Its threads and the tasks share a lock.
pub async fn own_pool(mut draws: Draws) {
    let (tasks, many, threads) = (draws.within(1, 4), draws.within(1, 400), draws.within(1, 4));
    let pool: ThreadPool =
        ThreadPoolBuilder::new().num_threads(threads as usize).build().expect("a pool of rayon");
    let (pool, count) = (Arc::new(pool), Arc::new(std::sync::Mutex::new(0)));
    let work = |_| {
        let (pool, count) = (pool.clone(), count.clone());
        spawn(async move {
            let add = |_| *count.lock().expect("no task panics") += 1;
            pool.install(|| (0..many).into_par_iter().for_each(add));
            (0..many).for_each(add);
        })
    };
    all((0..tasks).map(work).collect::<Vec<_>>()).await;
    assert_eq!(*count.lock().expect("no task panics"), 2 * tasks * many);
}
