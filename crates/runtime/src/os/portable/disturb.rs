//! Disturbances for tests, which have no effect here.

/// Sends no signal: there are none.
pub fn ring(_thread: i32, _signal: i32) {}
