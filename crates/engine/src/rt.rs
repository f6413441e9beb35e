//! The real-time class: SCHED_FIFO and SCHED_RR on one CPU, and the tasks that may leave it for
//! another.
//!
//! There is a list for each priority. The running task stays at its place in its list. So a
//! preempted task keeps the head without any work, and a yielding or expired one goes to the tail.
//! There are also the *pushable* tasks: queued, not running, and allowed on more than one CPU. A
//! CPU with pushable tasks is overloaded and publishes that; the machine moves them.
//!
//! Throttling works as in Linux through 6.11. Real-time tasks may use `rt_runtime` of each
//! `rt_period` on a CPU. Then they wait, unless one of them holds a resource that another task
//! waits for. While a CPU throttles, it neither takes nor gives real-time tasks. Tasks below a
//! throttled group wait in a list of their own: they are *set aside*.
//!
//! This module does not know the payload of a task: an [`RtTask`] has the fields that it needs.
//!
//! Invariants ([`Rt::check`]): a task is pushable exactly when it is queued, real-time, not running
//! and allowed on more than one CPU. Counts equal those computed afresh.

use crate::attr::RtPrio;
use crate::config::Config;
use crate::ensure::ensure;
use crate::store::heap::Index;
use crate::store::list::{End, Links, List, PrioLists};
use crate::time::{Nanos, Time};
use std::fmt::Display;

/// The fields of a task that the class needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RtTask {
    pub(crate) at: Index,
    pub(crate) prio: RtPrio,
    /// Whether its priority, or a part of it, is inherited.
    pub(crate) boosted: bool,
    /// Whether it may run on more than one CPU.
    pub(crate) migratory: bool,
    pub(crate) running: bool,
}

/// The real-time tasks of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Rt {
    /// The links of the lists of priorities and of `set_aside`: a task is in one of them.
    links: Links,
    /// Every task that may run, the running one included.
    queue: PrioLists,
    pushable: PrioLists,
    pushable_links: Links,
    /// The end of its list at which the running task is: the head, unless it was sent to the tail.
    curr_end: End,
    /// The number of tasks with an inherited priority: while there is one, no task is throttled.
    nr_boosted: u32,
    nr: u32,
    /// Tasks that wait below a throttled group.
    set_aside: List,
    nr_set_aside: u32,
    /// CPU time used against the budget; reduced by the budget in each period.
    used: Nanos,
    throttled: bool,
    /// The last value of [`Rt::is_throttled`] that the host knows.
    told: bool,
    /// The end of the current period; there is one while a task runs or budget was used.
    period_end: Option<Time>,
}

impl Rt {
    /// Makes room for the indices `0..len`. Allocates.
    pub(crate) fn grow(&mut self, len: usize) {
        self.links.grow(len);
        self.pushable_links.grow(len);
    }

    /// Like [`Rt::grow`], up to the room of `room`, whose memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Rt) {
        self.links.grow_into(&mut room.links);
        self.pushable_links.grow_into(&mut room.pushable_links);
    }

    /// Returns whether the tasks wait for their budget.
    #[inline]
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled && self.nr_boosted == 0
    }

    /// Returns whether the budget is used up. The tasks wait for more, unless one has an inherited
    /// priority.
    #[inline]
    pub(crate) fn is_budget_used_up(&self) -> bool {
        self.throttled
    }

    /// Returns the number of tasks that may run, regardless of the budget.
    #[inline]
    pub(crate) fn nr(&self) -> u32 {
        self.nr
    }

    /// Returns the best priority of those tasks.
    #[inline]
    pub(crate) fn highest(&self) -> Option<RtPrio> {
        self.queue.highest()
    }

    /// Returns the best priority of a task that may run.
    #[inline]
    pub(crate) fn best(&self) -> Option<RtPrio> {
        self.queue.highest().filter(|_| !self.is_throttled())
    }

    /// Returns the best priority of a pushable task.
    #[inline]
    pub(crate) fn best_pushable(&self) -> Option<RtPrio> {
        self.pushable.highest()
    }

    /// Returns whether no real-time task is here, not even one that is set aside.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nr == 0 && self.nr_set_aside == 0
    }

    /// Returns whether tasks wait for their budget, if that changed since the last call.
    #[inline]
    pub(crate) fn take_throttling(&mut self) -> Option<bool> {
        if !self.throttled && !self.told {
            return None;
        }
        let throttled = self.is_throttled();
        (std::mem::replace(&mut self.told, throttled) != throttled).then_some(throttled)
    }

    /// Returns when the current period of the budget ends, if there is one.
    pub(crate) fn period_end(&self) -> Option<Time> {
        self.period_end
    }

    /// Returns whether a task is in a list of this class.
    pub(crate) fn contains(&self, at: Index) -> bool {
        self.links.contains(at)
    }

    pub(crate) fn enqueue(&mut self, task: RtTask, end: End) {
        self.nr_boosted += u32::from(task.boosted);
        self.nr += 1;
        self.queue.insert(&mut self.links, task.prio, (task.at, end));
        self.update_pushable(task, end);
    }

    pub(crate) fn dequeue(&mut self, task: RtTask) {
        self.nr_boosted -= u32::from(task.boosted);
        self.nr -= 1;
        self.queue.remove(&mut self.links, task.prio, task.at);
        if self.pushable_links.contains(task.at) {
            self.pushable.remove(&mut self.pushable_links, task.prio, task.at);
        }
    }

    /// Notes that a task is picked: it is not pushable while it runs. Begins a period of the budget
    /// if there is none.
    pub(crate) fn set_curr(&mut self, task: RtTask, now: Time, config: &Config) {
        self.update_pushable(task, End::Head);
        self.curr_end = End::Head;
        if config.rt_runtime.is_some() && self.period_end.is_none() {
            self.period_end = Some(now + config.rt_period);
        }
    }

    /// Notes that the task that ran waits from now on, at its place.
    pub(crate) fn put_prev(&mut self, task: RtTask) {
        self.update_pushable(task, self.curr_end);
    }

    /// Makes a task pushable or not, depending on its affinity and on whether it runs.
    pub(crate) fn update_pushable(&mut self, task: RtTask, end: End) {
        let should = task.migratory && !task.running;
        let (lists, links) = (&mut self.pushable, &mut self.pushable_links);
        match (should, links.contains(task.at)) {
            (true, false) => lists.insert(links, task.prio, (task.at, end)),
            (false, true) => lists.remove(links, task.prio, task.at),
            (true, true) | (false, false) => {}
        }
    }

    /// Moves the task before or behind its equals.
    pub(crate) fn requeue(&mut self, task: RtTask, end: End) {
        self.dequeue(task);
        self.enqueue(task, end);
        if task.running {
            self.curr_end = end;
        }
    }

    /// Notes that the priority of a queued task is inherited from now on, or no longer; its value
    /// is unchanged.
    pub(crate) fn reboost(&mut self, was: bool, is: bool) {
        self.nr_boosted = self.nr_boosted - u32::from(was) + u32::from(is);
    }

    /// Returns whether another task has this priority.
    pub(crate) fn is_shared(&self, prio: RtPrio) -> bool {
        self.queue.is_shared(prio)
    }

    /// Returns the most important task, unless the tasks wait for their budget.
    #[inline]
    pub(crate) fn pick(&self) -> Option<Index> {
        self.queue.first().filter(|_| !self.is_throttled())
    }

    /// Returns the pushable tasks, most important first.
    pub(crate) fn pushable(&self) -> impl Iterator<Item = Index> {
        self.pushable.iter(&self.pushable_links)
    }

    /// Charges the CPU's budget. Returns whether its tasks must wait from now on.
    pub(crate) fn charge(&mut self, span: Nanos, config: &Config) -> bool {
        let Some(runtime) = config.rt_runtime else { return false };
        self.used += span;
        if self.used <= runtime || self.throttled {
            return false;
        }
        self.throttled = true;
        self.is_throttled()
    }

    /// Ends a period, or several, and refills the budget. Returns whether tasks may run that could
    /// not.
    pub(crate) fn end_period(&mut self, now: Time, running: bool, config: &Config) -> bool {
        let (Some(end), Some(runtime)) = (self.period_end, config.rt_runtime) else {
            unreachable!("the period ends only where there is a budget");
        };
        let periods = now.since(end).0 / config.rt_period.0 + 1;
        self.used = self.used.saturating_sub(Nanos(runtime.0.saturating_mul(periods)));
        let back = self.throttled && self.used < runtime;
        if back {
            self.throttled = false;
        }
        let active = self.used > Nanos::ZERO || running;
        self.period_end = active.then(|| Time(end.0 + periods * config.rt_period.0));
        back && !self.queue.is_empty()
    }

    /// Adds a task below a throttled group to the list of those.
    pub(crate) fn set_aside(&mut self, at: Index) {
        self.nr_set_aside += 1;
        self.links.push_back(&mut self.set_aside, at);
    }

    /// The opposite of [`Rt::set_aside`].
    pub(crate) fn bring_back(&mut self, at: Index) {
        self.nr_set_aside -= 1;
        self.links.remove(&mut self.set_aside, at);
    }

    /// Returns the number of tasks that wait below throttled groups.
    pub(crate) fn nr_set_aside(&self) -> u32 {
        self.nr_set_aside
    }

    /// Returns the task that has waited longest below a throttled group.
    pub(crate) fn first_set_aside(&self) -> Option<Index> {
        self.links.iter(self.set_aside).next()
    }

    /// Returns the most important task that may run, regardless of the budget.
    pub(crate) fn first(&self) -> Option<Index> {
        self.queue.first()
    }

    /// Returns the next of those after one of priority `prio`.
    pub(crate) fn after(&self, at: Index, prio: RtPrio) -> Option<Index> {
        self.queue.after(&self.links, at, prio)
    }

    /// Asserts the invariants of the class. `task` returns the fields of a task, and whether it is
    /// below a throttled group.
    ///
    /// # Panics
    /// If an invariant does not hold, with `picture`.
    pub(crate) fn check(&self, task: impl Fn(Index) -> (RtTask, bool), picture: &dyn Display) {
        let (mut nr, mut boosted, mut aside) = (0, 0, 0);
        self.queue.check(&self.links, |at, prio| {
            let (task, _) = task(at);
            ensure!(picture, task.prio == prio, "{at} is in the list of {prio:?}");
            nr += 1;
            boosted += u32::from(task.boosted);
            let pushable = task.migratory && !task.running;
            let listed = self.pushable_links.contains(at);
            ensure!(picture, pushable == listed, "{at} is pushable: {pushable}");
        });
        ensure!(picture, (self.nr, self.nr_boosted) == (nr, boosted), "{nr} rt, {boosted} boosted");
        self.pushable.check(&self.pushable_links, |at, prio| {
            ensure!(picture, task(at).0.prio == prio, "{at} is in the pushable list of {prio:?}");
        });
        for at in self.links.iter(self.set_aside) {
            aside += 1;
            ensure!(picture, task(at).1, "{at} is below a throttled group");
        }
        ensure!(picture, aside == self.nr_set_aside, "{aside} real-time tasks are set aside");
    }

    /// Returns whether a period of the budget must continue while no task runs.
    pub(crate) fn is_budget_used(&self) -> bool {
        self.used > Nanos::ZERO
    }
}
