//! Rules that keep the documents true to the tree. Prose about code is the part that becomes outdated.

use super::markdown::{self, Kind, Piece};
use super::tree::{File, Tree};
use super::{Violation, each};

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const CHANGELOG: &str = "CHANGELOG.md";

/// The table of contents of the book. Its pages are the documents beside and below it.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The folder of the design pages. Its own `README.md` is their index, not a page.
const DESIGN: &str = "docs/design/";

/// The section of the architecture page with the places of things.
const CODE_MAP: &str = "Code map";

/// The first commands of a newcomer.
const COMMANDS: &[&str] = &["cargo run --release -- reproduce", "cargo test --workspace"];

/// The sections of a design page, in this order. `Rejected` keeps a dead end from being tried twice.
const SECTIONS: &[&str] = &["Problem", "Rejected", "Chosen", "Invariants", "Measured"];

/// A relative link points to a file of the tree and, with an anchor, to one of its headings.
#[must_use]
pub fn links_point_somewhere(tree: &Tree) -> Vec<Violation> {
    each(tree.with_extension("md"), |file| {
        let links = pieces(file, Kind::Link).into_iter();
        links.filter_map(|link| Some((link.line, dead_link(tree, file, &link.text)?)))
    })
}

fn dead_link(tree: &Tree, from: &File, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, a)| (path, Some(a)));
    let Some(target) = resolve(&from.path, path).filter(|target| tree.exists(target)) else {
        return Some(format!("`{link}` points to no file of the tree"));
    };
    let anchor = anchor?;
    let Some(page) = tree.file(&target).filter(|page| page.path.ends_with(".md")) else {
        return Some(format!("`{link}`: an anchor in what is no page points astray after an edit"));
    };
    let known = markdown::anchors(&markdown::pieces(&page.text));
    let reason = || format!("`{link}`: {target} has no heading for `#{anchor}`");
    (!known.iter().any(|name| name == anchor)).then(reason)
}

/// The path that `link` in the file `from` means, unless it leaves the tree.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop().filter(|_| !link.starts_with('/'))?;
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The README shows the two commands from which everything else is found.
#[must_use]
pub fn the_readme_shows_the_first_commands(tree: &Tree) -> Vec<Violation> {
    of(tree, README, |readme| {
        let blocks = pieces(readme, Kind::Block);
        let is_shown = |command| blocks.iter().any(|block| block.text.contains(command));
        let missing = COMMANDS.iter().filter(|command| !is_shown(**command));
        let reason = |it| format!("no block of code shows `{it}`, which newcomers type first");
        missing.map(|it| (1, reason(it))).collect()
    })
}

/// Every design page has the same sections in the same order.
#[must_use]
pub fn design_pages_have_their_sections(tree: &Tree) -> Vec<Violation> {
    if !tree.exists(DESIGN) {
        return vec![missing(DESIGN)];
    }
    let is_page = |file: &&File| file.path.strip_prefix(DESIGN).is_some_and(|name| name != README);
    each(tree.with_extension("md").filter(is_page), disordered)
}

fn disordered(page: &File) -> Option<(usize, String)> {
    let mut found = pieces(page, Kind::Heading(2));
    found.retain(|heading| SECTIONS.contains(&heading.text.as_str()));
    let pairs = found.iter().zip(SECTIONS);
    let wrong =
        pairs.filter(|(heading, expected)| heading.text != **expected).map(|(it, _)| it.line);
    let line = wrong.chain((found.len() != SECTIONS.len()).then_some(1)).next()?;
    let expected = SECTIONS.join("`, `## ");
    Some((line, format!("a design page has `## {expected}`, each once and in this order")))
}

/// The book has every page of `docs`.
#[must_use]
pub fn every_page_is_in_the_book(tree: &Tree) -> Vec<Violation> {
    let Some(summary) = tree.file(SUMMARY) else { return vec![missing(SUMMARY)] };
    let links = pieces(summary, Kind::Link).into_iter();
    let listed: Vec<_> = links.filter_map(|link| resolve(SUMMARY, &link.text)).collect();
    let is_page = |file: &&File| file.path.starts_with("docs/") && file.path != SUMMARY;
    let lost =
        tree.with_extension("md").filter(is_page).filter(|file| !listed.contains(&file.path));
    each(lost, |_| [(1, format!("is not in the book. List it in {SUMMARY}"))])
}

/// The code map names every crate, and no path that does not exist.
#[must_use]
pub fn the_code_map_is_the_tree(tree: &Tree) -> Vec<Violation> {
    of(tree, ARCHITECTURE, |page| {
        let pieces = markdown::pieces(&page.text);
        let Some(map) = markdown::section(&pieces, CODE_MAP) else {
            return vec![(1, format!("there is no section `{CODE_MAP}`"))];
        };
        let code: Vec<_> = map.iter().filter(|piece| piece.kind == Kind::Code).collect();
        let gone = code.iter().filter(|it| is_path(&it.text) && !tree.exists(&it.text));
        let gone = gone.map(|it| (it.line, format!("there is no `{}` in the tree", it.text)));
        let is_named =
            |folder: &String| code.iter().any(|it| it.text.trim_end_matches('/') == folder);
        let folders = tree.crates().into_iter().map(|name| format!("crates/{name}"));
        let unnamed = folders.filter(|folder| !is_named(folder));
        gone.chain(unnamed.map(|it| (1, format!("the code map does not name `{it}`")))).collect()
    })
}

/// Whether code in the map is a path: it has a slash and only characters of paths.
fn is_path(code: &str) -> bool {
    code.contains('/') && code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// The change log has a section for the next change.
#[must_use]
pub fn the_changelog_has_an_unreleased_section(tree: &Tree) -> Vec<Violation> {
    of(tree, CHANGELOG, |log| {
        let reason = "no `## [Unreleased]` to add the next change to".to_owned();
        let is_there = log.text.lines().any(|line| line == "## [Unreleased]");
        if is_there { vec![] } else { vec![(1, reason)] }
    })
}

fn pieces(page: &File, kind: Kind) -> Vec<Piece> {
    markdown::pieces(&page.text).into_iter().filter(|piece| piece.kind == kind).collect()
}

/// The faults of the file `path`, which has to be there, by their lines.
fn of(tree: &Tree, path: &str, faults: impl Fn(&File) -> Vec<(usize, String)>) -> Vec<Violation> {
    tree.file(path).map_or_else(|| vec![missing(path)], |file| each([file].into_iter(), faults))
}

fn missing(path: &str) -> Violation {
    Violation::new(path, 1, "does not exist, and readers look there")
}
