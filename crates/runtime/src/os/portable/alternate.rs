//! A stack for the signal handler. There is no handler here.

/// No stack.
#[derive(Debug)]
pub(crate) struct AlternateStack;

impl AlternateStack {
    pub(crate) fn new() -> Option<AlternateStack> {
        Some(AlternateStack)
    }
}
