//! Rules that keep the documents true to the tree. Prose about code is the part that becomes outdated.

use super::Violation;
use super::markdown::{self, Kind, Piece};
use super::tree::{File, Tree};

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
    tree.with_extension("md").flat_map(|file| dead_links(tree, file)).collect()
}

fn dead_links(tree: &Tree, file: &File) -> Vec<Violation> {
    let pieces = markdown::pieces(&file.text);
    let links = pieces.iter().filter(|piece| piece.kind == Kind::Link);
    let dead = |link: &Piece| {
        let reason = dead_link(tree, file, &link.text)?;
        Some(Violation::new(file, link.line, reason))
    };
    links.filter_map(dead).collect()
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
    if link.starts_with('/') {
        return None;
    }
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in link.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The README shows the two commands from which everything else is found.
#[must_use]
pub fn the_readme_shows_the_first_commands(tree: &Tree) -> Vec<Violation> {
    let readme = match required(tree, README) {
        Ok(file) => file,
        Err(missing) => return vec![missing],
    };
    let pieces = markdown::pieces(&readme.text);
    let shown = |command: &&&str| {
        let block = |piece: &Piece| piece.kind == Kind::Block && piece.text.contains(**command);
        pieces.iter().any(block)
    };
    let reason =
        |command| format!("no block of code shows `{command}`, which newcomers type first");
    let missing = COMMANDS.iter().filter(|command| !shown(command));
    missing.map(|command| Violation::new(readme, 1, reason(command))).collect()
}

/// Every design page has the same sections in the same order.
#[must_use]
pub fn design_pages_have_their_sections(tree: &Tree) -> Vec<Violation> {
    let pages: Vec<_> = tree.with_extension("md").filter(|file| is_design_page(file)).collect();
    if pages.is_empty() {
        return vec![missing(DESIGN, "each mechanism has a page here")];
    }
    pages.into_iter().filter_map(disordered).collect()
}

fn is_design_page(file: &File) -> bool {
    file.path.strip_prefix(DESIGN).is_some_and(|name| name != README)
}

fn disordered(page: &File) -> Option<Violation> {
    let pieces = markdown::pieces(&page.text);
    let headings = pieces.iter().filter(|piece| piece.kind == Kind::Heading(2));
    let known: Vec<_> = headings.filter(|piece| SECTIONS.contains(&piece.text.as_str())).collect();
    if known.iter().map(|piece| piece.text.as_str()).eq(SECTIONS.iter().copied()) {
        return None;
    }
    let first_wrong = known.iter().zip(SECTIONS).find(|(found, expected)| found.text != **expected);
    let line = first_wrong.map_or(1, |(found, _)| found.line);
    let expected = SECTIONS.join("`, `## ");
    let reason = format!("a design page has `## {expected}`, each once and in this order");
    Some(Violation::new(page, line, reason))
}

/// The book has every page of `docs`.
#[must_use]
pub fn every_page_is_in_the_book(tree: &Tree) -> Vec<Violation> {
    let summary = match required(tree, SUMMARY) {
        Ok(file) => file,
        Err(missing) => return vec![missing],
    };
    let pieces = markdown::pieces(&summary.text);
    let links = pieces.iter().filter(|piece| piece.kind == Kind::Link);
    let listed: Vec<_> = links.filter_map(|link| resolve(SUMMARY, &link.text)).collect();
    let is_page = |file: &&File| file.path.starts_with("docs/") && file.path != SUMMARY;
    let pages = tree.with_extension("md").filter(is_page);
    pages
        .filter(|page| !listed.contains(&page.path))
        .map(|page| Violation::new(page, 1, format!("is not in the book. List it in {SUMMARY}")))
        .collect()
}

/// The code map names every crate, and no path that does not exist.
#[must_use]
pub fn the_code_map_is_the_tree(tree: &Tree) -> Vec<Violation> {
    let page = match required(tree, ARCHITECTURE) {
        Ok(file) => file,
        Err(missing) => return vec![missing],
    };
    let pieces = markdown::pieces(&page.text);
    let Some(map) = markdown::section(&pieces, CODE_MAP) else {
        return vec![Violation::new(page, 1, format!("there is no section `{CODE_MAP}`"))];
    };
    let code = || map.iter().filter(|piece| piece.kind == Kind::Code);
    let gone = code().filter(|piece| is_path(&piece.text) && !tree.exists(&piece.text));
    let gone = gone.map(|piece| {
        Violation::new(page, piece.line, format!("there is no `{}` in the tree", piece.text))
    });
    let named = |name: &str| {
        let folder = format!("crates/{name}");
        code().any(|piece| piece.text.trim_end_matches('/') == folder)
    };
    let unnamed =
        tree.crates().into_iter().filter(|name| !named(name)).map(|name| {
            Violation::new(page, 1, format!("the code map does not name `crates/{name}`"))
        });
    gone.chain(unnamed).collect()
}

/// Whether code in the map is a path: it has a slash and only characters of paths.
fn is_path(code: &str) -> bool {
    code.contains('/') && code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// The change log has a section for the next change.
#[must_use]
pub fn the_changelog_has_an_unreleased_section(tree: &Tree) -> Vec<Violation> {
    match required(tree, CHANGELOG) {
        Ok(log) if log.text.lines().any(|line| line == "## [Unreleased]") => vec![],
        Ok(log) => vec![Violation::new(log, 1, "no `## [Unreleased]` to add the next change to")],
        Err(missing) => vec![missing],
    }
}

fn required<'a>(tree: &'a Tree, path: &str) -> Result<&'a File, Violation> {
    tree.file(path).ok_or_else(|| missing(path, "it is where readers begin"))
}

fn missing(path: &str, why: &str) -> Violation {
    Violation { path: path.to_owned(), line: 1, reason: format!("does not exist, and {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn a_dead_link_is_found() {
        let rule = links_point_somewhere;
        let page = "[a](../README.md#runyard) [b](gone.md)\n\n[c](#none) [d](https://a.b/c)\n\n\
                    [e](../src/a.rs#L3) [f](..)\n";
        let files = [("README.md", "# Runyard\n"), ("docs/a.md", page), ("src/a.rs", "")];
        assert_eq!(places(rule, &files), ["docs/a.md:1", "docs/a.md:3", "docs/a.md:5"]);
        assert!(places(rule, &[("a.md", "# A b\n[a](#a-b)\n`[b](gone.md)`")]).is_empty());
    }

    #[test]
    fn a_link_out_of_the_tree_is_dead() {
        assert_eq!(resolve("docs/a.md", "../b.md").as_deref(), Some("b.md"));
        assert_eq!(resolve("docs/a.md", "../../b.md"), None);
        assert_eq!(resolve("a.md", "/b.md"), None);
    }

    #[test]
    fn a_readme_without_the_commands_is_found() {
        let rule = the_readme_shows_the_first_commands;
        assert_eq!(places(rule, &[]), ["README.md:1"]);
        let text = format!("```\n{}\n```\n{}\n", COMMANDS[0], COMMANDS[1]);
        assert_eq!(places(rule, &[("README.md", &text)]).len(), 1);
        let text = format!("```\n{}\n{} # all\n```\n", COMMANDS[0], COMMANDS[1]);
        assert!(places(rule, &[("README.md", &text)]).is_empty());
    }

    #[test]
    fn a_design_page_without_a_section_is_found() {
        let rule = design_pages_have_their_sections;
        assert_eq!(places(rule, &[]), ["docs/design/:1"]);
        let whole = "# A\n## Problem\n## Rejected\n### b\n## Chosen\n## Notes\n## Invariants\n\
                     ## Measured\n";
        let files = [("docs/design/a.md", whole), ("docs/design/README.md", "# Pages\n")];
        assert!(places(rule, &files).is_empty());
        let part = whole.replace("## Chosen\n", "");
        assert_eq!(places(rule, &[("docs/design/a.md", &part)]), ["docs/design/a.md:6"]);
        assert_eq!(places(rule, &[("docs/design/a.md", "# A\n")]), ["docs/design/a.md:1"]);
    }

    #[test]
    fn a_page_that_is_not_in_the_book_is_found() {
        let rule = every_page_is_in_the_book;
        assert_eq!(places(rule, &[]), ["docs/SUMMARY.md:1"]);
        let summary = (SUMMARY, "# Summary\n- [A](guides/a.md)\n");
        let pages = [summary, ("docs/guides/a.md", ""), ("README.md", "")];
        assert!(places(rule, &pages).is_empty());
        let pages = [summary, ("docs/guides/a.md", ""), ("docs/guides/b.md", "")];
        assert_eq!(places(rule, &pages), ["docs/guides/b.md:1"]);
    }

    #[test]
    fn a_code_map_beside_the_tree_is_found() {
        let rule = the_code_map_is_the_tree;
        let crates = [("crates/engine/src/lib.rs", ""), ("crates/smp/src/lib.rs", "")];
        let with = |text| [crates[0], crates[1], ("ARCHITECTURE.md", text)];
        assert_eq!(places(rule, &crates), ["ARCHITECTURE.md:1"]);
        assert_eq!(places(rule, &with("# A\n`crates/engine` `crates/smp`\n")).len(), 1);
        let clean = "## Code map\n### `crates/engine/`\n* `crates/smp`\n## Other\n`x/y`\n";
        assert!(places(rule, &with(clean)).is_empty());
        let stale = "## Code map\n`crates/engine/src/gone.rs` `crates/smp`\n";
        assert_eq!(places(rule, &with(stale)), ["ARCHITECTURE.md:2", "ARCHITECTURE.md:1"]);
    }

    #[test]
    fn a_changelog_without_a_place_for_the_next_change_is_found() {
        let rule = the_changelog_has_an_unreleased_section;
        assert_eq!(places(rule, &[("CHANGELOG.md", "## [0.1.0]\n")]), ["CHANGELOG.md:1"]);
        assert!(places(rule, &[("CHANGELOG.md", "# C\n\n## [Unreleased]\n")]).is_empty());
    }
}
