//! The keys of a scenario's objects. Settings use them to add an absent key, and messages about unknown keys list them.
//!
//! The meaning of a key is in its reader, in `lower`. A reader of one of Runyard's own objects takes its keys from here
//! ([`Shape::own`]), so it knows no other key. A test of the crate asserts that it knows all of them
//! (`every_known_key_is_read`).

use crate::diagnostic::{Fault, quoted};
use crate::json::Member;
use crate::nearest::advice;
use crate::tunables;

/// The values that a place may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A value that is set as a whole. Its parts may be replaced, but none can be added.
    Value,
    /// An object with known keys.
    Keys(&'static [(&'static str, Shape)]),
    /// An object with the keys of the tunables below a path.
    Tunables(&'static str),
    /// An object with names as keys.
    Named(&'static Names),
    /// A list of values of one shape. A setting adds none.
    List(&'static Shape),
    /// A thread object or a phase, with known keys and events.
    Program(&'static [(&'static str, Shape)]),
}

/// The names that a scenario gives.
#[derive(Debug)]
pub(crate) struct Names {
    /// The word for a named thing: "task".
    pub(crate) what: &'static str,
    /// The shape of each named value.
    of: Shape,
    /// Whether a setting may add a name.
    open: bool,
}

type Members = &'static [(&'static str, Shape)];

/// The top level.
pub(crate) const ROOT: Shape = Shape::Keys(&[
    ("tasks", Shape::Named(&Names { what: "task", of: THREAD, open: false })),
    ("global", GLOBAL),
    ("machine", MACHINE),
    ("scheduler", SCHEDULER),
    ("features", Shape::Value),
    ("groups", Shape::Named(&Names { what: "task group", of: GROUP, open: false })),
    ("mutexes", Shape::Named(&Names { what: "mutex", of: Shape::Value, open: true })),
    ("resources", Shape::Named(&Names { what: "resource", of: RESOURCE, open: false })),
    ("chains", Shape::Named(&Names { what: "chain", of: CHAIN, open: false })),
    ("arrivals", Shape::Named(&Names { what: "arrivals object", of: ARRIVALS, open: false })),
    ("timeline", Shape::List(&CHANGE)),
]);

pub(crate) const GLOBAL: Shape = Shape::Keys(&[
    ("duration", Shape::Value),
    ("default_policy", Shape::Value),
    ("pi_enabled", Shape::Value),
    ("cumulative_slack", Shape::Value),
    ("log_basename", Shape::Value),
    ("lock_pages", Shape::Value),
    ("gnuplot", Shape::Value),
    ("logdir", Shape::Value),
    ("io_device", Shape::Value),
    ("calibration", Shape::Value),
    ("log_size", Shape::Value),
    ("mem_buffer_size", Shape::Value),
    ("ftrace", Shape::Value),
]);

pub(crate) const MACHINE: Shape = Shape::Tunables("machine");
pub(crate) const SMT: Shape = Shape::Tunables("machine.smt");
pub(crate) const COSTS: Shape = Shape::Tunables("machine.costs");
pub(crate) const SCHEDULER: Shape = Shape::Tunables("scheduler");

pub(crate) const GROUP: Shape = Shape::Keys(&[
    ("weight", Shape::Value),
    ("idle", Shape::Value),
    ("latency_nice", Shape::Value),
    ("cookie", Shape::Value),
    ("runtime", Shape::Value),
    ("period", Shape::Value),
    ("burst", Shape::Value),
    ("per_cpu", Shape::Value),
    ("cpu.max", Shape::Value),
    ("cpu.max.burst", Shape::Value),
    ("cpu.weight", Shape::Value),
    ("cpu.weight.nice", Shape::Value),
    ("cpu.idle", Shape::Value),
    ("cpu.latency.nice", Shape::Value),
    ("cpuset.cpus", Shape::Value),
    ("cpuset.cpus.partition", Shape::Value),
]);

/// The spellings of the things of a task group that have several: Runyard's own, and the files of cgroup v2.
/// `cpu.latency.nice` is the file of the founding document. `cpu.max` spells two things.
const SPELLINGS: [&[&str]; 6] = [
    &["weight", "cpu.weight", "cpu.weight.nice"],
    &["idle", "cpu.idle"],
    &["latency_nice", "cpu.latency.nice"],
    &["runtime", "cpu.max"],
    &["period", "cpu.max"],
    &["burst", "cpu.max.burst"],
];

/// Returns whether two different keys of a task group spell one thing.
pub(crate) fn are_one_thing(key: &str, other: &str) -> bool {
    key != other && SPELLINGS.iter().any(|all| all.contains(&key) && all.contains(&other))
}

/// Words of the kernel and of Kubernetes by their beginnings, with what stands for them here.
const FOREIGN_WORDS: [(&str, &str); 12] = [
    ("cpu.uclamp", "does not exist here yet: all CPUs have the same speed"),
    ("cpu.pressure", "is read only: the report has `pressure_some_ns` and `pressure_full_ns`"),
    ("cpu.stat", "is read only: the report has its counts"),
    ("cpu.shares", "is `weight` here, or `cpu.weight` of cgroup v2"),
    ("cpu.cfs_", "is of cgroup v1: write `\"cpu.max\": \"50000 100000\"`, quota and period"),
    ("cpu.rt_", "does not exist here: `scheduler.rt_runtime_us` limits all real-time tasks"),
    ("quota", "is the first number of `\"cpu.max\": \"50000 100000\"`, or `runtime`"),
    ("cpuset.mems", "does not exist here: all memory is equally near"),
    ("cpuset.cpus.", "does not exist here; `cpuset.cpus` and `cpuset.cpus.partition` do"),
    ("limits", "of 500m is `\"cpu.max\": \"50000 100000\"`"),
    ("requests", "of 500m is `\"cpu.weight\": 20`"),
    ("cpus", "of a task group is `\"cpuset.cpus\": \"0-3\"`"),
];

/// Returns what to do about a word that is no key of a task group here, after the word: "does not exist here yet".
pub(crate) fn foreign_word(key: &str) -> Option<&'static str> {
    let found = FOREIGN_WORDS.iter().find(|(word, _)| key.starts_with(word));
    found.map(|&(_, what)| what)
}

/// A chain; one that has only its tasks may be their list.
pub(crate) const CHAIN: Shape =
    Shape::Keys(&[("tasks", Shape::Value), ("deadline_us", Shape::Value), ("join", Shape::Value)]);

/// Arrivals: their times, and what each of them does.
pub(crate) const ARRIVALS: Shape = Shape::Keys(&[
    ("every", Shape::Value),
    ("jitter", Shape::Value),
    ("rate", Shape::Value),
    ("rates", Shape::List(&RATE)),
    ("times", Shape::Value),
    ("sem_post", Shape::Value),
    ("fork", Shape::Value),
    ("bound", Shape::Value),
    ("deadline_us", Shape::Value),
]);

/// A rate of arrivals from a time on.
pub(crate) const RATE: Shape = Shape::Keys(&[("at", Shape::Value), ("rate", Shape::Value)]);

/// A change of the timeline. Its subject is one of `cpu`, `group`, `task`, `start` and `stop`.
pub(crate) const CHANGE: Shape = Shape::Keys(&[
    ("at", Shape::Value),
    ("cpu", Shape::Value),
    ("online", Shape::Value),
    ("group", Shape::Value),
    ("weight", Shape::Value),
    ("runtime", Shape::Value),
    ("period", Shape::Value),
    ("burst", Shape::Value),
    ("per_cpu", Shape::Value),
    ("cpu.max", Shape::Value),
    ("cpu.max.burst", Shape::Value),
    ("cpu.weight", Shape::Value),
    ("cpu.weight.nice", Shape::Value),
    ("task", Shape::Value),
    ("policy", Shape::Value),
    ("priority", Shape::Value),
    ("cpus", Shape::Value),
    ("latency_nice", Shape::Value),
    ("slice", Shape::Value),
    ("start", Shape::Value),
    ("stop", Shape::Value),
]);

pub(crate) const RESOURCE: Shape = Shape::Keys(&[("type", Shape::Value), ("target", Shape::Value)]);

/// The keys of a thread that a phase does not have.
const OF_THREAD: Members = &[
    ("instance", Shape::Value),
    ("delay", Shape::Value),
    ("phases", Shape::Named(&Names { what: "phase", of: PHASE, open: false })),
    ("reset_on_fork", Shape::Value),
    ("deadline", Shape::Value),
    ("period", Shape::Value),
];

const OF_PHASE: Members = &[
    ("loop", Shape::Value),
    ("cpus", Shape::Value),
    ("taskgroup", Shape::Value),
    ("group", Shape::Value),
    ("policy", Shape::Value),
    ("priority", Shape::Value),
    ("timer_slack", Shape::Value),
    ("latency_nice", Shape::Value),
    ("slice", Shape::Value),
    ("cookie", Shape::Value),
    ("dl-runtime", Shape::Value),
    ("dl-deadline", Shape::Value),
    ("dl-period", Shape::Value),
    ("util_min", Shape::Value),
    ("util_max", Shape::Value),
    ("nodes_membind", Shape::Value),
];

pub(crate) const THREAD: Shape = Shape::Program(OF_THREAD);
pub(crate) const PHASE: Shape = Shape::Program(&[]);

pub(crate) const TIMER: Shape =
    Shape::Keys(&[("ref", Shape::Value), ("period", Shape::Value), ("mode", Shape::Value)]);
pub(crate) const CONDITION: Shape = Shape::Keys(&[("ref", Shape::Value), ("mutex", Shape::Value)]);
pub(crate) const PIPE: Shape =
    Shape::Keys(&[("ref", Shape::Value), ("bytes", Shape::Value), ("capacity", Shape::Value)]);
pub(crate) const MEMRUN: Shape = Shape::Keys(&[
    ("type", Shape::Value),
    ("size", Shape::Value),
    ("count", Shape::Value),
    ("stride", Shape::Value),
    ("pattern", Shape::Value),
    ("ref", Shape::Value),
]);

/// The keys that begin like an event and are not one.
const NO_EVENTS: [&str; 1] = ["timer_slack"];

/// The event names in the order in which rt-app tries them, then the extensions. A key is an event if it *begins* with
/// such a name (`run0`, `lock_a`), so the order matters.
const EVENTS: [(&str, Event, Shape); 24] = [
    ("runtime", Event::Runtime, Shape::Value),
    ("run", Event::Run, Shape::Value),
    ("sleep", Event::Sleep, Shape::Value),
    ("memrun", Event::Memrun, MEMRUN),
    ("mem", Event::Mem, Shape::Value),
    ("iorun", Event::Iorun, Shape::Value),
    ("lock", Event::Lock, Shape::Value),
    ("unlock", Event::Unlock, Shape::Value),
    ("signal", Event::Signal, Shape::Value),
    ("broad", Event::Broadcast, Shape::Value),
    ("wait", Event::Wait, CONDITION),
    ("sync", Event::Sync, CONDITION),
    ("barrier", Event::Barrier, Shape::Value),
    ("timer", Event::Timer, TIMER),
    ("resume", Event::Resume, Shape::Value),
    ("suspend", Event::Suspend, Shape::Value),
    ("yield", Event::Yield, Shape::Value),
    ("fork", Event::Fork, Shape::Value),
    ("sem_post", Event::SemPost, Shape::Value),
    ("sem_wait", Event::SemWait, Shape::Value),
    ("send", Event::Send, PIPE),
    ("recv", Event::Recv, PIPE),
    ("exit", Event::Exit, Shape::Value),
    ("kernel", Event::Kernel, Shape::Value),
];

/// The keys that a program of a task may have, for builders of scenarios.
///
/// ```
/// use runyard_workload::Keys;
///
/// assert!(Keys::Thread.known().contains(&"delay") && !Keys::Phase.known().contains(&"delay"));
/// assert!(Keys::Events.known().contains(&"sleep"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The keys of a thread, without its events.
    Thread,
    /// The keys of a phase, without its events.
    Phase,
    /// The names of events. A key is an event if it begins with one of them.
    Events,
}

impl Keys {
    /// Returns the keys.
    #[must_use]
    pub fn known(self) -> Vec<&'static str> {
        match self {
            Keys::Thread => THREAD.keys(),
            Keys::Phase => PHASE.keys(),
            Keys::Events => EVENTS.iter().map(|&(name, ..)| name).collect(),
        }
    }
}

/// The kind of event that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Runtime,
    Run,
    Sleep,
    Memrun,
    Mem,
    Iorun,
    Lock,
    Unlock,
    Signal,
    Broadcast,
    Wait,
    Sync,
    Barrier,
    Timer,
    Resume,
    Suspend,
    Yield,
    Fork,
    SemPost,
    SemWait,
    Send,
    Recv,
    Exit,
    Kernel,
}

impl Event {
    /// Returns the event that `key` names, if it names one.
    pub(crate) fn of(key: &str) -> Option<Event> {
        if NO_EVENTS.contains(&key) {
            return None;
        }
        EVENTS.iter().find(|(name, ..)| key.starts_with(name)).map(|&(_, event, _)| event)
    }
    /// Returns the shape of the event's value.
    fn shape(self) -> Shape {
        let found = EVENTS.iter().find(|&&(_, event, _)| event == self);
        found.map_or(Shape::Value, |&(.., shape)| shape)
    }
}

/// Returns whether a key names an event that is complete without a value.
pub(crate) fn needs_no_value(key: &str) -> bool {
    matches!(Event::of(key), Some(Event::Suspend | Event::Yield | Event::Exit))
}

impl Shape {
    /// Returns the known keys, in the order of the messages.
    pub(crate) fn keys(self) -> Vec<&'static str> {
        let of = |keys: Members| keys.iter().map(|&(key, _)| key).collect::<Vec<_>>();
        match self {
            Shape::Value | Shape::Named(_) | Shape::List(_) => Vec::new(),
            Shape::Keys(keys) => of(keys),
            Shape::Tunables(prefix) => tunables::keys(prefix).collect(),
            Shape::Program(own) => [of(own), of(OF_PHASE)].concat(),
        }
    }

    /// Returns the other keys that an object may have, for suggestions after a misspelling.
    pub(crate) fn words(self) -> Vec<&'static str> {
        let events = EVENTS.iter().map(|&(name, ..)| name);
        let mut words = self.keys();
        words.extend(events.filter(|_| matches!(self, Shape::Program(_))));
        words
    }

    /// Returns the shape of the known `key`, which a setting may add.
    pub(crate) fn known(self, key: &str) -> Option<Shape> {
        let of =
            |keys: Members| keys.iter().find(|(known, _)| *known == key).map(|&(_, shape)| shape);
        match self {
            Shape::Value | Shape::List(_) => None,
            Shape::Keys(keys) => of(keys),
            Shape::Tunables(prefix) => {
                let known = tunables::keys(prefix).find(|&known| known == key)?;
                Some(match (prefix, known) {
                    ("machine", "smt") => SMT,
                    ("machine", "costs") => COSTS,
                    _ => Shape::Value,
                })
            }
            Shape::Named(names) => names.open.then_some(names.of),
            Shape::Program(own) => of(own).or_else(|| of(OF_PHASE)),
        }
    }

    /// Returns the shape of the value of an existing `key`.
    pub(crate) fn behind(self, key: &str) -> Shape {
        let known = self.known(key);
        known.unwrap_or_else(|| match self {
            Shape::Named(names) => names.of,
            Shape::List(of) => *of,
            Shape::Program(_) => Event::of(key).map_or(Shape::Value, Event::shape),
            _ => Shape::Value,
        })
    }

    /// Returns the key of a member of `object`, one of Runyard's own objects, and refuses an unknown one.
    pub(crate) fn own(self, object: &str, member: Member<'_>) -> Result<&'static str, Fault> {
        let (key, keys) = (member.key(), self.keys());
        keys.iter().copied().find(|&known| known == key).ok_or_else(|| {
            let what = format!("{} is not known in {object}{}", quoted(&key), advice(&key, &keys));
            Fault::new(member.at, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_known_by_their_beginnings() {
        for (key, event) in [
            ("run", Some(Event::Run)),
            ("run7", Some(Event::Run)),
            ("runtime", Some(Event::Runtime)),
            ("runtime_2", Some(Event::Runtime)),
            ("sleep_a", Some(Event::Sleep)),
            ("memrun1", Some(Event::Memrun)),
            ("memory", Some(Event::Mem)),
            ("iorun2", Some(Event::Iorun)),
            ("lock2", Some(Event::Lock)),
            ("broadcast", Some(Event::Broadcast)),
            ("timer", Some(Event::Timer)),
            ("timer_slack", None),
            ("timer_slack2", Some(Event::Timer)),
            ("exit", Some(Event::Exit)),
            ("kernel_read", Some(Event::Kernel)),
            ("sem", None),
            ("Run", None),
            ("priority", None),
        ] {
            assert_eq!(Event::of(key), event, "{key}");
        }
    }

    #[test]
    fn no_name_hides_one_that_is_tried_later() {
        for (at, (name, event, _)) in EVENTS.iter().enumerate() {
            let found = EVENTS.iter().position(|(earlier, ..)| name.starts_with(earlier));
            assert_eq!((found, Event::of(name)), (Some(at), Some(*event)), "{name}");
        }
    }
}
