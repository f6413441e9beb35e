//! The order of a fair queue in CFS, as in Linux 6.1, with latency nice as in its founding document
//! (patch set v12, Feb 2023).
//!
//! The member with the smallest vruntime is next. A sleeper may wake on the queue that it left, and
//! is placed as in the kernel, by its absolute vruntime. Or it wakes on another queue, and is placed
//! by its old lead over the clock less the time that it slept. The kernel subtracts the advance of
//! the old queue's clock instead, which may be less than the time. Both results lie between the sleeper credit behind
//! the clock and the old lead, which is about a slice at most.
//!
//! Latency nice moves the margins of preemption by an *offset*. It is never stored, but computed
//! from the current configuration. An entity with a negative offset is *sensitive*. For one
//! `min_granularity` after a wake-up it is also in a second heap, ordered by vruntime plus offset.
//! It goes before the first member of the queue if that one would not preempt it. Many sensitive
//! members could keep the first one off the CPU forever, since each newcomer starts near the clock.
//! So the first one is passed over for one `latency` at most, and then gets a `min_granularity`
//! that no wake-up takes from it.
//!
//! A pick in 6.1 also prefers a [buddy](crate::fair::buddies) to the first member, if that one would not
//! preempt it.
//!
//! Invariants: the clock of a queue never runs back; the second heap has only sensitive members.

use crate::attr::{LatencyNice, Policy, Weight};
use crate::config::Config;
use crate::ensure::ensure;
use crate::fair::buddies::{BuddiesByQueue, Buddy};
use crate::fair::entity::{Ask, ByQueue, Entity, Lag, Now, QueueId, QueueName, Standing};
use crate::fair::order::{Before, QueueOrder, Wakeup};
use crate::fair::tree::{Member, Tree};
use crate::features::Feature;
use crate::rules::Buddies;
use crate::store::heap::Index;
use crate::time::{Nanos, Time, VTime};
use std::fmt::Display;

/// The length of a sleep after which the signed difference of two virtual times may have wrapped.
const LONG_SLEEP: Nanos = Nanos((1 << 63) / 1024);

/// The result of comparing the vruntimes of the running entity and of a newcomer
/// (`wakeup_preempt_entity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Margin {
    /// The running entity is not ahead of the newcomer, after the offsets of both.
    Stays,
    /// The running entity is ahead, but not by the wake-up granularity.
    Tie,
    Preempts,
}

/// The state that CFS keeps beside the tree.
#[derive(Debug, Default)]
pub(crate) struct Cfs {
    turns: ByQueue<Turns>,
    pub(crate) buddies: BuddiesByQueue,
}

/// The turns of the first member of a queue beside sensitive members.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    /// The time since which sensitive members go before the first waiting member.
    passed_over: Option<Time>,
    /// The entity that got its turn because it had been passed over for too long.
    owed: Option<Index>,
}

impl QueueOrder for Cfs {
    fn grow(&mut self, _: usize, queues: usize) {
        self.turns.grow(queues, Turns::default);
        self.buddies.grow(queues);
    }

    #[inline]
    fn heed(&mut self, _: Index, _: Ask, _: &Config) {}

    /// Places a new queue's entity as one that slept long.
    fn found(&mut self, tree: &mut Tree, now: Now, at: Index) -> Standing {
        let Entity { parent, own, idle, .. } = *tree.entity(at);
        self.turns[own] = Turns::default();
        let vruntime = credited(tree, now, parent, idle);
        tree.entity_mut(at).vruntime = vruntime;
        let lag = Lag::Asleep { vruntime, queue: tree.name(parent), lead: 0, since: now.clock };
        Standing { lag, ..Standing::new(0) }
    }

    fn attach(&mut self, tree: &mut Tree, now: Now, member: Member, standing: &Standing) {
        let Member { queue, at } = member;
        let vruntime = place(tree, now, member, &standing.lag);
        tree.admit(queue, at, vruntime);
        tree.entity_mut(at).ran = standing.turn;
        let woken = matches!(standing.lag, Lag::Asleep { .. });
        insert(tree, now, member, woken);
    }

    fn detach(&mut self, tree: &mut Tree, now: Now, member: Member, asleep: bool) -> Standing {
        let Member { queue, at } = member;
        self.buddies.clear(tree, at);
        let Entity { vruntime, ran, latency_nice, .. } = *tree.entity(at);
        let lead = vruntime.diff(tree.queue(queue).clock);
        tree.dismiss(queue, at);
        let turns = &mut self.turns[queue];
        let rest = tree.queue_mut(queue);
        if rest.nr == 0 {
            *turns = Turns::default();
        }
        if rest.curr == Some(at) {
            rest.curr = None;
            if latency_nice >= LatencyNice::ZERO {
                // The entity had the CPU for as long as it wanted.
                turns.passed_over = None;
            }
        } else {
            tree.remove(queue, at);
        }
        let lag = match asleep {
            true => Lag::Asleep { vruntime, queue: tree.name(queue), lead, since: now.clock },
            false => Lag::Moving { lead },
        };
        advance_clock(tree, queue);
        Standing { lag, turn: ran }
    }

    #[inline(always)]
    fn charge(&mut self, tree: &mut Tree, _: Now, member: Member, span: Nanos) -> bool {
        charge(tree, member, span);
        false
    }

    #[inline(always)]
    fn put_back(&mut self, tree: &mut Tree, now: Now, member: Member) {
        tree.queue_mut(member.queue).curr = None;
        insert(tree, now, member, false);
    }

    #[inline]
    fn set_curr(&mut self, tree: &mut Tree, _: Now, member: Member, goes_on: bool) {
        let Member { queue, at } = member;
        tree.remove(queue, at);
        tree.queue_mut(queue).curr = Some(at);
        if !goes_on {
            tree.entity_mut(at).ran = 0;
            self.buddies.clear(tree, at);
        }
    }

    /// Returns the first member, unless it yielded. A sensitive member that the first one would not
    /// preempt goes before it (`pick_next_entity`), unless the first one was passed over for too
    /// long. A buddy that the first one would not preempt takes its place.
    #[inline]
    fn choose(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index {
        let Before { yielded, .. } = before;
        let first = tree.heaps.first(id).expect("a queue that is picked from has members");
        let chosen = match tree.is_above(first, yielded) {
            true => instead_of(tree, now, id, first),
            false => first,
        };
        if self.is_in_plain_order(tree, id) {
            return chosen;
        }
        let chosen = self.buddy_before(tree, now, id, first).unwrap_or(chosen);
        self.choose_beside_sensitive(tree, now, (id, chosen), yielded)
    }

    fn foresee(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index {
        let turns = self.turns[id];
        let at = self.choose(tree, now, id, before);
        self.turns[id] = turns;
        at
    }

    fn slice_of(&self, tree: &Tree, now: Now, member: Member) -> u64 {
        slice_of_queued(tree, now, member)
    }

    /// `check_preempt_tick`. An entity that has the CPU at a tick has had its turn if it is not
    /// sensitive and ran for long enough: no member is passed over then.
    #[inline]
    fn turn_is_over(&mut self, tree: &Tree, now: Now, member: Member) -> bool {
        let Member { queue, at } = member;
        let ran = tree.entity(at).ran;
        let served = tree.entity(at).latency_nice >= LatencyNice::ZERO
            && ran >= now.config.min_granularity.0;
        let turns = &mut self.turns[queue];
        if served && turns.passed_over.is_some() {
            turns.passed_over = None;
        }
        tree.queue(queue).nr > 1 && self.is_over(tree, now, member)
    }

    /// `wakeup_preempt_entity`. An entity that is hardly ahead continues, so that it makes progress
    /// between two switches. A group that is [exhausted](crate::fair::tree::Queue::exhausted_until)
    /// does not.
    fn preempts(&mut self, tree: &mut Tree, now: Now, wakeup: Wakeup) -> bool {
        let Wakeup { curr, woken, slept, due, .. } = wakeup;
        let (entity, least) = (tree.entity(curr), now.config.min_granularity.0);
        if !slept && entity.ran < least_turn(tree, Member { queue: entity.parent, at: curr }) {
            return false;
        }
        let owed = self.turns[entity.parent].owed == Some(curr);
        let preempts = match margin(now, entity, tree.entity(woken)) {
            Margin::Preempts => {
                if !due && now.config.rules.buddies == Buddies::NearFirst {
                    self.note_buddies(tree, now, (curr, woken));
                }
                true
            }
            Margin::Tie => !entity.is_task() && now.clock < tree.queue(entity.own).exhausted_until,
            Margin::Stays => false,
        };
        preempts && !(owed && entity.ran < least)
    }

    fn goes_before(&self, tree: &Tree, now: Now, (curr, waiting): (Index, Index)) -> bool {
        let (curr, waiting) = (tree.entity(curr), tree.entity(waiting));
        let offset = match now.config.features.has(Feature::LatencyNice) {
            true => now.config.relative_offset(curr.latency_nice, waiting.latency_nice),
            false => 0,
        };
        curr.vruntime.diff(waiting.vruntime) > offset
    }

    fn end_turn(&mut self, _: &Tree, _: Index) {}

    fn postpone(&mut self, _: &mut Tree, _: Now, _: Index) {}

    fn reweight(&mut self, tree: &mut Tree, _: Now, at: Index, weight: u32) {
        tree.reweight(at, weight);
    }

    fn reask(&mut self, tree: &mut Tree, now: Now, at: Index, ask: Ask) {
        let queue = tree.entity(at).parent;
        let waits = tree.waits(at);
        let was_urgent = waits && tree.heaps.is_urgent(queue, at);
        if waits {
            tree.remove(queue, at);
        }
        tree.entity_mut(at).latency_nice = ask.latency_nice;
        if waits {
            insert(tree, now, Member { queue, at }, was_urgent);
        }
    }

    /// Moves a sensitive entity to its place under another configuration.
    fn renew(&mut self, tree: &mut Tree, now: Now, at: Index, _: Ask) {
        let queue = tree.entity(at).parent;
        if tree.heaps.is_urgent(queue, at) {
            tree.remove_urgent(queue, at);
            tree.insert_urgent(queue, at, sensitive_key(now, tree.entity(at)));
        }
    }

    /// Returns whether the entity would be placed no further back if its queue were made anew. If
    /// the clock of its parent stands still because it has no members, real time reduces the lead,
    /// like that of a task that wakes elsewhere.
    fn is_at_rest(&self, tree: &Tree, now: Now, at: Index) -> bool {
        let Entity { parent, own, vruntime, idle, .. } = *tree.entity(at);
        let by_time = |lead: i64, since| {
            let left = lead.saturating_sub_unsigned(now.clock.since(since).0);
            tree.queue(parent).clock.after(left.cast_unsigned())
        };
        let place = match tree.queue(own).standing.lag {
            Lag::Asleep { lead, since, .. } => vruntime.min(by_time(lead, since)),
            Lag::New { .. } | Lag::Moving { .. } | Lag::Lent { .. } | Lag::Delayed { .. } => {
                vruntime
            }
        };
        place <= credited(tree, now, parent, idle)
    }

    /// A latency-sensitive task owes the lead of the task that forks it, in addition to its own
    /// debit. Otherwise a chain of tasks, each of which forks the next, would owe no more than its
    /// last.
    ///
    /// In the kernel, a new task owes the larger of the two (`task_fork_fair`), and a sensitive one
    /// has no smaller debit.
    fn lead_of_child(&self, tree: &Tree, now: Now, parent: Index, uncharged: Nanos) -> u64 {
        if !now.config.features.has(Feature::LatencyNice) {
            return 0;
        }
        let entity = tree.entity(parent);
        let vruntime = entity.vruntime.after(entity.virtual_span(uncharged.0));
        let clock = clock_beside(tree, entity.parent, Some(vruntime));
        let lead = u128::from(vruntime.diff(clock).max(0).cast_unsigned());
        (lead * u128::from(entity.weight) / u128::from(Weight::NICE_0.get())) as u64
    }

    fn check(&self, tree: &Tree, now: Now, id: QueueId, picture: &dyn Display) {
        tree.heaps.check(id, |at, key, urgent| {
            let entity = tree.entity(at);
            if !urgent {
                ensure!(picture, key == entity.vruntime, "{at} is in the order of vruntimes");
                return;
            }
            let offset = now.config.latency_offset(entity.latency_nice);
            let place = sensitive_key(now, entity);
            ensure!(picture, offset < 0 && key == place, "{at} is in the order of sensitive ones");
            ensure!(picture, tree.heaps.waits_with_all(id, at), "{at} is in both heaps");
        });
    }
}

impl Cfs {
    /// Returns whether vruntimes alone order the members of a queue: none of them is sensitive, or
    /// owed a turn, and there are no buddies.
    #[inline]
    pub(crate) fn is_in_plain_order(&self, tree: &Tree, id: QueueId) -> bool {
        let Turns { passed_over, owed } = self.turns[id];
        (passed_over, owed, tree.heaps.first_urgent(id)) == (None, None, None)
            && self.buddies.is_empty()
    }

    /// Returns the buddy that runs instead of the `first` member, if that one would not preempt it.
    #[inline(never)]
    fn buddy_before(&self, tree: &Tree, now: Now, id: QueueId, first: Index) -> Option<Index> {
        let near =
            |at: &Index| margin(now, tree.entity(*at), tree.entity(first)) != Margin::Preempts;
        let next = self.buddies.next(id).filter(near);
        next.or_else(|| self.buddies.last(id).filter(near))
    }

    /// At a preemption by a woken member: it becomes `next`, and the preempted member `last`, if it
    /// is a task in a queue of so many that each has the least granularity (`check_preempt_wakeup`,
    /// `sched_nr_latency`).
    #[inline(never)]
    fn note_buddies(&mut self, tree: &Tree, now: Now, (curr, woken): (Index, Index)) {
        self.buddies.set(tree, woken, Buddy::Next);
        let many = now.config.latency.0.div_ceil(now.config.min_granularity.0);
        if u64::from(tree.queue_of(curr).nr) >= many && tree.entity(curr).is_task() {
            self.buddies.set(tree, curr, Buddy::Last);
        }
    }

    /// Returns the first of a queue without the sensitive members, or a sensitive member that goes
    /// before it. The latter is excluded if the first one was passed over for too long.
    #[inline(never)]
    fn choose_beside_sensitive(
        &mut self,
        tree: &Tree,
        now: Now,
        (id, chosen): (QueueId, Index),
        yielded: Option<Index>,
    ) -> Index {
        let since = self.turns[id].passed_over;
        let overdue = since.is_some_and(|since| now.clock.since(since) >= now.config.latency);
        let goes_first = |at: &Index| !overdue && goes_before(tree, now, (*at, chosen), yielded);
        let sensitive = tree.heaps.first_urgent(id).filter(goes_first);
        // If the first member is itself sensitive, it delays no other member, and the time of
        // passing over goes on.
        let is_sensitive = tree.heaps.is_urgent(id, chosen);
        let turns = &mut self.turns[id];
        // The state lasts until the first member has had its turn. A short run while no sensitive
        // member waits does not count as a turn.
        turns.passed_over = match sensitive {
            Some(_) => since.or(Some(now.clock)),
            None => since.filter(|_| !overdue || is_sensitive),
        };
        turns.owed = Some(chosen).filter(|_| overdue && !is_sensitive);
        sensitive.unwrap_or(chosen)
    }

    /// Returns whether the tick ends the turn of a running entity that has competitors.
    fn is_over(&mut self, tree: &Tree, now: Now, member: Member) -> bool {
        let ran = tree.entity(member.at).ran;
        if ran < least_turn(tree, member) {
            return false;
        }
        let slice = slice(tree, now, member, Counted::Queued);
        if ran > slice {
            self.buddies.clear(tree, member.at);
            return true;
        }
        let some = ran >= now.config.min_granularity.0;
        some && self.is_too_far_ahead(tree, now, member, slice)
    }

    /// Returns whether a running entity makes way within its slice because it is ahead of the first
    /// waiting one.
    #[inline(never)]
    fn is_too_far_ahead(&self, tree: &Tree, now: Now, member: Member, slice: u64) -> bool {
        let Member { queue: id, at } = member;
        let entity = tree.entity(at);
        let Some(first) = tree.heaps.first(id) else { return false };
        // A sensitive member may have come while no member was allowed to preempt the running one.
        let owed = self.turns[id].owed == Some(at);
        let refused = tree.heaps.first_urgent(id).filter(|_| owed);
        if refused.is_some_and(|sensitive| goes_before(tree, now, (sensitive, at), None)) {
            return true;
        }
        let first = tree.entity(first);
        let ahead = entity.vruntime.diff(first.vruntime);
        if !now.config.features.has(Feature::LatencyNice) {
            return ahead > slice.cast_signed();
        }
        ahead >= now.config.relative_offset(entity.latency_nice, first.latency_nice)
            && ahead > slice.cast_signed().min(now.config.latency_max())
    }
}

/// Charges `span` of CPU time to the running member.
#[inline(always)]
pub(crate) fn charge(tree: &mut Tree, member: Member, span: Nanos) {
    let Member { queue, at } = member;
    let entity = tree.entity_mut(at);
    entity.vruntime = entity.vruntime.after(entity.virtual_span(span.0));
    entity.ran += span.0;
    let vruntime = entity.vruntime;
    tree.queue_mut(queue).clock = clock_beside(tree, queue, Some(vruntime));
}

/// Inserts an entity among the waiting ones. A sensitive one goes first after a wake-up, and again
/// until it has run for its first `min_granularity`; not later.
#[inline(always)]
fn insert(tree: &mut Tree, now: Now, member: Member, woken: bool) {
    let Member { queue, at } = member;
    let Entity { vruntime, latency_nice, .. } = *tree.entity(at);
    tree.insert(queue, at, vruntime);
    if latency_nice < LatencyNice::ZERO {
        insert_sensitive(tree, now, member, woken);
    }
}

#[cold]
fn insert_sensitive(tree: &mut Tree, now: Now, member: Member, woken: bool) {
    let Member { queue, at } = member;
    let first = woken || tree.entity(at).ran < now.config.min_granularity.0;
    if first && now.config.features.has(Feature::LatencyNice) {
        tree.insert_urgent(queue, at, sensitive_key(now, tree.entity(at)));
    }
}

/// Returns where a newcomer starts on a queue's virtual clock (`place_entity`).
fn place(tree: &Tree, now: Now, member: Member, lag: &Lag) -> VTime {
    let Member { queue: id, at } = member;
    let (entity, queue) = (tree.entity(at), tree.queue(id));
    let new = |lead: u64| {
        let clock = queue.clock.after(entity.virtual_span(lead));
        if queue.nr_tasks == queue.nr_idle_tasks && !entity.idle {
            // The newcomer takes no time from a task of its class.
            return clock;
        }
        let debit = entity.virtual_span(slice(tree, now, member, Counted::Coming));
        clock.after(debit.min(most_debit(now, entity)))
    };
    let floor = || queue.clock.before(credit(now, entity.idle));
    place_by(lag, now.clock, (tree.name(id), queue.clock), (new, floor))
}

/// Returns where an entity starts, by its lag, on the virtual clock of the named queue. `new`
/// returns the place of an entity that was in no queue yet, from its lead. `floor` returns the
/// place of one that slept long.
#[inline(always)]
pub(crate) fn place_by(
    lag: &Lag,
    now: Time,
    (name, clock): (QueueName, VTime),
    (new, floor): (impl FnOnce(u64) -> VTime, impl FnOnce() -> VTime),
) -> VTime {
    match *lag {
        Lag::New { lead } => new(lead),
        Lag::Lent { vruntime, queue, .. } if queue == name => vruntime,
        Lag::Moving { lead } | Lag::Lent { lead, .. } => clock.after(lead.cast_unsigned()),
        // This variant exists only in EEVDF.
        Lag::Delayed { .. } => clock,
        Lag::Asleep { vruntime, queue, lead, since } => {
            let (floor, slept) = (floor(), now.since(since));
            if slept >= LONG_SLEEP {
                floor
            } else if queue == name {
                vruntime.max(floor)
            } else {
                clock.after(lead.saturating_sub_unsigned(slept.0).cast_unsigned()).max(floor)
            }
        }
    }
}

/// Returns the highest debit with which a newcomer of latency nice -20 preempts an equal that has
/// the clock's vruntime: a task that is started for a request must wait as little as one that is
/// woken for it. A sensitive newcomer owes no more than that. If its weight is so low that it would
/// not preempt in any case, it owes the full debit.
fn most_debit(now: Now, entity: &Entity) -> u64 {
    let heeded = now.config.features.has(Feature::LatencyNice);
    if entity.latency_nice >= LatencyNice::ZERO || !heeded {
        return u64::MAX;
    }
    let offset = now.config.latency_offset(LatencyNice::MIN).unsigned_abs();
    offset.checked_sub(wakeup_granularity(now, entity) + 1).unwrap_or(u64::MAX)
}

/// Returns where an entity that slept long starts on the clock of a queue.
pub(crate) fn credited(tree: &Tree, now: Now, id: QueueId, idle: bool) -> VTime {
    tree.queue(id).clock.before(credit(now, idle))
}

/// Returns how much of the virtual time that it slept a waking entity is credited (`place_entity`).
fn credit(now: Now, idle: bool) -> u64 {
    now.config.sleeper_credit(idle.then_some(Policy::Idle))
}

/// Advances the clock to the least vruntime among running and waiting members, never backwards.
#[inline]
fn advance_clock(tree: &mut Tree, id: QueueId) {
    let curr = tree.queue(id).curr.map(|at| tree.entity(at).vruntime);
    tree.queue_mut(id).clock = clock_beside(tree, id, curr);
}

/// Returns the clock of a queue whose running member has this vruntime.
#[inline]
pub(crate) fn clock_beside(tree: &Tree, id: QueueId, curr: Option<VTime>) -> VTime {
    let queue = tree.queue(id);
    let first = tree.heaps.least(id);
    let least = match (first, curr) {
        (Some(a), Some(b)) => a.min(b),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return queue.clock,
    };
    let outside = tree.outside.filter(|_| id == QueueId::ROOT);
    queue.clock.max(outside.map_or(least, |outside| least.min(outside)))
}

/// Returns whether the member that is next without it would not preempt a sensitive entity.
fn goes_before(
    tree: &Tree,
    now: Now,
    (sensitive, next): (Index, Index),
    yielded: Option<Index>,
) -> bool {
    let other = sensitive != next && !tree.is_above(sensitive, yielded);
    other && margin(now, tree.entity(sensitive), tree.entity(next)) != Margin::Preempts
}

/// Returns the second of the queue, if that is not unfair to the first, which yielded.
#[inline(never)]
fn instead_of(tree: &Tree, now: Now, id: QueueId, first: Index) -> Index {
    let Some(second) = tree.heaps.second(id) else { return first };
    let unfair = margin(now, tree.entity(second), tree.entity(first)) == Margin::Preempts;
    if unfair { first } else { second }
}

fn margin(now: Now, curr: &Entity, other: &Entity) -> Margin {
    let ahead = curr.vruntime.diff(other.vruntime);
    let granularity = wakeup_granularity(now, other).cast_signed();
    let (least, most) = match now.config.features.has(Feature::LatencyNice) {
        false => (0, granularity),
        true => {
            let offset = now.config.relative_offset(curr.latency_nice, other.latency_nice);
            // Without this cap an entity of low weight could never preempt: a sleeper is credited
            // no more.
            (offset, offset.saturating_add(granularity).min(now.config.latency_max()))
        }
    };
    match ahead {
        _ if ahead < least => Margin::Stays,
        _ if ahead > most => Margin::Preempts,
        _ => Margin::Tie,
    }
}

/// Returns the key of a sensitive entity in the second heap, by the offset of the current
/// configuration.
fn sensitive_key(now: Now, entity: &Entity) -> VTime {
    let Entity { vruntime, latency_nice, .. } = *entity;
    vruntime.after(now.config.latency_offset(latency_nice).cast_unsigned())
}

/// Whether the counts of the queues already include an entity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Queued,
    Coming,
}

/// Returns how long the entity may run in its turn (`sched_slice`).
fn slice(tree: &Tree, now: Now, member: Member, counted: Counted) -> u64 {
    let Member { queue: mut id, mut at } = member;
    let mut queued = counted == Counted::Queued;
    let tasks = u64::from(tree.root().nr_tasks + u32::from(!queued));
    let least = now.config.min_granularity.0;
    let mut slice = now.config.latency.0.max(tasks * least);
    loop {
        let weight = u64::from(tree.entity(at).weight);
        let queue = tree.queue(id);
        let load = queue.load + if queued { 0 } else { weight };
        slice = slice * weight / load.max(1);
        let Some(above) = queue.entity else { break };
        (id, at, queued) = (tree.entity(above).parent, above, tree.is_attached(above));
    }
    slice.max(least)
}

/// Returns how long an attached entity may run in its turn.
pub(crate) fn slice_of_queued(tree: &Tree, now: Now, member: Member) -> u64 {
    slice(tree, now, member, Counted::Queued)
}

/// Returns the time for which a tick leaves the CPU to a running entity, even beyond its slice
/// ([`Tree::least_turn`]): less for an entity of low weight, and none beside sensitive members.
#[inline]
fn least_turn(tree: &Tree, Member { queue, at }: Member) -> u64 {
    if tree.least_turn == Nanos::ZERO || tree.heaps.first_urgent(queue).is_some() {
        return 0;
    }
    tree.least_turn.0.min(tree.entity(at).real_span(tree.least_turn.0))
}

fn wakeup_granularity(now: Now, entity: &Entity) -> u64 {
    entity.virtual_span(now.config.wakeup_granularity.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Nice;
    use crate::cpu::CpuId;
    use crate::fair::Fair;
    use crate::topology::Topology;

    const MS: i64 = 1_000_000;

    fn ask(nice: i64, latency_nice: i64) -> Ask {
        let weight = Nice::new(nice).unwrap().weight().get();
        let latency_nice = LatencyNice::new(latency_nice).unwrap();
        Ask { weight, latency_nice, slice: None, idle: false }
    }

    fn eight() -> Config {
        Config::new(Topology::flat(8).unwrap())
    }

    /// Returns two leads of the running entity, for the nice and latency nice values of the woken
    /// and the running one: the lead at which it is preempted, and the least lead at which it may
    /// be.
    fn margins(config: &Config, woken: (i64, i64), curr: (i64, i64)) -> (i64, i64) {
        let entity = |(nice, latency_nice): (i64, i64), vruntime: i64| {
            let vruntime = VTime(1 << 40).after(vruntime.cast_unsigned());
            let entity = Entity::new(ask(nice, latency_nice), QueueId::ROOT);
            Entity { vruntime, ..entity }
        };
        let now = Now { clock: Time(0), config };
        let margin = |ahead| margin(now, &entity(curr, ahead), &entity(woken, 0));
        let first = |is: &dyn Fn(Margin) -> bool| {
            let (mut low, mut high) = (-100 * MS, 1_000 * MS);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if is(margin(middle)) { high = middle } else { low = middle }
            }
            high
        };
        (first(&|it| it == Margin::Preempts), first(&|it| it != Margin::Stays))
    }

    /// The examples of the founding patch set, on eight CPUs: the offset at -20 is -12 ms, the cap
    /// is 9 ms.
    #[test]
    fn a_wake_up_preempts_by_what_both_want() {
        let config = eight();
        let table = [
            ((0, 0), (0, 0), (4 * MS, 0), "as ever"),
            ((0, -20), (0, 0), (-8 * MS, -12 * MS), "even if it is 8 ms ahead"),
            ((0, 0), (0, -20), (9 * MS, 9 * MS), "the running task wants to wait less"),
            ((0, -20), (0, -20), (4 * MS, 0), "equals"),
            ((0, -20), (0, -10), (-2 * MS, -6 * MS), "by the difference"),
            ((0, 19), (0, 0), (9 * MS, 9 * MS), "the woken task can wait longer"),
            (
                (0, 10),
                (0, 19),
                (9 * MS, 6 * MS),
                "a running task that can wait even longer is not preempted sooner",
            ),
            ((0, 19), (0, -20), (9 * MS, 9 * MS), "never more than the cap"),
        ];
        for (woken, curr, (preempts, ties), why) in table {
            assert_eq!(margins(&config, woken, curr), (preempts + 1, ties), "{why}");
        }
    }

    /// A sleeper is credited 12 ms at most: an entity that needs more never preempts (patch 1).
    #[test]
    fn no_weight_keeps_a_sleeper_from_preempting() {
        let without = eight().features.without(Feature::LatencyNice);
        let (before, after) = (Config { features: without, ..eight() }, eight());
        for (nice, then, now) in [
            (-20, 46, 46),
            (0, 4_000, 4_000),
            (3, 7_787, 7_787),
            (5, 12_226, 9_000),
            (10, 37_236, 9_000),
            (19, 273_066, 9_000),
        ] {
            let micros = |config| margins(config, (nice, 0), (0, 0)).0 / 1_000;
            assert!((micros(&before) - then).abs() <= then / 50 + 1, "{nice}: {}", micros(&before));
            assert!((micros(&after) - now).abs() <= now / 50 + 1, "{nice}: {}", micros(&after));
        }
    }

    /// Returns whether the tick ends the turn of a task that ran 4 ms and is `ahead` of the first
    /// of the `others`, for their latency nice and its own.
    fn is_over(features: &str, (others, theirs): (u32, i64), ours: i64, ahead: i64) -> bool {
        let mut config = eight();
        features.split_whitespace().for_each(|it| config.features.set(it.parse().unwrap()));
        let mut fair = Fair::new(CpuId(0), false);
        fair.grow(16, 0);
        fair.open(16);
        let now = Now { clock: Time(0), config: &config };
        for (at, value) in (0..).zip([ours].into_iter().chain((0..others).map(|_| theirs))) {
            let member = Member { queue: QueueId::ROOT, at };
            fair.enqueue(now, &(), member, (ask(0, value), &Standing::new(0)));
            if at == 0 {
                assert_eq!(fair.pick(now, Before::default()), Some(0));
            }
        }
        let _ = fair.charge(now, 0, Nanos::from_millis(4));
        let first = fair.tree.heaps.first(QueueId::ROOT).unwrap();
        let vruntime = fair.tree.entity(first).vruntime.after(ahead.cast_unsigned());
        fair.tree.entity_mut(0).vruntime = vruntime;
        fair.turn_is_over(now, 0)
    }

    #[test]
    fn a_tick_ends_a_turn_by_what_both_want() {
        // With two tasks each has a slice of 12 ms; with eleven it has 3 ms.
        assert!(!is_over("", (1, 0), 0, 8 * MS) && is_over("", (1, 0), 0, 10 * MS));
        assert!(!is_over("NO_LATENCY_NICE", (1, 0), 0, 10 * MS), "no cap");
        // With five tasks the slice is 4.8 ms.
        assert!(is_over("", (4, 0), 0, 5 * MS) && !is_over("", (4, 0), -20, 5 * MS));
        assert!(!is_over("", (4, 0), -20, 8 * MS) && is_over("", (4, 0), -20, 10 * MS));
    }
}
