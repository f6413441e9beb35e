//! Pools of rayon's of which each thread is a task.
//!
//! rayon lets its user start the threads of a pool. Here each of them is a task with one long poll, as a function of
//! `spawn_blocking` is. A thread without work waits in the kernel, and [loses its CPU](crate::blocking) to others like any
//! poll that waits there.
//!
//! Rejected: a section of `blocking` around the thread. A job could compute for a millisecond past every policy before the
//! runtime looks at it. A pool of our own: the libraries that compute in parallel use rayon's. rayon's global pool as tasks:
//! nothing ever ends it, so no runtime below it could end.
//!
//! Invariant: every thread of a pool runs. rayon waits for ever for one that was promised and never comes.

use crate::os::sync::Arc;
use crate::runtime::current;
use crate::shared::Shared;
use crate::task::builder::TaskBuilder;
use rayon_core::{ThreadBuilder, ThreadPoolBuilder};
use std::io;
use std::thread;

pub use rayon_core::{ThreadPool, ThreadPoolBuildError};

/// The name of the tasks of a pool if none is given.
const NAME: &str = "rayon";

/// A pool of rayon's of which each thread is a task of the runtime of the calling code.
///
/// The tasks have the attributes that `task` says, and inherit the others from the calling task ([`TaskBuilder`]). The name
/// of each ends with its number in the pool: `tiles-0`, `tiles-1`, or `rayon-0` if nothing is said. So what the pool computes is
/// preempted by tasks that are more important, shares the CPUs by its nice value, and is held to the limit of its task group. A
/// task of the pool that has no work gives its CPU to others.
///
/// `threads` is how many there are. With 0 rayon decides: as many as the process has CPUs, or what `RAYON_NUM_THREADS` says.
/// Their stacks are as large as those of [all tasks](crate::Builder::stack_size).
///
/// [`ThreadPool::install`] waits on the calling thread until the work is done. A task that calls it says so by
/// [`blocking`](crate::blocking), or gives the work to [`ThreadPool::spawn`] and awaits a channel.
///
/// ```
/// use rayon::prelude::*;
/// use runyard::{Runtime, Task, blocking, spawn};
///
/// let sum = Runtime::new().block_on(async {
///     let pool = runyard::rayon::pool(2, Task::builder().nice(19).name("sums")).unwrap();
///     let sum = move || pool.install(|| (1..=1_000_u64).into_par_iter().sum::<u64>());
///     spawn(async { blocking(sum) }).await.unwrap()
/// });
/// assert_eq!(sum, 500_500);
/// ```
///
/// # The end
/// When the pool is dropped, its tasks do the work that they were given, and end. Nobody waits for that.
///
/// A runtime that ends waits for them, as for any poll, so the pool is to be dropped before, or by a task of that
/// runtime. [`Runtime::shutdown_timeout`](crate::Runtime::shutdown_timeout) and
/// [`Runtime::shutdown_background`](crate::Runtime::shutdown_background) leave them behind. Until it is dropped the pool does what it
/// is given also then. A task of the pool that had not begun when the runtime ended is a plain thread in its stead.
///
/// # Errors
/// If the runtime has ended, or takes no such tasks: why is in [`SpawnError`](crate::SpawnError).
///
/// # Panics
/// If the calling code belongs to no runtime.
///
/// A panic of a job goes where rayon sends it: to the caller of `install`, `join` or `scope`. There is no caller of a job of
/// [`ThreadPool::spawn`], and its panic ends the process.
#[track_caller]
pub fn pool(threads: usize, task: TaskBuilder) -> Result<ThreadPool, ThreadPoolBuildError> {
    let shared = current();
    let start = move |thread| Thread(Some(thread)).start(task.clone(), &shared);
    ThreadPoolBuilder::new().num_threads(threads).spawn_handler(start).build()
}

/// A thread of a pool that has not begun.
struct Thread(Option<ThreadBuilder>);

impl Thread {
    fn start(mut self, task: TaskBuilder, shared: &Arc<Shared>) -> io::Result<()> {
        let nth = self.0.as_ref().map_or(0, ThreadBuilder::index);
        let (task, future) = task.numbered(NAME, nth).for_function(move || self.run());
        let task = task.try_spawn_in(shared, future).map_err(io::Error::other)?;
        // The pool is not there yet, so the task cannot have come to its end.
        if task.is_finished() {
            return Err(io::Error::other("the runtime has ended"));
        }
        Ok(())
    }

    /// Works until the pool is dropped.
    fn run(&mut self) {
        if let Some(thread) = self.0.take() {
            thread.run();
        }
    }
}

impl Drop for Thread {
    /// The task was cancelled before it began: its runtime ends. Somebody may wait for the pool all the same.
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let started = thread::Builder::new().name(NAME.to_owned()).spawn(move || thread.run());
            if let Err(error) = started {
                eprintln!("runyard: the system starts no thread for a pool of rayon's ({error})");
            }
        }
    }
}
