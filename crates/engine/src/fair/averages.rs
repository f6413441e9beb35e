//! The data of the running averages of a CPU: decaying sums for queues, for entities, and for tasks
//! that are in no queue. `pelt.rs` decides when they change.

use crate::cpu::CpuId;
use crate::fair::entity::{ByQueue, QueueId, QueueName};
use crate::fair::tree::{Queue, Tree};
use crate::group::Blocked;
use crate::store::column::Column;
use crate::store::decay::{Passed, full, period_of};
use crate::store::heap::Index;
use crate::time::Time;

/// The full scale of a utilization average and of a runnable average (`SCHED_CAPACITY_SCALE`).
pub(super) const SCALE: u64 = 1_024;

/// The averages of one CPU.
#[derive(Debug)]
pub(crate) struct Pelt {
    pub(super) entities: Column<EntityAverage>,
    pub(super) queues: ByQueue<QueueAverage>,
}

/// The rate at which the sums of a queue grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// The sum of the weights of its members.
    pub load: u64,
    /// The number of runnable tasks in it and below.
    pub runnable: u32,
    /// Whether a member runs.
    pub runs: bool,
}

/// The sums of a queue at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadSums {
    /// Weight times nanoseconds.
    pub load: u64,
    /// Tasks times nanoseconds.
    pub runnable: u64,
    /// Nanoseconds in which a member ran.
    pub util: u64,
    /// The instant.
    pub at: Time,
}

/// The averages of a CPU's fair tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadAverages {
    /// The average of the weights in the root queue (`load_avg`).
    pub load: u64,
    /// The average number of runnable tasks, times 1024 (`runnable_avg`).
    pub runnable: u64,
    /// The part of time in which a fair task ran; 1024 stands for all of it (`util_avg`).
    pub util: u64,
}

/// The averages of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskAverages {
    /// The part of the CPU's load average that the task adds: scaled by the averages of the groups
    /// above it (`task_h_load`).
    pub load: u64,
    /// The part of time in which the task ran; 1024 stands for all of it (`util_avg`).
    pub util: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueAverage {
    pub(super) sums: LoadSums,
    /// The signal since `sums.at`.
    pub(super) signal: Signal,
    /// The part of this queue in [`Blocked`], at the time when it was published.
    pub(super) blocked: u64,
    /// The time at which the load was last published.
    pub(super) published: Time,
}

/// The state of an entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub(crate) enum Doing {
    /// The entity is not in the queue.
    #[default]
    Away,
    /// The entity sleeps in its place.
    Delayed,
    Waits,
    Runs,
}

/// The average of an entity. Its sums are less than 2^26.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntityAverage {
    pub(super) load: u32,
    pub(super) runnable: u32,
    pub(super) util: u32,
    /// The state since `at`.
    pub(super) doing: Doing,
    pub(super) at: Time,
}

/// The average of a task that is in no fair queue, with the part of it that is still in one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(super) load: u32,
    pub(super) runnable: u32,
    pub(super) util: u32,
    /// The weight with which the task left its part there; 0 if it left none.
    pub(super) left: u32,
    pub(super) at: Time,
    pub(super) queue: QueueId,
    /// The load that the task would add to the load average of the CPU if it always ran.
    pub(super) most: u32,
    pub(super) name: QueueName,
}

impl Signal {
    pub(super) fn of(queue: &Queue) -> Signal {
        Signal { load: queue.load, runnable: queue.nr_tasks, runs: queue.curr.is_some() }
    }
}

impl LoadSums {
    /// Returns the sums at a later instant, if `signal` held meanwhile. An earlier instant changes
    /// nothing.
    #[inline]
    #[must_use]
    pub fn aged(self, now: Time, signal: Signal) -> LoadSums {
        if now <= self.at {
            return self;
        }
        if period_of(now) != period_of(self.at) {
            return self.aged_over_periods(now, signal);
        }
        let span = now.0 - self.at.0;
        LoadSums {
            load: self.load + signal.load * span,
            runnable: self.runnable + u64::from(signal.runnable) * span,
            util: self.util + u64::from(signal.runs) * span,
            at: now,
        }
    }

    #[inline(never)]
    pub(super) fn aged_over_periods(self, now: Time, signal: Signal) -> LoadSums {
        let passed = Passed::between(self.at, now);
        LoadSums {
            load: passed.age(self.load, signal.load),
            runnable: passed.age(self.runnable, signal.runnable.into()),
            util: passed.age(self.util, signal.runs.into()),
            at: now,
        }
    }

    /// Returns the averages at the instant of the sums.
    #[must_use]
    pub fn averages(self) -> LoadAverages {
        let full = full(self.at);
        let of_scale = |sum: u64| sum * SCALE / full;
        LoadAverages {
            load: self.load / full,
            runnable: of_scale(self.runnable),
            util: of_scale(self.util),
        }
    }

    pub(super) fn add(&mut self, runnable: u32, util: u32) {
        self.runnable += u64::from(runnable);
        self.util += u64::from(util);
    }

    pub(super) fn subtract(&mut self, runnable: u32, util: u32) {
        self.runnable = self.runnable.saturating_sub(runnable.into());
        self.util = self.util.saturating_sub(util.into());
    }
}

impl QueueAverage {
    #[inline]
    pub(super) fn age(&mut self, now: Time) {
        self.sums = self.sums.aged(now, self.signal);
    }

    #[inline]
    pub(super) fn turn(&mut self, now: Time, signal: Signal) {
        self.age(now);
        self.signal = signal;
    }

    pub(super) fn load(&self) -> u64 {
        self.sums.load / full(self.sums.at)
    }

    /// Returns the load as a part of [`Blocked`].
    pub(super) fn load_to_block(&self) -> u64 {
        self.sums.load / (full(self.sums.at) >> Blocked::FRACTION_BITS)
    }

    /// Returns the rest of the queue's part of [`Blocked`].
    pub(super) fn blocked(&self, now: Time) -> u64 {
        Blocked::new(self.blocked, period_of(self.published)).at(period_of(now)).get()
    }
}

impl EntityAverage {
    #[inline]
    pub(super) fn age(&mut self, now: Time) {
        if now <= self.at {
            return;
        }
        if period_of(now) != period_of(self.at) {
            return self.age_over_periods(now);
        }
        let span = (now.0 - self.at.0) as u32;
        let [load, runnable, util] = self.doing.signals();
        self.load += span * u32::from(load);
        self.runnable += span * u32::from(runnable);
        self.util += span * u32::from(util);
        self.at = now;
    }

    #[inline(never)]
    pub(super) fn age_over_periods(&mut self, now: Time) {
        let passed = Passed::between(self.at, now);
        let [load, runnable, util] = self.doing.signals();
        let aged = |sum: u32, signal: bool| passed.age(sum.into(), signal.into()) as u32;
        self.load = aged(self.load, load);
        self.runnable = aged(self.runnable, runnable);
        self.util = aged(self.util, util);
        self.at = now;
    }

    #[inline]
    pub(super) fn turn(&mut self, now: Time, doing: Doing) {
        self.age(now);
        self.doing = doing;
    }

    /// Limits the average to this instant: the clock of the CPU that it comes from may have been
    /// ahead.
    pub(super) fn no_later_than(self, now: Time) -> EntityAverage {
        if self.at <= now {
            return self;
        }
        let [load, runnable, util] =
            [self.load, self.runnable, self.util].map(|sum| sum.min(full(now) as u32));
        EntityAverage { load, runnable, util, at: now, ..self }
    }

    /// Returns the part of `most` that equals the part of time in which the entity was queued.
    pub(super) fn load_of(&self, most: u64) -> u64 {
        most * u64::from(self.load) / full(self.at)
    }

    pub(super) fn util(&self) -> u64 {
        u64::from(self.util) * SCALE / full(self.at)
    }
}

impl Doing {
    /// Returns which of load, runnable and util grow.
    #[inline]
    pub(super) fn signals(self) -> [bool; 3] {
        [self >= Doing::Delayed, self >= Doing::Waits, self == Doing::Runs]
    }
}

impl Carried {
    pub(super) fn of(average: EntityAverage, (name, queue): (QueueName, QueueId)) -> Carried {
        let EntityAverage { load, runnable, util, at, .. } = average;
        Carried { load, runnable, util, at, left: 0, queue, most: 0, name }
    }

    /// Returns the CPU where the task's part still is.
    pub(crate) fn left_on(&self) -> Option<CpuId> {
        (self.left > 0).then_some(self.name.cpu)
    }

    /// Returns the averages of a task that has been in no queue since.
    pub(crate) fn averages(&self, now: Time) -> TaskAverages {
        let average = self.aged(now);
        TaskAverages { load: average.load_of(self.most.into()), util: average.util() }
    }

    pub(super) fn aged(&self, now: Time) -> EntityAverage {
        let Carried { load, runnable, util, at, .. } = *self;
        let mut average = EntityAverage { load, runnable, util, at, doing: Doing::Away };
        average.age(now);
        average
    }
}

impl Pelt {
    pub(super) fn new() -> Pelt {
        let (entities, queues) = (Column::default(), ByQueue::new(QueueAverage::default()));
        Pelt { entities, queues }
    }

    /// Adds the part of a task to the queues from its own up to the root queue. The group entities
    /// may not include it yet.
    pub(super) fn add(&mut self, tree: &Tree, now: Time, part: &Carried) {
        let Carried { load, runnable, util, left, queue, .. } = *part;
        let most = full(now) as u32;
        let first = &mut self.queues[queue];
        first.age(now);
        first.sums.load += u64::from(left) * u64::from(load);
        first.sums.add(runnable, util);
        let mut next = tree.queue(queue).entity;
        while let Some(at) = next {
            let above = self.entity_above(tree, now, at);
            let (entity, queue) = above;
            let was = entity.load;
            // A member that is full at the end of a period is more than full at the start of the
            // next.
            entity.load = (was + load).min(most.max(was));
            entity.util = (entity.util + util).min(most.max(entity.util));
            let weight = u64::from(tree.entity(at).weight);
            queue.sums.load += weight * u64::from(entity.load - was);
            queue.sums.add(runnable, util);
            next = tree.above(at);
        }
    }

    /// The opposite of [`Pelt::add`]. If the task is `queued`, its weight is still in the load of
    /// its queue.
    pub(super) fn subtract(&mut self, tree: &Tree, now: Time, part: &Carried, queued: bool) {
        let Carried { load, runnable, util, left, queue: mut id, .. } = *part;
        let first = &mut self.queues[id];
        first.age(now);
        first.sums.load = first.sums.load.saturating_sub(u64::from(left) * u64::from(load));
        first.sums.subtract(runnable, util);
        let mut leaves = if queued { u64::from(left) } else { 0 };
        while let Some(at) = tree.queue(id).entity {
            // The estimate assumes that all members were queued for equally long.
            let others = tree.queue(id).load - leaves;
            let estimate = self.queues[id].sums.load.checked_div(others).unwrap_or(0);
            let (entity, queue) = self.entity_above(tree, now, at);
            let was = entity.load;
            entity.util = entity.util.saturating_sub(util);
            entity.load = estimate.min(was.into()).max(entity.util.into()).min(was.into()) as u32;
            let goes = u64::from(tree.entity(at).weight) * u64::from(was - entity.load);
            queue.sums.load = queue.sums.load.saturating_sub(goes);
            queue.sums.subtract(runnable, util);
            (id, leaves) = (tree.entity(at).parent, 0);
        }
    }

    /// Returns the averages of a group's entity and of the queue that it competes in.
    pub(super) fn entity_above(
        &mut self,
        tree: &Tree,
        now: Time,
        at: Index,
    ) -> (&mut EntityAverage, &mut QueueAverage) {
        let (entity, queue) = (&mut self.entities[at], &mut self.queues[tree.entity(at).parent]);
        entity.age(now);
        queue.age(now);
        (entity, queue)
    }

    /// Returns the load that an entity would add to the load average of the CPU if it were always
    /// queued (`update_cfs_rq_h_load`).
    pub(super) fn most_of(&self, tree: &Tree, now: Time, at: Index) -> u64 {
        let mut most = u64::from(tree.entity(at).weight);
        let mut next = tree.above(at);
        while let Some(at) = next {
            let (mut entity, mut queue) = (self.entities[at], self.queues[tree.entity(at).own]);
            entity.age(now);
            queue.age(now);
            most = most * entity.load_of(tree.entity(at).weight.into()) / (queue.load() + 1);
            next = tree.above(at);
        }
        most
    }

    /// Returns the average of a new task: as if it had always been in its queue, and had run for a
    /// share of half of the remaining time (`post_init_entity_util_avg`).
    pub(super) fn of_new(&self, now: Time, id: QueueId, name: QueueName, weight: u32) -> Carried {
        let mut queue = self.queues[id];
        queue.age(now);
        let LoadAverages { load, util, .. } = queue.sums.averages();
        let most = SCALE.saturating_sub(util) / 2;
        let util = if util == 0 { most } else { (util * u64::from(weight) / (load + 1)).min(most) };
        let util = (util * full(now) / SCALE) as u32;
        let average = EntityAverage {
            load: full(now) as u32,
            runnable: util,
            util,
            doing: Doing::Away,
            at: now,
        };
        Carried::of(average, (name, id))
    }
}
