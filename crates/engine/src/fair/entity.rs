//! What competes in a fair queue, and what it takes along while it is in none.

use crate::attr::{LatencyNice, Slice, Weight};
use crate::config::Config;
use crate::cpu::CpuId;
use crate::store::heap::Index;
use crate::time::{Time, VTime};
use std::ops;

/// The instant of a call and the numbers that it goes by.
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
    /// The queue of the root group. No entity stands for it.
    pub(crate) const ROOT: QueueId = QueueId(0);

    pub(crate) fn at(index: usize) -> QueueId {
        QueueId(index as u32)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Its number, as a heap of queues has it.
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    /// The queue that [`QueueId::to_bits`] gave.
    pub(crate) fn from_bits(bits: u32) -> QueueId {
        QueueId(bits)
    }
}

/// One value for each queue of a CPU. The value of the root's queue is held in place, not behind a
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

    /// For how many queues there is a value.
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

/// What a task asks for, or what its group was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) weight: u32,
    pub(crate) latency_nice: LatencyNice,
    /// The slice that a task asked for; `None` for what its latency nice makes of it.
    pub(crate) slice: Option<Slice>,
    /// It makes way for every other (`se_is_idle`): a SCHED_IDLE task or an idle group.
    pub(crate) idle: bool,
}

/// A task, or a group that has a queue on this CPU, from the point of view of the queue that it
/// competes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entity {
    /// CPU time that it had, divided by its weight. Of a task it has a meaning only in a queue.
    pub(crate) vruntime: VTime,
    /// CPU time since it was picked last (CFS).
    pub(crate) ran: u64,
    pub(crate) weight: u32,
    /// The queue that it competes in.
    pub(crate) parent: QueueId,
    /// The queue that it stands for; the root's for a task.
    pub(crate) own: QueueId,
    pub(crate) latency_nice: LatencyNice,
    /// See [`Ask::idle`].
    pub(crate) idle: bool,
    /// It sleeps in its place (`sched_delayed`, [`super::ghosts`]).
    pub(crate) delayed: bool,
}

impl Entity {
    /// Nobody is here.
    pub(crate) const NONE: Entity = Entity {
        vruntime: VTime(0),
        ran: 0,
        weight: 0,
        parent: QueueId::ROOT,
        own: QueueId::ROOT,
        latency_nice: LatencyNice::ZERO,
        idle: false,
        delayed: false,
    };

    pub(crate) fn new(ask: Ask, parent: QueueId) -> Entity {
        let Ask { weight, latency_nice, idle, .. } = ask;
        Entity { weight, parent, latency_nice, idle, ..Entity::NONE }
    }

    pub(crate) fn is_task(&self) -> bool {
        self.own == QueueId::ROOT
    }

    /// By how much its vruntime grows while it runs for `span`.
    #[inline]
    pub(crate) fn virtual_span(&self, span: u64) -> u64 {
        virtual_span(self.weight, span)
    }

    /// How long it runs until its vruntime has grown by `span`.
    pub(crate) fn real_span(&self, span: u64) -> u64 {
        let real = u128::from(span) * u128::from(self.weight) / u128::from(Weight::NICE_0.get());
        real.try_into().unwrap_or(u64::MAX)
    }
}

/// By how much the vruntime of an entity of this weight grows while it runs for `span`.
#[inline]
pub(crate) fn virtual_span(weight: u32, span: u64) -> u64 {
    const UNIT: u32 = Weight::NICE_0.get();
    if weight == UNIT { span } else { span.saturating_mul(u64::from(UNIT)) / u64::from(weight) }
}

/// Where an entity stands while it is in no queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lag {
    /// It never ran. The task that forked it was ahead of the clock by as much CPU time.
    New { lead: u64 },
    /// It left to sleep. The lead is that of [`Lag::Moving`].
    Asleep { vruntime: VTime, queue: QueueName, lead: i64, since: Time },
    /// It sleeps in its place, and its ghost is at this index of the CPU ([`super::ghosts`]).
    Delayed { ghost: Index, queue: QueueName },
    /// It is on its way to another queue, so far ahead of the clock of the one it left: in CFS in
    /// virtual time, in EEVDF in CPU time that it owes, whatever its weight will be.
    Moving { lead: i64 },
    /// It is with the host, in the company of the one that runs in that queue: it will be back there in an
    /// instant. The lead is that of [`Lag::Moving`].
    Lent { vruntime: VTime, queue: QueueName, lead: i64 },
}

impl Lag {
    /// That of one which left this queue to sleep, and owes nothing.
    pub(crate) fn slept_off(queue: QueueName) -> Lag {
        Lag::Asleep { vruntime: VTime(0), queue, lead: 0, since: Time::ZERO }
    }
}

/// What an entity takes along from one queue to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) lag: Lag,
    /// What its order tells itself: in CFS the CPU time since it was picked last; in EEVDF how much virtual time
    /// there was until its deadline when it left, as a two's complement. A machine has one order for ever.
    pub(crate) turn: u64,
}

impl Standing {
    /// That of a task that never ran, and whose parent was so far ahead of the clock.
    pub(crate) const fn new(lead: u64) -> Standing {
        Standing { lag: Lag::New { lead }, turn: 0 }
    }

    /// The same for a task that is sent to a queue of another group meanwhile.
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

    /// The same for a task that asks for something else meanwhile, so that it is not what its ghost is.
    pub(crate) fn without_ghost(self) -> Standing {
        match self.lag {
            Lag::Delayed { queue, .. } => Standing { lag: Lag::slept_off(queue), ..self },
            _ => self,
        }
    }
}

/// One queue of one CPU, for ever: a queue that is made again gets another epoch. In six bytes, so that the kind of a
/// [`Lag`] is in the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(2))]
pub(crate) struct QueueName {
    pub(crate) cpu: CpuId,
    pub(crate) epoch: u32,
}
