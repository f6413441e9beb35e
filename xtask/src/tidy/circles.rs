//! The arrows between the files and folders of a crate: no circle, and rooms with a floor.
//!
//! Files that use each other in a circle cannot be understood one after the other, and none of them can be tested or
//! moved alone. So the files and folders directly in a folder have an order in which each uses only earlier ones. A
//! folder uses everything that its files use. The file of a module that has modules in other files (`mod.rs`) is one of
//! the files of its folder. Items that it shares with them are in another file there, and it stands above them all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Violation;
use super::modules::{self, Place, Use};
use super::tree::Tree;

/// The files that the rule leaves out, with the reason: their arrows do not count. Each has one type that names the other
/// two. A file that no circle needs any more must leave the table.
const HUBS: [(&str, &str); 3] = [
    ("crates/runtime/src/shared/mod.rs", "a runtime has workers and tasks"),
    (
        "crates/runtime/src/task/cell.rs",
        "a waker has only its task, and finds the runtime and the stopped worker by it",
    ),
    (
        "crates/runtime/src/worker/mod.rs",
        "a worker runs tasks of its runtime, also in its signal handler",
    ),
];

/// The rooms that may not use all others: a crate, a folder directly below its `src`, and the folders beside it that it
/// may use. It may not use a file that lies beside the rooms either.
const ROOMS: &[(&str, &str, &[&str])] = &[
    ("runtime", "os", &[]),
    // The model checker builds it without any other room.
    ("runtime", "protocol", &["os"]),
];

/// The members of one folder that use each other, each pair with its first use. The name of a folder ends in a slash.
type Arrows = BTreeMap<(String, String), Use>;

/// No crate has files that use each other in a circle, without the arrows of the hubs.
#[must_use]
pub fn no_files_use_each_other_in_a_circle(tree: &Tree) -> Vec<Violation> {
    tree.crates().into_iter().flat_map(|name| violations(tree, name)).collect()
}

/// The circles of a crate, and its hubs that add none.
fn violations(tree: &Tree, name: &str) -> Vec<Violation> {
    let (uses, folder) = (modules::uses(tree, name), format!("crates/{name}/"));
    let hubs = HUBS.iter().filter(|(path, _)| path.starts_with(&folder) && tree.exists(path));
    let needless = hubs.filter(|(path, _)| circles(arrows(&uses, path)).is_empty());
    let reason = "no circle needs this file: take it from the table of xtask/src/tidy/circles.rs";
    let needless = needless.map(|(path, _)| Violation::new(path, 1, reason));
    circles(arrows(&uses, "")).into_iter().chain(needless).collect()
}

/// The uses that count if `spoke` is no hub.
fn arrows<'u>(uses: &'u [Use], spoke: &str) -> impl Iterator<Item = &'u Use> {
    let is_hub =
        move |place: &Place| HUBS.iter().any(|&(path, _)| path != spoke && path == place.path);
    uses.iter().filter(move |used| !is_hub(&used.from) && !is_hub(&used.to))
}

/// The circles of every crate, for a person.
#[must_use]
pub fn shown(tree: &Tree) -> String {
    let of = |name| {
        let circles = circles(arrows(&modules::uses(tree, name), ""));
        let lines: String = circles.iter().map(|circle| format!("  {circle}\n")).collect();
        format!("{name}: {}\n{lines}", circles.len())
    };
    let hubs = HUBS.iter().map(|(path, reason)| format!("left out: {path}: {reason}\n"));
    tree.crates().into_iter().map(of).chain(hubs).collect()
}

/// The circles in the folders of one crate. In each folder, each file or folder is in at most one circle.
fn circles<'u>(uses: impl Iterator<Item = &'u Use>) -> Vec<Violation> {
    let mut folders: BTreeMap<Vec<String>, Arrows> = BTreeMap::new();
    for used in uses {
        let (from, to) = (&used.from.parts, &used.to.parts);
        let depth = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        let ends = (member(&used.from, depth), member(&used.to, depth));
        folders
            .entry(from[..depth].to_vec())
            .or_default()
            .entry(ends)
            .or_insert_with(|| used.clone());
    }
    folders.values().flat_map(circles_of).collect()
}

/// The member of the folder at this depth that contains a file: the file itself, or a folder.
fn member(place: &Place, depth: usize) -> String {
    let file = place.path.rsplit('/').next().unwrap_or_default();
    match place.parts.len() == depth + 1 {
        true => file.to_owned(),
        false => format!("{}/", place.parts[depth]),
    }
}

fn circles_of(arrows: &Arrows) -> Vec<Violation> {
    let mut names: BTreeSet<&str> = arrows.keys().map(|(from, _)| from.as_str()).collect();
    let mut circles = Vec::new();
    while let Some(name) = names.pop_first() {
        let around =
            |other: &&str| way(arrows, name, other).is_some() && way(arrows, other, name).is_some();
        let others: Vec<_> = names.iter().copied().filter(around).collect();
        names.retain(|name| !others.contains(name));
        let members = [&[name], &others[..]].concat();
        let shortest =
            members.iter().filter_map(|member| way(arrows, member, member)).min_by_key(Vec::len);
        circles.extend(shortest.map(|shortest| circle(arrows, &members, &shortest)));
    }
    circles
}

/// The shortest way from one member to another, or around to itself, with both ends.
fn way<'a>(arrows: &'a Arrows, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut open = VecDeque::from([vec![from]]);
    while let Some(way) = open.pop_front() {
        if way.len() > 1 && way.last() == Some(&to) {
            return Some(way);
        }
        let next = arrows.keys().filter(|(from, _)| way.last() == Some(&from.as_str()));
        for (_, next) in next.filter(|(_, next)| seen.insert(next)) {
            open.push_back([&way[..], &[next]].concat());
        }
    }
    None
}

fn circle(arrows: &Arrows, members: &[&str], shortest: &[&str]) -> Violation {
    let used = |pair: &[&str]| &arrows[&(pair[0].to_owned(), pair[1].to_owned())];
    let step = |pair: &[&str]| {
        let Use { from, item, line, .. } = used(pair);
        format!("{}:{line} uses `{item}` of {}", from.path, pair[1])
    };
    let steps: Vec<_> = shortest.windows(2).map(step).collect();
    let (count, members, steps) = (members.len(), members.join(", "), steps.join("; "));
    let reason = format!("{count} in a circle ({members}); the shortest: {steps}");
    let first = used(shortest);
    Violation::new(&first.from.path, first.line, reason)
}

/// Every room uses only the rooms that the table allows, and is there.
#[must_use]
pub fn rooms_use_only_rooms_below_them(tree: &Tree) -> Vec<Violation> {
    let is_there = |(name, ..): &&(&str, &str, &[&str])| tree.crates().contains(name);
    ROOMS.iter().filter(is_there).flat_map(|room| faults(tree, *room)).collect()
}

fn faults(tree: &Tree, (name, room, below): (&str, &str, &[&str])) -> Vec<Violation> {
    let folder = format!("crates/{name}/src/{room}/");
    let table = "the table of xtask/src/tidy/circles.rs";
    if !tree.exists(&folder) {
        let reason = format!("{table} names this room, which is gone");
        return vec![Violation::new(&folder, 1, reason)];
    }
    let fault = |Use { from, to, item, line }: Use| {
        let target = to.parts[0].as_str();
        let is_fault = from.parts[0] == room && target != room && !below.contains(&target);
        let reason = format!(
            "the room `{room}` may use {below:?} only, and this is `{item}` of {}: let the room above bring it, as a \
             value or a trait, or change {table}",
            to.path
        );
        is_fault.then(|| Violation::new(&from.path, line, reason))
    };
    modules::uses(tree, name).into_iter().filter_map(fault).collect()
}
