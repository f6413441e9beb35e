//! The spawn of a task.

use super::Shared;
use crate::group::Membership;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::future::Joined;
use crate::os::here;
use crate::os::sync::{Arc, lock};
use crate::registry::NextId;
use crate::task::builder::TaskBuilder;
use crate::task::{Asked, Cell, Head, Heritage, Job, JoinHandle, Kind, NewCell, NewTask, Todo};
use runyard_engine::attr::{Attr, GroupId, Policy, RtPrio};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::timer::DEFAULT_SLACK;
use runyard_smp::machine::TaskOf;
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

    /// Spawns a task that asks for no attributes.
    #[track_caller]
    #[inline]
    pub(crate) fn spawn_heir<F>(self: &Arc<Shared>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match Heritage::is_plain(self.number) {
            true => self.spawn_new(future),
            false => TaskBuilder::default().spawn_in(self, future),
        }
    }

    /// Spawns a task that asks for no attributes, and inherits none. Otherwise, and in a child of fork, the future stays
    /// where it is.
    #[inline]
    pub(crate) fn spawn_plain<F>(
        self: &Arc<Shared>,
        future: &mut Option<F>,
    ) -> Option<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let may_spawn = Heritage::is_plain(self.number) && !os::fork::is_child();
        may_spawn.then(|| future.take()).flatten().map(|future| self.spawn_new(future))
    }

    /// Spawns a task with the attributes of one that nobody asks for any.
    #[track_caller]
    #[inline]
    fn spawn_new<F>(self: &Arc<Shared>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let attr = Attr::normal(self.scheduler.all(&self.registry).clone());
        let new = NewTask {
            attr,
            slack: here::default_slack(),
            reset_on_fork: false,
            group: None,
            has_affinity: false,
            name: None,
            kind: Kind::Future,
        };
        self.spawn(future, new)
    }

    #[track_caller]
    #[inline]
    pub(crate) fn spawn<F>(self: &Arc<Shared>, future: F, new: NewTask) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        os::fork::refuse_in_child("a task cannot be spawned");
        let bequeaths = new.bequeaths();
        let NewTask { attr, slack, reset_on_fork, group, has_affinity, name, kind } = new;
        let asked = Asked::new(&attr, reset_on_fork);
        let light = match kind {
            Kind::Server => true,
            Kind::Future => !self.scheduler.crew.preemption().is_on,
            Kind::Function => false,
        };
        let new = NewCell { name, asked, slack, kind, bequeaths, light };
        let is_plain = group.is_none()
            && attr.cookie.is_none()
            && !has_affinity
            && kind != Kind::Server
            && self.scheduler.paused.is_none();
        let nth = self.registry.part(&self.scheduler);
        let mut future = Some(future);
        let revive = |id: &mut NextId<'_>, cell: &mut Arc<Cell>| {
            os::future::renewed(cell, |head| head.renew(|| id.take(), &new), &mut future)
        };
        let revived = if is_plain { self.registry.revive(nth, revive) } else { None };
        let (used, cell, result) = match revived {
            Some((mut used, result)) => {
                let job = used.payload.take().expect("its cell was used again");
                (Some(used), job.cell, result)
            }
            None => {
                let future = future.expect("the future waits for a cell");
                let (cell, result) = self.new_cell(future, new);
                if let Some(group) = group {
                    without_preemption(|| *lock(&cell.rest().membership) = Membership::of(group));
                }
                if attr.cookie.is_some() {
                    cell.note_cookie(attr.cookie);
                }
                if has_affinity {
                    cell.note_affinity(&attr.affinity);
                }
                let Some(used) = self.registry.enroll(&cell, nth) else {
                    refuse(&cell);
                    return JoinHandle::new(result);
                };
                (used, cell, result)
            }
        };
        let id = cell.id;
        let job = Job { cell, todo: Todo::Poll };
        let task = match used {
            Some(used) => used.renewed(id, attr, job),
            None => {
                let groups = self.bounds.max_groups;
                self.registry.count_box(|tasks| self.scheduler.make_room(tasks, groups));
                runyard_engine::task::Task::new(id, attr, job)
            }
        };
        self.begin(task);
        JoinHandle::new(result)
    }

    /// Makes a cell in memory of its own.
    #[track_caller]
    fn new_cell<F>(
        self: &Arc<Shared>,
        future: F,
        new: NewCell,
    ) -> (Arc<Cell>, Joined<Head, F::Output>)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let id = self.registry.next_id();
        if let Some(host) = &self.scheduler.paused {
            host.note_place(id, Location::caller(), self.registry.is_closed());
        }
        os::future::task(Head::new(self.clone(), id, new), future)
    }

    /// Queues a task for the first time.
    fn begin(&self, mut task: TaskOf<Job>) {
        if self.scheduler.machine.config().accounts {
            task.keep_account();
        }
        without_preemption(|| {
            let (now, scheduler) = (os::thread::now(), &self.scheduler);
            let mut task = match scheduler.by_worker(task, |worker, task| worker.spawns(now, task))
            {
                Ok(()) => return,
                Err(task) => task,
            };
            task.set_cpu(
                scheduler
                    .here(|worker| worker.thread.cpu())
                    .unwrap_or_else(|| scheduler.first_cpu()),
            );
            scheduler.tell(task.cpu(), || What::Spawn { task: task.id });
            scheduler.tell_wake(&task, now);
            scheduler.queue(now, task, true);
        });
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
    os::future::run(os::future::Found::new(cell));
}
