//! What tokio's documentation promises of joining, aborting, shutting down, timers and locks holds on both
//! runtimes.
//!
//! Each file of `promises` is compiled twice, with `rt` as either runtime. A test that fails on tokio is no
//! promise; one that fails on this runtime alone is a difference, and belongs into the table of
//! docs/design/api.md. Times are compared as instants that the runtimes return or that were read before and
//! after, never as spans that a busy machine lengthens.

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

/// Polls a future once. What came of it, if it is over.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}
