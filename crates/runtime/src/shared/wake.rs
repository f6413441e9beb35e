//! The wake-ups of tasks, and the requests to change them.

use super::Scheduler;
use crate::crew::kick::{DeferOwnKick, KickNow, ring};
use crate::os;
use crate::os::here;
use crate::shared::paused::{Host, Look};
use crate::task::{Cell, Job};
use crate::worker::POLL_GRACE;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::{Prev, Switch};
use runyard_engine::task::{Change, TaskId};
use runyard_engine::time::Time;
use runyard_smp::machine::TaskOf;

impl Scheduler {
    /// Parks a task that has blocked, or wakes it if it was woken meanwhile.
    pub(crate) fn park_blocked(&self, task: TaskOf<Job>) {
        if let Some((task, since)) = Cell::park(task) {
            self.wake(os::thread::now(), task, since);
        }
    }

    /// Wakes a blocked task, which is runnable since `since`.
    pub(crate) fn wake(&self, now: Time, task: TaskOf<Job>, since: Time) {
        self.tell_wake(&task, since);
        self.queue(now, task, false);
    }

    /// Wakes a blocked task, which is runnable from now on.
    pub(crate) fn wake_now(&self, task: TaskOf<Job>) {
        let now = os::thread::now();
        self.wake(now, task, now);
    }

    /// Enqueues a task. If the caller is in a poll, and both are fair, the task goes to the caller's run queue. It then
    /// waits for the end of that poll, though not for long.
    pub(super) fn queue(&self, now: Time, mut task: TaskOf<Job>, is_new: bool) {
        let poll = self
            .here(|worker| worker.poll.cpu(&worker.thread))
            .flatten()
            .or_else(here::cpu_of_poll);
        if is_new && poll.is_none() && self.dispatch.is_on() {
            task = match self.welcome(now, task) {
                Ok(()) => return,
                Err(task) => task,
            };
        }
        let fx = &mut KickNow(self);
        let Some(own) = poll.filter(|_| task.class().is_fair()) else {
            match is_new {
                true => self.machine.spawn(now, task, poll, fx),
                false => match self
                    .here(|worker| worker.own.drives().then(|| worker.thread.own_cpu()).flatten())
                    .flatten()
                {
                    Some(idle) => self.machine.wake_here(now, task, idle, fx),
                    None => {
                        let waker = self.here(|worker| worker.thread.own_cpu());
                        self.machine.wake(now, task, waker.flatten().or_else(here::cpu), fx)
                    }
                },
            };
            return;
        };
        let fx = &mut DeferOwnKick { scheduler: self, own, kicked: false };
        let to = match is_new {
            true => self.machine.spawn_sync(now, task, own, fx),
            false => self.machine.wake_sync(now, task, own, fx),
        };
        if let Some(host) = self.paused.as_ref().filter(|_| fx.kicked || to == own) {
            host.look(own, Look { at: now + POLL_GRACE, kicked: fx.kicked });
        } else if fx.kicked || to == own {
            let owns = self.here(|worker| {
                worker.poll.look_soon(&worker.thread, now, fx.kicked);
                worker.thread.owns()
            });
            if owns != Some(true) {
                // The slot was taken meanwhile.
                ring(self, own);
            }
        }
    }

    /// Applies a request to the task of `cell`.
    pub(crate) fn change(&self, cell: &Cell, change: Change) {
        let may_ask = self.paused.is_none() || here::is_paused();
        assert!(may_ask, "a thread outside of virtual time cannot change tasks");
        self.machine.change(os::thread::now(), cell, change, &mut KickNow(self));
        self.claim(&cell.tag);
    }

    /// Returns the CPU near which a task starts that is not spawned on a worker.
    pub(super) fn first_cpu(&self) -> CpuId {
        let drawn = |host: &Host| CpuId::at(host.draw(self.crew.slots().len()));
        here::cpu().or_else(|| self.paused.as_ref().map(drawn)).unwrap_or_default()
    }

    /// Schedules the CPU of the calling worker. `curr` is the task that `prev` describes.
    pub(crate) fn decide(
        &self,
        now: Time,
        cpu: CpuId,
        prev: Prev<Job>,
        curr: Option<TaskId>,
    ) -> Switch<Job> {
        let left = curr.zip(prev.left());
        let switch = self.machine.schedule(now, cpu, prev, &mut KickNow(self));
        let next = switch.next.as_ref().map(|&(id, _)| id);
        self.tell(cpu, || What::Switch { prev: left, next });
        switch
    }
}
