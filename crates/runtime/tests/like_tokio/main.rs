//! Guarantees of tokio's documentation on joining, aborting, shutting down, timers and locks, checked on both runtimes.
//!
//! Each file of `promises` is compiled twice, with `rt` as either runtime. A test that fails on tokio is not a
//! guarantee. A test that fails only on this runtime is a difference, and belongs in the table of docs/design/api.md.
//! One file is a program of many parts. So only the two modules `rt` differ between a program on tokio and one on
//! Runyard.
//!
//! Times are compared as instants that the runtimes return or that were read before and after. Spans are not compared,
//! because a busy machine lengthens them.

#![expect(clippy::duplicate_mod, reason = "one text for two runtimes")]

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;
mod on_runyard;
mod on_tokio;

use common::{Flag, ends, ms, until};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

const HOUR: Duration = Duration::from_secs(3_600);

/// Polls a future once. Returns its output, if it is ready.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Each name that is another one on tokio has a row in the guide for programs that change over.
#[test]
fn the_guide_lists_each_name_that_differs() {
    const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/from-tokio.md");
    let guide = std::fs::read_to_string(GUIDE).unwrap();
    let rows = guide.lines().filter(|line| line.starts_with("| `"));
    let listed: Vec<_> = rows.flat_map(|row| words(row.split(" | ").next().unwrap())).collect();
    let imports = include_str!("on_tokio.rs").lines().filter(|line| line.contains(" use tokio::"));
    let mut names = 0;
    for name in imports.flat_map(|line| words(line.split_once(" use ").unwrap().1)) {
        assert!(listed.contains(&name), "the guide has no row for {name}");
        names += 1;
    }
    assert!(names > 10, "{names}");
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
