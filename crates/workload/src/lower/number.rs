//! The sizes of numbers: the language's integers, and counts of things in the text.

/// The largest integer: rt-app keeps its numbers in a C `int`.
pub(super) const MAX_INT: u32 = i32::MAX.unsigned_abs();

/// Converts a count of things in the text to 32 bits.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).expect("the text has at most 500 MB, and each thing takes a byte of it")
}
