//! Coroutines on stacks that have no room for a signal handler.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use runyard::{Runtime, Task, spawn, time};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The size of their stacks, in bytes. The kernel's frame of a signal and a handler take more.
const STACK: usize = 4 << 10;

/// Seen failing: the process died by SIGSEGV.
#[test]
fn tasks_are_stopped_on_small_stacks() {
    let runtime = Runtime::builder().workers(2).statistics(true).build();
    let stops = runtime.block_on(async {
        let ticks = async {
            let mut interval = time::interval(Duration::from_micros(200));
            loop {
                interval.tick().await;
            }
        };
        let ticker = Task::builder().fifo(50).spawn(ticks);
        let end = Instant::now() + Duration::from_secs(1);
        let tasks: Vec<_> = (0..4).map(|seed| spawn(async move { resumes(seed, end) })).collect();
        for task in tasks {
            assert!(task.await.unwrap() > 0);
        }
        ticker.task().abort();
        runtime.snapshot().ended.preemptions.important
    });
    assert!(stops > 100, "{stops} preemptions");
}

/// Resumes a coroutine that computes, until `end`. Returns how often.
fn resumes(seed: u64, end: Instant) -> u64 {
    let stack = DefaultStack::new(STACK).unwrap();
    let mut coroutine = Coroutine::with_stack(stack, |yielder, mut word: Option<u64>| {
        // A half of its stack is in use.
        let mut used = [0_u8; STACK / 2];
        black_box(&mut used);
        // It ends by itself: to unwind it takes more than its stack has.
        while let Some(mut next) = word {
            for _ in 0..20_000 {
                next = black_box(next).wrapping_mul(6_364_136_223_846_793_005) | 1;
            }
            word = yielder.suspend(next);
        }
        black_box(&used);
    });
    let (mut word, mut times): (u64, u64) = (seed, 0);
    while let CoroutineResult::Yield(next) =
        coroutine.resume((Instant::now() < end).then_some(word))
    {
        (word, times) = (next, times + 1);
    }
    times
}
