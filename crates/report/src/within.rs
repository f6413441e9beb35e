//! The latencies that ended within given spans of a run, whatever part of it its report counts.

use crate::histogram::Histogram;
use runyard_engine::time::{Nanos, Time};
use std::ops::Range;

/// The latencies of one thing, span by span. Spans may overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Within(Vec<(Range<Time>, Histogram)>);

/// The latencies of the tasks, by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct TasksWithin {
    none: Within,
    tasks: Vec<Within>,
}

impl Within {
    pub(crate) fn new(spans: &[Range<Time>]) -> Within {
        Within(spans.iter().map(|span| (span.clone(), Histogram::default())).collect())
    }

    /// Counts a latency that ends at `now`.
    #[inline]
    pub(crate) fn record(&mut self, now: Time, latency: Nanos) {
        for (_, latencies) in self.0.iter_mut().filter(|(span, _)| span.contains(&now)) {
            latencies.record(latency);
        }
    }

    /// The latencies that ended within one of the given spans.
    pub(crate) fn of(&self, span: &Range<Time>) -> Option<&Histogram> {
        self.0.iter().find(|(given, _)| given == span).map(|(_, latencies)| latencies)
    }
}

impl TasksWithin {
    pub(crate) fn new(spans: &[Range<Time>]) -> TasksWithin {
        TasksWithin { none: Within::new(spans), tasks: Vec::new() }
    }

    pub(crate) fn record(&mut self, task: usize, now: Time, latency: Nanos) {
        if task >= self.tasks.len() {
            self.tasks.resize(task + 1, self.none.clone());
        }
        self.tasks[task].record(now, latency);
    }

    pub(crate) fn of(&self, task: usize, span: &Range<Time>) -> Option<&Histogram> {
        self.tasks.get(task).unwrap_or(&self.none).of(span)
    }
}
