//! `errno` of the calling thread, which belongs to the program: code that checks it after a failed call may free memory,
//! take a lock or end a section in between, and does not expect that to call the kernel.

/// Calls the kernel, and keeps the thread's errno. May be called in a signal handler.
#[cfg(all(target_os = "linux", not(runyard_portable)))]
pub(crate) fn kept<R>(calls: impl FnOnce() -> R) -> R {
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    let result = calls();
    // SAFETY: as above.
    unsafe {
        *errno = saved;
    }
    result
}

/// Calls the system. No thread is stopped here, and the standard library's locks change no errno that a program reads.
#[cfg(not(all(target_os = "linux", not(runyard_portable))))]
pub(crate) fn kept<R>(calls: impl FnOnce() -> R) -> R {
    calls()
}
