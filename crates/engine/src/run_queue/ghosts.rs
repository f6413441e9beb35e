//! Ghosts: the entities that tasks leave behind in their fair queues when they go to sleep (see
//! `fair/ghosts.rs`). This file keeps the places of ghosts, which the fair class does not know.
//!
//! A ghost has the name of its task, and the task has the place of its ghost. The two belong
//! together only if both agree: a task is never asleep twice, and a freed place gets another owner.

use crate::fair::Fair;
use crate::fair::entity::{Lag, QueueId};
use crate::fair::order::{Before, Wakeup};
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::site::Site;
use crate::run_queue::tasks::{Place, Tasks};
use crate::store::heap::Index;
use crate::task::Task;

impl<P> Tasks<P> {
    /// Returns whether a sleeping task left a ghost here whose place it would take if it were
    /// offered.
    #[must_use]
    pub fn has_ghost_of(&self, task: &Task<P>, site: &Site<impl Pools>) -> bool {
        self.ghost_of(task, site).is_some()
    }

    /// Returns the ghost here whose place a sleeping task would take if it were offered.
    #[inline]
    pub(super) fn ghost_of(&self, task: &Task<P>, site: &Site<impl Pools>) -> Option<Index> {
        let Lag::Delayed { ghost, queue } = task.standing.lag else { return None };
        let fits = site.takes(task) && task.class().is_fair();
        // If the task was on its way to another CPU that refused it, it took its part of the
        // averages along.
        let has_part = task.kept.average().is_none_or(|it| it.left_on().is_some());
        let is_its = queue.cpu == site.cpu() && self.is_ghost_of(ghost, task);
        (fits && is_its && has_part).then_some(ghost)
    }

    /// Puts the running task to sleep, if it leaves a ghost.
    pub(super) fn delay(
        &mut self,
        at: Index,
        site: &Site<impl Pools>,
        fair: &mut Fair,
    ) -> Option<Box<Task<P>>> {
        let standing = fair.delay(site.now(), at)?;
        let mut task = self.leave_ghost(at);
        task.standing = standing;
        if site.has(Feature::Pelt) {
            fair.tell_average(site.now(), at, task.kept.average_mut());
        }
        Some(task)
    }

    /// Before a pick of a fair task: drops the ghosts, of tasks and of groups, that would be picked.
    /// Returns whether there were any.
    #[inline(always)]
    pub(super) fn drop_due_ghosts(
        &mut self,
        site: &Site<impl Pools>,
        fair: &mut Fair,
        before: &mut Before,
    ) -> bool {
        let ghosts = fair.nr_ghosts();
        while let Some(ghost) = fair.take_due_ghost(site.now(), site.groups(), before) {
            self.free(ghost);
        }
        fair.nr_ghosts() < ghosts
    }

    /// At a wake-up: drops the ghosts that would be picked before the woken task.
    pub(super) fn drop_ghosts_before(
        &mut self,
        site: &Site<impl Pools>,
        fair: &mut Fair,
        wakeup: Wakeup,
    ) {
        while let Some(ghost) = fair.take_ghost_before(site.now(), site.groups(), wakeup) {
            self.free(ghost);
        }
    }

    /// Drops all ghosts: this CPU picks no task from now on.
    pub(super) fn drop_ghosts(&mut self, site: &Site<impl Pools>, fair: &mut Fair) {
        let is_ghost = |(at, place)| matches!(place, &Place::Ghost(_)).then_some(at);
        let ghosts: Vec<_> = self.places().iter().filter_map(is_ghost).collect();
        ghosts.into_iter().for_each(|at| self.drop_ghost(at, site, fair));
        while let Some(at) = fair.delayed_group() {
            fair.drop_delayed(site.now(), site.groups(), at);
        }
    }

    /// Drops the ghosts in a queue that has nothing else in it, and then the queue itself.
    pub(super) fn drop_ghosts_of(&mut self, id: QueueId, site: &Site<impl Pools>, fair: &mut Fair) {
        let ghosts: Vec<_> = fair.tree.heaps.iter(id).collect();
        ghosts.into_iter().for_each(|at| self.drop_ghost(at, site, fair));
        let at = fair.tree.queue(id).entity.expect("the root stays");
        if fair.tree.entity(at).delayed {
            fair.drop_delayed(site.now(), site.groups(), at);
        }
    }

    fn drop_ghost(&mut self, at: Index, site: &Site<impl Pools>, fair: &mut Fair) {
        fair.drop_delayed(site.now(), site.groups(), at);
        self.free(at);
    }
}
