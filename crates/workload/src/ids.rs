//! The numbers of the things that a scenario names.

/// The place of a thread object in [`Scenario::tasks`](crate::Scenario::tasks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecId(pub u32);

/// The id of an object that tasks share by name: its place among those of its kind in
/// [`Objects`](crate::scenario::Objects).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub u32);
