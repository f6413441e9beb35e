//! The costs of the scheduler's operations. Each operation is defined once here and measured twice: its time by
//! criterion (`cargo bench -p runyard-benches`), its instructions by callgrind (`cargo xtask instructions`).
//! `docs/figures/performance.md` has the figures.
//!
//! An operation is a name and a function that prepares it. The prepared runner performs the operation a given number of
//! times and restores the state: the same number of queued tasks and armed timers. So the cost of one operation is
//! constant over a run, and neither figure includes set-up.
//!
//! Operations assert their effect. A switch that picks the same task again, or a push that moves no task, would measure
//! another operation.
//!
//! [`live`] and [`open_loop`] are different: they run whole workloads on threads of this machine, beside the same
//! workloads on a peer.

mod balance;
mod cycle;
mod fair;
pub mod group_scale;
mod latency;
mod limits;
pub mod live;
#[path = "../../crates/report/src/median.rs"]
mod median;
pub mod open_loop;
mod overhead;
mod programs;
mod queues;
mod rig;
mod runtime;
#[path = "../../crates/hosts/src/stat.rs"]
mod stat;
mod switch;
pub mod throughput;
mod timers;
mod wake;

use std::fmt;

/// A function that performs an operation the given number of times.
pub type Runner = Box<dyn FnMut(u64)>;

/// A measured operation.
pub struct Operation {
    name: String,
    prepare: Box<dyn Fn() -> Runner>,
}

impl Operation {
    pub(crate) fn new(name: String, prepare: impl Fn() -> Runner + 'static) -> Operation {
        Operation { name, prepare: Box::new(prepare) }
    }

    /// Returns the name, from the general to the particular: `switch/engine/yield/64`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Prepares the operation. The returned runner may be called repeatedly.
    #[must_use]
    pub fn prepare(&self) -> Runner {
        (self.prepare)()
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Operation").field(&self.name).finish()
    }
}

/// Returns every operation.
#[must_use]
pub fn operations() -> Vec<Operation> {
    [
        switch::operations(),
        wake::operations(),
        balance::operations(),
        fair::operations(),
        group_scale::operations(),
        latency::operations(),
        limits::operations(),
        overhead::operations(),
        programs::operations(),
        queues::operations(),
        timers::operations(),
        throughput::operations(),
        runtime::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Number of iterations that suffices for the assertions of an operation.
    const FEW: u64 = 100;

    #[test]
    fn every_operation_performs_again_and_again() {
        for operation in operations() {
            let mut run = operation.prepare();
            run(FEW);
            run(FEW);
        }
    }

    #[test]
    fn a_name_names_one_operation() {
        let operations = operations();
        let names: BTreeSet<_> = operations.iter().map(Operation::name).collect();
        assert_eq!(names.len(), operations.len());
    }
}
