//! The experiments in virtual time, with hard limits and without.

use super::{CPUS, SOAK_RUNS, exact, founding, later, tenants};
use crate::length::Length;
use crate::setting::{Part, Simulated};
use runyard_engine::kernel::Experiment;

/// The experiment, and the names of parts that fail without limits: the exact limits on machines of up to 24 CPUs.
pub(crate) fn broken() -> (Simulated, Vec<&'static str>) {
    let mut parts = exact::small();
    parts.extend(["8 hogs", "a request"]);
    (experiment(Length::Short), parts)
}

/// The experiment; in a soak with several seeds.
pub(crate) fn experiment(length: Length) -> Simulated {
    let soak = || (1..=SOAK_RUNS).map(parts).collect();
    Simulated {
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
