//! The floor under preemption: what this machine takes to stop one thread of a process and start
//! another on its CPU, with no scheduler of ours around it.
//!
//! The first thread never blocks by itself. The second waits on a futex, on the same CPU. A third, on
//! another CPU, asks the first to make way; the second notes when its first instruction ran.
//!
//! Rejected: a handler that wakes the second thread and waits there, as the runtime's does. A handler
//! with work of its own takes `unsafe`. Here the handler sets a flag, which the first thread looks at
//! all the time, and the first thread makes way when it is back from the handler. So this floor has
//! in it the return from a signal, and the runtime's way to stop a task has not.

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::futex::{self, Flags};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use signal_hook::consts::SIGUSR2;
use signal_hook::{flag, low_level};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadId, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// How a thread is made to make way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A signal, after which the thread wakes the other one and waits.
    Signal,
    /// The thread becomes SCHED_IDLE, and the other thread, which is not, is woken. No signal is
    /// involved, and the first thread goes on whenever the CPU is free.
    Priority,
}

/// Where the handoffs take place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpus {
    /// The CPU of both threads.
    pub(crate) here: usize,
    /// The CPU from which they are asked for.
    pub(crate) from: usize,
}

/// Between two handoffs: the first thread runs again, and no timer is in step with us.
const PAUSE: Duration = Duration::from_micros(137);

/// How long each of `count` handoffs took, from the request to the other thread's first instruction.
/// The calling thread is bound to the CPU from which they are asked for.
///
/// # Errors
/// If the kernel refuses something.
pub(crate) fn handoffs(way: Way, cpus: Cpus, count: usize) -> Result<Vec<Duration>, String> {
    if !pin(cpus.from) {
        return Err("the kernel does not bind threads to CPUs".to_owned());
    }
    let threads = Threads::new();
    let handler = match way {
        Way::Signal => Some(flag::register(SIGUSR2, threads.asked.clone())),
        Way::Priority => None,
    };
    let handler = handler.transpose().map_err(|error| error.to_string())?;
    let spans = thread::scope(|scope| {
        scope.spawn(|| threads.spin(cpus.here));
        scope.spawn(|| threads.run_when_woken(way, cpus.here));
        let first = *threads.first.wait();
        let spans = (0..count).map(|_| threads.handoff(way, first)).collect();
        threads.over.store(true, Ordering::SeqCst);
        wake(&threads.started);
        spans
    });
    handler.map(low_level::unregister);
    spans
}

/// The first thread, by the names that signals and policies take.
#[derive(Clone, Copy, Debug)]
struct First {
    tid: Pid,
    native: ThreadId,
}

/// What the threads share.
#[derive(Debug)]
struct Threads {
    epoch: Instant,
    first: OnceLock<First>,
    /// Set by the handler: the first thread is to make way.
    asked: Arc<AtomicBool>,
    /// Where the first and the second thread wait; 1 to go on.
    stopped: AtomicU32,
    started: AtomicU32,
    /// When the second thread began to run, in ns since `epoch`; 0 while it waits.
    ran_at: AtomicU64,
    over: AtomicBool,
}

impl Threads {
    fn new() -> Threads {
        Threads {
            epoch: Instant::now(),
            first: OnceLock::new(),
            asked: Arc::default(),
            stopped: AtomicU32::new(0),
            started: AtomicU32::new(0),
            ran_at: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// What the third thread does, and how long it took.
    fn handoff(&self, way: Way, first: First) -> Result<Duration, String> {
        thread::sleep(PAUSE);
        self.ran_at.store(0, Ordering::SeqCst);
        let asked_at = self.now_ns();
        match way {
            // The kernel takes the number of any thread for that of its process, and gives the signal
            // to this thread if it can have it, as one that runs can (`complete_signal`).
            Way::Signal => {
                kill_process(first.tid, Signal::USR2).map_err(|error| error.to_string())?;
            }
            Way::Priority => {
                if !be(first.native, NormalThreadSchedulePolicy::Idle) {
                    return Err("the kernel does not let us change policies".to_owned());
                }
                wake(&self.started);
            }
        }
        while self.ran_at.load(Ordering::SeqCst) == 0 {
            spin_loop();
        }
        if way == Way::Priority && !be(first.native, NormalThreadSchedulePolicy::Other) {
            return Err("the kernel does not let a thread out of SCHED_IDLE again".to_owned());
        }
        Ok(Duration::from_nanos(self.ran_at.load(Ordering::SeqCst) - asked_at))
    }

    /// The first thread. It looks at the flag without a pause: that would be time of the handoff.
    fn spin(&self, cpu: usize) {
        pin(cpu);
        self.first.get_or_init(|| First { tid: gettid(), native: thread_native_id() });
        while !self.over.load(Ordering::Relaxed) {
            if self.asked.load(Ordering::Relaxed) {
                self.asked.store(false, Ordering::SeqCst);
                wake(&self.started);
                wait(&self.stopped);
            }
        }
    }

    /// The second thread.
    fn run_when_woken(&self, way: Way, cpu: usize) {
        pin(cpu);
        loop {
            wait(&self.started);
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            self.ran_at.store(self.now_ns(), Ordering::SeqCst);
            if way == Way::Signal {
                wake(&self.stopped);
            }
        }
    }
}

/// Waits until the word is 1, and makes it 0.
fn wait(word: &AtomicU32) {
    while word.swap(0, Ordering::SeqCst) == 0 {
        // It may return for no reason, and where the word is 1 already.
        let _ = futex::wait(word, Flags::PRIVATE, 0, None);
    }
}

fn wake(word: &AtomicU32) {
    word.store(1, Ordering::SeqCst);
    futex::wake(word, Flags::PRIVATE, 1).expect("a word of ours can be waited for");
}

/// Binds the calling thread to a CPU; `false` if that is refused.
fn pin(cpu: usize) -> bool {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).is_ok()
}

/// Gives a thread another policy; `false` if that is refused. The calling thread gets nice 0, which is
/// this library's way to set a policy.
fn be(thread: ThreadId, policy: NormalThreadSchedulePolicy) -> bool {
    let policy = ThreadSchedulePolicy::Normal(policy);
    let nice_0 = |&priority: &ThreadPriority| priority.to_posix(policy) == Ok(0);
    let mut values = (u8::MIN..=u8::MAX).map_while(|n| ThreadPriorityValue::try_from(n).ok());
    let priority = values.find_map(|n| Some(ThreadPriority::Crossplatform(n)).filter(nice_0));
    priority.is_some_and(|nice_0| set_thread_priority_and_policy(thread, nice_0, policy).is_ok())
}
