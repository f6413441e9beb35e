//! The doorbell: a signal that says "look", and nothing else.
//!
//! The handler keeps errno, and calls [`Calls::rung`],
//! which does atomics and futex calls only (H1). While it runs every signal waits but those of
//! faults (`sa_mask`, H9). The signal may come late, twice, or from somebody else: the handler looks at words that
//! say what is wanted (H8).
//!
//! Workers hear every signal that the thread hears which built the runtime: the threads and programs that
//! tasks start inherit that. So our signal may interrupt another handler.

use crate::os::above::{Above, Calls};
use crate::os::quiet::Frame;
use crate::os::stack::Copied;
use crate::os::thread::Tid;
use crate::os::unwind::Registers;
use crate::os::{clock, code, local};
use std::ops::Range;

pub(crate) use crate::os::above::Signals;

/// The signal of a runtime, if not said.
pub(crate) const USUAL: i32 = libc::SIGURG;

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
    // After the instant of a timer no clock is before it.
    clock::forget();
    // Who unwinds may hold the lock of standard error, or the loader's (H5). Reads words only.
    let unsafe_point = code::is_unsafe(interrupted(context)) || std::thread::panicking();
    let deaf_to = deaf_to(context);
    let copy = |place: &Copied, worker: u32, poll: u64, stack: Range<usize>| {
        // SAFETY: the stack is this thread's, as the C library said when the thread began; it is mapped from below the
        // stack pointer, which is in it, up to the beginning of the poll.
        unsafe { place.answer(worker, poll, stack, || registers(context)) };
    };
    local::handling(|| Above::rung(unsafe_point, deaf_to, copy));
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

/// Where the thread was interrupted.
#[cfg(target_arch = "x86_64")]
fn interrupted(context: *mut libc::c_void) -> Frame {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let [pc, sp, fp] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP]
        .map(|register| registers[register as usize] as usize);
    Frame { pc, sp, fp }
}

/// Where the thread was interrupted.
#[cfg(target_arch = "aarch64")]
fn interrupted(context: *mut libc::c_void) -> Frame {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext };
    let [pc, sp, fp] = [registers.pc, registers.sp, registers.regs[29]].map(|word| word as usize);
    Frame { pc, sp, fp }
}

/// All registers with which the thread was interrupted.
#[cfg(target_arch = "x86_64")]
fn registers(context: *mut libc::c_void) -> Registers {
    use libc::{REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    use libc::{REG_RAX, REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RIP, REG_RSI, REG_RSP};
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    // In the order in which tables of unwinding number them.
    let first = [REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP];
    let others = [REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15];
    let mut all = first.into_iter().chain(others).chain([REG_RIP]);
    std::array::from_fn(|_| all.next().map_or(0, |nth| registers[nth as usize] as usize))
}

/// All registers with which the thread was interrupted.
#[cfg(target_arch = "aarch64")]
fn registers(context: *mut libc::c_void) -> Registers {
    let context: *const libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler with SA_SIGINFO.
    let registers = unsafe { &(*context).uc_mcontext };
    // In the order in which tables of unwinding number them.
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

    /// How often a thread was interrupted in the library where it may hold a lock, and where it does not.
    static VERDICTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    /// How often is enough: sampled code is at some places much more often than at others.
    const ENOUGH: usize = 200;

    /// For how long at the most, on a busy machine.
    const LIMIT: Duration = Duration::from_secs(20);

    extern "C" fn judge(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let at = interrupted(context);
        if code::is_in_library(at.pc) {
            let held = usize::from(code::is_unsafe(at));
            VERDICTS[held].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Interrupts a thread that makes `call` all the time. How often it was found in the library without a lock, and
    /// where it may hold one.
    fn interrupted_in(mut call: impl FnMut() + Send) -> [usize; 2] {
        /// The handler and its counters are the process's.
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        code::find_libraries();
        VERDICTS.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        // SAFETY: a sigaction of zeros is one; the handler reads words only, and counts.
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
                // At moments that have nothing to do with what the thread does.
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

    /// Fails unless by far the most interruptions in the library were where no lock is held. The rest is between the
    /// program and the function: the loader, and the moment before a system call. That is 3 % of a short call on a
    /// machine with nothing else to do, and was 10 and 17 % beside compilers. A wrong verdict would be wrong each time.
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
        // SAFETY: the calls take numbers only.
        holds_nothing("syscall", || unsafe {
            black_box(libc::syscall(libc::SYS_gettid));
        });
        // The library itself sorts and allocates between two calls of it.
        let [free, held] = interrupted_in(|| {
            let mut numbers = [[3_u8; 512], [2; 512], [1; 512]];
            // SAFETY: there are three, of that size, and the function compares two of them.
            unsafe { libc::qsort(numbers.as_mut_ptr().cast(), 3, 512, Some(compare)) };
        });
        assert!(free > held, "a callback: {free} free, {held} may hold a lock");
    }

    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        // SAFETY: `qsort` gives two of what it sorts. Called often: it is to be interrupted here.
        (0..50).map(|_| unsafe { libc::memcmp(black_box(a), black_box(b), 512) }).sum()
    }

    #[test]
    fn who_waits_in_the_kernel_is_let_go_on_as_before() {
        // It begins its call again, and so is before it.
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
            // Copies from its buffer.
            let zero = libc::fopen(c"/dev/zero".as_ptr(), c"r".as_ptr()).addr();
            let mut bytes = vec![0_u8; 3_000];
            may_hold("fread", move || {
                libc::fread(bytes.as_mut_ptr().cast(), 1, bytes.len(), zero as *mut libc::FILE);
            });
            libc::fclose(zero as *mut libc::FILE);
            // Too large for its heap: mapped, and unmapped.
            may_hold("malloc", || libc::free(black_box(libc::malloc(64 << 20))));
            may_hold("fork", || {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(0);
                }
                // Not by the library's function, which would be free.
                let raw = rustix::process::Pid::from_raw(child);
                let _ = rustix::process::waitpid(raw, rustix::process::WaitOptions::empty());
            });
        }
    }
}
