//! Disturbances of the runtime for tests. No part of the interface.

pub(crate) mod siege;

pub use crate::os::disturb::*;
pub use crate::os::trial::{OneLock, Strict, is_in_own_code};
