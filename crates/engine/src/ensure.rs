//! An assertion that fails with a picture of the run queue.

/// Asserts that something holds, and else panics with what should, and the picture.
macro_rules! ensure {
    ($picture:expr, $holds:expr, $($what:tt)+) => {
        assert!($holds, "{}\n{}", format_args!($($what)+), $picture)
    };
}

pub(crate) use ensure;
