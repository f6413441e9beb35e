//! The rules of the tree that no compiler knows, each as a function from files to violations.
//!
//! The name of a rule is the property that it holds, and every violation gives the reason of the rule. A rule reads
//! only texts. `xtask/tests/tidy.rs` applies all rules to the tree, and each to small trees that break it, of
//! `xtask/tests/broken.txt`. rustfmt and clippy check formatting, argument counts and the length of functions.

pub mod arrows;
pub mod circles;
pub mod documents;
pub mod markdown;
pub mod modules;
pub mod packages;
pub mod source;
pub mod tokens;
pub mod tree;

use std::fmt;

use clap::Args;

use crate::figures::pages;
use crate::pictures;
use crate::workspace::{self, Outcome, cargo, root};
use tree::{File, Tree};

/// The options of `cargo xtask tidy`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Only show the circles of files in all crates, including the exempt ones
    #[arg(long)]
    pub circles: bool,
}

/// Runs the rules, which are tests, or shows the circles.
pub fn run(options: &Options) -> Outcome {
    if options.circles {
        print!("{}", circles::shown(&Tree::read(root())?));
        return Ok(());
    }
    workspace::run(cargo().args(["test", "--package", "xtask", "--test", "tidy"]))
}

/// A rule over the files of the tree.
pub type Rule = fn(&Tree) -> Vec<Violation>;

macro_rules! rules {
    ($($module:ident::$rule:ident,)*) => { &[$((stringify!($rule), $module::$rule)),*] };
}

/// The rules over files, by their names. [`arrows`] and [`packages`] have those over cargo's metadata.
pub const RULES: &[(&str, Rule)] = rules![
    circles::no_files_use_each_other_in_a_circle,
    circles::rooms_use_only_rooms_below_them,
    source::every_rust_file_is_rust,
    source::unsafe_lives_in_one_folder,
    source::every_package_is_under_the_lints,
    source::no_shortcuts,
    source::no_promises_in_code,
    source::files_have_at_most_600_lines_of_code,
    source::files_open_with_a_short_header,
    source::who_panics_names_the_caller,
    source::one_file_names_the_sync_primitives,
    source::no_path_of_one_machine,
    documents::links_point_somewhere,
    documents::the_readme_shows_the_first_commands,
    documents::design_pages_have_their_sections,
    documents::every_page_is_in_the_book,
    documents::the_code_map_is_the_tree,
    documents::the_changelog_has_an_unreleased_section,
    pages::tables_are_made_from_their_figures,
    pictures::pictures_are_of_their_sources,
];

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The violation, and the reason of the rule.
    pub reason: String,
}

impl Violation {
    /// A violation in line `line` of the file at `path`.
    pub fn new(path: &str, line: usize, reason: impl Into<String>) -> Violation {
        Violation { path: path.to_owned(), line, reason: reason.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.reason)
    }
}

/// The violations in these files, of which `faults` gives the lines and the reasons.
pub fn each<'a, Faults: IntoIterator<Item = (usize, String)>>(
    files: impl Iterator<Item = &'a File>,
    faults: impl Fn(&'a File) -> Faults,
) -> Vec<Violation> {
    let of = |file| faults(file).into_iter().map(move |(line, reason)| (file, line, reason));
    let violation =
        |(file, line, reason): (&File, _, _)| Violation { path: file.path.clone(), line, reason };
    files.flat_map(of).map(violation).collect()
}

/// Whether `text` contains `word` with no letter, digit or underscore on either side.
#[must_use]
pub fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

/// The violations of `rule` in these paths and texts, as `PATH:LINE`.
#[must_use]
pub fn places(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let violations = rule(&Tree::of(files));
    violations.iter().map(|found| format!("{}:{}", found.path, found.line)).collect()
}
