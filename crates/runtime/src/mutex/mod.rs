//! The mutex of tasks. [`value`] has the value, with the names and the guarantees of tokio's, and [`owned`] the guards
//! that share it. The inheritance of priorities is in [`lending`], and the guards that outlive their tasks in [`guards`].

pub(crate) mod guards;
pub(crate) mod lending;
mod owned;
mod value;

pub use owned::{LockOwned, OwnedMutexGuard};
pub use value::{Lock, Mutex, MutexGuard, TryLockError};
