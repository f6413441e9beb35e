//! Operations that are timed by doing many: ours and a peer's in turns, so that what else the
//! machine does meets both alike.

use super::Effort;
use super::host::{Runyard, Tokio};
use super::tasks::{Bench, Prepared, Sizes};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Whom we are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// tokio's multi-thread runtime.
    Tokio,
    /// Kernel threads that park and unpark.
    Kernel,
}

/// The costs of one operation, ours and the peer's.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What was done.
    pub workload: &'static str,
    /// Whom we are compared with.
    pub peer: Peer,
    /// Our cost of an operation: the median over the rounds.
    pub runyard_ns: f64,
    /// The peer's.
    pub peer_ns: f64,
    /// Ours over the peer's: the median over the rounds.
    pub ratio: f64,
    /// The least and the greatest ratio of a round.
    pub ratio_range: [f64; 2],
}

/// Measures both, in turns.
pub(crate) fn compare(
    workload: &'static str,
    bench: Bench,
    peer: Peer,
    effort: &Effort,
) -> Comparison {
    let ours = || nanos_each(effort, || Prepared::<Runyard>::new(bench, Sizes::FULL));
    in_turns(workload, peer, effort, ours, || match peer {
        Peer::Tokio => nanos_each(effort, || Prepared::<Tokio>::new(bench, Sizes::FULL)),
        Peer::Kernel => nanos_each(effort, || KernelPair(Sizes::FULL.round_trips)),
    })
}

/// Compares what `ours` and `theirs` take for an operation, as each says of a turn of its own.
pub(crate) fn in_turns(
    workload: &'static str,
    peer: Peer,
    effort: &Effort,
    ours: impl Fn() -> f64,
    theirs: impl Fn() -> f64,
) -> Comparison {
    let (mut runyard, mut others) = (Vec::new(), Vec::new());
    for round in 0..effort.rounds {
        // Whoever comes second finds warmer caches, so they take turns at that too.
        if round % 2 == 1 {
            runyard.push(ours());
        }
        others.push(theirs());
        if round % 2 == 0 {
            runyard.push(ours());
        }
    }
    let mut ratios: Vec<_> = runyard.iter().zip(&others).map(|(ours, peer)| ours / peer).collect();
    let ratio = median(&mut ratios);
    Comparison {
        workload,
        peer,
        runyard_ns: median(&mut runyard),
        peer_ns: median(&mut others),
        ratio,
        ratio_range: [ratios[0], ratios[ratios.len() - 1]],
    }
}

/// Sorts; the one in the middle.
pub(crate) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Something that is done again and again, and tells how many operations it did.
trait Iterate {
    fn iterate(&self) -> usize;
    fn end(self);
}

impl<H: super::host::Host> Iterate for Prepared<H> {
    fn iterate(&self) -> usize {
        Prepared::iterate(self)
    }

    fn end(self) {
        Prepared::end(self);
    }
}

/// The time that each operation takes, without set-up and the first iteration.
fn nanos_each<I: Iterate>(effort: &Effort, prepare: impl FnOnce() -> I) -> f64 {
    let prepared = prepare();
    prepared.iterate();
    let (started, mut operations, mut iterations) = (Instant::now(), 0, 0);
    let elapsed = loop {
        operations += prepared.iterate();
        iterations += 1;
        let elapsed = started.elapsed();
        let enough = match effort.iterations {
            Some(most) => iterations >= most,
            None => elapsed >= effort.span,
        };
        if enough {
            break elapsed;
        }
    };
    prepared.end();
    assert!(operations > 0, "an iteration does something");
    elapsed.as_nanos() as f64 / operations as f64
}

/// Two kernel threads that make so many round trips, for scale: what the kernel's own scheduler
/// takes for what [`Bench::Pair`] does.
struct KernelPair(usize);

impl Iterate for KernelPair {
    fn iterate(&self) -> usize {
        let (asks, asking) = (AtomicBool::new(false), thread::current());
        let mut done = 0;
        thread::scope(|scope| {
            let answering = scope.spawn(|| {
                for _ in 0..self.0 {
                    while !asks.load(Ordering::Acquire) {
                        thread::park();
                    }
                    asks.store(false, Ordering::Release);
                    asking.unpark();
                }
            });
            for _ in 0..self.0 {
                asks.store(true, Ordering::Release);
                answering.thread().unpark();
                while asks.load(Ordering::Acquire) {
                    thread::park();
                }
                done += 1;
            }
        });
        done
    }

    fn end(self) {}
}

#[cfg(test)]
mod tests {
    use super::super::within_time;
    use super::*;
    use std::time::Duration;

    #[test]
    fn kernel_threads_make_every_round_trip() {
        assert_eq!(within_time(|| KernelPair(41).iterate()), 41);
    }

    #[test]
    fn a_comparison_has_a_figure_of_each_and_their_ratio() {
        let effort = Effort { rounds: 3, iterations: Some(1), span: Duration::ZERO, periods: 0 };
        let found = within_time(move || compare("pair", Bench::Pair, Peer::Kernel, &effort));
        assert!(found.runyard_ns > 0.0 && found.peer_ns > 0.0, "{found:?}");
        let [least, greatest] = found.ratio_range;
        assert!(0.0 < least && least <= found.ratio && found.ratio <= greatest, "{found:?}");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
