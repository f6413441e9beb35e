//! The lines of code of the tree: product, tooling, and the rest.
//!
//! Blank lines and comments do not count, nor do the tests inside the product. So the weight of two commits can be
//! compared: `cargo xtask lines --of` takes another checkout.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;

use crate::tidy::modules;
use crate::tidy::tokens::code_lines;
use crate::tidy::tree::{File, Tree, crate_of};
use crate::workspace::{Outcome, root};

/// The options of `cargo xtask lines`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The root of another checkout
    #[arg(long, value_name = "FOLDER")]
    of: Option<PathBuf>,
}

/// The folders of the tooling.
const TOOLING: [&str; 3] = ["xtask/", "fuzz/", ".ci/"];

/// Endings of the scripts that are counted, in which `#` begins a comment.
const SCRIPTS: [&str; 4] = [".py", ".pyi", ".sh", ".ci/run"];

/// The lines of a kind by their parts, which are the first two folders of the paths.
type Lines = BTreeMap<String, usize>;

/// Prints the lines of each kind and of its parts.
pub fn run(options: &Options) -> Outcome {
    let tree = Tree::read(options.of.as_deref().unwrap_or(root()))?;
    for (kind, parts) in count(&tree) {
        println!("{kind:<28} {:>7}", parts.values().sum::<usize>());
        parts.iter().for_each(|(part, lines)| println!("  {part:<26} {lines:>7}"));
    }
    Ok(())
}

fn count(tree: &Tree) -> BTreeMap<&'static str, Lines> {
    let tests: BTreeSet<_> =
        tree.crates().into_iter().flat_map(|name| modules::test_files(tree, name)).collect();
    let mut kinds: BTreeMap<&str, Lines> = BTreeMap::new();
    for file in tree.files() {
        let folders: Vec<_> = file.path.split('/').take(2).collect();
        let mut add = |kind, lines| {
            if lines > 0 {
                *kinds.entry(kind).or_default().entry(folders.join("/")).or_default() += lines;
            }
        };
        let all = lines(file, true);
        if TOOLING.iter().any(|folder| file.path.starts_with(folder)) {
            add("tooling", all);
        } else if is_product(file) && !tests.contains(&file.path) {
            let product = lines(file, false);
            add("product", product);
            add("rest", all - product);
        } else {
            add("rest", all);
        }
    }
    kinds
}

fn is_product(file: &File) -> bool {
    let of_crate = crate_of(file).is_some_and(|(_, path)| path.starts_with("src/"));
    of_crate || file.path.starts_with("python/src/")
}

/// The lines of code of a Rust file or a script, with the modules of tests in it or without.
fn lines(file: &File, tests: bool) -> usize {
    if file.path.ends_with(".rs") {
        return code_lines(file.tokens(), &file.text, tests).len();
    }
    let is_script = SCRIPTS.iter().any(|ending| file.path.ends_with(ending));
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with('#');
    if is_script { file.text.lines().map(str::trim).filter(is_code).count() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_inside_the_product_and_comments_are_no_product() {
        let with_tests =
            "//! A.\n\n/// B\nfn f() {} // c\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", with_tests),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod c;\nfn f() {\n\n}\n"),
            ("crates/a/src/b/c.rs", "fn g() {}\n"),
            ("crates/a/tests/d.rs", "fn h() {}\n"),
            ("python/runyard/e.py", "# e\n\nf = 1\n"),
            ("xtask/src/lib.rs", with_tests),
            ("README.md", "words\n"),
        ]);
        let sums = count(&tree).into_iter().map(|(kind, parts)| (kind, parts.values().sum()));
        assert_eq!(
            sums.collect::<Vec<(_, usize)>>(),
            [("product", 3), ("rest", 9), ("tooling", 5)]
        );
    }
}
