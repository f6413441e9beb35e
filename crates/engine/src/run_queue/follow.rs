//! Switches that another machine made: a queue follows a recording of that machine.

use crate::attr::GroupId;
use crate::limits::Pools;
use crate::run_queue::{Prev, RunQueue, Switch};
use crate::task::{QueueIndex, TaskId};
use crate::time::Time;

/// A switch that followed a recording.
#[must_use]
#[derive(Debug)]
pub struct Followed<P> {
    /// The switch, as [`RunQueue::schedule`] returns it.
    pub switch: Switch<P>,
    /// The task that the queue would have run by its own rules; `None` if it would have been idle.
    pub own: Option<TaskId>,
}

/// The place of a fair task among the members of its group's queue in EEVDF, in nanoseconds of
/// virtual time from the queue's virtual clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairPlace {
    /// The group.
    pub group: GroupId,
    /// How far its vruntime is ahead. A task that is not ahead is eligible.
    pub ahead: i64,
    /// Its deadline.
    pub deadline: i64,
    /// Until when it keeps the CPU against its equals, if it is eligible.
    pub keeps: i64,
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns the place of a fair task in EEVDF, as of the last charge.
    #[must_use]
    pub fn place(&self, at: QueueIndex) -> Option<FairPlace> {
        let task = self.tasks().get(at).filter(|task| task.class().is_fair())?;
        let (ahead, deadline, keeps) = self.queues().fair_place(at.0)?;
        Some(FairPlace { group: task.attr.group, ahead, deadline, keeps })
    }

    /// Switches to `next`, as a recorded machine did, and tells the task that this queue would have
    /// run. The vruntimes and lags of all tasks go on from there, so the next decision of both has the
    /// same past. A `next` that is not here leaves the CPU idle.
    ///
    /// A limit of a group is not charged: a recording has its effect already.
    ///
    /// ```
    /// use runyard_engine::attr::Attr;
    /// use runyard_engine::config::Config;
    /// use runyard_engine::cpu::{CpuId, CpuSet};
    /// use runyard_engine::run_queue::{Enqueue, Prev, RunQueue};
    /// use runyard_engine::task::{Task, TaskId};
    /// use runyard_engine::time::Time;
    /// use runyard_engine::topology::Topology;
    /// use std::sync::Arc;
    ///
    /// let config = Arc::new(Config::new(Topology::flat(1).unwrap()));
    /// let mut rq: RunQueue<(), ()> = RunQueue::new(CpuId(0), config, Arc::new(()));
    /// for id in [1, 2] {
    ///     let attr = Attr::normal(CpuSet::only(CpuId(0)));
    ///     rq.offer(Time(0), Task::new(TaskId(id), attr, ()), Enqueue::Woken).unwrap();
    /// }
    /// let followed = rq.follow(Time(0), Prev::Idle, Some(TaskId(2)));
    /// assert_eq!(followed.own, Some(TaskId(1)));
    /// assert_eq!(followed.switch.next, Some((TaskId(2), ())));
    /// ```
    ///
    /// # Panics
    /// If `prev` does not match the task that runs here.
    pub fn follow(&mut self, now: Time, prev: Prev<P>, next: Option<TaskId>) -> Followed<P> {
        let classes = self.at(now);
        let curr = classes.queues().tasks().curr().map(|task| task.id);
        let goes_on = matches!(prev, Prev::Preempted(_)) && !classes.next().is_due();
        classes.next_mut().ask(!goes_on || curr != next);
        let mut own = None;
        let switch = self.switch_by(now, prev, |rq, before| {
            let at;
            (own, at) = rq.classes.pick_recorded(before, next);
            rq.begin(at, false)
        });
        Followed { switch, own: if goes_on { curr } else { own } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Attr, Nice, Policy};
    use crate::cpu::{CpuId, CpuSet};
    use crate::kernel::{Kernel, Model};
    use crate::run_queue::Enqueue;
    use crate::task::Task;
    use crate::topology::Topology;
    use std::sync::Arc;

    /// Seen failing: the place counted from a clock that the queue had kept from before the wake-up.
    #[test]
    fn the_places_of_all_tasks_balance_at_the_virtual_clock() {
        let config = Model::named(Kernel::V6_12).config(Topology::flat(1).unwrap());
        let mut rq: RunQueue<(), ()> = RunQueue::new(CpuId(0), Arc::new(config), Arc::new(()));
        let nice = |id: u64| Nice::new(5 * id as i64 - 10).unwrap();
        for id in [1, 2, 3] {
            let mut attr = Attr::normal(CpuSet::only(CpuId(0)));
            attr.policy = Policy::Normal(nice(id));
            let _ = rq.offer(Time(0), Task::new(TaskId(id), attr, ()), Enqueue::Woken).unwrap();
        }
        let ms = |ms: u64| Time(ms * 1_000_000);
        let _ = rq.follow(ms(0), Prev::Idle, Some(TaskId(1)));
        let _ = rq.follow(ms(5), Prev::Preempted(()), Some(TaskId(2)));
        // It sleeps with a positive lag, and comes back before the average.
        let slept = rq.follow(ms(6), Prev::Blocked(()), Some(TaskId(3)));
        let (task, _) = slept.switch.released.unwrap();
        let _ = rq.offer(ms(8), task, Enqueue::Woken).unwrap();
        let places = rq.tasks().iter().map(|(at, task)| {
            let weight = i64::from(task.attr.policy.weight().get());
            (rq.place(at).unwrap().ahead * weight, weight)
        });
        let (ahead, load) = places.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        assert!((0..load).contains(&ahead), "{ahead} of {load}: rounded down by less than 1 ns");
    }
}
