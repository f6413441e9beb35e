//! tokio's driver, which wakes tasks that wait for tokio's timers and sockets, and how threads of the runtime find it.
//!
//! A library of tokio's looks for a *handle* of a tokio runtime in the calling thread. Each thread that runs tasks enters
//! the handle once, before its first hook, and keeps it until the thread ends. `block_on` enters the handle for as long as
//! `block_on` runs.
//!
//! The guard of a thread's entry is forgotten. A guard that is dropped checks that it is the newest of its thread, and
//! panics otherwise. Code in a task may forget a guard of its own, and the end of a worker must not panic for that. What
//! the guard would restore is empty, and tokio's thread local drops the handle as the thread ends.
//!
//! Rejected: to enter in each poll. A poll of the only task takes 60 ns, and an entry 20. To enter in
//! [`Handle::enter`](crate::Handle::enter): its guards may be dropped in any order, and tokio's may not.
//!
//! Invariants: a thread enters before foreign code runs on it; nothing here is called in the signal handler.

use crate::primitives::Arc;
use crate::runtime::Builder;
use crate::shared::Shared;
use std::mem;
use tokio::runtime::{EnterGuard, Handle};

/// Which driver is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Asked {
    #[default]
    None,
    /// That of another runtime, which somebody else drives.
    Foreign(Handle),
}

/// The driver of a runtime, if there is one.
#[derive(Debug)]
pub(crate) enum Driver {
    None,
    Foreign(Handle),
}

impl Driver {
    pub(crate) fn new(asked: Asked) -> Driver {
        match asked {
            Asked::None => Driver::None,
            Asked::Foreign(handle) => Driver::Foreign(handle),
        }
    }

    fn handle(&self) -> Option<&Handle> {
        match self {
            Driver::None => None,
            Driver::Foreign(handle) => Some(handle),
        }
    }

    /// The calling thread, which runs tasks, belongs to the driver until the thread ends.
    pub(crate) fn enter_for_life(&self) {
        mem::forget(self.enter());
    }

    /// The calling thread belongs to the driver until the guard is dropped.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.handle().map(Handle::enter)
    }
}

impl Builder {
    /// Tasks may use what needs a tokio runtime: `tokio::time`, `tokio::net`, `tokio::fs`, and libraries on these, without
    /// a wrapper around their futures. The tokio runtime with this handle drives their timers and sockets, on its own
    /// threads. The tasks stay tasks of this runtime: their policies, groups and limits hold, and they are preempted.
    ///
    /// The handle is entered on each thread that runs tasks, hooks included, and in `block_on`. It is not entered by
    /// [`Handle::enter`](crate::Handle::enter).
    ///
    /// What calls `tokio::spawn` or `tokio::task::spawn_blocking`, as some libraries do, runs on the threads of the tokio
    /// runtime. No policy, group or limit of this runtime holds there, and nothing says that it happens.
    ///
    /// The tokio runtime should outlive this one. After its end its timers panic in the tasks that poll them, and its
    /// sockets return errors. A tokio runtime of the flavor `current_thread` drives only while some thread is in its
    /// `block_on`.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    /// use std::time::Duration;
    ///
    /// let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    /// let runtime = Runtime::builder().tokio(tokio.handle().clone()).build();
    /// runtime.block_on(async {
    ///     let sleeps = async { tokio::time::sleep(Duration::from_millis(1)).await };
    ///     spawn(sleeps).await.unwrap();
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn tokio(mut self, handle: Handle) -> Builder {
        self.driver = Asked::Foreign(handle);
        self
    }
}

impl crate::Handle {
    /// The tokio runtime that drives timers and sockets for the tasks of this runtime, if there is one
    /// ([`Builder::tokio`]).
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).build();
    /// assert!(runtime.handle().tokio().is_none());
    /// ```
    #[must_use]
    pub fn tokio(&self) -> Option<&Handle> {
        let shared: &Arc<Shared> = &self.shared;
        shared.driver.handle()
    }
}
