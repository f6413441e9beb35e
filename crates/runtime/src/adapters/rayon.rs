//! Pools of rayon's whose threads are tasks.
//!
//! rayon lets its user start the threads of a pool. Here each of them is a task with one long poll, like a function of
//! `spawn_blocking`. A thread without work waits in the kernel, and [loses its CPU](crate::blocking) to other tasks
//! like any poll that waits there.
//!
//! Rejected: a section of `blocking` around the thread. A job could compute for a millisecond, regardless of every
//! policy, before the runtime detects it. Also rejected: a separate implementation of a pool, because libraries that
//! compute in parallel use rayon's pools. Also rejected: rayon's global pool as tasks. It never ends, so no runtime
//! below it could end.
//!
//! Invariant: every thread of a pool runs. rayon waits for ever for a thread that does not start.

use crate::current::runtime::current;
use crate::os::sync::Arc;
use crate::shared::Shared;
use crate::task::builder::TaskBuilder;
use rayon_core::{ThreadBuilder, ThreadPoolBuilder};
use std::io;
use std::thread;

pub use rayon_core::{ThreadPool, ThreadPoolBuildError};

/// Default name of the tasks of a pool.
const NAME: &str = "rayon";

/// Builds a pool of rayon's. Each of its threads is a task of the runtime of the calling code.
///
/// The tasks have the attributes of `task`, and inherit the others from the calling task ([`TaskBuilder`]). The name of
/// each ends with its number in the pool: `tiles-0`, `tiles-1`, or by default `rayon-0`. So more important tasks
/// preempt the work of the pool, it shares the CPUs by its nice value, and the limit of its task group holds. A task of
/// the pool without work gives its CPU to other tasks.
///
/// `threads` is the number of threads. With 0 rayon decides: the number of CPUs of the process, or the value of
/// `RAYON_NUM_THREADS`. Their stacks are as large as those of [all tasks](crate::Builder::stack_size).
///
/// [`ThreadPool::install`] waits on the calling thread until the work is done. A task should call it within
/// [`blocking`](crate::blocking). Or it gives the work to [`ThreadPool::spawn`] and awaits a channel.
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
/// When the pool is dropped, its tasks finish the work that they were given, and end. The drop does not wait for that.
///
/// A runtime that ends waits for these tasks, as for any poll. So the pool must be dropped before, or by a task of that
/// runtime. [`Runtime::shutdown_timeout`](crate::Runtime::shutdown_timeout) and
/// [`Runtime::shutdown_background`](crate::Runtime::shutdown_background) leave the tasks behind. The pool still does
/// its work then, until it is dropped. A task of the pool that had not begun when the runtime ended is replaced by a
/// plain thread.
///
/// # Errors
/// If the runtime has ended, or does not accept such tasks; [`SpawnError`](crate::SpawnError) has the reason.
///
/// # Panics
/// If the calling code belongs to no runtime.
///
/// A panic of a job goes where rayon sends it: to the caller of `install`, `join` or `scope`. A job of
/// [`ThreadPool::spawn`] has no caller, and its panic ends the process.
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
        // The pool does not exist yet, so the task cannot have finished its work.
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
    /// The task was cancelled before it began, because its runtime ends. A caller may nevertheless wait for the pool.
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let started = thread::Builder::new().name(NAME.to_owned()).spawn(move || thread.run());
            if let Err(error) = started {
                eprintln!("runyard: the system refuses a thread for a pool of rayon's ({error})");
            }
        }
    }
}
