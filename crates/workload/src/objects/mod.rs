//! The objects that tasks share and wait for: mutexes, conditions, barriers, semaphores, suspensions, pipes.
//!
//! Each kind keeps its waiters and selects the tasks to wake. The host performs the wake-up ([`Sharing`]). As in the
//! kernel's futexes, the waiter with the highest real-time priority comes first, then the order of arrival decides.
//!
//! A mutex that hands over belongs to the task that is woken for it. A mutex that barges is the C library's normal
//! mutex (glibc's `lowlevellock`): a word that is free, taken, or taken and contended. It becomes contended when a task
//! waits, and stays so when a former waiter takes it. A task that releases a contended mutex wakes one waiter, which
//! tries again. Until it does, other tasks can take the mutex and release it without a wake-up.
//!
//! Invariants ([`Objects::check`]): no task waits for an available object, unless a woken task is on the way to it.
//! Every waiter of a mutex that barges is woken at some time: the mutex is contended, or a woken task is on the way.

mod kinds;
mod left;
mod sharing;
mod state;

pub use kinds::Awaited;
pub use left::{Blocked, Left, Undone, left};
pub use sharing::Sharing;
pub use state::Objects;
