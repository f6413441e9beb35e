//! The doorbell: a signal that says "look", and nothing else.
//!
//! The handler keeps errno, asks who the thread is, and calls [`crate::worker::Worker::rung`],
//! which does atomics and futex calls only (H1). While it runs every signal waits but those of
//! faults (`sa_mask`, H9). The signal may come late, twice, or from somebody else: the handler looks at words that
//! say what is wanted (H8).
//!
//! Workers hear every signal that the thread hears which built the runtime: the threads and programs that
//! tasks start inherit that. So our signal may interrupt another handler.

use crate::os::thread::Tid;
use crate::os::{code, local};

/// Installs the handler for `signal`, once for the process; `false` if somebody else has one.
pub(crate) fn install(signal: i32) -> bool {
    code::find_libraries();
    // SAFETY: a sigaction of zeros is one, and every field that is read is set.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the mask is ours; both structures are where the kernel is told they are. The handler
    // does only what a handler may.
    unsafe {
        action.sa_mask = all_but_faults();
        libc::sigaction(signal, std::ptr::null(), &raw mut old);
        let free = [libc::SIG_DFL, libc::SIG_IGN, action.sa_sigaction];
        free.contains(&old.sa_sigaction)
            && libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// Whether `signal` still has our handler: other code of the process may install its own (H16).
pub(crate) fn is_ours(signal: i32) -> bool {
    // SAFETY: a sigaction of zeros is one.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one sigaction to where one is.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) } == 0;
    known && now.sa_sigaction == handler as *const () as usize
}

/// Rings the bell of a thread of this process. A thread that is gone is not missed: the signal is
/// ignored by default (H17). May be called in a signal handler.
pub(crate) fn ring(thread: Tid, signal: i32) {
    // SAFETY: the call takes numbers only.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, signal);
    }
}

/// Signals of the kernel: number n is bit n - 1.
pub(crate) type Signals = u64;

/// Lets the calling thread hear `signal`. To which it is deaf then: to those that the thread was deaf to
/// which made it.
pub(crate) fn listen_to(signal: i32) -> Signals {
    // SAFETY: a set of zeros is one; the kernel reads ours, and writes one to where one is.
    unsafe {
        let mut heard: libc::sigset_t = std::mem::zeroed();
        let mut deaf_to: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut heard);
        libc::sigaddset(&raw mut heard, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const heard, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut deaf_to);
        first_word(&raw const deaf_to)
    }
}

/// Makes the calling thread deaf to all signals but those that its own mistakes raise.
pub(crate) fn listen_to_nothing() {
    let deaf_to = all_but_faults();
    // SAFETY: the set is ours and initialised; the kernel only reads it.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const deaf_to, std::ptr::null_mut());
    }
}

/// What the kernel knows of a set, which the C library has more room for.
///
/// # Safety
/// The pointer is to a set that has at least this word.
unsafe fn first_word(set: *const libc::sigset_t) -> Signals {
    // SAFETY: the caller promises it; the set is aligned for words.
    unsafe { set.cast::<Signals>().read() }
}

/// Every signal but those that a thread's own mistakes raise.
fn all_but_faults() -> libc::sigset_t {
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
    // SAFETY: the set is initialised by the first call.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        for heard in faults.into_iter().chain([libc::SIGABRT, libc::SIGSYS]) {
            libc::sigdelset(&raw mut set, heard);
        }
        set
    }
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    // Who unwinds may hold the lock of standard error, or the loader's (H5). Reads words only.
    let unsafe_point = code::is_in_library(program_counter(context)) || std::thread::panicking();
    let deaf_to = deaf_to(context);
    local::handling(|| {
        local::worker(|worker| worker.rung(unsafe_point, deaf_to));
    });
    // SAFETY: as above.
    unsafe {
        *errno = saved;
    }
}

/// To which signals the interrupted code was deaf.
fn deaf_to(context: *mut libc::c_void) -> Signals {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO, and writes
    // the first word of this set.
    unsafe { first_word(&raw const (*context).uc_sigmask) }
}

#[cfg(target_arch = "x86_64")]
fn program_counter(context: *mut libc::c_void) -> usize {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] as usize }
}

#[cfg(target_arch = "aarch64")]
fn program_counter(context: *mut libc::c_void) -> usize {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    unsafe { (*context).uc_mcontext.pc as usize }
}
