//! Timing of operations by repetition: ours and a peer's in turns, so that other work of the machine affects both
//! alike. A round from which the hypervisor stole CPU time is repeated.

use super::Effort;
use super::host::{Runyard, Tokio, workers};
use super::steal::Look;
use super::tasks::{Bench, Prepared, Sizes};
use crate::median;
use serde::Serialize;
use std::f64::consts::LN_2;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Greatest part of the CPUs' time that may be stolen in a round that counts. One kernel tick in a round of 0.6 s on
/// two CPUs is 0.8 %: one tick is chance, and three are a neighbour.
const MOST_STOLEN: f64 = 0.02;

/// Greatest number of tries for each round that is to count.
const TRIES: usize = 3;

/// Confidence of the interval of the median ratio.
const CONFIDENCE: f64 = 0.95;

/// The peer of a comparison.
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
    /// Name of the workload.
    pub workload: &'static str,
    /// The peer of the comparison.
    pub peer: Peer,
    /// Our cost of an operation: the median over the rounds.
    pub runyard_ns: f64,
    /// The peer's cost of an operation: the median over the rounds.
    pub peer_ns: f64,
    /// Our cost over the peer's: the median over the rounds.
    pub ratio: f64,
    /// The least and the greatest ratio of a round.
    pub ratio_range: [f64; 2],
    /// The 95 % confidence interval of the median ratio; with fewer than six rounds, the range.
    pub ratio_interval: [f64; 2],
    /// Number of rounds that count.
    pub rounds: usize,
    /// Whether all rounds count because too few were free of steal time.
    pub stolen: bool,
}

/// The sizes for this process's number of workers.
fn sizes() -> Sizes {
    Sizes { workers: workers(), ..Sizes::FULL }
}

/// Measures both sides, in turns.
pub(crate) fn compare(
    workload: &'static str,
    bench: Bench,
    peer: Peer,
    effort: &Effort,
) -> Comparison {
    let ours = || nanos_each(effort, || Prepared::<Runyard>::new(bench, sizes()));
    in_turns(workload, peer, effort, ours, || match peer {
        Peer::Tokio => nanos_each(effort, || Prepared::<Tokio>::new(bench, sizes())),
        Peer::Kernel => nanos_each(effort, || KernelPair(Sizes::FULL.round_trips)),
    })
}

/// Compares the costs of an operation that `ours` and `theirs` return for a turn each.
pub(crate) fn in_turns(
    workload: &'static str,
    peer: Peer,
    effort: &Effort,
    ours: impl Fn() -> f64,
    theirs: impl Fn() -> f64,
) -> Comparison {
    let (rounds, stolen) = until_enough_count(effort.rounds, |nth| {
        let before = Look::now();
        // The second side finds warmer caches, so the order alternates.
        let (ours_ns, peer_ns) = if nth % 2 == 0 {
            let peer_ns = theirs();
            (ours(), peer_ns)
        } else {
            (ours(), theirs())
        };
        Round { ours_ns, peer_ns, stolen: Look::now().stolen_since(&before) }
    });
    let figures = |figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
    let mut ratios = figures(|round| round.ours_ns / round.peer_ns);
    let ratio = median(&mut ratios);
    Comparison {
        workload,
        peer,
        runyard_ns: median(&mut figures(|round| round.ours_ns)),
        peer_ns: median(&mut figures(|round| round.peer_ns)),
        ratio,
        ratio_range: [ratios[0], ratios[ratios.len() - 1]],
        ratio_interval: interval_of_median(&ratios),
        rounds: rounds.len(),
        stolen,
    }
}

/// One turn of each side.
#[derive(Clone, Copy, Debug)]
struct Round {
    ours_ns: f64,
    peer_ns: f64,
    /// The part of the CPUs' time that was stolen meanwhile.
    stolen: f64,
}

/// Tries rounds until `wanted` of them count. If too few of all tries count, returns all of them and `true`.
fn until_enough_count(wanted: usize, try_one: impl FnMut(usize) -> Round) -> (Vec<Round>, bool) {
    let counts = |round: &Round| round.stolen <= MOST_STOLEN;
    let (mut all, mut counting) = (Vec::new(), 0);
    for round in (0..wanted * TRIES).map(try_one) {
        counting += usize::from(counts(&round));
        all.push(round);
        if counting == wanted {
            all.retain(counts);
            return (all, false);
        }
    }
    (all, true)
}

/// Returns the interval of the median at [`CONFIDENCE`] or more: the innermost two of the `sorted` figures between
/// which the median of their distribution lies. The number of figures below that median is binomial for any
/// distribution. With too few figures for this confidence, returns their range.
fn interval_of_median(sorted: &[f64]) -> [f64; 2] {
    let n = sorted.len();
    // The logarithm of the probability that exactly `below` figures are below the median. With many rounds the first of
    // these probabilities is too small for a float.
    let mut log = -(n as f64) * LN_2;
    let (mut below, mut tail) = (0, log.exp());
    while tail <= (1.0 - CONFIDENCE) / 2.0 {
        log += ((n - below) as f64 / (below + 1) as f64).ln();
        below += 1;
        tail += log.exp();
    }
    let first = below.saturating_sub(1);
    [sorted[first], sorted[n - 1 - first]]
}

/// Sorts the figures and returns their median.
pub(crate) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    median::median(&*figures).expect("there are figures")
}

/// A repeatable workload that reports its number of operations.
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

/// Returns the time of an operation, without set-up and the first iteration.
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

/// Two kernel threads that make this number of round trips: the cost of [`Bench::Pair`] on the kernel's own scheduler,
/// for scale.
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
        let effort = Effort {
            rounds: 3,
            iterations: Some(1),
            span: Duration::ZERO,
            periods: 0,
            situation: None,
        };
        let found = within_time(move || compare("pair", Bench::Pair, Peer::Kernel, &effort));
        assert!(found.runyard_ns > 0.0 && found.peer_ns > 0.0, "{found:?}");
        let [least, greatest] = found.ratio_range;
        assert!(0.0 < least && least <= found.ratio && found.ratio <= greatest, "{found:?}");
        assert!(found.rounds == 3 || found.stolen && found.rounds == 3 * TRIES, "{found:?}");
        let [from, to] = found.ratio_interval;
        assert!(least <= from && from <= to && to <= greatest, "{found:?}");
        // Three rounds say no more.
        assert!(found.rounds > 3 || found.ratio_interval == found.ratio_range, "{found:?}");
    }

    fn stolen(part: f64) -> Round {
        Round { ours_ns: 1.0, peer_ns: 1.0, stolen: part }
    }

    #[test]
    fn a_round_is_tried_again_if_its_cpus_were_taken() {
        let parts = [0.0, 0.5, 0.01, 0.03, MOST_STOLEN];
        let (rounds, all) = until_enough_count(3, |nth| stolen(parts[nth]));
        let kept: Vec<_> = rounds.iter().map(|round| round.stolen).collect();
        assert_eq!((kept, all), (vec![0.0, 0.01, MOST_STOLEN], false));
    }

    #[test]
    fn all_rounds_count_if_too_few_had_their_cpus() {
        let (rounds, all) = until_enough_count(2, |nth| stolen(if nth == 4 { 0.0 } else { 1.0 }));
        assert_eq!((rounds.len(), all), (2 * TRIES, true));
    }

    /// The expected positions are computed from binomial coefficients in integers.
    #[test]
    fn the_interval_of_the_median_is_that_of_the_sign_test() {
        let places =
            [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (15, 4), (20, 6), (30, 10), (100, 40)];
        for (n, place) in places {
            let sorted: Vec<_> = (1..=n).map(f64::from).collect();
            let expected = [f64::from(place), f64::from(n + 1 - place)];
            assert_eq!(interval_of_median(&sorted), expected, "of {n}");
        }
        let many = vec![1.0; 10_000];
        assert_eq!(interval_of_median(&many), [1.0; 2]);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
