//! The spawn of a task.

use super::Shared;
use crate::group::Membership;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::sync::{Arc, lock};
use crate::task::{Asked, Cell, Head, Job, JoinHandle, Kind, NewCell, NewTask, Todo};
use runyard_engine::attr::{Attr, GroupId, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::timer::DEFAULT_SLACK;
use std::future::Future;
use std::panic::Location;

impl Shared {
    /// Spawns a task of the runtime itself on one CPU, where it goes before all others.
    pub(crate) fn spawn_server(
        self: &Arc<Shared>,
        name: &str,
        cpu: CpuId,
        server: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut attr = Attr::normal([cpu].into_iter().collect());
        attr.policy = Policy::Fifo(RtPrio::MAX);
        drop(self.spawn(server, own_task(attr, Some(name.to_owned()))));
    }

    /// Spawns the task that stands in for a future of `block_on`, where tasks run on its thread.
    pub(crate) fn spawn_stand_in(
        self: &Arc<Shared>,
        stand_in: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Cell> {
        let all = self.scheduler.machine.all().clone();
        self.spawn(stand_in, own_task(Attr::normal(all), None)).task().cell.clone()
    }

    #[track_caller]
    pub(crate) fn spawn<F>(self: &Arc<Shared>, future: F, new: NewTask) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        os::fork::refuse_in_child("a task cannot be spawned");
        let id = self.registry.next_id();
        if let Some(host) = &self.scheduler.paused {
            host.note_place(id, Location::caller(), self.registry.is_closed());
        }
        let bequeaths = new.bequeaths();
        let NewTask { attr, slack, reset_on_fork, group, has_affinity, name, kind } = new;
        let asked = Asked::new(&attr, reset_on_fork);
        let light = match kind {
            Kind::Server => true,
            Kind::Future => !self.scheduler.crew.preemption().is_on,
            Kind::Function => false,
        };
        let new = NewCell { id, name, asked, slack, kind, bequeaths, light };
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
        let Some(used) = self.registry.enroll(&cell, self.registry.part(&self.scheduler)) else {
            refuse(&cell);
            return result;
        };
        let job = Job { cell, todo: Todo::Poll };
        let mut task = match used {
            Some(used) => used.renewed(id, attr, job),
            None => {
                let groups = self.bounds.max_groups;
                self.registry.count_box(|tasks| self.scheduler.make_room(tasks, groups));
                runyard_engine::task::Task::new(id, attr, job)
            }
        };
        if self.scheduler.machine.config().accounts {
            task.keep_account();
        }
        without_preemption(|| {
            let (now, scheduler) = (os::thread::now(), &self.scheduler);
            task.set_cpu(
                scheduler
                    .here(|worker| worker.thread.cpu())
                    .unwrap_or_else(|| scheduler.first_cpu()),
            );
            scheduler.tell(task.cpu(), || What::Spawn { task: id });
            scheduler.tell_wake(&task, now);
            scheduler.queue(now, task, true);
        });
        result
    }
}

/// Returns a new task of the runtime itself, which ends after all others.
fn own_task(attr: Attr, name: Option<String>) -> NewTask {
    NewTask {
        attr: Attr { group: GroupId::ROOT, ..attr },
        slack: DEFAULT_SLACK,
        reset_on_fork: true,
        group: None,
        // The task's thread must not be bound: a thread that a foreign waker starts would inherit that.
        has_affinity: false,
        name,
        kind: Kind::Server,
    }
}

/// Cancels a task that the runtime, which ends, does not accept. Its future is dropped like that of an aborted task.
#[cold]
fn refuse(cell: &Arc<Cell>) {
    cell.note_aborted();
    os::future::run(cell);
}
