//! What a run queue gives to other CPUs for balance: a waiting fair task, to one that asks for it or to
//! one that could run it at once; or the running one.

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

/// How many queued tasks balance looks at under one lock (`sched_nr_migrate`).
pub const MAX_LOOKED_AT: u32 = 32;

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
        let mut stays = Stays::Nobody;
        for _ in 0..self.fair.root.nr_tasks.min(MAX_LOOKED_AT) {
            let at = self.look_at_next();
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
                self.dequeue_fair(at, false);
                return Ok((at, load));
            }
            stays = Stays::NotNow;
        }
        Err(stays)
    }

    /// Takes out a waiting fair task for which there is a CPU, looking at [`MAX_LOOKED_AT`] of them;
    /// those that were looked at are last from then on. `find` is told whether the task is of the
    /// SCHED_IDLE class.
    pub fn give_fair(
        &mut self,
        now: Time,
        mut find: impl FnMut(&Task<P>, bool) -> Option<CpuId>,
    ) -> Option<(Box<Task<P>>, CpuId)> {
        self.advance(now);
        for _ in 0..self.fair.root.nr_tasks.min(MAX_LOOKED_AT) {
            let at = self.look_at_next();
            if self.curr == Some(at) || !self.task(at).is_migratory() {
                continue;
            }
            if let Some(to) = find(self.task(at), self.is_idle_class(at)) {
                self.dequeue_fair(at, false);
                return Some((self.remove_task(at), to));
            }
        }
        None
    }

    /// The fair task that balance did not look at for longest, of which there is one.
    fn look_at_next(&mut self) -> Index {
        let tasks = &mut self.fair.tasks;
        let at = self.links.iter(*tasks).next().expect("somebody is in the list");
        self.links.remove(tasks, at);
        self.links.push_back(tasks, at);
        at
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
