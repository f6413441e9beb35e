//! The number of different tasks that a task wakes (`record_wakee` of Linux).

use crate::time::{Nanos, Time};

/// The time after which the flips of a task are halved.
const HALVED_AFTER: Nanos = Nanos::from_secs(1);

/// The number of times that a task woke another one than the time before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wakees {
    last: Option<u64>,
    flips: u32,
    halved: Time,
}

impl Wakees {
    /// Notes that it wakes the task with this number.
    pub(crate) fn note(&mut self, now: Time, wakee: u64) {
        if now.since(self.halved.min(now)) > HALVED_AFTER {
            (self.flips, self.halved) = (self.flips / 2, now);
        }
        if self.last != Some(wakee) {
            (self.last, self.flips) = (Some(wakee), self.flips.saturating_add(1));
        }
    }

    /// Returns its recent flips.
    pub(crate) fn flips(&self) -> u32 {
        self.flips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_are_changes_of_the_wakee_and_are_halved_each_second() {
        let mut wakees = Wakees::default();
        let at = |ms| Time::ZERO + Nanos::from_millis(ms);
        let flips =
            [(0, 7), (1, 7), (2, 8), (3, 7), (1_000, 8), (1_001, 8), (2_001, 8), (2_002, 9)].map(
                |(ms, id)| {
                    wakees.note(at(ms), id);
                    wakees.flips()
                },
            );
        assert_eq!(flips, [1, 1, 2, 3, 4, 2, 2, 2]);
    }
}
