//! Disturbances for tests: slow signal handlers like those of other crates, a library that is loaded and unloaded,
//! children of each kind, and checks of the vector registers.

use super::thread::Tid;
use crate::os::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::os::{fork, signal};
use std::ffi::CString;
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether a thread is in the handler, which is not to be entered twice.
static IS_HANDLING: AtomicBool = AtomicBool::new(false);

/// The least time that the handler computes: long compared with the time between two ticks. It stays below the 10 ms for
/// which the runtime lets a handler go on, also where this code is not optimised.
const HANDLES_FOR: Duration = Duration::from_micros(300);

/// The number of steps that take this time. The handler reads no clock, since that is in the C library.
static HANDLER_STEPS: AtomicU32 = AtomicU32::new(0);

/// Installs a handler for a signal that computes for long under a lock, outside the C library.
pub fn handle_slowly(signal: i32) {
    HANDLER_STEPS.store(steps_in(HANDLES_FOR), Ordering::SeqCst);
    // SAFETY: a zeroed sigaction is valid, with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the kernel reads one sigaction; the handler uses only atomics.
    let installed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0, "the kernel accepts the handler");
}

/// Returns whether the lock of [`handle_slowly`]'s handler is held.
pub fn is_handling() -> bool {
    IS_HANDLING.load(Ordering::SeqCst)
}

extern "C" fn handler(_: i32) {
    IS_HANDLING.store(true, Ordering::SeqCst);
    compute(HANDLER_STEPS.load(Ordering::SeqCst));
    IS_HANDLING.store(false, Ordering::SeqCst);
}

/// Counts the steps, with no call of another library.
fn compute(steps: u32) -> u32 {
    (0..steps).fold(0, |sum, _| black_box(sum) + 1)
}

/// Returns a number of steps that takes `span` or longer, mostly less than twice as long.
fn steps_in(span: Duration) -> u32 {
    let takes = |steps| {
        let began = Instant::now();
        black_box(compute(steps));
        began.elapsed()
    };
    let mut sizes = (10..u32::BITS).map(|bit| 1 << bit);
    sizes.find(|&steps| takes(steps) >= span).expect("a loop takes time")
}

/// Loads a library, calls its function `double name(double)`, and unloads the library; `None` if there is none. It is
/// here because it needs `unsafe`, which is allowed nowhere else.
///
/// # Panics
/// If a name contains a zero byte.
#[must_use]
#[track_caller]
pub fn call_in_library(library: &str, name: &str, argument: f64) -> Option<f64> {
    let [library, name] =
        [library, name].map(|it| CString::new(it).expect("a name has no zero byte"));
    // SAFETY: the names end in zero. The caller says that the function takes and returns a double, and the library
    // stays loaded until it has returned.
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

/// Sends a signal to a thread of this process, by the kernel's number of the thread.
pub fn ring(thread: i32, signal: i32) {
    signal::ring(Tid(thread), signal);
}

/// The number of times that the handler of [`interrupt_by`] ran.
static INTERRUPTIONS: AtomicUsize = AtomicUsize::new(0);

/// Installs an empty handler for a signal, so that the signal ends system calls early.
///
/// # Panics
/// If the kernel refuses the handler.
#[track_caller]
pub fn interrupt_by(signal: i32) {
    extern "C" fn count(_: i32) {
        INTERRUPTIONS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: a zeroed sigaction is valid, with an empty mask and without SA_RESTART.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as *const () as usize;
    // SAFETY: the kernel reads one sigaction; the handler uses only atomics.
    let installed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0, "the kernel accepts the handler");
}

/// Returns how often the signal of [`interrupt_by`] has come so far, to any thread.
pub fn interruptions() -> usize {
    INTERRUPTIONS.load(Ordering::Relaxed)
}

/// Returns the bytes left of the calling thread's stack.
///
/// # Panics
/// If the C library does not know the stack.
#[track_caller]
pub fn stack_left() -> usize {
    let here = 0_u8;
    let mut lowest = std::ptr::null_mut();
    // SAFETY: the first call makes the attributes, the second reads them, and the third destroys them.
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

/// The way in which a child with a copy of the memory is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// By fork(2) of the C library.
    Fork,
    /// By the system call clone(2), of which the C library does not learn.
    Clone,
}

/// Makes a child. Returns `None` in the child, and the child's process id in its parent.
///
/// # Panics
/// If the kernel refuses the child.
#[must_use]
#[track_caller]
pub fn fork(birth: Birth) -> Option<i32> {
    // SAFETY: the callers are tests, whose children call the C library only as it allows them to.
    let child = unsafe {
        match birth {
            Birth::Fork => libc::fork(),
            Birth::Clone => libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32,
        }
    };
    assert!(child >= 0, "{birth:?}: {}", std::io::Error::last_os_error());
    (child > 0).then_some(child)
}

/// The bytes of the stack of a child that shares its parent's memory.
const CHILD_STACK: usize = 256 << 10;

/// Makes a child that has the memory of its parent, which waits, as vfork(2) does. It has a stack of its own, runs
/// `body` and exits with the result. Returns its process id.
///
/// # Panics
/// If the kernel refuses the child.
#[must_use]
#[track_caller]
pub fn vfork<F: FnMut() -> i32>(mut body: F) -> i32 {
    extern "C" fn run<F: FnMut() -> i32>(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `vfork` passes a pointer to its closure, which lives until the child is over.
        exit_at_once(unsafe { (*body.cast::<F>())() })
    }
    let mut stack = vec![0_u128; CHILD_STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the calling thread waits until the child has left the memory, so nobody else uses the closure and the
    // stack meanwhile.
    let child = unsafe {
        libc::clone(run::<F>, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut body).cast())
    };
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    child
}

/// Ends the process as the C library does, with the destructors of the thread. The standard library's exit takes a lock
/// of its own, which in a child of fork a thread of the parent may hold that started or ended then.
pub fn exit(code: i32) -> ! {
    // SAFETY: no other thread of a child of fork calls it.
    unsafe { libc::exit(code) }
}

/// Ends the process without its destructors.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: the call takes only a number.
    unsafe { libc::_exit(code) }
}

/// Waits for the end of a child. Returns its exit code, or the negative number of the signal that ended it.
///
/// # Panics
/// If it is no child of this process.
#[must_use]
#[track_caller]
pub fn status_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the kernel writes the status to a valid place.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1 {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
    }
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}

/// Makes a command run `hook` between fork(2) and execve(2).
pub fn before_exec(command: &mut Command, mut hook: impl FnMut() + Send + Sync + 'static) {
    // SAFETY: the callers are tests, whose hooks allocate and compute. The C library's allocator can do so in a child.
    unsafe {
        command.pre_exec(move || {
            hook();
            Ok(())
        });
    }
}

/// Gives away the rights of the calling thread alone, for ever: the other threads keep theirs.
///
/// # Panics
/// If the kernel refuses.
#[track_caller]
pub fn drop_rights_of_thread() {
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: the call takes only numbers. The C library would change all threads.
    let set = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Pretends from now on that the kernel refuses a page that it clears in a child. Called before the first runtime.
pub fn refuse_wiping() {
    fork::IS_REFUSED.store(true, Ordering::SeqCst);
}

/// The vector registers: room for the largest set of any supported machine.
pub type Vectors = [u64; 32 * 8];

/// Fills the vector registers, computes for this many rounds without touching them, and returns their content after
/// that. Words that no register of this machine holds are returned as they were given.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn hold_in_vectors(before: &Vectors, rounds: u64) -> Vectors {
    /// Makes one round trip: `$move` is the instruction, `$kind` the kind of register, `$size` its bytes.
    macro_rules! hold {
        ($move:literal, $kind:literal, $size:literal, $after:ident, $($nth:literal)*) => {
            // SAFETY: each register is read from and written to its own part of an array that has room for all
            // registers of the largest kind. The clobbers name all vector registers.
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

/// Does the same on other machines, in registers of the compiler's choice.
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
