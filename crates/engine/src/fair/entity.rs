//! The entities that compete in a fair queue, and the state that they keep while they are in none.

use crate::attr::{LatencyNice, Slice, Weight};
use crate::config::Config;
use crate::cpu::CpuId;
use crate::store::heap::Index;
use crate::time::{Time, VTime};
use std::ops;

/// The instant of a call, and the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    /// The clock of the run queue.
    pub(crate) clock: Time,
    pub(crate) config: &'a Config,
}

/// One fair queue of a CPU: the root's, or that of a task group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId(u32);

impl QueueId {
    /// The queue of the root group. It has no entity.
    pub(crate) const ROOT: QueueId = QueueId(0);

    pub(crate) fn at(index: usize) -> QueueId {
        QueueId(index as u32)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns its number, for a heap of queues.
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the queue of a number from [`QueueId::to_bits`].
    pub(crate) fn from_bits(bits: u32) -> QueueId {
        QueueId(bits)
    }
}

/// One value for each queue of a CPU. The value of the root queue is stored in place, not behind a
/// pointer: most tasks are members of no other queue.
#[derive(Debug, Default)]
pub(crate) struct ByQueue<T> {
    root: T,
    groups: Vec<T>,
}

impl<T> ByQueue<T> {
    pub(crate) fn new(root: T) -> ByQueue<T> {
        ByQueue { root, groups: Vec::new() }
    }

    /// Returns the number of queues that have a value.
    pub(crate) fn len(&self) -> usize {
        1 + self.groups.len()
    }

    /// Adds the value of the next queue. Allocates.
    pub(crate) fn push(&mut self, it: T) {
        self.groups.push(it);
    }

    /// Makes room for the first `queues` of them. Allocates.
    pub(crate) fn grow(&mut self, queues: usize, it: impl FnMut() -> T) {
        self.groups.resize_with(queues.saturating_sub(1).max(self.groups.len()), it);
    }
}

impl<T> ops::Index<QueueId> for ByQueue<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: QueueId) -> &T {
        match id {
            QueueId::ROOT => &self.root,
            QueueId(nth) => &self.groups[nth as usize - 1],
        }
    }
}

impl<T> ops::IndexMut<QueueId> for ByQueue<T> {
    #[inline]
    fn index_mut(&mut self, id: QueueId) -> &mut T {
        match id {
            QueueId::ROOT => &mut self.root,
            QueueId(nth) => &mut self.groups[nth as usize - 1],
        }
    }
}

/// The request of a task, or the attributes of its group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) weight: u32,
    pub(crate) latency_nice: LatencyNice,
    /// The requested slice of a task; `None` if its latency nice determines the slice.
    pub(crate) slice: Option<Slice>,
    /// Whether it makes way for every other entity (`se_is_idle`): a SCHED_IDLE task or an idle
    /// group.
    pub(crate) idle: bool,
}

/// A task, or a group that has a queue on this CPU, as a competitor in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entity {
    /// CPU time that it had, divided by its weight. For a task it has a meaning only in a queue.
    pub(crate) vruntime: VTime,
    /// CPU time since it was last picked (CFS).
    pub(crate) ran: u64,
    pub(crate) weight: u32,
    /// The queue that it competes in.
    pub(crate) parent: QueueId,
    /// The queue of its group; the root queue for a task.
    pub(crate) own: QueueId,
    pub(crate) latency_nice: LatencyNice,
    /// See [`Ask::idle`].
    pub(crate) idle: bool,
    /// Whether it sleeps in its place (`sched_delayed`, [`super::ghosts`]).
    pub(crate) delayed: bool,
    /// Whether it is a task in limbo ([`super::limbo`]).
    pub(crate) in_limbo: bool,
}

impl Entity {
    /// The value of an unused index.
    pub(crate) const NONE: Entity = Entity {
        vruntime: VTime(0),
        ran: 0,
        weight: 0,
        parent: QueueId::ROOT,
        own: QueueId::ROOT,
        latency_nice: LatencyNice::ZERO,
        idle: false,
        delayed: false,
        in_limbo: false,
    };

    pub(crate) fn new(ask: Ask, parent: QueueId) -> Entity {
        let Ask { weight, latency_nice, idle, .. } = ask;
        Entity { weight, parent, latency_nice, idle, ..Entity::NONE }
    }

    pub(crate) fn is_task(&self) -> bool {
        self.own == QueueId::ROOT
    }

    /// Returns the growth of its vruntime while it runs for `span`.
    #[inline]
    pub(crate) fn virtual_span(&self, span: u64) -> u64 {
        virtual_span(self.weight, span)
    }

    /// Returns how long it runs until its vruntime has grown by `span`.
    pub(crate) fn real_span(&self, span: u64) -> u64 {
        let real = u128::from(span) * u128::from(self.weight) / u128::from(Weight::NICE_0.get());
        real.try_into().unwrap_or(u64::MAX)
    }
}

/// Returns the growth of the vruntime of an entity of this weight while it runs for `span`.
#[inline]
pub(crate) fn virtual_span(weight: u32, span: u64) -> u64 {
    const UNIT: u32 = Weight::NICE_0.get();
    if weight == UNIT { span } else { span.saturating_mul(u64::from(UNIT)) / u64::from(weight) }
}

/// The place of an entity while it is in no queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lag {
    /// It never ran. The lead is the CPU time by which the task that forked it was ahead of the
    /// clock.
    New { lead: u64 },
    /// It left to sleep. The lead is that of [`Lag::Moving`].
    Asleep { vruntime: VTime, queue: QueueName, lead: i64, since: Time },
    /// It sleeps in its place, and its ghost is at this index of the CPU ([`super::ghosts`]).
    Delayed { ghost: Index, queue: QueueName },
    /// It is on its way to another queue. The lead is its distance ahead of the clock of the queue
    /// that it left: in CFS virtual time; in EEVDF the CPU time that it owes, which does not depend
    /// on its weight.
    Moving { lead: i64 },
    /// It is lent to the host, beside the task that runs in that queue, and returns there soon. The
    /// lead is that of [`Lag::Moving`].
    Lent { vruntime: VTime, queue: QueueName, lead: i64 },
}

impl Lag {
    /// Returns the lag of an entity that left this queue to sleep and owes nothing.
    pub(crate) const fn slept_off(queue: QueueName) -> Lag {
        Lag::Asleep { vruntime: VTime(0), queue, lead: 0, since: Time::ZERO }
    }
}

/// The state that an entity takes along from one queue to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) lag: Lag,
    /// State of the order. CFS: the CPU time since the last pick. EEVDF: the virtual time from its
    /// place to its deadline when it left, as a two's complement. The order of a machine never
    /// changes.
    pub(crate) turn: u64,
}

impl Standing {
    /// Returns the standing of a task that never ran and that inherits this lead from its parent.
    pub(crate) const fn new(lead: u64) -> Standing {
        Standing { lag: Lag::New { lead }, turn: 0 }
    }

    /// Returns the standing of a task that has slept for long, in no queue of this machine.
    pub(crate) const fn slept() -> Standing {
        let nowhere = QueueName { cpu: CpuId(0), epoch: u32::MAX };
        Standing { lag: Lag::slept_off(nowhere), turn: 0 }
    }

    /// Returns the standing of a task that is meanwhile sent to a queue of another group.
    pub(crate) fn in_another_queue(self) -> Standing {
        let lag = match self.lag {
            Lag::Asleep { lead, .. } => Lag::Moving { lead: lead.max(0) },
            Lag::New { .. } => Lag::New { lead: 0 },
            Lag::Lent { lead, .. } => Lag::Moving { lead },
            Lag::Delayed { queue, .. } => Lag::slept_off(queue),
            lag @ Lag::Moving { .. } => lag,
        };
        Standing { lag, ..self }
    }

    /// Returns the standing of a task whose request meanwhile changed, so that its ghost no longer
    /// matches it.
    pub(crate) fn without_ghost(self) -> Standing {
        match self.lag {
            Lag::Delayed { queue, .. } => Standing { lag: Lag::slept_off(queue), ..self },
            _ => self,
        }
    }
}

/// The unique name of one queue of one CPU: a queue that is made again gets another epoch. It takes
/// six bytes, so that the discriminant of a [`Lag`] is in the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(2))]
pub(crate) struct QueueName {
    pub(crate) cpu: CpuId,
    pub(crate) epoch: u32,
}
