//! What is told of tasks that wait, so that it can be said why: of those that come before the one that runs.
//!
//! It is asked when a task comes to a CPU, and at each tick of that of the first few that wait. Between two ticks the running
//! task may fall behind one that waits, which is told at the second.

use crate::cpu::Current;
use crate::sim::{Observer, Sim};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::Expired;
use runyard_engine::task::TaskId;

/// Of how many tasks it is asked at a tick: a long queue is not gone through each time.
const ASKED_AT_TICK: usize = 8;

impl<O: Observer> Sim<'_, O> {
    /// A task was put on `cpu`, which may not have taken it.
    #[inline]
    pub(crate) fn explain(&mut self, task: TaskId, cpu: CpuId) {
        let is_fair = |curr: &Current| curr.policy.rt_prio().is_none();
        if self.options.explain && self.cpus[cpu.index()].curr.as_ref().is_some_and(is_fair) {
            self.explain_wait(task);
        }
    }

    fn explain_wait(&mut self, task: TaskId) {
        let cell = &*self.tasks[task.index()].control;
        if let Some(cpu) = self.machine.passed_over_on(cell) {
            self.tell(cpu, What::PassedOver { task });
        }
    }

    /// Something expired on `cpu` that is no timer of a task's.
    pub(crate) fn explain_tick(&mut self, cpu: CpuId, expired: Expired) {
        if !self.options.explain || expired != Expired::Tick {
            return;
        }
        let first = self.machine.inspect(cpu, |rq| {
            let mut first = rq.passed_over(ASKED_AT_TICK);
            std::array::from_fn::<_, ASKED_AT_TICK, _>(|_| first.next())
        });
        for task in first.into_iter().flatten() {
            self.tell(cpu, What::PassedOver { task });
        }
    }
}
