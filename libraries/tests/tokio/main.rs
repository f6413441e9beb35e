//! Tasks use code that needs a tokio runtime: tokio's timers, sockets and files, and libraries that use them.
//!
//! Behaviour that does not depend on the driver is tested with each driver.

#[path = "../../../crates/runtime/tests/trust/child.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod child;
#[path = "../../../crates/runtime/tests/common/mod.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;

mod drivers;
mod foreign;
mod own;
mod workers;

use runyard::{Builder, Runtime};
use tokio::runtime;

#[global_allocator]
static ALLOCATOR: runyard::trial::Strict = runyard::trial::Strict;

/// Returns a tokio runtime that drives on a thread of its own.
fn a_tokio_runtime() -> runtime::Runtime {
    runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Calls `test` with the builder of a runtime with workers, once for each kind of driver.
fn with_each_driver(test: impl Fn(Builder)) {
    let tokio = a_tokio_runtime();
    test(Runtime::builder().tokio(tokio.handle().clone()));
    test(Runtime::builder().enable_tokio());
}

/// Calls `test` as [`with_each_driver`], and then with builders of runtimes on the calling thread.
fn with_each_runtime(test: impl Fn(Builder)) {
    with_each_driver(&test);
    let tokio = a_tokio_runtime();
    test(Builder::new_current_thread().tokio(tokio.handle().clone()));
    test(Builder::new_current_thread().enable_tokio());
}
