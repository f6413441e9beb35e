//! The tree of fair queues on one CPU: the entities, and the queue that each competes in.
//!
//! A task is an entity; so is a group that has a queue here. The entity of a group is in its
//! parent's queue and keeps its index as long as the queue exists, even without members.
//!
//! This file has only the structure. The two orders (`cfs.rs`, `eevdf.rs`) decide the order of
//! members. `mod.rs` decides when a queue is made and which entities enter it.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::fair::entity::{ByQueue, Entity, QueueId, QueueName, Standing};
use crate::fair::heaps::Heaps;
use crate::store::column::Column;
use crate::store::heap::Index;
use crate::store::list::List;
use crate::time::{Nanos, Time, VTime};

/// The queue of the root or of a group on one CPU.
///
/// The data of a large simulated machine do not fit into a cache, so the fields that a switch among
/// tasks of the root touches are adjacent.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Queue {
    /// The virtual clock. In CFS it is the least vruntime of a member and never runs back
    /// (`min_vruntime`). In EEVDF it is the average at the last update.
    pub(crate) clock: VTime,
    /// The sum of the members' weights.
    pub(crate) load: u64,
    /// The member that runs, or that is above the running task. It is in neither heap.
    pub(crate) curr: Option<Index>,
    /// The number of members, including `curr` and those that sleep in their place.
    pub(crate) nr: u32,
    /// The number of tasks in the queue and in all queues below it, except those that sleep.
    pub(crate) nr_tasks: u32,
    /// The number of those tasks that are SCHED_IDLE, or below it in a queue of a group that counts
    /// as that (`counts_as_idle`). The class of the queue's own group does not matter here
    /// (`idle_h_nr_running`).
    pub(crate) nr_idle_tasks: u32,
    /// Its entity in the parent's queue; `None` for the root.
    pub(crate) entity: Option<Index>,
    epoch: u32,
    /// Whether it is out of its parent's queue, with all its counts.
    pub(crate) throttled: bool,
    /// Whether all its tasks count as SCHED_IDLE above it
    /// ([`Groups::counts_as_idle`](crate::group::Groups::counts_as_idle)).
    pub(crate) counts_as_idle: bool,
    pub(crate) group: GroupId,
    /// The part of this CPU in the group's load.
    pub(crate) contribution: u64,
    /// The time until which its group has more work than budget, so that its throughput does not
    /// depend on when it runs.
    pub(crate) exhausted_until: Time,
    /// The standing of its entity while that is in no queue.
    pub(crate) standing: Standing,
    /// The number of queues of this CPU that have this one as their parent, including empty ones.
    pub(crate) children: u32,
    /// Its tasks that are throttled at their return to user mode, the last one first
    /// ([`super::limbo`]).
    pub(crate) limbo: List,
}

impl Queue {
    fn new(group: GroupId, epoch: u32) -> Queue {
        Queue {
            curr: None,
            clock: VTime(0),
            load: 0,
            nr: 0,
            nr_tasks: 0,
            nr_idle_tasks: 0,
            epoch,
            entity: None,
            group,
            counts_as_idle: false,
            standing: Standing::new(0),
            contribution: 0,
            throttled: false,
            exhausted_until: Time::ZERO,
            children: 0,
            limbo: List::default(),
        }
    }

    pub(crate) fn add(&mut self, counts: Counts) {
        self.nr_tasks += counts.nr;
        self.nr_idle_tasks += counts.nr_idle;
    }

    pub(crate) fn subtract(&mut self, counts: Counts) {
        self.nr_tasks -= counts.nr;
        self.nr_idle_tasks -= counts.nr_idle;
    }

    /// Returns how some of its tasks count above it.
    pub(crate) fn counts_above(&self, counts: Counts) -> Counts {
        let Counts { nr, nr_idle } = counts;
        Counts { nr, nr_idle: if self.counts_as_idle { nr } else { nr_idle } }
    }

    /// Returns how all of its tasks count above it.
    pub(crate) fn all_above(&self) -> Counts {
        self.counts_above(Counts { nr: self.nr_tasks, nr_idle: self.nr_idle_tasks })
    }
}

/// A number of tasks, and the number of those that count as SCHED_IDLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) nr: u32,
    pub(crate) nr_idle: u32,
}

impl Counts {
    pub(crate) const NONE: Counts = Counts { nr: 0, nr_idle: 0 };
}

/// An entity in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) queue: QueueId,
    pub(crate) at: Index,
}

impl Member {
    /// Returns the entity at `at` with the queue that it competes in.
    #[inline]
    pub(crate) fn of(tree: &Tree, at: Index) -> Member {
        Member { queue: tree.entity(at).parent, at }
    }
}

/// The entities and queues of one CPU.
#[derive(Debug)]
pub(crate) struct Tree {
    cpu: CpuId,
    /// The entities by index, as everywhere in the run queue. An unused index has [`Entity::NONE`]
    /// or a stale value.
    entities: Column<Entity>,
    queues: ByQueue<Queue>,
    /// The queues that no group uses.
    free: Vec<QueueId>,
    pub(crate) heaps: Heaps,
    epochs: u32,
    /// The vruntime of the first task that waits with the host for the root queue: the clock of
    /// that queue does not pass it.
    pub(crate) outside: Option<VTime>,
    /// The time for which a tick leaves the CPU to a running entity, even beyond its slice (CFS).
    pub(crate) least_turn: Nanos,
}

impl Tree {
    pub(crate) fn new(cpu: CpuId) -> Tree {
        Tree {
            cpu,
            entities: Column::new(Entity::NONE),
            queues: ByQueue::new(Queue::new(GroupId::ROOT, 0)),
            free: Vec::new(),
            heaps: Heaps::default(),
            epochs: 0,
            outside: None,
            least_turn: Nanos::ZERO,
        }
    }

    /// Makes room for the entities `0..len`, and for `groups` queues of groups in total. Allocates.
    pub(crate) fn grow(&mut self, len: usize, groups: usize) {
        self.entities.grow(len);
        self.heaps.grow(len, groups + 1);
        let had = self.queues.len();
        for at in had..groups + 1 {
            self.queues.push(Queue::new(GroupId::ROOT, 0));
            self.free.push(QueueId::at(at));
        }
    }

    /// Makes room for as many entities as `room` has, with its memory. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Tree) {
        self.entities.grow_into(&mut room.entities);
        self.heaps.grow_into(&mut room.heaps);
    }

    /// Opens the indices `0..len` for use.
    pub(crate) fn open(&mut self, len: usize) {
        self.entities.open(len);
    }

    /// Returns whether a queue is in use: the root queue, or that of a group.
    pub(crate) fn has_queue(&self, id: QueueId) -> bool {
        id == QueueId::ROOT || self.queue(id).entity.is_some()
    }

    /// Returns the number of queues that have room.
    pub(crate) fn nr_queues(&self) -> usize {
        self.queues.len()
    }

    /// Makes the queue of a group, with its entity at `at`. Allocates if there is no room.
    pub(crate) fn add_queue(&mut self, at: Index, group: GroupId, entity: Entity) -> QueueId {
        if self.free.is_empty() {
            self.grow(0, self.queues.len());
        }
        let id = self.free.pop().expect("room was made");
        self.epochs += 1;
        self.queue_mut(entity.parent).children += 1;
        let queue = Queue { entity: Some(at), ..Queue::new(group, self.epochs) };
        self.queues[id] = queue;
        self.entities[at] = Entity { own: id, ..entity };
        id
    }

    /// Removes an empty queue; returns the index that its entity had.
    ///
    /// # Panics
    /// If it has members or children.
    pub(crate) fn remove_queue(&mut self, id: QueueId) -> Index {
        let queue = self.queue_mut(id);
        assert_eq!((queue.nr, queue.children), (0, 0), "{:?} is empty", queue.group);
        let at = queue.entity.take().expect("the root's queue stays");
        let parent = self.entity(at).parent;
        self.queue_mut(parent).children -= 1;
        self.free.push(id);
        at
    }

    /// Returns the entity at an index, if that was ever used.
    #[inline]
    pub(crate) fn get(&self, at: Index) -> Option<&Entity> {
        self.entities.get(at)
    }

    #[inline]
    pub(crate) fn entity(&self, at: Index) -> &Entity {
        &self.entities[at]
    }

    #[inline]
    pub(crate) fn entity_mut(&mut self, at: Index) -> &mut Entity {
        &mut self.entities[at]
    }

    #[inline]
    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id]
    }

    #[inline]
    pub(crate) fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.queues[id]
    }

    pub(crate) fn root(&self) -> &Queue {
        &self.queues[QueueId::ROOT]
    }

    pub(crate) fn root_mut(&mut self) -> &mut Queue {
        &mut self.queues[QueueId::ROOT]
    }

    /// Returns the queue that an entity competes in.
    #[inline]
    pub(crate) fn queue_of(&self, at: Index) -> &Queue {
        self.queue(self.entity(at).parent)
    }

    /// Returns the name of a queue.
    pub(crate) fn name(&self, id: QueueId) -> QueueName {
        QueueName { cpu: self.cpu, epoch: self.queue(id).epoch }
    }

    /// Returns the entity of the group above this one.
    #[inline]
    pub(crate) fn above(&self, at: Index) -> Option<Index> {
        self.queue_of(at).entity
    }

    /// Returns the entity of this queue's group, or of one above it, that competes in the root
    /// queue.
    ///
    /// # Panics
    /// If it is the root queue itself.
    pub(crate) fn top_of(&self, id: QueueId) -> Index {
        let mut at = self.queue(id).entity.expect("no entity stands for the root");
        while let Some(above) = self.above(at) {
            at = above;
        }
        at
    }

    /// Returns this queue and those above it, the root last.
    pub(crate) fn lineage(&self, id: QueueId) -> impl Iterator<Item = QueueId> {
        std::iter::successors(Some(id), |&id| {
            self.queue(id).entity.map(|at| self.entity(at).parent)
        })
    }

    /// Returns whether `at` is `task` or a group above it.
    #[inline]
    pub(crate) fn is_above(&self, at: Index, task: Option<Index>) -> bool {
        std::iter::successors(task, |&below| self.above(below)).any(|below| below == at)
    }

    /// Returns the two entities, at or above the tasks, that compete in the same queue.
    #[inline]
    pub(crate) fn matching_siblings(&self, a: Index, b: Index) -> (Index, Index) {
        let are_siblings = self.entity(a).parent == self.entity(b).parent;
        if are_siblings { (a, b) } else { self.siblings_above(a, b) }
    }

    fn siblings_above(&self, mut a: Index, mut b: Index) -> (Index, Index) {
        let (mut deep_a, mut deep_b) = (self.depth(a), self.depth(b));
        let up = |at: Index| self.above(at).expect("the roots of two tasks are one");
        while self.entity(a).parent != self.entity(b).parent {
            let (from_a, from_b) = (deep_a >= deep_b, deep_b >= deep_a);
            if from_a {
                (a, deep_a) = (up(a), deep_a - 1);
            }
            if from_b {
                (b, deep_b) = (up(b), deep_b - 1);
            }
        }
        (a, b)
    }

    fn depth(&self, at: Index) -> usize {
        std::iter::successors(self.above(at), |&above| self.above(above)).count()
    }

    pub(crate) fn waits(&self, at: Index) -> bool {
        self.heaps.waits(self.entity(at).parent, at)
    }

    /// Returns whether an entity is a member of the queue that it competes in.
    pub(crate) fn is_attached(&self, at: Index) -> bool {
        self.waits(at) || self.queue_of(at).curr == Some(at)
    }

    /// Makes an entity a member at this vruntime.
    pub(crate) fn admit(&mut self, id: QueueId, at: Index, vruntime: VTime) {
        let entity = self.entity_mut(at);
        (entity.vruntime, entity.parent) = (vruntime, id);
        let weight = u64::from(entity.weight);
        let queue = self.queue_mut(id);
        queue.nr += 1;
        queue.load += weight;
    }

    /// The opposite of [`Tree::admit`].
    pub(crate) fn dismiss(&mut self, id: QueueId, at: Index) {
        let weight = u64::from(self.entity(at).weight);
        let queue = self.queue_mut(id);
        queue.nr -= 1;
        queue.load -= weight;
    }

    /// Changes the weight of a member.
    pub(crate) fn reweight(&mut self, at: Index, weight: u32) {
        let entity = self.entity_mut(at);
        let (old, id) = (std::mem::replace(&mut entity.weight, weight), entity.parent);
        let queue = self.queue_mut(id);
        queue.load = queue.load - u64::from(old) + u64::from(weight);
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, id: QueueId, at: Index, key: VTime) {
        self.heaps.insert(id, at, key);
    }

    #[inline(always)]
    pub(crate) fn insert_urgent(&mut self, id: QueueId, at: Index, key: VTime) {
        self.heaps.insert_urgent(id, at, key);
    }

    #[inline(never)]
    pub(crate) fn remove(&mut self, id: QueueId, at: Index) {
        self.heaps.remove(id, at);
    }

    pub(crate) fn remove_urgent(&mut self, id: QueueId, at: Index) {
        self.heaps.remove_urgent(id, at);
    }

    /// Returns the weight that an entity of the root queue adds to the idle class there.
    #[inline]
    pub(crate) fn idle_weight(&self, top: Index) -> u64 {
        let entity = self.entity(top);
        let idle = if entity.is_task() {
            entity.idle
        } else {
            let queue = self.queue(entity.own);
            queue.nr_tasks > 0 && (queue.nr_tasks == queue.nr_idle_tasks || queue.counts_as_idle)
        };
        if idle && !entity.delayed && self.is_attached(top) { entity.weight.into() } else { 0 }
    }

    /// Returns the load that a task adds to the CPU: its weight, scaled by the shares above it.
    pub(crate) fn task_load(&self, at: Index) -> u64 {
        let mut at = at;
        let mut load = u64::from(self.entity(at).weight);
        while let Some(above) = self.above(at) {
            load = load * u64::from(self.entity(above).weight) / self.queue_of(at).load.max(1);
            at = above;
        }
        load
    }

    /// Returns whether a task counts as SCHED_IDLE on this CPU, by its policy or by a group that it
    /// is below.
    #[inline]
    pub(crate) fn is_idle_class(&self, at: Index) -> bool {
        let Entity { idle, parent, .. } = *self.entity(at);
        idle || parent != QueueId::ROOT && self.counts_as_idle(parent)
    }

    /// Returns whether a queue is that of a group that counts as SCHED_IDLE, or below one.
    #[inline(never)]
    fn counts_as_idle(&self, id: QueueId) -> bool {
        self.lineage(id).any(|id| self.queue(id).counts_as_idle)
    }
}
