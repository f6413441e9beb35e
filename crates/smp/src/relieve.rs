//! Relief of a stalled CPU: other CPUs take the tasks that wait on it.
//!
//! The engine assumes that a CPU always runs. The CPU of a live host is a thread, and its kernel may run another thread
//! in its place. Only the host can detect that; simulators never call this file.
//!
//! Tasks that wait on such a CPU make no progress there, whatever the loads are, so no loads are compared. The running
//! task stays, because it is in the middle of its work.

use crate::cpus::Cpus;
use crate::host::{Controlled, Effects, Moving, kick_if, mark_away};
use runyard_engine::balance::Measure;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Enqueue, FairPull, Importance};
use runyard_engine::time::Time;

impl<W: Controlled> Cpus<W> {
    /// Moves a waiting task from the stalled CPU `from` to `to`, where it may run. It is either a real-time task that
    /// is more important than the running task of `to`, or a fair task. A throttled task does not move. Returns whether
    /// a task moved.
    pub fn relieve(&self, now: Time, from: CpuId, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        // A CPU that is forced idle has already looked for matching tasks. Any other task would only wait there.
        let may_run =
            || self.sight.hints.online.contains(to) && self.of(to).forced_idle().is_none();
        from != to
            && may_run()
            && (self.relieve_of_rt(now, from, to, fx) || self.relieve_of_fair(now, from, to, fx))
    }

    fn relieve_of_rt(&self, now: Time, from: CpuId, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        let above = match self.sight.hints.cpupri.of(to).importance {
            Importance::Normal => None,
            Importance::Rt(prio) => Some(prio),
            Importance::Closed => return false,
        };
        let (taken, resched) = self
            .of(from)
            .relieve(fx, |rq| rq.classes_mut().take_waiting_rt(to, above).inspect(mark_away));
        kick_if(resched, from, fx);
        let Some(task) = taken else { return false };
        self.migrate(now, Moving::new(task, from, to, Enqueue::Pushed), fx);
        true
    }

    fn relieve_of_fair(&self, now: Time, from: CpuId, to: CpuId, fx: &mut impl Effects<W>) -> bool {
        // A fair task would wait longer behind a real-time task of `to` than on `from`.
        if self.sight.runs_rt(to) {
            return false;
        }
        let measure = if self.sight.sleeps_deep(now, to) { Measure::Normal } else { Measure::All };
        let (max_load, runs) = (u64::MAX, self.sight.core_runs(to));
        let pull = FairPull { to, measure, max_load, hot: true, eligible: false, runs };
        let (taken, resched) = self
            .of(from)
            .detach(fx, |rq| rq.at(now).detach_fair(pull).inspect(|(task, _)| mark_away(task)));
        kick_if(resched, from, fx);
        let Ok((task, _)) = taken else { return false };
        self.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
        true
    }
}
