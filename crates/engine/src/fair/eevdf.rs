//! The order of a fair queue in EEVDF: earliest eligible virtual deadline first, as in Linux since 6.6. What each
//! release does in a way of its own is a [rule](crate::rules), asked where it matters.
//!
//! The virtual clock is the average of the members' vruntimes by weight. A member's *lag* is how far
//! its vruntime is behind the clock: what the queue owes it. A member that is owed something, or
//! nothing, is *eligible*. Each asks for a slice at a time, which is due at its deadline, a slice after
//! where it stood when it asked; of the eligible the one with the earliest deadline is next. So a
//! shorter slice is had sooner, and no more of it.
//!
//! The kernel finds that one in a tree by deadline that knows the least vruntime below each node. A
//! heap cannot be walked like that, so there are two: by deadline those that were eligible when that
//! was looked at, by vruntime the others. The first of the one is looked at again when it matters; one
//! that became eligible in the other is at its top.
//!
//! A member that leaves takes its lag along, within bounds, and has it again where it comes to. What it
//! owes stays as it is while it sleeps (6.6), or is worked off as fast as if the queue were its own (the
//! runtime); or the member stays until the queue has worked it off, which takes longer among others
//! (`ghosts.rs`).
//!
//! Invariants: [`Average::ahead`] is what it is counted afresh, so that the sum of all lags is zero;
//! each that waits is in one of the heaps, by its key.

use crate::attr::Weight;
use crate::config::Config;
use crate::ensure::ensure;
use crate::fair::entity::{Ask, ByQueue, Entity, Lag, Now, QueueId, Standing};
use crate::fair::order::{Before, QueueOrder, Wakeup};
use crate::fair::tree::{Member, Queue, Tree};
use crate::features::Feature;
use crate::rules::{Deadline, Ends, LagBound, Protects, Short, Yields};
use crate::store::column::Column;
use crate::store::heap::Index;
use crate::time::{Nanos, VTime};
use std::fmt::Display;

/// How long a turn lasts at least in 6.18 without `RUN_TO_PARITY`: the base slice before it grows with the machine
/// (`set_protect_slice`).
const QUANTUM: u64 = 700_000;

/// What EEVDF keeps beside the tree.
#[derive(Debug, Default)]
pub(crate) struct Eevdf {
    /// By entity.
    turns: Column<Turn>,
    /// By queue.
    averages: ByQueue<Average>,
}

/// What an entity asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// When, in virtual time, it shall have had what it asked for.
    pub(crate) deadline: VTime,
    /// Until when, in virtual time, it keeps the CPU against its equals.
    pub(crate) ends: VTime,
    /// How long it wants to run at a time.
    slice: u64,
}

/// How a queue's members stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average {
    /// The sum of how far members are ahead of the clock, by weight.
    pub(crate) ahead: i128,
    /// The longest slice of any member since the queue was empty.
    longest_slice: u64,
    /// The slices of the members, if a rule asks for them.
    slices: Extremes,
    /// The member that was `curr` and goes on with its turn at the next pick.
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

    /// Whether one of them has nobody left, so that the others must be looked at.
    #[must_use]
    fn subtract(&mut self, slice: u64) -> bool {
        self.nr_shortest -= u32::from(slice == self.shortest);
        self.nr_longest -= u32::from(slice == self.longest);
        self.nr_shortest == 0 || self.nr_longest == 0
    }
}

impl Eevdf {
    /// Makes room for as many entities as another has room for, of which the memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Eevdf) {
        self.turns.grow_into(&mut room.turns);
    }
}

impl QueueOrder for Eevdf {
    fn grow(&mut self, entities: usize, queues: usize) {
        self.turns.grow(entities);
        self.averages.grow(queues, Average::default);
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

    /// The average moves with the running entity; a slice that was had makes way for the next
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
        queue.nr > 1 && (reached || besides)
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

    /// Its turn begins, unless it goes on with one.
    #[inline]
    fn set_curr(&mut self, tree: &mut Tree, now: Now, member: Member, goes_on: bool) {
        let Member { queue, at } = member;
        tree.remove(queue, at);
        tree.queue_mut(queue).curr = Some(at);
        self.averages[queue].resumes = None;
        if goes_on {
            return;
        }
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

    /// The member that was not done with its turn, or the eligible one with the earliest deadline
    /// (`pick_eevdf`).
    #[inline]
    fn choose(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index {
        let average = &self.averages[id];
        // In the kernel a turn is gone as soon as somebody of another class had the CPU.
        let ran = |at: &Index| now.config.rules.renews || tree.is_above(*at, before.ran);
        let resumes = average
            .resumes
            .filter(|&at| average.is_eligible(tree.queue(id), tree.entity(at).vruntime))
            .filter(ran);
        let first = resumes.or_else(|| self.first_eligible(tree, id));
        first.expect("somebody is not ahead of the average")
    }

    fn foresee(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index {
        self.choose(tree, now, id, before)
    }

    fn slice_of(&self, _: &Tree, _: Now, member: Member) -> u64 {
        self.turns[member.at].slice
    }

    /// Where a charge may ask for a switch, the one of this tick did.
    fn turn_is_over(&mut self, tree: &Tree, now: Now, member: Member) -> bool {
        let Member { queue, at } = member;
        now.config.rules.off_tick.is_none()
            && tree.queue(queue).nr > 1
            && tree.entity(at).vruntime >= self.turns[at].ends
    }

    /// It would be picked, and the running one is not in its turn, or asked for more at a time
    /// (`wakeup_preempt_fair`). One that would not be may leave a trace: the running one's turn is shorter.
    fn preempts(&mut self, tree: &mut Tree, now: Now, wakeup: Wakeup) -> bool {
        let Wakeup { curr, woken, forked } = wakeup;
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
        let preempts = !protected && beats && self.first_eligible(tree, id) == Some(woken);
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

    /// It asks for its next slice (`yield_task_fair`), and its turn is over.
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
            // One that yields again and again is picked all the same while nobody else is eligible.
            Yields::PutsOffWithinTwo => put_off.min(entity.vruntime.after(2 * slice)),
            Yields::PutsOff => put_off,
            Yields::Forfeits if self.is_eligible(tree, member) => {
                self.part(tree, member);
                tree.entity_mut(at).vruntime = deadline;
                self.join(tree, member);
                // Those that are eligible by that come before it, if their deadlines are its own.
                self.first_eligible(tree, member.queue);
                put_off
            }
            Yields::Forfeits => deadline,
        };
        self.end_turn(tree, at);
        self.insert(tree, member);
    }

    /// A change of weight moves neither what the queue owes the entity nor what it asks for
    /// (`reweight_entity`).
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

    /// Whether it owes nothing, so that its queue can be forgotten.
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
    /// Whether a member at this vruntime is owed anything, or nothing; exact.
    #[inline]
    fn is_eligible(&self, queue: &Queue, vruntime: VTime) -> bool {
        i128::from(vruntime.diff(queue.clock)) * i128::from(queue.load) <= self.ahead
    }

    /// Brings the clock to the average of the vruntimes, rounded down.
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
    /// What an entity asked for, for tests.
    #[cfg(test)]
    pub(crate) fn turn(&self, at: Index) -> Turn {
        self.turns[at]
    }

    /// How the members of a queue stand, for tests.
    #[cfg(test)]
    pub(crate) fn average(&self, id: QueueId) -> Average {
        self.averages[id]
    }

    /// Where a newcomer starts, and what its first deadline is (`place_entity`).
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
            // The ghost is gone, or the task is another one than that.
            Lag::New { .. } | Lag::Delayed { .. } => 0,
            Lag::Moving { lead } | Lag::Lent { lead, .. } => lead,
            Lag::Asleep { lead, since, .. } if rules.works_off => {
                worked_off(lead, now.clock.since(since).0)
            }
            Lag::Asleep { lead, .. } => lead,
        };
        let lead = virtual_lead(&entity, lead);
        // Its coming moves the average by a part of that, for which it is placed so much farther.
        let weight = i128::from(entity.weight);
        let lead = match load {
            0 => 0,
            _ => i128::from(lead) * (load + weight) / load,
        };
        let vruntime = clock.after((lead as i64).cast_unsigned());
        let due = match (standing.lag, rules.moves) {
            // One that competes already is more important than one that comes
            // (`PLACE_DEADLINE_INITIAL`).
            (Lag::New { .. }, _) if rules.halves_first => slice / 2,
            (Lag::New { .. } | Lag::Asleep { .. } | Lag::Delayed { .. }, _)
            | (_, Deadline::Anew) => slice,
            _ if !now.config.features.has(Feature::PlaceRelDeadline) => slice,
            // What it asked for before it left is due when it was (`PLACE_REL_DEADLINE`).
            (_, Deadline::Kept) => standing.turn,
            (_, Deadline::KeptWithinSlice) => {
                standing.turn.cast_signed().clamp(0, slice.cast_signed()).cast_unsigned()
            }
        };
        (vruntime, vruntime.after(due))
    }

    /// The CPU time that an entity owes its queue, its lag the other way round: no more, and of what
    /// it is owed no more, than the rule allows (`entity_lag`).
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

    /// Looks at the slices of all members: the only one with the shortest or the longest has gone, or
    /// somebody asks for another one.
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

    /// A member that slept in its place is awake. The time that the queue came to owe it meanwhile is gone
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

    /// One that sleeps in its place and would be picked at a wake-up, before the woken one and before the running one.
    pub(super) fn sleeper_before(
        &mut self,
        tree: &mut Tree,
        now: Now,
        wakeup: Wakeup,
    ) -> Option<Index> {
        let (curr, id) = (wakeup.curr, tree.entity(wakeup.curr).parent);
        let shorter = self.wants_less(now, wakeup);
        let stands = self.is_eligible(tree, Member { queue: id, at: curr });
        let in_turn = stands && tree.entity(curr).vruntime < self.turns[curr].ends;
        let asks = shorter || !in_turn && (!wakeup.forked || now.config.rules.fork_preempts);
        let first = self.first_eligible(tree, id).filter(|_| asks)?;
        let before = !stands || self.turns[first].deadline <= self.turns[curr].deadline;
        (tree.entity(first).delayed && before).then_some(first)
    }

    /// Whether a woken one wants less at a time than the running one, and that matters.
    fn wants_less(&self, now: Now, wakeup: Wakeup) -> bool {
        let matters = now.config.features.has(Feature::PreemptShort)
            && now.config.rules.short != Short::Ignored;
        matters && self.turns[wakeup.woken].slice < self.turns[wakeup.curr].slice
    }

    /// The entity of a group, which has members, asks for the shortest slice of these; the slice that it asked for last is due
    /// when it was (`cfs_rq_min_slice`).
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

    pub(super) fn is_eligible(&self, tree: &Tree, member: Member) -> bool {
        let Member { queue, at } = member;
        self.averages[queue].is_eligible(tree.queue(queue), tree.entity(at).vruntime)
    }

    /// The turn of the running member lasts for the shortest slice in its queue from now on, or less
    /// (`update_protect_slice`).
    fn shorten_turn(&mut self, tree: &Tree, at: Index) {
        let entity = tree.entity(at);
        let span = entity.virtual_span(self.averages[entity.parent].slices.shortest);
        let turn = &mut self.turns[at];
        turn.ends = turn.ends.min(entity.vruntime.after(span));
    }

    /// The bound of lags follows what an entity asks for.
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

    /// The eligible one with the earliest deadline among those that wait.
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

    /// Puts an entity into the heap where it belongs now.
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

/// How far a member is ahead of its queue's clock, by its weight.
fn ahead(tree: &Tree, member: Member) -> i128 {
    let Entity { weight, vruntime, .. } = *tree.entity(member.at);
    i128::from(weight) * i128::from(vruntime.diff(tree.queue(member.queue).clock))
}

/// What CPU time that is owed is in an entity's virtual time.
fn virtual_lead(entity: &Entity, lead: i64) -> i64 {
    let span = entity.virtual_span(lead.unsigned_abs()).cast_signed();
    if lead < 0 { -span } else { span }
}

/// What is left of a lead after a sleep; one that is owed something keeps it.
fn worked_off(lead: i64, slept: u64) -> i64 {
    if lead > 0 { lead.saturating_sub_unsigned(slept).max(0) } else { lead }
}
