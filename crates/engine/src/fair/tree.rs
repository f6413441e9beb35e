//! The tree of fair queues on one CPU: which entities there are, and which queue each competes in.
//!
//! A task is an entity; so is a group that has a queue here. A group's entity stands in its parent's
//! queue and keeps its index as long as the queue exists, which is longer than it has members.
//!
//! Here is the structure alone. In what order a queue has its members is for the two orders
//! (`cfs.rs`, `eevdf.rs`); when a queue is made and who enters it, for `mod.rs`.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::fair::entity::{ByQueue, Entity, QueueId, QueueName, Standing};
use crate::fair::heaps::Heaps;
use crate::store::column::Column;
use crate::store::heap::Index;
use crate::time::{Time, VTime};

/// The queue of the root or of a group on one CPU.
///
/// A large simulated machine does not fit into a cache, so the fields that a switch among tasks of the
/// root touches are side by side.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Queue {
    /// The virtual clock: in CFS that of the member that had least, never running back
    /// (`min_vruntime`); in EEVDF the average as of the last look.
    pub(crate) clock: VTime,
    /// The sum of the members' weights.
    pub(crate) load: u64,
    /// Its member that runs, or is above the task that runs. It is in neither heap.
    pub(crate) curr: Option<Index>,
    /// Members, `curr` and those that sleep in their place included.
    pub(crate) nr: u32,
    /// Tasks in the queue and in all queues below it, but for those that sleep.
    pub(crate) nr_tasks: u32,
    /// Those of them that are SCHED_IDLE, or in a queue below it whose group counts as that
    /// (`counts_as_idle`): what the queue's own group is says nothing here (`idle_h_nr_running`).
    pub(crate) nr_idle_tasks: u32,
    /// The entity that stands for it in the parent's queue; `None` for the root's.
    pub(crate) entity: Option<Index>,
    epoch: u32,
    /// It is out of its parent's queue with all that it counts for.
    pub(crate) throttled: bool,
    /// To those above it all its tasks count as SCHED_IDLE ones
    /// ([`Groups::counts_as_idle`](crate::group::Groups::counts_as_idle)).
    pub(crate) counts_as_idle: bool,
    pub(crate) group: GroupId,
    /// What this CPU adds to the group's load.
    pub(crate) contribution: u64,
    /// Until then its group has more work than budget, so how much of it gets done does not depend on
    /// when it runs.
    pub(crate) exhausted_until: Time,
    /// Where its entity stands while that is in no queue.
    pub(crate) standing: Standing,
    /// Queues of this CPU whose parent this is, empty ones included.
    pub(crate) children: u32,
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

    /// How many of some tasks in it count as SCHED_IDLE ones to those above it.
    pub(crate) fn counts_above(&self, counts: Counts) -> Counts {
        let Counts { nr, nr_idle } = counts;
        Counts { nr, nr_idle: if self.counts_as_idle { nr } else { nr_idle } }
    }

    /// All its tasks, as they count to those above it.
    pub(crate) fn all_above(&self) -> Counts {
        self.counts_above(Counts { nr: self.nr_tasks, nr_idle: self.nr_idle_tasks })
    }
}

/// Tasks, and those of them that count as SCHED_IDLE ones.
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
    /// The entity at `at` in the queue that it competes in.
    #[inline]
    pub(crate) fn of(tree: &Tree, at: Index) -> Member {
        Member { queue: tree.entity(at).parent, at }
    }
}

/// The entities and queues of one CPU.
#[derive(Debug)]
pub(crate) struct Tree {
    cpu: CpuId,
    /// By index, as everywhere in the run queue; [`Entity::NONE`] or stale where none is.
    entities: Column<Entity>,
    queues: ByQueue<Queue>,
    /// Queues that no group has.
    free: Vec<QueueId>,
    pub(crate) heaps: Heaps,
    epochs: u32,
    /// Where the first task that waits with the host stands in the root's queue: its clock does not pass that.
    pub(crate) outside: Option<VTime>,
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
        }
    }

    /// Makes room for the entities `0..len`, and for `groups` queues of groups in all. Allocates.
    pub(crate) fn grow(&mut self, len: usize, groups: usize) {
        self.entities.grow(len);
        self.heaps.grow(len, groups + 1);
        let had = self.queues.len();
        for at in had..groups + 1 {
            self.queues.push(Queue::new(GroupId::ROOT, 0));
            self.free.push(QueueId::at(at));
        }
    }

    /// Makes room for as many entities as another has room for, of which the memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Tree) {
        self.entities.grow_into(&mut room.entities);
        self.heaps.grow_into(&mut room.heaps);
    }

    /// The indices `0..len` can be used from now on.
    pub(crate) fn open(&mut self, len: usize) {
        self.entities.open(len);
    }

    /// Whether a queue is the root's or that of a group.
    pub(crate) fn has_queue(&self, id: QueueId) -> bool {
        id == QueueId::ROOT || self.queue(id).entity.is_some()
    }

    /// How many queues there is room for.
    pub(crate) fn nr_queues(&self) -> usize {
        self.queues.len()
    }

    /// Makes the queue of a group, whose entity stands at `at`. Allocates if there is no room.
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

    /// Forgets an empty queue; gives the index that its entity had.
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

    /// The entity at an index, if that was ever used.
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

    /// The queue that an entity competes in.
    pub(crate) fn queue_of(&self, at: Index) -> &Queue {
        self.queue(self.entity(at).parent)
    }

    /// The name of a queue.
    pub(crate) fn name(&self, id: QueueId) -> QueueName {
        QueueName { cpu: self.cpu, epoch: self.queue(id).epoch }
    }

    /// The entity of the group above this one.
    #[inline]
    pub(crate) fn above(&self, at: Index) -> Option<Index> {
        self.queue_of(at).entity
    }

    /// The entity of this queue's group, or of one above it, that competes in the root's queue.
    ///
    /// # Panics
    /// If it is the root's queue itself.
    pub(crate) fn top_of(&self, id: QueueId) -> Index {
        let mut at = self.queue(id).entity.expect("no entity stands for the root");
        while let Some(above) = self.above(at) {
            at = above;
        }
        at
    }

    /// This queue and those above it, the root's last.
    pub(crate) fn lineage(&self, id: QueueId) -> impl Iterator<Item = QueueId> {
        std::iter::successors(Some(id), |&id| {
            self.queue(id).entity.map(|at| self.entity(at).parent)
        })
    }

    /// Whether `at` is `task` or a group above it.
    pub(crate) fn is_above(&self, at: Index, task: Option<Index>) -> bool {
        std::iter::successors(task, |&below| self.above(below)).any(|below| below == at)
    }

    /// The two entities above (or at) the tasks that compete in the same queue.
    pub(crate) fn matching_siblings(&self, mut a: Index, mut b: Index) -> (Index, Index) {
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

    /// Whether an entity is a member of the queue that it competes in.
    pub(crate) fn is_attached(&self, at: Index) -> bool {
        self.waits(at) || self.queue_of(at).curr == Some(at)
    }

    /// An entity becomes a member at this vruntime.
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

    /// Gives a member another weight.
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

    /// What an entity of the root's queue adds to what the idle class weighs there.
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

    /// What a task adds to the load of the CPU: its weight, scaled by the shares above it.
    pub(crate) fn task_load(&self, at: Index) -> u64 {
        let mut at = at;
        let mut load = u64::from(self.entity(at).weight);
        while let Some(above) = self.above(at) {
            load = load * u64::from(self.entity(above).weight) / self.queue_of(at).load.max(1);
            at = above;
        }
        load
    }

    /// Whether a task counts as SCHED_IDLE on this CPU, by its policy or by a group that it is below.
    #[inline]
    pub(crate) fn is_idle_class(&self, at: Index) -> bool {
        let Entity { idle, parent, .. } = *self.entity(at);
        idle || parent != QueueId::ROOT && self.counts_as_idle(parent)
    }

    /// Whether a queue is that of a group that counts as SCHED_IDLE, or below one.
    #[inline(never)]
    fn counts_as_idle(&self, id: QueueId) -> bool {
        self.lineage(id).any(|id| self.queue(id).counts_as_idle)
    }
}
