//! Arrivals: requests that come from outside, whether or not the last one is done.
//!
//! [`Arrivals`] gives their times, the same for a seed on each host. The host does what an arrival asks for.
//!
//! ```
//! use runyard_engine::time::Nanos;
//! use runyard_workload::arrivals::Arrivals;
//! use runyard_workload::{Overrides, parse};
//!
//! let text = r#"{
//!     "arrivals": {"request": {"rate": 1000, "sem_post": "work"}},
//!     "tasks": {"worker": {"sem_wait": "work", "run": 500}},
//!     "global": {"duration": 10},
//! }"#;
//! let scenario = parse("-", text, &Overrides::default()).unwrap().scenario;
//! let arrivals = Arrivals::new(&scenario.arrivals[0].times, 0, 1);
//! let within = arrivals.take_while(|at| at.0 < Nanos::from_secs(10).0).count();
//! assert!((9_700..10_300).contains(&within));
//! ```

use crate::draw::{Draw, Stream, below, exponential, stream};
use crate::ids::{ObjectId, SpecId};
use rand_pcg::Pcg64Mcg;
use runyard_engine::time::{Nanos, Time};

/// Requests from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalsSpec {
    /// The key of the object.
    pub name: String,
    /// The times.
    pub times: Times,
    /// The effect of each.
    pub to: Receiver,
    /// The largest value of the semaphore, or number of started tasks that have not ended. An arrival beyond it is
    /// refused.
    pub bound: Option<u32>,
}

/// The times of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// One after another, the first after the first gap.
    Every {
        /// The time between two of them, of which some draws are above zero.
        gap: Draw,
        /// The longest random delay of each, which does not shift the later ones.
        jitter: Nanos,
    },
    /// At random, independent of each other (a Poisson process): from each time on with this number a second. The times
    /// rise.
    Rates(Vec<(Nanos, f64)>),
    /// At these times since the begin of the run, which do not fall.
    At(&'static [Nanos]),
}

impl Times {
    /// Returns whether there is always another one.
    #[must_use]
    pub fn are_endless(&self) -> bool {
        match self {
            Times::Every { .. } => true,
            Times::Rates(rates) => rates.last().is_some_and(|&(_, rate)| rate > 0.0),
            Times::At(_) => false,
        }
    }
}

/// The effect of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// It posts this semaphore.
    Semaphore(ObjectId),
    /// It starts a task that runs this thread object.
    Task(SpecId),
}

/// The times of arrivals in a run, one after another.
#[derive(Clone, Debug)]
pub struct Arrivals<'s> {
    times: &'s Times,
    draws: Pcg64Mcg,
    /// The time of the last one, without its jitter, in nanoseconds.
    last: f64,
    /// The place in a list.
    at: usize,
}

impl<'s> Arrivals<'s> {
    /// Returns the times of the arrivals with the number `nth` in a run with `seed`.
    #[must_use]
    pub fn new(times: &'s Times, nth: u32, seed: u64) -> Arrivals<'s> {
        Arrivals { times, draws: stream(seed, Stream::Arrivals(nth)), last: 0.0, at: 0 }
    }

    /// Returns the next time of a Poisson process whose rate changes. An exponential number of mean 1 is spent at the
    /// current rate, piece by piece.
    fn at_rate(&mut self, rates: &[(Nanos, f64)]) -> Option<f64> {
        let mut left = exponential(&mut self.draws);
        loop {
            let &(begin, rate) = rates.get(self.at)?;
            let end = rates.get(self.at + 1).map_or(f64::INFINITY, |&(next, _)| next.0 as f64);
            let (from, rate) = (self.last.max(begin.0 as f64), rate / 1e9);
            if rate > 0.0 && from + left / rate <= end {
                return Some(from + left / rate);
            }
            if rate > 0.0 {
                left = (left - (end - from) * rate).max(0.0);
            }
            (self.last, self.at) = (end, self.at + 1);
        }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let mut late = 0;
        self.last = match self.times {
            Times::Every { gap, jitter } => {
                let gap = gap.sample(&mut self.draws);
                late = below(&mut self.draws, jitter.0 + 1);
                self.last + gap.0 as f64
            }
            Times::Rates(rates) => self.at_rate(rates)?,
            Times::At(times) => {
                self.at += 1;
                times.get(self.at - 1)?.0 as f64
            }
        };
        Some(Time(libm::round(self.last) as u64 + late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn within(times: &Times, seconds: std::ops::Range<u64>) -> usize {
        let range = seconds.start * SECOND.0..seconds.end * SECOND.0;
        let arrivals = Arrivals::new(times, 0, 1).map(|at| at.0);
        arrivals.take_while(|&at| at < range.end).filter(|at| range.contains(at)).count()
    }

    #[test]
    fn rates_change_at_their_times() {
        let times = Times::Rates(vec![(SECOND, 100.0), (Nanos::from_secs(10), 0.0)]);
        assert_eq!((within(&times, 0..1), within(&times, 10..99)), (0, 0));
        assert!((800..1000).contains(&within(&times, 1..10)));
        assert!(!times.are_endless());
        let more = Times::Rates(vec![(Nanos::ZERO, 0.001), (Nanos::from_secs(5), 1e4)]);
        assert!(within(&more, 0..5) < 2);
        assert!((49_300..50_700).contains(&within(&more, 5..10)));
    }

    #[test]
    fn a_jitter_does_not_shift_the_later_ones() {
        let (gap, jitter) = (Draw::Fixed(Nanos(100)), Nanos(100));
        let times = Times::Every { gap, jitter };
        let mut late = Vec::new();
        for (nth, at) in (1..).zip(Arrivals::new(&times, 0, 1)).take(1_000) {
            late.push(at.0 - nth * 100);
        }
        assert!(late.iter().all(|late| (0..=100).contains(late)));
        assert!(late.contains(&0) && late.contains(&100));
    }

    #[test]
    fn listed_times_come_as_they_are() {
        let times = Times::At(&[Nanos(5), Nanos(5), Nanos(9)]);
        let all: Vec<_> = Arrivals::new(&times, 0, 1).collect();
        assert_eq!(all, [Time(5), Time(5), Time(9)]);
    }

    /// The expected values are those of the first machine that ran this test.
    #[test]
    fn arrivals_are_the_same_on_every_machine() {
        let times = Times::Rates(vec![(Nanos::ZERO, 700.0), (Nanos(1_000_000), 300.0)]);
        let all: Vec<_> = Arrivals::new(&times, 3, 1).take(3).map(|at| at.0).collect();
        assert_eq!(all, [514_840, 4_963_352, 6_646_094]);
    }
}
