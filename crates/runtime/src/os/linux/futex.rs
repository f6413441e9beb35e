//! Waits for a change of a word (futex(2)). All functions may be called in a signal handler.

use super::clock;
use super::gettime::kernels;
use crate::os::sync::AtomicU32;
use runyard_engine::time::Time;

/// The bit set of the runtime's own waits, by which `/proc` shows them apart from others. A wake uses any bit.
pub(crate) const OURS: u32 = 0x5275_6e79;

/// Waits until another thread wakes this word, while the word is `expected`, and until `deadline` on the monotonic
/// clock at the latest. May return spuriously: callers check and wait again.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Time>) {
    let spec = deadline.map(|at| kernels(at.0)).map(|at| libc::timespec {
        tv_sec: (at / 1_000_000_000).cast_signed(),
        tv_nsec: (at % 1_000_000_000).cast_signed(),
    });
    let timeout = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the timeout outlive the call; the kernel only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            expected,
            timeout,
            std::ptr::null::<u32>(),
            OURS,
        );
    }
    if deadline.is_some() {
        // Discards the clock's anchor: after the deadline no reading may lie before it.
        clock::forget();
    }
}

/// Wakes one thread that waits for this word.
pub(crate) fn wake(word: &AtomicU32) {
    wake_up_to(word, 1);
}

/// Wakes every thread that waits for this word.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake_up_to(word, libc::c_int::MAX);
}

fn wake_up_to(word: &AtomicU32, many: libc::c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word outlives the call, and the kernel uses only its address.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, many);
    }
}
