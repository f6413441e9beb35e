//! The waits by cause over the time of a run, in the steps of its [history](crate::history).
//!
//! At the end of each step the collector asks for the sums of all waits up to that moment, open ones included
//! ([`Waits::sums`](super::Waits::sums)); the differences between two ends are the step. To ask changes nothing, so the sums
//! of a run are the same with and without steps.
//!
//! The clocks of a CPU forget the oldest of very many changes within one stretch, so an open wait may get another cause when
//! it ends than it had at the end of a step. Then the step keeps its time, and what is too much is taken from the last steps.
//!
//! Invariant: the steps of a cause sum to the waits of the machine by this cause, to the nanosecond.

use crate::history::{FIRST_SHIFT, STEPS};
use crate::why::{Cause, CauseTimes};
use runyard_engine::time::{Nanos, Time};

/// Collects the steps of one run.
#[derive(Debug)]
pub(crate) struct WaitSteps {
    /// The beginning of the first step.
    begin: Time,
    /// The width of a step is 2^shift nanoseconds.
    shift: u32,
    steps: Vec<CauseTimes>,
    /// The sums up to the end of the last step.
    counted: CauseTimes,
    /// The end of the open step.
    end: Option<Time>,
    is_over: bool,
}

impl WaitSteps {
    /// The first step begins at `begin`.
    pub(crate) fn new(begin: Time) -> WaitSteps {
        let mut new = WaitSteps {
            begin,
            shift: FIRST_SHIFT,
            steps: Vec::with_capacity(STEPS),
            counted: CauseTimes::NONE,
            end: None,
            is_over: false,
        };
        new.end = new.end_after(Nanos::ZERO);
        new
    }

    /// Whether the open step ends at `now` or before.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.end.is_some_and(|end| end <= now)
    }

    /// The end of the open step, if it is not after `now`.
    pub(crate) fn next(&mut self, now: Time) -> Option<Time> {
        if !self.is_due(now) {
            return None;
        }
        let done = self.end.map_or(0, |end| end.since(self.begin).0 - (1 << self.shift));
        if self.reach(now) {
            self.end = self.end_after(Nanos(done));
        }
        self.end.filter(|&end| end <= now)
    }

    /// Ends the open step at its end. `sums` are all waits up to then.
    pub(crate) fn count(&mut self, sums: &CauseTimes) {
        let Some(end) = self.end else { return };
        let end = end.since(self.begin);
        self.add(((end.0 - 1) >> self.shift) as usize, sums);
        self.end = self.end_after(end);
    }

    /// Ends the run at `now`. `sums` are all its waits.
    pub(crate) fn finish(&mut self, sums: &CauseTimes, now: Time) {
        self.reach(now);
        let last = now.since(self.begin).0.saturating_sub(1) >> self.shift;
        self.add(last as usize, sums);
        for cause in Cause::ALL {
            let mut excess = self.counted[cause].saturating_sub(sums[cause]);
            for step in self.steps.iter_mut().rev() {
                let taken = excess.min(step[cause]);
                step[cause] -= taken;
                excess -= taken;
            }
        }
        (self.counted, self.end, self.is_over) = (*sums, None, true);
    }

    /// Says whether the steps are not all of the waits, of which `sums` are those until now.
    pub(crate) fn broken(&self, sums: &CauseTimes) -> Option<String> {
        let expected = if self.is_over { sums } else { &self.counted };
        let mut all = CauseTimes::NONE;
        self.steps.iter().for_each(|step| all.add(step));
        (all != *expected).then(|| format!("tasks waited {expected:?}, in steps {all:?}"))
    }

    /// The width of a step, in nanoseconds.
    pub(crate) fn step_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The steps, from the beginning to the last one in which a task waited.
    pub(crate) fn steps(&self) -> &[CauseTimes] {
        &self.steps
    }

    /// The end of the step that begins at `done` or before, and ends after it; `None` if time does not reach so far.
    fn end_after(&self, done: Nanos) -> Option<Time> {
        let end = ((done.0 >> self.shift) + 1).checked_mul(1 << self.shift)?;
        self.begin.0.checked_add(end).map(Time)
    }

    /// Makes steps that reach until `now`. Returns whether they are wider than before.
    fn reach(&mut self, now: Time) -> bool {
        let before = self.shift;
        while now.since(self.begin).0.saturating_sub(1) >> self.shift >= STEPS as u64 {
            self.shift += 1;
            let pairs = self.steps.chunks(2).map(|pair| {
                let mut both = pair[0];
                pair.iter().skip(1).for_each(|second| both.add(second));
                both
            });
            self.steps = pairs.collect();
        }
        self.shift > before
    }

    /// Gives what was not counted yet to a step.
    fn add(&mut self, step: usize, sums: &CauseTimes) {
        for cause in Cause::ALL {
            let more = sums[cause].saturating_sub(self.counted[cause]);
            if more == 0 {
                continue;
            }
            if self.steps.len() <= step {
                self.steps.resize(step + 1, CauseTimes::NONE);
            }
            self.steps[step][cause] += more;
            self.counted[cause] += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(turn: u64, balance: u64) -> CauseTimes {
        let mut sums = CauseTimes::NONE;
        (sums[Cause::Turn], sums[Cause::Balance]) = (turn, balance);
        sums
    }

    #[test]
    fn a_wait_that_gets_another_cause_at_its_end_is_taken_back() {
        let mut steps = WaitSteps::new(Time::ZERO);
        for waited in [sums(10, 20), sums(10, 25), sums(40, 15)] {
            assert_eq!(steps.next(Time(3_500)).map(|end| end.0 % 1_024), Some(0));
            steps.count(&waited);
        }
        assert_eq!(steps.next(Time(3_500)), None);
        steps.finish(&sums(42, 18), Time(3_500));
        assert_eq!(steps.steps(), [sums(10, 18), sums(0, 0), sums(30, 0), sums(2, 0)]);
        assert_eq!(steps.broken(&sums(42, 18)), None);
        assert!(steps.broken(&sums(42, 19)).is_some());
    }

    #[test]
    fn a_pause_widens_the_open_step() {
        let mut steps = WaitSteps::new(Time(7));
        assert_eq!(steps.next(Time(7 + 1_023)), None);
        assert_eq!(steps.next(Time(7 + 1_024)), Some(Time(7 + 1_024)));
        steps.count(&sums(1, 0));
        let end = Time(7 + 400 * 1_024);
        let ends: Vec<_> = std::iter::from_fn(|| {
            let end = steps.next(end)?;
            steps.count(&sums(end.0, 0));
            Some(end.0)
        })
        .collect();
        assert_eq!((ends.len(), ends[0], ends[1]), (200, 7 + 2_048, 7 + 4_096));
        steps.finish(&sums(end.0, 0), end);
        assert_eq!((steps.step_ns(), steps.steps().len()), (2_048, 200));
        assert_eq!(steps.broken(&sums(end.0, 0)), None);
    }
}
