//! tokio's driver, which wakes tasks that wait for tokio's timers and sockets, and how threads of the runtime reach it.
//!
//! A library that uses tokio looks for a *handle* of a tokio runtime in the calling thread. Each thread that runs tasks
//! enters the handle once, before its first hook, and keeps it until the thread ends. `block_on` enters the handle for
//! as long as `block_on` runs.
//!
//! The handle belongs to a tokio runtime of the user, or to one that this runtime owns, of the flavor `current_thread`.
//! The owned one is driven by workers ([`visit`]) that are out of work or in short polls, or by a thread with no other
//! work ([`thread`]). Tasks that libraries start by `tokio::spawn` run on that thread, outside every policy. They are
//! the *escaped* tasks. A thread that drives reads tokio's count of them each time that it begins or ends a wait. While
//! there are some, only the driver's own thread drives. The runtime reports once that there are some.
//!
//! The guard of a thread's entry is forgotten. A guard that is dropped checks that it is the newest of its thread, and
//! panics otherwise. Code in a task may forget a guard of its own, and the end of a worker must not panic for that. The
//! guard would restore an empty state, and tokio's thread local drops the handle when the thread ends.
//!
//! Rejected: to enter the handle in each poll. An entry takes 24 ns, while a yield of the only task takes 73 ns. Also
//! rejected: to enter it in [`Handle::enter`](crate::Handle::enter). Its guards may be dropped in any order, and
//! tokio's may not.
//!
//! Invariants: a thread enters before foreign code runs on it; nothing here is called in the signal handler, except
//! where a function says so; a driver that a runtime owns lives as long as any thread of the runtime that runs foreign
//! code.

pub(crate) mod budget;
mod parks;
mod thread;
mod visit;

use crate::os;
use crate::os::bell::Bell;
use crate::os::sync::{Arc, AtomicBool, AtomicI32, Mutex, Ordering, lock};
use crate::os::threads;
use crate::protocol::wheel::Wheel;
use parks::Parks;
use std::io;
use std::mem;
use std::thread::JoinHandle;
use tokio::runtime::{self, EnterGuard, Handle};
use tokio::sync::Notify;

pub(crate) use visit::Until;

/// The driver that the builder asks for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Asked {
    #[default]
    None,
    /// The driver of a tokio runtime of the user, which other threads drive.
    Foreign(Handle),
    /// A driver that the runtime owns.
    Own,
}

impl Asked {
    /// Makes the driver. It is not driven yet. Workers drive an owned driver too if the runtime `preempts`; otherwise a
    /// moment in which all of them are busy would go unnoticed.
    ///
    /// # Errors
    /// The resource that the operating system refuses.
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

/// A driver that the runtime owns.
#[derive(Debug)]
pub(crate) struct Own {
    handle: Handle,
    /// The tokio runtime. Its lock is held by the thread at the wheel. It is none after the driver's thread has ended
    /// it.
    runtime: Mutex<Option<runtime::Runtime>>,
    /// The right to drive, which one thread has at a time.
    wheel: Wheel,
    /// Set when a busy worker wants to visit the driver from now on. The driver's thread then leaves the wheel.
    is_asked_for: AtomicBool,
    /// The thread of the worker that drives, 0 if none does.
    driving: AtomicI32,
    /// The bell that ends the wait of a worker that drives. None if only the driver's thread drives.
    bell: Option<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Notified when the driver's thread is to end.
    ends: Notify,
    /// Set when a foreign waker has panicked in the driver.
    is_broken: AtomicBool,
    parks: Arc<Parks>,
}

impl Driver {
    /// Returns the tokio runtime that drives.
    pub(crate) fn handle(&self) -> Option<&Handle> {
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

    /// Enters the driver on the calling thread, which runs tasks, until the thread ends.
    pub(crate) fn enter_for_life(&self) {
        mem::forget(self.enter());
    }

    /// Enters the driver on the calling thread until the guard is dropped.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.handle().map(Handle::enter)
    }

    /// Returns whether the calling thread is the driver's own.
    pub(crate) fn is_here(&self) -> bool {
        let here = std::thread::current().id();
        let is_here = |own: &Own| {
            lock(&own.thread).as_ref().is_some_and(|thread| thread.thread().id() == here)
        };
        self.own().is_some_and(is_here)
    }

    /// Reports once on standard error if escaped tasks run in the driver.
    pub(crate) fn say_if_tasks_escape(&self) {
        self.own().into_iter().for_each(|own| own.parks.say());
    }

    /// Returns the driver, if workers drive it.
    pub(crate) fn for_workers(&self) -> Option<&Own> {
        self.own().filter(|own| own.bell.is_some())
    }

    /// Lets only the driver's thread drive from now on, because the runtime ends.
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
        // The thread did not take the tokio runtime. Dropping it would panic inside a task of tokio's.
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
            // Threads for blocking functions have an ordinary slice.
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

    /// Calls the driver's thread to the wheel. May be called in a signal handler.
    pub(crate) fn call(&self) {
        self.wheel.call();
    }

    /// Ends the wait of the worker that drives. May be called in a signal handler.
    pub(crate) fn ring(&self) {
        self.bell.iter().for_each(Bell::ring);
    }

    /// Lets only the driver's thread drive.
    fn leave_to_thread(&self) {
        self.wheel.want();
        self.wheel.call();
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }
}
