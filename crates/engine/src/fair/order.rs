//! The interface between the fair class and the order of its queues.
//!
//! An order keeps its own state beside the tree, by entity and by queue. Only the order inserts
//! into the heaps and removes from them. [`Tree::admit`] and [`Tree::dismiss`] keep the counts of
//! the tree.

use crate::config::Config;
use crate::fair::entity::{Ask, Now, QueueId, Standing};
use crate::fair::tree::{Member, Tree};
use crate::store::heap::Index;
use crate::time::Nanos;
use std::fmt::Display;

/// The task that had the CPU until a pick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// The task, if it is fair and stays; otherwise the group that it left.
    pub(crate) ran: Option<Index>,
    /// The task, if it yielded.
    pub(crate) yielded: Option<Index>,
}

/// A wake-up, as two entities of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup {
    /// The running entity.
    pub(crate) curr: Index,
    /// The entity that came.
    pub(crate) woken: Index,
    /// Whether it came as a new task, or for one.
    pub(crate) forked: bool,
    /// Whether it slept before it came, or came for a task that did.
    pub(crate) slept: bool,
    /// Whether a switch was due before.
    pub(crate) due: bool,
}

/// The order of fair queues: CFS or EEVDF.
pub(crate) trait QueueOrder {
    /// Makes room for the entities `0..entities` and for `queues` queues. Allocates.
    fn grow(&mut self, entities: usize, queues: usize);

    /// Notes the request of an entity, before it is attached or because it has changed.
    fn heed(&mut self, at: Index, ask: Ask, config: &Config);

    /// Returns the standing of the entity at `at` after its queue was made.
    fn found(&mut self, tree: &mut Tree, now: Now, at: Index) -> Standing;

    /// Puts an entity into a queue, where it waits (`place_entity`, `enqueue_entity`).
    fn attach(&mut self, tree: &mut Tree, now: Now, member: Member, standing: &Standing);

    /// Takes a member out of its queue, to sleep or for another queue (`dequeue_entity`).
    fn detach(&mut self, tree: &mut Tree, now: Now, member: Member, asleep: bool) -> Standing;

    /// Charges `span` of CPU time to the running member (`update_curr`). Returns whether it makes
    /// way because of the charge, without waiting for the tick.
    fn charge(&mut self, tree: &mut Tree, now: Now, member: Member, span: Nanos) -> bool;

    /// Makes the running member a waiting one (`put_prev_entity`).
    fn put_back(&mut self, tree: &mut Tree, now: Now, member: Member);

    /// Makes a waiting member the running one (`set_next_entity`). If it `goes_on`, it continues
    /// the turn that it had; otherwise a new one begins.
    fn set_curr(&mut self, tree: &mut Tree, now: Now, member: Member, goes_on: bool);

    /// Returns the member of a queue that runs next; it still waits (`pick_next_entity`). The task
    /// that yielded, if one did, is passed over if that is not unfair to it.
    fn choose(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index;

    /// Returns the member that [`QueueOrder::choose`] would return, without any effect.
    fn foresee(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index;

    /// Returns how long an attached member may run in its turn.
    fn slice_of(&self, tree: &Tree, now: Now, member: Member) -> u64;

    /// Returns whether a tick ends the turn of the running member (`entity_tick`).
    fn turn_is_over(&mut self, tree: &Tree, now: Now, member: Member) -> bool;

    /// Returns whether a woken member preempts the running one of the same queue
    /// (`check_preempt_wakeup`).
    fn preempts(&mut self, tree: &mut Tree, now: Now, wakeup: Wakeup) -> bool;

    /// Returns whether a waiting member precedes the running one of the same queue, regardless of
    /// the running turn.
    fn goes_before(&self, tree: &Tree, now: Now, members: (Index, Index)) -> bool;

    /// Ends the turn of the running member because it makes way for another.
    fn end_turn(&mut self, tree: &Tree, at: Index);

    /// Postpones a member that yielded and waits (`yield_task_fair`).
    fn postpone(&mut self, tree: &mut Tree, now: Now, at: Index);

    /// Changes the weight of a member (`reweight_entity`).
    fn reweight(&mut self, tree: &mut Tree, now: Now, at: Index, weight: u32);

    /// Changes the latency nice or the slice of a member; its vruntime and its turn stay.
    fn reask(&mut self, tree: &mut Tree, now: Now, at: Index, ask: Ask);

    /// Applies another configuration to an entity with this request.
    fn renew(&mut self, tree: &mut Tree, now: Now, at: Index, ask: Ask);

    /// Returns whether no state is lost if the empty queue of the entity at `at` is removed.
    fn is_at_rest(&self, tree: &Tree, now: Now, at: Index) -> bool;

    /// Returns the part of a running task's lead that a task it forks owes. The running task has
    /// not been charged for the last `uncharged` yet.
    fn lead_of_child(&self, tree: &Tree, now: Now, parent: Index, uncharged: Nanos) -> u64;

    /// Asserts the state that the order keeps of a queue, computed afresh; fails with `picture`.
    fn check(&self, tree: &Tree, now: Now, id: QueueId, picture: &dyn Display);
}
