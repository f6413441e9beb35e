//! The guarantees, on this runtime.

/// The items that the files of `promises` use.
mod rt {
    pub(super) use runyard::{
        Handle, JoinHandle, JoinSet, Runtime, spawn, spawn_blocking, sync, test, time, yield_now,
    };

    pub(super) fn runtime(workers: usize) -> Runtime {
        Runtime::builder().workers(workers).build()
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
