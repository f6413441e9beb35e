//! What the fair class asks of the order of its queues.
//!
//! An order keeps what it needs beside the tree, by entity and by queue, and alone inserts into the
//! heaps and removes from them. The tree's counts are kept by [`Tree::admit`] and [`Tree::dismiss`].

use crate::config::Config;
use crate::fair::entity::{Ask, Now, QueueId, Standing};
use crate::fair::tree::{Member, Tree};
use crate::store::heap::Index;
use crate::time::Nanos;
use std::fmt::Display;

/// The task that had the CPU until a pick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// The task, if it is fair and stays; or the group from which it left.
    pub(crate) ran: Option<Index>,
    /// The task, if it yielded.
    pub(crate) yielded: Option<Index>,
}

/// A wake-up, by two entities of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup {
    /// The running one.
    pub(crate) curr: Index,
    /// The one that came.
    pub(crate) woken: Index,
    /// It came as a new task, or for one.
    pub(crate) forked: bool,
}

/// The order of fair queues: CFS or EEVDF.
pub(crate) trait QueueOrder {
    /// Makes room for the entities `0..entities` and for so many queues. Allocates.
    fn grow(&mut self, entities: usize, queues: usize);

    /// Takes note of what an entity asks for, before it is attached or because it has changed.
    fn heed(&mut self, at: Index, ask: Ask, config: &Config);

    /// The queue for which the entity at `at` stands was made: where that stands.
    fn found(&mut self, tree: &mut Tree, now: Now, at: Index) -> Standing;

    /// An entity enters a queue, and waits there (`place_entity`, `enqueue_entity`).
    fn attach(&mut self, tree: &mut Tree, now: Now, member: Member, standing: &Standing);

    /// A member leaves its queue, to sleep or for another queue (`dequeue_entity`).
    fn detach(&mut self, tree: &mut Tree, now: Now, member: Member, asleep: bool) -> Standing;

    /// The running member had `span` of CPU time (`update_curr`). Whether it makes way for that, if it need not wait for
    /// the tick to be asked.
    fn charge(&mut self, tree: &mut Tree, now: Now, member: Member, span: Nanos) -> bool;

    /// The running member waits from now on (`put_prev_entity`).
    fn put_back(&mut self, tree: &mut Tree, now: Now, member: Member);

    /// A waiting member runs from now on (`set_next_entity`); it `goes_on` with its
    /// turn if it had one until now, and a turn is not renewed by that.
    fn set_curr(&mut self, tree: &mut Tree, now: Now, member: Member, goes_on: bool);

    /// The member of a queue that runs next; it still waits (`pick_next_entity`). The task that yielded,
    /// if one did, is passed over if that is not unfair to it.
    fn choose(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index;

    /// The member that [`QueueOrder::choose`] would give, of which nothing is noted.
    fn foresee(&mut self, tree: &mut Tree, now: Now, id: QueueId, before: Before) -> Index;

    /// How long a member that is attached may run in its turn.
    fn slice_of(&self, tree: &Tree, now: Now, member: Member) -> u64;

    /// Whether a tick ends the turn of the running member (`entity_tick`).
    fn turn_is_over(&mut self, tree: &Tree, now: Now, member: Member) -> bool;

    /// Whether a woken member preempts the running one of the same queue (`check_preempt_wakeup`).
    fn preempts(&mut self, tree: &mut Tree, now: Now, wakeup: Wakeup) -> bool;

    /// Whether a member that waits comes before the running one of the same queue, whatever the turn of that.
    fn goes_before(&self, tree: &Tree, now: Now, members: (Index, Index)) -> bool;

    /// The turn of the running member is over: one came for which it makes way.
    fn end_turn(&mut self, tree: &Tree, at: Index);

    /// A member yielded, and waits (`yield_task_fair`).
    fn postpone(&mut self, tree: &mut Tree, now: Now, at: Index);

    /// A member has another weight (`reweight_entity`).
    fn reweight(&mut self, tree: &mut Tree, now: Now, at: Index, weight: u32);

    /// A member asks for another latency nice or slice; its vruntime and its turn stay.
    fn reask(&mut self, tree: &mut Tree, now: Now, at: Index, ask: Ask);

    /// The configuration is another one, for an entity that asks for this.
    fn renew(&mut self, tree: &mut Tree, now: Now, at: Index, ask: Ask);

    /// Whether nothing is lost if the empty queue for which the entity at `at` stands is forgotten.
    fn is_at_rest(&self, tree: &Tree, now: Now, at: Index) -> bool;

    /// The CPU time by which a task that runs, and was not charged for the last `uncharged` yet, is ahead
    /// of its queue, as far as a task that it forks owes that.
    fn lead_of_child(&self, tree: &Tree, now: Now, parent: Index, uncharged: Nanos) -> u64;

    /// Asserts what the order keeps of a queue, counted afresh; fails with `picture`.
    fn check(&self, tree: &Tree, now: Now, id: QueueId, picture: &dyn Display);
}
