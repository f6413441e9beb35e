//! The task groups of a scenario as control groups of the kernel.
//!
//! The kernel gives the control of CPU time to one hierarchy: the second version of the interface (`cgroup2`), or a
//! first version that is mounted with the option `cpu`. In that hierarchy, below the command's own group, this module
//! makes a group `runyard-PID`. It is the scenario's `/`: other processes of the machine compete with the run as a
//! whole, and the tasks in `/` compete with the groups below it, as in the scenario. The group is made only for a
//! scenario that has groups, and removed with the last thread of the run. A run that is killed leaves it behind, empty.
//!
//! Members are single threads. In the second version this takes *threaded* groups in the command's domain: the
//! command's own group becomes the root of that domain as long as they exist
//! ([cgroup-v2](https://docs.kernel.org/admin-guide/cgroup-v2.html#threads)).
//!
//! A real-time task is in its group too, where the kernel takes it. Kernels with `RT_GROUP_SCHED` refuse it: their
//! groups have no time for such tasks unless they are given some. It is then in the command's own group, and standard
//! error says so once.
//!
//! Cpusets are files of the same groups in the second version. In the first they are a hierarchy of their own
//! ([`super::cpuset`]).
//!
//! A group's limit is the kernel's quota. The first version refuses a quota above that of the parent group. Such a
//! quota would have no effect, so the group then has no limit. The kernel counts the effect of a limit in each group's
//! `cpu.stat`.
//!
//! A task moves itself. The move takes some tens of microseconds. It happens before the beginning of the run, or at the
//! beginning of a phase in another group.

use runyard::kernel::Mount;
use runyard_engine::attr::GroupId;
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_outcome::stderr::say;
use runyard_report::Figure;
use runyard_workload::scenario::TaskGroup;
use rustix::thread::gettid;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time for which to try to remove a group. A joined thread may still be in its group for a moment.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

/// The part of a group's name that goes into its folder's name: only characters without a meaning to file systems, and
/// no more of them than a reader needs.
const NAME_CHARS: usize = 40;

/// The groups of a run. Dropping this removes them.
#[derive(Debug)]
pub(super) struct Tree {
    version: Version,
    /// The group of the command.
    base: PathBuf,
    /// The number of the run's CPUs.
    cpus: usize,
    /// The groups of the scenario, by [`GroupId`]. Each comes after its parent.
    groups: Vec<PathBuf>,
    /// Whether this run switched on CPU weights for the children of the command's group.
    switched_on: bool,
}

/// The version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    First,
    Second,
}

impl Tree {
    /// The control groups for these groups, or the reason why there are none. `cpus` is the number of the run's CPUs.
    pub(super) fn make(groups: &[TaskGroup], cpus: usize) -> Result<Tree, String> {
        let (version, base) = base(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
            .ok_or("no control groups with CPU weights are mounted")?;
        Tree::below(version, base, groups, cpus)
    }

    /// The folders of the groups, by [`GroupId`], if these groups have the files of cpusets: the second version.
    pub(super) fn with_cpusets(&self) -> Option<(&Path, &[PathBuf])> {
        (self.version == Version::Second).then_some((&*self.base, &*self.groups))
    }

    fn below(
        version: Version,
        base: PathBuf,
        groups: &[TaskGroup],
        cpus: usize,
    ) -> Result<Tree, String> {
        let mut tree = Tree { version, base, cpus, groups: Vec::new(), switched_on: false };
        if version == Version::Second {
            let controllers = read(tree.base.join("cgroup.controllers"))?;
            if !has_word(&controllers, "cpu") {
                return Err(format!("{} has no CPU weights to give", tree.base.display()));
            }
            let enabled = read(tree.base.join("cgroup.subtree_control"))?;
            tree.switched_on = !has_word(&enabled, "cpu");
        }
        groups.iter().try_for_each(|group| tree.add(group))?;
        Ok(tree)
    }

    /// Adds a group. After a failure, the part of the tree that exists is removed when it is dropped.
    fn add(&mut self, group: &TaskGroup) -> Result<(), String> {
        let is_root = self.groups.is_empty();
        let parent = if is_root { &self.base } else { &self.groups[group.spec.parent.index()] };
        let folder = parent.join(folder_name(group, self.groups.len()));
        fs::create_dir(&folder).map_err(|error| refused(&folder, &error))?;
        let parent = parent.clone();
        self.groups.push(folder.clone());
        if self.version == Version::Second {
            // A group's children have to join its domain before the group may have weights for them beside tasks of its
            // own.
            write(&folder.join("cgroup.type"), "threaded")?;
            write(&parent.join("cgroup.subtree_control"), "+cpu")?;
        }
        if is_root {
            return Ok(());
        }
        let weight = self.version.weight(group);
        write(&folder.join(weight.0), &weight.1)?;
        group.spec.limit.map_or(Ok(()), |limit| self.limit(&group.path, &folder, &limit))
    }

    /// Limits a new group.
    fn limit(&self, path: &str, folder: &Path, limit: &Limit) -> Result<(), String> {
        for Setting { file, value, refusal } in self.version.limit(limit, self.cpus) {
            let file = folder.join(file);
            match (fs::write(&file, &value), refusal) {
                (Ok(()), _) => {}
                (Err(error), Some((kind, means))) if error.kind() == kind => {
                    say(format_args!("warning: linux: {path} {means}"));
                }
                (Err(error), _) => return Err(format!("{value} to {}", refused(&file, &error))),
            }
        }
        Ok(())
    }

    /// The kernel's counts of the groups' limits, by [`GroupId`].
    pub(super) fn stats(&self) -> Vec<Stat> {
        let text =
            |folder: &PathBuf, file| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let stat =
            |folder: &PathBuf| Stat::read(&text(folder, "cpu.stat"), &text(folder, "cpu.pressure"));
        self.groups.iter().map(stat).collect()
    }

    /// Moves the calling thread to a group, or to the command's own group.
    pub(super) fn enter(&self, group: Option<GroupId>) -> Result<(), String> {
        let folder = group.map_or(&self.base, |group| &self.groups[group.index()]);
        let members = match self.version {
            Version::First => "tasks",
            Version::Second => "cgroup.threads",
        };
        write(&folder.join(members), &gettid().as_raw_nonzero().to_string())
    }
}

/// Removes folders of groups, each after those in it.
pub(super) fn remove(folders: &[PathBuf]) {
    let deadline = Instant::now() + PATIENCE;
    let remove = |folder: &PathBuf| {
        loop {
            let removed = fs::remove_dir(folder).map_err(|error| error.kind());
            if removed != Err(ErrorKind::ResourceBusy) || Instant::now() >= deadline {
                return removed.is_ok();
            }
            std::thread::sleep(PAUSE);
        }
    };
    if let Some(left) = folders.iter().rev().find(|folder| !remove(folder)) {
        say(format_args!("warning: {} cannot be removed", left.display()));
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        remove(&self.groups);
        // The groups of another run still need the weights.
        if self.switched_on && !has_other_runs(&self.base) {
            let _ = write(&self.base.join("cgroup.subtree_control"), "-cpu");
        }
    }
}

/// A value to write for a limit.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    file: &'static str,
    value: String,
    /// The error that is harmless here, and its consequence for the group.
    refusal: Option<(ErrorKind, &'static str)>,
}

impl Version {
    /// The file and the value that give a group its weight in the scenario.
    fn weight(self, group: &TaskGroup) -> (&'static str, String) {
        if group.spec.idle {
            // The kernel chooses the weight of an idle group, and refuses another.
            return ("cpu.idle", "1".to_owned());
        }
        let weight = group.spec.weight;
        match self {
            Version::First => ("cpu.shares", weight.get().to_string()),
            Version::Second => ("cpu.weight", weight.nearest_cpu_weight().to_string()),
        }
    }

    /// The files and the values that give a group this limit on so many CPUs. The kernel limits all CPUs together.
    fn limit(self, limit: &Limit, cpus: usize) -> Vec<Setting> {
        let shares = if limit.is_per_cpu() { cpus.max(1) as u64 } else { 1 };
        let micros = |span: Nanos| span.0.saturating_mul(shares) / 1_000;
        let (runtime, burst) = (micros(limit.runtime()), micros(limit.burst()));
        let period = limit.period().0 / 1_000;
        let setting = |file, value, refusal| Setting { file, value, refusal };
        let (mut settings, burst_file) = match self {
            Version::First => (
                vec![
                    setting("cpu.cfs_period_us", period.to_string(), None),
                    setting("cpu.cfs_quota_us", runtime.to_string(), Some(MORE_THAN_ABOVE)),
                ],
                "cpu.cfs_burst_us",
            ),
            Version::Second => {
                (vec![setting("cpu.max", format!("{runtime} {period}"), None)], "cpu.max.burst")
            }
        };
        if burst > 0 {
            settings.push(setting(burst_file, burst.to_string(), Some(NO_BURST)));
        }
        settings
    }
}

/// The first version requires every limit to be within those above it, including those of other runs' groups.
const MORE_THAN_ABOVE: (ErrorKind, &str) = (
    ErrorKind::InvalidInput,
    "asks for more than a group above it has: it has no limit of its own, and is held by that",
);
/// A kernel before Linux 5.14 has no such file, and a program cannot make it.
const NO_BURST: (ErrorKind, &str) =
    (ErrorKind::PermissionDenied, "carries nothing over: this kernel knows no burst");

/// The kernel's counts of a group's limit; `None` where it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) nr_periods: Figure,
    pub(super) nr_throttled: Figure,
    pub(super) throttled_ns: Figure,
    pub(super) nr_bursts: Figure,
    pub(super) burst_ns: Figure,
    pub(super) pressure_some_ns: Figure,
    pub(super) pressure_full_ns: Figure,
}

impl Stat {
    /// The counts of `cpu.stat` and of `cpu.pressure`, which the second version has. The first version counts in
    /// nanoseconds, the second in microseconds.
    fn read(text: &str, pressure: &str) -> Stat {
        let figure = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            pairs.find(|&(key, _)| key == name)?.1.trim().parse::<u64>().ok()
        };
        let span = |first, second| {
            figure(first).or_else(|| figure(second).map(|us| us.saturating_mul(1_000)))
        };
        Stat {
            nr_periods: figure("nr_periods"),
            nr_throttled: figure("nr_throttled"),
            throttled_ns: span("throttled_time", "throttled_usec"),
            nr_bursts: figure("nr_bursts"),
            burst_ns: span("burst_time", "burst_usec"),
            pressure_some_ns: total(pressure, "some"),
            pressure_full_ns: total(pressure, "full"),
        }
    }
}

/// The total of a line of `cpu.pressure`: `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, in microseconds.
fn total(pressure: &str, line: &str) -> Figure {
    let line = pressure.lines().find_map(|all| all.strip_prefix(line))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()?.saturating_mul(1_000))
}

/// The command's own group in the hierarchy that controls CPU time, from the kernel's lists of the process's mounts and
/// groups.
fn base(mounts: &str, groups: &str) -> Option<(Version, PathBuf)> {
    if let Some(first) = base_of("cpu", mounts, groups) {
        return Some((Version::First, first));
    }
    let mut all = mounts.lines().filter_map(Mount::read);
    let mount = all.find(|mount| mount.kind == "cgroup2")?;
    Some((Version::Second, own(&mount, groups, str::is_empty)?))
}

/// The command's own group in the first version's hierarchy of a controller, if there is one.
pub(super) fn base_of(controller: &str, mounts: &str, groups: &str) -> Option<PathBuf> {
    let mut all = mounts.lines().filter_map(Mount::read);
    let mount = all.find(|mount| mount.controls(controller))?;
    own(&mount, groups, |all| all.split(',').any(|name| name == controller))
}

/// The command's own group in the hierarchy of `mount`, whose line in the list of the process's groups has the wanted
/// controllers.
fn own(mount: &Mount, groups: &str, is_wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    // NUMBER:CONTROLLERS:PATH, without controllers in the second version.
    let own = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        is_wanted(controllers).then_some(path)
    })?;
    // In a container the mount may begin below the beginning of the groups' paths.
    let below = Path::new(own).strip_prefix(&mount.root).ok();
    let below = below.filter(|path| path.is_relative()).unwrap_or(Path::new(""));
    Some(if below == Path::new("") { mount.at.clone() } else { mount.at.join(below) })
}

/// The root's name has the process number. The other names are numbered, so that no name is too long, leads elsewhere,
/// or is that of a file of the kernel's.
pub(super) fn folder_name(group: &TaskGroup, number: usize) -> String {
    if number == 0 {
        return format!("{ROOT_PREFIX}{}", std::process::id());
    }
    let name = group.path.rsplit('/').next().unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-_".contains(*c);
    let name: String = name.chars().filter(plain).take(NAME_CHARS).collect();
    format!("{number}-{name}")
}

/// The beginning of the names of the runs' roots.
const ROOT_PREFIX: &str = "runyard-";

fn has_other_runs(base: &Path) -> bool {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(ROOT_PREFIX))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|found| found == word)
}

pub(super) fn read(file: impl AsRef<Path>) -> Result<String, String> {
    fs::read_to_string(&file).map_err(|error| refused(file.as_ref(), &error))
}

pub(super) fn write(file: &Path, value: &str) -> Result<(), String> {
    fs::write(file, value).map_err(|error| format!("{value} to {}", refused(file, &error)))
}

pub(super) fn refused(file: &Path, why: &std::io::Error) -> String {
    format!("{}: {why}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::Weight;
    use runyard_engine::spec::GroupSpec;

    const FIRST: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const SECOND: &str = "\
30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
";

    fn group(path: &str, parent: u32, weight: i64) -> TaskGroup {
        let (parent, weight) = (GroupId(parent), Weight::new(weight).expect("a weight"));
        let spec = GroupSpec { parent, weight, ..GroupSpec::ROOT };
        TaskGroup { path: path.to_owned(), spec, cpuset: None }
    }

    /// A folder for one test. Nothing in it belongs to the kernel.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cgroup-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder for files");
        folder
    }

    #[test]
    fn the_groups_are_made_where_the_cpu_is_controlled() {
        let at = |version, path: &str| Some((version, PathBuf::from(path)));
        let own = "4:cpuset:/\n1:cpu,cpuacct:/\n0::/\n";
        assert_eq!(base(FIRST, own), at(Version::First, "/sys/fs/cgroup/cpu,cpuacct"));
        let own = "4:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/c\n";
        assert_eq!(base(FIRST, own), at(Version::First, "/sys/fs/cgroup/cpu,cpuacct/a/b"));
        let own = "0::/user.slice/session-1.scope\n";
        let below = "/sys/fs/cgroup/user.slice/session-1.scope";
        assert_eq!(base(SECOND, own), at(Version::Second, below));
        let named = "32 31 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=cpu\n";
        assert_eq!(base(named, "1:name=cpu:/\n"), None, "a name is no controller");
        assert_eq!(base("", own), None);
        assert_eq!(base(SECOND, ""), None);
    }

    #[test]
    fn a_mount_may_begin_below_the_root() {
        let mounts = "32 31 0:29 /pod/7 /my\\040groups rw - cgroup cgroup rw,cpu\n";
        let at = |own| base(mounts, own).expect("a place").1;
        assert_eq!(at("1:cpu:/pod/7\n"), Path::new("/my groups"));
        assert_eq!(at("1:cpu:/pod/7/a\n"), Path::new("/my groups/a"));
        assert_eq!(at("1:cpu:/elsewhere\n"), Path::new("/my groups"));
    }

    #[test]
    fn weights_are_the_kernels_of_either_version() {
        let set = |version: Version, weight| version.weight(&group("/a", 0, weight));
        assert_eq!(set(Version::First, 512), ("cpu.shares", "512".to_owned()));
        for (weight, second) in [
            (512, "50"),
            (1024, "100"),
            (1536, "150"),
            (10_240, "1000"),
            (2, "1"),
            (262_144, "10000"),
        ] {
            assert_eq!(set(Version::Second, weight), ("cpu.weight", second.to_owned()));
        }
    }

    #[test]
    fn limits_are_the_kernels_of_either_version() {
        let micros = Nanos::from_micros;
        let limit = |runtime, burst, per_cpu| {
            let limit = Limit::new(micros(runtime), micros(50_000), micros(burst), per_cpu);
            limit.expect("a limit")
        };
        let written = |version: Version, limit, cpus| -> Vec<_> {
            let settings = version.limit(&limit, cpus).into_iter();
            settings.map(|setting| format!("{} {}", setting.file, setting.value)).collect()
        };
        let (first, second) = (Version::First, Version::Second);
        let plain = limit(20_000, 0, false);
        let quota = ["cpu.cfs_period_us 50000", "cpu.cfs_quota_us 20000"];
        assert_eq!(written(first, plain, 4), quota);
        assert_eq!(written(second, plain, 4), ["cpu.max 20000 50000"]);
        let burst = limit(1_500, 250, true);
        let quota = ["cpu.cfs_period_us 50000", "cpu.cfs_quota_us 6000", "cpu.cfs_burst_us 1000"];
        assert_eq!(written(first, burst, 4), quota);
        assert_eq!(written(second, burst, 4), ["cpu.max 6000 50000", "cpu.max.burst 1000"]);
    }

    #[test]
    fn what_the_kernel_counts_is_in_nanoseconds() {
        let all = Stat {
            nr_periods: Some(7),
            nr_throttled: Some(3),
            throttled_ns: Some(5_000),
            nr_bursts: Some(1),
            burst_ns: Some(2_000),
            ..Stat::default()
        };
        let first = "nr_periods 7\nnr_throttled 3\nthrottled_time 5000\nnr_bursts 1\n\
                     burst_time 2000\n";
        assert_eq!(Stat::read(first, ""), all);
        let second = "usage_usec 99\nnr_periods 7\nnr_throttled 3\nthrottled_usec 5\n\
                      nr_bursts 1\nburst_usec 2\n";
        assert_eq!(Stat::read(second, ""), all);
        let pressure = "some avg10=1.53 avg60=0.87 avg300=0.73 total=1088168\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let pressed =
            Stat { pressure_some_ns: Some(1_088_168_000), pressure_full_ns: Some(7_000), ..all };
        assert_eq!(Stat::read(second, pressure), pressed);
        let old = Stat { nr_bursts: None, burst_ns: None, ..all };
        assert_eq!(Stat::read("nr_periods 7\nnr_throttled 3\nthrottled_time 5000\n", ""), old);
        assert_eq!(Stat::read("usage_usec 99\n", ""), Stat::default());
    }

    #[test]
    fn no_name_leads_out_of_the_tree() {
        let name = |path: &str| folder_name(&group(path, 0, 1024), 3);
        assert_eq!(name("/web/api"), "3-api");
        assert_eq!(name("/web/.."), "3-");
        assert_eq!(name("/cpu.shares"), "3-cpushares");
        assert_eq!(name(&format!("/{}", "x".repeat(500))).len(), 2 + NAME_CHARS);
    }

    #[test]
    fn what_is_written_is_what_each_version_wants() {
        let mut groups = [group("/", 0, 1024), group("/web", 0, 512), group("/web/api", 1, 1536)];
        let [runtime, period, burst] = [30, 50, 10].map(Nanos::from_millis);
        groups[1].spec.limit = Limit::new(runtime, period, burst, false).ok();
        for (version, members) in [(Version::First, "tasks"), (Version::Second, "cgroup.threads")] {
            let base = folder(members);
            fs::write(base.join("cgroup.controllers"), "cpuset cpu io\n").unwrap();
            fs::write(base.join("cgroup.subtree_control"), "io\n").unwrap();
            let tree = Tree::below(version, base.clone(), &groups, 1).unwrap();
            let root = base.join(format!("runyard-{}", std::process::id()));
            let (web, api) = (root.join("1-web"), root.join("1-web/2-api"));
            let said = |folder: &Path, file: &str| fs::read_to_string(folder.join(file)).ok();
            match version {
                Version::First => {
                    assert_eq!(said(&web, "cpu.shares").as_deref(), Some("512"));
                    assert_eq!(said(&api, "cpu.shares").as_deref(), Some("1536"));
                    assert_eq!(said(&root, "cpu.shares"), None, "it competes as anything else");
                    assert_eq!(said(&base, "cgroup.subtree_control").as_deref(), Some("io\n"));
                    assert_eq!(said(&web, "cpu.cfs_quota_us").as_deref(), Some("30000"));
                    assert_eq!(said(&web, "cpu.cfs_burst_us").as_deref(), Some("10000"));
                    assert_eq!(said(&api, "cpu.cfs_quota_us"), None, "it has no limit");
                }
                Version::Second => {
                    assert_eq!(said(&web, "cpu.weight").as_deref(), Some("50"));
                    assert_eq!(said(&api, "cpu.weight").as_deref(), Some("150"));
                    assert_eq!(said(&web, "cpu.max").as_deref(), Some("30000 50000"));
                    assert_eq!(said(&web, "cpu.max.burst").as_deref(), Some("10000"));
                    assert_eq!(said(&api, "cpu.max"), None, "it has no limit");
                    for made in [&root, &web, &api] {
                        assert_eq!(said(made, "cgroup.type").as_deref(), Some("threaded"));
                        let parent = made.parent().unwrap();
                        assert_eq!(said(parent, "cgroup.subtree_control").as_deref(), Some("+cpu"));
                    }
                }
            }
            fs::write(web.join("cpu.stat"), "nr_periods 4\nnr_throttled 2\n").unwrap();
            let counted = Stat { nr_periods: Some(4), nr_throttled: Some(2), ..Stat::default() };
            assert_eq!(tree.stats(), [Stat::default(), counted, Stat::default()]);
            let own = gettid().as_raw_nonzero().to_string();
            tree.enter(Some(GroupId(2))).unwrap();
            assert_eq!(said(&api, members).as_deref(), Some(own.as_str()));
            assert_eq!(said(&base, members), None);
            tree.enter(None).unwrap();
            assert_eq!(said(&base, members).as_deref(), Some(own.as_str()), "it left the tree");
            // These are ordinary folders with files in them, which would not be removed.
            std::mem::forget(tree);
            fs::remove_dir_all(base).unwrap();
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let base = folder("nothing");
        let why = Tree::below(Version::Second, base.clone(), &[], 1).unwrap_err();
        assert!(why.contains("cgroup.controllers: "), "{why}");
        fs::write(base.join("cgroup.controllers"), "cpuset io\n").unwrap();
        let why = Tree::below(Version::Second, base.clone(), &[], 1).unwrap_err();
        assert!(why.ends_with(" has no CPU weights to give"), "{why}");
        let root = [group("/", 0, 1024)];
        let why = Tree::below(Version::First, base.join("gone"), &root, 1).unwrap_err();
        assert!(why.contains("runyard-"), "{why}");
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn the_tree_is_removed_from_the_leaves() {
        let base = folder("leaves");
        let groups = [group("/", 0, 1024), group("/web", 0, 512), group("/web/api", 1, 1536)];
        let mut tree =
            Tree { version: Version::First, base, cpus: 1, groups: Vec::new(), switched_on: false };
        for (at, group) in groups.iter().enumerate() {
            let parent = if at == 0 { &tree.base } else { &tree.groups[group.spec.parent.index()] };
            let folder = parent.join(folder_name(group, at));
            fs::create_dir(&folder).unwrap();
            tree.groups.push(folder);
        }
        let base = tree.base.clone();
        drop(tree);
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
        fs::remove_dir(base).unwrap();
    }
}
