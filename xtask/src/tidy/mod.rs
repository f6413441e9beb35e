//! The rules of the tree that no compiler knows, each as a function from files to violations.
//!
//! A rule is named after what it holds and says in every violation why it is there. It reads texts
//! and nothing else, so each is tested on a text that breaks it and one that does not;
//! `xtask/tests/tidy.rs` holds the tree to all of them. Formatting, argument counts and the length
//! of functions are left to rustfmt and clippy.

pub mod arrows;
pub mod circles;
pub mod documents;
pub mod markdown;
pub mod modules;
pub mod packages;
pub mod rooms;
pub mod rust;
pub mod scan;
pub mod source;
pub mod tree;
pub mod voice;
pub mod words;

use std::fmt;

use clap::Args;

use crate::workspace::{self, Outcome, cargo, root};
use tree::{File, Tree};

/// What to hold the tree to.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only show the circles of files in all crates, also in those of which they are known
    #[arg(long)]
    pub circles: bool,
}

/// Runs the rules as the tests that they are, or shows the circles.
pub fn run(options: &Options) -> Outcome {
    if options.circles {
        print!("{}", circles::shown(&Tree::read(root())?));
        return Ok(());
    }
    workspace::run(cargo().args(["test", "--package", "xtask", "--test", "tidy"]))
}

/// A rule over the files of the tree.
pub type Rule = fn(&Tree) -> Vec<Violation>;

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and why it is.
    pub reason: String,
}

impl Violation {
    /// A violation in line `line` of `file`.
    pub fn new(file: &File, line: usize, reason: impl Into<String>) -> Violation {
        Violation { path: file.path.clone(), line, reason: reason.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.reason)
    }
}

/// Whether `text` has `word` with no letter, digit or underscore on either side.
#[must_use]
pub fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

/// Where `rule` finds fault with these paths and texts, as `PATH:LINE`.
#[cfg(test)]
pub(crate) fn places(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let violations = rule(&Tree::of(files));
    violations.iter().map(|found| format!("{}:{}", found.path, found.line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_not_a_part_of_another() {
        assert!(has_word("unsafe { }", "unsafe") && has_word("(unsafe)", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe") && !has_word("is_unsafe", "unsafe"));
    }

    #[test]
    fn a_violation_reads_as_a_compiler_error() {
        let file = File { path: "a.rs".to_owned(), text: String::new() };
        assert_eq!(Violation::new(&file, 3, "no").to_string(), "a.rs:3: no");
    }
}
