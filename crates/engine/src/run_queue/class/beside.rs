//! The part of a run queue in core scheduling: its CPU is a hardware thread of a core
//! ([`crate::core`]).
//!
//! A switch of a thread ([`RunQueue::schedule_beside`](crate::run_queue::RunQueue::schedule_beside)) decides for the whole core. It *follows*
//! instead if another thread has decided for this one and nothing has happened here since. Without
//! that rule, two threads whose tasks are equal would preempt each other without end.
//!
//! A task is *kept off* if it is this queue's own choice but does not have the cookie of the core.
//! Code that repeatedly tests whether a more important task waits must not ask for a switch because
//! of that task.
//!
//! Invariants ([`RunQueue::check`](crate::run_queue::RunQueue::check)): the index has each waiting task, by its cookie and its key. A
//! CPU that is forced idle runs no task, and either a task waits there or a switch is due.

use crate::attr::Cookie;
use crate::core::{Core, Decision, Offer};
use crate::cpu::CpuId;
use crate::ensure::ensure;
use crate::fair::order::Before;
use crate::limits::Pools;
use crate::run_queue::class::Classes;
use crate::run_queue::class::give::MAX_LOOKED_AT;
use crate::run_queue::tasks::Place;
use crate::run_queue::thread::{Call, Thread};
use crate::store::heap::Index;
use crate::task::Task;
use std::fmt::Display;

/// The effect of another thread's decision on a CPU.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heeded {
    /// The CPU is forced idle, or will be.
    pub forced: bool,
    /// The other cookie for which the CPU, forced idle before, is forced idle now.
    pub news: Option<Option<Cookie>>,
}

impl<P, G: Pools> Classes<P, G> {
    /// Returns the cookie for which the CPU is forced idle, if it is: tasks wait here, and none of
    /// them may run beside the tasks of the core.
    #[inline]
    #[must_use]
    pub fn forced_idle(&self) -> Option<Option<Cookie>> {
        self.next.forced_idle()
    }

    /// Returns whether this CPU indexes its tasks by cookie.
    #[inline]
    #[must_use]
    pub fn has_cookies(&self) -> bool {
        self.next.has_core()
    }

    /// Writes the best task of this CPU to `offer`, for the thread of its core that decides. That
    /// is the running task, or the task that would run without core scheduling.
    pub fn offer_beside(&mut self, core: &Core, offer: &mut Offer) {
        let kept_off = self.next.thread().and_then(Thread::kept_off);
        let queues = &self.queues;
        let out_of_budget =
            |at| queues.is_set_aside(at) || queues.is_out_of_budget(queues.tasks.task(at).class());
        let best = match (queues.tasks.running(), kept_off.filter(|&at| !out_of_budget(at))) {
            _ if !queues.site.is_online() => None,
            (Some(_), Some(best)) => Some(best),
            (Some(curr), None) => Some(curr),
            (None, _) => self.peek_class(&mut Before::default()),
        };
        self.tell(best, core, offer);
    }

    /// Picks the task of a thread of a core. Returns it, and whether the CPU is forced idle. A call
    /// without [`RunQueue::schedule_beside`](crate::run_queue::RunQueue::schedule_beside) treats the
    /// thread as the only one of its core.
    #[cold]
    pub(in crate::run_queue) fn pick_beside(&mut self, before: Before) -> (Option<Index>, bool) {
        self.index_prev(before);
        let mut decision = self.next.thread_mut().take_decision();
        let next = self.pick_of_core(before, &mut decision);
        let thread = self.next.thread_mut();
        let forced = thread.decided(next.is_some(), decision);
        if let Some(at) = next.filter(|&at| before.ran != Some(at)) {
            thread.begins(self.queues.tasks.task(at).runtime);
        }
        (next, forced)
    }

    /// Indexes the task that ran, if it is fair and stays: it waits from now on.
    fn index_prev(&mut self, before: Before) {
        let tasks = &self.queues.tasks;
        let is_task = |&at: &Index| matches!(tasks.places().get(at), Some(Place::Task(_)));
        if let Some(at) = before.ran.filter(is_task)
            && tasks.task(at).class().is_fair()
        {
            self.queues.reindex(at);
        }
    }

    /// Returns the best task of the cookie that the core has by its decision, of those with budget
    /// in all their groups.
    fn pick_of_core(&mut self, mut before: Before, decision: &mut Decision) -> Option<Index> {
        let mut called = self.next.thread_mut().take_call();
        self.queues.dismiss_payers();
        loop {
            // The tasks that wait on a CPU that is offline are about to be evicted.
            let online = self.queues.site.is_online();
            let best = if online { self.peek_class(&mut before) } else { None };
            self.tell(best, &decision.core, &mut decision.own);
            if called.is_none() {
                decision.decide(self.queues.site.config());
            }
            let runs = decision.core.runs();
            let best = best.map(|at| (at, runs == Some(self.cookie_at(at))));
            let next = match best {
                Some((at, true)) => Some(at),
                Some((_, false)) => runs.and_then(|cookie| self.best_of(cookie)),
                None => None,
            };
            let kept_off = best.filter(|(_, fits)| !fits).map(|(at, _)| at);
            self.next.thread_mut().chose(runs, kept_off);
            let Some(at) = next else {
                if called.take() == Some(Call { runs: true }) {
                    // The task that the other thread counted on is no longer here.
                    continue;
                }
                return None;
            };
            self.queues.take(at, best.is_some_and(|(_, fits)| fits), &mut before);
            if self.has_budget(at) {
                return Some(at);
            }
            // The thread that decided did not know of the throttling.
            called = None;
        }
    }

    /// Applies the switch of another thread, and returns the state of this CPU that follows from
    /// it. If that thread `decided`, with knowledge of the tasks here, this CPU follows at its next
    /// switch, which may be due because of that.
    pub fn heed(&mut self, core: &Core, decided: bool) -> Heeded {
        let (runs, online) = (core.runs(), self.queues.site.is_online());
        let fits = |at: Index| runs == Some(self.cookie_at(at));
        let curr_stays = self.queues.tasks.running().map(fits);
        let stays = curr_stays == Some(true);
        let can = stays || online && runs.is_some_and(|it| self.best_of(it).is_some());
        let waits = online && (curr_stays.is_some() || self.queues.anybody_waits());
        let forced = waits && !can;
        if !decided {
            return Heeded { forced, news: None };
        }
        let due = self.next.is_due();
        let (called, news) = self.next.thread_mut().heed(runs, (curr_stays, can), due);
        // A task that does not fit may not wait for its own, lazy switch.
        self.next.ask(called || due && curr_stays == Some(false));
        Heeded { forced, news }
    }

    /// Returns whether a task that runs alone here has its ticks because of its core. Only a fair
    /// task has, because [a tick may end its turn](Classes::tick_beside).
    #[inline]
    pub(in crate::run_queue) fn ticks_for_core(&self) -> bool {
        let runs_fair = || self.queues.tasks.running_fair().is_some();
        self.next.thread().is_some_and(|thread| thread.ticks() && runs_fair())
    }

    /// At a tick: preempts a task that runs alone here after half of its slice, while a thread of
    /// its core is forced idle (`task_tick_core`).
    pub fn tick_beside(&mut self) {
        let Some(curr) = self.queues.tasks.running_fair() else { return };
        let ran = self.next.thread_mut().ran(self.queues.tasks.task(curr).runtime);
        let fair = &self.queues.fair;
        let long = 2 * ran.0 > fair.slice_of(self.queues.site.now(), curr);
        self.next.ask(fair.root().nr == 1 && long);
    }

    /// Takes out the best waiting fair task that has this cookie and may run on `to`, a CPU that is
    /// forced idle.
    pub fn take_beside(&mut self, to: CpuId, cookie: Option<Cookie>) -> Option<Box<Task<P>>> {
        // The task that runs here next, by the decision of another thread, must stay (`core_pick`).
        let told = self.next.thread_mut().will_run(cookie);
        let picked = told.then(|| self.best_of(cookie)).flatten();
        let (tasks, fair) = (&self.queues.tasks, &self.queues.fair);
        let may_go = |at: &Index| Some(*at) != picked && tasks.task(*at).attr.affinity.contains(to);
        let first = self.queues.waiting.first_fair(cookie, fair).filter(may_go);
        let any = || {
            let all = self.queues.waiting.all_fair(cookie, fair);
            all.take(MAX_LOOKED_AT as usize).find(may_go)
        };
        let at = first.or_else(any)?;
        self.queues.dequeue_fair(at, false);
        Some(self.remove(at))
    }

    fn tell(&mut self, best: Option<Index>, core: &Core, offer: &mut Offer) {
        offer.clear();
        self.next.thread_mut().offers(best);
        let Some(at) = best else { return };
        let class = self.queues.tasks.task(at).class();
        offer.cookie = self.cookie_at(at);
        offer.rank = Some(self.rank(class));
        if class.is_fair() {
            let snapshots = self.next.thread_mut().snapshots_mut();
            self.queues.fair.stand(at, core.episode(), snapshots, &mut offer.levels);
        }
    }

    fn cookie_at(&self, at: Index) -> Option<Cookie> {
        self.queues.site.cookie_of(self.queues.tasks.task(at))
    }

    /// Notes a change of a task that is here, perhaps of its cookie. It may change which task is
    /// kept off.
    #[cold]
    pub(super) fn note_change(&mut self, at: Index, recookies: bool) {
        self.queues.set_cookie(at, recookies);
        self.next.decide_anew();
        self.next.ask(recookies || self.next.is_kept_off());
    }

    /// Asserts the invariants of this file.
    ///
    /// # Panics
    /// If one does not hold, with `picture`.
    pub(super) fn check_beside(&self, picture: &dyn Display) {
        let Some(thread) = self.next.thread() else { return };
        let (tasks, index) = (&self.queues.tasks, self.queues.waiting.index());
        let mut indexed = 0;
        for (at, task) in tasks.iter().map(|(at, task)| (at.0, task)) {
            let place = index.place(at);
            let cookie = self.queues.site.cookie_of(task);
            let expected = self.queues.shelf(at).map(|(shelf, key)| (cookie, shelf, key));
            ensure!(picture, place == expected, "{} is indexed by its cookie, {place:?}", task.id);
            indexed += usize::from(place.is_some());
        }
        ensure!(picture, index.check() == indexed, "{indexed} tasks are indexed by their cookies");
        let (forced, due) = (thread.forced().is_some(), self.next.is_due());
        let runs = tasks.running();
        ensure!(picture, !forced || runs.is_none(), "a CPU that is forced idle runs nothing");
        let waits = !forced || due || self.queues.anybody_waits();
        ensure!(picture, waits, "a task waits on a CPU that is forced idle");
        let settled = due || !forced;
        let fits = thread.forced().is_some_and(|cookie| self.best_of(cookie).is_some());
        ensure!(
            picture,
            settled || !fits,
            "no task that waits on a CPU that is forced idle may run there"
        );
        let kept_off = thread.kept_off().is_none_or(|at| runs != Some(at));
        ensure!(picture, kept_off, "the task that is kept off does not run");
    }
}
