//! The sections of a task: code that blocks, code in which the task is not stopped, and code that wakes others at once.

use crate::current::{turn, worker};
use crate::os;
use crate::os::here;
use crate::worker::Worker;

/// Runs a function that is about to block, in a task. The CPU goes to other tasks at once, and the runtime sends no
/// signal that could interrupt the function's wait.
///
/// Without this call the runtime detects after one to two milliseconds that the thread blocks. Waits that the kernel
/// does not restart after a signal (`nanosleep`, `poll`, `epoll_wait`, any with a timeout) may then end early with
/// `EINTR`.
///
/// If the function computes instead, it is stopped after about a millisecond of CPU time. It then waits for its turn
/// and goes on like any task: by its policy, and within the limit of its group. If it waits after that, it may be
/// interrupted up to three times before the runtime stops sending signals to it. In addition, a signal that was on its
/// way when the function began may interrupt any wait once.
///
/// ```
/// use runyard::{Runtime, blocking, spawn};
///
/// let status = Runtime::new().block_on(async {
///     spawn(async { blocking(|| std::process::Command::new("true").status()) }).await.unwrap()
/// });
/// assert!(status.unwrap().success());
/// ```
pub fn blocking<R>(function: impl FnOnce() -> R) -> R {
    worker::section(|| turn::without(function), Worker::blocking)
}

/// Runs a section in which the task is not stopped, such as a few microseconds under a lock on which other tasks spin
/// or block. A task that is due on this CPU meanwhile gets it at the end of the section. Sections must be short: until
/// then no other task runs on this CPU, however important it is.
///
/// ```
/// use runyard::{Runtime, spawn, without_preemption};
/// use std::sync::Mutex;
///
/// static COUNT: Mutex<u32> = Mutex::new(0);
/// Runtime::new().block_on(async {
///     spawn(async { without_preemption(|| *COUNT.lock().unwrap() += 1) }).await.unwrap();
/// });
/// assert_eq!(*COUNT.lock().unwrap(), 1);
/// ```
#[inline]
pub fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    os::above::without_preemption(|| here::without_preemption(section))
}

/// Runs `wakes` so that the tasks that it wakes start now: each goes to an idle CPU, or preempts the running task. This
/// is for a task that runs on for long afterwards without an await.
///
/// Without this call, a fair task that another task wakes waits for the end of the waker's poll, if that comes within
/// 200 us. This saves most wake-ups a signal and a switch.
///
/// ```
/// use runyard::{Runtime, spawn, wake_at_once};
///
/// Runtime::new().block_on(async {
///     let waits = spawn(std::future::pending::<()>());
///     spawn(async move { wake_at_once(|| waits.abort()) }).await.unwrap();
/// });
/// ```
pub fn wake_at_once<R>(wakes: impl FnOnce() -> R) -> R {
    worker::section(|| here::outside_of_poll(wakes), |worker, wakes| worker.poll.outside(wakes))
}
