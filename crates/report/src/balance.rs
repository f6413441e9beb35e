//! The results of balancing: the number of passes in which CPUs compared themselves with others, by level and moment,
//! and the tasks that they took (the `lb_*` counters of the kernel's schedstats).
//!
//! There is no count for each measure. A measure says which load a pass compared, not which tasks it moved. With
//! `NO_IDLE_LOAD_BALANCE`, and where a CPU takes any waiting task, one measure stands for all tasks. A pass that
//! compares normal tasks may move others. A trace has the moves themselves.

use crate::column::Place::{Page, Text};
use crate::column::{View, columns, counted, figures, texts};
use crate::figure::Unit;
use crate::names::printable;
use runyard_engine::balance::{Balanced, Found, IdleKind};
use runyard_engine::topology::Level;
use serde::{Deserialize, Serialize};

/// The levels with their names in reports, at the indices of their values.
const LEVELS: [(Level, &str); 3] =
    [(Level::Smt, "smt"), (Level::Node, "node"), (Level::Machine, "machine")];
/// The moments with their names in reports, at the indices of their values.
pub(crate) const IDLE_KINDS: [(IdleKind, &str); 3] =
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

/// The figures of a comparison that most runs lack.
pub(crate) const MOVED: &str = "moved by balance";
pub(crate) const TAKEN: &str = "taken by balance";

columns! {
    /// A row of the report: the results of the passes at one level and moment.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct BalanceReport from(level_name: &str, moment_name: &str, totals: BalanceTotals) {
        /// The set of CPUs that are compared: `smt`, `node` or `machine`.
        level: String = level_name.to_owned(), [
            texts(&[(Text, "balance")], |it, _| printable(&it.level)),
            texts(&[(Page, "level")], |it, _| it.level.clone()),
        ];
        /// The state of the CPU: `busy`, `idle` or `newly_idle`.
        moment: String = moment_name.to_owned(), [
            texts(&[(Text, "")], |it, _| printable(&it.moment_in_words())),
            texts(&[(Page, "moment")], |it, _| it.moment_in_words()),
        ];
        /// The number of passes: balanced, pinned and failed ones, and those that moved tasks.
        passes: u64 = totals.passes(), [
            figures(&[(Text, "passes"), (Page, "passes")], |it, _| counted(Some(it.passes))),
        ];
        /// Passes that found no imbalance.
        balanced: u64 = totals.balanced, [
            figures(&[(Text, "balanced"), (Page, "balanced")], |it, _| counted(Some(it.balanced))),
        ];
        /// Passes that found only tasks that may not run on the CPU.
        pinned: u64 = totals.pinned, [
            figures(&[(Text, "pinned"), (Page, "pinned")], |it, _| counted(Some(it.pinned))),
        ];
        /// Passes that found an imbalance, and no task that fits it.
        failed: u64 = totals.failed, [
            figures(&[(Text, "failed"), (Page, "failed")], |it, _| counted(Some(it.failed))),
        ];
        /// Waiting tasks that were moved.
        moved: u64 = totals.moved, [
            figures(&[(Text, "moved"), (Page, "moved")], |it, _| counted(Some(it.moved))),
            View::Compared(MOVED, Unit::Count, |it| Some(it.moved)),
        ];
        /// Running tasks that were requested after failed passes. They are not counted as moved.
        taken: u64 = totals.taken, [
            figures(&[(Text, "taken"), (Page, "taken")], |it, _| counted(Some(it.taken))),
            View::Compared(TAKEN, Unit::Count, |it| Some(it.taken)),
        ];
    }
}

/// The accounts of a machine's balancing, by level and moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Balances([[BalanceTotals; IDLE_KINDS.len()]; LEVELS.len()]);

impl Balances {
    pub(crate) fn add(&mut self, Balanced { level, idle_kind, found, .. }: Balanced) {
        self.0[level as usize][idle_kind as usize].add(found);
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
                    rows.push(BalanceReport::of(level_name, moment, totals));
                }
            }
        }
        rows
    }
}

impl BalanceTotals {
    pub(crate) fn add(&mut self, found: Found) {
        match found {
            Found::Balance => self.balanced += 1,
            Found::Pinned => self.pinned += 1,
            Found::Nothing => self.failed += 1,
            Found::Tasks(tasks) => {
                self.successful += 1;
                self.moved += u64::from(tasks);
            }
            // The request that follows a failed pass, which has an event of its own.
            Found::Running => self.taken += 1,
        }
    }

    /// The number of passes.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.balanced + self.pinned + self.failed + self.successful
    }
}

impl BalanceReport {
    /// Whether a task was moved, or should have been.
    pub(crate) fn is_eventful(&self) -> bool {
        self.passes > self.balanced || self.taken > 0
    }

    /// The moment in words.
    fn moment_in_words(&self) -> String {
        self.moment.replace('_', " ")
    }
}
