//! The effects on shared objects of the steps that concern other tasks, implemented once for all hosts.

use super::{Objects, best};
use crate::scenario::{ObjectId, Step};
use runyard_engine::attr::RtPrio;
use runyard_engine::task::TaskId;

/// The action of another task that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// The release of the mutex.
    Mutex(ObjectId),
    /// A signal of the condition.
    Condition(ObjectId),
    /// The arrival of the other users at the barrier.
    Barrier(ObjectId),
    /// A post of the semaphore.
    Semaphore(ObjectId),
    /// A resumption by name.
    Resume(ObjectId),
    /// Bytes in a pipe.
    Bytes(ObjectId),
    /// Room in a pipe.
    Room(ObjectId),
}

/// A host with tasks that share objects. The host gives the priorities of its tasks and wakes them. The provided
/// methods perform the steps.
pub trait Sharing {
    /// Returns the shared objects.
    fn objects(&self) -> &Objects;

    /// Returns the shared objects for a change.
    fn objects_mut(&mut self) -> &mut Objects;

    /// Returns the real-time priority of `task`, its own or inherited.
    fn rt_prio(&self, task: TaskId) -> Option<RtPrio>;

    /// Makes `waker` wake `woken`, because the awaited action has happened.
    fn wake(&mut self, waker: TaskId, woken: TaskId);

    /// Makes `waker` wake `woken`, which then tries to take `mutex` by [`Sharing::try_again`] when it executes.
    fn wake_to_try(&mut self, waker: TaskId, woken: TaskId, mutex: ObjectId);

    /// Notes that `task` owns `mutex` from now on.
    fn took(&mut self, task: TaskId, mutex: ObjectId) {
        let _ = (task, mutex);
    }

    /// Notes that `task` waits for `mutex` from now on.
    fn queued(&mut self, task: TaskId, mutex: ObjectId) {
        let _ = (task, mutex);
    }

    /// Notes that `task` no longer owns `mutex`.
    fn gave_back(&mut self, task: TaskId, mutex: ObjectId) {
        let _ = (task, mutex);
    }

    /// Notes that `task`, which is to be woken, was given a mutex that others wait for.
    fn handed_over(&mut self, task: TaskId) {
        let _ = task;
    }

    /// Takes a step of `task` that concerns other tasks. Returns the action that the task has to wait for, if any.
    ///
    /// # Panics
    /// If the step concerns no other task.
    fn take_shared_step(&mut self, task: TaskId, step: &Step) -> Option<Awaited> {
        match *step {
            Step::Lock(mutex) => return self.lock(task, mutex),
            Step::Unlock(mutex) => self.unlock(task, mutex),
            Step::Wait { cond, mutex } => return Some(self.wait(task, cond, mutex)),
            Step::Sync { cond, mutex } => {
                self.signal(task, cond);
                return Some(self.wait(task, cond, mutex));
            }
            Step::Signal(cond) => self.signal(task, cond),
            Step::Broadcast(cond) => {
                while !self.objects().conditions[cond.0 as usize].waiters.is_empty() {
                    self.signal(task, cond);
                }
            }
            Step::Barrier(id) => match self.objects_mut().barriers[id.0 as usize].arrive(task) {
                None => return Some(Awaited::Barrier(id)),
                Some(others) => self.wake_all(task, others),
            },
            Step::SemPost(id) => self.post(task, id),
            Step::SemWait(id) => return self.lower(task, id),
            Step::Suspend(id) => {
                self.objects_mut().suspended[id.0 as usize].push(task);
                return Some(Awaited::Resume(id));
            }
            Step::Resume(id) => {
                let resumed = self.objects_mut().resume(id);
                self.wake_all(task, resumed);
            }
            Step::Send { pipe, bytes } => {
                let served = self.objects_mut().pipes[pipe.0 as usize].send(task, bytes);
                return self.served(task, Awaited::Room(pipe), served);
            }
            Step::Recv { pipe, bytes } => {
                let served = self.objects_mut().pipes[pipe.0 as usize].receive(task, bytes);
                return self.served(task, Awaited::Bytes(pipe), served);
            }
            ref other => unreachable!("{other:?} concerns no other task"),
        }
        None
    }

    /// Takes a mutex for `task`, or queues the task at the mutex.
    #[doc(hidden)]
    fn lock(&mut self, task: TaskId, id: ObjectId) -> Option<Awaited> {
        let mutex = &mut self.objects_mut().mutexes[id.0 as usize];
        mutex.contended = mutex.owner.is_some();
        self.lock_or_queue(task, id)
    }

    /// Lets `task`, which was woken to take `mutex`, try to take it. Returns the action that the task has to wait for,
    /// if any.
    fn try_again(&mut self, task: TaskId, id: ObjectId) -> Option<Awaited> {
        let mutex = &mut self.objects_mut().mutexes[id.0 as usize];
        mutex.on_the_way -= 1;
        // The task does not know of other waiters, so it assumes that there are some.
        mutex.contended = true;
        self.lock_or_queue(task, id)
    }

    #[doc(hidden)]
    fn lock_or_queue(&mut self, task: TaskId, id: ObjectId) -> Option<Awaited> {
        let mutex = &mut self.objects_mut().mutexes[id.0 as usize];
        if mutex.owner.is_none() {
            mutex.owner = Some(task);
            self.took(task, id);
            return None;
        }
        mutex.waiters.push(task);
        self.queued(task, id);
        Some(Awaited::Mutex(id))
    }

    /// Gives the mutex to the next waiter, or wakes that waiter to try. As with a mutex that checks its owner, a
    /// release by another task does nothing.
    #[doc(hidden)]
    fn unlock(&mut self, task: TaskId, id: ObjectId) {
        let mutex = &self.objects().mutexes[id.0 as usize];
        if mutex.owner != Some(task) {
            return;
        }
        let barges = mutex.barges();
        self.gave_back(task, id);
        if barges {
            return self.free(task, id);
        }
        let waiters = &self.objects().mutexes[id.0 as usize].waiters;
        let first = waiters.best(|waiter| self.rt_prio(waiter));
        let mutex = &mut self.objects_mut().mutexes[id.0 as usize];
        mutex.owner = first.and_then(|at| mutex.waiters.remove(at));
        if let Some(next) = mutex.owner {
            self.took(next, id);
            self.wake(task, next);
            self.handed_over(next);
        }
    }

    /// Frees a mutex that barges, and wakes one waiter if there may be any.
    #[doc(hidden)]
    fn free(&mut self, task: TaskId, id: ObjectId) {
        let waiters = &self.objects().mutexes[id.0 as usize].waiters;
        let first = waiters.best(|waiter| self.rt_prio(waiter));
        let mutex = &mut self.objects_mut().mutexes[id.0 as usize];
        mutex.owner = None;
        let first = first.filter(|_| std::mem::take(&mut mutex.contended));
        if let Some(woken) = first.and_then(|at| mutex.waiters.remove(at)) {
            mutex.on_the_way += 1;
            self.wake_to_try(task, woken, id);
        }
    }

    #[doc(hidden)]
    fn wait(&mut self, task: TaskId, cond: ObjectId, mutex: ObjectId) -> Awaited {
        self.objects_mut().conditions[cond.0 as usize].waiters.push_back((task, mutex));
        self.unlock(task, mutex);
        Awaited::Condition(cond)
    }

    /// Wakes the first waiter, which then takes its mutex. If that mutex hands over and is taken, the waiter queues
    /// there without a wake-up.
    #[doc(hidden)]
    fn signal(&mut self, task: TaskId, cond: ObjectId) {
        let waiters = &self.objects().conditions[cond.0 as usize].waiters;
        let first = best(waiters.len(), |at| self.rt_prio(waiters[at].0));
        let waiters = &mut self.objects_mut().conditions[cond.0 as usize].waiters;
        let Some((woken, mutex)) = first.and_then(|at| waiters.remove(at)) else { return };
        let of = &mut self.objects_mut().mutexes[mutex.0 as usize];
        if of.elsewhere {
            self.wake(task, woken);
        } else if of.barges() {
            of.on_the_way += 1;
            self.wake_to_try(task, woken, mutex);
        } else if self.lock(woken, mutex).is_none() {
            self.wake(task, woken);
        }
    }

    #[doc(hidden)]
    fn post(&mut self, task: TaskId, id: ObjectId) {
        let waiters = &self.objects().semaphores[id.0 as usize].waiters;
        let first = waiters.best(|waiter| self.rt_prio(waiter));
        let semaphore = &mut self.objects_mut().semaphores[id.0 as usize];
        match first.and_then(|at| semaphore.waiters.remove(at)) {
            Some(woken) => self.wake(task, woken),
            None => semaphore.value += 1,
        }
    }

    #[doc(hidden)]
    fn lower(&mut self, task: TaskId, id: ObjectId) -> Option<Awaited> {
        let semaphore = &mut self.objects_mut().semaphores[id.0 as usize];
        if semaphore.value > 0 {
            semaphore.value -= 1;
            return None;
        }
        semaphore.waiters.push(task);
        Some(Awaited::Semaphore(id))
    }

    /// Wakes the tasks with complete requests at a pipe. `task` waits unless its own request is among them.
    #[doc(hidden)]
    fn served(&mut self, task: TaskId, own: Awaited, served: Vec<TaskId>) -> Option<Awaited> {
        let is_served = served.contains(&task);
        self.wake_all(task, served.into_iter().filter(|&other| other != task).collect());
        (!is_served).then_some(own)
    }

    #[doc(hidden)]
    fn wake_all(&mut self, task: TaskId, others: Vec<TaskId>) {
        others.into_iter().for_each(|other| self.wake(task, other));
    }
}
