//! The times that tasks take, from the steps that they take: the delay of each round of a task that a timer starts, and
//! whether it was done in time.

use crate::figure::{micros, percent};
use runyard_engine::time::{Nanos, Time};
use runyard_report::Histogram;

/// The first step of a round, in which the task waits for its beginning, and the next step.
const WAITS: usize = 0;
const BEGINS: usize = 1;

/// The times of tasks, and what they have done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Took {
    /// Of the rounds of a task: the time from when a round was due to its beginning. As in cyclictest, only rounds count
    /// for which the task was woken.
    pub(crate) times: Histogram,
    pub(crate) done: u64,
    /// What was not done in time.
    pub(crate) late: u64,
}

impl Took {
    /// The sum over several tasks or runs.
    pub(crate) fn sum<'t>(all: impl IntoIterator<Item = &'t Took>) -> Took {
        all.into_iter().fold(Took::default(), |mut sum, one| {
            sum.times.merge(&one.times);
            Took { done: sum.done + one.done, late: sum.late + one.late, ..sum }
        })
    }

    /// The part that was not done in time, in per cent. Who did nothing has none.
    pub(crate) fn late_percent(&self) -> f64 {
        if self.done == 0 { f64::NAN } else { percent(self.late as f64 / self.done as f64) }
    }

    /// The mean time, in us.
    pub(crate) fn mean(&self) -> f64 {
        self.times.mean().map_or(f64::NAN, micros)
    }

    /// The time that so many of a thousand do not exceed, in us.
    pub(crate) fn quantile(&self, permille: u32) -> f64 {
        self.times.quantile(1_000 * permille).map_or(f64::NAN, micros)
    }

    /// The longest time, in us.
    pub(crate) fn max(&self) -> f64 {
        self.times.max().map_or(f64::NAN, micros)
    }
}

/// The rounds of one task. The first is due a period after the beginning of the run. Rounds that are due before `from`
/// do not count.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    period: Nanos,
    /// The time within which a round must be done after it was due.
    within: Nanos,
    from: Time,
    /// The due time of the present or next round.
    due: Time,
    /// Whether the task came back before the round was due, so that it is woken for it.
    waits: bool,
}

impl Requests {
    pub(crate) const fn new(period: Nanos, within: Nanos, from: Time) -> Requests {
        Requests { period, within, from, due: Time::ZERO, waits: false }
    }

    /// Notes that the task takes this step of its only phase.
    pub(crate) fn step(&mut self, step: usize, now: Time, took: &mut Took) {
        match step {
            WAITS => {
                if self.counts() {
                    took.done += 1;
                    took.late += u64::from(now > self.due + self.within);
                }
                self.due = self.due + self.period;
                self.waits = now < self.due;
            }
            BEGINS if self.waits && self.counts() => took.times.record(now.since(self.due)),
            _ => {}
        }
    }

    /// Whether the present round counts. Before the first round there is none.
    fn counts(&self) -> bool {
        self.due > Time::ZERO && self.due >= self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rounds of a task that waits and begins at these microseconds, with a period of 1 ms of which it may use
    /// half.
    fn seen(steps: &[(usize, u64)], from: u64) -> Took {
        let us = Nanos::from_micros;
        let mut rounds = Requests::new(us(1_000), us(500), Time::ZERO + us(from));
        let mut took = Took::default();
        for &(step, at) in steps {
            rounds.step(step, Time::ZERO + us(at), &mut took);
        }
        took
    }

    #[test]
    fn a_round_is_late_by_when_it_was_due_not_by_when_it_began() {
        let took = seen(&[(0, 0), (1, 1_020), (0, 1_500), (1, 2_400), (0, 2_501)], 0);
        assert_eq!((took.done, took.late, took.late_percent()), (2, 1, 50.0));
        assert_eq!((took.times.count(), took.max()), (2, 400.0));
    }

    #[test]
    fn who_comes_too_late_to_wait_was_not_woken_up() {
        let took = seen(&[(0, 0), (1, 2_100), (0, 2_200), (1, 2_200), (0, 2_300), (1, 3_005)], 0);
        assert_eq!((took.done, took.late, took.times.count()), (2, 1, 2));
        assert_eq!(took.times.min(), Some(Nanos::from_micros(5)));
    }

    #[test]
    fn what_was_due_before_is_not_counted() {
        let steps = [(0, 0), (1, 1_020), (0, 1_900), (1, 2_001), (0, 2_100)];
        let took = seen(&steps, 2_000);
        assert_eq!((took.done, took.late, took.times.count()), (1, 0, 1));
        assert!(
            seen(&steps[..1], 0).late_percent().is_nan(),
            "nothing is done, so nothing is in time"
        );
    }
}
