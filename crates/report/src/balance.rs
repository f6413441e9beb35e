//! The results of balancing: the number of passes in which CPUs compared themselves with others, by level and moment,
//! and the tasks that they took (the `lb_*` counters of the kernel's schedstats).
//!
//! There is no count for each measure. A measure says which load a pass compared, not which tasks it moved. With
//! `NO_IDLE_LOAD_BALANCE`, and where a CPU takes any waiting task, one measure stands for all tasks. A pass that
//! compares normal tasks may move others. A trace has the moves themselves.

use runyard_engine::balance::{Balanced, Found, IdleKind};
use runyard_engine::topology::Level;
use serde::{Deserialize, Serialize};

/// The levels with their names in reports, at the indices of their values.
const LEVELS: [(Level, &str); 3] =
    [(Level::Smt, "smt"), (Level::Node, "node"), (Level::Machine, "machine")];
/// The moments with their names in reports, at the indices of their values.
const IDLE_KINDS: [(IdleKind, &str); 3] =
    [(IdleKind::Busy, "busy"), (IdleKind::Idle, "idle"), (IdleKind::NewlyIdle, "newly_idle")];

/// The results of the passes at one level and moment. With `IDLE_LOAD_BALANCE` a CPU may make two passes at a time, one
/// for each measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalanceTotals {
    /// Passes that found no imbalance.
    pub balanced: u64,
    /// Passes that found only tasks that may not run on this CPU.
    pub pinned: u64,
    /// Passes that found an imbalance, and no task that fits it.
    pub failed: u64,
    /// Passes that moved tasks.
    pub successful: u64,
    /// Waiting tasks that these passes moved.
    pub moved: u64,
    /// Running tasks that were requested after failed passes (active balance).
    pub taken: u64,
}

/// A row of the report: the results of the passes at one level and moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceReport {
    /// The set of CPUs that are compared: `smt`, `node` or `machine`.
    pub level: String,
    /// The state of the CPU: `busy`, `idle` or `newly_idle`.
    pub moment: String,
    /// The number of passes: balanced, pinned and failed ones, and those that moved tasks.
    pub passes: u64,
    /// Passes that found no imbalance.
    pub balanced: u64,
    /// Passes that found only tasks that may not run on the CPU.
    pub pinned: u64,
    /// Passes that found an imbalance, and no task that fits it.
    pub failed: u64,
    /// Waiting tasks that were moved.
    pub moved: u64,
    /// Running tasks that were requested after failed passes. They are not counted as moved.
    pub taken: u64,
}

/// The accounts of a machine's balancing, by level and moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Balances([[BalanceTotals; IDLE_KINDS.len()]; LEVELS.len()]);

impl Balances {
    pub(crate) fn add(&mut self, Balanced { level, idle_kind, found, .. }: Balanced) {
        let totals = &mut self.0[level as usize][idle_kind as usize];
        match found {
            Found::Balance => totals.balanced += 1,
            Found::Pinned => totals.pinned += 1,
            Found::Nothing => totals.failed += 1,
            Found::Tasks(tasks) => {
                totals.successful += 1;
                totals.moved += u64::from(tasks);
            }
            // The request that follows a failed pass, which has an event of its own.
            Found::Running => totals.taken += 1,
        }
    }

    pub(crate) fn of(&self, level: Level, idle_kind: IdleKind) -> BalanceTotals {
        self.0[level as usize][idle_kind as usize]
    }

    /// A row for each level and moment with a pass, in their order.
    pub(crate) fn rows(&self) -> Vec<BalanceReport> {
        let mut rows = Vec::new();
        for (level, level_name) in LEVELS {
            for (idle_kind, moment) in IDLE_KINDS {
                let totals = self.of(level, idle_kind);
                if totals.passes() > 0 {
                    rows.push(BalanceReport::new(level_name, moment, totals));
                }
            }
        }
        rows
    }
}

impl BalanceTotals {
    /// The number of passes.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.balanced + self.pinned + self.failed + self.successful
    }
}

impl BalanceReport {
    fn new(level: &str, moment: &str, totals: BalanceTotals) -> BalanceReport {
        let passes = totals.passes();
        let BalanceTotals { balanced, pinned, failed, moved, taken, .. } = totals;
        let (level, moment) = (level.to_owned(), moment.to_owned());
        BalanceReport { level, moment, passes, balanced, pinned, failed, moved, taken }
    }

    /// Whether a task was moved, or should have been.
    pub(crate) fn is_eventful(&self) -> bool {
        self.passes > self.balanced || self.taken > 0
    }

    /// All counts, in their order.
    pub(crate) fn counts(&self) -> [u64; 6] {
        [self.passes, self.balanced, self.pinned, self.failed, self.moved, self.taken]
    }

    /// The moment in words.
    pub(crate) fn moment_in_words(&self) -> String {
        self.moment.replace('_', " ")
    }
}
