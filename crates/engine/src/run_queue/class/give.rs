//! The tasks that a run queue gives to other CPUs: a real-time task that is pushed or pulled; a
//! waiting fair task, for balance, to a CPU that asks for it or to one that could run it at once;
//! or the running task.
//!
//! This file only chooses such a task and takes it out. The machine moves it.

use crate::attr::{Cookie, RtPrio};
use crate::balance::{IDLE_TASK_LOAD, Measure};
use crate::cpu::CpuId;
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::class::{Classes, Queues};
use crate::run_queue::switch::{Released, Resched};
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{QueueIndex, Task};
use crate::time::Time;

/// The tasks that a balancing CPU may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairPull {
    /// The CPU that takes.
    pub to: CpuId,
    /// The tasks that count, and the measure of their load.
    pub measure: Measure,
    /// The highest load of a task; half of a task's load is compared with it.
    pub max_load: u64,
    /// Whether tasks that ran recently may go, too.
    pub hot: bool,
    /// Whether only eligible tasks may go (EEVDF): those that the queue owes time.
    pub eligible: bool,
    /// The cookie that the core of the taking CPU runs, if any. A task of another cookie counts as
    /// one that ran recently (`task_hot`).
    pub runs: Option<Option<Cookie>>,
}

/// The reason why no task was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPulled {
    /// There is no task of those that count.
    Nobody,
    /// No task may run there, by its affinity or since its group is throttled there.
    Pinned,
    /// The tasks are too heavy, or ran recently, or another one was already asked for.
    NotNow,
}

/// The number of queued tasks that balance examines under one lock (`sched_nr_migrate`).
pub const MAX_LOOKED_AT: u32 = 32;

impl<P, G: Pools> Classes<P, G> {
    /// After the wake-up of a task that is as important as the running one: makes way for it if
    /// only the running task can go elsewhere. `elsewhere` returns whether a task could start on
    /// another CPU.
    pub fn make_way(&mut self, at: QueueIndex, elsewhere: impl Fn(&Task<P>) -> bool) -> Resched {
        let (Some(curr), woken) = (self.queues.tasks.running(), at.0) else { return Resched::No };
        let equals = self.queues.tasks.task(curr).class() == self.queues.tasks.task(woken).class();
        let movable = |at: Index| {
            self.queues.tasks.task(at).is_migratory() && elsewhere(self.queues.tasks.task(at))
        };
        if self.next.is_due()
            || !equals
            || !movable(curr)
            || movable(woken)
            || self.queues.is_set_aside(woken)
        {
            return Resched::No;
        }
        self.queues.requeue_rt(woken, End::Head);
        self.next.ask(true);
        Resched::Yes
    }

    /// Takes out the most important waiting real-time task for which `choose` has a CPU. The walk
    /// ends at tasks that are no more important than `floor`, the importance of the least important
    /// CPU.
    pub fn take_pushable(
        &mut self,
        floor: Option<RtPrio>,
        mut choose: impl FnMut(&Task<P>) -> Option<CpuId>,
    ) -> Option<(Box<Task<P>>, CpuId)> {
        let running = self.queues.tasks.running().map(|at| self.queues.tasks.task(at).class());
        let walk = if self.queues.site.has(Feature::RtPushPastStuck) { usize::MAX } else { 1 };
        let head = self.queues.rt.pushable().next()?;
        // The core keeps such a task off by its decision, and would do so on another thread, too.
        if self.queues.rt.is_throttled() || self.is_serving() || self.next.is_kept_off() {
            return None;
        }
        if running.is_none_or(|curr| self.queues.tasks.task(head).class() > curr) {
            // The task is about to run here.
            self.next.ask(true);
            return None;
        }
        let (at, to) = self
            .queues
            .rt
            .pushable()
            .take(walk)
            .take_while(|&at| self.queues.tasks.task(at).class().push_prio() > floor)
            .find_map(|at| Some((at, choose(self.queues.tasks.task(at))?)))?;
        Some((self.let_go(at), to))
    }

    /// Takes out the most important waiting real-time task that may run on `to` and is more
    /// important than `above`, unless it is about to preempt here.
    pub fn take_pullable(&mut self, to: CpuId, above: Option<RtPrio>) -> Option<Box<Task<P>>> {
        let running = self
            .queues
            .tasks
            .running()
            .and_then(|at| self.queues.tasks.task(at).class().push_prio());
        self.take_rt(to, above, |prio| prio <= running)
    }

    /// Like [`Classes::take_pullable`], from a CPU that stands still: the task may also be one
    /// that is about to preempt here.
    pub fn take_waiting_rt(&mut self, to: CpuId, above: Option<RtPrio>) -> Option<Box<Task<P>>> {
        self.take_rt(to, above, |_| true)
    }

    fn take_rt(
        &mut self,
        to: CpuId,
        above: Option<RtPrio>,
        may_go: impl Fn(Option<RtPrio>) -> bool,
    ) -> Option<Box<Task<P>>> {
        if self.queues.rt.is_throttled() {
            return None;
        }
        let waiting = || self.queues.rt.pushable().map(|at| (at, self.queues.tasks.task(at)));
        let (at, _) = waiting().take_while(|(_, task)| task.class().push_prio() > above).find(
            |(_, task)| task.attr.affinity.contains(to) && may_go(task.class().push_prio()),
        )?;
        Some(self.let_go(at))
    }

    fn let_go(&mut self, at: Index) -> Box<Task<P>> {
        self.queues.unlist_rt(at);
        self.preempt_for_loss();
        self.remove(at)
    }

    /// Takes out a waiting fair task that may run on another CPU; returns it with its load.
    ///
    /// # Errors
    /// The reason why there is no such task.
    pub fn detach_fair(&mut self, pull: FairPull) -> Result<(Box<Task<P>>, u64), NotPulled> {
        let (at, load) = self.take_fair(pull)?;
        Ok((self.remove(at), load))
    }

    /// Gives the running fair task to another CPU at the next switch, which is due then
    /// ([`Released::MoveTo`]). The task stays if it leaves by itself before, or becomes real-time.
    ///
    /// # Errors
    /// The reason why the task is not given away.
    pub fn give_curr(&mut self, to: CpuId, measure: Measure) -> Result<Resched, NotPulled> {
        self.may_give_curr(to, measure)?;
        self.next.give(to);
        Ok(Resched::Yes)
    }

    /// Hands over a task that ran and waits now, if the other CPU may still have it.
    pub(super) fn give(&mut self, at: Index, to: CpuId) -> Option<(Box<Task<P>>, Released)> {
        let task = self.queues.tasks.task(at);
        let goes = task.class().is_fair() && task.attr.affinity.contains(to);
        goes.then(|| (self.release(at, false), Released::MoveTo(to)))
    }

    /// Takes out a waiting fair task for a CPU with less load; returns its place and its load.
    fn take_fair(&mut self, pull: FairPull) -> Result<(Index, u64), NotPulled> {
        let mut stays = NotPulled::Nobody;
        for _ in 0..self.queues.fair.root().nr_tasks.min(MAX_LOOKED_AT) {
            let at = self.queues.fair.look_at_next();
            if self.queues.tasks.running() == Some(at) || !self.queues.is_counted(at, pull.measure)
            {
                continue;
            }
            if !self.queues.may_run_on(at, pull.to) {
                stays = if stays == NotPulled::Nobody { NotPulled::Pinned } else { stays };
                continue;
            }
            let load = match pull.measure {
                Measure::Idle => IDLE_TASK_LOAD,
                Measure::All | Measure::Normal => self.queues.fair.task_load(at),
            };
            let may_go = !pull.eligible || self.queues.fair.is_eligible(at);
            if may_go
                && load / 2 <= pull.max_load
                && (pull.hot || !self.queues.is_hot(at, pull.runs))
            {
                self.queues.dequeue_fair(at, false);
                return Ok((at, load));
            }
            stays = NotPulled::NotNow;
        }
        // The running task could go: it may be taken after failures (`LBF_ALL_PINNED` of
        // `can_migrate_task`).
        let runs = || self.may_give_curr(pull.to, pull.measure).is_ok();
        let may_later =
            stays == NotPulled::Pinned && self.queues.site.has(Feature::BalanceByRoom) && runs();
        Err(if may_later { NotPulled::NotNow } else { stays })
    }

    /// Takes out a waiting fair task for which `find` has a CPU, after examining at most
    /// [`MAX_LOOKED_AT`] tasks. Examined tasks move to the end of the order of examination. The
    /// second argument of `find` says whether the task is of the SCHED_IDLE class.
    pub fn give_fair(
        &mut self,
        mut find: impl FnMut(&Task<P>, bool) -> Option<CpuId>,
    ) -> Option<(Box<Task<P>>, CpuId)> {
        for _ in 0..self.queues.fair.root().nr_tasks.min(MAX_LOOKED_AT) {
            let at = self.queues.fair.look_at_next();
            if self.queues.tasks.running() == Some(at) || !self.queues.tasks.task(at).is_migratory()
            {
                continue;
            }
            if let Some(to) = find(self.queues.tasks.task(at), self.queues.fair.is_idle_class(at)) {
                self.queues.dequeue_fair(at, false);
                return Some((self.remove(at), to));
            }
        }
        None
    }

    /// Returns whether the running task could be given away at the next switch.
    fn may_give_curr(&self, to: CpuId, measure: Measure) -> Result<(), NotPulled> {
        let fair = |at: &Index| {
            self.queues.tasks.task(*at).class().is_fair() && self.queues.is_counted(*at, measure)
        };
        let at = self.queues.tasks.running().filter(fair).ok_or(NotPulled::Nobody)?;
        if !self.queues.may_run_on(at, to) {
            return Err(NotPulled::Pinned);
        }
        if self.next.is_given() { Err(NotPulled::NotNow) } else { Ok(()) }
    }
}

impl<P, G: Pools> Queues<P, G> {
    /// Returns whether balance may take a task to a CPU.
    fn may_run_on(&self, at: Index, to: CpuId) -> bool {
        let task = self.tasks.task(at);
        task.attr.affinity.contains(to)
            && !self.site.groups().is_throttled_on(task.queue_group(), to)
    }

    fn is_counted(&self, at: Index, measure: Measure) -> bool {
        match measure {
            Measure::All => true,
            Measure::Normal => !self.fair.is_idle_class(at),
            Measure::Idle => self.fair.is_idle_class(at),
        }
    }

    /// Returns whether a waiting task should stay: it ran recently, or its cookie differs from that
    /// of the core that would take it (`task_hot`). An idle CPU costs more than a cold cache of a
    /// SCHED_IDLE task (2.6.37).
    fn is_hot(&self, at: Index, runs: Option<Option<Cookie>>) -> bool {
        if runs.is_some_and(|cookie| cookie != self.site.cookie_of(self.tasks.task(at))) {
            return true;
        }
        let lately =
            |until: Time| self.site.clock().since(until) < self.site.config().migration_cost;
        let cheap =
            self.site.has(Feature::IdleLoadBalance) || self.site.has(Feature::BalanceByRoom);
        let never = cheap && self.fair.is_idle_class(at);
        !never && self.tasks.task(at).ran_until().is_some_and(lately)
    }
}
