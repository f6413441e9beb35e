//! The place of a task in its program, and the walk to its next step. This part of running a scenario is the same on
//! every host.
//!
//! A [`Cursor`] walks through the rounds of a thread object, of its phases and of their steps. The host performs the
//! step, or [`Sharing`](crate::objects::Sharing) if the step concerns other tasks.

use crate::scenario::{Phase, Step, TaskSpec, TimerMode};
use runyard_engine::time::{Nanos, Time};

/// The step that a task is at, or reaches next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    round: u32,
    /// The number of the phase in the program.
    pub phase: usize,
    phase_round: u32,
    /// The number of the step in the phase.
    pub step: usize,
}

/// The next part of a program.
#[derive(Debug)]
pub enum Next<'s> {
    /// A phase begins with properties that differ from the current ones. They hold from now on.
    Phase(&'s Phase),
    /// A step begins.
    Step(Step),
    /// The program ends.
    End,
}

/// A position in a program. It begins before the first step, with the properties of the first phase in force.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    place: Place,
    /// Whether the phase at `place` has begun.
    begun: bool,
    /// The phase with the properties in force.
    applied: usize,
}

impl Cursor {
    /// Returns the place of the step that the task is at, or reaches next.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Advances in the program of `spec` by one step, or to the begin of a phase.
    pub fn go_on<'s>(&mut self, spec: &'s TaskSpec) -> Next<'s> {
        loop {
            if spec.loops.is_some_and(|loops| self.place.round >= loops) {
                return Next::End;
            }
            let Some(phase) = spec.phases.get(self.place.phase) else {
                let round = self.place.round.saturating_add(1);
                self.place = Place { round, ..Place::default() };
                continue;
            };
            if !self.begun {
                self.begun = true;
                if std::mem::replace(&mut self.applied, self.place.phase) != self.place.phase {
                    return Next::Phase(phase);
                }
            }
            if let Some(step) = phase.steps.get(self.place.step) {
                self.place.step += 1;
                return Next::Step(step);
            }
            self.place.step = 0;
            self.place.phase_round = self.place.phase_round.saturating_add(1);
            if phase.loops.is_some_and(|loops| self.place.phase_round >= loops) {
                self.place.phase_round = 0;
                self.place.phase += 1;
                self.begun = false;
            }
        }
    }
}

/// The result of a `timer` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The begin of the period that the task waits for.
    pub due: Time,
    /// Whether that time has passed, so that there is no wait.
    pub missed: bool,
    /// The time from which the next period counts.
    pub kept: Time,
    /// The periods that are left out since a relative timer was reached too late, in thousandths.
    pub omitted: u64,
}

impl Period {
    /// One period, in the unit of [`Period::omitted`].
    pub const WHOLE: u64 = 1_000;

    /// Returns the period after the one that began at `last`, as of `now`.
    #[must_use]
    pub fn after(last: Time, period: Nanos, mode: TimerMode, now: Time) -> Period {
        let due = last + period;
        let missed = due <= now;
        let shifts = missed && mode == TimerMode::Relative;
        let late = if shifts { now.since(due) } else { Nanos::ZERO };
        let omitted = (u128::from(late.0) * u128::from(Period::WHOLE)).checked_div(period.0.into());
        let omitted = omitted.map_or(0, |omitted| omitted as u64);
        Period { due, missed, kept: due + late, omitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_period_shifts_the_later_ones_of_a_relative_timer_only() {
        let after = |mode, now| Period::after(Time(100), Nanos(50), mode, Time(now));
        let kept = Period { due: Time(150), missed: false, kept: Time(150), omitted: 0 };
        assert_eq!(after(TimerMode::Relative, 149), kept);
        assert_eq!(after(TimerMode::Absolute, 149), kept);
        let missed = Period { missed: true, ..kept };
        assert_eq!(after(TimerMode::Absolute, 170), missed);
        let shifted = Period { kept: Time(170), omitted: 400, ..missed };
        assert_eq!(after(TimerMode::Relative, 170), shifted);
        let always = Period::after(Time(100), Nanos(0), TimerMode::Relative, Time(170));
        assert_eq!((always.kept, always.omitted), (Time(170), 0));
    }
}
