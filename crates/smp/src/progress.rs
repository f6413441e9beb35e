//! The balance state of a CPU: the times of its next passes, and their success at each level.
//!
//! A run-queue lock protects it ([`crate::machine`]); [`crate::balance`] uses it.

use crate::sight::Sight;
use runyard_engine::balance::{
    Domain, Found, IdleKind, MAX_INTERVAL_PER_CPU, MAX_PINNED_INTERVAL, Measure,
};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Features;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::{Level, Topology};

/// The shortest interval between two idle balances. It is also the time that a CPU waits after a search without result
/// before it looks again for CPUs to give waiting tasks to. One jiffy at the 250 Hz of most distributions.
pub(crate) const IDLE_BALANCE_INTERVAL: Nanos = Nanos::from_millis(4);

/// The largest number of levels.
pub(crate) const LEVELS: usize = 3;

/// (l) The balance state of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Balance {
    levels: [Progress; LEVELS],
    /// The earliest time at which a level may be due for a busy CPU, at a tick.
    pub(crate) next_balance: Time,
    /// The time from which the CPU tries again to give waiting tasks away.
    pub(crate) next_give_away: Time,
    /// The time from which a newly idle CPU searches again.
    pub(crate) next_search: Time,
    /// The state of the random draws.
    draws: u32,
}

/// The progress of a CPU at one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) last: Time,
    pub(crate) interval: Nanos,
    /// The number of passes in a row that moved no task.
    pub(crate) failed: u32,
    newly_idle: NewlyIdle,
}

/// The success rate of a newly idle CPU at a level (`update_newidle_stats`).
#[derive(Clone, Copy, Debug)]
struct NewlyIdle {
    tries: u32,
    successes: u32,
    /// The number of successes in the last [`TRIES`] tries.
    ratio: u32,
}

/// The number of tries after which the ratio is computed again and the counts are halved.
const TRIES: u32 = 1_024;

/// The outcome of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Balanced,
    Moved(u32),
    /// The tasks to move may not run on this CPU.
    Pinned,
    /// A task should move from this CPU and could not. With a measure, a running task of that measure may be taken
    /// instead.
    Failed(CpuId, Option<Measure>),
}

impl Outcome {
    pub(crate) fn found(self) -> Found {
        match self {
            Outcome::Balanced => Found::Balance,
            Outcome::Moved(tasks) => Found::Tasks(tasks),
            Outcome::Pinned => Found::Pinned,
            Outcome::Failed(..) => Found::Nothing,
        }
    }
}

impl Balance {
    pub(crate) fn new(cpu: CpuId, topology: Topology, features: Features) -> Balance {
        let newly_idle = NewlyIdle { tries: TRIES / 2, successes: TRIES / 4, ratio: TRIES / 2 };
        let progress = |level| {
            let interval = Domain::of(level, topology, features).min_interval;
            Progress { last: Time::ZERO, interval, failed: 0, newly_idle }
        };
        let levels = [Level::Smt, Level::Node, Level::Machine].map(progress);
        let [next_balance, next_give_away, next_search] = [Time::ZERO; 3];
        let draws = cpu.index() as u32;
        Balance { levels, next_balance, next_give_away, next_search, draws }
    }

    /// Draws whether a newly idle CPU balances at a level (`NI_RANDOM`). If it does, returns the number of tries that
    /// this pass stands for.
    pub(crate) fn draws_to_balance(&mut self, level: Level) -> Option<u32> {
        // The constants of Numerical Recipes for 32 bits, of which the upper bits are used.
        self.draws = self.draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (draw, weight) = (self.draws >> 22, 1 + self.of(level).newly_idle.ratio);
        if draw > weight {
            self.of(level).note_newly_idle(0);
            return None;
        }
        Some((TRIES + weight / 2) / weight)
    }

    /// Returns whether a pass may be due at this tick of a busy CPU.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next_balance <= now
    }

    /// Returns the levels that are due, and restarts their intervals.
    pub(crate) fn begin_due(
        &mut self,
        sight: &Sight,
        now: Time,
        idle_kind: IdleKind,
    ) -> [bool; LEVELS] {
        let (tick, most) = (sight.config.tick, MAX_INTERVAL_PER_CPU.0 * sight.nr_cpus() as u64);
        let (mut due, mut next_balance) = ([false; LEVELS], Time::MAX);
        for &(level, domain) in &sight.domains {
            let progress = self.of(level);
            let factor = if idle_kind == IdleKind::Busy { domain.busy_factor } else { 1 };
            let interval = Nanos(progress.interval.0 * factor);
            // The shorter interval keeps busy CPUs from being due at several levels at the same ticks
            // (`get_sd_balance_interval`).
            let sooner = domain.by_room && idle_kind == IdleKind::Busy;
            let interval = if sooner { interval.saturating_sub(tick) } else { interval };
            let interval = interval.min(Nanos(most)).max(tick);
            if progress.last + interval <= now {
                progress.last = now;
                due[level as usize] = true;
            }
            let crowded = if domain.spreads { IDLE_BALANCE_INTERVAL } else { interval };
            next_balance = next_balance.min(progress.last + interval).min(now + crowded);
        }
        self.next_balance = next_balance;
        due
    }

    pub(crate) fn of(&mut self, level: Level) -> &mut Progress {
        &mut self.levels[level as usize]
    }
}

impl Progress {
    /// Counts a try of a newly idle CPU with this number of successes.
    pub(crate) fn note_newly_idle(&mut self, successes: u32) {
        let seen = &mut self.newly_idle;
        seen.tries += 1;
        seen.successes += successes;
        if seen.tries >= TRIES {
            let ratio = seen.successes.min(TRIES);
            *seen = NewlyIdle { tries: seen.tries / 2, successes: seen.successes / 2, ratio };
        }
    }

    /// Records the outcome of a pass for the next ones. Returns whether a running task should be taken.
    pub(crate) fn note(&mut self, outcome: Outcome, domain: Domain) -> bool {
        let longer = Nanos(self.interval.0 * 2);
        match outcome {
            Outcome::Moved(_) => (self.failed, self.interval) = (0, domain.min_interval),
            Outcome::Balanced if self.interval < domain.max_interval => {
                (self.failed, self.interval) = (0, longer);
            }
            Outcome::Balanced => self.failed = 0,
            Outcome::Pinned => {
                self.failed = 0;
                self.interval = longer.min(MAX_PINNED_INTERVAL);
            }
            Outcome::Failed(..) => {
                self.failed += 1;
                self.interval = domain.min_interval;
            }
        }
        self.failed > domain.cache_nice_tries + 2
    }
}
