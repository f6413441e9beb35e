//! The rounds of a task that a timer starts, from the steps that it takes: the delay of each round, and whether it was
//! done in time.

use crate::figure::percent;
use runyard_engine::time::{Nanos, Time};
use runyard_report::Histogram;

/// The first step of a round, in which the task waits for its beginning, and the next step.
const WAITS: usize = 0;
const BEGINS: usize = 1;

/// The rounds of one task. The first is due a period after the beginning of the run. Rounds that are due before `from`
/// do not count.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    period: Nanos,
    /// The time within which a round must be done after it was due.
    within: Nanos,
    from: Time,
    /// The due time of the present or next round.
    due: Time,
    /// Whether the task came back before the round was due, so that it is woken for it.
    waits: bool,
    /// The time from a round's due time to its beginning. As in cyclictest, only rounds count for which the task was
    /// woken.
    pub(super) latency: Histogram,
    pub(super) done: u64,
    pub(super) late: u64,
}

impl Rounds {
    pub(super) fn new(period: Nanos, within: Nanos, from: Time) -> Rounds {
        Rounds {
            period,
            within,
            from,
            due: Time::ZERO,
            waits: false,
            latency: Histogram::default(),
            done: 0,
            late: 0,
        }
    }

    /// Notes that the task takes this step of its only phase.
    pub(super) fn step(&mut self, step: usize, now: Time) {
        match step {
            WAITS => {
                if self.counts() {
                    self.done += 1;
                    self.late += u64::from(now > self.due + self.within);
                }
                self.due = self.due + self.period;
                self.waits = now < self.due;
            }
            BEGINS if self.waits && self.counts() => {
                self.latency.record(now.since(self.due));
            }
            _ => {}
        }
    }

    /// Whether the present round counts. Before the first round there is none.
    fn counts(&self) -> bool {
        self.due > Time::ZERO && self.due >= self.from
    }

    /// The part of the rounds that were not done in time, in per cent.
    pub(super) fn late_percent(&self) -> f64 {
        percent(self.late as f64 / self.done.max(1) as f64)
    }

    /// The sum over several tasks.
    pub(super) fn sum(all: impl IntoIterator<Item = Rounds>) -> Option<Rounds> {
        all.into_iter().reduce(|mut sum, one| {
            sum.latency.merge(&one.latency);
            Rounds { done: sum.done + one.done, late: sum.late + one.late, ..sum }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rounds of a task that waits and begins at these microseconds, with a period of 1 ms of which it may use
    /// half.
    fn seen(steps: &[(usize, u64)], from: u64) -> Rounds {
        let us = Nanos::from_micros;
        let mut rounds = Rounds::new(us(1_000), us(500), Time::ZERO + us(from));
        for &(step, at) in steps {
            rounds.step(step, Time::ZERO + us(at));
        }
        rounds
    }

    #[test]
    fn a_round_is_late_by_when_it_was_due_not_by_when_it_began() {
        let rounds = seen(&[(0, 0), (1, 1_020), (0, 1_500), (1, 2_400), (0, 2_501)], 0);
        assert_eq!((rounds.done, rounds.late), (2, 1));
        let latency = rounds.latency;
        assert_eq!((latency.count(), latency.max()), (2, Some(Nanos::from_micros(400))));
    }

    #[test]
    fn who_comes_too_late_to_wait_was_not_woken_up() {
        let rounds = seen(&[(0, 0), (1, 2_100), (0, 2_200), (1, 2_200), (0, 2_300), (1, 3_005)], 0);
        assert_eq!((rounds.done, rounds.late), (2, 1));
        assert_eq!(rounds.latency.count(), 2);
        assert_eq!(rounds.latency.min(), Some(Nanos::from_micros(5)));
    }

    #[test]
    fn what_was_due_before_is_not_counted() {
        let steps = [(0, 0), (1, 1_020), (0, 1_900), (1, 2_001), (0, 2_100)];
        let rounds = seen(&steps, 2_000);
        assert_eq!((rounds.done, rounds.late, rounds.latency.count()), (1, 0, 1));
        assert_eq!(seen(&steps[..1], 0).done, 0);
    }

    #[test]
    fn several_tasks_are_counted_together() {
        let one = seen(&[(0, 0), (1, 1_020), (0, 1_900)], 0);
        let sum = Rounds::sum([one.clone(), one]).unwrap();
        assert_eq!((sum.done, sum.late, sum.latency.count()), (2, 2, 2));
    }
}
