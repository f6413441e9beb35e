//! The part of a run queue in core scheduling: its CPU is a hardware thread of a core
//! ([`crate::core`]).
//!
//! A switch of a thread ([`RunQueue::schedule_beside`]) decides for the whole core. It *follows*
//! instead if another thread has decided for this one and nothing has happened here since. Without
//! that rule, two threads whose tasks are equal would preempt each other without end.
//!
//! A task is *kept off* if it is this queue's own choice but does not have the cookie of the core.
//! Code that repeatedly tests whether a more important task waits must not ask for a switch because
//! of that task.
//!
//! Invariants ([`RunQueue::check`]): the index has each waiting task, by its cookie and its key. A
//! CPU that is forced idle runs no task, and either a task waits there or a switch is due.

use crate::attr::Cookie;
use crate::core::{Core, Decision, Offer, core_latency};
use crate::cpu::CpuId;
use crate::ensure::ensure;
use crate::fair::order::Before;
use crate::limits::Pools;
use crate::run_queue::cookies::{Beside, Call, CookieIndex, Shelf};
use crate::run_queue::{MAX_LOOKED_AT, Place, Prev, RunQueue, Switch};
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::Task;
use crate::time::{Time, VTime};

/// The effect of another thread's decision on a CPU.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heeded {
    /// The CPU is forced idle, or will be.
    pub forced: bool,
    /// The other cookie for which the CPU, forced idle before, is forced idle now.
    pub news: Option<Option<Cookie>>,
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns the cookie for which the CPU is forced idle, if it is: tasks wait here, and none of
    /// them may run beside the tasks of the core.
    #[inline]
    #[must_use]
    pub fn forced_idle(&self) -> Option<Option<Cookie>> {
        self.beside.as_ref().and_then(|beside| beside.forced)
    }

    /// Returns whether this CPU indexes its tasks by cookie.
    #[inline]
    #[must_use]
    pub fn has_cookies(&self) -> bool {
        self.beside.is_some()
    }

    fn cookie_at(&self, at: Index) -> Option<Cookie> {
        self.site.cookie_of(self.tasks.task(at))
    }

    /// Returns whether the core keeps this queue's own choice off the CPU.
    #[inline]
    pub(super) fn is_kept_off(&self) -> bool {
        self.beside.as_ref().is_some_and(|it| it.kept_off.is_some() || it.forced.is_some())
    }

    /// Writes the best task of this CPU to `offer`, for the thread of its core that decides. That
    /// is the running task, or the task that would run without core scheduling.
    pub fn offer_beside(&mut self, now: Time, core: &Core, offer: &mut Offer) {
        self.advance(now);
        let kept_off = self.beside.as_ref().and_then(|beside| beside.kept_off);
        let out_of_budget =
            |at| self.is_set_aside(at) || self.is_out_of_budget(self.tasks.task(at).class());
        let best = match (self.tasks.running(), kept_off.filter(|&at| !out_of_budget(at))) {
            _ if !self.site.is_online() => None,
            (Some(_), Some(best)) => Some(best),
            (Some(curr), None) => Some(curr),
            (None, _) => self.peek_class(&mut Before::default()),
        };
        self.tell(best, core, offer);
    }

    /// Like [`RunQueue::schedule`], for a thread of a core whose other threads have made their
    /// offers. A CPU without a task does nothing here unless a switch is due.
    ///
    /// # Panics
    /// Like [`RunQueue::schedule`], and if this CPU does not index its tasks by cookie.
    pub fn schedule_beside(
        &mut self,
        now: Time,
        prev: Prev<P>,
        decision: &mut Decision,
    ) -> Switch<P> {
        if matches!(prev, Prev::Idle) && self.tasks.running().is_none() && !self.resched {
            return Switch { next: None, released: None };
        }
        std::mem::swap(&mut self.beside_mut().decision, decision);
        let switch = self.schedule(now, prev);
        std::mem::swap(&mut self.beside_mut().decision, decision);
        switch
    }

    /// Picks the task of a thread of a core, for [`RunQueue::schedule`]. A call without
    /// [`RunQueue::schedule_beside`] treats the thread as the only one of its core.
    #[cold]
    pub(super) fn pick_beside(&mut self, before: Before) -> Option<Index> {
        self.end_idle_of_server();
        if self.idle_since.is_none() {
            // No task is charged for the time in which the CPU was forced idle.
            self.metered.was_idle(self.site.clock().since(self.charged));
            self.charged = self.site.clock();
        }
        self.index_prev(before);
        let mut decision = std::mem::take(&mut self.beside_mut().decision);
        let next = self.pick_of_core(before, &mut decision);
        let beside = self.beside_mut();
        let waits = next.is_none() && beside.kept_off.is_some();
        let forced = if waits { decision.core.runs() } else { None };
        (beside.forced, beside.decision) = (forced, decision);
        self.begin(next, forced.is_some());
        if let Some(at) = next.filter(|&at| before.ran != Some(at)) {
            self.beside_mut().ran_before = self.tasks.task(at).runtime;
        }
        next
    }

    /// Indexes the task that ran, if it is fair and stays: it waits from now on.
    fn index_prev(&mut self, before: Before) {
        let is_task = |&at: &Index| matches!(self.tasks.places().get(at), Some(Place::Task(_)));
        if let Some(at) = before.ran.filter(is_task)
            && self.tasks.task(at).class().is_fair()
        {
            self.reindex_fair(at);
        }
    }

    /// Returns the best task of the cookie that the core has by its decision, of those with budget
    /// in all their groups.
    fn pick_of_core(&mut self, mut before: Before, decision: &mut Decision) -> Option<Index> {
        let mut called = self.beside_mut().called.take();
        self.limits.dismiss_payers();
        loop {
            // The tasks that wait on a CPU that is offline are about to be evicted.
            let best = if self.site.is_online() { self.peek_class(&mut before) } else { None };
            self.tell(best, &decision.core, &mut decision.own);
            if called.is_none() {
                decision.decide(self.site.config());
            }
            let runs = decision.core.runs();
            self.beside_mut().runs = runs;
            let best = best.map(|at| (at, runs == Some(self.cookie_at(at))));
            let next = match best {
                Some((at, true)) => Some(at),
                Some((_, false)) => runs.and_then(|cookie| self.best_of(cookie)),
                None => None,
            };
            self.beside_mut().kept_off = best.filter(|(_, fits)| !fits).map(|(at, _)| at);
            let Some(at) = next else {
                if called.take() == Some(Call { runs: true }) {
                    // The task that the other thread counted on is no longer here.
                    continue;
                }
                return None;
            };
            self.take(at, best.is_some_and(|(_, fits)| fits), &mut before);
            let Err(group) = self.charge_to_groups(at, true) else { return Some(at) };
            self.limits.dismiss_payers();
            self.put_back(at);
            self.throttle(group.0);
            // The thread that decided did not know of the throttling.
            called = None;
        }
    }

    /// Applies the switch of another thread, and returns the state of this CPU that follows from
    /// it. If that thread `decided`, with knowledge of the tasks here, this CPU follows at its next
    /// switch, which may be due because of that.
    pub fn heed(&mut self, core: &Core, decided: bool) -> Heeded {
        let runs = core.runs();
        let fits = |at: Index| runs == Some(self.cookie_at(at));
        let stays = self.tasks.running().is_some_and(fits);
        let can =
            stays || self.site.is_online() && runs.is_some_and(|it| self.best_of(it).is_some());
        let waits =
            self.site.is_online() && (self.tasks.running().is_some() || self.anybody_waits());
        let forced = waits && !can;
        if !decided {
            return Heeded { forced, news: None };
        }
        let leaves = self.tasks.running().is_some() && !stays;
        // If this CPU has no task, that thread knows the result of a switch that is due here. If it
        // has a task, that thread does not. In both cases it does not know of events since it
        // asked.
        let due = self.resched;
        let beside = self.beside.as_mut().expect("this CPU indexes its tasks by cookie");
        beside.runs = runs;
        let called = match self.tasks.running() {
            Some(_) => leaves && (beside.called.is_some() || !due),
            None => can || due,
        };
        beside.called = (called && beside.told).then_some(Call { runs: can });
        let mut news = None;
        if let Some(by) = &mut beside.forced
            && !called
            && let Some(runs) = runs.filter(|runs| runs != by)
        {
            *by = runs;
            news = Some(runs);
        }
        self.resched_if(called);
        Heeded { forced, news }
    }

    /// On a tickless machine, notes that a thread of the core is forced idle from now on, or that
    /// none is any more. While one is, a task that runs alone here has its ticks.
    pub fn note_episode(&mut self, now: Time, lasts: bool) {
        self.beside_mut().ticks = lasts;
        if lasts && self.tasks.running().is_some() {
            self.tick_at = Some(self.site.config().next_tick(self.site.cpu(), now));
        }
    }

    /// Returns whether a task that runs alone here has its ticks because of its core. Only a fair
    /// task has, because [a tick may end its turn](RunQueue::tick_beside).
    #[inline]
    pub(super) fn ticks_for_core(&self) -> bool {
        let runs_fair = || self.tasks.running_fair().is_some();
        self.beside.as_ref().is_some_and(|beside| beside.ticks && runs_fair())
    }

    /// Makes room for `len` tasks and group queues, for which the fair class already has room.
    pub(super) fn reserve_beside(&mut self, len: usize) {
        if let Some(beside) = &mut self.beside {
            beside.index.grow(len);
            let queues = self.fair.tree.nr_queues();
            beside.snapshots.reserve_exact(queues.saturating_sub(beside.snapshots.len()));
        }
    }

    /// Like [`RunQueue::reserve_beside`], with the memory of `room`. Allocates nothing.
    pub(super) fn reserve_beside_in(&mut self, room: Option<&mut CookieIndex>) {
        if let (Some(beside), Some(room)) = (&mut self.beside, room) {
            beside.index.grow_into(room);
        }
    }

    /// At a tick: preempts a task that runs alone here after half of its slice, while a thread of
    /// its core is forced idle (`task_tick_core`).
    pub fn tick_beside(&mut self) {
        let Some(curr) = self.tasks.running_fair() else { return };
        let ran = self.tasks.task(curr).runtime.saturating_sub(self.beside_mut().ran_before);
        let now = self.site.now();
        let long = 2 * ran.0 > self.fair.slice_of(now, curr);
        self.resched_if(self.fair.root().nr == 1 && long);
    }

    /// Takes out the best waiting fair task that has this cookie and may run on `to`, a CPU that is
    /// forced idle.
    pub fn take_beside(
        &mut self,
        now: Time,
        to: CpuId,
        cookie: Option<Cookie>,
    ) -> Option<Box<Task<P>>> {
        self.advance(now);
        // The task that runs here next, by the decision of another thread, must stay (`core_pick`).
        let beside = self.beside_mut();
        let told = beside.called == Some(Call { runs: true }) && beside.runs == Some(cookie);
        let picked = told.then(|| self.best_of(cookie)).flatten();
        let may_go =
            |at: &Index| Some(*at) != picked && self.tasks.task(*at).attr.affinity.contains(to);
        let first = self.first_fair_of(cookie).filter(may_go);
        let at = first.or_else(|| self.any_fair_of(cookie, may_go))?;
        self.dequeue_fair(at, false);
        Some(self.remove_task(at))
    }

    fn tell(&mut self, best: Option<Index>, core: &Core, offer: &mut Offer) {
        offer.clear();
        let beside = self.beside_mut();
        (beside.offered, beside.told) = (best, true);
        let Some(at) = best else { return };
        let class = self.tasks.task(at).class();
        offer.cookie = self.cookie_at(at);
        offer.rank = Some(self.rank(class));
        if class.is_fair()
            && let Some(beside) = &mut self.beside
        {
            let Beside { snapshots, .. } = &mut **beside;
            self.fair.stand(at, core.episode(), snapshots, &mut offer.levels);
        }
    }

    pub(super) fn first_rt_of(&self, cookie: Option<Cookie>) -> Option<Index> {
        let (shelf, at) = self.index().firsts(cookie).next()?;
        (shelf == Shelf::RT && !self.rt.is_throttled()).then_some(at)
    }

    pub(super) fn first_fair_of(&self, cookie: Option<Cookie>) -> Option<Index> {
        let earlier = |best, at| if self.fair.is_before(at, best) { at } else { best };
        self.fair_shelves(cookie).map(|(_, at)| at).reduce(earlier)
    }

    /// Returns the fair queues, as shelves, in which tasks of a cookie wait and compete, each with
    /// its first task.
    fn fair_shelves(&self, cookie: Option<Cookie>) -> impl Iterator<Item = (Shelf, Index)> {
        let competes =
            |shelf: Shelf| shelf.queue().is_some_and(|queue| !self.fair.is_below_throttled(queue));
        self.index().firsts(cookie).filter(move |&(shelf, _)| competes(shelf))
    }

    /// Returns some waiting fair task of a cookie that may go, of the first [`MAX_LOOKED_AT`].
    fn any_fair_of(
        &self,
        cookie: Option<Cookie>,
        may_go: impl Fn(&Index) -> bool,
    ) -> Option<Index> {
        let all = self.fair_shelves(cookie).flat_map(|(shelf, _)| self.index().on(cookie, shelf));
        all.take(MAX_LOOKED_AT as usize).find(may_go)
    }

    /// Returns whether any task waits here that could run if cookies did not matter.
    fn anybody_waits(&self) -> bool {
        self.nr_running() > u32::from(self.tasks.running().is_some())
    }

    /// Notes that a task left. If the core decided by that task, or it was this queue's own choice,
    /// a new decision is due. A CPU that is forced idle and has no more tasks also needs a switch.
    #[cold]
    pub(super) fn note_loss(&mut self, at: Index) {
        let idles = self.tasks.running().is_none();
        let beside = self.beside_mut();
        let was_kept_off = beside.kept_off == Some(at);
        if was_kept_off {
            beside.kept_off = None;
        }
        let was_offered = beside.offered == Some(at);
        if was_offered {
            (beside.called, beside.told) = (None, false);
        }
        let was_forced = idles && beside.forced.is_some();
        let is_last = was_forced && (was_offered || !self.anybody_waits());
        self.resched_if(was_kept_off || is_last);
    }

    /// Notes a change of a task that is here, perhaps of its cookie. It may change which task is
    /// kept off.
    #[cold]
    pub(super) fn note_change(&mut self, at: Index, recookies: bool) {
        self.set_cookie(at, recookies);
        self.decide_anew();
        self.resched_if(recookies || self.is_kept_off());
    }

    /// Notes that a task came and waits. If it fits the tasks of the core, it is no reason for
    /// another decision on a CPU that is forced idle: it came to run beside them. A switch that is
    /// due for another reason decides.
    #[cold]
    pub(super) fn note_arrival(&mut self, at: Index) {
        // A task with an inherited priority may prevent the throttling of the others.
        let (cookie, due) =
            (self.cookie_at(at), self.resched || self.tasks.task(at).boost.is_some());
        let beside = self.beside_mut();
        let fits = beside.forced.is_some() && beside.runs == Some(cookie);
        let follows = fits && (beside.called.is_some() || !due);
        (beside.called, beside.told) = (follows.then_some(Call { runs: true }), false);
    }

    /// Asks for a switch because the last decision of the core did not know of a change here: this
    /// CPU does not follow that decision.
    #[inline]
    pub(super) fn resched_anew(&mut self, due: bool) {
        if due {
            self.resched = true;
            self.decide_anew();
        }
    }

    /// Makes the next switch decide, instead of following the last decision of the core.
    #[cold]
    #[inline(never)]
    pub(super) fn decide_anew(&mut self) {
        if let Some(beside) = &mut self.beside {
            (beside.called, beside.told) = (None, false);
        }
    }

    /// Updates the index after a fair task began or ceased to wait, or moved in its queue.
    #[inline]
    pub(super) fn reindex(&mut self, at: Index) {
        if self.beside.is_some() {
            self.reindex_fair(at);
        }
    }

    #[inline(never)]
    fn reindex_fair(&mut self, at: Index) {
        let (cookie, queue) = (self.cookie_at(at), self.fair.tree.entity(at).parent);
        let (waits, key) = (self.fair.tree.waits(at), self.key_of(at));
        let index = &mut self.beside_mut().index;
        match waits {
            true => index.put_fair(at, cookie, (queue, key)),
            false => index.remove(at),
        }
    }

    /// Returns the place of a fair task among those of its cookie. A lower latency nice places it
    /// further to the front.
    pub(super) fn key_of(&self, at: Index) -> VTime {
        let entity = self.fair.tree.entity(at);
        let offset = match core_latency(self.site.config()) {
            true => self.site.config().latency_offset(entity.latency_nice),
            false => 0,
        };
        entity.vruntime.after(offset.cast_unsigned())
    }

    /// Indexes a real-time task that was queued, before or behind its equals.
    #[inline]
    pub(super) fn index_rt(&mut self, at: Index, end: End) {
        if self.beside.is_some() {
            self.put_rt(at, end);
        }
    }

    #[inline(never)]
    fn put_rt(&mut self, at: Index, end: End) {
        let (cookie, prio) = (self.cookie_at(at), self.rt_task(at).prio);
        self.beside_mut().index.put_rt(at, cookie, (prio, end));
    }

    /// Removes a task that ceases to wait from the index.
    #[inline]
    pub(super) fn unindex(&mut self, at: Index) {
        if self.beside.is_some() {
            self.take_from_index(at);
        }
    }

    #[inline(never)]
    fn take_from_index(&mut self, at: Index) {
        self.beside_mut().index.remove(at);
    }

    /// Rebuilds the index after the offsets of latency nice changed.
    pub(super) fn reindex_all(&mut self) {
        if self.beside.is_some() {
            let fair = |at: &Index| self.tasks.task(*at).class().is_fair();
            let all: Vec<_> = self.tasks.iter().map(|(at, _)| at.0).filter(fair).collect();
            all.into_iter().for_each(|at| self.reindex_fair(at));
        }
    }

    fn beside_mut(&mut self) -> &mut Beside {
        self.beside.as_mut().expect("this CPU indexes its tasks by cookie")
    }

    pub(super) fn index(&self) -> &CookieIndex {
        &self.beside.as_ref().expect("this CPU indexes its tasks by cookie").index
    }

    pub(super) fn check_beside(&self) {
        let Some(beside) = &self.beside else { return };
        let mut tasks = 0;
        for (at, task) in self.tasks.iter().map(|(at, task)| (at.0, task)) {
            let place = beside.index.place(at);
            let cookie = self.site.cookie_of(task);
            let expected = self.shelf(at).map(|(shelf, key)| (cookie, shelf, key));
            ensure!(self, place == expected, "{} is indexed by its cookie, {place:?}", task.id);
            tasks += usize::from(place.is_some());
        }
        ensure!(self, beside.index.check() == tasks, "{tasks} tasks are indexed by their cookies");
        let forced = beside.forced.is_some();
        ensure!(
            self,
            !forced || self.tasks.running().is_none(),
            "a CPU that is forced idle runs nothing"
        );
        let waits = !forced || self.resched || self.anybody_waits();
        ensure!(self, waits, "a task waits on a CPU that is forced idle");
        let settled = self.resched || !forced;
        let fits = beside.forced.is_some_and(|cookie| self.best_of(cookie).is_some());
        ensure!(
            self,
            settled || !fits,
            "no task that waits on a CPU that is forced idle may run there"
        );
        let kept_off = beside.kept_off.is_none_or(|at| self.tasks.running() != Some(at));
        ensure!(self, kept_off, "the task that is kept off does not run");
    }
}
