//! Errors and warnings about a scenario, with their places.
//!
//! The reading code records places as byte offsets ([`Fault`]), which are cheap to carry. Users need lines and columns
//! ([`Diagnostic`]). [`locate`] converts any number of faults in one pass over the text.

use std::fmt;

/// An error or a warning about a scenario. Displays as its place and its message, with a colon between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The place.
    pub place: Place,
    /// The message.
    pub what: String,
}

/// The place of a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A place in the text. Displays as `FILE:LINE:COLUMN`.
    Text {
        /// The file, as the user named it.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
    },
    /// A packet of a trace of Perfetto. Displays as `FILE: packet NUMBER`.
    Packet {
        /// The file, as the user named it.
        file: String,
        /// The number of the packet, counted from 1.
        packet: u32,
    },
    /// A setting, which displays as an option of the command, `--set PATH=VALUE`.
    Setting(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Text { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Place::Packet { file, packet } => write!(f, "{file}: packet {packet}"),
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

/// An error at a byte offset of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl Fault {
    /// The place of an error about the text as a whole: its beginning.
    pub(crate) const NOWHERE: usize = 0;

    pub(crate) fn new(at: usize, what: impl Into<String>) -> Fault {
        Fault { at, what: what.into() }
    }
}

/// Returns the diagnostics of the faults in the order of their places. A place inside a character moves back to the
/// character's beginning, and a place beyond the text to its end.
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

/// Returns a user's words for a message: in quotes, escaped, and cut if they are long.
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
