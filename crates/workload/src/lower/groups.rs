//! Task groups: those listed in the section `groups`, an extension, and those that rt-app's
//! `taskgroup` creates by naming them.
//!
//! Invariant: a group stands behind its parent, so that a host can build the tree in order.

use super::limits::{self, LimitKeys};
use super::{Warnings, policy};
use crate::diagnostic::{Fault, quoted};
use crate::json::{MAX_DEPTH, Member, Node};
use crate::scenario::GroupSpec;
use runyard_engine::attr::{GroupId, LatencyNice, Weight};
use runyard_engine::limits::Limit;
use std::collections::BTreeMap;

/// What the object of a listed group asks for it.
#[derive(Clone, Copy)]
struct Listed {
    weight: Weight,
    idle: bool,
    latency_nice: LatencyNice,
    limit: Option<Limit>,
}

impl Listed {
    /// A group of which nothing is said.
    const UNASKED: Listed = Listed {
        weight: Weight::NICE_0,
        idle: false,
        latency_nice: LatencyNice::ZERO,
        limit: None,
    };
    /// The kernel forces this weight when `cpu.idle` is set (`sched_group_set_idle`).
    const IDLE: Listed = Listed { weight: Weight::IDLE, idle: true, ..Listed::UNASKED };
}

/// The groups of a scenario, as they become known.
pub(super) struct Groups {
    specs: Vec<GroupSpec>,
    by_path: BTreeMap<String, GroupId>,
    /// How many of them the section lists, the root included; they are the first ones.
    listed: usize,
}

impl Groups {
    /// The groups of the section.
    pub(super) fn read(
        section: Option<Node<'_>>,
        warnings: &mut Warnings,
    ) -> Result<Groups, Fault> {
        let Listed { weight, idle, latency_nice, limit } = Listed::UNASKED;
        let (path, parent) = ("/".to_owned(), GroupId::ROOT);
        let root = GroupSpec { path, parent, weight, idle, latency_nice, limit };
        let by_path = BTreeMap::from([(root.path.clone(), GroupId::ROOT)]);
        let mut groups = Groups { specs: vec![root], by_path, listed: 1 };
        let members = section.map(Node::object).transpose()?.unwrap_or_default();
        let mut asked = BTreeMap::new();
        for &member in &members {
            check_path(member.key, member.at)?;
            asked.insert(member.key, listed(member, warnings)?);
        }
        for member in &members {
            groups.list(*member, &asked)?;
        }
        groups.listed = groups.specs.len();
        Ok(groups)
    }

    /// The listed group that `node` names.
    pub(super) fn named(&self, node: Node<'_>) -> Result<GroupId, Fault> {
        let path = node.text()?;
        let listed = self.by_path.get(path).filter(|id| id.index() < self.listed);
        listed.copied().ok_or_else(|| {
            Fault::new(node.at(), format!("no task group {} is listed in `groups`", quoted(path)))
        })
    }

    /// The group that `node` names, created with its parents if it is new; none if the name is
    /// empty, as in rt-app.
    pub(super) fn created(&mut self, node: Node<'_>) -> Result<Option<GroupId>, Fault> {
        let path = node.text()?;
        if path.is_empty() {
            return Ok(None);
        }
        check_path(path, node.at())?;
        let mut parent = GroupId::ROOT;
        for path in lineage(path) {
            parent = match self.by_path.get(path) {
                Some(&group) => group,
                None => self.add(path, parent, Listed::UNASKED),
            };
        }
        Ok(Some(parent))
    }

    /// All groups, by [`GroupId`].
    pub(super) fn into_specs(self) -> Vec<GroupSpec> {
        self.specs
    }

    /// Adds a listed group, after those of its parents that are listed further down.
    fn list(&mut self, member: Member<'_>, asked: &BTreeMap<&str, Listed>) -> Result<(), Fault> {
        let mut parent = GroupId::ROOT;
        for path in lineage(member.key) {
            parent = match (self.by_path.get(path), asked.get(path)) {
                (Some(&group), _) => group,
                (None, Some(&asked)) => self.add(path, parent, asked),
                (None, None) => {
                    let what = format!("its parent {} is not listed", quoted(path));
                    return Err(Fault::new(member.at, what));
                }
            };
        }
        Ok(())
    }

    fn add(&mut self, path: &str, parent: GroupId, asked: Listed) -> GroupId {
        let id = GroupId(super::objects::number(self.specs.len()));
        self.by_path.insert(path.to_owned(), id);
        let Listed { weight, idle, latency_nice, limit } = asked;
        let path = path.to_owned();
        self.specs.push(GroupSpec { path, parent, weight, idle, latency_nice, limit });
        id
    }
}

/// The paths of the groups on the way from the root, which is not among them, to `path`.
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

/// What the object of a listed group gives it. An idle group takes no weight: the kernel refuses to
/// write one (`sched_group_set_shares`).
fn listed(group: Member<'_>, warnings: &mut Warnings) -> Result<Listed, Fault> {
    let (mut weight, mut idle, mut latency) = (None, false, LatencyNice::ZERO);
    let mut limit = LimitKeys::default();
    for member in group.value.object()? {
        match member.key {
            _ if group.key == "/" => {
                return Err(Fault::new(
                    member.at,
                    "the task group / takes no weight, no latency nice and no limits",
                ));
            }
            "weight" => {
                let (low, high) = Weight::GROUP_RANGE.into_inner();
                let range = low.into()..=high.into();
                weight = Some((member.at, member.value.checked("a weight", range, Weight::new)?));
            }
            "idle" => idle = member.value.boolean()?,
            "latency_nice" => latency = policy::latency_nice(member.value)?,
            "runtime" => limit.runtime = Some((member.value, limits::runtime(member.value)?)),
            "period" => limit.period = Some((member.value, limits::span(member.value)?)),
            "burst" => limit.burst = Some((member, limits::span(member.value)?)),
            "per_cpu" => limit.per_cpu = Some((member, member.value.boolean()?)),
            _ => warnings.unknown(member),
        }
    }
    let limit = limit.limit(warnings)?;
    match (idle, weight) {
        (true, Some((at, _))) => {
            let what = format!("an idle task group takes no weight: it is {}", Weight::IDLE.get());
            Err(Fault::new(at, what))
        }
        (true, None) => Ok(Listed { latency_nice: latency, limit, ..Listed::IDLE }),
        (false, weight) => {
            let weight = weight.map_or(Weight::NICE_0, |(_, weight)| weight);
            Ok(Listed { weight, idle, latency_nice: latency, limit })
        }
    }
}
