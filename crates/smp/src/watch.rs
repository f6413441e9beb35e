//! What who watches a machine asks of it.

use crate::control::Home;
use crate::host::{Controlled, Effects, kick_if};
use crate::machine::{Machine, Queue};
use crate::sync::lock;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::Time;

impl<W: Controlled> Machine<W> {
    /// Calls `ask` with the run queue of `cpu`, of which the running task is charged until `now`.
    pub fn watch<R>(
        &self,
        now: Time,
        cpu: CpuId,
        fx: &mut impl Effects<W>,
        ask: impl FnOnce(&Queue<W>) -> R,
    ) -> R {
        let (answer, delta) = self.with(cpu, fx, |rq| {
            rq.charge_until(now);
            ask(rq)
        });
        // A budget may be used up by now.
        kick_if(delta.resched, cpu, fx);
        self.react(now, cpu, delta, fx);
        answer
    }

    /// The CPU on which the task with this control cell waits for one that comes after it in the order
    /// ([`RunQueue::is_passed_over`](runyard_engine::run_queue::RunQueue::is_passed_over)), if it does.
    #[must_use]
    pub fn passed_over_on(&self, cell: &(impl Controlled + ?Sized)) -> Option<CpuId> {
        let Home::At(cpu, slot) = cell.tag().home() else { return None };
        lock(&self.cpus[cpu.index()].queue).rq.is_passed_over(slot).then_some(cpu)
    }
}
