//! Addresses without their functions: no address is looked up here.

use std::fmt;

/// Writes only the address.
pub(crate) fn describe(nth: usize, address: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{nth:4}: {address:#x}")
}
