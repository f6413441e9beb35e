//! The CPU time that the process may use: the quotas of its control group and of those above it.
//!
//! A limit that is a percentage of the machine would have no effect if the quota of the process is less. The quotas are
//! read at the start, and each second after that ([`crate::shared::outside`]). A quota that cannot be read counts as
//! none: without `/proc` or `/sys`, and on kernels without such quotas.

use crate::os::cgroup::{Controller, groups, levels, mounts};
use runyard_engine::time::Nanos;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The CPU time that a control group may use in each period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(crate) runtime: Nanos,
    pub(crate) period: Nanos,
    /// The folder of the control group.
    pub(crate) level: PathBuf,
}

impl Quota {
    /// Returns the CPU time in a second.
    pub(crate) fn in_a_second(&self) -> Nanos {
        let second = u128::from(self.runtime.0) * 1_000_000_000 / u128::from(self.period.0.max(1));
        Nanos(u64::try_from(second).unwrap_or(u64::MAX))
    }

    /// Returns the number of whole CPUs, at least one.
    fn whole_cpus(&self) -> usize {
        (self.in_a_second().0 / Nanos::from_secs(1).0).max(1) as usize
    }
}

/// The CPU time that the process may use in each period, by the limit of a container or another control group: the lowest
/// of those that are above it.
///
/// When the processes of the control group have used it up, the kernel stops all of them until the next period, the runtime's
/// threads and real-time tasks included. [`Snapshot::quota`](crate::Snapshot::quota) has it.
///
/// ```
/// let snapshot = runyard::Runtime::new().snapshot();
/// if let Some(stops) = snapshot.quota.and_then(|quota| quota.stops()) {
///     eprintln!("expect tasks to be {stops:?} late");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuQuota {
    /// The CPU time in each period, over all CPUs.
    pub runtime: Duration,
    /// The period.
    pub period: Duration,
    /// The number of periods in which the processes of the control group ran so far, and in how many of these the kernel
    /// stopped them (`nr_periods` and `nr_throttled` of `cpu.stat`). `None` if that cannot be read.
    pub throttled: Option<ThrottledPeriods>,
}

/// The periods in which a control group ran, and those in which the kernel stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThrottledPeriods {
    /// The number of periods in which processes of the group ran.
    pub nr_periods: u64,
    /// The number of those in which the kernel stopped them.
    pub nr_throttled: u64,
}

impl CpuQuota {
    /// Returns how long the kernel stops the process in each period in which it computes all the time, if the quota is
    /// less than one CPU. With more than one thread it stops them for longer, as they use the quota up earlier.
    #[must_use]
    pub fn stops(&self) -> Option<Duration> {
        Some(self.period.saturating_sub(self.runtime)).filter(|stops| !stops.is_zero())
    }
}

impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CpuQuota { runtime, period, throttled } = self;
        write!(f, "{runtime:?} of CPU time in each {period:?}")?;
        if let Some(ThrottledPeriods { nr_periods, nr_throttled }) = throttled {
            write!(f, ", used up in {nr_throttled} of {nr_periods} periods")?;
        }
        match self.stops() {
            Some(stops) => write!(f, ": the kernel stops this process {stops:?} of each period"),
            None => Ok(()),
        }
    }
}

impl Quota {
    /// Returns the quota as users see it, with the counts of now.
    pub(crate) fn shown(&self) -> CpuQuota {
        CpuQuota {
            runtime: Duration::from_nanos(self.runtime.0),
            period: Duration::from_nanos(self.period.0),
            throttled: fs::read_to_string(self.level.join("cpu.stat"))
                .ok()
                .and_then(|text| counts(&text)),
        }
    }
}

/// Returns the counts in a file `cpu.stat`, of either version.
fn counts(text: &str) -> Option<ThrottledPeriods> {
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line?.trim().parse().ok()
    };
    Some(ThrottledPeriods {
        nr_periods: count("nr_periods")?,
        nr_throttled: count("nr_throttled")?,
    })
}

/// Returns the number of whole CPUs that a quota allows, at least one.
pub(crate) fn whole_cpus(quota: Option<&Quota>) -> usize {
    quota.map_or(usize::MAX, Quota::whole_cpus)
}

/// The folders of the process's control groups, where their quotas are read again and again.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    /// The text of `/proc/self/cgroup` at the last reading.
    groups: String,
    levels: Vec<PathBuf>,
    /// The lowest quota at the last reading.
    last: Option<Quota>,
}

impl Quotas {
    /// Reads the quotas and returns the lowest one. If the process cannot see any more in which control groups it is,
    /// as after `chroot`, the last one holds on.
    pub(crate) fn read(&mut self) -> Option<Quota> {
        if let Some(now) = groups() {
            if now != self.groups {
                // The process was moved. Its mounts are read only then: a machine may have thousands.
                let mounts = mounts().unwrap_or_default();
                self.levels = levels(Controller::Cpu, &now, &mounts).collect();
                self.groups = now;
            }
            self.last = least(self.levels.iter().cloned(), |path| fs::read_to_string(path).ok());
        }
        self.last.clone()
    }
}

/// Returns the lowest quota among these control groups.
fn least(
    levels: impl Iterator<Item = PathBuf>,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<Quota> {
    levels.filter_map(|level| quota_of(level, &read)).min_by_key(Quota::in_a_second)
}

/// Returns the quota of one control group. Reads both versions of control groups.
fn quota_of(level: PathBuf, read: &impl Fn(&Path) -> Option<String>) -> Option<Quota> {
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
    let micros = |text: &str| text.trim().parse::<u64>().ok()?.checked_mul(1_000).map(Nanos);
    Some(Quota { runtime: micros(&quota)?, period: micros(&period)?, level })
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

    /// Returns the CPU time that these files leave the process in a second.
    fn least(groups: &str, mounts: &str, read: &impl Fn(&Path) -> Option<String>) -> Option<Nanos> {
        let levels = levels(Controller::Cpu, groups, mounts);
        super::least(levels, read).map(|quota| quota.in_a_second())
    }

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
        let period = Nanos::from_millis(100);
        let quota = |tenths: u64| Quota {
            runtime: Nanos(period.0 / 10 * tenths),
            period,
            level: PathBuf::new(),
        };
        let whole_of = |tenths: u64| whole_cpus(Some(&quota(tenths)));
        assert_eq!([5, 10, 15, 20, 29].map(whole_of), [1, 1, 1, 2, 2]);
        assert_eq!(whole_cpus(None), usize::MAX);
    }

    #[test]
    fn below_one_cpu_it_is_said_how_long_the_kernel_stops_the_process() {
        let ms = Duration::from_millis;
        let throttled = counts("nr_periods 40\nnr_throttled 12\nthrottled_time 7\n");
        let half = CpuQuota { runtime: ms(50), period: ms(100), throttled };
        let said = "50ms of CPU time in each 100ms, used up in 12 of 40 periods: the kernel stops this process 50ms of \
                    each period";
        assert_eq!(half.to_string(), said);
        let version_two = "usage_usec 9\nnr_periods 40\nnr_throttled 12\nthrottled_usec 7\n";
        assert_eq!(counts(version_two), throttled);
        assert_eq!(counts("nr_periods 40\n"), None);
        let one = CpuQuota { runtime: ms(100), throttled: None, ..half };
        assert_eq!(
            (one.stops(), one.to_string().as_str()),
            (None, "100ms of CPU time in each 100ms")
        );
    }

    #[test]
    fn what_cannot_be_read_is_no_quota() {
        let read = files(&[("/sys/fs/cgroup/cpu.max", "plenty")]);
        assert_eq!(least("0::/\n", V2, &read), None);
        assert_eq!(least("0::/\n", "", &read), None);
        assert_eq!(least("nonsense", V1, &read), None);
        let _ = Quotas::default().read();
    }
}
