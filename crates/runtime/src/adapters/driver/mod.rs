//! tokio's driver, which wakes tasks that wait for tokio's timers and sockets, and how threads of the runtime find it.
//!
//! A library of tokio's looks for a *handle* of a tokio runtime in the calling thread. Each thread that runs tasks enters
//! the handle once, before its first hook, and keeps it until the thread ends. `block_on` enters the handle for as long as
//! `block_on` runs.
//!
//! The handle is another runtime's, or that of a tokio runtime of the runtime's own: one of the flavor `current_thread`. That
//! is driven by workers ([`visit`]) that are out of work or in short polls, or by a thread that does nothing else ([`thread`]). Tasks that
//! libraries start by `tokio::spawn` run on that thread, out of every policy. Whoever drives looks at tokio's count of them
//! each time that it begins to wait and ends to wait. While there are some, only the thread drives. The maker says once that
//! there are some.
//!
//! The guard of a thread's entry is forgotten. A guard that is dropped checks that it is the newest of its thread, and
//! panics otherwise. Code in a task may forget a guard of its own, and the end of a worker must not panic for that. What
//! the guard would restore is empty, and tokio's thread local drops the handle as the thread ends.
//!
//! Rejected: to enter in each poll. An entry takes 24 ns, and a yield of the only task 73. To enter in
//! [`Handle::enter`](crate::Handle::enter): its guards may be dropped in any order, and tokio's may not.
//!
//! Invariants: a thread enters before foreign code runs on it; nothing here is called in the signal handler; the driver
//! that a runtime has of its own lives as long as any thread of the runtime that runs foreign code.

mod thread;
mod visit;

use crate::crew::threads;
use crate::os;
use crate::os::bell::Bell;
use crate::os::sync::{Arc, AtomicBool, AtomicI32, Mutex, Ordering, lock};
use crate::protocol::wheel::Wheel;
use crate::runtime::Builder;
use crate::shared::Shared;
use crate::worker::ring;
use std::io;
use std::mem;
use std::thread::JoinHandle;
use tokio::runtime::{self, EnterGuard, Handle};
use tokio::sync::Notify;
use visit::Parks;

pub(crate) use thread::start;
pub(crate) use visit::Until;

/// Which driver is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Asked {
    #[default]
    None,
    /// That of another runtime, which somebody else drives.
    Foreign(Handle),
    /// One of the runtime's own.
    Own,
}

impl Asked {
    /// Makes what is asked for. It is not driven yet. A driver of the runtime's own is driven by workers too if the runtime
    /// `preempts`: else nobody would see that all of them are busy.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn open(self, preempts: bool) -> io::Result<Driver> {
        match self {
            Asked::None => Ok(Driver::None),
            Asked::Foreign(handle) => Ok(Driver::Foreign(handle)),
            Asked::Own => Ok(Driver::Own(Box::new(Own::new(preempts)?))),
        }
    }
}

/// The driver of a runtime, if there is one.
#[derive(Debug, Default)]
pub(crate) enum Driver {
    #[default]
    None,
    Foreign(Handle),
    Own(Box<Own>),
}

/// A driver of the runtime's own.
#[derive(Debug)]
pub(crate) struct Own {
    handle: Handle,
    /// Locked by whoever is at the wheel, and until the thread ends it.
    runtime: Mutex<Option<runtime::Runtime>>,
    /// Who drives.
    wheel: Wheel,
    /// A worker that is busy visits the driver from now on: the thread, which drives, is to leave the wheel.
    is_asked_for: AtomicBool,
    /// The thread of the worker that drives, 0 if none does.
    driving: AtomicI32,
    /// What ends the wait of a worker that drives. None if only the thread drives.
    bell: Option<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread is to end.
    ends: Notify,
    /// A foreign waker panicked in the driver.
    is_broken: AtomicBool,
    parks: Arc<Parks>,
}

impl Driver {
    fn handle(&self) -> Option<&Handle> {
        match self {
            Driver::None => None,
            Driver::Foreign(handle) => Some(handle),
            Driver::Own(own) => Some(&own.handle),
        }
    }

    fn own(&self) -> Option<&Own> {
        match self {
            Driver::Own(own) => Some(own),
            Driver::None | Driver::Foreign(_) => None,
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

    /// Whether the calling thread is the driver's own.
    pub(crate) fn is_here(&self) -> bool {
        let here = std::thread::current().id();
        let is_here = |own: &Own| {
            lock(&own.thread).as_ref().is_some_and(|thread| thread.thread().id() == here)
        };
        self.own().is_some_and(is_here)
    }

    /// Says once if tasks run there that are none of the runtime's.
    pub(crate) fn say_if_tasks_escape(&self) {
        self.own().into_iter().for_each(|own| own.parks.say());
    }

    /// The driver, if idle workers drive it.
    pub(crate) fn for_workers(&self) -> Option<&Own> {
        self.own().filter(|own| own.bell.is_some())
    }

    /// From now on only the thread drives, as the runtime ends.
    pub(crate) fn leave_to_thread(&self) {
        self.own().into_iter().for_each(Own::leave_to_thread);
    }

    /// Ends the driver's own thread, and waits for that. No thread of the runtime runs tasks any more.
    pub(crate) fn end(&self) {
        let Some(own) = self.own() else { return };
        own.ends.notify_one();
        own.leave_to_thread();
        let thread = lock(&own.thread).take();
        thread.into_iter().for_each(threads::join);
        // If no thread took it. A drop would panic in a task of tokio's.
        let unused = lock(&own.runtime).take();
        unused.into_iter().for_each(runtime::Runtime::shutdown_background);
        own.parks.say();
    }
}

impl Own {
    fn new(preempts: bool) -> io::Result<Own> {
        let parks = Arc::new(Parks::default());
        let (begins, ends) = (parks.clone(), parks.clone());
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("runyard-tokio")
            // Threads for blocking functions are ordinary ones.
            .on_thread_start(|| _ = os::thread::set_slice(None))
            .on_thread_park(move || begins.begin())
            .on_thread_unpark(move || ends.end())
            .build()?;
        let handle = runtime.handle().clone();
        Ok(Own {
            bell: if preempts { Some(Bell::new(&handle)?) } else { None },
            handle,
            runtime: Mutex::new(Some(runtime)),
            wheel: Wheel::new(),
            is_asked_for: AtomicBool::new(false),
            driving: AtomicI32::new(0),
            thread: Mutex::default(),
            ends: Notify::new(),
            is_broken: AtomicBool::new(false),
            parks,
        })
    }

    /// Ends the wait of the worker that drives. May be called in a signal handler.
    pub(crate) fn ring(&self) {
        self.bell.iter().for_each(Bell::ring);
    }

    /// Only the thread is to drive.
    fn leave_to_thread(&self) {
        self.wheel.want();
        self.wheel.call();
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// If nobody drives, a worker that sleeps is to, or the thread. May be called in a signal handler.
    pub(crate) fn see_to_driver(&self) {
        let Some(own) = self.driver.for_workers().filter(|own| own.wheel.is_free()) else { return };
        if !self.wake_driver() {
            own.wheel.call();
        }
    }

    /// Wakes a worker that sleeps, and could drive. Whether there was one. May be called in a signal handler.
    fn wake_driver(&self) -> bool {
        let mut cpus = self.machine.config().topology.iter();
        let asleep = cpus.find(|&cpu| self.slot(cpu).is_asleep());
        asleep.into_iter().for_each(|cpu| ring(self, cpu));
        asleep.is_some()
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

    /// Tasks may use what needs a tokio runtime, as with [`Builder::tokio`], where the program has none: this runtime has
    /// a driver of tokio's timers and sockets of its own. A worker that is out of work waits in it, and then runs the task
    /// itself that it wakes. Workers that are busy look there between short polls. While all workers are in long polls, a
    /// thread that does nothing else drives.
    ///
    /// All that tokio was compiled with is enabled. Of this and [`Builder::tokio`] the last one that was said counts.
    ///
    /// What calls `tokio::spawn`, as some libraries do, runs on the thread of the driver. No policy, group or limit holds
    /// there, and a task that computes there delays all timers and sockets. While there are such tasks only that thread
    /// drives. The first time that the runtime sees such a
    /// task, the runtime says so on standard error. [`Handle::tokio`](crate::Handle::tokio) has the number of such tasks
    /// (`metrics().num_alive_tasks()`). Functions of `tokio::task::spawn_blocking`, `tokio::fs` and look-ups of names among
    /// them, run on threads of tokio's, and are not told.
    ///
    /// The driver ends last: after the tasks, and after the last [hook](Builder::on_thread_stop). The end of the runtime
    /// waits for blocking functions there as for its own.
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
    /// The tokio runtime that drives timers and sockets for the tasks of this runtime, if there is one
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
        let shared: &Arc<Shared> = &self.shared;
        shared.driver.handle()
    }
}
