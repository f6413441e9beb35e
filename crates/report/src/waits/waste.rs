//! Idle CPU time that waiting tasks could have used: at each moment as many of the idle CPUs as tasks wait.

use super::clocks::Kind;
use crate::why::{Cause, CauseTimes};
use runyard_engine::time::Time;

/// The numbers of idle CPUs and of waiting tasks, and the wasted time so far. The kinds have the numbers of tasks that wait on
/// busy CPUs.
#[derive(Debug, Default)]
pub(super) struct Waste {
    since: Time,
    pub(super) idle: u32,
    /// All tasks that wait.
    pub(super) waiting: u32,
    /// Those that wait on a CPU that is idle, or leaves its idle state.
    pub(super) starting: u32,
    /// Those in flight.
    pub(super) moving: u32,
    pub(super) throttled: u32,
    pub(super) rt_throttled: u32,
    pub(super) wasted: CauseTimes,
}

impl Waste {
    /// A machine of so many idle CPUs.
    pub(super) fn new(idle: u32) -> Waste {
        Waste { idle, ..Waste::default() }
    }

    /// Counts the time up to `now`. It is called before any of the numbers changes.
    #[inline]
    pub(super) fn advance(&mut self, kinds: &[Kind], now: Time) {
        if self.idle > 0 && self.waiting > 0 && now > self.since {
            self.count(kinds, now.since(self.since).0);
        }
        self.since = now;
    }

    /// Gives the idle CPUs to the waiting tasks.
    fn count(&mut self, kinds: &[Kind], span: u64) {
        let mut left = self.idle;
        let mut give = |cause, tasks: u32| {
            let given = left.min(tasks);
            left -= given;
            self.wasted[cause] += u64::from(given) * span;
        };
        give(Cause::Cost, self.starting);
        give(Cause::Migration, self.moving);
        let usable = |may: bool| {
            let of = kinds.iter().filter(move |kind| kind.has_inside() == may);
            of.map(|kind| kind.waiting).sum()
        };
        give(Cause::Balance, usable(true));
        give(Cause::Affinity, usable(false));
        give(Cause::Throttled, self.throttled);
        give(Cause::RtThrottled, self.rt_throttled);
    }
}
