//! The pages of `docs` as a book, in `target/book`.
//!
//! The book is built by the library under `mdbook`, at the version of the lock file. `mdbook build docs` makes the same
//! pages; only links from a page to a file outside `docs` differ. Those lead to the file in the checkout here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mdbook_driver::MDBook;
use mdbook_driver::book::{Book, Chapter};
use xtask::tidy::markdown::{self, Kind};
use xtask::workspace::{Outcome, root};

/// The folder of the pages.
const SOURCE: &str = "docs";

/// The folder of the book, as `docs/book.toml` has it.
const BOOK: &str = "target/book";

/// Parts of the book with links that are for browsers without scripts or for a web server.
const GENERATED: &[&str] = &["404.html", "print.html", "toc.html"];

#[test]
fn the_book_is_built_and_its_links_point_somewhere() -> Outcome {
    let mut book = MDBook::load(root().join(SOURCE))?;
    mend_links(&mut book.book)?;
    book.build()?;
    let pages = pages(&root().join(BOOK))?;
    assert!(pages.len() > 10, "pages: {}", pages.len());
    let dead: Vec<_> = pages.iter().flat_map(|(page, text)| dead(&pages, page, text)).collect();
    assert!(dead.is_empty(), "dead links: {}\n{}", dead.len(), dead.join("\n"));
    Ok(())
}

/// Changes the links that mdBook leaves as they are.
fn mend_links(book: &mut Book) -> Outcome {
    let mut mended = Ok(());
    book.for_each_chapter_mut(|chapter| {
        if let Err(error) = mend_links_of(chapter) {
            mended = Err(error);
        }
    });
    mended
}

fn mend_links_of(chapter: &mut Chapter) -> Outcome {
    let page = chapter.source_path.clone().ok_or("a chapter has no file")?;
    let depth = page.components().count() - 1;
    for link in markdown::pieces(&chapter.content) {
        if link.kind == Kind::Link && !link.text.contains("://") {
            let (old, new) =
                (format!("]({})", link.text), format!("]({})", mended(&link.text, depth)));
            chapter.content = chapter.content.replace(&old, &new);
        }
    }
    Ok(())
}

/// A link of a page that is `depth` folders below `docs`, as the built page needs it.
fn mended(link: &str, depth: usize) -> String {
    let inside = link.trim_start_matches("../");
    let climbed = (link.len() - inside.len()) / "../".len();
    if climbed <= depth {
        // mdBook calls a `README.md` `index.html`.
        return link.replace("README.md", "index.md");
    }
    // To the root of the checkout, through the book's two folders. A `.md` would become a page of the book.
    let up = "../".repeat(depth + Path::new(BOOK).components().count());
    format!("{up}{}", inside.replace(".md", "%2Emd"))
}

/// The pages of the book by their paths.
fn pages(folder: &Path) -> Outcome<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_generated = GENERATED.iter().any(|name| path.ends_with(name));
        if path.is_dir() {
            pages.append(&mut self::pages(&path)?);
        } else if path.extension().is_some_and(|end| end == "html") && !is_generated {
            let text = fs::read_to_string(&path)?;
            pages.insert(path, text);
        }
    }
    Ok(pages)
}

/// The links of a page that point to no file, or to no place of a page.
fn dead(pages: &BTreeMap<PathBuf, String>, page: &Path, text: &str) -> Vec<String> {
    let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let local = links.filter(|link| !link.contains(':') && !link.is_empty());
    let is_dead = |link: &&str| {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let folder = page.parent().unwrap_or(page);
        let target = match path.replace("%2E", ".").as_str() {
            "" => page.to_owned(),
            path => folder.join(path),
        };
        let Ok(target) = target.canonicalize() else { return true };
        let other = pages.get(&target);
        let is_place = |page: &String| page.contains(&format!("id=\"{anchor}\""));
        !anchor.is_empty() && other.is_some_and(|page| !is_place(page))
    };
    local.filter(is_dead).map(|link| format!("{}: {link}", page.display())).collect()
}
