//! The calls through which an observer reads the state of a machine.

use crate::control::Home;
use crate::cpu::Queue;
use crate::host::{Controlled, Effects};
use crate::machine::Machine;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;

impl<W: Controlled> Machine<W> {
    /// Charges the running task of `cpu` until `now`, and calls `ask` with its run queue.
    pub fn watch<R>(
        &self,
        now: Time,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
        ask: impl FnOnce(&Queue<W>) -> R,
    ) -> R {
        // The charge may have used up a budget.
        self.cpus.act(now, cpu, fx, |rq| {
            rq.charge_until(now);
            ask(rq)
        })
    }

    /// Returns the CPU on which the task with this control cell waits while a task that follows it in the order runs,
    /// if there is one ([`Classes::is_passed_over`](runyard_engine::run_queue::Classes::is_passed_over)).
    #[must_use]
    pub fn passed_over_on(&self, cell: &(impl Controlled + ?Sized)) -> Option<CpuId> {
        let Home::At(cpu, slot) = cell.tag().home() else { return None };
        self.cpu(cpu).inspect(|rq| rq.classes().is_passed_over(slot)).then_some(cpu)
    }
}
