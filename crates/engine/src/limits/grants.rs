//! The budget that one CPU has drawn for task groups, and the groups that are throttled on it.
//!
//! The running task's *payers* are the groups at and above its own that have a limit. Each payer
//! has a grant of its pool and is charged for the CPU time of the task. The grants are drawn when a
//! task is picked. If a group has no budget left, it is throttled here and another task is picked.
//! A timer interrupt comes when the first of the grants is used up. A group that no longer pays
//! after a pick gives its grant back.
//!
//! A throttled group returns when the pool has budget again: by a timer of this CPU, or because
//! another CPU gave some back. The run queue does the throttling of the tasks
//! (`run_queue/class/limits.rs`).
//!
//! Invariants ([`Limits::check`]): only payers hold grants; a throttled group is in the heap of
//! those that wait for a refill.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::ensure::ensure;
use crate::fair::entity::QueueId;
use crate::fair::tree::Tree;
use crate::limits::Pools;
use crate::limits::here::Here;
use crate::limits::limit::UsageOnCpu;
use crate::limits::news::News;
use crate::limits::pool::Grant;
use crate::limits::slices::{self, Slices};
use crate::limits::{Throttled, Throttling};
use crate::store::heap::{Forest, Heap};
use crate::time::{Nanos, Time};
use std::fmt::Display;

/// The delay between two CPUs that draw a new period's budget, which keeps them from meeting at the
/// pool. One draw takes about this long. After `REFILLED_IN_TURN` CPUs the delays start again from
/// zero, so the last CPU draws 50 us late.
const BETWEEN_REFILLS: Nanos = Nanos(200);
const REFILLED_IN_TURN: u64 = 256;

/// The longest delay after the start of a period until a CPU draws its budget.
pub const LATEST_REFILL: Nanos = Nanos(BETWEEN_REFILLS.0 * REFILLED_IN_TURN);

/// A group with a limit on this CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// The grant of this CPU, while the group pays for the running task.
    grant: Option<Grant>,
    /// The time since which the group is throttled here.
    throttled: Option<Time>,
    /// CPU time used here in the period of the last grant, and the end of that period.
    used: Nanos,
    until: Time,
    /// CPU time used since the last grant was drawn.
    unsettled: Unsettled,
}

/// The used part of a grant that the group's account does not include yet.
#[derive(Clone, Copy, Debug, Default)]
struct Unsettled {
    used: Nanos,
    /// The part of it beyond the CPU's own share of the runtime.
    borrowed: Nanos,
}

/// A group that pays for the running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Payer {
    queue: QueueId,
    group: GroupId,
    /// Whether it stops the task when it has no budget left.
    holds_back: bool,
}

/// The kinds of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A founding pool.
    Pool,
    /// The kernel's bandwidth, with the number of the group's limits until this one.
    Bandwidth { epoch: u32 },
}

/// The error for a picked task below groups without budget: the outermost of those groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted(pub(crate) QueueId);

/// The limits of the groups on one CPU.
#[derive(Debug)]
pub(crate) struct Limits {
    /// The budgets by queue; `None` for a group without a limit.
    budgets: Vec<Option<Budget>>,
    /// The groups that pay for the running task, from its own upwards; and those that paid before
    /// the pick.
    payers: Vec<Payer>,
    prev_payers: Vec<Payer>,
    /// The time at which the first grant of a payer is used up.
    grant_ends: Option<Time>,
    /// The earlier of that and of the first refill; later than any time if there is neither.
    next: Time,
    /// Whether a group paid, or this CPU was notified of budget, since the last pick.
    grants_dirty: bool,
    /// The throttled groups, by the time at which they have budget.
    throttled: Heap,
    forest: Forest<(Time, u64)>,
    arrivals: u64,
    /// The usage and the throttling of groups on this CPU, by group. An entry outlives the queue of
    /// its group.
    usage: Vec<(GroupId, UsageOnCpu)>,
    /// Groups with budget by notice of another CPU, since the last pick.
    refill_notices: Vec<GroupId>,
    news: News,
    /// The groups under the kernel's bandwidth, which are not among those above.
    pub(crate) slices: Slices,
    /// Whether any group pays, of either kind.
    pays: bool,
}

impl Limits {
    pub(crate) fn new() -> Limits {
        Limits {
            budgets: Vec::new(),
            payers: Vec::new(),
            prev_payers: Vec::new(),
            grant_ends: None,
            next: Time::MAX,
            grants_dirty: false,
            throttled: Heap::default(),
            forest: Forest::default(),
            arrivals: 0,
            usage: Vec::new(),
            refill_notices: Vec::new(),
            news: News::default(),
            slices: Slices::default(),
            pays: false,
        }
    }

    /// Makes room for `queues` queues, and for the accounts of `all` groups. Allocates.
    pub(crate) fn grow(&mut self, queues: usize, all: usize) {
        self.budgets.resize(queues.max(self.budgets.len()), None);
        self.forest.grow(queues);
        self.slices.grow(queues);
        for list in [&mut self.payers, &mut self.prev_payers] {
            list.reserve(queues.saturating_sub(list.len()));
        }
        self.usage.reserve(all.saturating_sub(self.usage.len()));
        self.news.grow(queues);
        self.refill_notices.reserve(queues.saturating_sub(self.refill_notices.len()));
    }

    /// Returns when the next work is due here; later than any time if never.
    #[inline]
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    pub(crate) fn renew_next(&mut self) {
        let refill = self.throttled.first().map(|at| self.forest.key(at).0);
        let at = |time: Option<Time>| time.unwrap_or(Time::MAX);
        self.next = at(refill).min(at(self.grant_ends)).min(self.slices.next());
        if self.slices.take_timer() {
            self.news.note_timer();
        }
    }

    fn set_grant_ends(&mut self, at: Option<Time>) {
        self.grant_ends = at;
        self.renew_next();
    }

    /// Sets the budget that the payers which can stop the running task have left; [`Nanos::MAX`] if
    /// there is no such payer. If none is left, there is no end to wait for: a switch is due.
    fn set_usable(&mut self, now: Time, least: Nanos) {
        let some = least > Nanos::ZERO && least < Nanos::MAX;
        self.set_grant_ends(some.then(|| now + least));
    }

    /// Returns whether a grant is used up at `now`.
    pub(crate) fn grant_is_over(&self, now: Time) -> bool {
        self.grant_ends.is_some_and(|at| at <= now)
    }

    /// Notes a CPU that waits for the available budget of a group.
    fn note_waiting(&mut self, waiting: Option<CpuId>, group: GroupId) {
        if let Some(waiting) = waiting {
            self.news.note_waiting(waiting, group);
        }
    }

    /// Returns what the machine must know.
    #[inline]
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    #[inline]
    pub(crate) fn news_mut(&mut self) -> &mut News {
        &mut self.news
    }

    fn usage_mut(&mut self, group: GroupId) -> &mut UsageOnCpu {
        let at = match self.usage.binary_search_by_key(&group, |&(id, _)| id) {
            Ok(at) => at,
            Err(at) => {
                self.usage.insert(at, (group, UsageOnCpu::default()));
                at
            }
        };
        &mut self.usage[at].1
    }

    /// Returns the usage and the throttling of a group until `now`. `queue` is its queue here, if
    /// it has one.
    pub(crate) fn usage(
        &self,
        now: Time,
        group: GroupId,
        queue: Option<QueueId>,
    ) -> Option<UsageOnCpu> {
        let known = self.usage.binary_search_by_key(&group, |&(id, _)| id);
        let mut usage = known.ok().map(|at| self.usage[at].1);
        if let Some(Budget { throttled, unsettled, .. }) = queue.and_then(|id| self.find(id)) {
            let usage = usage.get_or_insert_default();
            usage.throttled += throttled.map_or(Nanos::ZERO, |since| now.since(since));
            usage.used += unsettled.used;
            usage.borrowed += unsettled.borrowed;
        }
        let throttled = queue.map_or(Nanos::ZERO, |id| self.slices.throttled_for(now, id));
        if throttled > Nanos::ZERO {
            usage.get_or_insert_default().throttled += throttled;
        }
        usage.filter(|usage| *usage != UsageOnCpu::default())
    }

    /// Notes that a group used this much of its pool without a grant.
    pub(crate) fn note_unpicked(&mut self, group: GroupId, span: Nanos) {
        self.usage_mut(group).used += span;
    }

    /// Returns the budget that was drawn for a queue and not given back.
    pub(crate) fn held(&self, queue: QueueId) -> Nanos {
        let grant = self.find(queue).and_then(|budget| budget.grant);
        grant.map_or(self.slices.held(queue), |grant| grant.drawn())
    }

    /// Returns the used part of that budget that the pool has not accounted for yet.
    pub(crate) fn in_use(&self, queue: QueueId) -> Nanos {
        self.find(queue).map_or(Nanos::ZERO, |budget| budget.unsettled.used)
    }

    /// Returns whether a queue's group has a limit, but no grant.
    pub(crate) fn is_without_grant(&self, queue: QueueId) -> bool {
        self.find(queue).is_some_and(|budget| budget.grant.is_none())
    }

    /// Returns whether a queue's group has a limit.
    pub(crate) fn has_budget(&self, queue: QueueId) -> bool {
        self.find(queue).is_some()
    }

    /// Returns whether no state is lost if a queue's budget is removed.
    pub(crate) fn is_at_rest(&self, now: Time, queue: QueueId) -> bool {
        self.find(queue).is_none_or(|budget| {
            budget.grant.is_none() && budget.throttled.is_none() && budget.until <= now
        }) && self.slices.is_at_rest(queue)
    }

    fn find(&self, queue: QueueId) -> Option<&Budget> {
        self.budgets.get(queue.index())?.as_ref()
    }

    fn budget(&self, queue: QueueId) -> &Budget {
        self.find(queue).expect("the group has a limit")
    }

    fn budget_mut(&mut self, queue: QueueId) -> &mut Budget {
        self.budgets[queue.index()].as_mut().expect("the group has a limit")
    }

    /// Resets the budget of a queue, with a limit of this kind or without one.
    pub(crate) fn set(&mut self, queue: QueueId, limit: Option<Kind>) {
        let bandwidth = match limit {
            Some(Kind::Bandwidth { epoch }) => Some(epoch),
            _ => None,
        };
        self.slices.set(queue, bandwidth);
        self.budgets[queue.index()] = (limit == Some(Kind::Pool)).then(Budget::default);
        self.prev_payers.retain(|payer| payer.queue != queue);
    }

    /// Removes the usage and the throttling of a group.
    pub(crate) fn forget(&mut self, group: GroupId) {
        self.usage.retain(|&(id, _)| id != group);
    }

    /// Notes a notice of another CPU that there is budget for a group.
    pub(crate) fn notice_refill(&mut self, group: GroupId) {
        if !self.refill_notices.contains(&group) {
            self.refill_notices.push(group);
        }
        self.grants_dirty = true;
    }

    /// After a waiting task left without a pick: passes on the budget of which this CPU was
    /// notified and that it did not draw.
    #[inline]
    pub(crate) fn pass_on(&mut self, here: &Here<impl Pools>) {
        if !self.refill_notices.is_empty() {
            self.pass_on_each(here);
        }
    }

    #[inline(never)]
    fn pass_on_each(&mut self, here: &Here<impl Pools>) {
        for nth in 0..self.refill_notices.len() {
            let group = self.refill_notices[nth];
            self.note_waiting(here.waiting(group, 0), group);
        }
    }

    /// Returns whether a group pays for the running task.
    #[inline]
    pub(crate) fn pays(&self) -> bool {
        self.pays
    }

    /// Before a pick: no task runs, so no group pays.
    #[inline]
    pub(crate) fn dismiss_payers(&mut self) {
        if self.pays {
            self.dismiss_each_payer();
        }
    }

    #[inline(never)]
    fn dismiss_each_payer(&mut self) {
        self.pays = false;
        self.slices.dismiss_payers();
        if self.payers.is_empty() {
            return;
        }
        self.grants_dirty = true;
        self.set_grant_ends(None);
        let Limits { payers, prev_payers, .. } = self;
        for payer in payers.drain(..) {
            if !prev_payers.iter().any(|known| known.queue == payer.queue) {
                prev_payers.push(payer);
            }
        }
    }

    /// Makes the groups under the kernel's bandwidth at and above the queue `own` of a picked fair
    /// task pay for it. Groups below `competes` do not stop it.
    pub(crate) fn call_slices(&mut self, tree: &Tree, (own, competes): (QueueId, Option<QueueId>)) {
        let mut holds_back = false;
        for queue in tree.lineage(own) {
            holds_back |= Some(queue) == competes;
            if self.slices.has(queue) {
                let group = tree.queue(queue).group;
                self.slices.add_payer(slices::Payer { queue, group, holds_back });
            }
        }
    }

    /// Draws grants for the groups with limits at and above the queue `own` of a picked task, which
    /// then pay for it. Groups below `competes`, the queue where the task competes, do not stop it.
    /// If a group has no budget left and `waits`, this CPU is noted as one that waits for more.
    ///
    /// # Errors
    /// The outermost group that has no budget left.
    pub(crate) fn call_payers(
        &mut self,
        here: &Here<impl Pools>,
        tree: &mut Tree,
        (own, competes): (QueueId, Option<QueueId>),
        waits: bool,
    ) -> Result<(), Exhausted> {
        let mut holds_back = false;
        for queue in tree.lineage(own) {
            holds_back |= Some(queue) == competes;
            let group = tree.queue(queue).group;
            if self.find(queue).is_some() {
                self.payers.push(Payer { queue, group, holds_back });
            }
        }
        self.pays = !self.payers.is_empty() || self.slices.pays();
        let mut least = Nanos::MAX;
        let mut stopped = Ok(());
        for nth in (0..self.payers.len()).rev() {
            let payer = self.payers[nth];
            let usable = self.draw(here, tree, payer, waits && payer.holds_back);
            if payer.holds_back {
                least = least.min(usable);
                if usable == Nanos::ZERO {
                    stopped = stopped.and(Err(Exhausted(payer.queue)));
                    if waits {
                        return stopped;
                    }
                }
            }
        }
        self.set_usable(here.now, least);
        stopped
    }

    /// Makes sure that a payer has a grant, and returns how much of it is usable. If nothing is
    /// left and `waits`, this CPU is noted as one that waits for more.
    fn draw(
        &mut self,
        here: &Here<impl Pools>,
        tree: &mut Tree,
        Payer { queue, group, .. }: Payer,
        waits: bool,
    ) -> Nanos {
        if let Some(grant) = self.budget(queue).grant {
            if grant.usable(here.now) > Nanos::ZERO {
                return grant.usable(here.now);
            }
            self.return_grant(here, tree, queue);
        }
        let grant = here.draw(group, waits);
        self.budget_mut(queue).grant = Some(grant);
        tree.queue_mut(queue).exhausted_until = grant.exhausted_until;
        grant.usable(here.now)
    }

    /// Gives the rest of a grant back, if there is one.
    pub(crate) fn return_grant(
        &mut self,
        here: &Here<impl Pools>,
        tree: &mut Tree,
        queue: QueueId,
    ) {
        let Some(grant) = self.budget_mut(queue).grant.take() else { return };
        let rest = tree.queue_mut(queue);
        rest.exhausted_until = Time::ZERO;
        let group = rest.group;
        let Unsettled { used, borrowed } = std::mem::take(&mut self.budget_mut(queue).unsettled);
        if used > Nanos::ZERO {
            let usage = self.usage_mut(group);
            usage.used += used;
            usage.borrowed += borrowed;
        }
        let waiting = here.give_back(group, grant);
        self.note_waiting(waiting, group);
    }

    /// After a pick: a group that no longer pays gives its rest back. Budget of which this CPU was
    /// notified and that it did not draw goes to the next waiting CPU.
    #[inline]
    pub(crate) fn return_grants(&mut self, here: &Here<impl Pools>, tree: &mut Tree) {
        if std::mem::take(&mut self.grants_dirty) {
            self.return_all_grants(here, tree);
        }
    }

    #[inline(never)]
    fn return_all_grants(&mut self, here: &Here<impl Pools>, tree: &mut Tree) {
        self.pass_on(here);
        self.refill_notices.clear();
        while let Some(Payer { queue, .. }) = self.prev_payers.pop() {
            if !self.payers.iter().any(|payer| payer.queue == queue) {
                self.return_grant(here, tree, queue);
            }
        }
    }

    /// Charges the payers for the CPU time of the running task.
    /// Returns whether the task must leave because of the kernel's bandwidth.
    pub(crate) fn charge(&mut self, here: &Here<impl Pools>, span: Nanos) -> bool {
        self.charge_each_payer(span);
        if !self.slices.pays() {
            return false;
        }
        for nth in 0..self.slices.nr_payers() {
            let group = self.slices.payer(nth).group;
            self.usage_mut(group).used += span;
        }
        let leaves = self.slices.charge(here, span);
        self.renew_next();
        leaves
    }

    fn charge_each_payer(&mut self, span: Nanos) {
        for nth in 0..self.payers.len() {
            let queue = self.payers[nth].queue;
            let budget = self.budget_mut(queue);
            let grant = budget.grant.as_mut().expect("a payer has a grant");
            grant.charge(span);
            let (part, until) = (grant.part, grant.until);
            let before = if budget.until == until { budget.used } else { Nanos::ZERO };
            (budget.used, budget.until) = (before + span, until);
            let borrowed = (before + span).max(part) - before.max(part);
            budget.unsettled.used += span;
            budget.unsettled.borrowed += borrowed;
        }
    }

    /// Draws new grants for the payers after one was used up. Returns whether the task leaves
    /// because one of them has no budget left.
    pub(crate) fn end_grant(&mut self, here: &Here<impl Pools>, tree: &mut Tree) -> bool {
        let mut least = Nanos::MAX;
        for nth in 0..self.payers.len() {
            let payer = self.payers[nth];
            let usable = self.draw(here, tree, payer, false);
            if payer.holds_back {
                least = least.min(usable);
            }
        }
        self.set_usable(here.now, least);
        least == Nanos::ZERO
    }

    /// Notes that the throttling of a group under the kernel's bandwidth began or ended after
    /// `counted`.
    pub(crate) fn note_throttling(&mut self, group: GroupId, begins: bool, counted: Nanos) {
        let usage = self.usage_mut(group);
        usage.nr_throttled += u64::from(begins);
        usage.throttled += counted;
        self.news.note(Throttling { what: Throttled::Group(group), begins });
        self.renew_next();
    }

    /// Runs a timer of a group's bandwidth that is due at `now`. Returns whether one was.
    pub(crate) fn expire_bandwidth(&mut self, here: &Here<impl Pools>, now: Time) -> bool {
        let due = self.slices.next() <= now;
        if due {
            if let Some((waiting, group)) = self.slices.expire(here) {
                self.news.note_waiting(waiting, group);
            }
            self.renew_next();
        }
        due
    }

    /// Makes a group without budget wait for its pool.
    pub(crate) fn throttle(&mut self, here: &Here<impl Pools>, queue: QueueId, group: GroupId) {
        self.budget_mut(queue).throttled = Some(here.now);
        self.usage_mut(group).nr_throttled += 1;
        self.news.note(Throttling { what: Throttled::Group(group), begins: true });
        self.await_refill(here, queue, group);
    }

    fn await_refill(&mut self, here: &Here<impl Pools>, queue: QueueId, group: GroupId) {
        let turn = Nanos(u64::from(here.cpu.0) % REFILLED_IN_TURN * BETWEEN_REFILLS.0);
        let when = here.next_refill(group).map_or(here.now, |at| at + turn);
        self.arrivals += 1;
        self.forest.insert(&mut self.throttled, queue.to_bits(), (when, self.arrivals));
        self.renew_next();
    }

    /// Returns the throttled group that has budget first.
    pub(crate) fn first_throttled(&self) -> Option<QueueId> {
        self.throttled.first().map(QueueId::from_bits)
    }

    /// Makes a throttled group wait further, because there is no budget at its time.
    pub(crate) fn wait_on(&mut self, here: &Here<impl Pools>, queue: QueueId, group: GroupId) {
        self.forest.remove(&mut self.throttled, queue.to_bits());
        self.await_refill(here, queue, group);
    }

    /// Ends the wait of a throttled group.
    pub(crate) fn unthrottle(&mut self, here: &Here<impl Pools>, queue: QueueId, group: GroupId) {
        let since = self.budget_mut(queue).throttled.take().expect("the group is throttled");
        self.forest.remove(&mut self.throttled, queue.to_bits());
        self.renew_next();
        self.usage_mut(group).throttled += here.now.since(since);
        self.news.note(Throttling { what: Throttled::Group(group), begins: false });
        here.forget(group);
    }

    /// Asserts the invariants of this file for a group's queue. If the kernel's bandwidth
    /// `throttles_tasks`, a queue that it throttles stays in its parent's queue.
    ///
    /// # Panics
    /// If an invariant does not hold, with `picture`.
    pub(crate) fn check(
        &self,
        tree: &Tree,
        (queue, throttles_tasks): (QueueId, bool),
        picture: &dyn Display,
    ) {
        let group = tree.queue(queue).group;
        let fault = self.slices.fault(tree, queue);
        ensure!(picture, fault.is_none(), "{}: {group:?}", fault.unwrap_or_default());
        let (throttled, pays) = match self.find(queue) {
            Some(budget) => (budget.throttled.is_some(), budget.grant.is_some()),
            None => (false, false),
        };
        let is = tree.queue(queue).throttled;
        if self.slices.has(queue) {
            let slice = self.slices.is_throttled(queue) && !throttles_tasks;
            ensure!(picture, is == slice, "the queue of {group:?} is throttled: {is}");
            return;
        }
        ensure!(picture, is == throttled, "the queue of {group:?} is throttled: {is}");
        let waits = self.forest.contains(queue.to_bits());
        ensure!(picture, is == waits, "{group:?} waits for a refill: {waits}");
        let payer = self.payers.iter().any(|payer| payer.queue == queue);
        ensure!(picture, pays == payer, "exactly a payer has a grant: {group:?}");
    }
}
