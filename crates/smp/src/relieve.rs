//! Tasks that wait on a CPU that stands still are taken by others.
//!
//! To the engine a CPU always runs. That of a live host is a thread, and its kernel may run somebody else where that
//! thread would be. Only the host can know; simulators never call this.
//!
//! Tasks that wait there are worth nothing to that CPU, whatever the loads are: so nothing is compared. The running
//! task stays where it is, as it is in the middle of something.

use crate::host::{Controlled, Effects, Moving, kick_if, mark_away};
use crate::machine::Machine;
use runyard_engine::balance::Measure;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Enqueue, FairPull, Importance};
use runyard_engine::time::Time;

impl<W: Controlled> Machine<W> {
    /// Brings a task that waits on `from`, which stands still, to `to`, where it may run: a real-time one that is more
    /// important than what `to` has, or a fair one. None that a limit holds back. Whether there is one.
    pub fn relieve(&self, now: Time, from: CpuId, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        // One that is forced idle has looked for what fits there, and would keep the rest waiting.
        let may_run = || self.hints.online.contains(to) && self.forced_idle(to).is_none();
        from != to
            && may_run()
            && (self.relieve_of_rt(now, from, to, fx) || self.relieve_of_fair(now, from, to, fx))
    }

    /// Whether any task is on `cpu`, as far as is known without its lock.
    #[must_use]
    pub fn has_tasks(&self, cpu: CpuId) -> bool {
        let seen = self.hints.counts(cpu);
        seen.nr_fair + seen.nr_rt > 0
    }

    fn relieve_of_rt(&self, now: Time, from: CpuId, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        let above = match self.hints.cpupri.of(to).importance {
            Importance::Normal => None,
            Importance::Rt(prio) => Some(prio),
            Importance::Closed => return false,
        };
        let (taken, resched) =
            self.detach(from, fx, |rq| rq.take_waiting_rt(to, above).inspect(mark_away));
        kick_if(resched, from, fx);
        let Some(task) = taken else { return false };
        self.migrate(now, Moving::new(task, from, to, Enqueue::Pushed), fx);
        true
    }

    fn relieve_of_fair(&self, now: Time, from: CpuId, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        // Behind a real-time task it would wait longer than here.
        if self.runs_rt(to) {
            return false;
        }
        let measure = if self.sleeps_deep(now, to) { Measure::Normal } else { Measure::All };
        let (max_load, runs) = (u64::MAX, self.core_runs(to));
        let pull = FairPull { to, measure, max_load, hot: true, eligible: false, runs };
        let (taken, resched) = self
            .detach(from, fx, |rq| rq.detach_fair(now, pull).inspect(|(task, _)| mark_away(task)));
        kick_if(resched, from, fx);
        let Ok((task, _)) = taken else { return false };
        self.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
        true
    }
}
