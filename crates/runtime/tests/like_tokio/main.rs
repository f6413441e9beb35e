//! Guarantees of tokio's documentation on joining, aborting, shutting down, timers and locks, checked on both runtimes.
//!
//! Each file of `promises` is compiled twice, with `rt` as either runtime. A test that fails on tokio is not a
//! guarantee. A test that fails only on this runtime is a difference, and belongs in the table of docs/design/api.md.
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
