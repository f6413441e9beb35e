//! An assertion that fails with a picture of the run queue.

/// Asserts a condition; if it does not hold, panics with the message and the picture.
macro_rules! ensure {
    ($picture:expr, $holds:expr, $($what:tt)+) => {
        assert!($holds, "{}\n{}", format_args!($($what)+), $picture)
    };
}

pub(crate) use ensure;
