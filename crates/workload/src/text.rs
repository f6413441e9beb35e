//! The text of a scenario: its limits, and its one value.

use crate::diagnostic::{Diagnostic, Fault, locate};
use crate::json::{self, Node};
use crate::shape;

/// The longest text of a scenario, in bytes. An import makes up to 400 MB of a gigabyte of recorded text.
pub const MAX_TEXT: usize = 500_000_000;

/// The error that a text is longer than [`MAX_TEXT`].
pub const TOO_LONG: &str = "larger than 500 MB";

/// Refuses a text of which the counts might not fit into 32 bits.
pub(crate) fn within_limits(text: &str) -> Result<(), Fault> {
    match text.len() <= MAX_TEXT {
        true => Ok(()),
        false => Err(Fault::new(Fault::NOWHERE, TOO_LONG)),
    }
}

/// Returns the one value of a text, and the text without a byte order mark, which no editor counts as a column.
pub(crate) fn read<'t>(file: &str, text: &'t str) -> Result<(&'t str, Node<'t>), Diagnostic> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = within_limits(text).and_then(|()| json::document(text, shape::needs_no_value));
    Ok((text, root.map_err(|fault| locate(file, text, vec![fault]).remove(0))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, parse};

    #[test]
    fn a_text_may_be_as_long_as_that() {
        let said = |text: &str| parse("-", text, &Overrides::default()).unwrap_err().to_string();
        let long = " ".repeat(MAX_TEXT + 1);
        assert_eq!(said(&long), "-:1:1: larger than 500 MB");
        assert_eq!(said(&long[1..]), "-:1:1: the file is empty");
    }
}
