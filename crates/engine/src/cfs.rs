//! The order of a fair queue in CFS as of Linux 6.1, with latency nice as in the founding document
//! (patch set v12, Feb 2023).
//!
//! The member with the smallest vruntime is next. A sleeper that wakes on the queue it left is placed
//! as in the kernel, by its absolute vruntime; one that wakes elsewhere is placed by the distance it
//! had, less the time it slept. The kernel reads the old queue's clock for that, which may by then
//! have advanced less than time; both answers lie between the credit behind the clock and the
//! distance it had, which is about a slice at the most.
//!
//! Latency nice moves the margins of preemption by an *offset*, which is never kept but made of the
//! configuration of the moment. Who has a negative one is *sensitive*, and for one
//! `min_granularity` after a wake-up stands in a second heap, by vruntime and offset: it goes before
//! the first of the queue if it would not be preempted by it. A crowd of them could keep that one from
//! the CPU for ever, since each newcomer starts near the clock. So the first is passed over for one
//! `latency` at the most, and then has a `min_granularity` that no wake-up takes from it.
//!
//! Invariants: a queue's clock never runs back; in the second heap is nobody who is not sensitive.

use crate::attr::{LatencyNice, Policy, Weight};
use crate::fair::{Entity, Lag};
use crate::features::Feature;
use crate::group::Groups;
use crate::heap::Index;
use crate::run_queue::RunQueue;
use crate::task::Task;
use crate::time::{Nanos, Time, VTime};

/// A sleep after which the signed difference of two virtual times may have wrapped.
const LONG_SLEEP: Nanos = Nanos((1 << 63) / 1024);

/// What the vruntimes of who runs and who came say of a preemption (`wakeup_preempt_entity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Who runs is not ahead of who came, by what they want of each other.
    Stays,
    /// It is, but not by the wake-up granularity.
    Tie,
    Preempts,
}

impl<P, G: Groups> RunQueue<P, G> {
    /// Where a newcomer starts on a queue's virtual clock (`place_entity`).
    pub(crate) fn place(&self, level: Option<Index>, at: Index, lag: Lag) -> VTime {
        let clock = self.queue(level).clock;
        match lag {
            Lag::New { lead } => {
                let (entity, queue) = (self.entity(at), self.queue(level));
                let clock = clock.after(entity.virtual_span(lead));
                if queue.nr_tasks == queue.nr_idle_tasks && !self.is_idle_entity(at) {
                    // Nobody is here whom it would rob of anything.
                    return clock;
                }
                let debit = entity.virtual_span(self.slice(level, entity, 1));
                clock.after(debit.min(self.most_debit(entity)))
            }
            Lag::Moving { lead } => clock.after(lead.cast_unsigned()),
            Lag::Asleep { vruntime, queue, lead, since } => {
                let floor = clock.before(self.credit(self.is_idle_entity(at)));
                let slept = self.clock.since(since);
                if slept >= LONG_SLEEP {
                    floor
                } else if queue == self.queue_name(level) {
                    vruntime.max(floor)
                } else {
                    clock.after(lead.saturating_sub_unsigned(slept.0).cast_unsigned()).max(floor)
                }
            }
        }
    }

    /// With how much debit at the most a newcomer of latency nice -20 preempts an equal that has the
    /// clock's vruntime: one that is started for a request shall wait as little as one that is woken for
    /// it. Whoever is sensitive owes no more; who weighs so little that it would not preempt anyhow owes
    /// as all do.
    fn most_debit(&self, entity: &Entity) -> u64 {
        if entity.latency_nice >= LatencyNice::ZERO || !self.has(Feature::LatencyNice) {
            return u64::MAX;
        }
        let offset = self.config.latency_offset(LatencyNice::MIN).unsigned_abs();
        offset.checked_sub(self.wakeup_granularity(entity) + 1).unwrap_or(u64::MAX)
    }

    /// A latency-sensitive task is forked by who runs here, and owes what that is ahead of the clock besides
    /// its own debit. Else a chain of tasks, each of which forks the next, would owe no more than its last.
    ///
    /// The kernel's newcomers owe the one or the other, whichever is more (`task_fork_fair`), and no less
    /// debit where they are sensitive.
    pub fn fork(&self, now: Time, child: &mut Task<P>) {
        if self.is_eevdf() || !self.has(Feature::LatencyNice) {
            return;
        }
        let parent = self.curr.filter(|&curr| self.task(curr).rt_prio().is_none());
        let Some(at) = parent else { return };
        if self.task(at).queue_group() == child.queue_group() {
            let entity = self.entity(at);
            let uncharged = entity.virtual_span(now.since(self.charged).0);
            let vruntime = entity.vruntime.after(uncharged);
            let clock = self.clock_beside(entity.parent, Some(vruntime));
            let lead = u128::from(vruntime.diff(clock).max(0).cast_unsigned());
            let work = lead * u128::from(entity.weight) / u128::from(Weight::NICE_0.get());
            child.lag = Lag::New { lead: work as u64 };
        }
    }

    /// Where a group that slept long starts on the clock of a queue.
    pub(crate) fn credited(&self, level: Option<Index>, group: crate::attr::GroupId) -> VTime {
        self.queue(level).clock.before(self.credit(self.groups.is_idle(group)))
    }

    /// How much of the virtual time it slept a waking entity is credited (`place_entity`).
    fn credit(&self, idle: bool) -> u64 {
        self.config.sleeper_credit(idle.then_some(Policy::Idle))
    }

    /// The clock follows the least vruntime among running and waiting members, never backwards.
    pub(crate) fn advance_clock(&mut self, level: Option<Index>) {
        let curr = self.queue(level).curr.map(|at| self.entity(at).vruntime);
        self.queue_mut(level).clock = self.clock_beside(level, curr);
    }

    /// The clock of a queue whose running member has this vruntime.
    fn clock_beside(&self, level: Option<Index>, curr: Option<VTime>) -> VTime {
        let queue = self.queue(level);
        let first = queue.waiting.first().map(|at| self.fair.forest.key(at).0);
        let least = match (first, curr) {
            (Some(a), Some(b)) => a.min(b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return queue.clock,
        };
        queue.clock.max(least)
    }

    /// Who is next: the first, unless it yielded, or a sensitive one that it would not preempt
    /// (`pick_next_entity`), unless it was passed over for such for too long.
    pub(crate) fn choose_cfs(&mut self, level: Option<Index>, yielded: Option<Index>) -> Index {
        let queue = self.queue(level);
        let first = queue.waiting.first().expect("a queue that is picked from has members");
        let chosen = match self.is_above(first, yielded) {
            true => self.instead_of(level, first),
            false => first,
        };
        let (since, owed) = (queue.passed_over, queue.owed);
        let sensitive = queue.urgent.first().filter(|&at| self.goes_before(at, chosen, yielded));
        if (since, owed, sensitive) == (None, None, None) {
            return chosen;
        }
        let now = self.clock;
        let overdue = since.is_some_and(|since| now.since(since) >= self.config.latency);
        let sensitive = sensitive.filter(|_| !overdue);
        // One that is both sensitive and first takes nothing from others, and ends nothing.
        let is_sensitive = self.fair.urgent_forest.contains(chosen);
        let queue = self.queue_mut(level);
        // Until it has had its turn: a sliver now and then, where none of them waits, is none.
        queue.passed_over = match sensitive {
            Some(_) => since.or(Some(now)),
            None => since.filter(|_| !overdue || is_sensitive),
        };
        queue.owed = Some(chosen).filter(|_| overdue && !is_sensitive);
        sensitive.unwrap_or(chosen)
    }

    /// Whether a sensitive entity is not preempted by the one that is next without it.
    fn goes_before(&self, sensitive: Index, next: Index, yielded: Option<Index>) -> bool {
        let other = sensitive != next && !self.is_above(sensitive, yielded);
        other && self.verdict(self.entity(sensitive), self.entity(next)) != Verdict::Preempts
    }

    /// The second of the queue, if it is not unfair to the first, which yielded.
    fn instead_of(&self, level: Option<Index>, first: Index) -> Index {
        let Some(second) = self.fair.forest.second(&self.queue(level).waiting) else {
            return first;
        };
        let unfair = self.verdict(self.entity(second), self.entity(first)) == Verdict::Preempts;
        if unfair { first } else { second }
    }

    /// Whether a woken entity preempts the one that runs (`wakeup_preempt_entity`). One that is hardly
    /// ahead is let go on, so that it gets something done between two switches; but not an
    /// [exhausted](RunQueue::is_exhausted) group.
    pub(crate) fn preempts_cfs(&self, curr: Index, woken: Index) -> bool {
        let (entity, least) = (self.entity(curr), self.config.min_granularity.0);
        let owed = self.queue(entity.parent).owed == Some(curr);
        let preempts = match self.verdict(entity, self.entity(woken)) {
            Verdict::Preempts => true,
            Verdict::Tie => self.is_exhausted(curr),
            Verdict::Stays => false,
        };
        preempts && !(owed && entity.ran_since_pick() < least)
    }

    fn verdict(&self, curr: &Entity, other: &Entity) -> Verdict {
        let ahead = curr.vruntime.diff(other.vruntime);
        let granularity = self.wakeup_granularity(other).cast_signed();
        let (least, most) = match self.has(Feature::LatencyNice) {
            false => (0, granularity),
            true => {
                let offset = self.relative_offset(curr, other);
                // Else who is of little weight could never preempt: a sleeper is credited no more.
                (offset, offset.saturating_add(granularity).min(self.config.latency_max()))
            }
        };
        match ahead {
            _ if ahead < least => Verdict::Stays,
            _ if ahead > most => Verdict::Preempts,
            _ => Verdict::Tie,
        }
    }

    /// By how much more the running entity may be ahead of the other, or must be less. Two that can
    /// wait are not compared: none shall preempt the other because that cares even less.
    fn relative_offset(&self, curr: &Entity, other: &Entity) -> i64 {
        let zero = LatencyNice::ZERO;
        let (ours, theirs) = (other.latency_nice, curr.latency_nice);
        if ours == zero && theirs >= zero {
            return 0;
        }
        let mut offset = self.config.latency_offset(ours);
        if ours < zero || theirs < zero {
            offset -= self.config.latency_offset(theirs);
        }
        offset.min(self.config.latency_max())
    }

    /// Whether the tick ends the turn of the running entity (`check_preempt_tick`).
    pub(crate) fn turn_is_over(&self, at: Index) -> bool {
        let entity = self.entity(at);
        let slice = self.slice(entity.parent, entity, 0);
        let ran = entity.ran_since_pick();
        if ran > slice {
            return true;
        }
        if ran < self.config.min_granularity.0 {
            return false;
        }
        let queue = self.queue(entity.parent);
        let Some(first) = queue.waiting.first() else { return false };
        // Who came while nobody was to preempt it.
        let refused = queue.urgent.first().filter(|_| queue.owed == Some(at));
        if refused.is_some_and(|sensitive| self.goes_before(sensitive, at, None)) {
            return true;
        }
        let first = self.entity(first);
        let ahead = entity.vruntime.diff(first.vruntime);
        if !self.has(Feature::LatencyNice) {
            return ahead > slice.cast_signed();
        }
        ahead >= self.relative_offset(entity, first)
            && ahead > slice.cast_signed().min(self.config.latency_max())
    }

    /// Whoever has the CPU at a tick has had its turn if it is not sensitive and ran for long enough:
    /// nobody is passed over then.
    pub(crate) fn note_turn(&mut self, at: Index) {
        let entity = self.entity(at);
        let served = entity.latency_nice >= LatencyNice::ZERO
            && entity.ran_since_pick() >= self.config.min_granularity.0;
        let level = entity.parent;
        if served && self.queue(level).passed_over.is_some() {
            self.queue_mut(level).passed_over = None;
        }
    }

    /// A sensitive entity goes first after a wake-up, and again if it had not a first
    /// `min_granularity` then: not in whatever it does later.
    #[cold]
    pub(crate) fn insert_sensitive(&mut self, level: Option<Index>, at: Index, woken: bool) {
        let entity = self.entity(at);
        let first = woken || entity.ran_since_pick() < self.config.min_granularity.0;
        if first && self.has(Feature::LatencyNice) {
            self.insert_urgent(level, at, self.sensitive_key(at));
        }
    }

    /// Where a sensitive entity stands among those, by the offset of the configuration of the moment.
    pub(crate) fn sensitive_key(&self, at: Index) -> VTime {
        let Entity { vruntime, latency_nice, .. } = *self.entity(at);
        vruntime.after(self.config.latency_offset(latency_nice).cast_unsigned())
    }

    /// Puts the sensitive ones where the offsets of another configuration have them.
    pub(crate) fn renew_offsets(&mut self) {
        let members = self.members.iter().map(|(at, _)| at);
        let sensitive: Vec<_> =
            members.filter(|&at| self.fair.urgent_forest.contains(at)).collect();
        for at in sensitive {
            let level = self.entity(at).parent;
            self.remove_urgent(level, at);
            self.insert_urgent(level, at, self.sensitive_key(at));
        }
    }

    /// How long the entity may run in its turn (`sched_slice`), with `more` tasks than there are.
    fn slice(&self, level: Option<Index>, entity: &Entity, more: u32) -> u64 {
        let tasks = u64::from(self.fair.root.nr_tasks + more);
        let least = self.config.min_granularity.0;
        let period = self.config.latency.0.max(tasks * least);
        let mut slice = period;
        let (mut level, mut weight, mut queued) = (level, u64::from(entity.weight), more == 0);
        loop {
            let load = self.queue(level).load + if queued { 0 } else { weight };
            slice = slice * weight / load.max(1);
            let Some(above) = level else { break };
            let entity = self.entity(above);
            (level, weight, queued) =
                (entity.parent, u64::from(entity.weight), self.is_attached(above));
        }
        slice.max(least)
    }

    fn wakeup_granularity(&self, entity: &Entity) -> u64 {
        entity.virtual_span(self.config.wakeup_granularity.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Attr, Nice, Weight};
    use crate::config::Config;
    use crate::cpu::{CpuId, CpuSet};
    use crate::run_queue::{Enqueue, Prev};
    use crate::task::{Task, TaskId};
    use crate::time::Time;
    use crate::topology::Topology;
    use std::sync::Arc;

    const MS: i64 = 1_000_000;

    fn queue(config: Config) -> RunQueue<(), ()> {
        RunQueue::new(CpuId(0), Arc::new(config), Arc::new(()))
    }

    fn eight() -> Config {
        Config::new(Topology::flat(8).unwrap())
    }

    /// How far the running entity must be ahead to be preempted, and at least not to stay for sure,
    /// as nice and latency nice values have it.
    fn margins(rq: &RunQueue<(), ()>, woken: (i64, i64), curr: (i64, i64)) -> (i64, i64) {
        let entity = |(nice, latency_nice): (i64, i64), vruntime: i64| {
            let weight: Weight = Nice::new(nice).unwrap().weight();
            let latency_nice = LatencyNice::new(latency_nice).unwrap();
            let vruntime = VTime(1 << 40).after(vruntime.cast_unsigned());
            let mut entity = Entity::new(weight, latency_nice);
            entity.vruntime = vruntime;
            entity
        };
        let verdict = |ahead| rq.verdict(&entity(curr, ahead), &entity(woken, 0));
        let first = |is: &dyn Fn(Verdict) -> bool| {
            let (mut low, mut high) = (-100 * MS, 1_000 * MS);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if is(verdict(middle)) { high = middle } else { low = middle }
            }
            high
        };
        (first(&|it| it == Verdict::Preempts), first(&|it| it != Verdict::Stays))
    }

    /// The examples of the founding patch set, on eight CPUs: the offset at -20 is -12 ms, the cap 9.
    #[test]
    fn a_wake_up_preempts_by_what_both_want() {
        let rq = queue(eight());
        let table = [
            ((0, 0), (0, 0), (4 * MS, 0), "as ever"),
            ((0, -20), (0, 0), (-8 * MS, -12 * MS), "even if it is 8 ms ahead"),
            ((0, 0), (0, -20), (9 * MS, 9 * MS), "it can wait longer"),
            ((0, -20), (0, -20), (4 * MS, 0), "equals"),
            ((0, -20), (0, -10), (-2 * MS, -6 * MS), "by the difference"),
            ((0, 19), (0, 0), (9 * MS, 9 * MS), "it cares less"),
            ((0, 10), (0, 19), (9 * MS, 6 * MS), "who cares even less makes no way for it"),
            ((0, 19), (0, -20), (9 * MS, 9 * MS), "never more than the cap"),
        ];
        for (woken, curr, (preempts, ties), why) in table {
            assert_eq!(margins(&rq, woken, curr), (preempts + 1, ties), "{why}");
        }
    }

    /// A sleeper is credited 12 ms at the most: who needs more never preempts (patch 1).
    #[test]
    fn no_weight_keeps_a_sleeper_from_preempting() {
        let before =
            queue(Config { features: eight().features.without(Feature::LatencyNice), ..eight() });
        let after = queue(eight());
        for (nice, then, now) in [
            (-20, 46, 46),
            (0, 4_000, 4_000),
            (3, 7_787, 7_787),
            (5, 12_226, 9_000),
            (10, 37_236, 9_000),
            (19, 273_066, 9_000),
        ] {
            let micros = |rq| margins(rq, (nice, 0), (0, 0)).0 / 1_000;
            assert!((micros(&before) - then).abs() <= then / 50 + 1, "{nice}: {}", micros(&before));
            assert!((micros(&after) - now).abs() <= now / 50 + 1, "{nice}: {}", micros(&after));
        }
    }

    /// Whether the tick ends the turn of a task that ran 4 ms and is so far ahead of the first of
    /// `others`; theirs and its latency nice.
    fn is_over(features: &str, (others, theirs): (u32, i64), ours: i64, ahead: i64) -> bool {
        let mut config = eight();
        features.split_whitespace().for_each(|it| config.features.set(it.parse().unwrap()));
        let mut rq = queue(config);
        for (id, value) in (0..).zip([ours].into_iter().chain((0..others).map(|_| theirs))) {
            let latency_nice = LatencyNice::new(value).unwrap();
            let attr = Attr { latency_nice, ..Attr::normal(CpuSet::first(1)) };
            let task = Task::new(TaskId(id), attr, ());
            assert!(rq.offer(Time(0), task, Enqueue::Woken).is_ok());
            if id == 0 {
                let _ = rq.schedule(Time(0), Prev::Idle);
            }
        }
        rq.advance(Time(4_000_000));
        let (curr, first) = (rq.curr.unwrap(), rq.queue(None).waiting.first().unwrap());
        let vruntime = rq.entity(first).vruntime.after(ahead.cast_unsigned());
        rq.entity_mut(curr).vruntime = vruntime;
        rq.turn_is_over(curr)
    }

    #[test]
    fn a_tick_ends_a_turn_by_what_both_want() {
        // Of two each has a slice of 12 ms; of eleven, 3 ms, which it had then.
        assert!(!is_over("", (1, 0), 0, 8 * MS) && is_over("", (1, 0), 0, 10 * MS));
        assert!(!is_over("NO_LATENCY_NICE", (1, 0), 0, 10 * MS), "no cap");
        // Of five, 4.8 ms.
        assert!(is_over("", (4, 0), 0, 5 * MS) && !is_over("", (4, 0), -20, 5 * MS));
        assert!(!is_over("", (4, 0), -20, 8 * MS) && is_over("", (4, 0), -20, 10 * MS));
    }
}
