//! `cargo xtask book`: the pages of `docs` as a book, in `target/book`.
//!
//! A test builds the book, since only tests are built with mdBook: other commands of this program need not wait for it.

use crate::workspace::{self, Outcome, cargo, root};

/// The first page of the book.
const FIRST: &str = "target/book/index.html";

/// Builds the book and checks its links.
pub fn run() -> Outcome {
    workspace::run(cargo().args(["test", "--package", "xtask", "--test", "book"]))?;
    println!("{}", root().join(FIRST).display());
    Ok(())
}
