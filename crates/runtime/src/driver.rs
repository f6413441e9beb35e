//! tokio's driver, which wakes tasks that wait for tokio's timers and sockets, and how threads of the runtime find it.
//!
//! A library of tokio's looks for a *handle* of a tokio runtime in the calling thread. Each thread that runs tasks enters
//! the handle once, before its first hook, and keeps it until the thread ends. `block_on` enters the handle for as long as
//! `block_on` runs.
//!
//! The handle is another runtime's, or that of a tokio runtime of the runtime's own: one of the flavor `current_thread`,
//! driven by a thread that does nothing else ([`run`]). Tasks that libraries start by `tokio::spawn` run on that thread, out
//! of every policy. The thread looks at tokio's count of them each time that it begins to wait and ends to wait. The maker
//! says once that there are some.
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

use crate::harmless::harmless;
use crate::maker::Refusal;
use crate::os;
use crate::primitives::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::runtime::{Builder, Entered};
use crate::shared::Shared;
use crate::threads;
use runyard_engine::time::Nanos;
use std::io;
use std::mem;
use std::thread::{self, JoinHandle};
use tokio::runtime::{self, EnterGuard, Handle};
use tokio::sync::Notify;

/// How long the kernel lets the driver's thread run at a time. The shortest that there is: a thread with that is given a
/// CPU beside busy workers at once, and one visit of the driver takes some microseconds.
const SLICE: Nanos = Nanos::from_micros(100);

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
    /// Makes what is asked for. It is not driven yet.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn open(self) -> io::Result<Driver> {
        match self {
            Asked::None => Ok(Driver::None),
            Asked::Foreign(handle) => Ok(Driver::Foreign(handle)),
            Asked::Own => Own::new().map(Driver::Own),
        }
    }
}

/// The driver of a runtime, if there is one.
#[derive(Debug, Default)]
pub(crate) enum Driver {
    #[default]
    None,
    Foreign(Handle),
    Own(Own),
}

/// A driver of the runtime's own.
#[derive(Debug)]
pub(crate) struct Own {
    handle: Handle,
    /// Until the thread takes it.
    runtime: Mutex<Option<runtime::Runtime>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread is to end.
    ends: Notify,
    escapes: Arc<Escapes>,
}

/// Whether tasks run in the driver's tokio runtime.
#[derive(Debug, Default)]
struct Escapes {
    seen: AtomicBool,
    said: AtomicBool,
}

impl Driver {
    fn handle(&self) -> Option<&Handle> {
        match self {
            Driver::None => None,
            Driver::Foreign(handle) | Driver::Own(Own { handle, .. }) => Some(handle),
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
        let here = thread::current().id();
        let is_here = |own: &Own| {
            lock(&own.thread).as_ref().is_some_and(|thread| thread.thread().id() == here)
        };
        self.own().is_some_and(is_here)
    }

    /// Says once if tasks run there that are none of the runtime's.
    pub(crate) fn say_if_tasks_escape(&self) {
        self.own().into_iter().for_each(|own| own.escapes.say());
    }

    /// Ends the driver's own thread, and waits for that. No thread of the runtime runs tasks any more.
    pub(crate) fn end(&self) {
        let Some(own) = self.own() else { return };
        own.ends.notify_one();
        let thread = lock(&own.thread).take();
        thread.into_iter().for_each(threads::join);
        // If no thread took it. A drop would panic in a task of tokio's.
        let unused = lock(&own.runtime).take();
        unused.into_iter().for_each(runtime::Runtime::shutdown_background);
        own.escapes.say();
    }
}

impl Own {
    fn new() -> io::Result<Own> {
        let escapes = Arc::new(Escapes::default());
        let (begins, ends) = (escapes.clone(), escapes.clone());
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("runyard-tokio")
            // Threads for blocking functions are ordinary ones.
            .on_thread_start(|| _ = os::thread::set_slice(None))
            .on_thread_park(move || begins.look())
            .on_thread_unpark(move || ends.look())
            .build()?;
        Ok(Own {
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            thread: Mutex::default(),
            ends: Notify::new(),
            escapes,
        })
    }

    fn drive(&self, runtime: runtime::Runtime) {
        let mut is_over = false;
        harmless(|| {
            runtime.block_on(self.ends.notified());
            is_over = true;
        });
        if !is_over {
            // A foreign waker panicked in the driver, which may be in the middle of anything.
            harmless(|| {
                eprintln!("runyard: the tokio driver panicked: its timers and sockets wake nobody");
            });
        }
        // Tasks that escaped end. Blocking functions are waited for.
        harmless(|| drop(runtime));
    }
}

impl Escapes {
    /// On the driver's thread.
    fn look(&self) {
        let are_there =
            || Handle::try_current().is_ok_and(|here| here.metrics().num_alive_tasks() > 0);
        if !self.seen.load(Ordering::Relaxed) && are_there() {
            self.seen.store(true, Ordering::Relaxed);
        }
    }

    fn say(&self) {
        if self.seen.load(Ordering::Relaxed) && !self.said.swap(true, Ordering::Relaxed) {
            harmless(|| {
                eprintln!(
                    "runyard: something called tokio::spawn, perhaps a library: such tasks run on the thread of the \
                     tokio driver, without policies, groups, limits and preemption"
                );
            });
        }
    }
}

/// Starts the thread of the runtime's own driver, if there is one.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), Refusal> {
    if let Some(own) = shared.driver.own() {
        *lock(&own.thread) = Some(shared.start_servant("runyard-driver", run)?);
    }
    Ok(())
}

/// The driver's own thread.
fn run(shared: &Arc<Shared>) {
    let Some(own) = shared.driver.own() else { return };
    let runtime = lock(&own.runtime).take();
    // For tasks that escaped, and spawn.
    let _context = Entered::enter(shared);
    os::thread::set_slice(Some(SLICE));
    runtime.into_iter().for_each(|runtime| own.drive(runtime));
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
    /// a driver of tokio's timers and sockets of its own, on a thread that does nothing else.
    ///
    /// All that tokio was compiled with is enabled. Of this and [`Builder::tokio`] the last one that was said counts.
    ///
    /// What calls `tokio::spawn`, as some libraries do, runs on the thread of the driver. No policy, group or limit holds
    /// there, and a task that computes there delays all timers and sockets. The first time that the runtime sees such a
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
