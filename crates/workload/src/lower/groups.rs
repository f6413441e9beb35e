//! Task groups: those listed in the section `groups`, an extension, and those that rt-app's `taskgroup` creates by
//! name.
//!
//! Invariant: a group follows its parent, so that a host can build the tree in order.

use super::group_keys::{self, GroupKeys, Reader};
use super::number::number;
use super::partitions;
use crate::cpusets::Cpuset;
use crate::diagnostic::{Fault, quoted};
use crate::json::{Keys, MAX_DEPTH, Member, Node};
use crate::nearest::advice;
use crate::scenario::TaskGroup;
use runyard_engine::attr::{GroupId, Weight};
use runyard_engine::cpu::CpuSet;
use runyard_engine::spec::GroupSpec;
use std::collections::BTreeMap;

/// The groups of a scenario, as they become known.
pub(super) struct Groups {
    known: Vec<TaskGroup>,
    by_path: BTreeMap<String, GroupId>,
    /// The number of groups that the section lists, the root included; they come first.
    listed: usize,
}

/// A group as the section has it.
struct Listed {
    /// Its attributes; the parent is not known yet.
    spec: GroupSpec,
    cpuset: Option<Box<Cpuset>>,
    /// The place of `cpuset.cpus.partition`.
    partition_at: usize,
}

impl Groups {
    /// Reads the groups of the section.
    pub(super) fn read(
        section: Option<Node<'_>>,
        isolated: &CpuSet,
        mut reader: Reader<'_>,
    ) -> Result<Groups, Fault> {
        let root = TaskGroup { path: "/".to_owned(), spec: GroupSpec::ROOT, cpuset: None };
        let by_path = BTreeMap::from([(root.path.clone(), GroupId::ROOT)]);
        let mut groups = Groups { known: vec![root], by_path, listed: 1 };
        let Some(members) = section.map(Node::object).transpose()? else { return Ok(groups) };
        let keys = Keys::of(members.clone());
        let mut asked = Vec::with_capacity(keys.len());
        for member in members.clone() {
            check_path(&member.key(), member.at)?;
            asked.push(listed(member, &mut reader)?);
        }
        groups.known.reserve_exact(asked.len());
        for member in members {
            groups.list(member, |path| keys.find(path).map(|nth| &asked[nth as usize]))?;
        }
        groups.listed = groups.known.len();
        partitions::check(&groups.known, isolated, reader.cpus, |path| {
            keys.find(path).map_or(Fault::NOWHERE, |nth| asked[nth as usize].partition_at)
        })?;
        Ok(groups)
    }

    /// Returns the listed group that `node` names.
    pub(super) fn named(&self, node: Node<'_>) -> Result<GroupId, Fault> {
        let path = &*node.text()?;
        let listed = self.by_path.get(path).filter(|id| id.index() < self.listed);
        listed.copied().ok_or_else(|| {
            // "/" is there always, so nobody forgot to list it.
            let listed = self.known[1..self.listed].iter().map(|group| &*group.path);
            let near = advice(path, &listed.collect::<Vec<_>>());
            let what = format!("no task group {} is listed in `groups`{near}", quoted(path));
            Fault::new(node.at(), what)
        })
    }

    /// Returns the attributes of a group.
    pub(super) fn spec(&self, group: GroupId) -> GroupSpec {
        self.known[group.index()].spec
    }

    /// Returns whether the section lists a group. The others are created by `taskgroup`.
    pub(super) fn is_listed(&self, group: GroupId) -> bool {
        group.index() < self.listed
    }

    /// Returns the group that `node` names. A new group is created with its parents. There is none if the name is
    /// empty, as in rt-app.
    pub(super) fn created(&mut self, node: Node<'_>) -> Result<Option<GroupId>, Fault> {
        let path = &*node.text()?;
        if path.is_empty() {
            return Ok(None);
        }
        check_path(path, node.at())?;
        let mut parent = GroupId::ROOT;
        for path in lineage(path) {
            parent = match self.by_path.get(path) {
                Some(&group) => group,
                None => self.add(path, parent, GroupSpec::ROOT, None),
            };
        }
        Ok(Some(parent))
    }

    /// Returns all groups, by [`GroupId`].
    pub(super) fn into_all(self) -> Vec<TaskGroup> {
        self.known
    }

    /// Adds a listed group, after those of its parents that are listed further down.
    fn list<'a>(
        &mut self,
        member: Member<'_>,
        asked: impl Fn(&'_ str) -> Option<&'a Listed>,
    ) -> Result<(), Fault> {
        let mut parent = GroupId::ROOT;
        for path in lineage(&member.key()) {
            parent = match (self.by_path.get(path), asked(path)) {
                (Some(&group), _) => group,
                (None, Some(asked)) => self.add(path, parent, asked.spec, asked.cpuset.clone()),
                (None, None) => {
                    let what = format!("its parent {} is not listed", quoted(path));
                    return Err(Fault::new(member.at, what));
                }
            };
        }
        Ok(())
    }

    fn add(
        &mut self,
        path: &str,
        parent: GroupId,
        asked: GroupSpec,
        cpuset: Option<Box<Cpuset>>,
    ) -> GroupId {
        let id = GroupId(number(self.known.len()));
        self.by_path.insert(path.to_owned(), id);
        let spec = GroupSpec { parent, ..asked };
        self.known.push(TaskGroup { path: path.to_owned(), spec, cpuset });
        id
    }
}

/// Returns the paths of the groups from the root, which is excluded, to `path`.
fn lineage(path: &str) -> impl Iterator<Item = &str> {
    let below_root = if path == "/" { "" } else { path };
    let ends = below_root.match_indices('/').map(|(at, _)| at).skip(1).chain([below_root.len()]);
    ends.map(move |end| &below_root[..end]).filter(|path| !path.is_empty())
}

fn check_path(path: &str, at: usize) -> Result<(), Fault> {
    let names = path.strip_prefix('/').map(|names| names.split('/'));
    let sound = path == "/" || names.clone().is_some_and(|mut names| !names.any(str::is_empty));
    if !sound {
        return Err(Fault::new(
            at,
            format!("a task group is a path like /web/api, not {}", quoted(path)),
        ));
    }
    if names.is_some_and(|names| names.count() > MAX_DEPTH) {
        return Err(Fault::new(at, format!("a task group nested deeper than {MAX_DEPTH}")));
    }
    Ok(())
}

/// Reads the object of a listed group; its path names its parent. An idle group takes no weight, since the kernel
/// refuses to set one (`sched_group_set_shares`).
fn listed(group: Member<'_>, reader: &mut Reader<'_>) -> Result<Listed, Fault> {
    let mut keys = GroupKeys::default();
    let is_root = group.key() == "/";
    for member in group.value.object()? {
        let key = group_keys::known(member)?;
        if is_root {
            let what = "the task group / takes no weight, no latency nice, no cookie and no limits; its CPUs are all of the machine";
            return Err(Fault::new(member.at, what));
        }
        keys.read(key, member, reader)?;
    }
    keys.check()?;
    let limit = keys.limit.limit(reader.warnings)?;
    let weight = match (keys.idle, keys.weight) {
        (true, Some((at, _))) => {
            let what = format!("an idle task group takes no weight: it is {}", Weight::IDLE.get());
            return Err(Fault::new(at, what));
        }
        // The kernel sets this weight when `cpu.idle` is set (`sched_group_set_idle`).
        (true, None) => Weight::IDLE,
        (false, weight) => weight.map_or(Weight::NICE_0, |(_, weight)| weight),
    };
    let cpuset = keys.cpuset();
    let partition_at = keys.partition.map_or(Fault::NOWHERE, |(at, _)| at);
    let GroupKeys { idle, latency_nice, cookie, .. } = keys;
    let spec = GroupSpec { weight, idle, latency_nice, limit, cookie, ..GroupSpec::ROOT };
    Ok(Listed { spec, cpuset, partition_at })
}
