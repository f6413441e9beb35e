//! The rules of plain English that a program can hold, over comments and documents.
//!
//! Most readers learned English as a second language, and they read in a hurry. A relative clause without a noun ("it
//! calls who waits") makes them guess the subject. So `who` and `whose` follow a noun, `whom` is not used, and `what`
//! only opens a question. A thousand is written with a comma.
//!
//! Code is no prose: blocks of code are skipped, and code within a line counts as a noun.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::tree::{File, Tree};
use super::{Violation, rust};

/// Words that are no noun and often stand before a clause that lacks its noun.
const NO_NOUNS: &[&str] = &[
    "a",
    "about",
    "after",
    "all",
    "also",
    "an",
    "and",
    "any",
    "anybody",
    "anyone",
    "are",
    "as",
    "ask",
    "asks",
    "at",
    "be",
    "been",
    "before",
    "both",
    "but",
    "by",
    "decide",
    "decides",
    "each",
    "everybody",
    "everyone",
    "for",
    "from",
    "has",
    "have",
    "if",
    "in",
    "into",
    "is",
    "it",
    "know",
    "knows",
    "nobody",
    "nor",
    "not",
    "of",
    "on",
    "one",
    "ones",
    "only",
    "or",
    "over",
    "say",
    "says",
    "see",
    "sees",
    "show",
    "shows",
    "so",
    "somebody",
    "someone",
    "tell",
    "tells",
    "than",
    "that",
    "the",
    "them",
    "then",
    "they",
    "this",
    "those",
    "to",
    "told",
    "under",
    "upon",
    "was",
    "were",
    "when",
    "where",
    "which",
    "while",
    "with",
    "without",
];

/// The token of code within a line.
const CODE: &str = "`";

/// Every clause names its subject.
#[must_use]
pub fn every_clause_names_its_subject(tree: &Tree) -> Vec<Violation> {
    faults(tree, clauses)
}

/// Thousands are separated by commas: a space makes two numbers of one.
#[must_use]
pub fn thousands_have_commas(tree: &Tree) -> Vec<Violation> {
    faults(tree, thousands)
}

/// The faults that `check` finds in the passages of all files.
fn faults(tree: &Tree, check: fn(&File, &[Token]) -> Vec<Violation>) -> Vec<Violation> {
    let of = |file| {
        let passages = passages(file).into_iter();
        passages.flat_map(move |passage| check(file, &passage)).collect::<Vec<_>>()
    };
    tree.files().iter().flat_map(of).collect()
}

/// A word, or a sign of punctuation, of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
    /// Whether it follows the token before it without a space.
    close: bool,
}

impl Token {
    fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    fn is_word(&self) -> bool {
        self.text.starts_with(is_part_of_word)
    }

    fn ends_sentence(&self) -> bool {
        matches!(self.text.as_str(), "." | "?" | "!")
    }
}

/// One paragraph, heading, list item or table cell.
type Passage = Vec<Token>;

fn clauses(file: &File, passage: &[Token]) -> Vec<Violation> {
    let fault = |(at, token): (usize, &Token)| {
        let reason = clause(passage, at)?;
        Some(Violation::new(file, token.line, format!("`{}`: {reason}", token.text)))
    };
    passage.iter().enumerate().filter_map(fault).collect()
}

/// The fault of the clause that the token at `at` opens.
fn clause(passage: &[Token], at: usize) -> Option<&'static str> {
    let token = &passage[at];
    if token.is("whom") {
        return Some("a shorter sentence says it without this word");
    }
    if token.is("who") || token.is("whose") {
        let named = follows_noun(passage, at) || is_question(passage, at);
        return (!named).then_some("name the person or the thing first (\"a task whose ...\")");
    }
    if token.is("what") {
        let named = passage.get(at + 1).is_some_and(|next| next.is("if") || next.text == "-");
        let fine = named || is_question(passage, at);
        return (!fine).then_some("name the thing (\"the value that ...\", \"the cost of ...\")");
    }
    None
}

/// Whether a noun stands directly before the token at `at`, or with a comma or a bracket between them.
fn follows_noun(passage: &[Token], at: usize) -> bool {
    let between = |token: &&Token| !matches!(token.text.as_str(), "," | ")");
    let Some(before) = passage[..at].iter().rev().find(between) else { return false };
    let is_noun = before.is_word() && !NO_NOUNS.iter().any(|word| before.is(word));
    is_noun || before.text == CODE
}

/// Whether the sentence of the token at `at` ends with a question mark.
fn is_question(passage: &[Token], at: usize) -> bool {
    passage[at..].iter().find(|token| token.ends_sentence()).is_some_and(|end| end.text == "?")
}

fn thousands(file: &File, passage: &[Token]) -> Vec<Violation> {
    let fault = |pair: &[Token]| {
        let [thousands, rest] = pair else { return None };
        let split = is_number(&thousands.text, 1..4)
            && is_number(&rest.text, 3..4)
            && !thousands.close
            && !rest.close;
        let reason = format!(
            "`{} {}`: write {0},{1}, or a comma between two numbers",
            thousands.text, rest.text
        );
        split.then(|| Violation::new(file, rest.line, reason))
    };
    passage.windows(2).filter_map(fault).collect()
}

fn is_number(text: &str, digits: Range<usize>) -> bool {
    digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The prose of `file`, if it has any.
fn passages(file: &File) -> Vec<Passage> {
    let texts = match file.path.rsplit_once('.').map(|(_, end)| end) {
        _ if file.path.contains("/vendor/") => vec![],
        Some("md") => vec![(1, file.text.clone())],
        Some("rs") => runs(rust::lines(&file.text).iter().map(rust_comment)),
        Some("py" | "pyi") => runs(python_comments(&file.text).into_iter()),
        _ => vec![],
    };
    texts.iter().flat_map(|(line, text)| prose(text, *line)).collect()
}

/// Runs of lines that have prose, each with the number of its first line.
fn runs(lines: impl Iterator<Item = Option<String>>) -> Vec<(usize, String)> {
    let mut runs: Vec<(usize, String)> = Vec::new();
    let mut last = None;
    for (line, prose) in (1..).zip(lines) {
        let Some(prose) = prose else { continue };
        if last.is_some_and(|last| last + 1 == line) {
            let (_, run) = runs.last_mut().expect("a run has begun");
            run.push('\n');
            run.push_str(&prose);
        } else {
            runs.push((line, prose));
        }
        last = Some(line);
    }
    runs
}

/// The words of a comment. A comment after code stands alone: it is no part of the lines around it.
fn rust_comment(line: &rust::Line) -> Option<String> {
    let comment = line.comment.trim();
    let marker = ["///", "//!", "//"].into_iter().find(|marker| comment.starts_with(marker))?;
    (!line.has_code()).then(|| comment[marker.len()..].to_owned())
}

/// The lines of comments and of texts between triple quotes.
fn python_comments(text: &str) -> Vec<Option<String>> {
    const QUOTES: &str = "\"\"\"";
    let mut quoted = false;
    let mut prose = |line: &str| {
        let began = quoted;
        quoted ^= line.matches(QUOTES).count() % 2 == 1;
        let line = line.trim_start();
        let comment = line.strip_prefix('#').filter(|_| !began);
        let is_quoted = began || quoted || line.matches(QUOTES).count() == 2;
        comment.map(str::to_owned).or_else(|| is_quoted.then(|| line.replace(QUOTES, " ")))
    };
    text.lines().map(&mut prose).collect()
}

/// The passages of a Markdown text that begins in line `first`.
fn prose(text: &str, first: usize) -> Vec<Passage> {
    let mut passages = vec![Passage::new()];
    let mut in_block = false;
    for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let line = first + text[..place.start].matches('\n').count();
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_block = true,
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Text(words) if !in_block => {
                passages.last_mut().expect("there is one").extend(tokens(&words, line));
            }
            Event::Code(_) => {
                let token = Token { text: CODE.to_owned(), line, close: false };
                passages.last_mut().expect("there is one").push(token);
            }
            Event::Start(tag) if opens_passage(&tag) => passages.push(Passage::new()),
            _ => {}
        }
    }
    passages
}

fn opens_passage(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell)
}

/// The words and signs of one line.
fn tokens(text: &str, line: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match rest.find(|c| !is_part_of_word(c)) {
            Some(0) => next.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        let (token, after) = rest.split_at(length);
        let close = tokens.last().is_some()
            && !text[..text.len() - rest.len()].ends_with(char::is_whitespace);
        if !next.is_whitespace() {
            tokens.push(Token { text: token.to_owned(), line, close });
        }
        rest = after;
    }
    tokens
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || "_'".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    fn refused(text: &str) -> bool {
        !places(every_clause_names_its_subject, &[("a.md", text)]).is_empty()
    }

    #[test]
    fn a_clause_without_a_noun_is_found() {
        for text in [
            "It asks who waits.",
            "Who waits lends.",
            "A word for\nwhose turn it is.",
            "By whom?",
            "Of what it\nhas, one.",
        ] {
            assert!(refused(text), "{text}");
        }
        let places = places(
            every_clause_names_its_subject,
            &[("a.md", "One line.\n\n| a |\n|---|\n| what is due |\n")],
        );
        assert_eq!(places, ["a.md:5"]);
    }

    #[test]
    fn a_clause_after_a_noun_is_fine() {
        let texts = [
            "People who tune it, and a task whose slice ends.",
            "A `Task` whose box is free.",
            "Engineers, who read it.",
            "What happens to the tail?",
            "A what-if study. What if it blocks?",
            "```text\nwho is next\n```",
            "Whoever and whatnot.",
        ];
        for text in texts {
            assert!(!refused(text), "{text}");
        }
    }

    #[test]
    fn comments_are_read_and_code_is_not() {
        let text =
            "/// Says\n/// who runs.\nfn who() { \"what\"; } // what\n\n// Tells what\n// is.\n";
        assert_eq!(places(every_clause_names_its_subject, &[("a.rs", text)]), ["a.rs:2", "a.rs:5"]);
        let text =
            "\"\"\"Tells who.\"\"\"\nwho = 1\n# of what\n\"\"\"One.\n\nOf whom.\n\"\"\"\nwhat()\n";
        assert_eq!(
            places(every_clause_names_its_subject, &[("a.py", text)]),
            ["a.py:1", "a.py:3", "a.py:6"]
        );
    }

    #[test]
    fn a_thousand_without_a_comma_is_found() {
        assert_eq!(places(thousands_have_commas, &[("a.md", "It took 10 000 ns.\n")]), ["a.md:1"]);
        assert_eq!(places(thousands_have_commas, &[("a.rs", "// 1 234 567 tasks\n")]).len(), 2);
        let fine = "10,000 tasks; 8 CPUs; 8, 256 and 1000 of them, 2026-11-22, 0.5 100.0";
        assert!(places(thousands_have_commas, &[("a.md", fine)]).is_empty());
    }
}
