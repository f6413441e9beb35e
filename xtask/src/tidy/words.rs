//! Words that are forbidden in every file.
//!
//! A path of the machine on which a text was written tells a reader nothing, and exists on no other machine.

use super::tree::{File, Tree};
use super::{Violation, rust};

/// Absolute paths of one machine, and folders beside a checkout. Each is written in two parts, since this file must
/// keep its own rule.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!(".lib", "rary"),
    concat!("../sha", "red"),
];

/// Words that promise work.
const PROMISES: &[&str] = &["TODO", "FIXME", "XXX"];

/// No file names a path of the machine that it was written on.
#[must_use]
pub fn no_path_of_one_machine(tree: &Tree) -> Vec<Violation> {
    tree.files().iter().flat_map(machine_paths).collect()
}

fn machine_paths(file: &File) -> Vec<Violation> {
    let found = |(index, line): (usize, &str)| {
        let path = MACHINE_PATHS.iter().find(|path| names(line, path))?;
        let reason = format!("`{path}` is a path of one machine and exists on no other");
        Some(Violation::new(file, index + 1, reason))
    };
    file.text.lines().enumerate().filter_map(found).collect()
}

/// Whether `line` contains `path` from its beginning: `src/work/` in a longer path is another folder.
fn names(line: &str, path: &str) -> bool {
    let inside = |before: &str| path.starts_with('/') && before.ends_with(is_part_of_path);
    line.match_indices(path).any(|(at, _)| !inside(&line[..at]))
}

fn is_part_of_path(c: char) -> bool {
    c.is_alphanumeric() || "_-.*}".contains(c)
}

/// No code and no comment promises work: the work is done now, or an issue has it.
#[must_use]
pub fn no_promises_in_code(tree: &Tree) -> Vec<Violation> {
    tree.with_extension("rs").flat_map(promises).collect()
}

fn promises(file: &File) -> Vec<Violation> {
    let found = |line: &rust::Line| {
        let has = |word: &&&str| {
            super::has_word(&line.comment, word) || super::has_word(&line.code, word)
        };
        let word = PROMISES.iter().find(has)?;
        let reason = format!("`{word}`: what is known to be missing is done, or an issue");
        Some(Violation::new(file, line.number, reason))
    };
    rust::lines(&file.text).iter().filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn a_path_of_one_machine_is_found() {
        let text = format!("a\nsee {}main\n", MACHINE_PATHS[0]);
        assert_eq!(places(no_path_of_one_machine, &[("a.md", &text)]), ["a.md:2"]);
        let text = format!("x=../{}/y", MACHINE_PATHS[2]);
        assert_eq!(places(no_path_of_one_machine, &[("b", &text)]), ["b:1"]);
        let clean = [("c.md", "crates/runtime/src/work/poll.rs, a network/host")];
        assert!(places(no_path_of_one_machine, &clean).is_empty());
    }

    #[test]
    fn a_promise_is_found_in_comments_and_code() {
        let text = "a\n// TODO: b\nlet FIXME = 1;\nlet c = \"XXX\";\n";
        assert_eq!(places(no_promises_in_code, &[("a.rs", text)]), ["a.rs:2", "a.rs:3"]);
        assert!(places(no_promises_in_code, &[("a.rs", "// TODOS\n")]).is_empty());
    }
}
