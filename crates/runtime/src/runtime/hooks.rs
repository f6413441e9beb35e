//! The settings of the threads that run tasks: their stacks, their names, and the hooks, which are functions of the user
//! that are called as a thread starts and stops.
//!
//! A hook is foreign code. It is called on the thread itself before that is a worker, or after it was one: the thread has
//! no slot, no timer, and nothing of the runtime. The kernel alone schedules it, and the keeper sees it as a thread that
//! is no worker ([`crate::crew::foreign`]). The code that starts a thread waits until its first hook is over, and locks nothing
//! meanwhile.
//!
//! Rejected: to call it in the first poll of a thread. A task would pay for it, and might lose its thread in it. To
//! count a thread as a spare before its start is over: a slot would be given to a thread that cannot run tasks yet.
//!
//! Invariants: no lock of the runtime is held; the thread is in no poll, and owns no slot that another could use; a panic
//! goes to the panic hook of the process, and no further.

use crate::os::harmless::harmless;
use crate::os::sync::Arc;
use std::cell::Cell;
use std::fmt;
use std::thread;

/// A function of the user that is called on a thread.
#[derive(Clone)]
pub(crate) struct Hook(pub(crate) Arc<dyn Fn() + Send + Sync>);

/// The names of threads.
#[derive(Clone, Default)]
pub(crate) enum Naming {
    /// After the CPU for which they were started.
    #[default]
    Cpu,
    Fixed(String),
    Asked(Arc<dyn Fn() -> String + Send + Sync>),
}

/// The settings of the threads that run tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    /// In bytes; the standard library's default if not said.
    pub(crate) stack_size: Option<usize>,
    pub(crate) naming: Naming,
    pub(crate) start: Option<Hook>,
    pub(crate) stop: Option<Hook>,
}

thread_local! {
    /// Whether the thread is in a hook.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling code is in a hook.
pub(crate) fn is_in_hook() -> bool {
    IN_HOOK.get()
}

impl Hook {
    fn call(&self) {
        IN_HOOK.set(true);
        harmless(|| (self.0)());
        IN_HOOK.set(false);
    }
}

impl Hooks {
    /// How a thread that runs tasks is made, of which the default name is `name`. Calls foreign code.
    pub(crate) fn thread(&self, name: String) -> thread::Builder {
        let mut asked = None;
        match &self.naming {
            Naming::Cpu => {}
            Naming::Fixed(name) => asked = Some(name.clone()),
            Naming::Asked(asks) => harmless(|| asked = Some(asks())),
        }
        let mut name = asked.unwrap_or(name);
        // The kernel's names end there.
        name.truncate(name.find('\0').unwrap_or(name.len()));
        let thread = thread::Builder::new().name(name);
        match self.stack_size {
            Some(size) => thread.stack_size(size),
            None => thread,
        }
    }

    /// The thread that runs `body` starts and stops.
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
