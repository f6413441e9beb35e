//! The arrows between the files and folders of a crate: no circle.
//!
//! Files that use each other in a circle cannot be understood one after the other, and none of them can be tested or
//! moved alone. So the files and folders directly in a folder have an order in which each uses only earlier ones. A
//! folder uses everything that its files use. The file of a module that has modules in other files (`mod.rs`) is one of
//! the files of its folder. Items that it shares with them are in another file there, and it stands above them all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Violation;
use super::modules::{self, Place, Use};
use super::tree::Tree;

/// The crates that are exempt from the rule, each with the reason. A crate that is not named here must keep it, even a
/// new one. A crate without a circle must leave the list.
const NOT_YET: &[(&str, &str)] = &[];

/// A file that the rule leaves out: its arrows do not count.
struct Hub {
    path: &'static str,
    reason: &'static str,
}

/// The files that the rule leaves out, at most three. Each has one type that names the other two, and a file that a
/// circle no longer needs must leave the table.
const HUBS: &[Hub] = &[
    Hub { path: "crates/runtime/src/shared/mod.rs", reason: "a runtime has workers and tasks" },
    Hub {
        path: "crates/runtime/src/task/cell.rs",
        reason: "a waker has only its task, and finds the runtime and the stopped worker by it",
    },
    Hub {
        path: "crates/runtime/src/worker/mod.rs",
        reason: "a worker runs tasks of its runtime, also in its signal handler",
    },
];

const _: () = assert!(HUBS.len() <= 3);

/// Files and folders that use each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// Their names, in alphabetical order; the name of a folder has a slash at its end.
    pub members: Vec<String>,
    /// The shortest list of uses that leads from one of them back to it, each with the member that it leads to.
    pub shortest: Vec<(Use, String)>,
}

/// No crate has files that use each other in a circle, except for the exempt crates.
#[must_use]
pub fn no_files_use_each_other_in_a_circle(tree: &Tree) -> Vec<Violation> {
    tree.crates().into_iter().flat_map(|name| violations(tree, name)).collect()
}

fn violations(tree: &Tree, name: &str) -> Vec<Violation> {
    let found: Vec<_> = circles(tree, name).iter().map(Circle::violation).collect();
    match (reason(name), found.is_empty()) {
        (None, true) => needless(tree, name),
        (Some(_), false) => vec![],
        (Some(_), true) => vec![Violation {
            path: format!("crates/{name}/src"),
            line: 1,
            reason: format!(
                "no circle is left: take `{name}` from the table of xtask/src/tidy/circles.rs"
            ),
        }],
        (None, _) => found,
    }
}

/// The hubs of a crate that is in no circle even with their arrows.
fn needless(tree: &Tree, name: &str) -> Vec<Violation> {
    let files: Vec<&str> = tree.files().iter().map(|file| file.path.as_str()).collect();
    let hubs = HUBS.iter().enumerate().filter(|(_, hub)| files.contains(&hub.path));
    let hubs = hubs.filter(|(_, hub)| hub.path.starts_with(&format!("crates/{name}/")));
    let needless = hubs.filter(|&(nth, _)| {
        let others: Vec<_> = (0..HUBS.len()).filter(|&other| other != nth).collect();
        circles_without(tree, name, &others).is_empty()
    });
    let violation = |(_, hub): (usize, &Hub)| Violation {
        path: hub.path.to_owned(),
        line: 1,
        reason: format!(
            "no circle needs this file ({}): take it from the table of xtask/src/tidy/circles.rs",
            hub.reason
        ),
    };
    needless.map(violation).collect()
}

/// The reason why a crate is exempt from the rule.
fn reason(name: &str) -> Option<&'static str> {
    NOT_YET.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// The circles of every crate, for a person.
#[must_use]
pub fn shown(tree: &Tree) -> String {
    let mut shown = String::new();
    for name in tree.crates() {
        let circles = circles(tree, name);
        let held = reason(name).map_or("held".into(), |reason| format!("not yet held: {reason}"));
        shown += &format!("{name}: {} ({held})\n", circles.len());
        for circle in circles {
            shown += &format!("  {}\n", circle.violation());
        }
    }
    shown
}

impl Circle {
    fn violation(&self) -> Violation {
        let Circle { members, shortest } = self;
        let step = |(used, to): &(Use, String)| {
            let Use { from, item, line, .. } = used;
            format!("{}:{line} uses `{item}` of {to}", from.path)
        };
        let steps: Vec<_> = shortest.iter().map(step).collect();
        let (count, members, steps) = (members.len(), members.join(", "), steps.join("; "));
        let reason = format!("{count} in a circle ({members}); the shortest: {steps}");
        let first = &shortest[0].0;
        Violation { path: first.from.path.clone(), line: first.line, reason }
    }
}

/// The circles of the crate `name`. In each folder, each file or folder is in at most one circle.
#[must_use]
pub fn circles(tree: &Tree, name: &str) -> Vec<Circle> {
    circles_without(tree, name, &(0..HUBS.len()).collect::<Vec<_>>())
}

/// The circles of the crate `name` without the arrows of these hubs.
fn circles_without(tree: &Tree, name: &str, hubs: &[usize]) -> Vec<Circle> {
    let is_hub = |place: &Place| hubs.iter().any(|&hub| HUBS[hub].path == place.path);
    let mut folders: BTreeMap<Vec<String>, Arrows> = BTreeMap::new();
    for used in modules::uses(tree, name) {
        if is_hub(&used.from) || is_hub(&used.to) {
            continue;
        }
        let (from, to) = (&used.from.parts, &used.to.parts);
        let depth = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        let ends = (member(&used.from, depth), member(&used.to, depth));
        folders.entry(from[..depth].to_vec()).or_default().0.entry(ends).or_insert(used);
    }
    folders.values().flat_map(Arrows::circles).collect()
}

/// The member of the folder at this depth that contains a file: the file itself, or a folder.
fn member(place: &Place, depth: usize) -> String {
    let file = place.path.rsplit('/').next().unwrap_or_default();
    match place.parts.len() == depth + 1 {
        true => file.to_owned(),
        false => format!("{}/", place.parts[depth]),
    }
}

/// The members of one folder that use each other, each pair with its first use.
#[derive(Default)]
struct Arrows(BTreeMap<(String, String), Use>);

impl Arrows {
    fn circles(&self) -> Vec<Circle> {
        let mut circles: Vec<Circle> = Vec::new();
        let names: BTreeSet<&str> = self.0.keys().map(|(from, _)| from.as_str()).collect();
        for name in names {
            if circles.iter().any(|circle| circle.members.iter().any(|member| member == name)) {
                continue;
            }
            if let Some(circle) = self.circle(name) {
                circles.push(circle);
            }
        }
        circles
    }

    /// The circle that `name` is in, if it is in one.
    fn circle(&self, name: &str) -> Option<Circle> {
        let reached = self.ways(name);
        let reaches_back = |other: &&str| self.ways(other).contains_key(name);
        let members: Vec<&str> = reached.into_keys().filter(reaches_back).collect();
        let around = members.iter().filter_map(|&member| self.ways(member).remove(member));
        let shortest = around.min_by_key(Vec::len)?;
        let step = |pair: &[&str]| {
            let [from, to] = [pair[0], pair[1]].map(str::to_owned);
            (self.0[&(from, to.clone())].clone(), to)
        };
        let shortest = shortest.windows(2).map(step).collect();
        Some(Circle { members: members.into_iter().map(str::to_owned).collect(), shortest })
    }

    /// The shortest way from `start` to each reachable member, including both ends. `start` itself is among them if a
    /// way leads back.
    fn ways<'a>(&'a self, start: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut open = VecDeque::from([vec![start]]);
        while let Some(way) = open.pop_front() {
            let last = way[way.len() - 1];
            for (_, to) in self.0.keys().filter(|(from, _)| from == last) {
                if !ways.contains_key(to.as_str()) {
                    let longer = [&way[..], &[to]].concat();
                    ways.insert(to, longer.clone());
                    open.push_back(longer);
                }
            }
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    fn members(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(&Tree::of(files), "a").into_iter().map(|circle| circle.members).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod one;\nmod two;\npub use one::One;"),
            ("crates/a/src/one.rs", "//! One.\nuse crate::two::Two;"),
            ("crates/a/src/two.rs", "use crate::One;"),
        ];
        assert_eq!(members(&files), [["one.rs", "two.rs"]]);
        let rule = no_files_use_each_other_in_a_circle;
        assert_eq!(places(rule, &files), ["crates/a/src/one.rs:2"]);
        let reason = &rule(&Tree::of(&files))[0].reason;
        let steps = "crates/a/src/one.rs:2 uses `Two` of two.rs; \
                     crates/a/src/two.rs:1 uses `One` of one.rs";
        assert!(reason.ends_with(steps), "{reason}");
        assert!(members(&files[..2]).is_empty());
    }

    #[test]
    fn the_shortest_way_around_is_shown() {
        let files = [
            ("crates/a/src/one.rs", "use crate::two::Two;"),
            ("crates/a/src/two.rs", "use crate::three::Three;"),
            ("crates/a/src/three.rs", "use crate::one::One;\nuse crate::two::Two;"),
            ("crates/a/src/four.rs", "use crate::one::One;"),
        ];
        let found = circles(&Tree::of(&files), "a");
        assert_eq!(found[0].members, ["one.rs", "three.rs", "two.rs"]);
        let steps: Vec<_> = found[0].shortest.iter().map(|(_, to)| to.as_str()).collect();
        assert_eq!((found.len(), steps), (1, vec!["two.rs", "three.rs"]));
    }

    #[test]
    fn a_folder_counts_as_one_for_those_beside_it() {
        let files = [
            ("crates/a/src/main.rs", "mod one;\nmod two;\nfn main() { one::run() }"),
            ("crates/a/src/one/mod.rs", "mod inner;\nuse inner::Inner;"),
            ("crates/a/src/one/inner.rs", "use crate::two::Two;"),
            ("crates/a/src/two.rs", "use crate::one::One;"),
        ];
        assert_eq!(members(&files), [["one/", "two.rs"]]);
    }

    #[test]
    fn a_folder_has_circles_of_its_own() {
        let files = [
            ("crates/a/src/one/mod.rs", "mod inner;\nuse inner::Inner;\npub struct One;"),
            ("crates/a/src/one/inner.rs", "use super::One;"),
        ];
        assert_eq!(members(&files), [["inner.rs", "mod.rs"]]);
        let up = [
            ("crates/a/src/main.rs", "mod one;\nfn main() { one::X }"),
            ("crates/a/src/one.rs", "use crate::Y;"),
        ];
        assert_eq!(members(&up), [["main.rs", "one.rs"]]);
    }

    #[test]
    fn a_hub_that_no_circle_needs_leaves_the_table() {
        let rule = no_files_use_each_other_in_a_circle;
        let [first, second, _] = HUBS else { panic!("there are three hubs") };
        let other = "crates/runtime/src/time.rs";
        let needed =
            [(first.path, "use crate::time::Time;"), (other, "use crate::shared::Shared;")];
        assert!(places(rule, &needed).is_empty());
        let two = [needed[0], needed[1], (second.path, "")];
        assert_eq!(places(rule, &two), [format!("{}:1", second.path)]);
    }

    #[test]
    fn a_crate_that_is_known_to_have_a_circle_has_one() {
        let rule = no_files_use_each_other_in_a_circle;
        for (name, _) in NOT_YET {
            let paths = ["b", "c"].map(|file| format!("crates/{name}/src/{file}.rs"));
            let files = [(&*paths[0], "use crate::c::C;"), (&*paths[1], "use crate::b::B;")];
            assert!(places(rule, &files).is_empty(), "{name}");
            assert_eq!(places(rule, &files[..1]), [format!("crates/{name}/src:1")]);
        }
    }
}
