//! What a run queue gives to a CPU that balances: a waiting fair task, or the running one.

use crate::balance::{IDLE_TASK_LOAD, Measure};
use crate::cpu::CpuId;
use crate::features::Feature;
use crate::group::Groups;
use crate::heap::Index;
use crate::run_queue::{Released, Resched, RunQueue};
use crate::task::Task;
use crate::time::Time;

/// What a balancing CPU may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairPull {
    /// Who takes.
    pub to: CpuId,
    /// Which tasks, and what their load is.
    pub measure: Measure,
    /// No task of which half the load is above this.
    pub max_load: u64,
    /// Tasks that ran a moment ago as well.
    pub hot: bool,
}

/// Why no task was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// There is none of those that are counted.
    Nobody,
    /// All of them may not run there.
    Pinned,
    /// They are too heavy, or ran a moment ago, or another one was asked for already.
    NotNow,
}

/// How many queued tasks a balancing CPU looks at under one lock (`sched_nr_migrate`).
const MAX_LOOKED_AT: usize = 32;

impl<P, G: Groups> RunQueue<P, G> {
    /// Takes out a waiting fair task that may run on another CPU; with it the load that went.
    ///
    /// # Errors
    /// Why there is none.
    pub fn detach_fair(&mut self, now: Time, pull: FairPull) -> Result<(Box<Task<P>>, u64), Stays> {
        self.advance(now);
        let (at, load) = self.take_fair(pull)?;
        Ok((self.remove_task(at), load))
    }

    /// Gives the running fair task to another CPU at the next switch, which is due then
    /// ([`Released::MoveTo`]); unless it leaves before by itself, or becomes real-time.
    ///
    /// # Errors
    /// Why it is not given away.
    pub fn give_curr(&mut self, now: Time, to: CpuId, measure: Measure) -> Result<Resched, Stays> {
        self.advance(now);
        self.may_give_curr(to, measure)?;
        self.given = Some(to);
        self.resched = true;
        Ok(Resched::Yes)
    }

    /// Hands over a task that ran and waits now, if it is still one that another CPU may have.
    pub(crate) fn give(&mut self, at: Index, to: CpuId) -> Option<(Box<Task<P>>, Released)> {
        let task = self.task(at);
        let goes = task.rt_prio().is_none() && task.attr.affinity.contains(to);
        goes.then(|| (self.release(at, false), Released::MoveTo(to)))
    }

    /// Takes out a waiting fair task for a CPU that has less to do, and tells its load.
    fn take_fair(&mut self, pull: FairPull) -> Result<(Index, u64), Stays> {
        let (at, load) = self.find_fair(pull)?;
        self.dequeue_fair(at, false);
        Ok((at, load))
    }

    fn find_fair(&self, pull: FairPull) -> Result<(Index, u64), Stays> {
        let mut stays = Stays::Nobody;
        for at in self.links.iter(self.fair.tasks).take(MAX_LOOKED_AT) {
            if self.curr == Some(at) || !self.is_counted(at, pull.measure) {
                continue;
            }
            if !self.task(at).attr.affinity.contains(pull.to) {
                stays = if stays == Stays::Nobody { Stays::Pinned } else { stays };
                continue;
            }
            let load = match pull.measure {
                Measure::Idle => IDLE_TASK_LOAD,
                Measure::All | Measure::Normal => self.task_load(at),
            };
            if load / 2 <= pull.max_load && (pull.hot || !self.is_hot(at)) {
                return Ok((at, load));
            }
            stays = Stays::NotNow;
        }
        Err(stays)
    }

    /// Whether the running task could be given away at the next switch.
    fn may_give_curr(&self, to: CpuId, measure: Measure) -> Result<(), Stays> {
        let fair = |at: &Index| self.task(*at).rt_prio().is_none() && self.is_counted(*at, measure);
        let at = self.curr.filter(fair).ok_or(Stays::Nobody)?;
        if !self.task(at).attr.affinity.contains(to) {
            return Err(Stays::Pinned);
        }
        if self.given.is_some() { Err(Stays::NotNow) } else { Ok(()) }
    }

    fn is_counted(&self, at: Index, measure: Measure) -> bool {
        match measure {
            Measure::All => true,
            Measure::Normal => !self.is_idle_class(at),
            Measure::Idle => self.is_idle_class(at),
        }
    }

    /// Whether a waiting task ran so lately that it had better stay (`task_hot`). What SCHED_IDLE
    /// tasks lose by a migration is of less worth than an idle CPU (2.6.37).
    fn is_hot(&self, at: Index) -> bool {
        let lately = |until: Time| self.clock.since(until) < self.config.migration_cost;
        let never = self.has(Feature::IdleLoadBalance) && self.is_idle_class(at);
        !never && self.task(at).ran_until.is_some_and(lately)
    }
}
