//! The CPUs of this process.

use crate::failure::Failure;
use rustix::thread::{CpuSet, sched_getaffinity};

/// The machine's numbers of the CPUs that this process may use, in ascending order.
///
/// # Errors
/// If the kernel does not say.
pub fn cpus() -> Result<Vec<usize>, Failure> {
    let allowed = sched_getaffinity(None)
        .map_err(|error| Failure::Refused(format!("the CPUs of this process: {error}")))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}
