//! Kernel threads: their ids, the CPUs that they run on, and the time that they used.

use super::clock;
use super::gettime::clock_time;
use crate::os::here;
use crate::os::sync::{AtomicU64, Ordering};
use crate::os::threads::{ChildUsage, LOWEST_NICE};
use runyard_engine::time::{Nanos, Time};
use std::fs::File;
use std::io::{Read, Write};

pub(crate) use super::gettime::monotonic;

/// The kernel's id of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tid(pub(crate) i32);

/// Returns the calling thread's id.
pub(crate) fn current() -> Tid {
    // SAFETY: the call has no arguments and cannot fail.
    Tid(unsafe { libc::gettid() })
}

/// Returns the CPUs on which the calling thread may run, in order: those of the process, as long as this thread is not
/// bound. Returns none if the kernel refuses to say.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    Mask::of_thread(Tid(0)).map_or_else(Vec::new, |mask| mask.iter().collect())
}

/// Returns whether the kernel lets this process bind its threads, by a try on a thread of its own.
pub(crate) fn may_pin(cpu: usize) -> bool {
    std::thread::spawn(move || bind(current(), [cpu])).join().unwrap_or(false)
}

/// Binds a thread to these CPUs. Returns `false` if the kernel refuses.
pub(crate) fn bind(thread: Tid, cpus: impl IntoIterator<Item = usize>) -> bool {
    Mask::of(cpus).bind(thread)
}

/// Gives the kernel a set with a bit for each CPU. Returns `false` if the kernel refuses. May be called in a signal
/// handler.
fn set_affinity(thread: Tid, bits: &[u64]) -> bool {
    // SAFETY: the kernel reads at most as many bytes as the slice has.
    unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, thread.0, size_of_val(bits), bits.as_ptr()) == 0
    }
}

/// A set of CPUs of this machine, in the kernel's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mask([u64; MASK_WORDS]);

impl Mask {
    /// Returns the set of these CPUs. Numbers that no kernel gives to a CPU are left out.
    pub(crate) fn of(cpus: impl IntoIterator<Item = usize>) -> Mask {
        let mut mask = Mask([0; MASK_WORDS]);
        let known = cpus.into_iter().filter(|&cpu| cpu < LINUX_CPUS);
        known.for_each(|cpu| mask.0[cpu / 64] |= 1 << (cpu % 64));
        mask
    }

    /// Returns the CPUs on which a thread may run; `None` if the kernel refuses to say.
    pub(crate) fn of_thread(thread: Tid) -> Option<Mask> {
        let mut bits = [0; MASK_WORDS];
        // SAFETY: the kernel writes at most as many bytes as the array has.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                thread.0,
                size_of_val(&bits),
                bits.as_mut_ptr(),
            )
        };
        (written > 0).then_some(Mask(bits))
    }

    /// Returns the CPUs that are in both sets.
    pub(crate) fn intersection(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Returns the numbers of its CPUs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..LINUX_CPUS).filter(|cpu| self.0[cpu / 64] >> (cpu % 64) & 1 == 1)
    }

    /// Binds a thread to these CPUs. Returns `false` if the kernel refuses.
    pub(crate) fn bind(&self, thread: Tid) -> bool {
        set_affinity(thread, &self.0)
    }
}

/// The number of CPUs that this machine may have, or a little more.
fn most_cpus() -> usize {
    // SAFETY: the call takes only a number.
    let known = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(known).unwrap_or(0)
}

/// A set of CPUs of this machine that all threads read, and one thread changes. A reader sees each CPU as it was before
/// the change or as it is after it.
#[derive(Debug)]
pub(crate) struct Places(Box<[AtomicU64]>);

impl Places {
    /// Returns the set of these CPUs, which may be changed to any set of the machine's CPUs.
    pub(crate) fn new(cpus: &[usize]) -> Places {
        let last = cpus.iter().max().copied().unwrap_or(0).min(LINUX_CPUS - 1);
        let words = most_cpus().div_ceil(64).max(last / 64 + 1).min(MASK_WORDS);
        let places = Places((0..words).map(|_| AtomicU64::new(0)).collect());
        places.set(&Mask::of(cpus.iter().copied()));
        places
    }

    /// Changes the set. CPUs beyond those of the machine are left out.
    pub(crate) fn set(&self, mask: &Mask) {
        for (word, bits) in self.0.iter().zip(&mask.0) {
            word.store(*bits, Ordering::SeqCst);
        }
    }

    pub(crate) fn mask(&self) -> Mask {
        let word = |nth: usize| self.0.get(nth).map_or(0, |word| word.load(Ordering::SeqCst));
        Mask(std::array::from_fn(word))
    }

    /// Returns the numbers of its CPUs, in order. May be called in a signal handler.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..64 * self.0.len() as u32).filter(|&cpu| self.has(cpu))
    }

    pub(crate) fn has(&self, cpu: u32) -> bool {
        let word = self.0.get(cpu as usize / 64);
        word.is_some_and(|word| word.load(Ordering::SeqCst) >> (cpu % 64) & 1 == 1)
    }

    /// Returns the first words of the set, if it has no CPU beyond them.
    fn few(&self) -> Option<[u64; STEERED_CPUS / 64]> {
        let (few, others) = self.0.split_at(self.0.len().min(STEERED_CPUS / 64));
        let is_empty = others.iter().all(|word| word.load(Ordering::SeqCst) == 0);
        let word = |nth: usize| few.get(nth).map_or(0, |word| word.load(Ordering::SeqCst));
        is_empty.then(|| std::array::from_fn(word))
    }
}

/// The most CPUs that the kernel may have for threads to be steered: larger sets would take much of a signal handler's
/// stack.
const STEERED_CPUS: usize = 1_024;

/// Returns the CPU on which the calling thread runs at this moment. May be called in a signal handler.
pub(crate) fn current_cpu() -> u32 {
    // SAFETY: the call has no arguments.
    unsafe { libc::sched_getcpu() }.max(0) as u32
}

/// Returns whether the thread may use exactly these CPUs. May be called in a signal handler.
pub(crate) fn may_run_on(thread: Tid, places: &Places) -> bool {
    places.few().is_some_and(|bits| may_run_on_these(thread, &bits))
}

fn may_run_on_these(thread: Tid, places: &[u64; STEERED_CPUS / 64]) -> bool {
    let mut bits = [0_u64; STEERED_CPUS / 64];
    // SAFETY: the kernel writes at most as many bytes as the array has.
    let written = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, thread.0, size_of_val(&bits), bits.as_mut_ptr())
    };
    written > 0 && bits == *places
}

/// Returns whether the thread may use this CPU and no other. May be called in a signal handler.
pub(crate) fn runs_on_one(thread: Tid, cpu: u32) -> bool {
    one(cpu).is_some_and(|bits| may_run_on_these(thread, &bits))
}

/// Binds a thread as [`bind`] does; refuses a set with CPUs of high numbers, of which no thread is steered. May be called
/// in a signal handler.
pub(crate) fn bind_to(thread: Tid, places: &Places) -> bool {
    places.few().is_some_and(|bits| set_affinity(thread, &bits))
}

/// Binds a thread to one CPU. May be called in a signal handler.
pub(crate) fn bind_to_one(thread: Tid, cpu: u32) -> bool {
    one(cpu).is_some_and(|bits| set_affinity(thread, &bits))
}

/// Returns the set of one CPU, if its number is not too large.
fn one(cpu: u32) -> Option<[u64; STEERED_CPUS / 64]> {
    let mut bits = [0_u64; STEERED_CPUS / 64];
    *bits.get_mut(cpu as usize / 64)? = 1 << (cpu % 64);
    Some(bits)
}

/// The most CPUs of a Linux kernel (`CONFIG_NR_CPUS`, x86-64 with `MAXSMP`).
const LINUX_CPUS: usize = 8_192;

/// The words of a mask.
const MASK_WORDS: usize = LINUX_CPUS / 64;

/// Waits, by `wait`, as exactly as the kernel can: with a timer slack of 1 ns. After that the calling thread has its
/// initial slack again.
pub(crate) fn exactly(wait: impl FnOnce()) {
    be_exact();
    wait();
    // Zero restores the slack that the thread inherited from its creator.
    set_slack(0);
}

/// Makes every later wait of the calling thread end as exactly as the kernel can, with a timer slack of 1 ns.
pub(crate) fn be_exact() {
    set_slack(1);
}

fn set_slack(nanos: libc::c_ulong) {
    // SAFETY: the call takes only numbers.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, nanos);
    }
}

/// Returns the nice value of a thread of this process. May be called in a signal handler.
pub(crate) fn nice(thread: Tid) -> Option<i32> {
    // SAFETY: the call takes only numbers. The kernel returns 20 less the nice value, or a negative error.
    let answer = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread.0) };
    (answer > 0).then(|| 20 - answer as i32)
}

/// Gives a thread of this process another nice value. Returns the value before; `None` if the kernel refuses. May be
/// called in a signal handler.
pub(crate) fn renice(thread: Tid, to: i32) -> Option<i32> {
    let before = nice(thread)?;
    // SAFETY: the call takes only numbers.
    let set = unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, thread.0, to) };
    (set == 0).then_some(before)
}

/// Returns whether a thread whose nice value was raised can have the old one back (`RLIMIT_NICE`, `CAP_SYS_NICE`), by a
/// try on a thread of its own.
pub(crate) fn may_renice() -> bool {
    let is_back = || {
        let own = current();
        renice(own, LOWEST_NICE).is_some_and(|before| renice(own, before).is_some())
    };
    std::thread::Builder::new().spawn(is_back).is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// The shortest slice that the kernel gives (`__setparam_fair` of Linux 6.18). A thread with this slice gets a CPU at
/// once beside busy threads with longer slices, otherwise when those end (`PREEMPT_SHORT`, since Linux 6.12).
pub(crate) const SHORTEST_SLICE: Nanos = Nanos::from_micros(100);

/// Asks the kernel for a slice of the calling thread, and returns whether it has it now. It has it since Linux 6.12 if
/// the thread is SCHED_OTHER or SCHED_BATCH. `None` restores the default slice.
pub fn set_slice(slice: Option<Nanos>) -> bool {
    let Some(old) = scheduling() else { return false };
    let wanted = slice.map_or(0, |slice| slice.0);
    let new = libc::sched_attr { sched_runtime: wanted, ..old };
    let taken = set_scheduling(&new);
    // A kernel without slices accepts the call and ignores the slice.
    taken && slice.is_none_or(|_| scheduling().is_some_and(|now| now.sched_runtime == wanted))
}

/// Makes the calling thread SCHED_DEADLINE: this much CPU time in each period, before the deadline after the period's
/// begin. Threads that it creates are not SCHED_DEADLINE.
///
/// # Errors
/// The errors of the kernel.
pub fn set_deadline(runtime: Nanos, deadline: Nanos, period: Nanos) -> std::io::Result<()> {
    let new = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_DEADLINE.cast_unsigned(),
        // Without this flag the kernel lets the thread create no thread.
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: runtime.0,
        sched_deadline: deadline.0,
        sched_period: period.0,
    };
    match set_scheduling(&new) {
        true => Ok(()),
        false => Err(std::io::Error::last_os_error()),
    }
}

/// Runs `does` ahead of all fair threads: meanwhile the calling thread, if it is fair, is SCHED_FIFO of the lowest
/// priority. Without the permission for that, it stays as it is.
pub fn ahead_of_fair<T>(does: impl FnOnce() -> T) -> T {
    struct Back(libc::sched_attr);
    impl Drop for Back {
        fn drop(&mut self) {
            set_scheduling(&self.0);
        }
    }
    const FAIR: [i32; 3] = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
    let old = scheduling().filter(|old| FAIR.contains(&old.sched_policy.cast_signed()));
    let fifo = |old| libc::sched_attr {
        sched_policy: libc::SCHED_FIFO.cast_unsigned(),
        sched_priority: 1,
        ..old
    };
    let _back = old.filter(|&old| set_scheduling(&fifo(old))).map(Back);
    does()
}

/// Gives the calling thread these scheduling attributes. Returns `false` if the kernel refuses.
fn set_scheduling(attr: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads as many bytes as the structure says that it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attr, 0) == 0 }
}

/// Returns the calling thread's scheduling attributes.
fn scheduling() -> Option<libc::sched_attr> {
    let mut attr = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = size_of_val(&attr);
    // SAFETY: the kernel writes at most the number of bytes that it is given.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    (got == 0).then_some(attr)
}

/// Returns the CPU time that a thread of this process has used; `None` if the thread has ended.
pub(crate) fn cpu_time(thread: Tid) -> Option<Nanos> {
    clock_time(cpu_clock(thread)).map(|at| Nanos(at.0))
}

/// Returns the clock of a thread's CPU time, in the kernel's encoding: `CPUCLOCK_SCHED` of one thread.
pub(crate) fn cpu_clock(thread: Tid) -> libc::clockid_t {
    !thread.0 << 3 | 6
}

/// Whether the CPU time of a thread is known.
pub(crate) const KNOWS_CPU_TIME: bool = true;

/// Returns the CPU time that the calling thread has used. May be called in a signal handler.
pub(crate) fn own_cpu_time() -> Nanos {
    clock_time(libc::CLOCK_THREAD_CPUTIME_ID).map_or(Nanos::ZERO, |at| Nanos(at.0))
}

/// Returns how often the calling thread has given its CPU away to wait. May be called in a signal handler.
pub(crate) fn nr_own_waits() -> u64 {
    // SAFETY: a zeroed rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage into a valid one.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw.cast_unsigned()
}

/// Returns the use of the CPUs by the children of this process that have ended and were waited for, and by their own
/// such children.
pub fn children() -> ChildUsage {
    // SAFETY: a zeroed rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage into a valid one.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let nanos = |time: libc::timeval| {
        Nanos::from_micros(time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned())
    };
    let switches = usage.ru_nvcsw.cast_unsigned() + usage.ru_nivcsw.cast_unsigned();
    ChildUsage { user: nanos(usage.ru_utime), system: nanos(usage.ru_stime), switches }
}

/// Returns whether a thread of this process waits in the kernel. A thread that only waits for a CPU does not count.
/// `None` if `/proc` does not say.
pub(crate) fn is_blocked(thread: Tid) -> Option<bool> {
    let mut stat = [0; 128];
    let stat = in_proc(thread, "stat", &mut stat)?;
    // The state follows the name, which is in parentheses and may itself contain parentheses.
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_end + 2).map(|state| matches!(state, b'S' | b'D'))
}

/// Returns whether a thread of this process has this signal in its mask. `None` if `/proc` does not say.
pub(crate) fn blocks_signal(thread: Tid, signal: i32) -> Option<bool> {
    // The mask stands in the first kilobyte, unless the user is in very many groups.
    let mut status = [0; 4096];
    let status = std::str::from_utf8(in_proc(thread, "status", &mut status)?).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// Reads the beginning of the file that `/proc` has of a thread of this process. Allocates nothing: a thread that waits
/// may hold the allocator's lock.
pub(super) fn in_proc<'b>(thread: Tid, name: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let mut path = [0; 64];
    let mut rest = &mut path[..];
    write!(rest, "/proc/self/task/{}/{name}", thread.0).ok()?;
    let left = rest.len();
    let path = std::str::from_utf8(&path[..path.len() - left]).ok()?;
    let read = File::open(path).and_then(|mut file| file.read(buffer)).ok()?;
    Some(&buffer[..read])
}

/// Returns how many processes and threads the user may have, if that is limited (`RLIMIT_NPROC`).
pub(crate) fn most_of_user() -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit into a valid one.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

/// Returns the time on the monotonic clock; in a paused runtime, on the virtual clock. It is never ahead of
/// [`monotonic`], and may be about a microsecond behind: see [`clock`]. May be called in a signal handler.
pub(crate) fn now() -> Time {
    here::now().unwrap_or_else(clock::now)
}

/// Decides how [`now`] reads the monotonic clock. Not for signal handlers.
pub(crate) fn choose_clock() {
    clock::choose();
}
