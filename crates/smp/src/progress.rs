//! When a CPU balances next, and how that went at each level until now.
//!
//! It is part of what a run-queue lock protects ([`crate::machine`]); what is done with it is in
//! [`crate::balance`].

use runyard_engine::balance::{Domain, Found, MAX_PINNED_INTERVAL, Measure};
use runyard_engine::cpu::CpuId;
use runyard_engine::features::Features;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::topology::{Level, Topology};

/// How many levels there are at most.
pub(crate) const LEVELS: usize = 3;

/// (l) When a CPU balances next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Balance {
    levels: [Progress; LEVELS],
    /// When a level may be due for a busy CPU, at a tick.
    pub(crate) next_balance: Time,
    /// When a CPU tries again to give tasks away that wait.
    pub(crate) next_give_away: Time,
    /// When a CPU that becomes idle searches again.
    pub(crate) next_search: Time,
    /// What its draws follow from.
    draws: u32,
}

/// How a level goes for one CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) last: Time,
    pub(crate) interval: Nanos,
    /// Passes without success in sequence.
    pub(crate) failed: u32,
    newly_idle: NewlyIdle,
}

/// How often a CPU that was about to idle found something at a level (`update_newidle_stats`).
#[derive(Clone, Copy, Debug)]
struct NewlyIdle {
    tries: u32,
    successes: u32,
    /// Of the last [`TRIES`] tries so many had success.
    ratio: u32,
}

/// After so many tries the ratio is counted anew, and half of the tries are forgotten.
const TRIES: u32 = 1_024;

/// What came of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Balanced,
    Moved(u32),
    /// What should be moved may not run here.
    Pinned,
    /// Something should be moved and could not, from this CPU; a running task of this measure may be taken instead.
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

    /// Whether a CPU that is about to idle balances at a level, by a draw (`NI_RANDOM`). If so, for how many tries that
    /// stands.
    pub(crate) fn draws_to_balance(&mut self, level: Level) -> Option<u32> {
        // The numbers of Numerical Recipes for 32 bits, of which the upper ones are used.
        self.draws = self.draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (draw, weight) = (self.draws >> 22, 1 + self.of(level).newly_idle.ratio);
        if draw > weight {
            self.of(level).note_newly_idle(0);
            return None;
        }
        Some((TRIES + weight / 2) / weight)
    }

    /// Whether something may be due at this tick of a busy CPU.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.next_balance <= now
    }

    pub(crate) fn of(&mut self, level: Level) -> &mut Progress {
        &mut self.levels[level as usize]
    }
}

impl Progress {
    /// What a CPU that was about to idle found counts as so many successes.
    pub(crate) fn note_newly_idle(&mut self, successes: u32) {
        let seen = &mut self.newly_idle;
        seen.tries += 1;
        seen.successes += successes;
        if seen.tries >= TRIES {
            let ratio = seen.successes.min(TRIES);
            *seen = NewlyIdle { tries: seen.tries / 2, successes: seen.successes / 2, ratio };
        }
    }

    /// What a pass means for the next ones; whether a running task is to be taken.
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
