//! The guide shows all differences between the example `service` and the same service on tokio, and nothing else.

use std::fs;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides/from-tokio.md");
const SERVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/service");

/// Returns the lines of the guide's block of differences.
fn shown() -> Vec<String> {
    let guide = fs::read_to_string(GUIDE).unwrap();
    let mut lines = guide.lines().skip_while(|line| *line != "```diff").skip(1);
    lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect()
}

/// Returns a program without its first comment, its imports and its tests.
fn body(name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("{SERVICE}/{name}.rs")).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let imports = lines.iter().rposition(|line| line.starts_with("use ")).unwrap();
    let program = lines[imports + 1..].iter().take_while(|line| **line != "#[cfg(test)]");
    program.filter(|line| !line.is_empty()).map(|line| (*line).to_owned()).collect()
}

/// Returns one program of the block: all lines but those of the other program, which begin with `other`.
fn without(other: char) -> Vec<String> {
    let lines = shown().into_iter().filter(|line| !line.starts_with(other));
    lines
        .map(|line| line.chars().skip(1).collect())
        .filter(|line: &String| !line.is_empty())
        .collect()
}

#[test]
fn the_guide_shows_both_services() {
    assert!(!shown().is_empty());
    assert_eq!(without('+'), body("tokio"));
    assert_eq!(without('-'), body("runyard"));
}
