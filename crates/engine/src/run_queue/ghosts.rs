//! Ghosts: the entities that tasks leave behind in their fair queues when they go to sleep (see
//! `fair/ghosts.rs`). This file keeps the places of ghosts, which the fair class does not know.
//!
//! A ghost has the name of its task, and the task has the place of its ghost. The two belong
//! together only if both agree: a task is never asleep twice, and a freed place gets another owner.

use crate::fair::entity::{Lag, Now, QueueId};
use crate::fair::order::{Before, Wakeup};
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::{Place, RunQueue};
use crate::store::heap::Index;
use crate::task::Task;

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns whether a sleeping task left a ghost here whose place it would take if it were
    /// offered.
    #[must_use]
    pub fn has_ghost_of(&self, task: &Task<P>) -> bool {
        self.ghost_of(task).is_some()
    }

    #[inline]
    pub(super) fn ghost_of(&self, task: &Task<P>) -> Option<Index> {
        let Lag::Delayed { ghost, queue } = task.standing.lag else { return None };
        let fits = self.online && task.attr.affinity.contains(self.cpu) && task.class().is_fair();
        let is_its = matches!(self.places.get(ghost), Some(Place::Ghost(id)) if *id == task.id);
        // If the task was on its way to another CPU that refused it, it took its part of the
        // averages along.
        let has_part = task.kept.average().is_none_or(|it| it.left_on().is_some());
        (fits && queue.cpu == self.cpu && is_its && has_part).then_some(ghost)
    }

    /// Puts a task that slept back into the place of its ghost.
    pub(super) fn rejoin(&mut self, at: Index, task: Box<Task<P>>) -> Index {
        self.places.replace(at, Place::Task(task));
        let (fair, now, _) = self.fair_here();
        fair.rejoin(now, at);
        self.reindex(at);
        at
    }

    /// Puts the running task to sleep, if it leaves a ghost.
    pub(super) fn leave_ghost(&mut self, at: Index) -> Option<Box<Task<P>>> {
        let id = self.task(at).id;
        let (fair, now, _) = self.fair_here();
        let standing = fair.delay(now, at)?;
        self.curr = None;
        self.pass_on();
        match self.places.replace(at, Place::Ghost(id)) {
            Place::Task(mut task) => {
                task.standing = standing;
                let now = Now { clock: self.clock, config: &self.config };
                if self.config.features.has(Feature::Pelt) {
                    self.fair.tell_average(now, at, task.kept.average_mut());
                }
                Some(task)
            }
            Place::Group | Place::Ghost(_) => unreachable!("a task ran at {at}"),
        }
    }

    /// Before a pick of a fair task: drops the ghosts that would be picked.
    #[inline(always)]
    pub(super) fn drop_due_ghosts(&mut self, before: &mut Before) {
        loop {
            let (fair, now, groups) = self.fair_here();
            let Some(ghost) = fair.take_due_ghost(now, groups, before) else { return };
            self.places.remove(ghost);
        }
    }

    /// At a wake-up: drops the ghosts that would be picked before the woken task.
    pub(super) fn drop_ghosts_before(&mut self, wakeup: Wakeup) {
        loop {
            let (fair, now, groups) = self.fair_here();
            let Some(ghost) = fair.take_ghost_before(now, groups, wakeup) else { return };
            self.places.remove(ghost);
        }
    }

    /// Drops all ghosts: this CPU picks no task from now on.
    pub(super) fn drop_ghosts(&mut self) {
        let is_ghost = |(at, place)| matches!(place, &Place::Ghost(_)).then_some(at);
        let ghosts: Vec<_> = self.places.iter().filter_map(is_ghost).collect();
        ghosts.into_iter().for_each(|at| self.drop_ghost(at));
        while let Some(at) = self.fair.delayed_group() {
            let (fair, now, groups) = self.fair_here();
            fair.drop_delayed(now, groups, at);
        }
    }

    /// Drops the ghosts in a queue that has nothing else in it, and then the queue itself.
    pub(super) fn drop_ghosts_of(&mut self, id: QueueId) {
        let ghosts: Vec<_> = self.fair.tree.heaps.iter(id).collect();
        ghosts.into_iter().for_each(|at| self.drop_ghost(at));
        let at = self.fair.tree.queue(id).entity.expect("the root stays");
        if self.fair.tree.entity(at).delayed {
            let (fair, now, groups) = self.fair_here();
            fair.drop_delayed(now, groups, at);
        }
    }

    fn drop_ghost(&mut self, at: Index) {
        let (fair, now, groups) = self.fair_here();
        fair.drop_delayed(now, groups, at);
        self.places.remove(at);
    }
}
