//! Which workers share a core, for [`Builder::cookies`](crate::Builder::cookies).
//!
//! Two workers share a core if each is bound to a CPU, and the kernel reports both CPUs as hardware threads of one
//! core. The scheduler's machine has only cores of equal size. If the cores of the workers differ in size, each worker
//! is treated as if it had a core of its own.

use std::collections::BTreeMap;
use std::{error, fmt, fs};

/// The reason why a runtime does not keep tasks of different [cookies](crate::Cookie) apart
/// ([`Runtime::keeps_cookies`](crate::Runtime::keeps_cookies)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoCookies {
    /// [`Builder::cookies`](crate::Builder::cookies) did not ask for it.
    NotAsked,
    /// Workers are not bound to CPUs. Either [`Builder::pin_workers`](crate::Builder::pin_workers) did not ask for
    /// that, or the kernel refused it.
    NotPinned,
    /// The kernel does not report which CPUs share a core.
    Unknown,
    /// Each worker has a core of its own.
    NoSharedCore,
    /// The cores of some workers have more workers than those of others.
    UnevenCores,
}

impl fmt::Display for NoCookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoCookies::NotAsked => "Builder::cookies did not ask for it",
            NoCookies::NotPinned => "workers are not bound to CPUs",
            NoCookies::Unknown => "the kernel does not report which CPUs share a core",
            NoCookies::NoSharedCore => "no two workers share a core",
            NoCookies::UnevenCores => "some cores have more workers than others",
        })
    }
}

impl error::Error for NoCookies {}

/// Sorts the CPUs of the workers core by core, and returns the number of workers of each core.
pub(crate) fn by_core(cpus: &mut [usize]) -> Result<usize, NoCookies> {
    let siblings = |cpu: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        first_of(&fs::read_to_string(path).ok()?)
    };
    order(cpus, siblings)
}

/// Does the same as [`by_core`]. `core_of` names a core by the first of its CPUs.
fn order(cpus: &mut [usize], core_of: impl Fn(usize) -> Option<usize>) -> Result<usize, NoCookies> {
    let mut cores: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &cpu in &*cpus {
        cores.entry(core_of(cpu).ok_or(NoCookies::Unknown)?).or_default().push(cpu);
    }
    let threads = cores.values().map(Vec::len).max().unwrap_or_default();
    if threads <= 1 {
        return Err(NoCookies::NoSharedCore);
    }
    if cores.values().any(|core| core.len() != threads) {
        return Err(NoCookies::UnevenCores);
    }
    cpus.iter_mut().zip(cores.into_values().flatten()).for_each(|(place, cpu)| *place = cpu);
    Ok(threads)
}

/// Returns the first CPU of a sorted list such as `0-1,4`.
fn first_of(list: &str) -> Option<usize> {
    list.trim().split(['-', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(
        cpus: &[usize],
        core_of: impl Fn(usize) -> usize,
    ) -> Result<(usize, Vec<usize>), NoCookies> {
        let mut cpus = cpus.to_vec();
        order(&mut cpus, |cpu| Some(core_of(cpu))).map(|threads| (threads, cpus))
    }

    #[test]
    fn workers_are_ordered_core_by_core() {
        assert_eq!(ordered(&[0, 1, 2, 3], |cpu| cpu / 2), Ok((2, vec![0, 1, 2, 3])));
        assert_eq!(ordered(&[0, 1, 2, 3], |cpu| cpu % 2), Ok((2, vec![0, 2, 1, 3])));
        // No worker runs on the third hardware thread.
        assert_eq!(ordered(&[1, 2, 5, 6], |cpu| cpu % 4), Ok((2, vec![1, 5, 2, 6])));
    }

    #[test]
    fn cores_that_are_not_alike_are_none() {
        assert_eq!(ordered(&[0, 1, 2, 3], |cpu| cpu), Err(NoCookies::NoSharedCore));
        assert_eq!(ordered(&[0, 1, 2], |cpu| cpu / 2), Err(NoCookies::UnevenCores));
        assert_eq!(order(&mut [0, 1], |_| None), Err(NoCookies::Unknown));
    }

    #[test]
    fn the_list_of_the_kernel_is_read() {
        assert_eq!(first_of("0-1\n"), Some(0));
        assert_eq!(first_of("3,35\n"), Some(3));
        assert_eq!(first_of("12\n"), Some(12));
        assert_eq!(first_of("\n"), None);
    }
}
