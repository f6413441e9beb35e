//! The state of all shared objects in a run.

use super::kinds::{Awaited, Barrier, Condition, Mutex, Pipe, Semaphore, Suspension};
use crate::scenario::{self, MutexKind, ObjectId};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;

/// All shared objects, each kind by [`ObjectId`].
#[derive(Debug)]
pub struct Objects {
    pub(super) mutexes: Vec<Mutex>,
    pub(super) conditions: Vec<Condition>,
    pub(super) barriers: Vec<Barrier>,
    pub(super) semaphores: Vec<Semaphore>,
    pub(super) suspensions: Vec<Suspension>,
    pub(super) pipes: Vec<Pipe>,
    /// The times at which shared timers are due next.
    timers: Vec<Option<Time>>,
}

impl Objects {
    /// Returns the objects of a scenario in their initial state.
    #[must_use]
    pub fn new(objects: &scenario::Objects) -> Objects {
        fn some<T: Default>(names: &[String]) -> Vec<T> {
            names.iter().map(|_| T::default()).collect()
        }
        Objects {
            mutexes: objects.mutexes.iter().map(|&(_, kind)| Mutex::of(kind)).collect(),
            conditions: some(&objects.conditions),
            barriers: objects.barriers.iter().map(|&(_, users)| Barrier::new(users)).collect(),
            semaphores: some(&objects.semaphores),
            suspensions: some(&objects.suspends),
            pipes: objects.pipes.iter().map(|&(_, capacity)| Pipe::new(capacity)).collect(),
            timers: some(&objects.timers),
        }
    }

    /// Leaves the mutexes of these kinds to the host. Only their conditions are handled here.
    pub fn leave_to_host(&mut self, is_host: impl Fn(MutexKind) -> bool) {
        self.mutexes.iter_mut().for_each(|mutex| mutex.set_elsewhere(is_host(mutex.kind())));
    }

    /// Returns the kind of a mutex.
    #[must_use]
    pub fn kind(&self, mutex: ObjectId) -> MutexKind {
        self.mutexes[mutex.0 as usize].kind()
    }

    /// Returns the task that owns a mutex.
    #[must_use]
    pub fn owner(&self, mutex: ObjectId) -> Option<TaskId> {
        self.mutexes[mutex.0 as usize].owner()
    }

    /// Returns the tasks that wait for a mutex, in the order of their arrival.
    pub fn waiters(&self, mutex: ObjectId) -> impl Iterator<Item = TaskId> + '_ {
        self.mutexes[mutex.0 as usize].waiters()
    }

    /// Returns the begin of a shared timer's current period, once a task has used the timer.
    pub fn period_mut(&mut self, timer: ObjectId) -> &mut Option<Time> {
        &mut self.timers[timer.0 as usize]
    }

    /// Returns whether a post would make the value of a semaphore larger than `bound`. None does while a task waits.
    #[must_use]
    pub fn is_full(&self, semaphore: ObjectId, bound: u32) -> bool {
        self.semaphores[semaphore.0 as usize].is_full(bound)
    }

    /// Removes a task that ends from the tasks that wait for an action of another task.
    pub fn forget(&mut self, task: TaskId, awaited: Awaited) {
        match awaited {
            Awaited::Mutex(id) => self.mutexes[id.0 as usize].forget(task),
            Awaited::Condition(id) => self.conditions[id.0 as usize].forget(task),
            Awaited::Barrier(id) => self.barriers[id.0 as usize].forget(task),
            Awaited::Semaphore(id) => self.semaphores[id.0 as usize].forget(task),
            Awaited::Resume(id) => self.suspensions[id.0 as usize].forget(task),
            Awaited::Bytes(id) | Awaited::Room(id) => self.pipes[id.0 as usize].forget(task),
        }
    }

    /// Returns a violated invariant of the waiters, if there is one.
    #[must_use]
    pub fn check(&self) -> Option<String> {
        let broken =
            |what: &str, at: usize| format!("a task waits for {what} {at}, which is available");
        None.or_else(|| Some(broken("mutex", self.mutexes.iter().position(Mutex::is_stuck)?)))
            .or_else(|| Some(broken("barrier", self.barriers.iter().position(Barrier::is_stuck)?)))
            .or_else(|| {
                Some(broken("semaphore", self.semaphores.iter().position(Semaphore::is_stuck)?))
            })
            .or_else(|| Some(broken("pipe", self.pipes.iter().position(Pipe::can_move)?)))
    }
}
