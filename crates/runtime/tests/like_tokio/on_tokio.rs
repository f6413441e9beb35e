//! The guarantees, on tokio.

/// The items that the files of `promises` use.
mod rt {
    pub(super) use tokio::runtime::{Handle, Runtime};
    pub(super) use tokio::task::{JoinHandle, JoinSet, spawn_blocking, yield_now};
    pub(super) use tokio::{spawn, sync, test, time};

    pub(super) fn runtime(workers: usize) -> Runtime {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(workers).enable_time().build().unwrap()
    }
}

#[path = "promises/join.rs"]
mod join;
#[path = "promises/runtime.rs"]
mod runtime;
#[path = "promises/set.rs"]
mod set;
#[path = "promises/shop.rs"]
mod shop;
#[path = "promises/sync.rs"]
mod sync;
#[path = "promises/time.rs"]
mod time;
