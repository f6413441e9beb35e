//! The pages that show measurements, and the blocks in them that are made from `docs/figures`.
//!
//! A block begins with a line `<!-- figures: NAME -->` and ends with a line `<!-- /figures -->`.
//! Everything between the two is replaced. Blocks of code are no place for a marker, so a page can
//! show one.

use std::collections::BTreeMap;

use super::figure::{Figure, Origin};
use super::table;
use crate::tidy::Violation;
use crate::tidy::tree::{File, Tree};

/// The folder of the measurements.
pub const FOLDER: &str = "docs/figures/";

const OPENING: &str = "<!-- figures: ";
const CLOSING: &str = "<!-- /figures -->";
const REMEDY: &str = "Run `cargo xtask figures`";

/// The measurements by their names, without a value where the file cannot be read.
type Figures<'a> = BTreeMap<String, (&'a File, Option<Figure>)>;

/// The places that show a measurement, by its name.
type Shown = BTreeMap<String, Vec<String>>;

/// A file whose text is not the one that is made.
#[derive(Clone, Debug)]
pub struct Stale {
    /// Its path.
    pub path: String,
    /// The first line that differs.
    pub line: usize,
    /// The text that is made.
    pub text: String,
}

/// The result of making all pages of a tree.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// The files that differ from the text that is made.
    pub stale: Vec<Stale>,
    /// The mistakes that a person has to mend.
    pub mistakes: Vec<Violation>,
}

/// Every table is the one that its file in `docs/figures` makes, and every such file is shown once.
#[must_use]
pub fn tables_are_made_from_their_figures(tree: &Tree) -> Vec<Violation> {
    let pages = Pages::read(tree);
    let stale = |stale: Stale| {
        let reason = format!("is not what docs/figures makes. {REMEDY}");
        Violation { path: stale.path, line: stale.line, reason }
    };
    pages.mistakes.into_iter().chain(pages.stale.into_iter().map(stale)).collect()
}

impl Pages {
    /// Reads all measurements and makes all pages.
    #[must_use]
    pub fn read(tree: &Tree) -> Pages {
        let mut pages = Pages::default();
        let figures = pages.figures(tree);
        let mut shown = Shown::new();
        for page in tree.with_extension("md") {
            pages.page(page, &figures, &mut shown);
        }
        for (name, (file, _)) in &figures {
            let reason = match shown.get(name).map_or(&[][..], Vec::as_slice) {
                [_] => continue,
                [] => format!("no page shows it. Add `{OPENING}{name} -->` to one"),
                places => {
                    format!("shown more than once: {}. Link to one of them", places.join(", "))
                }
            };
            pages.mistakes.push(Violation::new(&file.path, 1, reason));
        }
        pages
    }

    /// Reads the measurements.
    fn figures<'a>(&mut self, tree: &'a Tree) -> Figures<'a> {
        let mut figures = Figures::new();
        for file in tree.with_extension("json") {
            let Some(name) = file.path.strip_prefix(FOLDER) else { continue };
            let read = Figure::parse(&file.text).and_then(|figure| Ok((figure.text()?, figure)));
            let figure = match read {
                Ok((text, figure)) => {
                    self.compare(file, text);
                    Some(figure)
                }
                Err(error) => {
                    self.mistakes.push(Violation::new(&file.path, 1, error.to_string()));
                    None
                }
            };
            let name = name.trim_end_matches(".json").to_owned();
            if let Some(lack) = figure.as_ref().and_then(|figure| lacks(figure)) {
                self.mistakes.push(Violation::new(&file.path, 1, lack.to_owned()));
            }
            figures.insert(name, (file, figure));
        }
        figures
    }

    fn page(&mut self, page: &File, figures: &Figures<'_>, shown: &mut Shown) {
        let pieces = match pieces(&page.text) {
            Ok(pieces) => pieces,
            Err(line) => {
                let reason = format!("a block without its line `{CLOSING}`");
                return self.mistakes.push(Violation::new(&page.path, line, reason));
            }
        };
        let mut made = String::new();
        for piece in pieces {
            let Piece::Block { name, line, text } = piece else {
                made.push_str(piece.text());
                continue;
            };
            shown.entry(name.to_owned()).or_default().push(format!("{}:{line}", page.path));
            match figures.get(name) {
                Some((_, Some(figure))) => made.push_str(&format!("\n{}\n", table::render(figure))),
                Some((_, None)) => made.push_str(text),
                None => {
                    let reason = format!("there is no {FOLDER}{name}.json");
                    self.mistakes.push(Violation::new(&page.path, line, reason));
                    made.push_str(text);
                }
            }
        }
        self.compare(page, made);
    }

    fn compare(&mut self, file: &File, text: String) {
        if file.text != text {
            let same = file.text.lines().zip(text.lines()).take_while(|(a, b)| a == b).count();
            self.stale.push(Stale { path: file.path.clone(), line: same + 1, text });
        }
    }
}

/// Returns what a reader needs to measure a table again, and does not find.
fn lacks(figure: &Figure) -> Option<&'static str> {
    let without = |has: fn(&Origin) -> bool| !figure.measured.iter().all(has);
    if without(|run| run.command.is_some()) {
        return Some("a run in `measured` has no `command` that prints its values");
    }
    without(|run| run.commit.is_some()).then_some("a run in `measured` has no `commit`")
}

/// A part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// Text that a person writes, markers included.
    Text(&'a str),
    /// The text between the two markers of a block.
    Block { name: &'a str, line: usize, text: &'a str },
}

impl<'a> Piece<'a> {
    fn text(&self) -> &'a str {
        match self {
            Piece::Text(text) | Piece::Block { text, .. } => text,
        }
    }
}

/// The pieces of a page in their order, or the line of a block that does not end.
fn pieces(page: &str) -> Result<Vec<Piece<'_>>, usize> {
    let mut pieces = Vec::new();
    let (mut begin, mut at) = (0, 0);
    let mut block: Option<(&str, usize)> = None;
    let mut in_code = false;
    for (index, line) in page.split_inclusive('\n').enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        let closes = line.trim_end() == CLOSING;
        match (block, opened(line)) {
            (None, Some(name)) if !in_code => {
                pieces.push(Piece::Text(&page[begin..at + line.len()]));
                block = Some((name, index + 1));
                begin = at + line.len();
            }
            (Some((name, line)), None) if closes => {
                pieces.push(Piece::Block { name, line, text: &page[begin..at] });
                block = None;
                begin = at;
            }
            (Some((_, line)), Some(_)) => return Err(line),
            _ => {}
        }
        at += line.len();
    }
    pieces.push(Piece::Text(&page[begin..]));
    block.map_or(Ok(pieces), |(_, line)| Err(line))
}

/// The name of the measurement whose block `line` opens.
fn opened(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(OPENING)?.strip_suffix(" -->")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const FIGURE: &str = r#"{
  "title": "Lateness",
  "measured": [
    {"command": "live probe", "date": "2026-11-25", "commit": "4c3eab5"}
  ],
  "columns": [
    {"name": "side"},
    {"name": "p50", "unit": "us"}
  ],
  "rows": [
    ["tokio", 38341]
  ]
}
"#;

    /// A page with a block of the measurement `late`, which has `body` between its markers.
    fn page(body: &str) -> String {
        format!("# Page\n{OPENING}late -->\n{body}{CLOSING}\nmore\n")
    }

    fn table() -> String {
        format!("\n{}\n", table::render(&Figure::parse(FIGURE).unwrap()))
    }

    fn wrong(files: &[(&str, &str)]) -> Vec<String> {
        places(tables_are_made_from_their_figures, files)
    }

    const JSON: (&str, &str) = ("docs/figures/late.json", FIGURE);

    #[test]
    fn a_table_has_its_command_and_its_commit() {
        let shown = page(&table());
        for lack in [r#""command": "live probe", "#, r#", "commit": "4c3eab5""#] {
            let figure = FIGURE.replace(lack, "");
            let files = [("docs/figures/late.json", figure.as_str()), ("docs/a.md", &shown)];
            assert!(wrong(&files).contains(&"docs/figures/late.json:1".to_owned()), "{lack}");
        }
    }

    #[test]
    fn a_page_that_differs_from_its_figures_is_found_and_made_anew() {
        let good = page(&table());
        assert!(wrong(&[JSON, ("docs/a.md", &good)]).is_empty());
        let old = good.replace("38,341", "38,342");
        let files = [JSON, ("docs/a.md", old.as_str())];
        assert_eq!(wrong(&files), ["docs/a.md:8"]);
        let made = Pages::read(&Tree::of(&files)).stale.remove(0).text;
        assert_eq!(made, good);
        let empty = page("");
        assert_eq!(Pages::read(&Tree::of(&[JSON, ("a.md", &empty)])).stale[0].text, good);
    }

    #[test]
    fn a_figure_is_shown_in_one_place() {
        let good = page(&table());
        assert_eq!(wrong(&[JSON]), ["docs/figures/late.json:1"]);
        let twice = [JSON, ("README.md", good.as_str()), ("docs/a.md", good.as_str())];
        assert_eq!(wrong(&twice), ["docs/figures/late.json:1"]);
    }

    #[test]
    fn a_block_names_a_figure_and_ends() {
        let good = page(&table());
        assert_eq!(wrong(&[("docs/a.md", &good)]), ["docs/a.md:2"]);
        let open = good.replace(CLOSING, "");
        assert!(wrong(&[JSON, ("docs/a.md", &open)]).contains(&"docs/a.md:2".to_owned()));
        let nested = format!("{OPENING}a -->\n{good}");
        assert!(wrong(&[JSON, ("docs/a.md", &nested)]).contains(&"docs/a.md:1".to_owned()));
    }

    #[test]
    fn a_marker_in_code_is_text() {
        let shown = format!("```md\n{}```\n", page(""));
        assert!(wrong(&[("docs/figures/README.md", &shown)]).is_empty());
    }

    #[test]
    fn a_figure_that_cannot_be_read_or_has_another_layout_is_found() {
        let good = page(&table());
        let broken = FIGURE.replace("\"rows\"", "\"lines\"");
        let files = [("docs/figures/late.json", broken.as_str()), ("docs/a.md", good.as_str())];
        assert_eq!(wrong(&files), ["docs/figures/late.json:1"]);
        let wide = FIGURE.replace("[\"tokio\", 38341]", "[\"tokio\",38341]");
        let files = [("docs/figures/late.json", wide.as_str()), ("docs/a.md", good.as_str())];
        assert_eq!(wrong(&files), ["docs/figures/late.json:11"]);
    }
}
