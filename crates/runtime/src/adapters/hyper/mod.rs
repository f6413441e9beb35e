//! hyper on this runtime: its tasks and timers, and [a server](crate::serve()) for any tower service.
//!
//! hyper is independent of any runtime. Its user passes an executor, which starts tasks, and a timer.
//!
//! ```
//! use hyper_util::server::conn::auto;
//! use runyard::hyper::{Executor, Timer};
//!
//! let mut server = auto::Builder::new(Executor::new());
//! server.http1().timer(Timer).http2().timer(Timer);
//! ```

mod serve;
mod timeouts;

pub use serve::{Listener, Serve, serve};

use crate::runtime::handle::Handle;
use crate::task::builder::TaskBuilder;
use crate::time::{self, Sleep};
use ::hyper::rt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// An executor that starts each future of hyper's as a task of this runtime: the streams of an HTTP/2 connection, or
/// the connections of a client's pool.
///
/// Such a task belongs to the runtime of the calling code, and inherits each attribute that is not set from the calling
/// task ([`TaskBuilder`]).
///
/// ```
/// use hyper::rt::Executor as _;
/// use runyard::hyper::Executor;
/// use runyard::{Policy, Runtime, Task};
/// use std::sync::mpsc::channel;
///
/// let (send, receive) = channel();
/// let runtime = Runtime::new();
/// let executor = Executor::new().task(Task::builder().policy(Policy::Idle)).on(runtime.handle());
/// executor.execute(async move { send.send(Task::current().policy()).unwrap() });
/// assert_eq!(receive.recv().unwrap(), Policy::Idle);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Executor {
    task: TaskBuilder,
    handle: Option<Handle>,
}

impl Executor {
    /// Makes an executor on the runtime of the code that uses it.
    ///
    /// ```
    /// let executor = runyard::hyper::Executor::new();
    /// # drop(executor);
    /// ```
    #[must_use]
    pub fn new() -> Executor {
        Executor::default()
    }

    /// Sets the attributes of each task. By default they are inherited.
    ///
    /// ```
    /// use runyard::hyper::Executor;
    /// use runyard::{Policy, Task};
    ///
    /// let executor = Executor::new().task(Task::builder().policy(Policy::Idle).name("prefetch"));
    /// # drop(executor);
    /// ```
    #[must_use]
    pub fn task(mut self, task: TaskBuilder) -> Executor {
        self.task = task;
        self
    }

    /// Sets the runtime of the tasks, regardless of the runtime that the calling code belongs to.
    ///
    /// ```
    /// use runyard::Runtime;
    /// use runyard::hyper::Executor;
    ///
    /// let runtime = Runtime::new();
    /// let executor = Executor::new().on(runtime.handle());
    /// # drop(executor);
    /// ```
    #[must_use]
    pub fn on(mut self, handle: &Handle) -> Executor {
        self.handle = Some(handle.clone());
        self
    }
}

impl<F> rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Starts the task.
    ///
    /// # Panics
    /// As [`TaskBuilder::spawn`], for example if the calling code belongs to no runtime, and none [was
    /// set](Executor::on).
    #[track_caller]
    fn execute(&self, future: F) {
        let task = self.task.clone();
        // The task goes on without its handle.
        match &self.handle {
            Some(handle) => drop(task.spawn_on(future, handle)),
            None => drop(task.spawn(future)),
        }
    }
}

/// hyper's timer on the timers of this runtime, with the slack of the task that waits.
///
/// ```
/// use hyper::rt::Timer as _;
/// use runyard::Runtime;
/// use runyard::hyper::Timer;
/// use std::time::{Duration, Instant};
///
/// Runtime::new().block_on(async {
///     let began = Instant::now();
///     Timer.sleep(Duration::from_millis(2)).await;
///     assert!(began.elapsed() >= Duration::from_millis(2));
/// });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl rt::Timer for Timer {
    fn sleep(&self, span: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(time::sleep(span))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(time::sleep_until(deadline))
    }

    fn now(&self) -> Instant {
        time::now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.reset(deadline),
            // The sleep belongs to another timer.
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl rt::Sleep for Sleep {}
