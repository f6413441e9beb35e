//! The effects on shared objects of the steps that concern other tasks, implemented once for all hosts.

use super::kinds::Awaited;
use super::state::Objects;
use crate::scenario::{ObjectId, Step};
use runyard_engine::attr::RtPrio;
use runyard_engine::task::TaskId;

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
                while self.objects().conditions[cond.0 as usize].is_awaited() {
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
                self.objects_mut().suspensions[id.0 as usize].push(task);
                return Some(Awaited::Resume(id));
            }
            Step::Resume(id) => {
                let resumed = self.objects_mut().suspensions[id.0 as usize].resume();
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
        let owns = self.objects_mut().mutexes[id.0 as usize].lock(task);
        self.took_or_queued(task, id, owns)
    }

    /// Lets `task`, which was woken to take `mutex`, try to take it. Returns the action that the task has to wait for,
    /// if any.
    fn try_again(&mut self, task: TaskId, id: ObjectId) -> Option<Awaited> {
        let owns = self.objects_mut().mutexes[id.0 as usize].try_again(task);
        self.took_or_queued(task, id, owns)
    }

    /// Lets the next task have `mutex` instead of `task`, which was woken to take it and ends. If another task has it, `task`
    /// is queued, and its host ends that wait as any other.
    fn forgo(&mut self, task: TaskId, id: ObjectId) {
        if self.try_again(task, id).is_none() {
            self.unlock(task, id);
        }
    }

    #[doc(hidden)]
    fn took_or_queued(&mut self, task: TaskId, id: ObjectId, owns: bool) -> Option<Awaited> {
        if owns {
            self.took(task, id);
            return None;
        }
        self.queued(task, id);
        Some(Awaited::Mutex(id))
    }

    /// Gives the mutex to the next waiter, or wakes that waiter to try. As with a mutex that checks its owner, a
    /// release by another task does nothing.
    #[doc(hidden)]
    fn unlock(&mut self, task: TaskId, id: ObjectId) {
        let mutex = &self.objects().mutexes[id.0 as usize];
        if mutex.owner() != Some(task) {
            return;
        }
        let barges = mutex.barges();
        self.gave_back(task, id);
        let first = self.objects().mutexes[id.0 as usize].first(|waiter| self.rt_prio(waiter));
        let mutex = &mut self.objects_mut().mutexes[id.0 as usize];
        if barges {
            if let Some(woken) = mutex.free(first) {
                self.wake_to_try(task, woken, id);
            }
        } else if let Some(next) = mutex.hand_over(first) {
            self.took(next, id);
            self.wake(task, next);
            self.handed_over(next);
        }
    }

    #[doc(hidden)]
    fn wait(&mut self, task: TaskId, cond: ObjectId, mutex: ObjectId) -> Awaited {
        self.objects_mut().conditions[cond.0 as usize].push(task, mutex);
        self.unlock(task, mutex);
        Awaited::Condition(cond)
    }

    /// Wakes the first waiter, which then takes its mutex. If that mutex hands over and is taken, the waiter queues
    /// there without a wake-up.
    #[doc(hidden)]
    fn signal(&mut self, task: TaskId, cond: ObjectId) {
        let first = self.objects().conditions[cond.0 as usize].first(|waiter| self.rt_prio(waiter));
        let condition = &mut self.objects_mut().conditions[cond.0 as usize];
        let Some((woken, mutex)) = first.and_then(|at| condition.remove(at)) else { return };
        let of = &mut self.objects_mut().mutexes[mutex.0 as usize];
        if of.is_elsewhere() {
            self.wake(task, woken);
        } else if of.barges() {
            of.expect_try();
            self.wake_to_try(task, woken, mutex);
        } else if self.lock(woken, mutex).is_none() {
            self.wake(task, woken);
        }
    }

    #[doc(hidden)]
    fn post(&mut self, task: TaskId, id: ObjectId) {
        if let Some(woken) = self.raise(id) {
            self.wake(task, woken);
        }
    }

    /// Posts a semaphore on behalf of no task. Returns the task to wake, if one waits.
    fn raise(&mut self, id: ObjectId) -> Option<TaskId> {
        let first = self.objects().semaphores[id.0 as usize].first(|waiter| self.rt_prio(waiter));
        self.objects_mut().semaphores[id.0 as usize].post(first)
    }

    #[doc(hidden)]
    fn lower(&mut self, task: TaskId, id: ObjectId) -> Option<Awaited> {
        let lowered = self.objects_mut().semaphores[id.0 as usize].lower(task);
        (!lowered).then_some(Awaited::Semaphore(id))
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
