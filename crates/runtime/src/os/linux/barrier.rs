//! A barrier that one thread makes all other threads of the process pass (membarrier(2)). Where two threads check each
//! other's stores, the thread that checks more often then needs no barrier of its own.

use crate::os::sync::{AtomicU32, Ordering};

/// The command's value from `linux/membarrier.h`; `libc` does not define it on every target.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

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
/// # Panics
/// If the kernel refuses the barrier although it accepted the registration.
pub(crate) fn pass() {
    assert!(call(PRIVATE_EXPEDITED), "the kernel accepted this barrier before");
}

fn call(command: libc::c_int) -> bool {
    // SAFETY: the call passes no memory of the caller.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
