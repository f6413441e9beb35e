//! The program that was ported from tokio differs from its original exactly by the changes that the guide lists.
//!
//! The two programs are examples, with tests of their own.

use std::fs;

const PORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/port");
const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/from-tokio.md");

/// Returns the changes beside imports: the rows of the guide's table that name no import.
fn listed() -> Vec<(String, String)> {
    let guide = fs::read_to_string(GUIDE).unwrap();
    let rows = guide.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.filter(|row| !row.contains("`use "));
    rows.map(|row| {
        let mut words = row.split('`').skip(1).step_by(2).map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    })
    .collect()
}

/// Returns a program without its first comment and its imports.
fn body(name: &str) -> String {
    let text = fs::read_to_string(format!("{PORT}/{name}.rs")).unwrap();
    let kept = |line: &&str| !line.starts_with("//!") && !line.starts_with("use ");
    text.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_ported_program_changes_in_what_the_guide_lists() {
    let listed = listed();
    assert_eq!(listed.len(), 3, "{listed:?}");
    let (before, after) = (body("tokio"), body("runyard"));
    assert!(before.lines().count() >= 270);
    let ported = listed.iter().fold(before, |text, (old, new)| {
        assert!(text.contains(old), "the program has no {old}");
        text.replace(old, new)
    });
    for (nth, (ported, after)) in ported.lines().zip(after.lines()).enumerate() {
        assert_eq!(ported, after, "line {nth} of those that are compared");
    }
    assert_eq!(ported, after);
}
