//! Where a running task gives way to a switch that is due: the preemption models of a kernel.
//!
//! A task in user mode gives way in each interrupt, and whenever it returns from the kernel. In the kernel, the model
//! decides:
//!
//! | model | a due switch | a lazy one |
//! |---|---|---|
//! | full | at once | as any other |
//! | lazy | at once | at the return to user mode; the next tick makes it a due switch |
//! | voluntary | at the next point at which the call may sleep, else at the return to user mode | as any other |
//! | none | at the return to user mode | as any other |
//!
//! A lazy request to another CPU does not interrupt it. The other CPU notices it when it enters the kernel for another
//! reason: an interrupt, its tick, a system call of its task.
//!
//! A task that its throttled group holds back leaves at its return to user mode under every model, if the kernel throttles
//! task by task (6.18).
//!
//! Source: `__resched_curr`, `resched_curr_lazy`, `sched_tick` and `wakeup_preempt` in `kernel/sched/core.c`,
//! `check_preempt_wakeup_fair` in `kernel/sched/fair.c`, and `exit_to_user_mode_loop` in `kernel/entry/common.c`.
//!
//! Accepted inaccuracies: the scheduler's own work is never preempted. A wake-up across a cache boundary interrupts a
//! real CPU (`ttwu_queue_wakelist`) even if the request is lazy; here it does not.

use crate::cpu::Current;
use crate::program::{Todo, Waiting};
use crate::sim::Sim;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::Resched;
use runyard_engine::time::Nanos;
use runyard_workload::scenario::Preemption;

/// The distance of the points of a system call at which a kernel with voluntary preemption gives way, counted back from
/// its end: `might_resched`, where the call may sleep. Calls differ by orders of magnitude, and no release states a
/// bound. This is the length of 100 page faults or copied pages of 1 us each. A measurement of one call on a voluntary
/// kernel would replace it.
const MIGHT_RESCHED: Nanos = Nanos::from_micros(100);

/// The place where a task that is not in the kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// In user mode, without a look at a due switch.
    User,
    /// At its return to user mode.
    Exit,
}

impl Sim<'_> {
    /// Returns where a task in the kernel gives way.
    #[inline]
    pub(crate) fn preemption(&self) -> Preemption {
        self.scenario.machine.preemption
    }

    /// Returns whether a switch of `cpu` is due and takes place now. The running task is in the kernel, or at `at`.
    #[inline]
    pub(crate) fn gives_way(&self, cpu: CpuId, at: At) -> bool {
        match self.cpus[cpu.index()].resched {
            Resched::No => false,
            Resched::Yes if self.preemption() == Preemption::Full => true,
            resched => self.gives_way_to(cpu, resched, at),
        }
    }

    /// Returns whether a switch of `cpu` is due, and its task in the kernel lets it wait.
    pub(crate) fn lets_wait(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].resched.is_due() && !self.gives_way(cpu, At::Exit)
    }

    #[inline(never)]
    fn gives_way_to(&self, cpu: CpuId, resched: Resched, at: At) -> bool {
        if !self.is_in_kernel(cpu) {
            return at == At::Exit || resched != Resched::Lazy;
        }
        if resched == Resched::InUserMode {
            return false;
        }
        match self.preemption() {
            Preemption::Full => true,
            Preemption::Lazy => resched == Resched::Yes,
            Preemption::Voluntary => self.is_at_point(cpu),
            Preemption::None => false,
        }
    }

    /// Returns whether the running task of `cpu` was woken and is still in the kernel, and its throttled group holds it back at
    /// its return from there. For the report, its program has not gone on yet.
    #[inline]
    pub(crate) fn ends_in_kernel(&self, cpu: CpuId) -> bool {
        let own = &self.cpus[cpu.index()];
        let resumes = |curr: &Current| self.tasks[curr.task.index()].resumes;
        own.resched == Resched::InUserMode
            && own.curr.as_ref().is_some_and(resumes)
            && self.is_in_kernel(cpu)
    }

    /// Returns whether the running task of `cpu` is in the kernel: it works there, or its system call has effects left.
    fn is_in_kernel(&self, cpu: CpuId) -> bool {
        let Some(curr) = &self.cpus[cpu.index()].curr else { return false };
        let task = &self.tasks[curr.task.index()];
        matches!(curr.todo, Todo::Kernel(_))
            || task.entered.is_some()
            || task.returns > Nanos::ZERO
            || !task.wakes.is_empty()
            || task.donors_left
            || task.waiting != Waiting::Nothing
    }

    fn is_at_point(&self, cpu: CpuId) -> bool {
        let todo = self.cpus[cpu.index()].curr.as_ref().map(|curr| curr.todo);
        matches!(todo, Some(Todo::Kernel(left)) if left > Nanos::ZERO && left.0 % MIGHT_RESCHED.0 == 0)
    }

    /// Returns the part of the kernel work `left` that the task on `cpu` does before it may give way, or all of it.
    pub(crate) fn to_next_point(&self, cpu: CpuId, left: Nanos) -> Nanos {
        let looks = self.preemption() == Preemption::Voluntary
            && self.cpus[cpu.index()].resched.is_due()
            && left > MIGHT_RESCHED;
        if !looks {
            return left;
        }
        match left.0 % MIGHT_RESCHED.0 {
            0 => MIGHT_RESCHED,
            part => Nanos(part),
        }
    }

    /// Makes a lazy request a due one, at a tick of `cpu` (`sched_tick`). The requests of the tick itself stay lazy.
    pub(crate) fn hurry(&mut self, cpu: CpuId) {
        let own = &mut self.cpus[cpu.index()];
        if own.resched == Resched::Lazy {
            own.resched = Resched::Yes;
        }
    }
}
