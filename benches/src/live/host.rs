//! The interface of a runtime to workloads, so that the same source runs on each and only the scheduler differs.
//! Channels and counters are the same on both sides: those of std, or those of `tokio::sync`, which work on any
//! runtime.

use runyard::experiments::{Experiments, Features};
use runyard_engine::features::Switched;
use std::fmt::Debug;
use std::future::Future;
use std::ops::DerefMut;
use std::sync::OnceLock;
use std::time::Duration;

/// A runtime. Its threads end when it is dropped.
pub(crate) trait Host: Sized + 'static {
    /// The reason for which a task has no result.
    type Error: Debug;
    /// A future of a task's result. Dropping it detaches the task.
    type Join<T: Send + 'static>: Future<Output = Result<T, Self::Error>> + Send;

    /// Starts a runtime with this number of workers.
    fn start(workers: usize) -> Self;

    /// Spawns a task from a thread that is not a worker.
    fn spawn_from_outside<F>(&self, future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static;

    /// Runs a future on the calling thread until it is ready.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Spawns a task from within a task, or within [`Host::block_on`].
    fn spawn<F>(future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static;

    /// A handle of the runtime, which a task may have.
    type Handle: Send + 'static;

    /// Returns a handle of the runtime.
    fn handle(&self) -> Self::Handle;

    /// Spawns a task by a handle.
    fn spawn_by<F>(handle: &Self::Handle, future: F) -> Self::Join<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static;

    /// Yields to other tasks.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// A future that waits for a span of time.
    type Sleep: Future<Output = ()> + Send;

    /// Waits for `span`.
    fn sleep(span: Duration) -> Self::Sleep;

    /// The runtime's own mutex.
    type Mutex: Default + Send + Sync + 'static;

    /// Locks the mutex.
    fn lock(
        mutex: &Self::Mutex,
    ) -> impl Future<Output = impl DerefMut<Target = usize> + Send> + Send;
}

/// The runtime of this project.
#[derive(Debug)]
pub(crate) struct Runyard(pub(crate) runyard::Runtime);

/// tokio, the runtime that most Rust programs use. Its I/O driver is not compiled in, so its workers park on a futex,
/// as ours do, and not in epoll.
#[derive(Debug)]
pub(crate) struct Tokio(pub(crate) tokio::runtime::Runtime);

/// Implements [`Host`] for a runtime. Both runtimes use the same names; they differ in their builders and module paths.
macro_rules! host {
    ($host:ident, $build:ident, $handle:ty, $tasks:path, $time:path, $sync:path) => {
        const _: () = {
            use $sync as sync;
            use $tasks as tasks;
            use $time as time;

            impl Host for $host {
                type Error = tasks::JoinError;
                type Join<T: Send + 'static> = tasks::JoinHandle<T>;

                fn start(workers: usize) -> $host {
                    $host($build(workers))
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
                    tasks::spawn(future)
                }

                type Handle = $handle;

                fn handle(&self) -> $handle {
                    self.0.handle().clone()
                }

                fn spawn_by<F>(handle: &$handle, future: F) -> Self::Join<F::Output>
                where
                    F: Future<Output: Send + 'static> + Send + 'static,
                {
                    handle.spawn(future)
                }

                fn yield_now() -> impl Future<Output = ()> + Send {
                    tasks::yield_now()
                }

                type Sleep = time::Sleep;

                fn sleep(span: Duration) -> time::Sleep {
                    time::sleep(span)
                }

                type Mutex = sync::Mutex<usize>;

                async fn lock(mutex: &Self::Mutex) -> impl DerefMut<Target = usize> + Send {
                    mutex.lock().await
                }
            }
        };
    };
}
host!(Runyard, build_runyard, runyard::Handle, runyard, runyard::time, runyard::sync);
host!(Tokio, build_tokio, tokio::runtime::Handle, tokio::task, tokio::time, tokio::sync);

/// The switched features of the runtime in this process.
static SWITCHED: OnceLock<Vec<Switched>> = OnceLock::new();

/// Sets the features that the runtime has in this process, in place of its defaults.
///
/// # Panics
///
/// Panics if features were set before.
pub fn switch_features(switched: Vec<Switched>) {
    SWITCHED.set(switched).expect("it is said once");
}

static WORKERS: OnceLock<usize> = OnceLock::new();

/// Sets the number of workers of each runtime in this process, in place of two.
///
/// # Panics
///
/// Panics if it was set before.
pub fn set_workers(workers: usize) {
    WORKERS.set(workers).expect("it is said once");
}

/// Returns the number of workers of each runtime, and of the CPUs that the workloads are made for.
pub(crate) fn workers() -> usize {
    WORKERS.get().copied().unwrap_or(2)
}

/// Returns the features of runtimes in this process, except where a workload is about one of them.
pub(crate) fn features() -> Features {
    let mut features = Features::of_runtime();
    SWITCHED.get().into_iter().flatten().for_each(|&switched| features.set(switched));
    features
}

/// Returns a builder with the features of this process. Every workload that starts a runtime uses it.
pub(crate) fn builder(workers: usize) -> runyard::Builder {
    runyard::Runtime::builder().workers(workers).features(features())
}

fn build_runyard(workers: usize) -> runyard::Runtime {
    builder(workers).build()
}

fn build_tokio(workers: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(workers).enable_all().build();
    runtime.expect("threads can be made")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_workload_starts_the_runtime_with_the_features_of_the_process() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/live");
        for file in fs::read_dir(folder).expect("the sources are here") {
            let path = file.expect("a source can be read").path();
            let text = fs::read_to_string(&path).expect("a source can be read");
            let starts = ["Runtime::builder()", "Runtime::new()"].map(|it| text.contains(it));
            assert!(starts == [false; 2] || path.ends_with("host.rs"), "{path:?}: use `builder`");
        }
    }
}
