//! What a run queue gives to other CPUs: a real-time task that is pushed or pulled; for balance a waiting
//! fair task, to a CPU that asks for it or to one that could run it at once; or the running one.
//!
//! Here it is only chosen and let go. How tasks move is the machine's affair.

use crate::attr::{Cookie, RtPrio};
use crate::balance::{IDLE_TASK_LOAD, Measure};
use crate::cpu::CpuId;
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::{Released, Resched, RunQueue};
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{QueueIndex, Task};
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
    /// No task that is owed nothing by its queue (EEVDF).
    pub eligible: bool,
    /// What the core of who takes runs, if it runs anything: other tasks than those of this cookie are taken as if they
    /// ran a moment ago (`task_hot`).
    pub runs: Option<Option<Cookie>>,
}

/// Why no task was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPulled {
    /// There is none of those that are counted.
    Nobody,
    /// All of them may not run there.
    Pinned,
    /// They are too heavy, or ran a moment ago, or another one was asked for already.
    NotNow,
}

/// How many queued tasks balance looks at under one lock (`sched_nr_migrate`).
pub const MAX_LOOKED_AT: u32 = 32;

impl<P, G: Pools> RunQueue<P, G> {
    /// After the wake-up of a task as important as the running one: makes way for it if only the
    /// running one can go elsewhere. `elsewhere` says whether a task could start on another CPU.
    pub fn make_way(&mut self, at: QueueIndex, elsewhere: impl Fn(&Task<P>) -> bool) -> Resched {
        let (Some(curr), woken) = (self.curr, at.0) else { return Resched::No };
        let equals = self.task(curr).rt_prio() == self.task(woken).rt_prio();
        let movable = |at: Index| self.task(at).is_migratory() && elsewhere(self.task(at));
        if self.resched || !equals || !movable(curr) || movable(woken) || self.is_set_aside(woken) {
            return Resched::No;
        }
        self.requeue_rt(woken, End::Head);
        self.resched_if(true);
        Resched::Yes
    }

    /// Lets go of the most important waiting real-time task that `choose` has a CPU for. The walk
    /// ends at tasks no more important than `floor`, what the least important CPU runs.
    pub fn take_pushable(
        &mut self,
        floor: Option<RtPrio>,
        mut choose: impl FnMut(&Task<P>) -> Option<CpuId>,
    ) -> Option<(Box<Task<P>>, CpuId)> {
        let running = self.curr.map(|at| self.task(at).rt_prio());
        let walk = if self.has(Feature::RtPushPastStuck) { usize::MAX } else { 1 };
        let head = self.rt.pushable().next()?;
        // What the core keeps off here is part of its decisions, and would be kept off elsewhere again.
        if self.rt.is_throttled() || self.is_serving() || self.is_kept_off() {
            return None;
        }
        if running.is_none_or(|curr| self.task(head).rt_prio() > curr) {
            // It is about to run here.
            self.resched = true;
            return None;
        }
        let (at, to) = self
            .rt
            .pushable()
            .take(walk)
            .take_while(|&at| self.task(at).rt_prio() > floor)
            .find_map(|at| Some((at, choose(self.task(at))?)))?;
        Some((self.let_go(at), to))
    }

    /// Lets go of the most important waiting real-time task that may run on `to` and is more
    /// important than `above`, unless it is about to preempt here.
    pub fn take_pullable(&mut self, to: CpuId, above: Option<RtPrio>) -> Option<Box<Task<P>>> {
        let running = self.curr.and_then(|at| self.task(at).rt_prio());
        self.take_rt(to, above, |prio| prio <= running)
    }

    /// As [`RunQueue::take_pullable`], from a CPU that stands still: also one that is about to preempt here.
    pub fn take_waiting_rt(&mut self, to: CpuId, above: Option<RtPrio>) -> Option<Box<Task<P>>> {
        self.take_rt(to, above, |_| true)
    }

    fn take_rt(
        &mut self,
        to: CpuId,
        above: Option<RtPrio>,
        may_go: impl Fn(Option<RtPrio>) -> bool,
    ) -> Option<Box<Task<P>>> {
        if self.rt.is_throttled() {
            return None;
        }
        let waiting = || self.rt.pushable().map(|at| (at, self.task(at)));
        let (at, _) = waiting()
            .take_while(|(_, task)| task.rt_prio() > above)
            .find(|(_, task)| task.attr.affinity.contains(to) && may_go(task.rt_prio()))?;
        Some(self.let_go(at))
    }

    fn let_go(&mut self, at: Index) -> Box<Task<P>> {
        self.dequeue_rt(at);
        self.preempt_for_loss();
        self.remove_task(at)
    }

    /// Takes out a waiting fair task that may run on another CPU; with it the load that went.
    ///
    /// # Errors
    /// Why there is none.
    pub fn detach_fair(
        &mut self,
        now: Time,
        pull: FairPull,
    ) -> Result<(Box<Task<P>>, u64), NotPulled> {
        self.advance(now);
        let (at, load) = self.take_fair(pull)?;
        Ok((self.remove_task(at), load))
    }

    /// Gives the running fair task to another CPU at the next switch, which is due then
    /// ([`Released::MoveTo`]); unless it leaves before by itself, or becomes real-time.
    ///
    /// # Errors
    /// Why it is not given away.
    pub fn give_curr(
        &mut self,
        now: Time,
        to: CpuId,
        measure: Measure,
    ) -> Result<Resched, NotPulled> {
        self.advance(now);
        self.may_give_curr(to, measure)?;
        self.given = Some(to);
        self.resched = true;
        Ok(Resched::Yes)
    }

    /// Hands over a task that ran and waits now, if it is still one that another CPU may have.
    pub(super) fn give(&mut self, at: Index, to: CpuId) -> Option<(Box<Task<P>>, Released)> {
        let task = self.task(at);
        let goes = task.rt_prio().is_none() && task.attr.affinity.contains(to);
        goes.then(|| (self.release(at, false), Released::MoveTo(to)))
    }

    /// Takes out a waiting fair task for a CPU that has less to do, and tells its load.
    fn take_fair(&mut self, pull: FairPull) -> Result<(Index, u64), NotPulled> {
        let mut stays = NotPulled::Nobody;
        for _ in 0..self.fair.root().nr_tasks.min(MAX_LOOKED_AT) {
            let at = self.fair.look_at_next();
            if self.curr == Some(at) || !self.is_counted(at, pull.measure) {
                continue;
            }
            if !self.task(at).attr.affinity.contains(pull.to) {
                stays = if stays == NotPulled::Nobody { NotPulled::Pinned } else { stays };
                continue;
            }
            let load = match pull.measure {
                Measure::Idle => IDLE_TASK_LOAD,
                Measure::All | Measure::Normal => self.fair.task_load(at),
            };
            let may_go = !pull.eligible || self.fair.is_eligible(at);
            if may_go && load / 2 <= pull.max_load && (pull.hot || !self.is_hot(at, pull.runs)) {
                self.dequeue_fair(at, false);
                return Ok((at, load));
            }
            stays = NotPulled::NotNow;
        }
        // One that could go, and runs: it may be taken after failures (`LBF_ALL_PINNED` of `can_migrate_task`).
        let runs = || self.may_give_curr(pull.to, pull.measure).is_ok();
        let may_later = stays == NotPulled::Pinned && self.has(Feature::BalanceByRoom) && runs();
        Err(if may_later { NotPulled::NotNow } else { stays })
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
        for _ in 0..self.fair.root().nr_tasks.min(MAX_LOOKED_AT) {
            let at = self.fair.look_at_next();
            if self.curr == Some(at) || !self.task(at).is_migratory() {
                continue;
            }
            if let Some(to) = find(self.task(at), self.fair.is_idle_class(at)) {
                self.dequeue_fair(at, false);
                return Some((self.remove_task(at), to));
            }
        }
        None
    }

    /// Whether the running task could be given away at the next switch.
    fn may_give_curr(&self, to: CpuId, measure: Measure) -> Result<(), NotPulled> {
        let fair = |at: &Index| self.task(*at).rt_prio().is_none() && self.is_counted(*at, measure);
        let at = self.curr.filter(fair).ok_or(NotPulled::Nobody)?;
        if !self.task(at).attr.affinity.contains(to) {
            return Err(NotPulled::Pinned);
        }
        if self.given.is_some() { Err(NotPulled::NotNow) } else { Ok(()) }
    }

    fn is_counted(&self, at: Index, measure: Measure) -> bool {
        match measure {
            Measure::All => true,
            Measure::Normal => !self.fair.is_idle_class(at),
            Measure::Idle => self.fair.is_idle_class(at),
        }
    }

    /// Whether a waiting task ran so lately that it had better stay, or has another cookie than what runs where it would
    /// come to (`task_hot`). What SCHED_IDLE
    /// tasks lose by a migration is of less worth than an idle CPU (2.6.37).
    fn is_hot(&self, at: Index, runs: Option<Option<Cookie>>) -> bool {
        if runs.is_some_and(|cookie| cookie != self.cookie_of(self.task(at))) {
            return true;
        }
        let lately = |until: Time| self.clock.since(until) < self.config.migration_cost;
        let cheap = self.has(Feature::IdleLoadBalance) || self.has(Feature::BalanceByRoom);
        let never = cheap && self.fair.is_idle_class(at);
        !never && self.task(at).ran_until().is_some_and(lately)
    }
}
