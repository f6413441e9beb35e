//! Task groups: those listed in the section `groups`, an extension, and those that rt-app's
//! `taskgroup` creates by naming them.
//!
//! Invariant: a group stands behind its parent, so that a host can build the tree in order.

use super::Warnings;
use crate::diagnostic::{Fault, quoted};
use crate::json::{MAX_DEPTH, Member, Node};
use crate::scenario::GroupSpec;
use runyard_engine::attr::{GroupId, Weight};
use std::collections::BTreeMap;

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
        let root =
            GroupSpec { path: "/".to_owned(), parent: GroupId::ROOT, weight: Weight::NICE_0 };
        let by_path = BTreeMap::from([(root.path.clone(), GroupId::ROOT)]);
        let mut groups = Groups { specs: vec![root], by_path, listed: 1 };
        let members = section.map(Node::object).transpose()?.unwrap_or_default();
        let mut weights = BTreeMap::new();
        for &member in &members {
            check_path(member.key, member.at)?;
            weights.insert(member.key, weight(member, warnings)?);
        }
        for member in &members {
            groups.list(*member, &weights)?;
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
                None => self.add(path, parent, Weight::NICE_0),
            };
        }
        Ok(Some(parent))
    }

    /// All groups, by [`GroupId`].
    pub(super) fn into_specs(self) -> Vec<GroupSpec> {
        self.specs
    }

    /// Adds a listed group, after those of its parents that are listed further down.
    fn list(&mut self, member: Member<'_>, weights: &BTreeMap<&str, Weight>) -> Result<(), Fault> {
        let mut parent = GroupId::ROOT;
        for path in lineage(member.key) {
            parent = match (self.by_path.get(path), weights.get(path)) {
                (Some(&group), _) => group,
                (None, Some(&weight)) => self.add(path, parent, weight),
                (None, None) => {
                    let what = format!("its parent {} is not listed", quoted(path));
                    return Err(Fault::new(member.at, what));
                }
            };
        }
        Ok(())
    }

    fn add(&mut self, path: &str, parent: GroupId, weight: Weight) -> GroupId {
        let id = GroupId(super::objects::number(self.specs.len()));
        self.by_path.insert(path.to_owned(), id);
        self.specs.push(GroupSpec { path: path.to_owned(), parent, weight });
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

/// The weight that the object of a listed group gives it.
fn weight(group: Member<'_>, warnings: &mut Warnings) -> Result<Weight, Fault> {
    let mut weight = Weight::NICE_0;
    for member in group.value.object()? {
        match member.key {
            _ if group.key == "/" => {
                return Err(Fault::new(
                    member.at,
                    "the task group / takes no weight and no limits",
                ));
            }
            "weight" => {
                let (low, high) = Weight::GROUP_RANGE.into_inner();
                weight = member.value.checked("a weight", low.into()..=high.into(), Weight::new)?;
            }
            "runtime" | "period" | "burst" | "per_cpu" => {
                return Err(Fault::not_yet(member.at, "the limits of a task group"));
            }
            "latency_nice" | "idle" => {
                return Err(Fault::not_yet(
                    member.at,
                    &format!("`{}` of a task group", member.key),
                ));
            }
            _ => warnings.unknown(member),
        }
    }
    Ok(weight)
}
