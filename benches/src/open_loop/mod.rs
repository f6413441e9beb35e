//! The latency of requests that arrive at random in an open loop: p99.9 slowdown against load, on two CPUs. `cargo run
//! --profile dist -p runyard-benches --bin open_loop` prints the tables. `docs/figures/performance.md` has the figures
//! and the method.
//!
//! A point is a mix of requests, a side that answers them, and a load: the part of both CPUs that the requests' service
//! times ask for. The sides of a load take turns and answer the same requests. A request computes in one piece, like
//! code written without a scheduler in mind. A request below the mean service time of its mix is of the short class,
//! and only some sides know the class.
//!
//! **Acceptance of requests** takes no third CPU. One task sleeps until the next request is due and starts it; it
//! preempts any request. On the runtime it is a real-time task. Beside tokio and the kernel's threads it is a
//! SCHED_FIFO thread, so that no peer accepts requests later. Its CPU time belongs to the side and is not part of the
//! load.
//!
//! Invariants: a sojourn counts from the moment at which a request was *due*. Every request is answered, or the
//! measurement panics.
//!
//! Rejected: polling for arrivals on a third CPU, or on one of the two, which changes the meaning of load; acceptance
//! by a task of tokio, which would let requests arrive in bursts after each long one.

mod ask;
mod compare;
mod hosts;
mod mix;
mod service;
mod simulated;
mod slowdown;
mod spin;
mod table;
mod trace;

pub use compare::{Told, compare};
pub use mix::Mix;
pub use slowdown::{Round, Slowdowns};

use crate::live::rates::median;
use ask::Ask;
use runyard_engine::time::Nanos;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use service::Service;
use simulated::simulated;
use spin::Spin;
use std::sync::Arc;
use trace::Trace;

/// Number of CPUs that answer requests.
pub const CPUS: usize = 2;

/// The bounds of slowdowns. Published systems are compared by a p99.9 of 50. On a shared machine with short service
/// times, other programs determine p99.9, so there are goals for p99 too.
pub const GOALS: [Goal; 4] = [
    Goal { quantile: Quantile::P999, most: 10.0 },
    Goal { quantile: Quantile::P999, most: 20.0 },
    Goal { quantile: Quantile::P999, most: 50.0 },
    Goal { quantile: Quantile::P99, most: 50.0 },
];

/// The least part of the arriving requests that a side must answer; below it the side is saturated.
const KEEPS_UP: f64 = 0.99;

/// The system that answers requests.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Tasks of tokio, on two workers
    Tokio,
    /// A pool of kernel threads, SCHED_OTHER
    Threads,
    /// Two such pools; threads of the short class are SCHED_FIFO
    ThreadsRt,
    /// Tasks of the runtime, all at nice 0
    RunyardFair,
    /// Tasks of the runtime: the short class is SCHED_FIFO
    RunyardRt,
    /// Tasks of the runtime, all at nice 0: the short class has latency nice -20
    RunyardLatencyNice,
    /// The simulator: first come, first served, without preemption
    SimFcfs,
    /// The simulator: all at nice 0
    SimFair,
    /// The simulator: the short class is SCHED_FIFO
    SimRt,
    /// The simulator: all at nice 0, and the short class has latency nice -20
    SimLatencyNice,
    /// Like `sim-fcfs`, without scheduling costs
    IdealFcfs,
    /// Like `sim-fair`, without scheduling costs
    IdealFair,
    /// Like `sim-rt`, without scheduling costs
    IdealRt,
    /// Like `sim-latency-nice`, without scheduling costs
    IdealLatencyNice,
}

/// The extent of a measurement.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The loads in ascending order.
    pub loads: Vec<f64>,
    /// Length of a point; `None` for the mix's own length.
    pub seconds: Option<f64>,
    /// Number of measurements of each point, each with different requests.
    pub rounds: u64,
}

/// The measured figures.
#[derive(Clone, Debug, Serialize)]
pub struct OpenLoopFigures {
    schema: &'static str,
    /// Steps of the computation that stand for a service time of one microsecond.
    steps_per_us: f64,
    /// The points, by mix and load.
    pub points: Vec<Point>,
}

/// A side under a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// The mix of requests.
    pub mix: Mix,
    /// The side that answered them.
    pub side: Side,
    /// The part of all CPUs that they asked for.
    pub load: f64,
    /// The figures of each seed; empty if this machine does not permit the side.
    pub rounds: Vec<Round>,
}

/// A bound of a slowdown.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Goal {
    pub quantile: Quantile,
    pub most: f64,
}

/// A quantile over all requests of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Quantile {
    P99,
    P999,
}

/// The load that a side sustains.
#[derive(Clone, Debug, Serialize)]
pub struct Highest {
    /// The mix of requests.
    pub mix: Mix,
    /// The side that answered them.
    pub side: Side,
    /// For each of [`GOALS`], the highest load up to which the slowdown is within the goal.
    pub loads: [Option<f64>; GOALS.len()],
}

impl OpenLoopFigures {
    /// Calibrates this machine and returns empty figures. From here on the calling thread, and all threads that it
    /// starts, have two CPUs.
    ///
    /// # Panics
    ///
    /// Panics if the process has only one CPU.
    #[must_use]
    pub fn on_two_cpus() -> OpenLoopFigures {
        let allowed = sched_getaffinity(None).expect("a thread has an affinity");
        let mut own = CpuSet::new();
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        cpus.take(CPUS).for_each(|cpu| own.set(cpu));
        assert_eq!(own.count() as usize, CPUS, "the benchmark needs {CPUS} CPUs");
        sched_setaffinity(None, &own).expect("these are allowed");
        let steps_per_us = Spin::calibrate().steps_per_us;
        OpenLoopFigures { schema: "runyard.open-loop/1", steps_per_us, points: Vec::new() }
    }

    /// Measures `sides` under all loads of a mix. Calls `next` before each point.
    pub fn add(&mut self, mix: Mix, sides: &[Side], effort: &Effort, next: impl Fn(f64, Side)) {
        let span = Nanos((effort.seconds.unwrap_or(mix.seconds()) * 1e9) as u64);
        let spin = Spin { steps_per_us: self.steps_per_us };
        for &load in &effort.loads {
            let point = |&side| Point { mix, side, load, rounds: Vec::new() };
            let mut points: Vec<_> = sides.iter().map(point).collect();
            for seed in 0..effort.rounds {
                let trace = Trace::draw(mix, load, span, seed);
                for point in &mut points {
                    next(load, point.side);
                    let ends = point.side.ends(&trace, spin);
                    point.rounds.extend(ends.map(|ends| Round::new(&trace, &ends)));
                }
            }
            self.points.extend(points);
        }
    }

    /// Returns the load that each side sustains, by mix.
    #[must_use]
    pub fn highest(&self) -> Vec<Highest> {
        let mut all: Vec<_> = self.points.iter().map(|point| (point.mix, point.side)).collect();
        all.sort_unstable();
        all.dedup();
        let highest = |(mix, side)| {
            let points = || self.points.iter().filter(move |p| (p.mix, p.side) == (mix, side));
            let loads = GOALS.map(|goal| highest(points(), goal));
            Highest { mix, side, loads }
        };
        all.into_iter().map(highest).collect()
    }

    /// Returns the figures as tables in plain text.
    #[must_use]
    pub fn tables(&self) -> String {
        table::render(self)
    }

    /// Returns the figures as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            measured: &'a OpenLoopFigures,
            goals: [Goal; GOALS.len()],
            highest: Vec<Highest>,
        }
        let whole = Whole { measured: self, goals: GOALS, highest: self.highest() };
        serde_json::to_string_pretty(&whole).expect("all keys are strings")
    }
}

/// Returns the highest load of a side below the first load that is known to miss the goal.
fn highest<'a>(points: impl Iterator<Item = &'a Point>, goal: Goal) -> Option<f64> {
    let known = points.filter_map(|point| Some((point.load, point.is_within(goal)?)));
    known.take_while(|&(_, within)| within).map(|(load, _)| load).last()
}

impl Point {
    /// Returns the median of each figure over the seeds.
    #[must_use]
    pub fn median(&self) -> Option<Round> {
        let first = *self.rounds.first()?;
        let of = |figure: fn(&Round) -> Option<f64>| {
            let mut figures: Vec<_> = self.rounds.iter().filter_map(figure).collect();
            (figures.len() == self.rounds.len()).then(|| median(&mut figures))
        };
        Some(Round {
            achieved: of(|round| Some(round.achieved))?,
            all: Slowdowns {
                count: first.all.count,
                p50: of(|round| round.all.p50),
                p99: of(|round| round.all.p99),
                p999: of(|round| round.all.p999),
            },
            short: Slowdowns {
                count: first.short.count,
                p50: of(|round| round.short.p50),
                p99: of(|round| round.short.p99),
                p999: of(|round| round.short.p999),
            },
        })
    }

    /// Returns whether the point reaches a goal, or `None` if that is not known.
    fn is_within(&self, goal: Goal) -> Option<bool> {
        let all = self.median()?.all;
        let slowdown = match goal.quantile {
            Quantile::P99 => all.p99,
            Quantile::P999 => all.p999,
        };
        if self.is_saturated() { Some(false) } else { Some(slowdown? <= goal.most) }
    }

    /// Returns whether the side answers fewer requests than arrive.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        self.median().is_some_and(|median| median.achieved < KEEPS_UP)
    }
}

impl Side {
    /// Returns the end of each request, or `None` if this machine does not permit the side.
    fn ends(self, trace: &Trace, spin: Spin) -> Option<Vec<Nanos>> {
        let service = || Arc::new(Service::new(trace.clone(), spin));
        let runyard = |ask| Some(hosts::runyard(&service(), ask));
        let sim = |ask| Some(simulated(trace, ask, true));
        let ideal = |ask| Some(simulated(trace, ask, false));
        match self {
            Side::Tokio => Some(hosts::tokio(&service())),
            Side::Threads => hosts::threads(&service(), false),
            Side::ThreadsRt => hosts::threads(&service(), true),
            Side::RunyardFair => runyard(Ask::Fair),
            Side::RunyardRt => runyard(Ask::ShortRt),
            Side::RunyardLatencyNice => runyard(Ask::ShortLatencyNice),
            Side::SimFcfs => sim(Ask::Fcfs),
            Side::SimFair => sim(Ask::Fair),
            Side::SimRt => sim(Ask::ShortRt),
            Side::SimLatencyNice => sim(Ask::ShortLatencyNice),
            Side::IdealFcfs => ideal(Ask::Fcfs),
            Side::IdealFair => ideal(Ask::Fair),
            Side::IdealRt => ideal(Ask::ShortRt),
            Side::IdealLatencyNice => ideal(Ask::ShortLatencyNice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::within_time;
    use clap::ValueEnum;

    fn figures(achieved: f64, p999: Option<f64>) -> Round {
        let slowdowns = Slowdowns { count: 10_000, p50: Some(1.0), p99: Some(2.0), p999 };
        Round { achieved, all: slowdowns, short: slowdowns }
    }

    fn measured(points: &[(f64, Round)]) -> OpenLoopFigures {
        let point =
            |&(load, round)| Point { mix: Mix::B1, side: Side::Tokio, load, rounds: vec![round] };
        let points = points.iter().map(point).collect();
        OpenLoopFigures { schema: "", steps_per_us: 1.0, points }
    }

    #[test]
    fn every_side_answers_every_request() {
        let rounds = within_time(|| {
            let spin = Spin::calibrate();
            let trace = Trace::draw(Mix::B4, 0.2, Nanos::from_millis(200), 1);
            let ends = |&side: &Side| (side, side.ends(&trace, spin), trace.clone());
            Side::value_variants().iter().map(ends).collect::<Vec<_>>()
        });
        for (side, ends, trace) in rounds {
            let Some(ends) = ends else {
                assert_eq!(side, Side::ThreadsRt, "only that may be refused");
                continue;
            };
            let round = Round::new(&trace, &ends);
            assert!(round.all.p50.is_some_and(|p50| p50 > 0.5), "{side:?}: {round:?}");
        }
    }

    #[test]
    fn the_highest_load_is_before_the_first_that_is_too_much() {
        let points = [
            (0.1, figures(1.0, None)),
            (0.3, figures(1.0, Some(9.0))),
            (0.5, figures(1.0, Some(19.0))),
            (0.7, figures(1.0, Some(51.0))),
            (0.8, figures(1.0, Some(49.0))),
        ];
        let loads = [Some(0.3), Some(0.5), Some(0.5), Some(0.8)];
        assert_eq!(measured(&points).highest()[0].loads, loads);
        let saturated = [(0.1, figures(0.98, Some(1.0))), (0.3, figures(1.0, Some(1.0)))];
        assert_eq!(measured(&saturated).highest()[0].loads, [None; 4]);
    }

    #[test]
    fn every_figure_has_a_place() {
        let mut measured = measured(&[(0.1, figures(1.0, Some(9.5))), (0.9, figures(0.5, None))]);
        measured.points.push(Point {
            mix: Mix::B3,
            side: Side::ThreadsRt,
            load: 0.5,
            rounds: Vec::new(),
        });
        let text = measured.tables();
        let words: Vec<Vec<_>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        let figures = ["1.0", "2.0", "9.5", "1.0", "2.0", "9.5"];
        assert_eq!(words[1][..5], ["B1", "tokio", "0.10", "1.000", "10000"], "{text}");
        assert_eq!(words[1][5..], figures, "{text}");
        assert_eq!(words[2].last(), Some(&"saturated"), "{text}");
        assert_eq!(words[3][..], ["B3", "threads-rt", "0.50", "not", "permitted"], "{text}");
        assert_eq!(words[6][..], ["B1", "tokio", "0.10", "0.10", "0.10", "0.10"], "{text}");
        assert!(measured.json().contains(r#""side": "threads-rt""#));
    }
}
