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
