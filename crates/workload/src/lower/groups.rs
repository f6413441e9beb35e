//! Task groups: those listed in the section `groups`, an extension, and those that rt-app's `taskgroup` creates by
//! name.
//!
//! Invariant: a group follows its parent, so that a host can build the tree in order.

use super::cookies::Cookies;
use super::limits::{self, LimitKeys};
use super::number::number;
use super::policy;
use super::warnings::Warnings;
use crate::diagnostic::{Fault, quoted};
use crate::json::{Keys, MAX_DEPTH, Member, Node};
use crate::nearest::did_you_mean;
use crate::scenario::TaskGroup;
use crate::shape;
use runyard_engine::attr::{GroupId, LatencyNice, Weight};
use runyard_engine::kernel::Model;
use runyard_engine::spec::GroupSpec;
use std::collections::BTreeMap;

/// The groups of a scenario, as they become known.
pub(super) struct Groups {
    known: Vec<TaskGroup>,
    by_path: BTreeMap<String, GroupId>,
    /// The number of groups that the section lists, the root included; they come first.
    listed: usize,
}

impl Groups {
    /// Reads the groups of the section.
    pub(super) fn read(
        section: Option<Node<'_>>,
        model: Model,
        cookies: &mut Cookies,
        warnings: &mut Warnings,
    ) -> Result<Groups, Fault> {
        let root = TaskGroup { path: "/".to_owned(), spec: GroupSpec::ROOT };
        let by_path = BTreeMap::from([(root.path.clone(), GroupId::ROOT)]);
        let mut groups = Groups { known: vec![root], by_path, listed: 1 };
        let Some(members) = section.map(Node::object).transpose()? else { return Ok(groups) };
        let keys = Keys::of(members.clone());
        let mut asked = Vec::with_capacity(keys.len());
        for member in members.clone() {
            check_path(&member.key(), member.at)?;
            asked.push(listed(member, model, cookies, warnings)?);
        }
        groups.known.reserve_exact(asked.len());
        for member in members {
            groups.list(member, |path| keys.find(path).map(|nth| asked[nth as usize]))?;
        }
        groups.listed = groups.known.len();
        Ok(groups)
    }

    /// Returns the listed group that `node` names.
    pub(super) fn named(&self, node: Node<'_>) -> Result<GroupId, Fault> {
        let path = &*node.text()?;
        let listed = self.by_path.get(path).filter(|id| id.index() < self.listed);
        listed.copied().ok_or_else(|| {
            let all = self.known[..self.listed].iter().map(|group| &*group.path);
            let near = did_you_mean(path, all);
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
                None => self.add(path, parent, GroupSpec::ROOT),
            };
        }
        Ok(Some(parent))
    }

    /// Returns all groups, by [`GroupId`].
    pub(super) fn into_all(self) -> Vec<TaskGroup> {
        self.known
    }

    /// Adds a listed group, after those of its parents that are listed further down.
    fn list(
        &mut self,
        member: Member<'_>,
        asked: impl Fn(&str) -> Option<GroupSpec>,
    ) -> Result<(), Fault> {
        let mut parent = GroupId::ROOT;
        for path in lineage(&member.key()) {
            parent = match (self.by_path.get(path), asked(path)) {
                (Some(&group), _) => group,
                (None, Some(asked)) => self.add(path, parent, asked),
                (None, None) => {
                    let what = format!("its parent {} is not listed", quoted(path));
                    return Err(Fault::new(member.at, what));
                }
            };
        }
        Ok(())
    }

    fn add(&mut self, path: &str, parent: GroupId, asked: GroupSpec) -> GroupId {
        let id = GroupId(number(self.known.len()));
        self.by_path.insert(path.to_owned(), id);
        self.known.push(TaskGroup { path: path.to_owned(), spec: GroupSpec { parent, ..asked } });
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
fn listed(
    group: Member<'_>,
    model: Model,
    cookies: &mut Cookies,
    warnings: &mut Warnings,
) -> Result<GroupSpec, Fault> {
    let (mut weight, mut idle, mut latency_nice) = (None, false, None);
    let mut cookie = None;
    let mut limit = LimitKeys::default();
    let is_root = group.key() == "/";
    for member in group.value.object()? {
        match shape::GROUP.own("a task group", member)? {
            _ if is_root => {
                return Err(Fault::new(
                    member.at,
                    "the task group / takes no weight, no latency nice, no cookie and no limits",
                ));
            }
            "weight" => {
                let (low, high) = Weight::GROUP_RANGE.into_inner();
                let range = low.into()..=high.into();
                warn_of_cgroup2(member, warnings);
                weight = Some((member.at, member.value.checked("a weight", range, Weight::new)?));
            }
            "idle" => idle = member.value.boolean()?,
            // The second is the file of the founding document.
            key @ ("latency_nice" | "cpu.latency.nice") => {
                if let Some((other, _)) = latency_nice {
                    let what = format!(
                        "`{key}` and `{other}` are one thing: a task group has one of them"
                    );
                    return Err(Fault::new(member.at, what));
                }
                latency_nice = Some((key, policy::latency_nice(member.value)?));
            }
            "cookie" => cookie = cookies.named(member.value)?,
            "runtime" => limit.runtime = Some((member.value, limits::runtime(member.value)?)),
            "period" => limit.period = Some((member.value, limits::span(member.value)?)),
            "burst" => limit.burst = Some((member, limits::span(member.value)?)),
            "per_cpu" => {
                let asked = member.value.boolean()?;
                if asked && !model.founding && model.kernel.release().is_some() {
                    let what = format!(
                        "Linux {model} has no `per_cpu`: the limit is that of each CPU anyway"
                    );
                    warnings.instead(member.at, what);
                }
                limit.per_cpu = Some((member, asked));
            }
            _ => unreachable!("every key of a task group is read"),
        }
    }
    let limit = limit.limit(warnings)?;
    let weight = match (idle, weight) {
        (true, Some((at, _))) => {
            let what = format!("an idle task group takes no weight: it is {}", Weight::IDLE.get());
            return Err(Fault::new(at, what));
        }
        // The kernel sets this weight when `cpu.idle` is set (`sched_group_set_idle`).
        (true, None) => Weight::IDLE,
        (false, weight) => weight.map_or(Weight::NICE_0, |(_, weight)| weight),
    };
    let latency_nice = latency_nice.map_or(LatencyNice::ZERO, |(_, value)| value);
    Ok(GroupSpec { weight, idle, latency_nice, limit, cookie, ..GroupSpec::ROOT })
}

/// The default weight of a group with cgroup2 (`CGROUP_WEIGHT_DFL`).
const CGROUP2_WEIGHT: &str = "100";

/// Warns about the number that is the default of `cpu.weight`. A user who writes it may mean that default, which
/// corresponds to more than ten times as much here.
fn warn_of_cgroup2(member: Member<'_>, warnings: &mut Warnings) {
    if member.value.source() == CGROUP2_WEIGHT {
        let what = format!(
            "a `weight` of 100 is 100/{} of a task's, as `cpu.shares`; the `cpu.weight` of cgroup2 that is 100 is \
             {0} here",
            Weight::NICE_0.get()
        );
        warnings.instead(member.at, what);
    }
}
