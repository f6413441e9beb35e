//! The experiments in virtual time, with hard limits and without.

use super::{CPUS, SOAK_RUNS, exact, founding, later, tenants};
use crate::claims::{Claim, Reproduced};
use crate::length::Length;
use crate::progress::Progress;
use crate::setting::{Part, Simulated};
use runyard_engine::kernel::Experiment;
use runyard_outcome::Failure;

/// Runs the experiments in virtual time, with hard limits and without; in a soak with several seeds.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    experiment(length).run(progress)
}

/// The claims about exact limits on machines of up to 24 CPUs, each without limits: for tests that see them fail.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated_without() -> Result<Vec<Claim>, Failure> {
    let others = ["8 hogs", "a request"];
    experiment(Length::Short).without(&[&exact::small()[..], &others].concat())
}

pub(super) fn experiment(length: Length) -> Simulated {
    let soak = || (1..=SOAK_RUNS).map(parts).collect();
    Simulated {
        name: "hard-limits",
        document: Experiment::HardLimits,
        title: format!(
            "{CPUS} CPUs unless said otherwise; NO_HARD_LIMITS and then HARD_LIMITS, where something is \
             borrowed NO_RUNTIME_SHARE and then RUNTIME_SHARE"
        ),
        parts: parts(1),
        soak: length.pick(None, Some(("runs in which all of this holds".to_owned(), soak()))),
    }
}

/// All parts with this seed.
fn parts(seed: u64) -> Vec<Part> {
    let mut parts = founding::parts(seed);
    parts.extend(exact::parts(seed));
    parts.extend(later::parts());
    parts.extend(tenants::parts(seed));
    parts
}
