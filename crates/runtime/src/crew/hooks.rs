//! The settings of the threads that run tasks: their stacks, their names, and their hooks. Hooks are functions of the
//! user that are called when a thread starts and stops.
//!
//! A hook is foreign code. The thread calls it before it becomes a worker, or after it was one. At that time the thread
//! has no slot, no timer, and nothing else of the runtime. Only the kernel schedules it, and the keeper treats it as a
//! thread that is not a worker ([`crate::crew::foreign`]). The code that starts a thread waits until its start hook has
//! returned, and holds no lock meanwhile.
//!
//! Rejected: to call the hook in the first poll of a thread. A task would pay for it, and might lose its thread in it.
//! Also rejected: to count a thread as a spare before its start is over. It could be given a slot before it can run
//! tasks.
//!
//! Invariants: no lock of the runtime is held; the thread is in no poll, and owns no slot that another thread could
//! use; a panic goes to the panic hook of the process, and no further.

use crate::current::turn;
use crate::os::harmless::harmless;
use crate::os::sync::Arc;
use std::cell::Cell;
use std::fmt;
use std::thread;

/// A function of the user that is called on a thread.
#[derive(Clone)]
pub(crate) struct Hook(pub(crate) Arc<dyn Fn() + Send + Sync>);

/// The rule by which threads are named.
#[derive(Clone, Default)]
pub(crate) enum Naming {
    /// The name of the CPU for which the thread was started.
    #[default]
    Cpu,
    Fixed(String),
    Asked(Arc<dyn Fn() -> String + Send + Sync>),
}

/// The settings of the threads that run tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    /// Stack size in bytes. None stands for the default of the standard library.
    pub(crate) stack_size: Option<usize>,
    pub(crate) naming: Naming,
    pub(crate) start: Option<Hook>,
    pub(crate) stop: Option<Hook>,
}

thread_local! {
    /// Set while the thread is in a hook.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling code is in a hook.
pub(crate) fn is_in_hook() -> bool {
    IN_HOOK.get()
}

impl Hook {
    fn call(&self) {
        IN_HOOK.set(true);
        harmless(|| turn::without(|| (self.0)()));
        IN_HOOK.set(false);
    }
}

impl Hooks {
    /// Returns the builder of a thread that runs tasks. `name` is its default name. Calls foreign code.
    pub(crate) fn thread(&self, name: String) -> thread::Builder {
        let mut asked = None;
        match &self.naming {
            Naming::Cpu => {}
            Naming::Fixed(name) => asked = Some(name.clone()),
            Naming::Asked(asks) => harmless(|| asked = Some(asks())),
        }
        let mut name = asked.unwrap_or(name);
        // For the kernel, a name ends at its first zero byte.
        name.truncate(name.find('\0').unwrap_or(name.len()));
        let thread = thread::Builder::new().name(name);
        match self.stack_size {
            Some(size) => thread.stack_size(size),
            None => thread,
        }
    }

    /// Runs `body` between the start hook and the stop hook.
    pub(crate) fn around(&self, body: impl FnOnce()) {
        self.start.iter().for_each(Hook::call);
        body();
        self.stop.iter().for_each(Hook::call);
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook(..)")
    }
}

impl fmt::Debug for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Naming::Cpu => f.write_str("Cpu"),
            Naming::Fixed(name) => f.debug_tuple("Fixed").field(name).finish(),
            Naming::Asked(_) => f.write_str("Asked(..)"),
        }
    }
}
