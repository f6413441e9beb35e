//! The number of kernel threads that a runtime may start.
//!
//! A task that is stopped in the middle of a poll, or that blocks in the kernel, keeps a thread. So a runtime needs as
//! many threads as there can be such tasks, and the system limits that number.

use crate::os;
use crate::os::cgroup::{self, Controller, levels};
use std::fs;
use std::path::Path;

/// Memory mappings of a thread: its stack, the standard library's alternate stack for signals and the runtime's, each with
/// its guard page.
const MAPPINGS_OF_A_THREAD: usize = 6;

/// The most threads of Linux: its numbers of threads are below this (`PID_MAX_LIMIT`, linux/threads.h).
pub(crate) const OF_LINUX: usize = 4 << 20;

/// Returns the number of threads that the system allows this process, less a tenth for its other threads. It is the
/// minimum of `RLIMIT_NPROC`, `pids.max` of its control groups, `kernel.threads-max`, and the threads that
/// `vm.max_map_count` has room for.
pub(crate) fn of_this_process() -> usize {
    let groups = cgroup::groups().unwrap_or_default();
    let mounts = cgroup::mounts().unwrap_or_default();
    let system = System {
        of_user: os::thread::most_of_user(),
        read: |path: &Path| fs::read_to_string(path).ok(),
    };
    system.most(&groups, &mounts)
}

/// The limits of the system, as far as they can be read.
struct System<R> {
    of_user: Option<usize>,
    read: R,
}

impl<R: Fn(&Path) -> Option<String>> System<R> {
    fn most(&self, groups: &str, mounts: &str) -> usize {
        let of_groups = levels(Controller::Pids, groups, mounts)
            .filter_map(|level| self.number(&level.join("pids.max")));
        let of_system = self.number(Path::new("/proc/sys/kernel/threads-max"));
        let mappings = self.number(Path::new("/proc/sys/vm/max_map_count"));
        let mapped = mappings.map(|mappings| mappings / MAPPINGS_OF_A_THREAD);
        let known = of_groups.chain(self.of_user).chain(of_system).chain(mapped);
        let least = known.min().unwrap_or(UNKNOWN);
        least - least / 10
    }

    /// Returns the number in a file. Returns none if there is no such file, or no limit ("max").
    fn number(&self, path: &Path) -> Option<usize> {
        (self.read)(path)?.trim().parse().ok()
    }
}

/// Number of threads if no limit can be read: those that the default of `vm.max_map_count` has room for.
const UNKNOWN: usize = 65_530 / MAPPINGS_OF_A_THREAD;

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";

    fn most(of_user: Option<usize>, files: &[(&str, &str)]) -> usize {
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        System { of_user, read }.most("0::/a\n", MOUNTS)
    }

    #[test]
    fn the_least_of_all_limits_counts_less_a_tenth() {
        let files = [
            ("/sys/fs/cgroup/a/pids.max", "max\n"),
            ("/sys/fs/cgroup/pids.max", "500\n"),
            ("/proc/sys/kernel/threads-max", "1000\n"),
            ("/proc/sys/vm/max_map_count", "65530\n"),
        ];
        assert_eq!(most(None, &files), 450);
        assert_eq!(most(Some(64), &files), 58);
        assert_eq!(most(None, &files[2..]), 900);
        assert_eq!(most(None, &files[3..]), 9_829);
    }

    #[test]
    fn what_cannot_be_read_is_no_limit() {
        assert_eq!(most(None, &[]), 9_829);
        assert_eq!(most(None, &[("/proc/sys/kernel/threads-max", "many")]), 9_829);
        assert!(of_this_process() > 0);
    }
}
