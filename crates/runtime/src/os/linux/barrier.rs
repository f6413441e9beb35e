//! A barrier that one thread makes all other threads of the process pass (membarrier(2)). Where two threads check each
//! other's stores, the thread that checks more often then needs no barrier of its own.

use super::{futex, thread};
use crate::os::sync::{AtomicU32, Ordering};
use runyard_engine::time::Nanos;

/// The command's value from `linux/membarrier.h`; `libc` does not define it on every target.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Much longer than a store stays in the buffer of a CPU.
const STORES_ARE_SEEN: Nanos = Nanos::from_millis(1);

const UNKNOWN: u32 = 0;
const THERE: u32 = 1;
const REFUSED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Registers the process for the barrier, once. A forked child inherits the registration.
pub(crate) fn prepare() {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        let answer = call(REGISTER_PRIVATE_EXPEDITED) && call(PRIVATE_EXPEDITED);
        STATE.store(if answer { THERE } else { REFUSED }, Ordering::Relaxed);
    }
}

/// Returns whether the kernel has the barrier and has accepted the registration.
pub(crate) fn is_there() -> bool {
    STATE.load(Ordering::Relaxed) == THERE
}

/// Makes all threads of the process pass a barrier.
///
/// A sandbox may refuse the call later on. Then the caller waits: a store leaves the buffer of its CPU within microseconds,
/// and a thread that has lost its CPU has passed a barrier.
pub(crate) fn pass() {
    if !call(PRIVATE_EXPEDITED) {
        let (word, end) = (AtomicU32::new(0), thread::now() + STORES_ARE_SEEN);
        while thread::now() < end {
            futex::wait(&word, 0, Some(end));
        }
    }
}

fn call(command: libc::c_int) -> bool {
    // SAFETY: the call passes no memory of the caller.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
