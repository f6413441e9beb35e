//! The events that explain why tasks wait: the CPUs that are to switch and go on, and the waiting tasks that precede the
//! running one in the order.
//!
//! The latter are determined when a task arrives on a CPU, and at each tick for the first few waiting tasks. If the running
//! task falls behind a waiting one between two ticks, the second tick reports it.

use crate::cpu::{Current, Doing};
use crate::sim::Sim;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Expired;
use runyard_engine::task::TaskId;

/// The number of waiting tasks that a tick examines. A tick must not walk a long queue.
const ASKED_AT_TICK: usize = 8;

impl Sim<'_> {
    /// Explains the waits on `cpu` after a task was sent there, which `cpu` may have refused.
    #[inline]
    pub(crate) fn explain(&mut self, task: TaskId, cpu: CpuId) {
        let is_fair = |curr: &Current| curr.policy.class().is_fair();
        if self.options.explain && self.cpus[cpu.index()].curr.as_ref().is_some_and(is_fair) {
            self.explain_wait(task);
        }
    }

    /// Explains the waits on `cpu` if a switch is due and its task executes.
    #[inline]
    pub(crate) fn explain_due(&mut self, cpu: CpuId) {
        let own = &self.cpus[cpu.index()];
        if self.options.explain && own.resched.is_due() && matches!(own.doing, Doing::Exec(_)) {
            self.tell(cpu, What::SwitchDue);
        }
    }

    fn explain_wait(&mut self, task: TaskId) {
        let cell = &*self.tasks[task.index()].control;
        if let Some(cpu) = self.machine.passed_over_on(cell) {
            self.tell(cpu, What::PassedOver { task });
        }
    }

    /// Explains the waits on `cpu` after an expiry other than a task's timer.
    pub(crate) fn explain_tick(&mut self, cpu: CpuId, expired: Expired) {
        if !self.options.explain || expired != Expired::Tick {
            return;
        }
        let mut first = std::mem::take(&mut self.passed_over);
        self.machine.cpu(cpu).inspect(|rq| rq.classes().passed_over(ASKED_AT_TICK, &mut first));
        for task in first.drain(..) {
            self.tell(cpu, What::PassedOver { task });
        }
        self.passed_over = first;
    }
}
