//! The lower bound of preemption: the time that this machine takes to stop one thread of a process and start another on
//! its CPU, without a scheduler of ours.
//!
//! The first thread never blocks by itself. The second waits on a futex, on the same CPU. A third, on another CPU,
//! requests the handoff from the first; the second records the time of its first instruction.
//!
//! Rejected: a handler that wakes the second thread and waits there, as the runtime's does. A handler with work of its
//! own needs `unsafe`. Here the handler sets a flag that the first thread polls, and the first thread hands off after
//! it has returned from the handler. So this bound includes the return from a signal, which the runtime's preemption
//! does not.

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

/// The mechanism of a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A signal, after which the thread wakes the other one and waits.
    Signal,
    /// A policy change: the first thread becomes SCHED_IDLE, and the second, which is SCHED_OTHER, is woken. No signal
    /// is involved, and the first thread runs whenever the CPU is free.
    Priority,
}

/// The CPUs of the handoffs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpus {
    /// The CPU of both threads.
    pub(crate) here: usize,
    /// The CPU of the requesting thread.
    pub(crate) from: usize,
}

/// Time between two handoffs. The first thread runs again in it, and no timer is in step with it.
const PAUSE: Duration = Duration::from_micros(137);

/// Returns the times of `count` handoffs, from the request to the second thread's first instruction. Binds the calling
/// thread to the requesting CPU.
///
/// # Errors
///
/// Returns the call that the kernel refused.
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

/// The ids of the first thread, for signals and for policies.
#[derive(Clone, Copy, Debug)]
struct First {
    tid: Pid,
    native: ThreadId,
}

/// The shared state of the threads.
#[derive(Debug)]
struct Threads {
    epoch: Instant,
    first: OnceLock<First>,
    /// The handler's flag: a handoff is requested.
    asked: Arc<AtomicBool>,
    /// The words on which the first and the second thread wait; 1 lets them run.
    stopped: AtomicU32,
    started: AtomicU32,
    /// Time at which the second thread began to run, in ns since `epoch`; 0 while it waits.
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

    /// Performs one handoff from the third thread and returns its duration.
    fn handoff(&self, way: Way, first: First) -> Result<Duration, String> {
        thread::sleep(PAUSE);
        self.ran_at.store(0, Ordering::SeqCst);
        let asked_at = self.now_ns();
        match way {
            // The kernel takes the id of any thread as that of its process. It delivers the signal to this thread if
            // possible, which it is for a running thread (`complete_signal`).
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

    /// Runs the first thread. It polls the flag without a pause, because a pause would be part of the handoff.
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

    /// Runs the second thread.
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

/// Waits until the word is 1, and sets it to 0.
fn wait(word: &AtomicU32) {
    while word.swap(0, Ordering::SeqCst) == 0 {
        // A wait may return spuriously, or at once if the word is 1.
        let _ = futex::wait(word, Flags::PRIVATE, 0, None);
    }
}

fn wake(word: &AtomicU32) {
    word.store(1, Ordering::SeqCst);
    futex::wake(word, Flags::PRIVATE, 1).expect("a word of ours can be waited for");
}

/// Binds the calling thread to a CPU. Returns `false` if that is refused.
fn pin(cpu: usize) -> bool {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).is_ok()
}

/// Sets the policy of a thread. Returns `false` if that is refused. The library call also gives the calling thread nice
/// 0.
fn be(thread: ThreadId, policy: NormalThreadSchedulePolicy) -> bool {
    let policy = ThreadSchedulePolicy::Normal(policy);
    let nice_0 = |&priority: &ThreadPriority| priority.to_posix(policy) == Ok(0);
    let mut values = (u8::MIN..=u8::MAX).map_while(|n| ThreadPriorityValue::try_from(n).ok());
    let priority = values.find_map(|n| Some(ThreadPriority::Crossplatform(n)).filter(nice_0));
    priority.is_some_and(|nice_0| set_thread_priority_and_policy(thread, nice_0, policy).is_ok())
}
