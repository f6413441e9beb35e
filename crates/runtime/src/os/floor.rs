//! The floor under preemption: what this machine takes to stop one thread of a process and start
//! another on its CPU, with nothing around it. For benchmarks, which compare with it. And signals
//! that mean nothing, for tests.

use crate::os::futex;
use crate::os::thread::{self, Tid};
use crate::primitives::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use runyard_engine::time::{Nanos, Time};

/// Rings the bell of every worker, keeper and maker of this process, for no reason: what a stale or
/// foreign signal does. How many there were.
pub fn ring_everybody() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ours = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("runyard-"))
    };
    let ours = tasks.filter(|task| ours(&task.path()));
    let tids = ours.filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.map(|tid| super::signal::ring(Tid(tid), libc::SIGURG)).count()
}

/// How a thread is made to make way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A signal, whose handler wakes the other thread and waits: what the runtime does.
    Signal,
    /// It becomes SCHED_IDLE, and the other thread, which is not, is woken. No signal is involved,
    /// and the first thread goes on whenever the CPU is free.
    Priority,
}

/// The signal of [`Way::Signal`]; the runtime's own stays as it is.
const SIGNAL: i32 = libc::SIGUSR2;

/// Between two handoffs: the first thread runs again, and no timer is in step with us.
const PAUSE: Nanos = Nanos::from_micros(137);

/// Where the two threads wait: 1 to go on.
static STOPPED: AtomicU32 = AtomicU32::new(0);
static STARTED: AtomicU32 = AtomicU32::new(0);
/// When the other thread began to run; 0 while it waits.
static RAN_AT: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

/// How long each of `count` handoffs took on `cpu`, from the request to the other thread's first
/// instruction, asked for from `from`. Only one of these may run in a process at a time.
///
/// # Errors
/// If the kernel refuses something.
pub fn handoffs(way: Way, cpu: usize, from: usize, count: usize) -> Result<Vec<Nanos>, String> {
    if !thread::pin(thread::current(), from) {
        return Err("the kernel does not bind threads to CPUs".to_owned());
    }
    OVER.store(false, Ordering::SeqCst);
    let victim = AtomicI32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| spin(&victim, cpu));
        scope.spawn(|| start_when_told(way, cpu));
        while victim.load(Ordering::SeqCst) == 0 {
            std::hint::spin_loop();
        }
        let victim = Tid(victim.load(Ordering::SeqCst));
        let old = (way == Way::Signal).then(|| handle(stop as *const () as usize));
        let spans = (0..count).map(|_| handoff(way, victim)).collect();
        OVER.store(true, Ordering::SeqCst);
        STARTED.store(1, Ordering::SeqCst);
        futex::wake(&STARTED);
        old.into_iter().for_each(|old| {
            handle(old);
        });
        spans
    })
}

fn handoff(way: Way, victim: Tid) -> Result<Nanos, String> {
    std::thread::sleep(std::time::Duration::from_nanos(PAUSE.0));
    RAN_AT.store(0, Ordering::SeqCst);
    let asked = thread::now();
    match way {
        Way::Signal => super::signal::ring(victim, SIGNAL),
        Way::Priority => {
            if !be(victim, libc::SCHED_IDLE) {
                return Err("the kernel does not let us change policies".to_owned());
            }
            STARTED.store(1, Ordering::SeqCst);
            futex::wake(&STARTED);
        }
    }
    while RAN_AT.load(Ordering::SeqCst) == 0 {
        std::hint::spin_loop();
    }
    if way == Way::Priority && !be(victim, libc::SCHED_OTHER) {
        return Err("the kernel does not let a thread out of SCHED_IDLE again".to_owned());
    }
    Ok(Time(RAN_AT.load(Ordering::SeqCst)).since(asked))
}

/// The first thread.
fn spin(tid: &AtomicI32, cpu: usize) {
    thread::pin(thread::current(), cpu);
    tid.store(thread::current().0, Ordering::SeqCst);
    while !OVER.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// The other thread.
fn start_when_told(way: Way, cpu: usize) {
    thread::pin(thread::current(), cpu);
    loop {
        while STARTED.swap(0, Ordering::SeqCst) == 0 {
            futex::wait(&STARTED, 0, None);
        }
        if OVER.load(Ordering::SeqCst) {
            return;
        }
        RAN_AT.store(thread::now().0, Ordering::SeqCst);
        if way == Way::Signal {
            STOPPED.store(1, Ordering::SeqCst);
            futex::wake(&STOPPED);
        }
    }
}

extern "C" fn stop(_: i32) {
    STARTED.store(1, Ordering::SeqCst);
    futex::wake(&STARTED);
    while STOPPED.swap(0, Ordering::SeqCst) == 0 {
        futex::wait(&STOPPED, 0, None);
    }
}

/// Installs a handler; what was there.
fn handle(handler: usize) -> usize {
    // SAFETY: sigactions of zeros are some; the kernel reads one and writes the other. The handler
    // does atomics and futex calls only.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &raw const new, &raw mut old);
        old.sa_sigaction
    }
}

/// Gives a thread another policy; `false` if that is refused.
fn be(thread: Tid, policy: i32) -> bool {
    // SAFETY: a sched_param of zeros is one, of priority 0; some C libraries have more fields in it.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads one sched_param.
    unsafe { libc::sched_setscheduler(thread.0, policy, &raw const param) == 0 }
}
