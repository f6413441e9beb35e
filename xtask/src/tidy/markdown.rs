//! The parts of a Markdown text that the rules need: headings, links, code.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// A piece of a Markdown text and the line where it starts, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its kind.
    pub kind: Kind,
    /// Its text: the words of a heading, the target of a link, the code itself.
    pub text: String,
    /// Its first line.
    pub line: usize,
}

/// The kinds of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A heading of this level.
    Heading(u8),
    /// A link or an image.
    Link,
    /// Code within a line.
    Code,
    /// A block of code.
    Block,
}

/// The pieces of `text`, in order; code within a heading comes before the heading.
#[must_use]
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    // The words of the present heading, or the lines of the present block.
    let mut gathered: Option<String> = None;
    for (event, place) in Parser::new(text).into_offset_iter() {
        let mut add = |kind, found: String| {
            pieces.push(Piece { kind, text: found, line: line(text, &place) });
        };
        match event {
            Event::Start(Tag::Heading { .. } | Tag::CodeBlock(_)) => gathered = Some(String::new()),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                add(Kind::Link, dest_url.into_string());
            }
            Event::End(TagEnd::Heading(level)) => {
                add(Kind::Heading(level as u8), gathered.take().unwrap_or_default());
            }
            Event::End(TagEnd::CodeBlock) => {
                add(Kind::Block, gathered.take().unwrap_or_default());
            }
            Event::Code(code) => {
                gather(&mut gathered, &code);
                add(Kind::Code, code.into_string());
            }
            Event::Text(words) => gather(&mut gathered, &words),
            _ => {}
        }
    }
    pieces
}

/// The pieces from the heading `title` to the next one of its level or above.
#[must_use]
pub fn section<'a>(pieces: &'a [Piece], title: &str) -> Option<&'a [Piece]> {
    let is_title = |piece: &Piece| level(piece).is_some() && piece.text.eq_ignore_ascii_case(title);
    let start = pieces.iter().position(is_title)?;
    let within = &pieces[start + 1..];
    let own = level(&pieces[start]);
    let end = within.iter().position(|piece| level(piece).is_some() && level(piece) <= own);
    Some(&within[..end.unwrap_or(within.len())])
}

/// The anchors of the headings, in the form of GitHub and other forges.
#[must_use]
pub fn anchors(pieces: &[Piece]) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for heading in pieces.iter().filter(|piece| level(piece).is_some()) {
        let anchor = anchor(&heading.text);
        let twin = |n: &usize| match n {
            0 => anchor.clone(),
            _ => format!("{anchor}-{n}"),
        };
        let free = (0..).map(|n| twin(&n)).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn level(piece: &Piece) -> Option<u8> {
    match piece.kind {
        Kind::Heading(level) => Some(level),
        _ => None,
    }
}

fn gather(gathered: &mut Option<String>, words: &str) {
    if let Some(gathered) = gathered {
        gathered.push_str(words);
    }
}

fn line(text: &str, place: &Range<usize>) -> usize {
    text[..place.start].matches('\n').count() + 1
}
