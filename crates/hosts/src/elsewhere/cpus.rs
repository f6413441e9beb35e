//! The CPUs on a system without hosts.

use runyard_outcome::Failure;

/// The machine's numbers of the CPUs that this process may use.
///
/// # Errors
/// Always: this is the first call of every host, and this system has no host.
pub fn cpus() -> Result<Vec<usize>, Failure> {
    Err(refused())
}

/// Binds the calling thread to one CPU. No code calls it here.
pub(crate) fn stay_on(_cpu: usize) -> Result<(), Failure> {
    Err(refused())
}

fn refused() -> Failure {
    Failure::Refused("tasks on real CPUs need Linux: `runyard sim` is on this system".to_owned())
}
