//! A barrier that one thread has all others of the process pass, as membarrier(2) has it: so two threads that look at each
//! other need no barrier of their own on the side that does so more often.

use crate::os::sync::{AtomicU32, Ordering};

/// From `linux/membarrier.h`, which `libc` has not on all systems.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

const UNKNOWN: u32 = 0;
const THERE: u32 = 1;
const REFUSED: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Asks the kernel for it, once. A process that is forked off has it as well.
pub(crate) fn prepare() {
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        let answer = call(REGISTER_PRIVATE_EXPEDITED) && call(PRIVATE_EXPEDITED);
        STATE.store(if answer { THERE } else { REFUSED }, Ordering::Relaxed);
    }
}

/// Whether the kernel has it.
pub(crate) fn is_there() -> bool {
    STATE.load(Ordering::Relaxed) == THERE
}

/// All threads pass it.
///
/// # Panics
/// If the kernel refuses it, which it did not before.
pub(crate) fn pass() {
    assert!(call(PRIVATE_EXPEDITED), "the kernel has had this barrier");
}

fn call(command: libc::c_int) -> bool {
    // SAFETY: the call has no memory of the caller's.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
