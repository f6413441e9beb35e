//! The CPUs of this process.

use runyard_outcome::Failure;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The machine's numbers of the CPUs that this process may use, in ascending order.
///
/// # Errors
/// If the kernel does not provide them.
pub fn cpus() -> Result<Vec<usize>, Failure> {
    let allowed = sched_getaffinity(None)
        .map_err(|error| Failure::Refused(format!("the CPUs of this process: {error}")))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

/// Lets the calling thread run on one of the machine's CPUs only.
pub(crate) fn stay_on(cpu: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|error| Failure::Refused(format!("a thread on CPU {cpu} only: {error}")))
}
