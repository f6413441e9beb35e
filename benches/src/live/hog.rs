//! Go's `PingPongHog`: two tasks pass a token to and fro, and a third computes and never waits, all on one worker. The
//! figure is the pair's rate beside the hog over its rate alone.
//!
//! On a cooperative runtime the hog keeps the worker until it ends, so the pair makes no progress. That is measured
//! too, over the same span, without a wait for progress.

use super::Effort;
use super::host::{Host, Runyard, Tokio};
use super::rates::median;
use serde::Serialize;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Time limit for the start of the hog.
const HOG_STARTS_WITHIN: Duration = Duration::from_secs(5);

/// The rate of a pair of tasks beside a hog.
#[derive(Clone, Debug, Serialize)]
pub struct BesideHog {
    /// Name of the runtime.
    pub host: &'static str,
    /// Round trips per second without the hog: the median over the rounds.
    pub alone_per_s: f64,
    /// Round trips per second with the hog: the median over the rounds.
    pub beside_per_s: f64,
    /// The rate with the hog over that without it: the median over the rounds.
    pub ratio: f64,
    /// The least and the greatest ratio of a round.
    pub ratio_range: [f64; 2],
}

/// Measures both runtimes, in turns.
pub(crate) fn measure(effort: &Effort) -> [BesideHog; 2] {
    let (mut tokio, mut runyard) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        tokio.push(rates::<Tokio>(effort.span));
        runyard.push(rates::<Runyard>(effort.span));
    }
    [summary("runyard", &runyard), summary("tokio", &tokio)]
}

fn summary(host: &'static str, rounds: &[Rates]) -> BesideHog {
    let median_of = |figure: fn(&Rates) -> f64| {
        let mut figures: Vec<_> = rounds.iter().map(figure).collect();
        (median(&mut figures), [figures[0], figures[figures.len() - 1]])
    };
    let (ratio, ratio_range) = median_of(|rates| rates.beside / rates.alone);
    let (alone_per_s, _) = median_of(|rates| rates.alone);
    let (beside_per_s, _) = median_of(|rates| rates.beside);
    BesideHog { host, alone_per_s, beside_per_s, ratio, ratio_range }
}

/// Round trips per second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    alone: f64,
    beside: f64,
}

/// Measures both rates over `span` each.
fn rates<H: Host>(span: Duration) -> Rates {
    let host = H::start(1);
    let pair = Pair::start(&host);
    let alone = pair.rate(span);
    let (started, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let hog = host.spawn_from_outside(hog(started.clone(), stop.clone()));
    let waiting = Instant::now();
    while !started.load(Ordering::Acquire) {
        assert!(waiting.elapsed() < HOG_STARTS_WITHIN, "the pair keeps the hog from its CPU");
        thread::sleep(Duration::from_micros(100));
    }
    let beside = pair.rate(span);
    stop.store(true, Ordering::Relaxed);
    host.block_on(async {
        hog.await.expect("the hog does not panic");
        pair.end().await;
    });
    Rates { alone, beside }
}

/// Computes in one poll until `stop` is set.
async fn hog(started: Arc<AtomicBool>, stop: Arc<AtomicBool>) {
    started.store(true, Ordering::Release);
    while !stop.load(Ordering::Relaxed) {
        black_box(0);
    }
}

/// Two tasks that pass a token to and fro until they are stopped.
struct Pair<H: Host> {
    round_trips: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tasks: [H::Join<()>; 2],
}

impl<H: Host> Pair<H> {
    fn start(host: &H) -> Pair<H> {
        let (ping, mut pinged) = mpsc::channel(1);
        let (pong, mut ponged) = mpsc::channel(1);
        let (round_trips, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let answering = host.spawn_from_outside(async move {
            while let Some(()) = pinged.recv().await {
                pong.send(()).await.expect("the receiver waits");
            }
        });
        let (counter, over) = (round_trips.clone(), stop.clone());
        let asking = host.spawn_from_outside(async move {
            while !over.load(Ordering::Relaxed) {
                ping.send(()).await.expect("the other task receives");
                ponged.recv().await.expect("the other task answers");
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Pair { round_trips, stop, tasks: [asking, answering] }
    }

    /// Returns the round trips per second over the next `span`.
    fn rate(&self, span: Duration) -> f64 {
        let (started, before) = (Instant::now(), self.round_trips.load(Ordering::Relaxed));
        thread::sleep(span);
        let done = self.round_trips.load(Ordering::Relaxed) - before;
        done as f64 / started.elapsed().as_secs_f64()
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("the pair does not panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;

    /// A span of several turns of fair tasks.
    const SPAN: Duration = Duration::from_millis(100);

    #[test]
    fn a_pair_goes_on_beside_a_hog_that_is_preempted() {
        let rates = within_time(|| rates::<Runyard>(SPAN));
        assert!(rates.alone > 0.0 && rates.beside > 0.0, "{rates:?}");
    }

    #[test]
    fn a_pair_starves_beside_a_hog_that_is_not() {
        let rates = within_time(|| rates::<Tokio>(SPAN));
        assert!(rates.alone > 0.0, "{rates:?}");
        assert!(rates.beside < rates.alone / 100.0, "{rates:?}");
    }
}
