//! The order of a fair queue in EEVDF: earliest eligible virtual deadline first, as in Linux 6.12.
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
//! owes is worked off while it sleeps, as fast as if the queue were its own; the kernel keeps a member
//! that owes something queued until the queue has worked it off (`DELAY_DEQUEUE`), which takes longer
//! among others.
//!
//! Invariants: [`Average::ahead`] is what it is counted afresh, so that the sum of all lags is zero;
//! each that waits is in one of the heaps, by its key.

use crate::attr::Weight;
use crate::config::Config;
use crate::ensure::ensure;
use crate::fair::entity::{Ask, ByQueue, Entity, Lag, Now, QueueId, Standing};
use crate::fair::order::QueueOrder;
use crate::fair::tree::{Member, Queue, Tree};
use crate::store::column::Column;
use crate::store::heap::Index;
use crate::time::{Nanos, VTime};
use std::fmt::Display;

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
    /// The member that was `curr` and goes on with its turn at the next pick.
    resumes: Option<Index>,
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
        let due = self.turns[at].deadline.diff(vruntime);
        Standing { lag, turn: due.cast_unsigned() }
    }

    /// The average moves with the running entity; a slice that was had makes way for the next
    /// (`update_deadline`).
    #[inline]
    fn charge(&mut self, tree: &mut Tree, member: Member, span: Nanos) {
        let Member { queue, at } = member;
        let entity = tree.entity_mut(at);
        let virtual_span = entity.virtual_span(span.0);
        entity.vruntime = entity.vruntime.after(virtual_span);
        let turn = &mut self.turns[at];
        if entity.vruntime >= turn.deadline {
            turn.deadline = entity.vruntime.after(entity.virtual_span(turn.slice));
        }
        let weight = entity.weight;
        let average = &mut self.averages[queue];
        average.ahead += i128::from(weight) * i128::from(virtual_span);
        average.look(tree.queue_mut(queue));
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

    /// Its turn is over at its deadline, or after a slice if yielding put that off.
    #[inline]
    fn set_curr(&mut self, tree: &mut Tree, member: Member) {
        let Member { queue, at } = member;
        tree.remove(queue, at);
        tree.queue_mut(queue).curr = Some(at);
        self.averages[queue].resumes = None;
        let entity = tree.entity(at);
        let turn = &mut self.turns[at];
        turn.ends = turn.deadline.min(entity.vruntime.after(entity.virtual_span(turn.slice)));
    }

    /// The member that was not done with its turn, or the eligible one with the earliest deadline
    /// (`pick_eevdf`).
    #[inline]
    fn choose(&mut self, tree: &mut Tree, _: Now, id: QueueId, _: Option<Index>) -> Index {
        let average = &self.averages[id];
        let resumes = average
            .resumes
            .filter(|&at| average.is_eligible(tree.queue(id), tree.entity(at).vruntime));
        let first = resumes.or_else(|| self.first_eligible(tree, id));
        first.expect("somebody is not ahead of the average")
    }

    fn turn_is_over(&mut self, tree: &Tree, _: Now, member: Member) -> bool {
        let Member { queue, at } = member;
        tree.queue(queue).nr > 1 && tree.entity(at).vruntime >= self.turns[at].ends
    }

    /// It would be picked, and the running one is not in its turn, or asked for more at a time
    /// (`PREEMPT_SHORT`).
    fn preempts(&mut self, tree: &mut Tree, _: Now, curr: Index, woken: Index) -> bool {
        let id = tree.entity(curr).parent;
        let running = tree.entity(curr);
        let stands = self.averages[id].is_eligible(tree.queue(id), running.vruntime);
        let (turn, arriving) = (self.turns[curr], self.turns[woken]);
        let shorter = arriving.slice < turn.slice;
        let beats = !stands || arriving.deadline < turn.deadline;
        let protected = stands && running.vruntime < turn.ends && !shorter;
        if protected || !beats || self.first_eligible(tree, id) != Some(woken) {
            return false;
        }
        self.end_turn(tree, curr);
        true
    }

    fn end_turn(&mut self, tree: &Tree, at: Index) {
        self.turns[at].ends = tree.entity(at).vruntime;
    }

    /// It asks for its next slice (`yield_task_fair`).
    fn postpone(&mut self, tree: &mut Tree, at: Index) {
        let member = Member::of(tree, at);
        self.remove(tree, member);
        let entity = tree.entity(at);
        let turn = &mut self.turns[at];
        let slice = entity.virtual_span(turn.slice);
        // One that yields again and again is picked all the same while nobody else is eligible.
        let latest = entity.vruntime.after(2 * slice);
        turn.deadline = turn.deadline.after(slice).min(latest);
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
    }

    fn renew(&mut self, tree: &mut Tree, _: Now, at: Index) {
        if tree.is_attached(at) {
            self.heed_slice(Member::of(tree, at));
        }
    }

    /// Whether it owes nothing, so that its queue can be forgotten.
    fn is_at_rest(&self, tree: &Tree, now: Now, at: Index) -> bool {
        match tree.queue(tree.entity(at).own).standing.lag {
            Lag::New { .. } | Lag::Moving { .. } | Lag::Lent { .. } => true,
            Lag::Asleep { lead, since, .. } => worked_off(lead, now.clock.since(since).0) <= 0,
        }
    }

    fn lead_of_child(&self, _: &Tree, _: Now, _: Index, _: Nanos) -> u64 {
        0
    }

    fn check(&self, tree: &Tree, _: Now, id: QueueId, picture: &dyn Display) {
        let (queue, average) = (tree.queue(id), &self.averages[id]);
        let (mut ahead, mut longest) = (0, 0);
        let mut count = |at: Index| {
            let Entity { weight, vruntime, .. } = *tree.entity(at);
            ahead += i128::from(weight) * i128::from(vruntime.diff(queue.clock));
            longest = longest.max(self.turns[at].slice);
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
        let lead = match standing.lag {
            Lag::New { .. } => 0,
            Lag::Moving { lead } | Lag::Lent { lead, .. } => lead,
            Lag::Asleep { lead, since, .. } => worked_off(lead, now.clock.since(since).0),
        };
        let lead = virtual_lead(&entity, lead);
        // Its coming moves the average by a part of that, for which it is placed so much farther.
        let weight = i128::from(entity.weight);
        let lead = match load {
            0 => 0,
            _ => i128::from(lead) * (load + weight) / load,
        };
        let vruntime = clock.after((lead as i64).cast_unsigned());
        let due = match standing.lag {
            // One that competes already is more important than one that comes
            // (`PLACE_DEADLINE_INITIAL`).
            Lag::New { .. } => slice / 2,
            // What it asked for before it left is due when it was (`PLACE_REL_DEADLINE`).
            Lag::Moving { .. } | Lag::Lent { .. } => {
                standing.turn.cast_signed().clamp(0, slice.cast_signed()).cast_unsigned()
            }
            Lag::Asleep { .. } => slice,
        };
        (vruntime, vruntime.after(due))
    }

    /// The CPU time that an entity owes its queue, its lag the other way round: no more, and of what
    /// it is owed no more, than the longest slice and a tick (`entity_lag`).
    fn lead(&mut self, tree: &mut Tree, now: Now, member: Member) -> i64 {
        let Member { queue: id, at } = member;
        let average = &mut self.averages[id];
        let queue = tree.queue_mut(id);
        average.look(queue);
        let clock = queue.clock;
        let most = (average.longest_slice + now.config.tick.0).cast_signed();
        let entity = tree.entity(at);
        let unit = i128::from(Weight::NICE_0.get());
        let lead = i128::from(entity.vruntime.diff(clock)) * i128::from(entity.weight) / unit;
        (lead as i64).clamp(-most, most)
    }

    fn join(&mut self, tree: &Tree, member: Member) {
        self.averages[member.queue].ahead += ahead(tree, member);
        self.heed_slice(member);
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
