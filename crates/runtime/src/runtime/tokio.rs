//! The settings of a runtime whose tasks use tokio's timers and sockets.

use crate::driver::Asked;
use crate::runtime::builder::Builder;
use tokio::runtime::Handle;

impl Builder {
    /// Lets tasks use libraries that need a tokio runtime, without a wrapper around their futures: `tokio::time`,
    /// `tokio::net`, `tokio::fs`, and libraries that are built on these. The tokio runtime with this handle drives
    /// their timers and sockets, on its own threads. The tasks stay tasks of this runtime: their policies, groups and
    /// limits hold, and they are preempted.
    ///
    /// The handle is entered on each thread that runs tasks, including its hooks, and in `block_on`. It is not entered
    /// by [`Handle::enter`](crate::Handle::enter).
    ///
    /// Tasks of `tokio::spawn` and `tokio::task::spawn_blocking`, which some libraries call, run on the threads of the
    /// tokio runtime. No policy, group or limit of this runtime holds there, and this is not reported.
    ///
    /// The tokio runtime should outlive this one. After its end its timers panic in the tasks that poll them, and its
    /// sockets return errors. A tokio runtime of the flavor `current_thread` drives only while a thread is in its
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

    /// Lets tasks use libraries that need a tokio runtime, as [`Builder::tokio`] does, if the program has no tokio
    /// runtime. This runtime then owns a driver of tokio's timers and sockets. A worker that is out of work waits in
    /// the driver, and then runs the task that the driver wakes. Busy workers visit the driver between short polls.
    /// While all workers are in long polls, a thread with no other work drives.
    ///
    /// All features with which tokio was compiled are enabled. Of this setting and [`Builder::tokio`] the last one
    /// counts.
    ///
    /// Tasks of `tokio::spawn`, which some libraries call, run on the thread of the driver. No policy, group or limit
    /// holds there, and a task that computes there delays all timers and sockets. While there are such tasks, only that
    /// thread drives. The runtime reports the first such task on standard error.
    /// [`Handle::tokio`](crate::Handle::tokio) has the number of such tasks (`metrics().num_alive_tasks()`). Functions
    /// of `tokio::task::spawn_blocking`, which include `tokio::fs` and host name look-ups, run on threads of tokio's,
    /// and are not reported.
    ///
    /// The driver ends last: after the tasks, and after the last [hook](Builder::on_thread_stop). The end of the
    /// runtime waits for blocking functions there as for its own.
    ///
    /// ```
    /// use runyard::{Runtime, spawn};
    /// use tokio::net::TcpListener;
    ///
    /// let runtime = Runtime::builder().enable_tokio().build();
    /// let port = runtime.block_on(async {
    ///     let binds = async { TcpListener::bind("127.0.0.1:0").await?.local_addr() };
    ///     spawn(binds).await.unwrap().unwrap().port()
    /// });
    /// assert_ne!(port, 0);
    /// ```
    #[must_use]
    pub fn enable_tokio(mut self) -> Builder {
        self.driver = Asked::Own;
        self
    }
}

impl crate::Handle {
    /// Returns the tokio runtime that drives timers and sockets for the tasks of this runtime, if there is one
    /// ([`Builder::tokio`], [`Builder::enable_tokio`]).
    ///
    /// ```
    /// use runyard::Runtime;
    ///
    /// let runtime = Runtime::builder().workers(1).build();
    /// assert!(runtime.handle().tokio().is_none());
    /// ```
    #[must_use]
    pub fn tokio(&self) -> Option<&Handle> {
        self.shared.scheduler.driver().handle()
    }
}
