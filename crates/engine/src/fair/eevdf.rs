//! The order of a fair queue in EEVDF, earliest eligible virtual deadline first, as in Linux since
//! 6.6. The differences between the releases are [rules](crate::rules), read where they apply.
//!
//! The virtual clock is the average of the members' vruntimes by weight. A member's *lag* is the
//! distance of its vruntime behind the clock: the time that the queue owes it. A member whose lag
//! is positive or zero is *eligible*. Each member requests one slice at a time, which is due at its
//! deadline: one slice after its place at the request. Of the eligible members the one with the
//! earliest deadline is next. So a shorter slice comes sooner, but does not give more time.
//!
//! The kernel finds that member in a tree by deadline that has the least vruntime below each node.
//! A heap cannot be searched like that, so there are two. One has, by deadline, the members that
//! were eligible when last tested; the other has the rest, by vruntime. The first of the one is
//! tested again when needed. A member that became eligible in the other is at its top.
//!
//! A member that leaves takes its lag along, within bounds, and has it again in its next queue. A
//! negative lag stays unchanged while the member sleeps (6.6), or shrinks as fast as if the queue
//! were its own (the runtime). Or the member stays until the queue has worked it off, which takes
//! longer among others (`ghosts.rs`).
//!
//! Invariants: [`Average::ahead`] equals the sum computed afresh, so the sum of all lags is zero.
//! Each waiting member is in one of the heaps, by its key.

use crate::attr::Weight;
use crate::config::Config;
use crate::ensure::ensure;
use crate::fair::buddies::BuddiesByQueue;
use crate::fair::entity::{Ask, ByQueue, Entity, Lag, Now, QueueId, Standing};
use crate::fair::order::{Before, QueueOrder, Wakeup};
use crate::fair::tree::{Member, Queue, Tree};
use crate::features::Feature;
use crate::rules::{Buddies, Deadline, Ends, LagBound, Protects, Short, Yields};
use crate::store::column::Column;
use crate::store::heap::Index;
use crate::time::{Nanos, VTime};
use std::fmt::Display;

/// The minimum length of a turn in 6.18 without `RUN_TO_PARITY`: the base slice before it grows
/// with the machine (`set_protect_slice`).
const QUANTUM: u64 = 700_000;

/// The state that EEVDF keeps beside the tree.
#[derive(Debug, Default)]
pub(crate) struct Eevdf {
    /// The turns, by entity.
    turns: Column<Turn>,
    /// The averages, by queue.
    averages: ByQueue<Average>,
    pub(crate) buddies: BuddiesByQueue,
}

/// The request of an entity.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// The virtual time at which it should have had its slice.
    pub(crate) deadline: VTime,
    /// The virtual time until which it keeps the CPU against its equals.
    pub(crate) ends: VTime,
    /// The slice that it requests at a time.
    slice: u64,
}

/// The sums over the members of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    /// The sum over the members of the distance ahead of the clock, times the weight.
    pub(crate) ahead: i128,
    /// The longest slice of any member since the queue was empty.
    longest_slice: u64,
    /// The slices of the members, if a rule needs them.
    slices: Extremes,
    /// The member that was `curr` and continues its turn at the next pick.
    resumes: Option<Index>,
}

/// The shortest and the longest slice in a queue, and how many members have each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extremes {
    shortest: u64,
    nr_shortest: u32,
    longest: u64,
    nr_longest: u32,
}

impl Extremes {
    fn add(&mut self, slice: u64) {
        if self.nr_shortest == 0 || slice < self.shortest {
            (self.shortest, self.nr_shortest) = (slice, 0);
        }
        if self.nr_longest == 0 || slice > self.longest {
            (self.longest, self.nr_longest) = (slice, 0);
        }
        self.nr_shortest += u32::from(slice == self.shortest);
        self.nr_longest += u32::from(slice == self.longest);
    }

    /// Removes a slice. Returns whether the shortest or the longest slice has no member left, so
    /// that the others must be examined.
    #[must_use]
    fn subtract(&mut self, slice: u64) -> bool {
        self.nr_shortest -= u32::from(slice == self.shortest);
        self.nr_longest -= u32::from(slice == self.longest);
        self.nr_shortest == 0 || self.nr_longest == 0
    }
}

impl Eevdf {
    /// Returns the deadline of an entity, and the virtual time until which it keeps the CPU.
    pub(crate) fn turn_of(&self, at: Index) -> (VTime, VTime) {
        let Turn { deadline, ends, .. } = self.turns[at];
        (deadline, ends)
    }

    /// Makes room for as many entities as `room` has, with its memory. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Eevdf) {
        self.turns.grow_into(&mut room.turns);
    }
}

impl QueueOrder for Eevdf {
    fn grow(&mut self, entities: usize, queues: usize) {
        self.turns.grow(entities);
        self.averages.grow(queues, Average::default);
        self.buddies.grow(queues);
    }

    fn heed(&mut self, at: Index, ask: Ask, config: &Config) {
        let slice = config.slice_for(ask.slice, ask.latency_nice);
        self.turns.cover(at).slice = slice.get().0;
    }

    fn found(&mut self, tree: &mut Tree, _: Now, at: Index) -> Standing {
        self.averages[tree.entity(at).own] = Average::default();
        Standing::new(0)
    }

    fn attach(&mut self, tree: &mut Tree, now: Now, member: Member, standing: &Standing) {
        let Member { queue, at } = member;
        let (vruntime, deadline) = self.place(tree, now, member, standing);
        self.turns[at].deadline = deadline;
        tree.admit(queue, at, vruntime);
        self.join(tree, member);
        if now.config.rules.needs_extremes() {
            self.averages[queue].slices.add(self.turns[at].slice);
        }
        self.insert(tree, member);
    }

    fn detach(&mut self, tree: &mut Tree, now: Now, member: Member, asleep: bool) -> Standing {
        let Member { queue, at } = member;
        self.buddies.clear(tree, at);
        let lead = self.lead(tree, now, member);
        let vruntime = tree.entity(at).vruntime;
        tree.dismiss(queue, at);
        if tree.queue(queue).curr == Some(at) {
            tree.queue_mut(queue).curr = None;
        } else {
            self.remove(tree, member);
        }
        let lag = match asleep {
            true => Lag::Asleep { vruntime, queue: tree.name(queue), lead, since: now.clock },
            false => Lag::Moving { lead },
        };
        self.part(tree, member);
        if now.config.rules.needs_extremes()
            && self.averages[queue].slices.subtract(self.turns[at].slice)
        {
            self.recount_slices(tree, now, queue);
        }
        let due = self.turns[at].deadline.diff(vruntime);
        Standing { lag, turn: due.cast_unsigned() }
    }

    /// The average moves with the running entity. After a used slice the next one is requested
    /// (`update_deadline`).
    #[inline]
    fn charge(&mut self, tree: &mut Tree, now: Now, member: Member, span: Nanos) -> bool {
        let Member { queue, at } = member;
        let entity = tree.entity_mut(at);
        let virtual_span = entity.virtual_span(span.0);
        entity.vruntime = entity.vruntime.after(virtual_span);
        let turn = &mut self.turns[at];
        let reached = entity.vruntime >= turn.deadline;
        if reached {
            turn.deadline = entity.vruntime.after(entity.virtual_span(turn.slice));
        }
        let (weight, vruntime) = (entity.weight, entity.vruntime);
        let is_over = vruntime >= turn.ends;
        let average = &mut self.averages[queue];
        average.ahead += i128::from(weight) * i128::from(virtual_span);
        let queue = tree.queue_mut(queue);
        average.look(queue);
        let Some(ends) = now.config.rules.off_tick else { return false };
        let besides = match ends {
            Ends::AtDeadline => false,
            Ends::IfIneligible => {
                let short = now.config.features.has(Feature::PreemptShort);
                short && is_over && !average.is_eligible(queue, vruntime)
            }
            Ends::Unprotected => is_over,
        };
        let makes_way = queue.nr > 1 && (reached || besides);
        if makes_way {
            self.buddies.clear(tree, at);
        }
        makes_way
    }

    #[inline]
    fn put_back(&mut self, tree: &mut Tree, _: Now, member: Member) {
        let Member { queue, at } = member;
        tree.queue_mut(queue).curr = None;
        if tree.entity(at).vruntime < self.turns[at].ends {
            self.averages[queue].resumes = Some(at);
        }
        self.insert(tree, member);
    }

    /// The turn of the member begins, unless it continues one.
    #[inline]
    fn set_curr(&mut self, tree: &mut Tree, now: Now, member: Member, goes_on: bool) {
        let Member { queue, at } = member;
        tree.remove(queue, at);
        tree.queue_mut(queue).curr = Some(at);
        self.averages[queue].resumes = None;
        if goes_on {
            return;
        }
        self.buddies.clear(tree, at);
        let entity = tree.entity(at);
        let after = |slice| entity.vruntime.after(entity.virtual_span(slice));
        let shortest = self.averages[queue].slices.shortest;
        let turn = &mut self.turns[at];
        let unprotected = !now.config.features.has(Feature::RunToParity);
        turn.ends = match now.config.rules.protects {
            Protects::ToShortestSlice if unprotected && QUANTUM < turn.slice => {
                turn.deadline.min(after(QUANTUM))
            }
            Protects::ToSlice | Protects::ToDeadline if unprotected => entity.vruntime,
            Protects::ToSlice => turn.deadline.min(after(turn.slice)),
            Protects::ToShortestSlice if !unprotected && shortest < turn.slice => {
                turn.deadline.min(after(shortest))
            }
            Protects::ToDeadline | Protects::ToShortestSlice => turn.deadline,
        };
    }

    /// Returns the buddy if it is eligible, or else the member that has not finished its turn, or
    /// the eligible one with the earliest deadline (`pick_eevdf`; in 6.12 `pick_next_entity`).
    #[inline]
    fn choose(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index {
        if let Some(buddy) = self.eligible_buddy(tree, id) {
            return buddy;
        }
        let average = &self.averages[id];
        // In the kernel a turn ends as soon as a task of another class has the CPU.
        let ran = |at: &Index| now.config.rules.renews || tree.is_above(*at, before.ran);
        let resumes = average
            .resumes
            .filter(|&at| average.is_eligible(tree.queue(id), tree.entity(at).vruntime))
            .filter(ran);
        let first = resumes.or_else(|| self.first_eligible(tree, id));
        first.expect("at least one member is not ahead of the average")
    }

    fn foresee(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index {
        self.choose(tree, now, id, before)
    }

    fn slice_of(&self, _: &Tree, _: Now, member: Member) -> u64 {
        self.turns[member.at].slice
    }

    /// If a charge may ask for a switch, the charge of this tick already did.
    fn turn_is_over(&mut self, tree: &Tree, now: Now, member: Member) -> bool {
        let Member { queue, at } = member;
        now.config.rules.off_tick.is_none()
            && tree.queue(queue).nr > 1
            && tree.entity(at).vruntime >= self.turns[at].ends
    }

    /// Returns whether the woken member would be picked, and the running one is out of its turn or
    /// requests a longer slice (`wakeup_preempt_fair`). Even if it does not preempt, it may shorten
    /// the turn of the running one.
    fn preempts(&mut self, tree: &mut Tree, now: Now, wakeup: Wakeup) -> bool {
        let Wakeup { curr, woken, forked, .. } = wakeup;
        let (rules, id) = (&now.config.rules, tree.entity(curr).parent);
        let is_eligible =
            |at| self.averages[id].is_eligible(tree.queue(id), tree.entity(at).vruntime);
        let stands = is_eligible(curr);
        let (turn, arriving) = (self.turns[curr], self.turns[woken]);
        let shorter = self.wants_less(now, wakeup);
        if forked && !shorter && !rules.fork_preempts {
            return false;
        }
        let sooner = arriving.deadline < turn.deadline;
        let cancels = rules.short == Short::Cancels && shorter;
        if cancels && (sooner || !stands) && is_eligible(woken) {
            self.end_turn(tree, curr);
        }
        let in_turn = stands && tree.entity(curr).vruntime < self.turns[curr].ends;
        let protected = in_turn && (!shorter || cancels);
        let equal = rules.waiting_first && arriving.deadline == turn.deadline;
        let beats = !stands || sooner || equal;
        let preempts = match self.buddy_at_wakeup(tree, now, id) {
            Some(buddy) => buddy == woken,
            None => !protected && beats && self.first_eligible(tree, id) == Some(woken),
        };
        match rules.short {
            Short::Preempts if preempts => self.end_turn(tree, curr),
            Short::Shrinks if preempts && shorter => self.end_turn(tree, curr),
            Short::Shrinks if !preempts => self.shorten_turn(tree, curr),
            _ => {}
        }
        preempts
    }

    fn goes_before(&self, tree: &Tree, _: Now, (curr, waiting): (Index, Index)) -> bool {
        let is_eligible = |at| self.is_eligible(tree, Member::of(tree, at));
        let sooner = self.turns[waiting].deadline < self.turns[curr].deadline;
        is_eligible(waiting) && (sooner || !is_eligible(curr))
    }

    fn end_turn(&mut self, tree: &Tree, at: Index) {
        self.turns[at].ends = tree.entity(at).vruntime;
    }

    /// The member requests its next slice (`yield_task_fair`), and its turn is over.
    fn postpone(&mut self, tree: &mut Tree, now: Now, at: Index) {
        let (member, yields) = (Member::of(tree, at), now.config.rules.yields);
        if yields != Yields::PutsOffWithinTwo && tree.root().nr_tasks < 2 {
            return;
        }
        self.remove(tree, member);
        let entity = *tree.entity(at);
        let slice = entity.virtual_span(self.turns[at].slice);
        let deadline = self.turns[at].deadline;
        let put_off = deadline.after(slice);
        self.turns[at].deadline = match yields {
            // A member that yields repeatedly is still picked while no other is eligible.
            Yields::PutsOffWithinTwo => put_off.min(entity.vruntime.after(2 * slice)),
            Yields::PutsOff => put_off,
            Yields::Forfeits if self.is_eligible(tree, member) => {
                self.part(tree, member);
                tree.entity_mut(at).vruntime = deadline;
                self.join(tree, member);
                // The members that are eligible by this come before it, if their deadlines equal
                // its own.
                self.first_eligible(tree, member.queue);
                put_off
            }
            Yields::Forfeits => deadline,
        };
        self.end_turn(tree, at);
        self.insert(tree, member);
    }

    /// A change of weight moves neither the lag of the entity nor its request (`reweight_entity`).
    fn reweight(&mut self, tree: &mut Tree, now: Now, at: Index, weight: u32) {
        let member = Member::of(tree, at);
        let waits = tree.waits(at);
        if waits {
            self.remove(tree, member);
        }
        let lead = self.lead(tree, now, member);
        self.part(tree, member);
        let clock = tree.queue(member.queue).clock;
        let Entity { vruntime, weight: old, .. } = *tree.entity(at);
        tree.reweight(at, weight);
        let entity = tree.entity_mut(at);
        entity.vruntime = clock.after(virtual_lead(entity, lead).cast_unsigned());
        let placed = entity.vruntime;
        let scaled = |point: VTime| {
            let span = i128::from(point.diff(vruntime)) * i128::from(old) / i128::from(weight);
            placed.after((span as i64).cast_unsigned())
        };
        let turn = &mut self.turns[at];
        *turn = Turn { deadline: scaled(turn.deadline), ends: scaled(turn.ends), ..*turn };
        self.join(tree, member);
        if waits {
            self.insert(tree, member);
        }
    }

    fn reask(&mut self, tree: &mut Tree, now: Now, at: Index, ask: Ask) {
        let member = Member::of(tree, at);
        let waits = tree.waits(at);
        if waits {
            self.remove(tree, member);
        }
        tree.entity_mut(at).latency_nice = ask.latency_nice;
        self.heed(at, ask, now.config);
        self.heed_slice(member);
        if waits {
            self.insert(tree, member);
        }
        self.recount_slices(tree, now, member.queue);
    }

    fn renew(&mut self, tree: &mut Tree, now: Now, at: Index, ask: Ask) {
        self.heed(at, ask, now.config);
        if tree.is_attached(at) {
            let member = Member::of(tree, at);
            self.heed_slice(member);
            self.recount_slices(tree, now, member.queue);
        }
    }

    /// Returns whether it has no debt, so that its queue can be removed.
    fn is_at_rest(&self, tree: &Tree, now: Now, at: Index) -> bool {
        match tree.queue(tree.entity(at).own).standing.lag {
            Lag::New { .. } | Lag::Moving { .. } | Lag::Lent { .. } | Lag::Delayed { .. } => true,
            Lag::Asleep { lead, .. } if !now.config.rules.works_off => lead <= 0,
            Lag::Asleep { lead, since, .. } => worked_off(lead, now.clock.since(since).0) <= 0,
        }
    }

    fn lead_of_child(&self, _: &Tree, _: Now, _: Index, _: Nanos) -> u64 {
        0
    }

    fn check(&self, tree: &Tree, now: Now, id: QueueId, picture: &dyn Display) {
        let (queue, average) = (tree.queue(id), &self.averages[id]);
        let (mut ahead, mut longest, mut slices) = (0, 0, Extremes::default());
        let mut count = |at: Index| {
            let Entity { weight, vruntime, .. } = *tree.entity(at);
            ahead += i128::from(weight) * i128::from(vruntime.diff(queue.clock));
            longest = longest.max(self.turns[at].slice);
            slices.add(self.turns[at].slice);
        };
        queue.curr.into_iter().for_each(&mut count);
        tree.heaps.check(id, |at, key, urgent| {
            count(at);
            let turn = self.turns[at];
            let place = if urgent { turn.deadline } else { tree.entity(at).vruntime };
            ensure!(picture, key == place, "{at} is in the order of deadlines or vruntimes");
            let also_waits = tree.heaps.waits_with_all(id, at);
            ensure!(picture, !urgent || !also_waits, "{at} is in one heap");
        });
        let kept = average.ahead;
        ensure!(picture, ahead == kept, "queue {id:?} is {kept} ahead, not {ahead}");
        let kept = average.longest_slice;
        ensure!(picture, longest <= kept, "the longest slice is {kept}, not {longest}");
        let counted =
            !now.config.rules.needs_extremes() || queue.nr == 0 || slices == average.slices;
        ensure!(picture, counted, "queue {id:?} has {slices:?}, not {:?}", average.slices);
    }
}

impl Average {
    /// Returns whether a member at this vruntime has a positive lag or none. The test is exact.
    #[inline]
    fn is_eligible(&self, queue: &Queue, vruntime: VTime) -> bool {
        i128::from(vruntime.diff(queue.clock)) * i128::from(queue.load) <= self.ahead
    }

    /// Sets the clock to the average of the vruntimes, rounded down.
    #[inline]
    fn look(&mut self, queue: &mut Queue) {
        if queue.load == 0 {
            return;
        }
        let load = i128::from(queue.load);
        let ahead = match i64::try_from(self.ahead) {
            Ok(ahead) if queue.load < 1 << 62 => ahead.div_euclid(queue.load.cast_signed()),
            _ => self.ahead.div_euclid(load) as i64,
        };
        queue.clock = queue.clock.after(ahead.cast_unsigned());
        self.ahead -= i128::from(ahead) * load;
    }
}

#[cfg(test)]
impl Turn {
    pub(crate) fn slice(&self) -> u64 {
        self.slice
    }
}

impl Eevdf {
    /// For tests: returns the request of an entity.
    #[cfg(test)]
    pub(crate) fn turn(&self, at: Index) -> Turn {
        self.turns[at]
    }

    /// For tests: returns the sums over the members of a queue.
    #[cfg(test)]
    pub(crate) fn average(&self, id: QueueId) -> Average {
        self.averages[id]
    }

    /// Returns where a newcomer starts, and its first deadline (`place_entity`).
    fn place(
        &mut self,
        tree: &mut Tree,
        now: Now,
        member: Member,
        standing: &Standing,
    ) -> (VTime, VTime) {
        let Member { queue: id, at } = member;
        let entity = *tree.entity(at);
        let slice = entity.virtual_span(self.turns[at].slice);
        let queue = tree.queue_mut(id);
        self.averages[id].look(queue);
        let (clock, load) = (queue.clock, i128::from(queue.load));
        let rules = &now.config.rules;
        let lead = match standing.lag {
            // The ghost is gone, or the task has changed and no longer matches it.
            Lag::New { .. } | Lag::Delayed { .. } => 0,
            Lag::Moving { lead } | Lag::Lent { lead, .. } => lead,
            Lag::Asleep { lead, since, .. } if rules.works_off => {
                worked_off(lead, now.clock.since(since).0)
            }
            Lag::Asleep { lead, .. } => lead,
        };
        let lead = virtual_lead(&entity, lead);
        // Its arrival moves the average by a part of the lead, so it is placed farther by that
        // part.
        let weight = i128::from(entity.weight);
        let lead = match load {
            0 => 0,
            _ => i128::from(lead) * (load + weight) / load,
        };
        let vruntime = clock.after((lead as i64).cast_unsigned());
        let due = match (standing.lag, rules.moves) {
            // A competing member is more important than a newcomer (`PLACE_DEADLINE_INITIAL`).
            (Lag::New { .. }, _) if rules.halves_first => slice / 2,
            (Lag::New { .. } | Lag::Asleep { .. } | Lag::Delayed { .. }, _)
            | (_, Deadline::Anew) => slice,
            _ if !now.config.features.has(Feature::PlaceRelDeadline) => slice,
            // The request from before the move keeps its due time (`PLACE_REL_DEADLINE`).
            (_, Deadline::Kept) => standing.turn,
            (_, Deadline::KeptWithinSlice) => {
                standing.turn.cast_signed().clamp(0, slice.cast_signed()).cast_unsigned()
            }
        };
        (vruntime, vruntime.after(due))
    }

    /// Returns the CPU time that an entity owes its queue, which is its negative lag, within the
    /// bound of the rules in both directions (`entity_lag`).
    fn lead(&mut self, tree: &mut Tree, now: Now, member: Member) -> i64 {
        let Member { queue: id, at } = member;
        let average = &mut self.averages[id];
        let queue = tree.queue_mut(id);
        average.look(queue);
        let clock = queue.clock;
        let tick = now.config.tick.0;
        let most = match now.config.rules.bound {
            LagBound::TwoOwnSlices => tick.max(2 * self.turns[at].slice),
            LagBound::LongestQueued => average.slices.longest + tick,
            LagBound::LongestSinceEmpty => average.longest_slice + tick,
        };
        let most = most.cast_signed();
        let entity = tree.entity(at);
        let unit = i128::from(Weight::NICE_0.get());
        let lead = i128::from(entity.vruntime.diff(clock)) * i128::from(entity.weight) / unit;
        (lead as i64).clamp(-most, most)
    }

    fn join(&mut self, tree: &Tree, member: Member) {
        self.averages[member.queue].ahead += ahead(tree, member);
        self.heed_slice(member);
    }

    /// Examines the slices of all members, after the only one with the shortest or the longest has
    /// gone, or a request changed.
    #[inline(never)]
    fn recount_slices(&mut self, tree: &Tree, now: Now, id: QueueId) {
        if !now.config.rules.needs_extremes() {
            return;
        }
        let mut slices = Extremes::default();
        let members = tree.queue(id).curr.into_iter().chain(tree.heaps.iter(id));
        members.for_each(|at| slices.add(self.turns[at].slice));
        self.averages[id].slices = slices;
    }

    /// Wakes a member that slept in its place. A positive lag that it got meanwhile is dropped
    /// (`requeue_delayed_entity`).
    pub(super) fn requeue(&mut self, tree: &mut Tree, member: Member) {
        let Member { queue: id, at } = member;
        self.averages[id].look(tree.queue_mut(id));
        if tree.entity(at).vruntime.diff(tree.queue(id).clock) >= 0 {
            return;
        }
        self.remove(tree, member);
        tree.dismiss(id, at);
        self.part(tree, member);
        self.averages[id].look(tree.queue_mut(id));
        let (clock, entity) = (tree.queue(id).clock, tree.entity(at));
        self.turns[at].deadline = clock.after(entity.virtual_span(self.turns[at].slice));
        tree.admit(id, at, clock);
        self.join(tree, member);
        self.insert(tree, member);
    }

    /// Returns an entity that sleeps in its place and that a wake-up would pick before the woken
    /// and the running one.
    pub(super) fn sleeper_before(
        &mut self,
        tree: &mut Tree,
        now: Now,
        wakeup: Wakeup,
    ) -> Option<Index> {
        let (curr, id) = (wakeup.curr, tree.entity(wakeup.curr).parent);
        if self.buddy_at_wakeup(tree, now, id).is_some() {
            return None;
        }
        let shorter = self.wants_less(now, wakeup);
        let stands = self.is_eligible(tree, Member { queue: id, at: curr });
        let in_turn = stands && tree.entity(curr).vruntime < self.turns[curr].ends;
        let asks = shorter || !in_turn && (!wakeup.forked || now.config.rules.fork_preempts);
        let first = self.first_eligible(tree, id).filter(|_| asks)?;
        let before = !stands || self.turns[first].deadline <= self.turns[curr].deadline;
        (tree.entity(first).delayed && before).then_some(first)
    }

    /// Returns whether a woken member requests a shorter slice than the running one, if that
    /// matters.
    fn wants_less(&self, now: Now, wakeup: Wakeup) -> bool {
        let matters = now.config.features.has(Feature::PreemptShort)
            && now.config.rules.short != Short::Ignored;
        matters && self.turns[wakeup.woken].slice < self.turns[wakeup.curr].slice
    }

    /// Requests for the entity of a group the shortest slice of its members; the previous request
    /// keeps its due time (`cfs_rq_min_slice`).
    pub(super) fn reslice(&mut self, tree: &Tree, now: Now, at: Index) {
        let shortest = self.averages[tree.entity(at).own].slices.shortest;
        let old = std::mem::replace(&mut self.turns[at].slice, shortest);
        if old == shortest || !tree.is_attached(at) {
            return;
        }
        let member = Member::of(tree, at);
        self.heed_slice(member);
        let slices = &mut self.averages[member.queue].slices;
        slices.add(shortest);
        if slices.subtract(old) {
            self.recount_slices(tree, now, member.queue);
        }
    }

    /// Returns the buddy of a queue, if it is eligible.
    #[inline]
    fn eligible_buddy(&self, tree: &Tree, id: QueueId) -> Option<Index> {
        let buddy = self.buddies.next(id)?;
        self.is_eligible(tree, Member { queue: id, at: buddy }).then_some(buddy)
    }

    /// Returns the member that a wake-up check finds to be the next one, if that is the buddy.
    #[inline]
    fn buddy_at_wakeup(&self, tree: &Tree, now: Now, id: QueueId) -> Option<Index> {
        let asks = now.config.rules.buddies == Buddies::EligibleAtWakeups;
        self.eligible_buddy(tree, id).filter(|_| asks)
    }

    pub(super) fn is_eligible(&self, tree: &Tree, member: Member) -> bool {
        let Member { queue, at } = member;
        self.averages[queue].is_eligible(tree.queue(queue), tree.entity(at).vruntime)
    }

    /// Limits the turn of the running member to the shortest slice in its queue from now on
    /// (`update_protect_slice`).
    fn shorten_turn(&mut self, tree: &Tree, at: Index) {
        let entity = tree.entity(at);
        let span = entity.virtual_span(self.averages[entity.parent].slices.shortest);
        let turn = &mut self.turns[at];
        turn.ends = turn.ends.min(entity.vruntime.after(span));
    }

    /// Updates the bound of lags after a request.
    fn heed_slice(&mut self, member: Member) {
        let slice = self.turns[member.at].slice;
        let average = &mut self.averages[member.queue];
        average.longest_slice = average.longest_slice.max(slice);
    }

    fn part(&mut self, tree: &Tree, member: Member) {
        let average = &mut self.averages[member.queue];
        average.ahead -= ahead(tree, member);
        if tree.queue(member.queue).nr == 0 {
            average.longest_slice = 0;
        }
    }

    /// Returns the eligible waiting member with the earliest deadline.
    fn first_eligible(&mut self, tree: &mut Tree, id: QueueId) -> Option<Index> {
        let average = self.averages[id];
        let is_due = |tree: &Tree, at: &Index| {
            average.is_eligible(tree.queue(id), tree.entity(*at).vruntime)
        };
        while let Some(at) = tree.heaps.first(id).filter(|at| is_due(tree, at)) {
            self.remove(tree, Member { queue: id, at });
            tree.insert_urgent(id, at, self.turns[at].deadline);
        }
        loop {
            let at = tree.heaps.first_urgent(id)?;
            if is_due(tree, &at) {
                return Some(at);
            }
            self.remove(tree, Member { queue: id, at });
            tree.insert(id, at, tree.entity(at).vruntime);
        }
    }

    /// Puts an entity into the heap that it belongs to now.
    #[inline(never)]
    fn insert(&mut self, tree: &mut Tree, member: Member) {
        let Member { queue: id, at } = member;
        let vruntime = tree.entity(at).vruntime;
        if self.averages[id].is_eligible(tree.queue(id), vruntime) {
            tree.insert_urgent(id, at, self.turns[at].deadline);
        } else {
            tree.insert(id, at, vruntime);
        }
    }

    fn remove(&mut self, tree: &mut Tree, member: Member) {
        let Member { queue, at } = member;
        let average = &mut self.averages[queue];
        average.resumes = average.resumes.filter(|&resumes| resumes != at);
        tree.remove(queue, at);
    }
}

/// Returns how far a member is ahead of its queue's clock, times its weight.
fn ahead(tree: &Tree, member: Member) -> i128 {
    let Entity { weight, vruntime, .. } = *tree.entity(member.at);
    i128::from(weight) * i128::from(vruntime.diff(tree.queue(member.queue).clock))
}

/// Converts owed CPU time to the virtual time of an entity.
fn virtual_lead(entity: &Entity, lead: i64) -> i64 {
    let span = entity.virtual_span(lead.unsigned_abs()).cast_signed();
    if lead < 0 { -span } else { span }
}

/// Returns the rest of a lead after a sleep; a negative lead stays.
fn worked_off(lead: i64, slept: u64) -> i64 {
    if lead > 0 { lead.saturating_sub_unsigned(slept).max(0) } else { lead }
}
