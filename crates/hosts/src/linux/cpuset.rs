//! The cpusets of a scenario's groups as the kernel's.
//!
//! In the second version of control groups they are files of the groups that [`super::cgroup`] makes. In the first they
//! are a hierarchy of their own, in which this module makes the groups once more. There each group needs memory nodes
//! too: those of the group above.
//!
//! The kernel's set of a group has the CPUs of the partitions below it too. The tasks of the group do not use these: the
//! program asks for its own CPUs beside that (`sched_setaffinity`). So the tasks run where they should even where the
//! kernel makes no partition: the first version has none.

use super::cgroup::{Tree, base_of, folder_name, read, refused, remove, write};
use runyard_engine::attr::GroupId;
use runyard_engine::cpu::CpuSet;
use runyard_outcome::stderr::say;
use runyard_workload::cpusets::{Cpusets, Partition};
use runyard_workload::scenario::TaskGroup;
use rustix::thread::gettid;
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's cpusets of a run. Dropping this removes the groups of the first version.
#[derive(Debug)]
pub(super) struct Sets {
    /// The folders of the first version by [`GroupId`]; none in the second.
    first: Vec<PathBuf>,
}

impl Sets {
    /// Makes the cpusets, or returns the reason why there are none. `cpus` are the machine's numbers of the run's CPUs.
    pub(super) fn make(
        groups: &[TaskGroup],
        sets: &Cpusets,
        cpus: &[usize],
        tree: Option<&Tree>,
    ) -> Result<Sets, String> {
        let base = base_of("cpuset", &read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
        let here = |group| on_machine(sets.span(group), cpus);
        match (base, tree.and_then(Tree::with_cpusets)) {
            (Some(base), _) => {
                if groups.iter().any(|group| partition(group) != Partition::Member) {
                    say(
                        "warning: linux has its cpusets in cgroup v1, which knows no partitions: they are CPUs only",
                    );
                }
                Sets::first(&base, groups, here)
            }
            (None, Some((base, folders))) => {
                second(base, folders, groups, here)?;
                Ok(Sets { first: Vec::new() })
            }
            (None, None) => Err("no control groups with cpusets are mounted".to_owned()),
        }
    }

    fn first(
        base: &Path,
        groups: &[TaskGroup],
        here: impl Fn(GroupId) -> String,
    ) -> Result<Sets, String> {
        let mut sets = Sets { first: Vec::new() };
        let nodes = read(base.join("cpuset.mems"))?;
        for (group, id) in groups.iter().zip((0..).map(GroupId)) {
            let is_root = id == GroupId::ROOT;
            let parent = if is_root { base } else { &sets.first[group.spec.parent.index()] };
            let folder = parent.join(folder_name(group, id.index()));
            fs::create_dir(&folder).map_err(|error| refused(&folder, &error))?;
            sets.first.push(folder.clone());
            write(&folder.join("cpuset.mems"), nodes.trim())?;
            write(&folder.join("cpuset.cpus"), &here(id))?;
        }
        Ok(sets)
    }

    /// Moves the calling thread to the cpuset of a group.
    pub(super) fn enter(&self, group: GroupId) -> Result<(), String> {
        match self.first.get(group.index()) {
            Some(folder) => write(&folder.join("tasks"), &gettid().as_raw_nonzero().to_string()),
            None => Ok(()),
        }
    }
}

impl Drop for Sets {
    fn drop(&mut self) {
        remove(&self.first);
    }
}

/// Writes the files of the second version.
fn second(
    base: &Path,
    folders: &[PathBuf],
    groups: &[TaskGroup],
    here: impl Fn(GroupId) -> String,
) -> Result<(), String> {
    for (nth, (group, folder)) in groups.iter().zip(folders).enumerate() {
        let parent = if nth == 0 { base } else { &folders[group.spec.parent.index()] };
        write(&parent.join("cgroup.subtree_control"), "+cpuset")?;
        let cpus = here(GroupId(u32::try_from(nth).expect("a group's number has 32 bits")));
        write(&folder.join("cpuset.cpus"), &cpus)?;
        let kind = partition(group);
        if kind == Partition::Member {
            continue;
        }
        // A partition whose parent is none needs CPUs of its own all the way down (from 6.7 on).
        for above in folder.ancestors().take_while(|above| *above != base) {
            let exclusive = above.join("cpuset.cpus.exclusive");
            if exclusive.exists() {
                let own = fs::read_to_string(&exclusive).unwrap_or_default();
                let all = [own.trim(), &cpus].into_iter().filter(|text| !text.is_empty());
                write(&exclusive, &all.collect::<Vec<_>>().join(","))?;
            }
        }
        let file = folder.join("cpuset.cpus.partition");
        let _ = fs::write(&file, kind.name());
        let now = fs::read_to_string(&file).unwrap_or_default();
        if now.trim() != kind.name() {
            let path = &group.path;
            say(format_args!(
                "warning: linux: {path} is no partition, and has its CPUs only: {}",
                now.trim()
            ));
        }
    }
    Ok(())
}

fn partition(group: &TaskGroup) -> Partition {
    group.cpuset.as_ref().map_or(Partition::Member, |asked| asked.partition)
}

/// A set by the machine's numbers of its CPUs, as the kernel reads it.
fn on_machine(set: &CpuSet, cpus: &[usize]) -> String {
    let numbers = set.iter().map(|cpu| cpus[cpu.index()].to_string());
    numbers.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::spec::GroupSpec;
    use runyard_workload::{Overrides, parse};

    const TEXT: &str = r#"{"machine": {"cpus": 4}, "tasks": {"t": {"run": 1, "loop": 1}}, "groups": {
        "/a": {"cpuset.cpus": "1-3"}, "/a/b": {"cpuset.cpus": "3"}, "/c": {}}}"#;

    /// A folder for one test. Nothing in it belongs to the kernel.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cpuset-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder for files");
        folder
    }

    #[test]
    fn a_group_of_the_first_version_has_nodes_and_cpus() {
        let scenario = parse("-", TEXT, &Overrides::default()).unwrap().scenario;
        let cpusets = scenario.cpusets(CpuSet::first(4));
        let base = folder("first");
        fs::write(base.join("cpuset.mems"), "0-1\n").unwrap();
        let here = |group| on_machine(cpusets.span(group), &[4, 5, 6, 9]);
        let sets = Sets::first(&base, &scenario.groups, here).unwrap();
        let root = base.join(folder_name(&scenario.groups[0], 0));
        let said = |file: &str| fs::read_to_string(root.join(file)).unwrap();
        assert_eq!([said("cpuset.cpus"), said("cpuset.mems")], ["4,5,6,9", "0-1"]);
        assert_eq!([said("1-a/cpuset.cpus"), said("1-a/2-b/cpuset.cpus")], ["5,6,9", "9"]);
        assert_eq!(said("3-c/cpuset.cpus"), "4,5,6,9");
        sets.enter(GroupId(2)).unwrap();
        assert_eq!(said("1-a/2-b/tasks"), gettid().as_raw_nonzero().to_string());
        std::mem::forget(sets);
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn the_second_version_has_a_file_for_each() {
        let base = folder("second");
        let folders: Vec<_> = ["r", "r/a"].map(|path| base.join(path)).into();
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        fs::write(folders[0].join("cpuset.cpus.exclusive"), "\n").unwrap();
        fs::write(folders[1].join("cpuset.cpus.exclusive"), "1\n").unwrap();
        let set = |cpus| runyard_workload::cpusets::Cpuset { cpus, partition: Partition::Root };
        let group =
            |path: &str, cpuset| TaskGroup { path: path.to_owned(), spec: GroupSpec::ROOT, cpuset };
        let groups = [group("/", None), group("/a", Some(Box::new(set(CpuSet::first(2)))))];
        second(&base, &folders, &groups, |group| ["0-1", "0"][group.index()].to_owned()).unwrap();
        let said = |file: &str| fs::read_to_string(base.join(file)).unwrap();
        assert_eq!([said("r/cpuset.cpus"), said("r/a/cpuset.cpus")], ["0-1", "0"]);
        assert_eq!(said("r/cgroup.subtree_control"), "+cpuset");
        assert_eq!(said("r/a/cpuset.cpus.partition"), "root");
        let exclusive = ["r", "r/a"].map(|path| said(&format!("{path}/cpuset.cpus.exclusive")));
        assert_eq!(exclusive, ["0", "1,0"]);
        fs::remove_dir_all(base).unwrap();
    }
}
