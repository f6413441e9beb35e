//! Users' names in texts.

use runyard_engine::attr::{Cookie, GroupId};
use runyard_engine::task::TaskId;

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

/// The names of what a run has. A function from tasks to names implements it, with numbers for task groups and cookies.
pub trait Names {
    /// The name of a task.
    fn task(&self, task: TaskId) -> String;

    /// The path of a task group.
    fn group(&self, group: GroupId) -> String {
        group.0.to_string()
    }

    /// The name of a cookie.
    fn cookie(&self, cookie: Cookie) -> String {
        cookie.get().to_string()
    }
}

impl<F: Fn(TaskId) -> String> Names for F {
    fn task(&self, task: TaskId) -> String {
        self(task)
    }
}
