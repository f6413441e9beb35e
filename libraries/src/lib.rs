//! Tests and examples of other people's libraries on tasks of the runtime. They are in the folders beside this file's.

/// Compiles and runs the programs of the guide as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/from-tokio.md")]
struct Guide;
