//! No barrier for other threads exists here.

pub(crate) fn prepare() {}

pub(crate) fn is_there() -> bool {
    false
}

pub(crate) fn pass() {}
