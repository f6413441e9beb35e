//! The doorbell: a signal that only tells a thread to check its words.
//!
//! The handler keeps errno and calls [`Calls::rung`], which uses only atomics and futex calls (H1). While it runs, all
//! signals except those of faults are blocked (`sa_mask`, H9). It runs on a [stack of its own](super::alternate). The signal may come late, twice, or from another sender:
//! the words say which actions are wanted (H8).
//!
//! A worker's signal mask is that of the thread that built the runtime: threads and programs that tasks start inherit
//! it. So our signal may interrupt another handler.

use super::quiet::Frame;
use super::stack::Copied;
use super::thread::Tid;
use super::unwind::Registers;
use super::{clock, code};
use crate::os::above::{Above, Calls};
use crate::os::refusal::Later;
use crate::os::{errno, local};
use std::ops::Range;

pub(crate) use crate::os::above::Signals;

/// A runtime's signal if the program sets none.
pub(crate) const USUAL: i32 = libc::SIGURG;

/// Installs the handler for `signal`, once for the process. Returns `false` if the signal has another handler.
pub(crate) fn install(signal: i32) -> bool {
    code::find_libraries();
    // SAFETY: a zeroed sigaction is valid, and every field that is read is set.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the mask is ours, and the pointers given to the kernel lead to valid structures. The handler takes
    // only actions that a handler may take.
    unsafe {
        action.sa_mask = all_but_faults();
        libc::sigaction(signal, std::ptr::null(), &raw mut old);
        let free = [libc::SIG_DFL, libc::SIG_IGN, action.sa_sigaction];
        free.contains(&old.sa_sigaction)
            && libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// Returns whether `signal` still has our handler: other code of the process may install its own (H16).
pub(crate) fn is_ours(signal: i32) -> bool {
    // SAFETY: a zeroed sigaction is valid.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one sigaction into a valid one.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) } == 0;
    known && now.sa_sigaction == handler as *const () as usize
}

/// Rings the bell of a thread of this process. If the thread has ended, nothing happens: the default action of the
/// signal is to ignore it (H17). May be called in a signal handler.
pub(crate) fn ring(thread: Tid, signal: i32) {
    // SAFETY: the call takes only numbers.
    let is_sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, signal) == 0 };
    if !is_sent && std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) {
        super::note_refused(Later::Signals);
    }
}

/// Unblocks `signal` on the calling thread. Returns the signals that it then blocks: those that its creator blocked,
/// without `signal`.
pub(crate) fn listen_to(signal: i32) -> Signals {
    // SAFETY: a zeroed set is valid. The kernel reads our set, and writes one into a valid set.
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

/// Blocks all signals on the calling thread except those that its own faults raise.
pub(crate) fn listen_to_nothing() {
    let deaf_to = all_but_faults();
    // SAFETY: the set is ours and initialised; the kernel only reads it.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const deaf_to, std::ptr::null_mut());
    }
}

/// Returns the part of a set that the kernel uses; the C library's set has room for more.
///
/// # Safety
/// The pointer leads to a set that has at least this word.
unsafe fn first_word(set: *const libc::sigset_t) -> Signals {
    // SAFETY: as the caller promises; the set is aligned for words.
    unsafe { set.cast::<Signals>().read() }
}

/// Returns every signal except those that a thread's own faults raise.
fn all_but_faults() -> libc::sigset_t {
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
    // SAFETY: the first call initialises the set.
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
    errno::kept(|| {
        // Discards the clock's anchor: after the instant of a timer no reading may lie before it.
        clock::forget();
        // A thread that unwinds may hold the lock of standard error, or the loader's (H5). The check only reads words.
        let unsafe_point = code::is_unsafe(interrupted(context)) || std::thread::panicking();
        let deaf_to = deaf_to(context);
        let copy = |place: &Copied, worker: u32, poll: u64, stack: Range<usize>| {
            // SAFETY: the stack is this thread's, as the C library said when the thread began. It is mapped from below the
            // stack pointer, if that is in it, up to the beginning of the poll.
            unsafe { place.answer(worker, poll, stack, || registers(context)) };
        };
        local::handling(|| Above::rung(unsafe_point, deaf_to, copy));
    });
}

/// Returns the signals that the interrupted code blocked.
fn deaf_to(context: *mut libc::c_void) -> Signals {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO, and writes the first
    // word of this set.
    unsafe { first_word(&raw const (*context).uc_sigmask) }
}

/// Returns the frame in which the thread was interrupted.
#[cfg(target_arch = "x86_64")]
fn interrupted(context: *mut libc::c_void) -> Frame {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let [pc, sp, fp] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP]
        .map(|register| registers[register as usize] as usize);
    Frame { pc, sp, fp }
}

/// Returns the frame in which the thread was interrupted.
#[cfg(target_arch = "aarch64")]
fn interrupted(context: *mut libc::c_void) -> Frame {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext };
    let [pc, sp, fp] = [registers.pc, registers.sp, registers.regs[29]].map(|word| word as usize);
    Frame { pc, sp, fp }
}

/// Returns all registers with which the thread was interrupted.
#[cfg(target_arch = "x86_64")]
fn registers(context: *mut libc::c_void) -> Registers {
    use libc::{REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    use libc::{REG_RAX, REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP};
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    // The order is the numbering of unwinding tables.
    let first = [REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP];
    let others = [REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15];
    let mut all = first.into_iter().chain(others).chain([REG_RIP]);
    std::array::from_fn(|_| all.next().map_or(0, |nth| registers[nth as usize] as usize))
}

/// Returns all registers with which the thread was interrupted.
#[cfg(target_arch = "aarch64")]
fn registers(context: *mut libc::c_void) -> Registers {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext };
    // The order is the numbering of unwinding tables.
    let mut all = registers.regs.into_iter().chain([registers.sp, registers.pc]);
    std::array::from_fn(|_| all.next().map_or(0, |word| word as usize))
}

#[cfg(all(test, target_env = "gnu", target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// How often a thread was interrupted in the library where it holds no lock, and where it may hold one.
    static VERDICTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    /// The number of samples that is enough: some places of the code are sampled much more often than others.
    const ENOUGH: usize = 200;

    /// The time limit, for a busy machine.
    const LIMIT: Duration = Duration::from_secs(20);

    extern "C" fn judge(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let at = interrupted(context);
        if code::is_in_library(at.pc) {
            let held = usize::from(code::is_unsafe(at));
            VERDICTS[held].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Interrupts a thread that repeats `call`. Returns how often it was found in the library without a lock, and how
    /// often where it may hold one.
    fn interrupted_in(mut call: impl FnMut() + Send) -> [usize; 2] {
        /// Serialises the tests: the handler and its counters belong to the process.
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        code::find_libraries();
        VERDICTS.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        // SAFETY: a zeroed sigaction is valid; the handler only reads words, and counts.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = judge as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        }
        let (tid, over) = (AtomicI32::new(0), AtomicBool::new(false));
        let counts = || [0, 1].map(|held: usize| VERDICTS[held].load(Ordering::Relaxed));
        thread::scope(|scope| {
            scope.spawn(|| {
                tid.store(crate::os::thread::current().0, Ordering::SeqCst);
                while !over.load(Ordering::SeqCst) {
                    call();
                }
            });
            let began = Instant::now();
            while counts().iter().sum::<usize>() < ENOUGH && began.elapsed() < LIMIT {
                // The moments of the interruptions do not depend on the thread's progress.
                thread::sleep(Duration::from_micros(
                    50 + began.elapsed().subsec_nanos() as u64 % 97,
                ));
                match tid.load(Ordering::SeqCst) {
                    0 => {}
                    tid => ring(Tid(tid), libc::SIGUSR1),
                }
            }
            over.store(true, Ordering::SeqCst);
        });
        counts()
    }

    /// Fails unless most interruptions in the library were at places without a lock. The others hit code between the
    /// program and the function: the loader, and the moment before a system call. They are 3 % of a short call on an
    /// idle machine, and were 10 and 17 % beside compilers. A wrong verdict would be wrong each time.
    fn holds_nothing(what: &str, call: impl FnMut() + Send) {
        let [free, held] = interrupted_in(call);
        assert!(free > 2 * held && free > 0, "{what}: {free} free, {held} may hold a lock");
    }

    fn may_hold(what: &str, call: impl FnMut() + Send) {
        let [free, held] = interrupted_in(call);
        assert!(free == 0 && held > 0, "{what}: {free} free, {held} may hold a lock");
    }

    #[test]
    fn who_copies_or_compares_holds_nothing() {
        for bytes in [64, 4 << 10, 1 << 20] {
            let (from, mut to) = (vec![1_u8; bytes], vec![0_u8; bytes]);
            holds_nothing("memcpy", || {
                for _ in 0..(1 << 20) / bytes {
                    black_box(&mut to).copy_from_slice(black_box(&from));
                }
            });
            holds_nothing("memcmp", || {
                for _ in 0..(1 << 20) / bytes {
                    black_box(black_box(&to) == black_box(&from));
                }
            });
            holds_nothing("memset", || black_box(&mut to).fill(black_box(7)));
        }
    }

    #[test]
    fn who_makes_a_system_call_holds_nothing() {
        use std::io::{Read, Write};
        let mut bytes = [0; 64];
        let mut zero = std::fs::File::open("/dev/zero").unwrap();
        holds_nothing("read", || zero.read_exact(&mut bytes).unwrap());
        let mut null = std::fs::File::create("/dev/null").unwrap();
        holds_nothing("write", || null.write_all(b"a line").unwrap());
        holds_nothing("stat", || assert!(!std::fs::metadata("/dev/null").unwrap().is_dir()));
        // SAFETY: the calls take only numbers.
        holds_nothing("syscall", || unsafe {
            black_box(libc::syscall(libc::SYS_gettid));
        });
        // The library itself sorts and allocates between two calls of the callback.
        let [free, held] = interrupted_in(|| {
            let mut numbers = [[3_u8; 512], [2; 512], [1; 512]];
            // SAFETY: there are three elements of that size, and the function compares two of them.
            unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 3, 512, Some(compare)) };
        });
        assert!(free > held, "a callback: {free} free, {held} may hold a lock");
    }

    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        // SAFETY: `qsort` passes two of its elements. The comparison is repeated so that most interruptions hit it.
        (0..50).map(|_| unsafe { libc::memcmp(black_box(a), black_box(b), 512) }).sum()
    }

    #[test]
    fn who_waits_in_the_kernel_is_let_go_on_as_before() {
        // An interrupted read begins its system call again, so the thread is found just before the call.
        let (mut here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut there = Some(there);
        let [free, held] = interrupted_in(|| {
            use std::io::Read;
            if let Some(there) = there.take() {
                thread::spawn(move || {
                    thread::sleep(Duration::from_secs(2));
                    drop(there);
                });
            }
            drop(here.read(&mut [0]));
        });
        assert!(held >= ENOUGH / 2, "{free} free, {held} wait");
    }

    #[test]
    fn who_is_called_by_the_library_may_hold_its_locks() {
        // SAFETY: the stream is open until the end, and has no buffer: each call writes.
        unsafe {
            let null = libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr());
            libc::setvbuf(null, std::ptr::null_mut(), libc::_IONBF, 0);
            let stream = null.addr();
            may_hold("fwrite", move || {
                libc::fwrite(c"text".as_ptr().cast(), 1, 4, stream as *mut libc::FILE);
            });
            libc::fclose(null);
            // This one copies from its buffer.
            let zero = libc::fopen(c"/dev/zero".as_ptr(), c"r".as_ptr()).addr();
            let mut bytes = vec![0_u8; 3_000];
            may_hold("fread", move || {
                libc::fread(bytes.as_mut_ptr().cast(), 1, bytes.len(), zero as *mut libc::FILE);
            });
            libc::fclose(zero as *mut libc::FILE);
            // The size is too large for the heap, so the memory is mapped and unmapped.
            may_hold("malloc", || libc::free(black_box(libc::malloc(64 << 20))));
            may_hold("fork", || {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(0);
                }
                // The library's own `waitpid` would count as a place without a lock.
                let raw = rustix::process::Pid::from_raw(child);
                let _ = rustix::process::waitpid(raw, rustix::process::WaitOptions::empty());
            });
        }
    }
}
