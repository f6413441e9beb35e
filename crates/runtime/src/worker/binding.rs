//! The CPUs to which the thread of a worker is bound.

use crate::crew::host_cpus::Given;
use crate::os::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock};
use crate::protocol::steering::Steering;
use runyard_engine::cpu::CpuSet;

/// The binding of a thread: for the task that it polls, or to the CPU where it is to wake.
#[derive(Debug)]
pub(crate) struct Binding {
    /// The place where the thread sleeps, for the thread that gives it a slot.
    pub(super) steering: Steering,
    /// The CPU to which the thread was bound last for its waking. Written while `steering` is held.
    home: AtomicU32,
    /// The CPUs of the task that it is in the middle of polling, if that has an affinity.
    cpus: Mutex<Option<CpuSet>>,
    /// Whether `cpus` is some.
    is_for_task: AtomicBool,
    /// Whether other code has set the CPUs of the thread, so that it did not get those above. Accessed while `steering`
    /// is held.
    is_foreign: AtomicBool,
}

impl Binding {
    pub(super) fn none() -> Binding {
        Binding {
            steering: Steering::new(),
            home: AtomicU32::new(0),
            cpus: Mutex::new(None),
            is_for_task: AtomicBool::new(false),
            is_foreign: AtomicBool::new(false),
        }
    }

    /// Returns whether the thread is bound for a task.
    #[inline]
    pub(super) fn is_for_task(&self) -> bool {
        self.is_for_task.load(Ordering::Relaxed)
    }

    /// Returns the CPU to which the thread was bound last for its waking.
    pub(super) fn home(&self) -> u32 {
        self.home.load(Ordering::Relaxed)
    }

    /// Notes that the thread is bound to this CPU for its waking. Called while its steering is held.
    pub(super) fn note_home(&self, cpu: u32) {
        self.home.store(cpu, Ordering::Relaxed);
    }

    /// Gives the thread by `bind` the CPUs that `asked` returns, if it has others; `bind` gets those that it was given
    /// before, and the new ones, and returns `false` if other code has set the thread's CPUs. They are asked for under the
    /// lock: of two threads that do this at the same time, the second gets the latest answer.
    pub(super) fn follow(
        &self,
        asked: impl FnOnce() -> Option<CpuSet>,
        bind: impl FnOnce(Given<'_>, Given<'_>) -> bool,
    ) {
        let mut bound = lock(&self.cpus);
        let cpus = asked();
        if *bound != cpus {
            self.steering.bind_for_task(|is_steered| {
                self.change(given(bound.as_ref()), is_steered, |has| {
                    bind(has, given(cpus.as_ref()))
                });
                self.is_for_task.store(cpus.is_some(), Ordering::Relaxed);
            });
            *bound = cpus;
        }
    }

    /// Gives the thread by `bind` its CPUs again, within other CPUs of the process.
    pub(super) fn renew(&self, bind: impl FnOnce(Given<'_>, Given<'_>) -> bool) {
        let bound = lock(&self.cpus);
        let given = given(bound.as_ref());
        self.steering
            .bind_for_task(|is_steered| self.change(given, is_steered, |has| bind(has, given)));
    }

    /// Gives the thread by `bind` the CPU of another slot than `before`.
    pub(super) fn pin(&self, before: Given<'_>, bind: impl FnOnce(Given<'_>) -> bool) {
        self.steering.bind_for_task(|_| self.change(before, false, bind));
    }

    /// Changes the CPUs of the thread by `bind`, which gets those that the thread was really given.
    fn change<'a>(&self, given: Given<'a>, is_steered: bool, bind: impl FnOnce(Given<'a>) -> bool) {
        let has = match (self.is_foreign.load(Ordering::Relaxed), is_steered) {
            (true, _) => Given::Everywhere,
            (false, true) => Given::Home(self.home()),
            (false, false) => given,
        };
        self.is_foreign.store(!bind(has), Ordering::Relaxed);
    }
}

/// Returns the CPUs of a thread that is bound for a task, or is not.
fn given(bound: Option<&CpuSet>) -> Given<'_> {
    bound.map_or(Given::Everywhere, Given::Task)
}
