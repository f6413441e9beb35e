//! The means by which tests disturb the runtime. No part of the interface.

pub(crate) mod siege;

pub use crate::os::disturb::*;
pub use crate::os::trial::{OneLock, Strict, is_in_own_code};
