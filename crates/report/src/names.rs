//! Users' names in texts.

/// The characters of a name that are shown.
const NAME_WIDTH: usize = 20;

/// A name for a column.
pub(crate) fn shortened(name: &str) -> String {
    let name = printable(name);
    match name.char_indices().nth(NAME_WIDTH) {
        None => name,
        Some(_) => name.chars().take(NAME_WIDTH - 3).chain("...".chars()).collect(),
    }
}

/// A user's text without characters that move the cursor or change the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}
