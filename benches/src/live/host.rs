//! What a workload asks of a runtime, so that one text of it runs on each: only the scheduler
//! differs. Channels and counters are the same on both sides, std's or those of `tokio::sync`,
//! which work on any runtime.

use std::fmt::Debug;
use std::future::Future;
use std::ops::DerefMut;
use std::time::Duration;

/// A runtime. Its threads end when it is dropped.
pub(crate) trait Host: Sized + 'static {
    /// Why a task has no result.
    type Error: Debug;
    /// Waits for a task's result. Dropping it lets the task go on.
    type Join<T: Send + 'static>: Future<Output = Result<T, Self::Error>> + Send;

    /// A runtime with so many workers.
    fn start(workers: usize) -> Self;

    /// Starts a task from a thread that is no worker.
    fn spawn_from_outside<F>(&self, future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static;

    /// Runs a future on the calling thread until it is ready.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Starts a task from within a task, or within [`Host::block_on`].
    fn spawn<F>(future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static;

    /// Lets others run.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// Waits for time to pass.
    type Sleep: Future<Output = ()> + Send;

    /// Waits for `span`.
    fn sleep(span: Duration) -> Self::Sleep;

    /// A mutual exclusion of the runtime's own.
    type Mutex: Default + Send + Sync + 'static;

    /// Waits for the caller's turn to have what it guards.
    fn lock(
        mutex: &Self::Mutex,
    ) -> impl Future<Output = impl DerefMut<Target = usize> + Send> + Send;
}

/// This project.
#[derive(Debug)]
pub(crate) struct Runyard(pub(crate) runyard::Runtime);

impl Host for Runyard {
    type Error = runyard::JoinError;
    type Join<T: Send + 'static> = runyard::JoinHandle<T>;

    fn start(workers: usize) -> Runyard {
        Runyard(runyard::Runtime::builder().workers(workers).build())
    }

    fn spawn_from_outside<F>(&self, future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.0.spawn(future)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn<F>(future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        runyard::spawn(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        runyard::yield_now()
    }

    type Sleep = runyard::time::Sleep;

    fn sleep(span: Duration) -> runyard::time::Sleep {
        runyard::time::sleep(span)
    }

    type Mutex = runyard::sync::Mutex<usize>;

    async fn lock(mutex: &Self::Mutex) -> impl DerefMut<Target = usize> + Send {
        mutex.lock().await
    }
}

/// The runtime that most Rust programs use. Its I/O driver is not compiled in, so that its workers
/// park on a futex, as ours do, not in epoll.
#[derive(Debug)]
pub(crate) struct Tokio(pub(crate) tokio::runtime::Runtime);

impl Host for Tokio {
    type Error = tokio::task::JoinError;
    type Join<T: Send + 'static> = tokio::task::JoinHandle<T>;

    fn start(workers: usize) -> Tokio {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(workers).enable_all().build();
        Tokio(runtime.expect("threads can be made"))
    }

    fn spawn_from_outside<F>(&self, future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.0.spawn(future)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn<F>(future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        tokio::spawn(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    type Sleep = tokio::time::Sleep;

    fn sleep(span: Duration) -> tokio::time::Sleep {
        tokio::time::sleep(span)
    }

    type Mutex = tokio::sync::Mutex<usize>;

    async fn lock(mutex: &Self::Mutex) -> impl DerefMut<Target = usize> + Send {
        mutex.lock().await
    }
}
