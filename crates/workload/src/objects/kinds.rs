//! The kinds of objects: each keeps its waiters, and names the tasks to wake.
//!
//! A waiter is chosen before the object changes, as its priority is the host's: `first` returns its place, and the
//! change takes that place.

use crate::scenario::{MutexKind, ObjectId};
use runyard_engine::attr::RtPrio;
use runyard_engine::task::TaskId;
use std::cmp::Reverse;
use std::collections::VecDeque;

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

/// The tasks that wait for one object, in the order of their arrival.
#[derive(Debug, Default)]
struct Queue(VecDeque<TaskId>);

impl Queue {
    fn push(&mut self, task: TaskId) {
        self.0.push_back(task);
    }

    /// Returns the place of the task with the highest priority; among equals the first.
    fn best(&self, prio: impl Fn(TaskId) -> Option<RtPrio>) -> Option<usize> {
        best(self.len(), |at| prio(self.0[at]))
    }

    fn remove(&mut self, at: usize) -> Option<TaskId> {
        self.0.remove(at)
    }

    fn forget(&mut self, task: TaskId) {
        self.0.retain(|&waiter| waiter != task);
    }

    fn drain(&mut self) -> impl Iterator<Item = TaskId> + '_ {
        self.0.drain(..)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the place of `0..len` with the highest priority; among equals the first.
fn best(len: usize, prio: impl Fn(usize) -> Option<RtPrio>) -> Option<usize> {
    (0..len).max_by_key(|&at| (prio(at), Reverse(at)))
}

#[derive(Debug, Default)]
pub(super) struct Mutex {
    kind: MutexKind,
    /// Whether the mutex is one of the host's own, for which the fields below are unused.
    elsewhere: bool,
    owner: Option<TaskId>,
    waiters: Queue,
    /// For a mutex that barges, whether its release wakes a task.
    contended: bool,
    /// The number of tasks that were woken to take it and have not tried yet.
    on_the_way: u32,
}

impl Mutex {
    /// Removes a waiter that ends.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.waiters.forget(task);
    }

    pub(super) fn of(kind: MutexKind) -> Mutex {
        Mutex { kind, ..Mutex::default() }
    }

    /// Leaves the mutex to the host, or takes it back.
    pub(super) fn set_elsewhere(&mut self, elsewhere: bool) {
        self.elsewhere = elsewhere;
    }

    pub(super) fn kind(&self) -> MutexKind {
        self.kind
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    pub(super) fn owner(&self) -> Option<TaskId> {
        self.owner
    }

    pub(super) fn waiters(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiters.0.iter().copied()
    }

    /// Returns whether the first task to arrive takes the free mutex.
    pub(super) fn barges(&self) -> bool {
        self.kind == MutexKind::Barge || self.elsewhere
    }

    /// Returns whether a task waits that would never be woken.
    pub(super) fn is_stuck(&self) -> bool {
        let hope =
            self.on_the_way > 0 || self.owner.is_some() && (self.contended || !self.barges());
        self.waiters.len() > 0 && !hope
    }

    /// Lets a task take the free mutex, or queues it. Returns whether the task owns the mutex.
    pub(super) fn lock(&mut self, task: TaskId) -> bool {
        self.contended = self.owner.is_some();
        self.take_or_queue(task)
    }

    /// Does the same for a task that was woken to try.
    pub(super) fn try_again(&mut self, task: TaskId) -> bool {
        self.on_the_way -= 1;
        // The task does not know of other waiters, so it assumes that there are some.
        self.contended = true;
        self.take_or_queue(task)
    }

    fn take_or_queue(&mut self, task: TaskId) -> bool {
        if self.owner.is_none() {
            self.owner = Some(task);
            return true;
        }
        self.waiters.push(task);
        false
    }

    /// Notes that a task is woken to take the mutex.
    pub(super) fn expect_try(&mut self) {
        self.on_the_way += 1;
    }

    /// Returns the place of the waiter that comes first.
    pub(super) fn first(&self, prio: impl Fn(TaskId) -> Option<RtPrio>) -> Option<usize> {
        self.waiters.best(prio)
    }

    /// Gives the mutex to the waiter at `first`, and returns this waiter.
    pub(super) fn hand_over(&mut self, first: Option<usize>) -> Option<TaskId> {
        self.owner = first.and_then(|at| self.waiters.remove(at));
        self.owner
    }

    /// Frees a mutex that barges. Returns the waiter at `first` if there may be any waiter to wake.
    pub(super) fn free(&mut self, first: Option<usize>) -> Option<TaskId> {
        self.owner = None;
        let first = first.filter(|_| std::mem::take(&mut self.contended));
        let woken = first.and_then(|at| self.waiters.remove(at))?;
        self.on_the_way += 1;
        Some(woken)
    }
}

#[derive(Debug, Default)]
pub(super) struct Condition {
    /// The waiters, each with the mutex to take after its wake-up.
    waiters: VecDeque<(TaskId, ObjectId)>,
}

impl Condition {
    /// Removes a waiter that ends.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.waiters.retain(|&(waiter, _)| waiter != task);
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.waiters.is_empty()
    }

    pub(super) fn push(&mut self, task: TaskId, mutex: ObjectId) {
        self.waiters.push_back((task, mutex));
    }

    /// Returns the place of the waiter that comes first.
    pub(super) fn first(&self, prio: impl Fn(TaskId) -> Option<RtPrio>) -> Option<usize> {
        best(self.waiters.len(), |at| prio(self.waiters[at].0))
    }

    /// Removes the waiter at `at`. Returns it with its mutex.
    pub(super) fn remove(&mut self, at: usize) -> Option<(TaskId, ObjectId)> {
        self.waiters.remove(at)
    }
}

#[derive(Debug)]
pub(super) struct Barrier {
    users: u32,
    waiters: Queue,
}

impl Barrier {
    /// Removes a waiter that ends.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.waiters.forget(task);
    }

    pub(super) fn new(users: u32) -> Barrier {
        Barrier { users, waiters: Queue::default() }
    }

    /// Records the arrival of a task. If it is the last, returns the other tasks.
    pub(super) fn arrive(&mut self, task: TaskId) -> Option<Vec<TaskId>> {
        if self.waiters.len() + 1 < self.users as usize {
            self.waiters.push(task);
            return None;
        }
        Some(self.waiters.drain().collect())
    }

    /// Returns whether tasks wait although all users are there.
    pub(super) fn is_stuck(&self) -> bool {
        self.waiters.len() >= self.users as usize
    }
}

#[derive(Debug, Default)]
pub(super) struct Semaphore {
    value: u64,
    waiters: Queue,
}

impl Semaphore {
    /// Removes a waiter that ends.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.waiters.forget(task);
    }

    /// Returns the place of the waiter that comes first.
    pub(super) fn first(&self, prio: impl Fn(TaskId) -> Option<RtPrio>) -> Option<usize> {
        self.waiters.best(prio)
    }

    /// Gives one unit to the waiter at `first`, and returns this waiter. Without a waiter, raises the value.
    pub(super) fn post(&mut self, first: Option<usize>) -> Option<TaskId> {
        let woken = first.and_then(|at| self.waiters.remove(at));
        self.value += u64::from(woken.is_none());
        woken
    }

    /// Returns whether a post would make the value larger than `bound`.
    pub(super) fn is_full(&self, bound: u32) -> bool {
        self.waiters.len() == 0 && self.value >= bound.into()
    }

    /// Lowers the value for a task, or queues it. Returns whether the value was lowered.
    pub(super) fn lower(&mut self, task: TaskId) -> bool {
        if self.value > 0 {
            self.value -= 1;
            return true;
        }
        self.waiters.push(task);
        false
    }

    /// Returns whether a task waits although the value is above zero.
    pub(super) fn is_stuck(&self) -> bool {
        self.value > 0 && self.waiters.len() > 0
    }
}

/// The tasks suspended under a name.
#[derive(Debug, Default)]
pub(super) struct Suspension {
    waiters: Queue,
    /// The number of resumptions without a suspended task.
    unheard: u64,
}

impl Suspension {
    /// Removes a waiter that ends.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.waiters.forget(task);
    }

    pub(super) fn push(&mut self, task: TaskId) {
        self.waiters.push(task);
    }

    /// Resumes the suspended tasks, and returns them.
    pub(super) fn resume(&mut self) -> Vec<TaskId> {
        self.unheard += u64::from(self.waiters.len() == 0);
        self.waiters.drain().collect()
    }

    pub(super) fn unheard(&self) -> u64 {
        self.unheard
    }
}

/// A bounded pipe. A waiter at an end keeps the rest of its request; the first request is served first.
#[derive(Debug)]
pub(super) struct Pipe {
    capacity: u64,
    filled: u64,
    senders: VecDeque<(TaskId, u64)>,
    receivers: VecDeque<(TaskId, u64)>,
}

impl Pipe {
    /// Removes the request of a task that ends. The bytes that moved already stay where they are.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.senders.retain(|&(sender, _)| sender != task);
        self.receivers.retain(|&(receiver, _)| receiver != task);
    }

    pub(super) fn new(capacity: u64) -> Pipe {
        Pipe { capacity, filled: 0, senders: VecDeque::new(), receivers: VecDeque::new() }
    }

    /// Records that a task puts bytes in. Returns the tasks whose requests are complete, which may include this one.
    pub(super) fn send(&mut self, task: TaskId, bytes: u64) -> Vec<TaskId> {
        self.senders.push_back((task, bytes));
        self.flow()
    }

    /// Records that a task takes bytes out. Returns the tasks whose requests are complete, which may include this one.
    pub(super) fn receive(&mut self, task: TaskId, bytes: u64) -> Vec<TaskId> {
        self.receivers.push_back((task, bytes));
        self.flow()
    }

    /// Moves as many bytes as possible, and returns the tasks whose requests are complete.
    fn flow(&mut self) -> Vec<TaskId> {
        let mut served = Vec::new();
        while self.can_move() {
            let space = self.capacity - self.filled;
            if let Some((task, left)) = self.senders.front_mut().filter(|_| space > 0) {
                let moved = space.min(*left);
                (*left, self.filled) = (*left - moved, self.filled + moved);
                if *left == 0 {
                    served.push(*task);
                    self.senders.pop_front();
                }
            }
            if let Some((task, left)) = self.receivers.front_mut() {
                let moved = self.filled.min(*left);
                (*left, self.filled) = (*left - moved, self.filled - moved);
                if *left == 0 {
                    served.push(*task);
                    self.receivers.pop_front();
                }
            }
        }
        served
    }

    /// Returns whether bytes could move.
    pub(super) fn can_move(&self) -> bool {
        let space = self.filled < self.capacity;
        space && !self.senders.is_empty() || self.filled > 0 && !self.receivers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    #[test]
    fn a_pipe_moves_every_byte_once_and_in_order() {
        let mut pipe = Pipe::new(10);
        assert_eq!(pipe.send(A, 25), [], "10 fit");
        assert_eq!(pipe.receive(B, 5), [B], "5 taken, 5 more put in");
        assert_eq!(pipe.receive(B, 20), [A, B]);
        assert_eq!(pipe.filled, 0);
        assert_eq!(pipe.receive(B, 1), []);
        assert_eq!(pipe.send(A, 3), [A, B]);
        assert_eq!(pipe.filled, 2);
    }

    #[test]
    fn the_most_important_waiter_is_first_then_the_first() {
        let mut queue = Queue::default();
        (0..4).for_each(|id| queue.push(TaskId(id)));
        let prio = |task: TaskId| RtPrio::new([0, 5, 9, 9][task.index()]);
        let mut next = || queue.best(prio).and_then(|at| queue.remove(at));
        let order: Vec<_> = std::iter::from_fn(&mut next).map(|task| task.0).collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }
}
