//! The objects that tasks share and wait for: mutexes, conditions, barriers, semaphores, suspensions, pipes.
//!
//! Each kind keeps its waiters and selects the tasks to wake. The host performs the wake-up ([`Sharing`]). As in the
//! kernel's futexes, the waiter with the highest real-time priority comes first, then the order of arrival decides.
//!
//! A mutex that hands over belongs to the task that is woken for it. A mutex that barges is the C library's normal
//! mutex (glibc's `lowlevellock`): a word that is free, taken, or taken and contended. It becomes contended when a task
//! waits, and stays so when a former waiter takes it. A task that releases a contended mutex wakes one waiter, which
//! tries again. Until it does, other tasks can take the mutex and release it without a wake-up.
//!
//! Invariants ([`Objects::check`]): no task waits for an available object, unless a woken task is on the way to it.
//! Every waiter of a mutex that barges is woken at some time: the mutex is contended, or a woken task is on the way.

mod left;
mod sharing;

pub use left::{Blocked, Left, Undone, left};
pub use sharing::{Awaited, Sharing};

use crate::scenario::{self, MutexKind, ObjectId};
use runyard_engine::attr::RtPrio;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use std::collections::VecDeque;

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

    fn drain(&mut self) -> impl Iterator<Item = TaskId> + '_ {
        self.0.drain(..)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the place of `0..len` with the highest priority; among equals the first.
fn best(len: usize, prio: impl Fn(usize) -> Option<RtPrio>) -> Option<usize> {
    (0..len).max_by_key(|&at| (prio(at), std::cmp::Reverse(at)))
}

#[derive(Debug, Default)]
struct Mutex {
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
    fn of(kind: MutexKind) -> Mutex {
        Mutex { kind, ..Mutex::default() }
    }

    /// Returns whether the first task to arrive takes the free mutex.
    fn barges(&self) -> bool {
        self.kind == MutexKind::Barge || self.elsewhere
    }

    /// Returns whether a task waits that would never be woken.
    fn is_stuck(&self) -> bool {
        let hope =
            self.on_the_way > 0 || self.owner.is_some() && (self.contended || !self.barges());
        self.waiters.len() > 0 && !hope
    }
}

#[derive(Debug, Default)]
struct Condition {
    /// The waiters, each with the mutex to take after its wake-up.
    waiters: VecDeque<(TaskId, ObjectId)>,
}

#[derive(Debug)]
struct Barrier {
    users: u32,
    waiters: Queue,
}

#[derive(Debug, Default)]
struct Semaphore {
    value: u64,
    waiters: Queue,
}

/// A bounded pipe. A waiter at an end keeps the rest of its request; the first request is served first.
#[derive(Debug)]
struct Pipe {
    capacity: u64,
    filled: u64,
    senders: VecDeque<(TaskId, u64)>,
    receivers: VecDeque<(TaskId, u64)>,
}

/// All shared objects, each kind by [`ObjectId`].
#[derive(Debug)]
pub struct Objects {
    mutexes: Vec<Mutex>,
    conditions: Vec<Condition>,
    barriers: Vec<Barrier>,
    semaphores: Vec<Semaphore>,
    suspended: Vec<Queue>,
    /// For each name, the number of resumptions without a suspended task.
    unheard: Vec<u64>,
    pipes: Vec<Pipe>,
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
        let barrier = |&(_, users): &(String, u32)| Barrier { users, waiters: Queue::default() };
        let pipe = |&(_, capacity): &(String, u64)| Pipe::new(capacity);
        Objects {
            mutexes: objects.mutexes.iter().map(|&(_, kind)| Mutex::of(kind)).collect(),
            conditions: some(&objects.conditions),
            barriers: objects.barriers.iter().map(barrier).collect(),
            semaphores: some(&objects.semaphores),
            suspended: some(&objects.suspends),
            unheard: some(&objects.suspends),
            pipes: objects.pipes.iter().map(pipe).collect(),
            timers: some(&objects.timers),
        }
    }

    /// Leaves the mutexes of these kinds to the host. Only their conditions are handled here.
    pub fn leave_to_host(&mut self, is_host: impl Fn(MutexKind) -> bool) {
        self.mutexes.iter_mut().for_each(|mutex| mutex.elsewhere = is_host(mutex.kind));
    }

    /// Returns the kind of a mutex.
    #[must_use]
    pub fn kind(&self, mutex: ObjectId) -> MutexKind {
        self.mutexes[mutex.0 as usize].kind
    }

    /// Returns the task that owns a mutex.
    #[must_use]
    pub fn owner(&self, mutex: ObjectId) -> Option<TaskId> {
        self.mutexes[mutex.0 as usize].owner
    }

    /// Returns the tasks that wait for a mutex, in the order of their arrival.
    pub fn waiters(&self, mutex: ObjectId) -> impl Iterator<Item = TaskId> + '_ {
        self.mutexes[mutex.0 as usize].waiters.0.iter().copied()
    }

    /// Returns the begin of a shared timer's current period, once a task has used the timer.
    pub fn period_mut(&mut self, timer: ObjectId) -> &mut Option<Time> {
        &mut self.timers[timer.0 as usize]
    }

    /// Resumes the tasks suspended under a name, and returns them.
    fn resume(&mut self, name: ObjectId) -> Vec<TaskId> {
        let at = name.0 as usize;
        self.unheard[at] += u64::from(self.suspended[at].len() == 0);
        self.suspended[at].drain().collect()
    }

    /// Returns a violated invariant of the waiters, if there is one.
    #[must_use]
    pub fn check(&self) -> Option<String> {
        let full = |barrier: &Barrier| barrier.waiters.len() >= barrier.users as usize;
        let raised = |sem: &Semaphore| sem.value > 0 && sem.waiters.len() > 0;
        let broken =
            |what: &str, at: usize| format!("a task waits for {what} {at}, which is available");
        None.or_else(|| Some(broken("mutex", self.mutexes.iter().position(Mutex::is_stuck)?)))
            .or_else(|| Some(broken("barrier", self.barriers.iter().position(full)?)))
            .or_else(|| Some(broken("semaphore", self.semaphores.iter().position(raised)?)))
            .or_else(|| Some(broken("pipe", self.pipes.iter().position(Pipe::can_move)?)))
    }
}

impl Barrier {
    /// Records the arrival of a task. If it is the last, returns the other tasks.
    fn arrive(&mut self, task: TaskId) -> Option<Vec<TaskId>> {
        if self.waiters.len() + 1 < self.users as usize {
            self.waiters.push(task);
            return None;
        }
        Some(self.waiters.drain().collect())
    }
}

impl Pipe {
    fn new(capacity: u64) -> Pipe {
        Pipe { capacity, filled: 0, senders: VecDeque::new(), receivers: VecDeque::new() }
    }

    /// Records that a task puts bytes in. Returns the tasks whose requests are complete, which may include this one.
    fn send(&mut self, task: TaskId, bytes: u64) -> Vec<TaskId> {
        self.senders.push_back((task, bytes));
        self.flow()
    }

    /// Records that a task takes bytes out. Returns the tasks whose requests are complete, which may include this one.
    fn receive(&mut self, task: TaskId, bytes: u64) -> Vec<TaskId> {
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

    fn can_move(&self) -> bool {
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
