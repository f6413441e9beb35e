//! The objects that tasks share by name, and the timers, shared or a task's own. They exist by being named.

use super::mutexes::Kinds;
use super::number::number;
use crate::diagnostic::{Fault, quoted};
use crate::scenario::{ObjectId, Objects, TimerMode};
use std::collections::{BTreeMap, BTreeSet};

/// The default capacity of a pipe, as in pipe(7).
const PIPE_CAPACITY: u32 = 65_536;

/// The shared objects, each kind numbered in the order of their first mention.
#[derive(Default)]
pub(super) struct Names {
    pub(super) mutexes: Table,
    pub(super) conditions: Table,
    pub(super) semaphores: Table,
    suspends: Table,
    /// The names under which tasks are suspended.
    suspended: BTreeSet<ObjectId>,
    /// The place of the first resumption of each name.
    resumed: BTreeMap<ObjectId, usize>,
    pub(super) timers: Timers,
    barriers: Table,
    /// The number of users of each barrier so far.
    users: Vec<u32>,
    pipes: Table,
    /// The capacity of each pipe, once a reference gives it.
    capacities: Vec<Option<u32>>,
    /// The buffers that `memrun` events share. The same name with another use is another buffer.
    buffers: BTreeMap<(String, Access), Buffer>,
}

impl Names {
    /// Counts a reference to a barrier by a task of so many instances.
    pub(super) fn barrier(&mut self, name: &str, instances: u32) -> ObjectId {
        let id = self.barriers.id(name);
        self.users.resize(self.barriers.len(), 0);
        let users = &mut self.users[id.0 as usize];
        *users = users.saturating_add(instances);
        id
    }

    /// Records that a task is suspended under its name.
    pub(super) fn suspend(&mut self, name: &str) -> ObjectId {
        let id = self.suspends.id(name);
        self.suspended.insert(id);
        id
    }

    /// Records that the event at `at` resumes the tasks suspended under a name.
    pub(super) fn resume(&mut self, name: &str, at: usize) -> ObjectId {
        let id = self.suspends.id(name);
        self.resumed.entry(id).or_insert(at);
        id
    }

    /// Returns the names that are resumed although no task is ever suspended under them, each with the place of the
    /// first resumption.
    pub(super) fn resumed_in_vain(&self) -> impl Iterator<Item = (usize, &str)> {
        self.suspends.0.iter().filter_map(|(name, id)| {
            let at = *self.resumed.get(id)?;
            (!self.suspended.contains(id)).then_some((at, name.as_str()))
        })
    }

    /// Records a reference at `at` to a pipe, which may give its capacity.
    pub(super) fn pipe(
        &mut self,
        name: &str,
        capacity: Option<u32>,
        at: usize,
    ) -> Result<ObjectId, Fault> {
        let id = self.pipes.id(name);
        self.capacities.resize(self.pipes.len(), None);
        let known = &mut self.capacities[id.0 as usize];
        match (*known, capacity) {
            (Some(known), Some(other)) if known != other => {
                let name = quoted(name);
                let what = format!("the pipe {name} has a capacity of {known} in an earlier event");
                Err(Fault::new(at, what))
            }
            _ => {
                *known = known.or(capacity);
                Ok(id)
            }
        }
    }

    /// Records a reference to a buffer. Returns whether it agrees with the other references to that name.
    pub(super) fn agrees(&mut self, name: &str, buffer: Buffer) -> bool {
        *self.buffers.entry((name.to_owned(), buffer.access)).or_insert(buffer) == buffer
    }

    /// Returns the objects in the form for hosts.
    pub(super) fn into_objects(self, kinds: &Kinds) -> Objects {
        let mutex = |name: String| {
            let kind = kinds.of(&name);
            (name, kind)
        };
        let capacities =
            self.capacities.into_iter().map(|known| known.unwrap_or(PIPE_CAPACITY).into());
        Objects {
            mutexes: self.mutexes.into_names().into_iter().map(mutex).collect(),
            conditions: self.conditions.into_names(),
            barriers: self.barriers.into_names().into_iter().zip(self.users).collect(),
            semaphores: self.semaphores.into_names(),
            suspends: self.suspends.into_names(),
            timers: self.timers.table.into_names(),
            pipes: self.pipes.into_names().into_iter().zip(capacities).collect(),
        }
    }
}

/// The values that must be equal in all `memrun` events that share a buffer by `ref`: its use, its size, and the layout
/// of its pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Buffer {
    pub(super) access: Access,
    pub(super) size: u32,
    /// The stride of a chase, and whether it is sequential.
    pub(super) chase: Option<(u32, bool)>,
}

/// The use of its buffer by a `memrun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Read,
    Write,
    Chase,
}

/// The timers by name. A timer is absolute if any reference to it says so, as in rt-app.
#[derive(Default)]
pub(super) struct Timers {
    table: Table,
    absolute: BTreeSet<ObjectId>,
}

impl Timers {
    pub(super) fn id(&mut self, name: &str, mode: TimerMode) -> ObjectId {
        let id = self.table.id(name);
        if mode == TimerMode::Absolute {
            self.absolute.insert(id);
        }
        id
    }

    /// Returns the mode of a timer, once all references to it are known.
    pub(super) fn mode(&self, id: ObjectId) -> TimerMode {
        match self.absolute.contains(&id) {
            true => TimerMode::Absolute,
            false => TimerMode::Relative,
        }
    }
}

/// The names of one kind, numbered in their order.
#[derive(Default)]
pub(super) struct Table(BTreeMap<String, ObjectId>);

impl Table {
    pub(super) fn id(&mut self, name: &str) -> ObjectId {
        if let Some(&id) = self.0.get(name) {
            return id;
        }
        let id = ObjectId(number(self.0.len()));
        self.0.insert(name.to_owned(), id);
        id
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_names(self) -> Vec<String> {
        let mut names = vec![String::new(); self.0.len()];
        for (name, id) in self.0 {
            names[id.0 as usize] = name;
        }
        names
    }
}
