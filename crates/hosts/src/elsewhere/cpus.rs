//! No host has CPUs on this system.

use crate::failure::Failure;

/// The machine's numbers of the CPUs that this process may use.
///
/// # Errors
/// Always: whatever a host does begins with this question, and no host is here.
pub fn cpus() -> Result<Vec<usize>, Failure> {
    Err(refused())
}

/// Lets the calling thread run on one CPU only: nobody can ask for that.
pub(crate) fn stay_on(_cpu: usize) -> Result<(), Failure> {
    Err(refused())
}

fn refused() -> Failure {
    Failure::Refused("tasks on real CPUs need Linux: `runyard sim` is on this system".to_owned())
}
