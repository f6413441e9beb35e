//! The CPUs to which the thread of a worker is bound.

use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::protocol::steering::Steering;
use runyard_engine::cpu::CpuSet;

/// The binding of a thread: for the task that it polls, or to the CPU where it is to wake.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The place where the thread sleeps, for the thread that gives it a slot.
    pub(super) steering: Steering,
    /// The CPUs of the task that it is in the middle of polling, if that has an affinity.
    cpus: Mutex<Option<CpuSet>>,
    /// Whether `cpus` is some.
    is_for_task: AtomicBool,
}

impl Binding {
    pub(super) fn none() -> Binding {
        Binding {
            steering: Steering::new(),
            cpus: Mutex::new(None),
            is_for_task: AtomicBool::new(false),
        }
    }

    /// Returns whether the thread is bound for a task.
    #[inline]
    pub(super) fn is_for_task(&self) -> bool {
        self.is_for_task.load(Ordering::Relaxed)
    }

    /// Binds the thread by `bind` to the CPUs that `asked` returns, if it is bound to others. They are asked for under
    /// the lock: of two threads that do this at the same time, the second gets the latest answer.
    pub(super) fn follow(
        &self,
        asked: impl FnOnce() -> Option<CpuSet>,
        bind: impl FnOnce(Option<&CpuSet>),
    ) {
        let mut bound = lock(&self.cpus);
        let cpus = asked();
        if *bound != cpus {
            self.steering.bind_for_task(|| {
                bind(cpus.as_ref());
                self.is_for_task.store(cpus.is_some(), Ordering::Relaxed);
            });
            *bound = cpus;
        }
    }
}
