//! The events of a thread or phase, which become the steps of a program.
//!
//! A key is an event if it *begins* with an event's name (`run0`, `lock_a`), so the order in which
//! names are tried matters; it is rt-app's, [`EVENTS`].

use super::duration::draw;
use super::objects::number;
use super::tasks::Reader;
use super::{MAX_INT, Warnings, memory};
use crate::diagnostic::{Fault, quoted};
use crate::draw::Draw;
use crate::json::{Member, Node};
use crate::scenario::{ObjectId, SpecId, Step, TimerMode, TimerRef};
use runyard_engine::time::Nanos;
use std::borrow::Cow;

/// What rt-app calls what is not given a name.
const UNNAMED: &str = "unknown";

/// Timers whose names begin so belong to one task each.
const UNIQUE: &str = "unique";

/// Keys that are something else although they begin like an event.
const NO_EVENTS: [&str; 1] = ["timer_slack"];

/// The event names in the order in which rt-app tries them, then the extensions.
const EVENTS: [(&str, Event); 23] = [
    ("runtime", Event::Runtime),
    ("run", Event::Run),
    ("sleep", Event::Sleep),
    ("memrun", Event::Memrun),
    ("mem", Event::Mem),
    ("iorun", Event::Iorun),
    ("lock", Event::Lock),
    ("unlock", Event::Unlock),
    ("signal", Event::Signal),
    ("broad", Event::Broadcast),
    ("wait", Event::Wait),
    ("sync", Event::Sync),
    ("barrier", Event::Barrier),
    ("timer", Event::Timer),
    ("resume", Event::Resume),
    ("suspend", Event::Suspend),
    ("yield", Event::Yield),
    ("fork", Event::Fork),
    ("sem_post", Event::SemPost),
    ("sem_wait", Event::SemWait),
    ("send", Event::Send),
    ("recv", Event::Recv),
    ("exit", Event::Exit),
];

/// What an event's key says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
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
}

impl Event {
    /// The event that `key` means, if it means one.
    pub(super) fn of(key: &str) -> Option<Event> {
        if NO_EVENTS.contains(&key) {
            return None;
        }
        EVENTS.iter().find(|(name, _)| key.starts_with(name)).map(|&(_, event)| event)
    }
}

impl<'v> Reader<'_, 'v> {
    /// The step that an event of the task describes.
    pub(super) fn step(&mut self, event: Event, member: Member<'v>) -> Result<Step, Fault> {
        let value = member.value;
        let names = &mut self.context.names;
        Ok(match event {
            Event::Run => Step::Run(draw(value)?),
            Event::Runtime => Step::Runtime(draw(value)?),
            Event::Sleep => Step::Sleep(draw(value)?),
            Event::Memrun => self.memrun(member)?,
            Event::Mem | Event::Iorun => memory::moved(event, value)?,
            Event::Lock => Step::Lock(names.mutexes.id(&value.text()?)),
            Event::Unlock => Step::Unlock(names.mutexes.id(&value.text()?)),
            Event::Signal => Step::Signal(names.conditions.id(&value.text()?)),
            Event::Broadcast => Step::Broadcast(names.conditions.id(&value.text()?)),
            Event::Wait => {
                let (cond, mutex) = self.condition(value)?;
                Step::Wait { cond, mutex }
            }
            Event::Sync => {
                let (cond, mutex) = self.condition(value)?;
                Step::Sync { cond, mutex }
            }
            Event::Barrier => {
                let barrier = names.barrier(&value.text()?, self.instances);
                self.barrier_at.get_or_insert(number(member.at));
                Step::Barrier(barrier)
            }
            Event::Timer => self.timer(value)?,
            Event::Resume => Step::Resume(names.resume(&value.text()?, value.at())),
            Event::Suspend => Step::Suspend(names.suspend(self.name)),
            Event::Yield => Step::Yield,
            Event::Fork => self.fork(value)?,
            Event::SemPost => Step::SemPost(names.semaphores.id(&value.text()?)),
            Event::SemWait => Step::SemWait(names.semaphores.id(&value.text()?)),
            Event::Send => {
                let (pipe, bytes) = self.pipe(value)?;
                Step::Send { pipe, bytes }
            }
            Event::Recv => {
                let (pipe, bytes) = self.pipe(value)?;
                Step::Recv { pipe, bytes }
            }
            Event::Exit => Step::Exit,
        })
    }

    /// `{"ref": condition, "mutex": mutex}`
    fn condition(&mut self, value: Node<'v>) -> Result<(ObjectId, ObjectId), Fault> {
        let (mut cond, mut mutex) = (Cow::Borrowed(UNNAMED), Cow::Borrowed(UNNAMED));
        for member in value.object()? {
            match &*member.key() {
                "ref" => cond = member.value.text()?,
                "mutex" => mutex = member.value.text()?,
                _ => self.warnings().unknown(member),
            }
        }
        let names = &mut self.context.names;
        Ok((names.conditions.id(&cond), names.mutexes.id(&mutex)))
    }

    /// `{"ref": timer, "period": duration, "mode": "relative" or "absolute"}`
    fn timer(&mut self, value: Node<'v>) -> Result<Step, Fault> {
        let (mut name, mut mode) = (Cow::Borrowed(UNNAMED), TimerMode::default());
        let mut period = Draw::Fixed(Nanos::ZERO);
        for member in value.object()? {
            match &*member.key() {
                "ref" => name = member.value.text()?,
                "period" => period = draw(member.value)?,
                "mode" => mode = timer_mode(member.value)?,
                _ => self.warnings().unknown(member),
            }
        }
        let timer = if name.starts_with(UNIQUE) {
            TimerRef::Unique(self.timers.id(&name, mode).0)
        } else {
            TimerRef::Shared(self.context.names.timers.id(&name, mode))
        };
        Ok(Step::Timer { timer, period, mode })
    }

    fn fork(&mut self, value: Node<'v>) -> Result<Step, Fault> {
        let name = value.text()?;
        match self.ids.find(&name) {
            Some(nth) => Ok(Step::Fork(SpecId(nth))),
            None => Err(Fault::new(value.at(), format!("no task is called {}", quoted(&name)))),
        }
    }

    /// `{"ref": pipe, "bytes": number, "capacity": number}`
    fn pipe(&mut self, value: Node<'v>) -> Result<(ObjectId, u64), Fault> {
        let (mut name, mut bytes, mut capacity) = (None, None, None);
        let mut capacity_at = value.at();
        for member in value.object()? {
            match &*member.key() {
                "ref" => name = Some(member.value.text()?),
                "bytes" => bytes = Some(member.value.natural("bytes", 1..=MAX_INT)?),
                "capacity" => {
                    capacity_at = member.value.at();
                    capacity = Some(member.value.natural("bytes", 1..=MAX_INT)?);
                }
                _ => self.warnings().unknown(member),
            }
        }
        let (Some(name), Some(bytes)) = (name, bytes) else {
            return Err(Fault::new(value.at(), "a pipe needs `ref` and `bytes`"));
        };
        Ok((self.context.names.pipe(&name, capacity, capacity_at)?, bytes.into()))
    }

    fn warnings(&mut self) -> &mut Warnings {
        &mut self.context.warnings
    }
}

fn timer_mode(value: Node<'_>) -> Result<TimerMode, Fault> {
    match &*value.text()? {
        "relative" => Ok(TimerMode::Relative),
        "absolute" => Ok(TimerMode::Absolute),
        _ => Err(value.expected("\"relative\" or \"absolute\"")),
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
            ("sem", None),
            ("Run", None),
            ("priority", None),
        ] {
            assert_eq!(Event::of(key), event, "{key}");
        }
    }

    #[test]
    fn no_name_hides_one_that_is_tried_later() {
        for (at, (name, event)) in EVENTS.iter().enumerate() {
            let found = EVENTS.iter().position(|(earlier, _)| name.starts_with(earlier));
            assert_eq!((found, Event::of(name)), (Some(at), Some(*event)), "{name}");
        }
    }
}
