//! Task groups held to their limits on one CPU.
//!
//! The running task's *payers* are the groups at and above its own that have a limit: each has a grant
//! of its pool and is charged for what the task uses. That is asked when a task is picked: if a group has
//! nothing left, it is throttled here and another task is picked. A timer interrupt comes when the
//! first of the grants is used up. Who is not a payer any more after a pick gives its grant back.
//!
//! To throttle a group is to take its entity out of its parent's queue with all that it counts for, and
//! its real-time tasks out of their lists. Tasks that wake, leave or move do so in its queue, and
//! what is above does not hear of it. It comes back when the pool has budget again: by a timer of this
//! CPU, or because another CPU gave some back. What a group is ahead or behind of others, in vruntime,
//! it still is then: it is neither paid nor fined for having waited.
//!
//! A task that somebody outside waits for competes in the group that the two have in common
//! ([`Change::inherited_group`](crate::task::Change::inherited_group)): the groups below pay for what
//! it uses, but none of them holds it back.
//!
//! Invariants ([`RunQueue::check`]): who runs is not below a throttled group, or leaves at once; only
//! payers hold grants; a throttled group's entity is in no queue, and in the heap of those that wait
//! for a refill; its real-time tasks are in no priority list.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::event::{Throttled, Throttling};
use crate::fair::Fair;
use crate::group::Groups;
use crate::heap::{Forest, Heap, Index};
use crate::limit::UsageOnCpu;
use crate::list::{End, List};
use crate::pool::Grant;
use crate::run_queue::{Expired, Member, Resched, RunQueue};
use crate::task::{Slot, Task};
use crate::time::{Nanos, Time};

/// CPUs look for a new period's budget one after the other, so that they do not meet at the pool: as far
/// apart as one is there, and so many before they begin anew that the last comes 50 us late.
const BETWEEN_REFILLS: Nanos = Nanos(200);
const REFILLED_IN_TURN: u64 = 256;

/// How much later than a period begins a CPU may look for its budget.
pub const LATEST_REFILL: Nanos = Nanos(BETWEEN_REFILLS.0 * REFILLED_IN_TURN);

/// A group with a limit on this CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// What this CPU has of the pool while the group pays for who runs.
    grant: Option<Grant>,
    /// Since when the group is throttled here.
    pub(crate) throttled: Option<Time>,
    /// What was used here in the period of the last grant, and when that ends.
    used: Nanos,
    until: Time,
    /// What was used since the last grant was drawn, and how much of that beyond the CPU's own part.
    lately: (Nanos, Nanos),
}

impl Budget {
    /// Whether nothing is lost if it is forgotten.
    pub(crate) fn is_at_rest(&self, now: Time) -> bool {
        self.grant.is_none() && self.throttled.is_none() && self.until <= now
    }
}

/// A group that pays for the running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payer {
    at: Index,
    /// It stops the task when it has nothing left.
    holds_back: bool,
}

/// The limits of the groups on one CPU.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Who pays for the running task, from its own group upwards; and who did before the pick.
    payers: Vec<Payer>,
    former: Vec<Payer>,
    /// When the first grant of a payer is used up.
    grant_ends: Option<Time>,
    /// The earlier of that and of the first refill; later than any time if there is neither.
    next: Time,
    /// Somebody paid or was told of budget since the last pick.
    unsettled: bool,
    /// The throttled groups, by when there is budget.
    throttled: Heap,
    forest: Forest<(Time, u64)>,
    pub(crate) nr_throttled: u32,
    /// Real-time tasks that wait below a throttled group.
    pub(crate) stopped_rt: List,
    pub(crate) nr_stopped_rt: u32,
    /// What groups used here and how they were throttled, by group; kept when their queues go.
    usage: Vec<(GroupId, UsageOnCpu)>,
    /// CPUs that wait for what was given back, and the groups; for the host's machine.
    refilled: Vec<(CpuId, GroupId)>,
    /// Groups of which another CPU said that there is budget, since the last pick.
    told: Vec<GroupId>,
    throttlings: Vec<Throttling>,
    /// There is something in either of these two.
    has_news: bool,
}

impl Limits {
    pub(crate) fn new() -> Limits {
        Limits {
            payers: Vec::new(),
            former: Vec::new(),
            grant_ends: None,
            next: Time::MAX,
            unsettled: false,
            throttled: Heap::default(),
            forest: Forest::new(),
            nr_throttled: 0,
            stopped_rt: List::default(),
            nr_stopped_rt: 0,
            usage: Vec::new(),
            refilled: Vec::new(),
            told: Vec::new(),
            throttlings: Vec::new(),
            has_news: false,
        }
    }

    pub(crate) fn grow(&mut self, members: usize, groups: usize, all: usize) {
        self.forest.grow(members);
        for list in [&mut self.payers, &mut self.former] {
            list.reserve(groups.saturating_sub(list.len()));
        }
        self.usage.reserve(all.saturating_sub(self.usage.len()));
        self.refilled.reserve(groups.saturating_sub(self.refilled.len()));
        self.told.reserve(groups.saturating_sub(self.told.len()));
        // A beginning and an end for each group, and one of the two for the real-time tasks.
        self.throttlings.reserve((2 * groups + 1).saturating_sub(self.throttlings.len()));
    }

    /// When something is to be done here; later than any time if never.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    fn renew_next(&mut self) {
        let refill = self.throttled.first().map(|at| self.forest.key(at).0);
        let at = |time: Option<Time>| time.unwrap_or(Time::MAX);
        self.next = at(refill).min(at(self.grant_ends));
    }

    fn set_grant_ends(&mut self, at: Option<Time>) {
        self.grant_ends = at;
        self.renew_next();
    }

    fn note(&mut self, throttling: Throttling) {
        self.throttlings.push(throttling);
        self.has_news = true;
    }

    /// Before what is noted of groups: the budget of real-time tasks is used up before a group is asked
    /// for its own.
    pub(crate) fn note_rt(&mut self, begins: bool) {
        self.throttlings.insert(0, Throttling { what: Throttled::RealTime, begins });
        self.has_news = true;
    }

    fn renew_news(&mut self) {
        self.has_news = !self.refilled.is_empty() || !self.throttlings.is_empty();
    }

    /// A CPU waits for what there is of a group's budget.
    fn tell(&mut self, waiting: Option<CpuId>, group: GroupId) {
        let news = waiting.map(|waiting| (waiting, group));
        let new = news.filter(|news| !self.refilled.contains(news));
        self.refilled.extend(new);
        self.renew_news();
    }

    fn usage(&mut self, group: GroupId) -> &mut UsageOnCpu {
        let at = match self.usage.binary_search_by_key(&group, |&(id, _)| id) {
            Ok(at) => at,
            Err(at) => {
                self.usage.insert(at, (group, UsageOnCpu::default()));
                at
            }
        };
        &mut self.usage[at].1
    }
}

impl<P, G: Groups> RunQueue<P, G> {
    /// What a group with a limit used on this CPU, and how it was throttled, until `now`.
    #[must_use]
    pub fn usage(&self, now: Time, group: GroupId) -> Option<UsageOnCpu> {
        let known = self.limits.usage.binary_search_by_key(&group, |&(id, _)| id);
        let budget = self.budget_of(group);
        let mut usage = known.ok().map(|at| self.limits.usage[at].1);
        if let Some(Budget { throttled, lately: (used, borrowed), .. }) = budget {
            let usage = usage.get_or_insert_default();
            usage.throttled += throttled.map_or(Nanos::ZERO, |since| now.since(since));
            usage.used += used;
            usage.borrowed += borrowed;
        }
        usage.filter(|usage| *usage != UsageOnCpu::default())
    }

    /// What this CPU drew of a group's pool and did not give back.
    #[must_use]
    pub fn held(&self, group: GroupId) -> Nanos {
        let budget = self.budget_of(group);
        budget.and_then(|budget| budget.grant).map_or(Nanos::ZERO, |grant| grant.drawn())
    }

    /// What was used of that, and is not in the pool's account yet.
    #[must_use]
    pub fn in_use(&self, group: GroupId) -> Nanos {
        let budget = self.budget_of(group);
        budget.map_or(Nanos::ZERO, |budget| budget.lately.0)
    }

    /// Whether tasks of a group with a limit compete here that will draw from its pool when their turn
    /// comes: for checks.
    #[must_use]
    pub fn has_claim(&self, group: GroupId) -> bool {
        let above = |id: GroupId| {
            let parent = |&id: &GroupId| (id != GroupId::ROOT).then(|| self.groups.parent(id));
            std::iter::successors(Some(id), parent)
        };
        let free = self.budget_of(group).is_some_and(|budget| budget.grant.is_none());
        free && self.competing().any(|(_, task)| above(task.queue_group()).any(|id| id == group))
    }

    /// Whether there is anything for [`RunQueue::take_refilled`] or [`RunQueue::drain_throttlings`].
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.limits.has_news
    }

    /// Takes a CPU that waits for budget which this one gave back, and the group. To be called until
    /// it gives `None`, after each call that may switch.
    pub fn take_refilled(&mut self) -> Option<(CpuId, GroupId)> {
        let news = self.limits.refilled.pop();
        self.limits.renew_news();
        news
    }

    /// Tells what was throttled since it was last called, and what is not any more, in order. To be called
    /// after each call that changes the queue, and after [`RunQueue::expire`] gave `None`.
    pub fn drain_throttlings(&mut self, mut tell: impl FnMut(Throttling)) {
        self.limits.throttlings.drain(..).for_each(&mut tell);
        self.limits.renew_news();
    }

    /// Who is in the queue and competes: [`RunQueue::tasks`] without those below throttled groups.
    pub fn competing(&self) -> impl Iterator<Item = (Slot, &Task<P>)> {
        self.tasks().filter(|(slot, _)| !self.is_stopped(slot.0))
    }

    /// There is budget for a group that may be throttled here; this CPU is one of so many that were told
    /// of it. Gives the next that waits for it and is worth telling, if this one will not pick at once:
    /// one that does looks for the next itself.
    pub fn refill(&mut self, now: Time, group: GroupId, told: u32) -> Option<CpuId> {
        self.advance(now);
        let waited = self.queue_of(group).filter(|&at| self.is_throttled_group(at));
        match waited {
            Some(at) => self.unthrottle(at),
            None => self.groups.forget(group, self.cpu),
        }
        if waited.is_some() || self.resched {
            if !self.limits.told.contains(&group) {
                self.limits.told.push(group);
            }
            self.limits.unsettled = true;
        }
        if self.resched { None } else { self.groups.who_waits(group, now, self.cpu, told) }
    }

    /// Somebody who waited left without a pick: what this CPU was told of and did not draw may be for
    /// others.
    #[inline]
    pub(crate) fn pass_on(&mut self) {
        if !self.limits.told.is_empty() {
            self.pass_on_each();
        }
    }

    #[inline(never)]
    fn pass_on_each(&mut self) {
        for nth in 0..self.limits.told.len() {
            let group = self.limits.told[nth];
            let waiting = self.groups.who_waits(group, self.clock, self.cpu, 0);
            self.limits.tell(waiting, group);
        }
    }

    /// The limit of a group changed: what this CPU had of the old one has lapsed, and nobody is
    /// throttled by it.
    pub fn renew_limit(&mut self, now: Time, group: GroupId) -> Resched {
        self.advance(now);
        // A real-time task may have run without a queue of its group.
        self.dismiss_payers();
        if let Some(at) = self.queue_of(group) {
            if self.is_throttled_group(at) {
                self.unthrottle(at);
            }
            if self.group(at).budget.is_some() {
                // It may be of the new pool already.
                self.return_grant(at);
            }
            let budget = self.fresh_budget(group);
            self.group_mut(at).budget = budget;
            self.limits.former.retain(|payer| payer.at != at);
        }
        self.renew_payers();
        self.resched()
    }

    /// Forgets a group in which nobody is any more, and none of whose children has a queue here.
    ///
    /// # Panics
    /// If a task of it is here.
    pub fn forget_group(&mut self, now: Time, group: GroupId) {
        self.advance(now);
        if let Some(at) = self.queue_of(group) {
            if self.is_throttled_group(at) {
                self.unthrottle(at);
            }
            self.remove_group_queue(at);
        }
        self.limits.usage.retain(|&(id, _)| id != group);
    }

    /// Makes the payers of the running task those that it has now.
    pub(crate) fn renew_payers(&mut self) {
        self.dismiss_payers();
        let stopped = self.curr.is_some_and(|curr| self.charge_to_groups(curr, false).is_err());
        self.resched_if(stopped);
        self.settle();
    }

    pub(crate) fn fresh_budget(&self, group: GroupId) -> Option<Budget> {
        let (used, until, lately) = (Nanos::ZERO, Time::ZERO, Default::default());
        let fresh = Budget { grant: None, throttled: None, used, until, lately };
        self.groups.has_limit(group).then_some(fresh)
    }

    /// Before a pick: nobody runs, so nobody pays.
    #[inline]
    pub(crate) fn dismiss_payers(&mut self) {
        if !self.limits.payers.is_empty() {
            self.dismiss_each_payer();
        }
    }

    #[inline(never)]
    fn dismiss_each_payer(&mut self) {
        self.limits.unsettled = true;
        self.limits.set_grant_ends(None);
        let Limits { payers, former, .. } = &mut self.limits;
        for payer in payers.drain(..) {
            if !former.iter().any(|known| known.at == payer.at) {
                former.push(payer);
            }
        }
    }

    /// The groups with limits above a picked task have what it will use, and pay for it. If one has
    /// nothing left and `waits`, this CPU is noted as one that waits for more.
    ///
    /// # Errors
    /// The outermost group that has nothing left.
    #[inline]
    pub(crate) fn charge_to_groups(&mut self, picked: Index, waits: bool) -> Result<(), Index> {
        let own = self.task(picked).attr.group;
        let limited = own != GroupId::ROOT && self.groups.is_limited(own);
        if limited { self.charge_to_limited(picked, waits) } else { Ok(()) }
    }

    #[inline(never)]
    fn charge_to_limited(&mut self, picked: Index, waits: bool) -> Result<(), Index> {
        let task = self.task(picked);
        self.call_payers(task.attr.group, task.queue_group());
        let (mut least, now) = (Nanos::MAX, self.clock);
        let mut stopped = Ok(());
        for nth in (0..self.limits.payers.len()).rev() {
            let Payer { at, holds_back } = self.limits.payers[nth];
            let usable = self.draw(at, waits && holds_back);
            if holds_back {
                least = least.min(usable);
                if usable == Nanos::ZERO {
                    stopped = stopped.and(Err(at));
                    if waits {
                        return stopped;
                    }
                }
            }
        }
        self.limits.set_grant_ends((least < Nanos::MAX).then(|| now + least));
        stopped
    }

    /// Notes who pays for a task of group `own` that competes in `group`.
    fn call_payers(&mut self, own: GroupId, group: GroupId) {
        let mut next = self.group_queue(own);
        let mut holds_back = false;
        while let Some(at) = next {
            let queue = self.group(at);
            holds_back |= queue.group == group;
            next = queue.entity.parent;
            if queue.budget.is_some() {
                self.limits.payers.push(Payer { at, holds_back });
            }
        }
    }

    /// Sees to it that a payer has a grant, and tells what it has to use. If it has none left and
    /// `waits`, this CPU is noted as one that waits for more.
    fn draw(&mut self, at: Index, waits: bool) -> Nanos {
        let (group, now, cpu) = (self.group(at).group, self.clock, self.cpu);
        if let Some(grant) = self.budget(at).grant {
            if grant.usable(now) > Nanos::ZERO {
                return grant.usable(now);
            }
            self.return_grant(at);
        }
        let grant = self.groups.draw(group, now, cpu, waits);
        self.budget_mut(at).grant = Some(grant);
        grant.usable(now)
    }

    /// Whether an entity that runs is a group that was throttled in this period or the last: it has more
    /// work than budget, so how much it gets done does not depend on when it runs.
    pub(crate) fn is_exhausted(&self, at: Index) -> bool {
        let Member::Group(group) = self.member(at) else { return false };
        let grant = group.budget.and_then(|budget| budget.grant);
        grant.is_some_and(|grant| self.clock < grant.exhausted_until)
    }

    fn return_grant(&mut self, at: Index) {
        let (group, now, cpu) = (self.group(at).group, self.clock, self.cpu);
        let Some(grant) = self.budget_mut(at).grant.take() else { return };
        let (used, borrowed) = std::mem::take(&mut self.budget_mut(at).lately);
        if used > Nanos::ZERO {
            let usage = self.limits.usage(group);
            usage.used += used;
            usage.borrowed += borrowed;
        }
        let waiting = self.groups.give_back(group, now, cpu, grant);
        self.limits.tell(waiting, group);
    }

    /// After a pick: who does not pay any more gives back what is left, and what this CPU was told of
    /// and did not draw is for the next that waits.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.limits.unsettled) {
            self.settle_with_all();
        }
    }

    #[inline(never)]
    fn settle_with_all(&mut self) {
        self.pass_on();
        self.limits.told.clear();
        while let Some(Payer { at, .. }) = self.limits.former.pop() {
            if !self.limits.payers.iter().any(|payer| payer.at == at) {
                self.return_grant(at);
            }
        }
    }

    /// Charges the payers for what the running task used.
    #[inline]
    pub(crate) fn charge_payers(&mut self, span: Nanos) {
        if !self.limits.payers.is_empty() {
            self.charge_each_payer(span);
        }
    }

    #[inline(never)]
    fn charge_each_payer(&mut self, span: Nanos) {
        for nth in 0..self.limits.payers.len() {
            let at = self.limits.payers[nth].at;
            let budget = self.budget_mut(at);
            let grant = budget.grant.as_mut().expect("a payer has a grant");
            grant.charge(span);
            let (part, until) = (grant.part, grant.until);
            let before = if budget.until == until { budget.used } else { Nanos::ZERO };
            (budget.used, budget.until) = (before + span, until);
            let borrowed = (before + span).max(part) - before.max(part);
            budget.lately.0 += span;
            budget.lately.1 += borrowed;
        }
    }

    /// A grant is used up: the payers draw another, or the task leaves.
    fn end_grant(&mut self) {
        let (mut least, now) = (Nanos::MAX, self.clock);
        for nth in 0..self.limits.payers.len() {
            let Payer { at, holds_back } = self.limits.payers[nth];
            let usable = self.draw(at, false);
            if holds_back {
                least = least.min(usable);
            }
        }
        let some = least > Nanos::ZERO && least < Nanos::MAX;
        self.limits.set_grant_ends(some.then(|| now + least));
        self.resched_if(least == Nanos::ZERO);
    }

    /// A group that has nothing left waits for its pool. Nobody runs.
    #[inline(never)]
    pub(crate) fn throttle(&mut self, at: Index) {
        debug_assert_eq!(self.curr, None, "who runs is put back first");
        self.return_grant(at);
        let (now, group) = (self.clock, self.group(at).group);
        if self.group(at).queue.nr > 0 {
            let (nr, idle) = self.counts_above(at);
            self.leave_tree(at, (nr, idle), false);
        }
        self.budget_mut(at).throttled = Some(now);
        self.limits.nr_throttled += 1;
        self.set_aside(at, true);
        self.limits.usage(group).nr_throttled += 1;
        self.limits.note(Throttling { what: Throttled::Group(group), begins: true });
        self.await_refill(at);
        self.stop_rt();
    }

    fn await_refill(&mut self, at: Index) {
        let (group, now, cpu) = (self.group(at).group, self.clock, self.cpu);
        let turn = Nanos(u64::from(cpu.0) % REFILLED_IN_TURN * BETWEEN_REFILLS.0);
        let when = self.groups.next_refill(group, now, cpu).map_or(now, |at| at + turn);
        self.fair.arrivals += 1;
        let key = (when, self.fair.arrivals);
        self.limits.forest.insert(&mut self.limits.throttled, at, key);
        self.limits.renew_next();
    }

    /// The time of [`Limits::next`] has come: a grant is used up, or a throttled group may have budget.
    pub(crate) fn end_grant_or_wait(&mut self, now: Time) -> Expired {
        if self.limits.grant_ends.is_some_and(|at| at <= now) {
            self.end_grant();
            return Expired::Grant;
        }
        self.end_wait();
        Expired::Refill
    }

    /// The time of the first throttled group has come: it is back if others left anything for it.
    fn end_wait(&mut self) {
        let at = self.limits.throttled.first().expect("somebody waits for a refill");
        let (group, now, cpu) = (self.group(at).group, self.clock, self.cpu);
        if self.groups.next_refill(group, now, cpu).is_none() {
            self.unthrottle(at);
        } else {
            self.limits.forest.remove(&mut self.limits.throttled, at);
            self.await_refill(at);
        }
    }

    pub(crate) fn unthrottle(&mut self, at: Index) {
        let (now, group) = (self.clock, self.group(at).group);
        let since = self.budget_mut(at).throttled.take().expect("it is throttled");
        self.limits.forest.remove(&mut self.limits.throttled, at);
        self.limits.renew_next();
        self.limits.nr_throttled -= 1;
        self.limits.usage(group).throttled += now.since(since);
        self.limits.note(Throttling { what: Throttled::Group(group), begins: false });
        self.groups.forget(group, self.cpu);
        if self.group(at).queue.nr > 0 {
            let (counts, level) = (self.counts_above(at), self.group(at).entity.parent);
            self.join_tree(at, level, counts);
        }
        if !self.is_below_throttled(Some(at)) {
            self.set_aside(at, false);
        }
        self.start_rt();
        let wanted = self.curr.map_or(self.nr_running() > 0, |curr| self.rt_wants_switch(curr));
        self.resched_if(wanted);
    }

    /// Puts the fair tasks of a group, and of those below it that compete in it, on the list of those
    /// that balance does not see, or on the other. Nobody of them runs.
    fn set_aside(&mut self, level: Index, aside: bool) {
        for urgent in [false, true] {
            let queue = &self.group(level).queue;
            let mut next = if urgent { queue.urgent.first() } else { queue.waiting.first() };
            while let Some(at) = next {
                let also_waits = urgent && self.fair.forest.contains(at);
                let forest = if urgent { &self.fair.urgent_forest } else { &self.fair.forest };
                next = forest.after(at);
                match self.member(at) {
                    _ if also_waits => {}
                    Member::Group(_) => self.set_aside(at, aside),
                    Member::Task(_) => self.list_apart(at, aside),
                }
            }
        }
    }

    fn list_apart(&mut self, at: Index, aside: bool) {
        let Fair { tasks, aside: others, .. } = &mut self.fair;
        let (from, to) = if aside { (tasks, others) } else { (others, tasks) };
        self.links.remove(from, at);
        self.links.push_back(to, at);
    }

    /// Takes the real-time tasks below throttled groups out of their lists.
    fn stop_rt(&mut self) {
        let mut next = self.rt.queue.first();
        while let Some(at) = next {
            let prio = self.task(at).rt_prio().expect("only real-time tasks are queued here");
            next = self.rt.queue.after(&self.links, at, prio);
            if self.is_stopped(at) {
                self.dequeue_rt(at);
                self.stop_one_rt(at);
            }
        }
    }

    pub(crate) fn stop_one_rt(&mut self, at: Index) {
        self.limits.nr_stopped_rt += 1;
        self.links.push_back(&mut self.limits.stopped_rt, at);
    }

    pub(crate) fn release_one_rt(&mut self, at: Index) {
        self.limits.nr_stopped_rt -= 1;
        self.links.remove(&mut self.limits.stopped_rt, at);
    }

    /// Puts those back that are below none any more.
    fn start_rt(&mut self) {
        for _ in 0..self.limits.nr_stopped_rt {
            let first = self.links.iter(self.limits.stopped_rt).next();
            let at = first.expect("as many as are counted");
            self.release_one_rt(at);
            if self.is_stopped(at) {
                self.stop_one_rt(at);
            } else {
                self.enqueue_rt(at, End::Tail);
            }
        }
    }

    /// Whether a task is below a throttled group.
    #[inline]
    pub(crate) fn is_stopped(&self, at: Index) -> bool {
        self.limits.nr_throttled > 0 && self.is_group_stopped(self.task(at).queue_group())
    }

    /// Whether a group is throttled or below a throttled one.
    pub(crate) fn is_group_stopped(&self, mut group: GroupId) -> bool {
        if self.limits.nr_throttled == 0 {
            return false;
        }
        while group != GroupId::ROOT {
            if let Some(at) = self.queue_of(group) {
                return self.is_below_throttled(Some(at));
            }
            group = self.groups.parent(group);
        }
        false
    }

    /// Whether a queue is that of a throttled group or below one.
    pub(crate) fn is_below_throttled(&self, level: Option<Index>) -> bool {
        let mut above = std::iter::successors(level, |&at| self.group(at).entity.parent);
        self.limits.nr_throttled > 0 && above.any(|at| self.is_throttled_group(at))
    }

    pub(crate) fn is_throttled_group(&self, at: Index) -> bool {
        let some = self.limits.nr_throttled > 0;
        some && self.group(at).budget.is_some_and(|budget| budget.throttled.is_some())
    }

    /// Lets whatever group is throttled above `group` compete again, until it is picked.
    pub(crate) fn unthrottle_above(&mut self, group: GroupId) {
        let mut next = self.group_queue(group);
        while let Some(at) = next {
            if self.is_throttled_group(at) {
                self.unthrottle(at);
            }
            next = self.group(at).entity.parent;
        }
    }

    /// What a group has of its limit here, if it has one and a queue.
    fn budget_of(&self, group: GroupId) -> Option<Budget> {
        self.queue_of(group).and_then(|at| self.group(at).budget)
    }

    fn budget(&self, at: Index) -> &Budget {
        self.group(at).budget.as_ref().expect("the group has a limit")
    }

    fn budget_mut(&mut self, at: Index) -> &mut Budget {
        self.group_mut(at).budget.as_mut().expect("the group has a limit")
    }

    /// Asserts what this file promises.
    pub(crate) fn check_limits(&self) {
        let (mut throttled, mut stopped) = (0, 0);
        for &(group, at) in &self.fair.group_queues {
            let queue = self.group(at);
            let Some(budget) = queue.budget else { continue };
            let is = budget.throttled.is_some();
            throttled += u32::from(is);
            assert!(!is || !self.is_attached(at), "{group:?} is throttled and in no queue\n{self}");
            assert_eq!(is, self.limits.forest.contains(at), "{group:?} waits for a refill\n{self}");
            let pays = self.limits.payers.iter().any(|payer| payer.at == at);
            assert_eq!(pays, budget.grant.is_some(), "who pays has a grant: {group:?}\n{self}");
        }
        assert_eq!(throttled, self.limits.nr_throttled, "throttled groups\n{self}");
        for at in self.links.iter(self.limits.stopped_rt) {
            stopped += 1;
            assert!(self.is_stopped(at), "{} is stopped\n{self}", self.task(at).id);
        }
        assert_eq!(stopped, self.limits.nr_stopped_rt, "stopped real-time tasks\n{self}");
        let below = self.curr.is_some_and(|curr| self.is_stopped(curr));
        assert!(!below || self.resched, "who runs is not below a throttled group\n{self}");
    }
}
