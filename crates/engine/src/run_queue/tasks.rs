//! The tasks of one CPU, each in its place, and the running one.
//!
//! The boxes of the tasks are here. The classes know a task by the number of its place. The entity of a group has a
//! place too, and so has a ghost.

use crate::store::heap::Index;
use crate::store::slots::Slots;
use crate::task::{QueueIndex, Task, TaskId};

/// An item that has an index in a run queue.
#[derive(Debug)]
pub(super) enum Place<P> {
    Task(Box<Task<P>>),
    /// The entity of a group; its state is in the fair class.
    Group,
    /// The entity that a sleeping task left behind ([`crate::fair`]).
    Ghost(TaskId),
}

/// The tasks in a run queue.
#[derive(Debug)]
pub struct Tasks<P> {
    places: Slots<Place<P>>,
    /// The running task. It stays in the queue of its class.
    running: Option<Index>,
}

impl<P> Tasks<P> {
    pub(super) fn new() -> Tasks<P> {
        Tasks { places: Slots::new(), running: None }
    }

    /// Makes room for `len` places. Allocates.
    pub(super) fn grow(&mut self, len: usize) {
        self.places.grow(len);
    }

    /// Like [`Tasks::grow`], with the memory of `room`. Allocates nothing.
    pub(super) fn grow_into(&mut self, room: &mut Slots<Place<P>>) {
        self.places.grow_into(room);
    }

    /// Returns the task at `at`.
    #[must_use]
    pub fn get(&self, at: QueueIndex) -> Option<&Task<P>> {
        match self.places.get(at.0)? {
            Place::Task(task) => Some(task),
            Place::Group | Place::Ghost(_) => None,
        }
    }

    /// Returns the running task.
    #[must_use]
    pub fn curr(&self) -> Option<&Task<P>> {
        self.running.map(|at| self.task(at))
    }

    /// Returns whether the task at `at` is the running one.
    #[must_use]
    pub fn runs(&self, at: QueueIndex) -> bool {
        self.running == Some(at.0)
    }

    /// Returns the tasks, the running one included, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (QueueIndex, &Task<P>)> {
        self.places.iter().filter_map(|(at, place)| match place {
            Place::Task(task) => Some((QueueIndex(at), &**task)),
            Place::Group | Place::Ghost(_) => None,
        })
    }

    /// Returns the places that are in use.
    pub(super) fn places(&self) -> &Slots<Place<P>> {
        &self.places
    }

    /// Returns the place of the running task.
    #[inline]
    pub(super) fn running(&self) -> Option<Index> {
        self.running
    }

    #[inline]
    pub(super) fn set_running(&mut self, at: Option<Index>) {
        self.running = at;
    }

    /// Returns the place of the running task, if that one is fair.
    #[inline]
    pub(super) fn running_fair(&self) -> Option<Index> {
        self.running.filter(|&at| self.task(at).class().is_fair())
    }

    #[inline]
    pub(super) fn task(&self, at: Index) -> &Task<P> {
        match self.places.get(at) {
            Some(Place::Task(task)) => task,
            Some(Place::Group | Place::Ghost(_)) | None => unreachable!("no task is at {at}"),
        }
    }

    #[inline]
    pub(super) fn task_mut(&mut self, at: Index) -> &mut Task<P> {
        match self.places.get_mut(at) {
            Some(Place::Task(task)) => task,
            Some(Place::Group | Place::Ghost(_)) | None => unreachable!("no task is at {at}"),
        }
    }

    /// Puts an item in a place. [`Tasks::is_at_end`] says whether one must be opened before.
    #[inline]
    pub(super) fn insert(&mut self, place: Place<P>) -> Index {
        self.places.insert(place)
    }

    #[inline]
    pub(super) fn is_at_end(&self) -> bool {
        self.places.is_at_end()
    }

    /// Opens more places for use; returns the number of open places. There must be room.
    pub(super) fn open(&mut self) -> usize {
        self.places.open()
    }

    /// Takes a task out.
    #[inline]
    pub(super) fn remove(&mut self, at: Index) -> Box<Task<P>> {
        match self.places.remove(at) {
            Place::Task(task) => task,
            Place::Group | Place::Ghost(_) => unreachable!("no task is at {at}"),
        }
    }

    /// Frees the place of a group or of a ghost.
    #[inline]
    pub(super) fn free(&mut self, at: Index) {
        let place = self.places.remove(at);
        debug_assert!(!matches!(place, Place::Task(_)), "a task is at {at}");
    }

    /// Puts another task in the place of one.
    pub(super) fn replace(&mut self, at: Index, by: Box<Task<P>>) -> Box<Task<P>> {
        match self.places.get_mut(at) {
            Some(Place::Task(task)) => std::mem::replace(task, by),
            Some(Place::Group | Place::Ghost(_)) | None => unreachable!("no task is at {at}"),
        }
    }

    /// Takes the running task out; its ghost has its place from now on.
    pub(super) fn leave_ghost(&mut self, at: Index) -> Box<Task<P>> {
        let id = self.task(at).id;
        self.running = None;
        match self.places.replace(at, Place::Ghost(id)) {
            Place::Task(task) => task,
            Place::Group | Place::Ghost(_) => unreachable!("a task ran at {at}"),
        }
    }

    /// Puts a task back into the place of its ghost.
    pub(super) fn rejoin(&mut self, at: Index, task: Box<Task<P>>) {
        let ghost = self.places.replace(at, Place::Task(task));
        debug_assert!(matches!(ghost, Place::Ghost(_)), "a ghost is at {at}");
    }

    #[inline]
    pub(super) fn is_ghost_of(&self, at: Index, task: &Task<P>) -> bool {
        matches!(self.places.get(at), Some(Place::Ghost(id)) if *id == task.id)
    }
}
