//! For tests: signal handlers, as those of crates may be, a call into a library that comes and goes, forks, and
//! the vector registers.

use crate::os::signal;
use crate::os::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::os::thread::Tid;
use std::ffi::CString;
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Whether somebody is in the handler, which is not to be entered twice.
static IS_HANDLING: AtomicBool = AtomicBool::new(false);

/// How much the handler computes: some hundred microseconds, long beside the time between two ticks.
const STEPS: u32 = 1_000_000;

/// Handles a signal by a long computation under a lock, outside of the C library.
pub fn handle_slowly(signal: i32) {
    // SAFETY: a sigaction of zeros is one, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the kernel reads one sigaction; the handler uses atomics only.
    let installed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0, "the signal may be handled");
}

/// Whether the lock is held that the handler of [`handle_slowly`] takes.
pub fn is_handling() -> bool {
    IS_HANDLING.load(Ordering::SeqCst)
}

extern "C" fn handler(_: i32) {
    IS_HANDLING.store(true, Ordering::SeqCst);
    for step in 0..STEPS {
        black_box(step);
    }
    IS_HANDLING.store(false, Ordering::SeqCst);
}

/// Loads a library, calls its function `double name(double)`, and lets the library go; `None` if there is
/// none. What it takes is `unsafe`, which tests have no other place for.
///
/// # Panics
/// If a name has a zero in it.
#[must_use]
pub fn call_in_library(library: &str, name: &str, argument: f64) -> Option<f64> {
    let [library, name] = [library, name].map(|it| CString::new(it).expect("a name has no zero"));
    // SAFETY: the names end in zero. The caller says that the function takes and returns a double, and the
    // library is there until it has returned.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        if handle.is_null() {
            return None;
        }
        let function = libc::dlsym(handle, name.as_ptr());
        let result = (!function.is_null()).then(|| {
            std::mem::transmute::<*mut libc::c_void, extern "C" fn(f64) -> f64>(function)(argument)
        });
        libc::dlclose(handle);
        result
    }
}

/// Sends a signal to a thread of this process, by the kernel's number of it.
pub fn ring(thread: i32, signal: i32) {
    signal::ring(Tid(thread), signal);
}

/// How often the handler of [`interrupt_by`] ran.
static INTERRUPTIONS: AtomicUsize = AtomicUsize::new(0);

/// Handles a signal by nothing, so that it ends system calls early.
///
/// # Panics
/// If the signal cannot be handled.
pub fn interrupt_by(signal: i32) {
    extern "C" fn count(_: i32) {
        INTERRUPTIONS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: a sigaction of zeros is one, with an empty mask and without SA_RESTART.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as usize;
    // SAFETY: the kernel reads one sigaction; the handler uses atomics only.
    let installed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0, "the signal may be handled");
}

/// How often the signal of [`interrupt_by`] came so far, to any thread.
pub fn interruptions() -> usize {
    INTERRUPTIONS.load(Ordering::Relaxed)
}

/// How many bytes of the calling thread's stack are left.
///
/// # Panics
/// If the C library does not know the stack.
pub fn stack_left() -> usize {
    let here = 0_u8;
    let mut lowest = std::ptr::null_mut();
    // SAFETY: the attributes are made by the first call, read by the second, and ended by the third.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let known = libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes);
        assert_eq!(known, 0, "the stack is known");
        let mut size = 0;
        libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    std::ptr::from_ref(&here).addr() - lowest.addr()
}

/// What the child of [`fork_and_compute`] ends with.
pub const COMPUTED: i32 = 42;

/// Makes a child by fork(2), which computes a little, calls nothing and ends. How it ended, as its parent
/// is told: its exit code, or none.
pub fn fork_and_compute() -> Option<i32> {
    let mut status = 0;
    // SAFETY: the child calls nothing that a child of a process with threads must not call: it computes, and
    // ends. The parent waits for its own child, and the kernel writes the status to where one is.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(if compute() == STEPS { COMPUTED } else { 1 });
        }
        while libc::waitpid(child, &raw mut status, 0) == -1 {
            if *libc::__errno_location() != libc::EINTR {
                return None;
            }
        }
    }
    libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
}

fn compute() -> u32 {
    (0..STEPS).fold(0, |sum, _| black_box(sum) + 1)
}

/// Lets a command compute a little between fork(2) and execve(2), which is unsafe to ask for.
pub fn compute_before_exec(command: &mut Command) -> &mut Command {
    // SAFETY: what the child does is to compute: it calls nothing, and takes no lock.
    unsafe {
        command.pre_exec(|| {
            black_box(compute());
            Ok(())
        })
    }
}

/// All vector registers of the machine, or as much as they may have.
pub type Vectors = [u64; 32 * 8];

/// Fills the vector registers, computes for so many rounds without touching them, and gives what they have
/// then: for those words that no register of this machine holds, what was given.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn hold_in_vectors(before: &Vectors, rounds: u64) -> Vectors {
    /// One round trip: `$move` is the instruction, `$kind` the kind of register, `$size` its bytes.
    macro_rules! hold {
        ($move:literal, $kind:literal, $size:literal, $after:ident, $($nth:literal)*) => {
            // SAFETY: each register is read from and written to its own part of an array that has room for all
            // of the largest kind; the clobbers name all vector registers.
            unsafe {
                std::arch::asm!(
                    $(concat!($move, " ", $kind, $nth, ", [{from} + ", $nth, " * ", $size, "]"),)*
                    "2:",
                    "dec rcx",
                    "jnz 2b",
                    $(concat!($move, " [{to} + ", $nth, " * ", $size, "], ", $kind, $nth),)*
                    from = in(reg) before.as_ptr(),
                    to = in(reg) $after.as_mut_ptr(),
                    inout("rcx") rounds.max(1) => _,
                    clobber_abi("sysv64"),
                    options(nostack),
                );
            }
        };
    }
    let mut after = *before;
    if std::arch::is_x86_feature_detected!("avx512f") {
        hold!("vmovdqu64", "zmm", 64, after, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22
            23 24 25 26 27 28 29 30 31);
    } else if std::arch::is_x86_feature_detected!("avx") {
        hold!("vmovdqu", "ymm", 32, after, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    } else {
        hold!("movdqu", "xmm", 16, after, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    after
}

/// As on the other machines, but in registers of the compiler's choice.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn hold_in_vectors(before: &Vectors, rounds: u64) -> Vectors {
    let mut after = *before;
    for round in 0..rounds {
        after.iter_mut().for_each(|word| *word = word.wrapping_add(round));
    }
    for round in 0..rounds {
        after.iter_mut().for_each(|word| *word = word.wrapping_sub(round));
    }
    after
}
