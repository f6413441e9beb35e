//! The real-time class: SCHED_FIFO and SCHED_RR on one CPU, and who may leave it for another.
//!
//! A list for each priority; the running task stays at its place in its list, so that a preempted
//! task keeps the head without anything being done, and a yielding or expired one goes to the
//! tail. Beside it the *pushable* tasks: queued, not running, allowed on more than one CPU. A CPU
//! with pushable tasks is overloaded and says so; how tasks then move is the machine's affair
//! ([`RunQueue::take_pushable`], [`RunQueue::take_pullable`] only choose and let go).
//!
//! Throttling as in Linux through 6.11: real-time tasks may use `rt_runtime` of each `rt_period`
//! on a CPU, then they wait, unless one of them holds what somebody else waits for. While it
//! throttles, a CPU neither takes nor gives real-time tasks. The limits of task groups hold real-time
//! tasks as they hold fair ones (`throttle.rs`).
//!
//! Invariants ([`RunQueue::check`]): a task is pushable exactly when it is queued, real-time, not
//! running and allowed on more than one CPU; counts equal those counted afresh.

use crate::attr::{Policy, RtPrio};
use crate::cpu::CpuId;
use crate::features::Feature;
use crate::group::Groups;
use crate::heap::Index;
use crate::list::{End, Links, PrioLists};
use crate::run_queue::{Resched, RunQueue};
use crate::task::{Slot, Task};
use crate::time::{Nanos, Time};

/// The real-time part of a run queue.
#[derive(Debug, Default)]
pub(crate) struct Rt {
    /// Every real-time task of this CPU, the running one included.
    pub(crate) queue: PrioLists,
    pub(crate) pushable: PrioLists,
    pub(crate) pushable_links: Links,
    /// Where the running task stands among its equals: at the head, unless it was sent to the tail.
    pub(crate) curr_end: End,
    /// Tasks whose priority is inherited: they are never throttled.
    pub(crate) nr_boosted: u32,
    pub(crate) nr: u32,
    /// CPU time used against the budget; falls by the budget each period.
    pub(crate) used: Nanos,
    pub(crate) throttled: bool,
    /// What the host knows of [`Rt::is_throttled`].
    told: bool,
    /// The end of the running period; there is one while anything runs or was used.
    pub(crate) period_end: Option<Time>,
}

impl Rt {
    /// Whether real-time tasks wait for their budget.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled && self.nr_boosted == 0
    }
}

impl<P, G: Groups> RunQueue<P, G> {
    pub(crate) fn enqueue_rt(&mut self, at: Index, end: End) {
        let task = self.task(at);
        let prio = task.rt_prio().expect("only real-time tasks are queued here");
        self.rt.nr_boosted += u32::from(task.boost.is_some());
        self.rt.nr += 1;
        self.rt.queue.insert(&mut self.links, prio, (at, end));
        self.update_pushable(at, end);
    }

    /// A real-time task is picked: it is not pushable while it runs, and a period of the budget
    /// begins if none runs.
    pub(crate) fn set_curr_rt(&mut self, at: Index) {
        self.update_pushable(at, End::Head);
        self.rt.curr_end = End::Head;
        if self.config.rt_runtime.is_some() && self.rt.period_end.is_none() {
            self.rt.period_end = Some(self.clock + self.config.rt_period);
        }
    }

    pub(crate) fn dequeue_rt(&mut self, at: Index) {
        let task = self.task(at);
        let prio = task.rt_prio().expect("only real-time tasks are queued here");
        self.rt.nr_boosted -= u32::from(task.boost.is_some());
        self.rt.nr -= 1;
        self.rt.queue.remove(&mut self.links, prio, at);
        if self.rt.pushable_links.contains(at) {
            self.rt.pushable.remove(&mut self.rt.pushable_links, prio, at);
        }
    }

    /// Makes `at` pushable or not, as its affinity and `curr` say.
    pub(crate) fn update_pushable(&mut self, at: Index, end: End) {
        let task = self.task(at);
        let prio = task.rt_prio().expect("only real-time tasks are pushable");
        let should = task.is_migratory() && self.curr != Some(at) && !self.is_stopped(at);
        let (lists, links) = (&mut self.rt.pushable, &mut self.rt.pushable_links);
        match (should, links.contains(at)) {
            (true, false) => lists.insert(links, prio, (at, end)),
            (false, true) => lists.remove(links, prio, at),
            (true, true) | (false, false) => {}
        }
    }

    /// The task goes before or behind its equals.
    pub(crate) fn requeue_rt(&mut self, at: Index, end: End) {
        self.dequeue_rt(at);
        self.enqueue_rt(at, end);
        if self.curr == Some(at) {
            self.rt.curr_end = end;
        }
    }

    /// The most important real-time task, unless they wait for their budget.
    pub(crate) fn pick_rt(&self) -> Option<Index> {
        self.rt.queue.first().filter(|_| !self.rt.is_throttled())
    }

    /// Notes for the host that real-time tasks wait for their budget from now on, or do not any more:
    /// as far as this CPU has acted on it, by a decision or at the end of a walk of its timers. Between
    /// two of these an inherited priority may come and go.
    #[inline]
    pub(crate) fn note_rt_throttling(&mut self) {
        let throttled = self.rt.is_throttled();
        if throttled != self.rt.told {
            self.rt.told = throttled;
            self.limits.note_rt(throttled);
        }
    }

    /// Whether something real-time should run instead of `curr`, or `curr` is to be throttled.
    pub(crate) fn rt_wants_switch(&self, curr: Index) -> bool {
        let running = self.task(curr).rt_prio();
        let throttled = running.is_some() && self.rt.is_throttled();
        let best = self.pick_rt().and_then(|at| self.task(at).rt_prio());
        throttled || best > running
    }

    /// Charges the running real-time task's slice and the CPU's budget.
    pub(crate) fn charge_rt(&mut self, curr: Index, span: Nanos) {
        let task = self.task_mut(curr);
        if matches!(task.attr.policy, Policy::RoundRobin(_)) {
            task.rr_used += span;
        }
        let Some(runtime) = self.config.rt_runtime else { return };
        self.rt.used += span;
        if self.rt.used > runtime && !self.rt.throttled {
            self.rt.throttled = true;
            self.resched_if(self.rt.is_throttled());
        }
    }

    /// A SCHED_RR task whose slice is over goes to the tail if somebody shares its priority.
    pub(crate) fn tick_rt(&mut self, curr: Index) {
        let slice = self.config.rr_slice;
        let task = self.task_mut(curr);
        let (Policy::RoundRobin(_), Some(prio)) = (task.attr.policy, task.rt_prio()) else {
            return;
        };
        if task.rr_used < slice {
            return;
        }
        task.rr_used = Nanos::ZERO;
        if self.rt.queue.is_shared(prio) {
            self.requeue_rt(curr, End::Tail);
            self.resched_if(true);
        }
    }

    /// A period ended, perhaps several: the budget is there again.
    pub(crate) fn end_rt_period(&mut self, now: Time) {
        let (Some(end), Some(runtime)) = (self.rt.period_end, self.config.rt_runtime) else {
            unreachable!("the period ends only where there is a budget");
        };
        let periods = now.since(end).0 / self.config.rt_period.0 + 1;
        self.rt.used = self.rt.used.saturating_sub(Nanos(runtime.0.saturating_mul(periods)));
        if self.rt.throttled && self.rt.used < runtime {
            self.rt.throttled = false;
            self.resched_if(!self.rt.queue.is_empty());
        }
        let running = self.curr.is_some_and(|curr| self.task(curr).rt_prio().is_some());
        let active = self.rt.used > Nanos::ZERO || running;
        self.rt.period_end = active.then(|| Time(end.0 + periods * self.config.rt_period.0));
    }

    /// After the wake-up of a task as important as the running one: makes way for it if only the
    /// running one can go elsewhere. `elsewhere` says whether a task could start on another CPU.
    pub fn make_way(&mut self, slot: Slot, elsewhere: impl Fn(&Task<P>) -> bool) -> Resched {
        let (Some(curr), woken) = (self.curr, slot.0) else { return Resched::No };
        let equals = self.task(curr).rt_prio() == self.task(woken).rt_prio();
        let movable = |at: Index| self.task(at).is_migratory() && elsewhere(self.task(at));
        if self.resched || !equals || !movable(curr) || movable(woken) || self.is_stopped(woken) {
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
        let head = self.rt.pushable.first()?;
        if self.rt.is_throttled() {
            return None;
        }
        if running.is_none_or(|curr| self.task(head).rt_prio() > curr) {
            // It is about to run here.
            self.resched = true;
            return None;
        }
        let (at, to) = self
            .rt
            .pushable
            .iter(&self.rt.pushable_links)
            .take(walk)
            .take_while(|&at| self.task(at).rt_prio() > floor)
            .find_map(|at| Some((at, choose(self.task(at))?)))?;
        Some((self.let_go(at), to))
    }

    /// Lets go of the most important waiting real-time task that may run on `to` and is more
    /// important than `above`, unless it is about to preempt here.
    pub fn take_pullable(&mut self, to: CpuId, above: Option<RtPrio>) -> Option<Box<Task<P>>> {
        if self.rt.is_throttled() {
            return None;
        }
        let running = self.curr.and_then(|at| self.task(at).rt_prio());
        let at = self
            .rt
            .pushable
            .iter(&self.rt.pushable_links)
            .take_while(|&at| self.task(at).rt_prio() > above)
            .find(|&at| {
                self.task(at).attr.affinity.contains(to) && self.task(at).rt_prio() <= running
            })?;
        Some(self.let_go(at))
    }

    fn let_go(&mut self, at: Index) -> Box<Task<P>> {
        self.dequeue_rt(at);
        self.preempt_for_loss();
        self.remove_task(at)
    }

    /// After a task left or lost its boost: it may have been what kept the others from being
    /// throttled.
    pub(crate) fn preempt_for_loss(&mut self) {
        let due = self.curr.is_some_and(|curr| self.rt_wants_switch(curr));
        self.resched_if(due);
    }
}
