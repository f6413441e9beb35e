//! There is no barrier that others are made to pass.

pub(crate) fn prepare() {}

pub(crate) fn is_there() -> bool {
    false
}

pub(crate) fn pass() {}
