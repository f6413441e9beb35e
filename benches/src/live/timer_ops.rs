//! The cost of a sleep that never expires, because most timers are timeouts that are armed and cancelled. A sleep is
//! created, polled once, which arms it, and dropped, beside a number of others that stay armed.
//!
//! The same task arms the others, so that ours are all in the measured queue: there is one for each CPU. tokio has one
//! wheel. All are spread evenly over the next 1,000 seconds, which is the worst case of a sorted queue. tokio rounds
//! them to milliseconds; ours are exact to the nanosecond.

use super::Effort;
use super::host::{Host, Runyard, Tokio, workers};
use super::rates::{Comparison, Peer, in_turns};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Numbers of other armed timers.
const OTHERS: [(usize, &str); 4] = [
    (10, "sleep and drop, 10 armed"),
    (1_000, "sleep and drop, 1,000 armed"),
    (100_000, "sleep and drop, 100,000 armed"),
    (1_000_000, "sleep and drop, 1,000,000 armed"),
];

/// First and last expiry in nanoseconds from now. No timer expires during the measurement.
const FIRST: u64 = 60_000_000_000;
const LAST: u64 = 1_060_000_000_000;

/// Number of operations between two yields. tokio suspends a task that polls 128 of its futures without a yield.
const BATCH: usize = 100;

/// Measures both sides, in turns.
pub(crate) fn measure(effort: &Effort) -> Vec<Comparison> {
    let beside = |(others, name)| {
        let ours = || nanos_each::<Runyard>(effort, others);
        in_turns(name, Peer::Tokio, effort, ours, || nanos_each::<Tokio>(effort, others))
    };
    OTHERS.map(beside).into()
}

/// A generator of spans with the same seed on both sides (`xorshift64`).
struct Spans(u64);

impl Spans {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_nanos(FIRST + self.0 % (LAST - FIRST))
    }
}

/// Returns the time of arming and cancelling beside `others` armed timers.
fn nanos_each<H: Host>(effort: &Effort, others: usize) -> f64 {
    let (span, iterations) = (effort.span, effort.iterations);
    let host = H::start(workers());
    let measured = host.spawn_from_outside(async move {
        let mut spans = Spans(0x9e37_79b9_7f4a_7c15);
        let mut armed: Vec<Pin<Box<H::Sleep>>> = Vec::with_capacity(others);
        while armed.len() < others {
            let batch = BATCH.min(others - armed.len());
            poll_fn(|cx| {
                let arm = |_| {
                    let mut sleep = Box::pin(H::sleep(spans.next()));
                    is_armed(sleep.as_mut(), cx);
                    sleep
                };
                armed.extend((0..batch).map(arm));
                Poll::Ready(())
            })
            .await;
            H::yield_now().await;
        }
        let (started, mut batches) = (Instant::now(), 0);
        loop {
            poll_fn(|cx| {
                (0..BATCH).for_each(|_| is_armed(pin!(H::sleep(spans.next())), cx));
                Poll::Ready(())
            })
            .await;
            batches += 1;
            let elapsed = started.elapsed();
            if iterations.map_or(elapsed >= span, |most| batches >= most) {
                break elapsed.as_nanos() as f64 / (batches * BATCH as u64) as f64;
            }
            H::yield_now().await;
        }
    });
    host.block_on(measured).expect("nothing panics")
}

/// Polls a sleep and asserts that it waits.
fn is_armed<S: Future<Output = ()>>(sleep: Pin<&mut S>, cx: &mut Context<'_>) {
    assert!(sleep.poll(cx).is_pending(), "its time has not come");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::within_time;

    #[test]
    fn each_side_has_a_figure() {
        let effort = Effort {
            rounds: 1,
            iterations: Some(2),
            span: Duration::ZERO,
            periods: 0,
            situation: None,
        };
        let same = effort.clone();
        let ours = within_time(move || nanos_each::<Runyard>(&same, 150));
        let theirs = within_time(move || nanos_each::<Tokio>(&effort, 150));
        assert!(ours > 0.0 && theirs > 0.0, "{ours} {theirs}");
    }
}
