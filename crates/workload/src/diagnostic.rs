//! What is wrong with a scenario, and where.
//!
//! Reading code knows places as byte offsets ([`Fault`]), which are cheap to carry; users know
//! them as lines and columns ([`Diagnostic`]). [`locate`] turns the one into the other, in one
//! pass over the text however many there are.

use std::fmt;

/// An error or a warning about a scenario. Displays as its place and what is wrong there, with a colon between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where it is.
    pub place: Place,
    /// What is wrong there.
    pub what: String,
}

/// The place of a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the text. Displays as `FILE:LINE:COLUMN`.
    Text {
        /// The file, as the user named it.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
    },
    /// In a setting, which displays as the command takes it, `--set PATH=VALUE`.
    Setting(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Text { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Place::Setting(setting) => write!(f, "--set {setting}"),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for Diagnostic {}

/// Something wrong at a byte offset of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl Fault {
    /// The place of what has none: the beginning of the text.
    pub(crate) const NOWHERE: usize = 0;

    pub(crate) fn new(at: usize, what: impl Into<String>) -> Fault {
        Fault { at, what: what.into() }
    }
}

/// The faults in the order of their places. A place beyond the text or within a character is moved
/// back to a character's beginning, or to the text's end.
pub(crate) fn locate(file: &str, text: &str, mut faults: Vec<Fault>) -> Vec<Diagnostic> {
    faults.sort_by_key(|fault| fault.at);
    let (mut line, mut column) = (1, 1);
    let mut chars = text.char_indices().peekable();
    let place = |Fault { at, what }| {
        while let Some((_, char)) = chars.next_if(|(start, char)| start + char.len_utf8() <= at) {
            (line, column) = if char == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        Diagnostic { place: Place::Text { file: file.to_owned(), line, column }, what }
    };
    faults.into_iter().map(place).collect()
}

/// A user's own words within a message: in quotes, escaped, and not too long.
pub(crate) fn quoted(words: &str) -> String {
    const SHOWN: usize = 60;
    match words.char_indices().nth(SHOWN) {
        None => format!("{words:?}"),
        Some((end, _)) => format!("{:?}...", &words[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let text = "{\n  \"ä\": 1\n}";
        let at = |offset| {
            let found = locate("f", text, vec![Fault::new(offset, "x")]).remove(0);
            let Place::Text { line, column, .. } = found.place else { panic!("{found}") };
            (line, column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(text.find('1').unwrap()), (2, 8));
        assert_eq!(at(text.find('ä').unwrap() + 1), (2, 4), "within a character is its beginning");
        assert_eq!(at(9_999), (3, 2));
    }

    #[test]
    fn several_faults_come_in_the_order_of_their_places() {
        let faults = vec![Fault::new(2, "late"), Fault::new(0, "early"), Fault::new(2, "too")];
        let shown: Vec<_> = locate("-", "a\nb", faults).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["-:1:1: early", "-:2:1: late", "-:2:1: too"]);
    }

    #[test]
    fn long_words_are_cut_and_odd_ones_escaped() {
        assert_eq!(quoted("a\n"), r#""a\n""#);
        assert_eq!(quoted(&"x".repeat(100)).len(), 65);
    }
}
