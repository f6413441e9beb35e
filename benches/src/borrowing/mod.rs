//! Why a group's budget is one number, and not a part for each CPU that others borrow of: models of both.
//!
//! [`Passes`] is the founding document's rule, which is that of real-time throttling, [`Pool`] the one that
//! was chosen. In both a group may use as much as one CPU has. One hog wants all of that, and moves to
//! another CPU when it has it; then there is one on every CPU. Nothing else is modelled, so that what is
//! counted is the rule's.

mod passes;
mod pool;

pub use passes::{Borrowed, Passes};
pub use pool::{Drawn, Pool};

use std::fmt::Write as _;

/// The period, which is the document's, and what the group may use in it, in ns.
const PERIOD: u64 = 500_000_000;

/// How many CPUs machines have here.
const SIZES: [usize; 4] = [4, 24, 256, 1_024];

/// A hog has the budget of its group if it has so much of it, in per cent.
const ENOUGH: u64 = 90;

/// Periods with a hog on each CPU, of which the last is looked at.
const TO_SETTLE: u32 = 3;

/// Both models, on machines of several sizes.
#[must_use]
pub fn tables() -> String {
    let mut text = "\
Borrowing by passes; until one hog has 90 % of the group's budget, and has it again after it moved\n\n\
| CPUs | passes | locks | time | budget on other CPUs after the move | passes | locks | time | \
locks in a period with a hog on each CPU |\n|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for cpus in SIZES {
        let mut passes = Passes::new(cpus);
        let first = passes.hog(0);
        let stranded = passes.elsewhere(1) as f64 / PERIOD as f64 * 100.0;
        let moved = passes.hog(1);
        let everybody = Passes::new(cpus).hogs(TO_SETTLE);
        let _ = writeln!(
            text,
            "| {cpus} | {} | {} | {} | {stranded:.1} % | {} | {} | {} | {} |",
            first.passes,
            first.locks,
            first.seconds(),
            moved.passes,
            moved.locks,
            moved.seconds(),
            everybody.locks
        );
    }
    text += "\nOne pool; in each period\n\n\
| CPUs | one hog: draws | visits of the pool | of them for a move | budget on other CPUs after it | \
a hog on each CPU: draws | visits of the pool |\n|---|---|---|---|---|---|---|\n";
    for cpus in SIZES {
        let (staying, moving) = (Pool::hog(cpus, None), Pool::hog(cpus, Some(PERIOD / 3)));
        let everybody = Pool::hogs(cpus);
        let _ = writeln!(
            text,
            "| {cpus} | {} | {} | {} | 0 % | {} | {} |",
            staying.draws,
            staying.visits,
            moving.visits - staying.visits,
            everybody.draws,
            everybody.visits
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_row_for_each_machine_and_model() {
        let tables = tables();
        for cpus in SIZES {
            assert_eq!(tables.matches(&format!("\n| {cpus} | ")).count(), 2, "{tables}");
        }
    }
}
