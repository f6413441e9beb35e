//! Other people's libraries on tasks of the runtime: the tests and examples beside this file.

/// The programs of the guide compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/from-tokio.md")]
struct Guide;
