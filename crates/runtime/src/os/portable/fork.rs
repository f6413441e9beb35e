//! Children of fork are not known here: a child must exec or exit.

/// Returns whether this process is known to be a child.
pub(crate) fn is_child() -> bool {
    false
}

/// Notes that a runtime is about to start threads. Returns whether it may.
pub(crate) fn begin() -> bool {
    true
}

/// Notes that the threads of a runtime have ended.
pub(crate) fn end() {}

/// Panics in a child.
pub(crate) fn refuse_in_child(_: &str) {}

/// Ends the process if it is a child.
pub(crate) fn end_child() {}
