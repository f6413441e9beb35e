//! The spawn of a task, its wake-ups, and the requests to change it.

use super::Shared;
use crate::crew::kick::{DeferOwnKick, KickNow, ring};
use crate::group::Membership;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::here;
use crate::os::sync::{Arc, lock};
use crate::shared::paused::Look;
use crate::task::{Asked, Cell, Head, Job, JoinHandle, NewCell, NewTask, Todo};
use crate::worker::{POLL_GRACE, Worker};
use runyard_engine::attr::{Attr, GroupId, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::task::Change;
use runyard_engine::time::Time;
use runyard_engine::timer::DEFAULT_SLACK;
use runyard_smp::machine::TaskOf;
use std::future::Future;
use std::panic::Location;

impl Shared {
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

    /// Enqueues a task. If the caller is in a poll, and both are fair, the task goes to the caller's run queue. It then
    /// waits for the end of that poll, though not for long.
    fn queue(&self, now: Time, mut task: TaskOf<Job>, is_new: bool) {
        let poll = self.here(Worker::cpu_of_poll).flatten().or_else(here::cpu_of_poll);
        if is_new && !self.dispatch.batches.is_empty() {
            task = match self.welcome(now, task, poll) {
                Ok(()) => return,
                Err(task) => task,
            };
        }
        let fx = &mut KickNow(self);
        let Some(own) = poll.filter(|_| task.class().is_fair()) else {
            match is_new {
                true => self.machine.spawn(now, task, poll, fx),
                false => match self.here(Worker::cpu_of_driver).flatten() {
                    Some(idle) => self.machine.wake_here(now, task, idle, fx),
                    None => {
                        let waker = self.here(|worker| worker.owns().then(|| worker.cpu()));
                        self.machine.wake(now, task, waker.flatten().or_else(here::cpu), fx)
                    }
                },
            };
            return;
        };
        let fx = &mut DeferOwnKick { shared: self, own, kicked: false };
        let to = match is_new {
            true => self.machine.spawn_sync(now, task, own, fx),
            false => self.machine.wake_sync(now, task, own, fx),
        };
        if let Some(host) = self.paused.as_ref().filter(|_| fx.kicked || to == own) {
            host.look(own, Look { at: now + POLL_GRACE, kicked: fx.kicked });
        } else if fx.kicked || to == own {
            let owns = self.here(|worker| {
                worker.look_soon(now, fx.kicked);
                worker.owns()
            });
            if owns != Some(true) {
                // The slot was taken meanwhile.
                ring(self, own);
            }
        }
    }

    /// Applies a request to the task of `cell`.
    pub(crate) fn change(&self, cell: &Cell, change: Change) {
        self.assert_that_may_ask();
        self.machine.change(os::thread::now(), cell, change, &mut KickNow(self));
        self.claim(&cell.tag);
    }

    /// Spawns a task of the runtime itself on one CPU, where it goes before all others.
    pub(crate) fn spawn_server(
        self: &Arc<Shared>,
        name: &str,
        cpu: CpuId,
        server: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut attr = Attr::normal([cpu].into_iter().collect());
        attr.policy = Policy::Fifo(RtPrio::MAX);
        attr.group = GroupId::ROOT;
        let new = NewTask {
            attr,
            slack: DEFAULT_SLACK,
            reset_on_fork: true,
            group: None,
            // The task's thread must not be bound: a thread that a foreign waker starts would inherit that.
            has_affinity: false,
            name: Some(name.to_owned()),
            serves: true,
            blocks: false,
        };
        drop(self.spawn(server, new));
    }

    #[track_caller]
    pub(crate) fn spawn<F>(self: &Arc<Shared>, future: F, new: NewTask) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        os::fork::refuse_in_child("a task cannot be spawned");
        let id = self.registry.next_id();
        self.note_place(id, Location::caller());
        let bequeaths = new.bequeaths();
        let NewTask { attr, slack, reset_on_fork, group, has_affinity, name, serves, blocks } = new;
        let asked = Asked::new(&attr, reset_on_fork);
        let light = serves || !(self.preemption.is_on || blocks);
        let new = NewCell { id, name, asked, slack, serves, bequeaths, light };
        let (cell, result) = os::future::task(Head::new(self.clone(), new), future);
        let result = JoinHandle::new(result);
        if let Some(group) = group {
            without_preemption(|| *lock(&cell.rest().membership) = Membership::of(group));
        }
        if attr.cookie.is_some() {
            cell.note_cookie(attr.cookie);
        }
        if has_affinity {
            cell.note_affinity(&attr.affinity);
        }
        let Some(used) = self.registry.enroll(&cell, self.part()) else {
            refuse(&cell);
            return result;
        };
        let job = Job { cell, todo: Todo::Poll };
        let mut task = match used {
            Some(used) => used.renewed(id, attr, job),
            None => self.new_box(id, attr, job),
        };
        if self.machine.config().accounts {
            task.keep_account();
        }
        without_preemption(|| {
            let now = os::thread::now();
            task.set_cpu(self.here(Worker::cpu).unwrap_or_else(|| self.first_cpu()));
            self.tell(task.cpu(), || What::Spawn { task: id });
            self.tell_wake(&task, now);
            self.queue(now, task, true);
        });
        result
    }
}

/// Cancels a task that the runtime, which ends, does not accept. Its future is dropped like that of an aborted task.
#[cold]
fn refuse(cell: &Arc<Cell>) {
    cell.note_aborted();
    os::future::run(cell);
}
