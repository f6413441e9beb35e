//! Entities that sleep in their place (`DELAY_DEQUEUE` of Linux since 6.12).
//!
//! A member of an EEVDF queue that goes to sleep while it is not eligible owes CPU time to the
//! others. It stays in its queue until it is eligible: its weight holds the average back, so the
//! others get the time that it owes. In the kernel the sleeping task itself stays. Here a sleeping
//! task belongs to its host, so its *ghost* stays: an entity without a task. An entity of a group
//! that has lost its last member stays in the same way, and keeps its index.
//!
//! | from | to | when |
//! |---|---|---|
//! | running task | ghost | it blocks and is not eligible ([`Fair::delay`]) |
//! | ghost | waiting task | its task wakes up before the ghost is dropped ([`Fair::rejoin`]) |
//! | ghost | nothing | it is picked ([`Fair::take_due_ghost`]), in 6.18 also for a wake-up ([`Fair::take_ghost_before`]), or is dropped early ([`Fair::drop_delayed`]) |
//!
//! A picked entity is eligible: its lag is positive or zero, and it is dropped (`DELAY_ZERO`). So a
//! task that has lost its ghost owes nothing, and needs no notification of the loss. A task may
//! differ from its ghost when it wakes, by its policy, group or slice. It then leaves the ghost to
//! its end, and its debt is lost; that is a bounded lag.
//!
//! A ghost counts as a member: it has a weight and a slice, and its vruntime counts in the clock.
//! It does not count as a task, so neither balance nor an idle CPU sees it. A CPU goes idle only if
//! a pick finds no task, and then its ghosts are gone.
//!
//! Invariants ([`Fair::check`], `RunQueue::check`): a delayed entity waits and never runs; a
//! delayed group is empty; a place without a task belongs to a ghost, and the other way round.

use crate::fair::averages::Doing;
use crate::fair::entity::{Lag, Now, QueueId, Standing};
use crate::fair::order::{Before, QueueOrder, Wakeup};
use crate::fair::tree::{Counts, Member};
use crate::fair::{Fair, Order, put_prev};
use crate::group::Groups;
use crate::store::heap::Index;

impl Fair {
    /// Turns ghosts on or off: whether entities with a debt sleep in their place from now on.
    pub(crate) fn keep_ghosts(&mut self, on: bool) {
        self.ghosts.on = on && matches!(self.order, Order::Eevdf(_));
    }

    /// Puts the running task to sleep. Returns its standing if it sleeps in its place.
    #[inline]
    pub(crate) fn delay(&mut self, now: Now, at: Index) -> Option<Standing> {
        let member = Member::of(&self.tree, at);
        if !self.owes(member) || self.is_below_throttled(member.queue) {
            return None;
        }
        self.lists.remove(at, false);
        let (top, before) = self.top_of(member);
        self.begin_delay(at);
        if let Order::Eevdf(order) = &mut self.order {
            put_prev(order, &mut self.tree, now, at);
        }
        let counts = Counts { nr: 1, nr_idle: self.tree.entity(at).idle.into() };
        self.recount(member.queue, (counts, Counts::NONE));
        self.note_idle_load(before, top);
        self.note_task(now, at, Doing::Delayed);
        self.note(now, member.queue);
        let lag = Lag::Delayed { ghost: at, queue: self.tree.name(member.queue) };
        Some(Standing { lag, turn: 0 })
    }

    /// Places the ghost of a task that is about to return. This happens before the charge of the
    /// running task. The kernel uses the state of the last charge to decide whether the ghost is
    /// placed anew (`requeue_delayed_entity`, which charges no task).
    pub(crate) fn place_ghost(&mut self, at: Index) {
        let member = Member::of(&self.tree, at);
        if let Order::Eevdf(order) = &mut self.order {
            order.requeue(&mut self.tree, member);
        }
    }

    /// Turns a ghost into a waiting task after its task returned.
    pub(crate) fn rejoin(&mut self, now: Now, at: Index) {
        let member = Member::of(&self.tree, at);
        self.lists.put(at, self.is_below_throttled(member.queue));
        let (top, before) = self.top_of(member);
        self.end_delay(at);
        let counts = Counts { nr: 1, nr_idle: self.tree.entity(at).idle.into() };
        if self.recount(member.queue, (Counts::NONE, counts)) {
            self.note_idle_load(before, top);
        }
        self.note_task(now, at, Doing::Waits);
        self.note(now, member.queue);
    }

    /// Returns the number of tasks and groups that sleep in their places.
    #[inline]
    pub(crate) fn nr_ghosts(&self) -> u32 {
        self.ghosts.nr
    }

    /// Before a pick: takes out a ghost that would be picked, and frees its place. The caller
    /// repeats this until there is none.
    pub(crate) fn take_due_ghost(
        &mut self,
        now: Now,
        groups: &impl Groups,
        before: &mut Before,
    ) -> Option<Index> {
        while self.ghosts.nr > 0 && self.tree.root().nr > 0 {
            let at = self.choose(now, before);
            let entity = self.tree.entity(at);
            if !entity.delayed {
                return None;
            }
            let is_task = entity.is_task();
            self.drop_met(now, groups, at);
            if is_task {
                return Some(at);
            }
        }
        None
    }

    /// At a wake-up: takes out a ghost that would be picked before the woken task, and frees its
    /// place. The caller repeats this until there is none.
    pub(crate) fn take_ghost_before(
        &mut self,
        now: Now,
        groups: &impl Groups,
        wakeup: Wakeup,
    ) -> Option<Index> {
        if self.ghosts.nr == 0 {
            return None;
        }
        let (curr, woken) = self.tree.matching_siblings(wakeup.curr, wakeup.woken);
        if self.tree.entity(curr).idle != self.tree.entity(woken).idle {
            return None;
        }
        loop {
            let Order::Eevdf(order) = &mut self.order else { return None };
            let wakeup = Wakeup { curr, woken, ..wakeup };
            let at = order.sleeper_before(&mut self.tree, now, wakeup)?;
            let is_task = self.tree.entity(at).is_task();
            self.drop_met(now, groups, at);
            if is_task {
                return Some(at);
            }
        }
    }

    /// Takes out a delayed entity that a pick or a wake-up met. For its group it goes to sleep now.
    fn drop_met(&mut self, now: Now, groups: &impl Groups, at: Index) {
        let group = self.tree.above(at);
        self.drop_delayed(now, groups, at);
        if let Some(group) = group {
            self.nominate(now, group);
        }
    }

    /// Returns the entity that would be picked, or one above it that sleeps in its place.
    fn choose(&mut self, now: Now, before: &mut Before) -> Index {
        let Order::Eevdf(order) = &mut self.order else { unreachable!("in EEVDF alone") };
        if let Some(at) = before.yielded.take() {
            order.postpone(&mut self.tree, now, at);
        }
        let mut queue = QueueId::ROOT;
        loop {
            let at = order.choose(&mut self.tree, now, queue, *before);
            let entity = self.tree.entity(at);
            if entity.delayed || entity.is_task() {
                return at;
            }
            queue = entity.own;
        }
    }

    /// Takes out a delayed entity, eligible or not. The groups that it leaves empty go to sleep.
    pub(crate) fn drop_delayed(&mut self, now: Now, groups: &impl Groups, at: Index) {
        let member = Member::of(&self.tree, at);
        let standing = self.leave(now, groups, member, (Counts::NONE, true));
        self.end_delay(at);
        self.note_task(now, at, Doing::Away);
        self.note(now, member.queue);
        let own = self.tree.entity(at).own;
        if own != QueueId::ROOT {
            let Lag::Asleep { vruntime, queue, lead, since } = standing.lag else {
                unreachable!("the entity left to sleep")
            };
            let lag = Lag::Asleep { vruntime, queue, lead: lead.max(0), since };
            self.tree.queue_mut(own).standing = Standing { lag, ..standing };
        }
    }

    /// Returns a delayed group, if there is one.
    pub(crate) fn delayed_group(&self) -> Option<Index> {
        let mut all = self.group_queues.iter().filter_map(|&(_, id)| self.tree.queue(id).entity);
        all.find(|&at| self.tree.entity(at).delayed)
    }

    /// Puts the group of an empty queue to sleep in its place, if it has a debt. Returns whether it
    /// did.
    pub(super) fn delay_group(&mut self, now: Now, member: Member) -> bool {
        if !self.owes(member) {
            return false;
        }
        self.begin_delay(member.at);
        if self.tree.queue(member.queue).curr == Some(member.at)
            && let Order::Eevdf(order) = &mut self.order
        {
            order.put_back(&mut self.tree, now, member);
        }
        true
    }

    /// Wakes a delayed group that has a member again.
    pub(super) fn requeue(&mut self, member: Member) {
        self.place_ghost(member.at);
        self.end_delay(member.at);
    }

    /// Returns whether a member that goes to sleep must do so in its place: it is not eligible.
    #[inline]
    fn owes(&self, member: Member) -> bool {
        match &self.order {
            Order::Eevdf(order) if self.ghosts.on => !order.is_eligible(&self.tree, member),
            _ => false,
        }
    }

    fn begin_delay(&mut self, at: Index) {
        self.clear_buddy(at);
        self.tree.entity_mut(at).delayed = true;
        self.ghosts.nr += 1;
    }

    fn end_delay(&mut self, at: Index) {
        self.tree.entity_mut(at).delayed = false;
        self.ghosts.nr -= 1;
    }

    /// Returns the entity of the root queue at or above a member, and its weight in the idle class.
    fn top_of(&self, member: Member) -> (Index, u64) {
        let top = match member.queue {
            QueueId::ROOT => member.at,
            queue => self.tree.top_of(queue),
        };
        (top, self.tree.idle_weight(top))
    }

    /// Replaces `old` by `new` in the counts of a queue and those above it. Returns whether the
    /// change reached the root: no throttled group is on the way.
    fn recount(&mut self, mut id: QueueId, (mut old, mut new): (Counts, Counts)) -> bool {
        loop {
            let queue = self.tree.queue_mut(id);
            queue.subtract(old);
            queue.add(new);
            let Some(above) = queue.entity else { return true };
            (old, new) = (queue.counts_above(old), queue.counts_above(new));
            if queue.throttled {
                return false;
            }
            id = self.tree.entity(above).parent;
        }
    }
}
