//! The first line in which two texts differ.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Result};
use std::path::Path;

/// A function that gives the compared part of a line.
pub type Cleaned = fn(Vec<u8>) -> Vec<u8>;

/// The number of bytes of a line that are shown on either side of the first difference.
const AROUND: usize = 60;

/// The place at which two texts begin to differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line, from 1.
    pub line: usize,
    /// The line in the first text, around the first byte that differs; `None` after its end.
    pub before: Option<String>,
    /// The same in the second text.
    pub after: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |line: &Option<String>| line.clone().unwrap_or("(the end)".to_owned());
        let Difference { line, before, after } = self;
        write!(f, "line {line}:\n  before: {}\n  after:  {}", shown(before), shown(after))
    }
}

/// The first difference between two files.
pub fn files(before: &Path, after: &Path, cleaned: Cleaned) -> Result<Option<Difference>> {
    let open = |path| File::open(path).map(BufReader::new);
    texts(open(before)?, open(after)?, cleaned)
}

/// The whole line.
#[must_use]
pub fn whole(line: Vec<u8>) -> Vec<u8> {
    line
}

/// The line without the number of `wall_ns`. That is the time of the run, and the only field of a report that may
/// differ.
#[must_use]
pub fn without_wall(mut line: Vec<u8>) -> Vec<u8> {
    const KEY: &[u8] = br#""engine": {"#;
    const WALL: &[u8] = br#""wall_ns": "#;
    if !line.trim_ascii_start().starts_with(KEY) {
        return line;
    }
    if let Some(at) = line.windows(WALL.len()).position(|part| part == WALL) {
        let from = at + WALL.len();
        let digits = line[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        line.drain(from..from + digits);
    }
    line
}

fn texts(
    mut before: impl BufRead,
    mut after: impl BufRead,
    cleaned: Cleaned,
) -> Result<Option<Difference>> {
    for line in 1.. {
        let pair = [next(&mut before)?.map(cleaned), next(&mut after)?.map(cleaned)];
        match &pair {
            [None, None] => break,
            [before, after] if before == after => {}
            [before, after] => {
                return Ok(Some(difference(line, before.as_deref(), after.as_deref())));
            }
        }
    }
    Ok(None)
}

fn next(text: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = text.read_until(b'\n', &mut line)?;
    Ok((read > 0).then_some(line))
}

fn difference(line: usize, before: Option<&[u8]>, after: Option<&[u8]>) -> Difference {
    let pairs = before.unwrap_or_default().iter().zip(after.unwrap_or_default());
    let at = pairs.take_while(|(a, b)| a == b).count();
    let excerpt = |line: &[u8]| {
        let part = &line[at.saturating_sub(AROUND)..line.len().min(at + AROUND)];
        String::from_utf8_lossy(part).trim_end().to_owned()
    };
    Difference { line, before: before.map(excerpt), after: after.map(excerpt) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(before: &str, after: &str, cleaned: Cleaned) -> Option<Difference> {
        texts(before.as_bytes(), after.as_bytes(), cleaned).unwrap()
    }

    fn at(line: usize, before: Option<&str>, after: Option<&str>) -> Option<Difference> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(Difference { line, before: owned(before), after: owned(after) })
    }

    #[test]
    fn equal_texts_do_not_differ() {
        assert_eq!(compared("", "", whole), None);
        assert_eq!(compared("a\nb", "a\nb", whole), None);
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(compared("a\nb\nc\n", "a\nx\ny\n", whole), at(2, Some("b"), Some("x")));
        assert_eq!(compared("a\n", "a\nb\n", whole), at(2, None, Some("b")));
        assert_eq!(compared("a\n", "a", whole), at(1, Some("a"), Some("a")));
    }

    #[test]
    fn a_long_line_is_shown_around_its_difference() {
        let (long, end) = ("a".repeat(200), "b".repeat(200));
        let found = compared(&format!("{long}x{end}"), &format!("{long}y{end}"), whole).unwrap();
        assert_eq!(found.before.unwrap(), format!("{}x{}", &long[..AROUND], &end[..AROUND - 1]));
    }

    #[test]
    fn only_the_time_that_a_run_took_may_differ() {
        let line = |events, wall| {
            format!("  \"engine\": {{\"events\": {events}, \"wall_ns\": {wall}}},\n")
        };
        assert_eq!(compared(&line(1, 23), &line(1, 4), without_wall), None);
        assert!(compared(&line(1, 23), &line(2, 23), without_wall).is_some());
        assert!(compared("\"wall_ns\": 1", "\"wall_ns\": 2", without_wall).is_some());
    }
}
