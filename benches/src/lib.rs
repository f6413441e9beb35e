//! What the operations of the scheduler cost. Each is defined once here and measured twice: in time
//! by criterion (`cargo bench -p runyard-benches`), in instructions by callgrind (`cargo xtask
//! instructions`). `docs/figures/performance.md` has the figures.
//!
//! An operation is a name and a way to prepare it. What is prepared performs the operation so many
//! times and leaves everything as it was: as many tasks queued, as many timers armed. So the cost
//! of one is the same in the first thousand and the last, and set-up is in neither figure.
//!
//! Operations assert what they came for: a switch that chose the same task again, or a push that
//! did not move anybody, would measure something else.
//!
//! [`live`] and [`open_loop`] are apart: whole workloads on threads of this machine, beside the same
//! on a peer.

mod balance;
mod cycle;
mod fair;
pub mod group_scale;
mod latency;
mod limits;
pub mod live;
pub mod open_loop;
mod rig;
mod switch;
pub mod throughput;
mod timers;
mod wake;

use std::fmt;

/// Performs an operation so many times.
pub type Runner = Box<dyn FnMut(u64)>;

/// Something that is measured.
pub struct Operation {
    name: String,
    prepare: Box<dyn Fn() -> Runner>,
}

impl Operation {
    pub(crate) fn new(name: String, prepare: impl Fn() -> Runner + 'static) -> Operation {
        Operation { name, prepare: Box::new(prepare) }
    }

    /// What it is called, from the general to the particular: `switch/engine/yield/64`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets everything up. The result may be called again and again.
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

/// Every operation.
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
        timers::operations(),
        throughput::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What is prepared only for what it asserts.
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
