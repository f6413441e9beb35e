//! The driver in a build without the cargo feature `tokio`: there is none.

use crate::os::refusal::Refusal;
use crate::os::thread::Tid;
use crate::shared::Scheduler;
use runyard_engine::time::Time;
use std::io;
use std::thread::JoinHandle;

/// tokio's budget of a poll, which only its own futures use.
pub(crate) mod budget {
    /// Does nothing.
    pub(crate) fn begin_poll() {}

    /// Runs the code.
    pub(crate) fn apart<R>(code: impl FnOnce() -> R) -> R {
        code()
    }
}

/// The driver that the builder asks for: none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {}

/// The absent driver of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Driver {}

/// A driver that the runtime owns. It has no values.
#[derive(Debug)]
pub(crate) enum Own {}

/// The length of a visit.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "as with a driver")]
pub(crate) enum Until {
    Now,
    Woken(Option<Time>),
}

/// A guard of an entry that does nothing.
pub(crate) struct Entered;

impl Asked {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with a driver")]
    pub(crate) fn open(self, _preempts: bool) -> io::Result<Driver> {
        Ok(Driver {})
    }
}

#[expect(clippy::unused_self, reason = "as with a driver")]
impl Driver {
    /// Starts no thread.
    #[expect(clippy::unnecessary_wraps, reason = "as with a driver")]
    pub(crate) fn start(
        &self,
        _start: impl FnOnce(&str) -> Result<JoinHandle<()>, Refusal>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    pub(crate) fn run(&self, _scheduler: &Scheduler) {}

    pub(crate) fn enter_for_life(&self) {}

    pub(crate) fn enter(&self) -> Entered {
        Entered
    }

    pub(crate) fn is_here(&self) -> bool {
        false
    }

    pub(crate) fn say_if_tasks_escape(&self) {}

    pub(crate) fn for_workers(&self) -> Option<&Own> {
        None
    }

    pub(crate) fn leave_to_thread(&self) {}

    pub(crate) fn end(&self) {}
}

impl Own {
    pub(crate) fn take_wheel(&self, _thread: Tid) -> bool {
        match *self {}
    }

    pub(crate) fn take_wheel_in_passing(&self, _thread: Tid) -> bool {
        match *self {}
    }

    pub(crate) fn leave_wheel(&self) {
        match *self {}
    }

    pub(crate) fn turn_at_wheel(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn driving_thread(&self) -> Option<Tid> {
        match *self {}
    }

    pub(crate) fn is_free(&self) -> bool {
        match *self {}
    }

    pub(crate) fn free_since(&self) -> Option<Time> {
        match *self {}
    }

    pub(crate) fn visit(&self, _until: Until) -> bool {
        match *self {}
    }

    pub(crate) fn call(&self) {
        match *self {}
    }

    pub(crate) fn ring(&self) {
        match *self {}
    }
}
