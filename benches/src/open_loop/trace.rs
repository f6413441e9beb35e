//! The arrival times of requests: a Poisson process, drawn before the measurement, so that every side answers the same
//! requests.

use super::CPUS;
use super::mix::{Class, Mix};
use runyard_engine::time::Nanos;
use runyard_workload::draw::{Draw, Stream, below, stream};
use runyard_workload::scenario::SpecId;

/// All requests of a point in order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) mix: Mix,
    /// Span in which requests arrive.
    pub(crate) span: Nanos,
    pub(crate) requests: Vec<Request>,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Due time, from the beginning on; the sojourn counts from here.
    pub(crate) arrival: Nanos,
    /// Index among the kinds of the mix.
    pub(crate) kind: usize,
}

impl Trace {
    /// Draws requests over `span` that ask for the part `load` of all CPUs.
    pub(crate) fn draw(mix: Mix, load: f64, span: Nanos, seed: u64) -> Trace {
        let mut random = stream(seed, Stream::Task(SpecId(mix as u32), (load * 1e6) as u32));
        let gap = Draw::Exponential(Nanos((mix.mean().0 as f64 / (load * CPUS as f64)) as u64));
        let mut arrival = gap.sample(&mut random);
        let mut requests = Vec::new();
        while arrival < span {
            let nth = below(&mut random, 1_000);
            requests.push(Request { arrival, kind: kind_of(mix, nth) });
            arrival += gap.sample(&mut random);
        }
        Trace { mix, span, requests }
    }

    pub(crate) fn service(&self, request: Request) -> Nanos {
        self.mix.kinds()[request.kind].service
    }

    pub(crate) fn class(&self, request: Request) -> Class {
        self.mix.class(request.kind)
    }
}

/// Returns the kind of the `nth` of a thousand requests in order of kinds.
fn kind_of(mix: Mix, nth: u64) -> usize {
    let mut below = 0;
    let kinds = mix.kinds().iter();
    let mut upper = kinds.map(|kind| {
        below += kind.per_mille;
        below
    });
    upper.position(|upper| nth < upper).expect("the kinds are a thousand")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Nanos = Nanos::from_secs(60);

    #[test]
    fn a_seed_repeats_its_requests_and_another_does_not() {
        let drawn = |seed| Trace::draw(Mix::B4, 0.5, Nanos::from_secs(1), seed).requests;
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn the_offered_load_is_what_was_asked_for() {
        for mix in [Mix::B1, Mix::B3, Mix::B4] {
            let trace = Trace::draw(mix, 0.7, MINUTE, 1);
            let work = trace.requests.iter().map(|&request| trace.service(request).0).sum::<u64>();
            let load = work as f64 / (MINUTE.0 * CPUS as u64) as f64;
            assert!((load - 0.7).abs() < 0.02, "{mix:?}: {load}");
            let expected = 0.7 * (MINUTE.0 * CPUS as u64) as f64 / mix.mean().0 as f64;
            let rate = trace.requests.len() as f64 / expected;
            assert!((rate - 1.0).abs() < 0.01, "{mix:?}: {rate} of the rate");
        }
    }

    #[test]
    fn arrivals_are_memoryless() {
        let trace = Trace::draw(Mix::B4, 0.5, MINUTE, 1);
        let gaps = trace.requests.windows(2).map(|two| (two[1].arrival - two[0].arrival).0 as f64);
        let (count, sum, squares) =
            gaps.fold((0.0, 0.0, 0.0), |(n, s, q), gap| (n + 1.0, s + gap, q + gap * gap));
        let (mean, variance) = (sum / count, squares / count - (sum / count) * (sum / count));
        assert!((variance / (mean * mean) - 1.0).abs() < 0.02, "{variance} for {mean}");
    }
}
