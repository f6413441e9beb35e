//! The CPU time that the process may use: the quotas of its control group and of those above it.
//!
//! A limit that is a percentage of the machine would have no effect if the quota of the process is less. The quotas are
//! read once. A quota that cannot be read counts as none: without `/proc` or `/sys`, and on kernels without such
//! quotas.

use crate::os::cgroup::{Controller, levels, of_this_process as control_groups};
use runyard_engine::time::Nanos;
use std::fs;
use std::path::Path;

/// Returns the CPU time that the process may use in a second, if that is limited.
pub(crate) fn of_this_process() -> Option<Nanos> {
    let (groups, mounts) = control_groups()?;
    least(&groups, &mounts, |path| fs::read_to_string(path).ok())
}

/// Returns the number of whole CPUs that the process may use by that, at least one.
pub(crate) fn whole_cpus() -> usize {
    whole(of_this_process())
}

fn whole(quota: Option<Nanos>) -> usize {
    quota.map_or(usize::MAX, |quota| (quota.0 / Nanos::from_secs(1).0).max(1) as usize)
}

/// Returns the lowest quota among the control groups of the process.
fn least(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<Nanos> {
    levels(Controller::Cpu, groups, mounts).filter_map(|level| quota_of(&level, &read)).min()
}

/// Returns the quota of one control group for a second. Reads both versions of control groups.
fn quota_of(level: &Path, read: &impl Fn(&Path) -> Option<String>) -> Option<Nanos> {
    let (quota, period) = match read(&level.join("cpu.max")) {
        Some(text) => {
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        None => {
            let quota = read(&level.join("cpu.cfs_quota_us"))?;
            (quota, read(&level.join("cpu.cfs_period_us"))?)
        }
    };
    // No quota is written as "max" or -1.
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    let second = u128::from(quota) * 1_000_000_000 / u128::from(period.max(1));
    u64::try_from(second).ok().map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(files: &'a [(&str, &str)]) -> impl Fn(&Path) -> Option<String> + 'a {
        |path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, it)| (*it).to_owned())
        }
    }

    const V2: &str = "22 1 0:1 / / rw - ext4 /dev/vda rw\n\
                      30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      32 23 0:28 /docker/7f /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

    #[test]
    fn the_least_quota_of_the_own_group_and_those_above_counts() {
        let read = files(&[
            ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/cpu.max", "40000 20000\n"),
        ]);
        assert_eq!(least("0::/a/b\n", V2, &read), Some(Nanos(1_500_000_000)));
        assert_eq!(least("0::/c\n", V2, &read), Some(Nanos(2_000_000_000)));
    }

    #[test]
    fn the_first_version_is_read_too_and_from_within_a_container() {
        let read = files(&[
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
        ]);
        let half = Some(Nanos(500_000_000));
        assert_eq!(least("5:cpu,cpuacct:/docker/7f/x\n4:memory:/m\n", V1, &read), half);
        assert_eq!(least("5:cpu,cpuacct:/\n", V1, &read), half);
    }

    /// The kernel writes a blank of a path as `\040`.
    #[test]
    fn a_mount_point_may_have_a_blank() {
        let mounts = "30 23 0:26 / /run/my\\040groups rw - cgroup2 cgroup2 rw";
        let read = files(&[("/run/my groups/a/cpu.max", "50000 100000\n")]);
        assert_eq!(least("0::/a\n", mounts, &read), Some(Nanos(500_000_000)));
    }

    #[test]
    fn a_part_of_a_cpu_is_no_worker_beside_a_whole_one() {
        let second = Nanos::from_secs(1).0;
        let whole_of = |tenths: u64| whole(Some(Nanos(second / 10 * tenths)));
        assert_eq!([5, 10, 15, 20, 29].map(whole_of), [1, 1, 1, 2, 2]);
        assert_eq!(whole(None), usize::MAX);
    }

    #[test]
    fn what_cannot_be_read_is_no_quota() {
        let read = files(&[("/sys/fs/cgroup/cpu.max", "plenty")]);
        assert_eq!(least("0::/\n", V2, &read), None);
        assert_eq!(least("0::/\n", "", &read), None);
        assert_eq!(least("nonsense", V1, &read), None);
        let _ = of_this_process();
    }
}
