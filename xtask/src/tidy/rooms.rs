//! The rooms of a crate: which folders directly below `src` a folder may use.
//!
//! The table names the rooms that have a floor. A room that it does not name may use any other one. A room that it names
//! may not use a file that lies beside the rooms either.

use super::Violation;
use super::modules::{self, Place, Use};
use super::tree::Tree;

/// A folder directly below `src` of a crate, and the folders beside it that it may use.
struct Room {
    crate_name: &'static str,
    name: &'static str,
    uses: &'static [&'static str],
}

/// The rooms that may not use all others.
const ROOMS: &[Room] = &[
    Room { crate_name: "runtime", name: "os", uses: &[] },
    // The model checker builds it without any other room.
    Room { crate_name: "runtime", name: "protocol", uses: &["os"] },
];

/// Every room uses only the rooms that the table allows, and is there.
#[must_use]
pub fn rooms_use_only_rooms_below_them(tree: &Tree) -> Vec<Violation> {
    tree.crates().into_iter().flat_map(|name| violations(tree, name)).collect()
}

fn violations(tree: &Tree, name: &str) -> Vec<Violation> {
    let rooms: Vec<&Room> = ROOMS.iter().filter(|room| room.crate_name == name).collect();
    if rooms.is_empty() {
        return vec![];
    }
    let uses = modules::uses(tree, name);
    let faults = uses.iter().filter_map(|used| fault(&rooms, used));
    let gone = rooms.iter().filter_map(|room| missing(tree, room));
    faults.chain(gone).collect()
}

fn fault(rooms: &[&Room], used: &Use) -> Option<Violation> {
    let room = rooms.iter().find(|room| used.from.parts[0] == room.name)?;
    let to = &used.to.parts[0];
    if to == room.name || room.uses.contains(&to.as_str()) {
        return None;
    }
    let Use { from, to: Place { path, .. }, item, line } = used;
    let allowed = match room.uses {
        [] => "no other room".to_owned(),
        some => format!("{} only", some.join(", ")),
    };
    let reason = format!(
        "the room `{}` may use {allowed}, and this is `{item}` of {path}: let the room above bring it, as a value or a \
         trait, or change the table of xtask/src/tidy/rooms.rs",
        room.name
    );
    Some(Violation { path: from.path.clone(), line: *line, reason })
}

/// A room of the table that the crate does not have.
fn missing(tree: &Tree, room: &Room) -> Option<Violation> {
    let folder = format!("crates/{}/src/{}/", room.crate_name, room.name);
    let is_there = tree.files().iter().any(|file| file.path.starts_with(&folder));
    (!is_there).then(|| Violation {
        path: folder,
        line: 1,
        reason: "the table of xtask/src/tidy/rooms.rs names this room, which is gone".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const OS: &str = "crates/runtime/src/os/word.rs";
    const PROTOCOL: &str = "crates/runtime/src/protocol/seat.rs";
    const WORKER: &str = "crates/runtime/src/worker/mod.rs";

    fn found(os: &str, protocol: &str) -> Vec<String> {
        let files = [
            ("crates/runtime/src/lib.rs", "pub fn root() {}"),
            ("crates/runtime/src/os/mod.rs", "pub mod word;"),
            ("crates/runtime/src/protocol/mod.rs", "pub mod seat;"),
            (OS, os),
            (PROTOCOL, protocol),
            (WORKER, "pub struct Worker;\nuse crate::os::word::Word;"),
        ];
        places(rooms_use_only_rooms_below_them, &files)
    }

    #[test]
    fn the_lowest_room_uses_itself_only() {
        let own = "use crate::os::word::Word;\nuse std::fmt;";
        assert!(found(own, own).is_empty());
        assert_eq!(found("\nuse crate::worker::Worker;", ""), [format!("{OS}:2")]);
        assert_eq!(found("use crate::root;", ""), [format!("{OS}:1")]);
        assert_eq!(found("fn f(_: crate::protocol::seat::Seat) {}", ""), [format!("{OS}:1")]);
    }

    #[test]
    fn a_room_uses_those_that_the_table_allows() {
        assert_eq!(
            found("", "use crate::os::word::Word;\nuse crate::worker::Worker;"),
            [format!("{PROTOCOL}:2")]
        );
    }

    #[test]
    fn tests_in_a_room_may_use_anything() {
        assert!(
            found("#[cfg(test)]\nmod tests {\n    use crate::worker::Worker;\n}", "").is_empty()
        );
    }

    #[test]
    fn a_room_that_is_gone_leaves_the_table() {
        let places = places(rooms_use_only_rooms_below_them, &[(OS, "")]);
        assert_eq!(places, ["crates/runtime/src/protocol/:1"]);
    }

    #[test]
    fn a_violation_names_the_item_and_the_way_out() {
        let files = [(OS, "use crate::worker::Worker;"), (PROTOCOL, ""), (WORKER, "")];
        let reason = &rooms_use_only_rooms_below_them(&Tree::of(&files))[0].reason;
        assert!(
            reason.starts_with(
                "the room `os` may use no other room, and this is `Worker` of crates/"
            )
        );
    }
}
