//! The state of the arrivals of a run.

use runyard_engine::time::Time;
use runyard_workload::arrivals::{Arrivals, ArrivalsSpec};

/// The state of all arrivals.
#[derive(Debug)]
pub(crate) struct Requests<'s> {
    times: Vec<Arrivals<'s>>,
    /// The number of arrivals of which another request comes.
    left: usize,
    /// For each of the arrivals, the number of tasks that it started and that have not ended.
    alive: Vec<u32>,
}

impl<'s> Requests<'s> {
    pub(crate) fn new(arrivals: &'s [ArrivalsSpec], seed: u64) -> Requests<'s> {
        let times = |(nth, spec): (u32, &'s ArrivalsSpec)| Arrivals::new(&spec.times, nth, seed);
        Requests {
            times: (0..).zip(arrivals).map(times).collect(),
            left: arrivals.len(),
            alive: vec![0; arrivals.len()],
        }
    }

    /// Returns whether there will be another request.
    pub(crate) fn come(&self) -> bool {
        self.left > 0
    }

    /// Returns the time of the next request of the arrivals with this number, if there is one.
    pub(crate) fn next(&mut self, nth: u32) -> Option<Time> {
        let next = self.times[nth as usize].next();
        self.left -= usize::from(next.is_none());
        next
    }

    /// Returns the number of tasks that the arrivals with this number started and that have not ended.
    pub(crate) fn alive(&self, nth: u32) -> u32 {
        self.alive[nth as usize]
    }

    /// Notes that the arrivals with this number started a task.
    pub(crate) fn began(&mut self, nth: u32) {
        self.alive[nth as usize] += 1;
    }

    /// Notes the end of a task that the arrivals with this number started.
    pub(crate) fn ended(&mut self, nth: u32) {
        self.alive[nth as usize] -= 1;
    }
}
