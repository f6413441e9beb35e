//! The events of a thread or phase, which become the steps of a program.

use super::context::Context;
use super::duration::draw;
use super::memory;
use super::number::{MAX_INT, number};
use super::objects::{Names, Timers};
use crate::diagnostic::{Fault, quoted};
use crate::draw::Draw;
use crate::json::{Keys, Member, Node};
use crate::nearest::did_you_mean;
use crate::scenario::{ObjectId, SpecId, Step, TimerMode, TimerRef};
use crate::shape::{self, Event};
use runyard_engine::time::Nanos;
use std::borrow::Cow;

/// rt-app's name of an object without a name.
const UNNAMED: &str = "unknown";

/// The prefix of timer names that belong to one task each.
const UNIQUE: &str = "unique";

/// The reader of the events of one thread object.
pub(super) struct EventReader<'c, 'v> {
    name: &'c str,
    /// The number of tasks that run the program from the start.
    pub(super) instances: u32,
    /// The threads by name, for `fork`.
    ids: &'c Keys<'v>,
    /// The timers of a task's own.
    timers: Timers,
    /// The place of the first use of a barrier.
    pub(super) barrier_at: Option<u32>,
}

impl<'c, 'v> EventReader<'c, 'v> {
    /// Returns the reader for the thread called `name`, with one instance.
    pub(super) fn new(name: &'c str, ids: &'c Keys<'v>) -> EventReader<'c, 'v> {
        EventReader { name, instances: 1, ids, timers: Timers::default(), barrier_at: None }
    }

    /// Returns the mode of a timer of a task's own, once all events are read.
    pub(super) fn own_timer_mode(&self, own: u32) -> TimerMode {
        self.timers.mode(ObjectId(own))
    }

    /// Returns the step that an event of the task describes.
    pub(super) fn step(
        &mut self,
        event: Event,
        member: Member<'_>,
        context: &mut Context,
    ) -> Result<Step, Fault> {
        let value = member.value;
        let names = &mut context.names;
        Ok(match event {
            Event::Run => Step::Run(draw(value, context)?),
            Event::Runtime => Step::Runtime(draw(value, context)?),
            Event::Sleep => Step::Sleep(draw(value, context)?),
            Event::Memrun => memory::memrun(member, context)?,
            Event::Mem | Event::Iorun => memory::moved(event, value)?,
            Event::Lock => Step::Lock(names.mutexes.id(&value.text()?)),
            Event::Unlock => Step::Unlock(names.mutexes.id(&value.text()?)),
            Event::Signal => Step::Signal(names.conditions.id(&value.text()?)),
            Event::Broadcast => Step::Broadcast(names.conditions.id(&value.text()?)),
            Event::Wait => {
                let (cond, mutex) = condition(value, context)?;
                Step::Wait { cond, mutex }
            }
            Event::Sync => {
                let (cond, mutex) = condition(value, context)?;
                Step::Sync { cond, mutex }
            }
            Event::Barrier => {
                let barrier = names.barrier(&value.text()?, self.instances);
                self.barrier_at.get_or_insert(number(member.at));
                Step::Barrier(barrier)
            }
            Event::Timer => self.timer(value, context)?,
            Event::Resume => Step::Resume(names.resume(&value.text()?, value.at())),
            Event::Suspend => Step::Suspend(names.suspend(self.name)),
            Event::Yield => Step::Yield,
            Event::Fork => self.fork(value)?,
            Event::SemPost => Step::SemPost(names.semaphores.id(&value.text()?)),
            Event::SemWait => Step::SemWait(names.semaphores.id(&value.text()?)),
            Event::Send => {
                let (pipe, bytes) = pipe(value, names)?;
                Step::Send { pipe, bytes }
            }
            Event::Recv => {
                let (pipe, bytes) = pipe(value, names)?;
                Step::Recv { pipe, bytes }
            }
            Event::Exit => Step::Exit,
            Event::Kernel => Step::Kernel(draw(value, context)?),
        })
    }

    /// Reads `{"ref": timer, "period": duration, "mode": "relative" or "absolute"}`.
    fn timer(&mut self, value: Node<'_>, context: &mut Context) -> Result<Step, Fault> {
        let (mut name, mut mode) = (Cow::Borrowed(UNNAMED), TimerMode::default());
        let mut period = Draw::Fixed(Nanos::ZERO);
        for member in value.object()? {
            match &*member.key() {
                "ref" => name = member.value.text()?,
                "period" => period = draw(member.value, context)?,
                "mode" => mode = timer_mode(member.value)?,
                _ => context.warnings.unknown(member, shape::TIMER),
            }
        }
        let timer = if name.starts_with(UNIQUE) {
            TimerRef::Unique(self.timers.id(&name, mode).0)
        } else {
            TimerRef::Shared(context.names.timers.id(&name, mode))
        };
        Ok(Step::Timer { timer, period, mode })
    }

    fn fork(&self, value: Node<'_>) -> Result<Step, Fault> {
        let name = value.text()?;
        match self.ids.find(&name) {
            Some(nth) => Ok(Step::Fork(SpecId(nth))),
            None => {
                let names = self.ids.names();
                let near = did_you_mean(&name, names.iter().map(String::as_str));
                let what = format!("no task is called {}{near}", quoted(&name));
                Err(Fault::new(value.at(), what))
            }
        }
    }
}

/// Reads `{"ref": condition, "mutex": mutex}`.
fn condition(value: Node<'_>, context: &mut Context) -> Result<(ObjectId, ObjectId), Fault> {
    let (mut cond, mut mutex) = (Cow::Borrowed(UNNAMED), Cow::Borrowed(UNNAMED));
    for member in value.object()? {
        match &*member.key() {
            "ref" => cond = member.value.text()?,
            "mutex" => mutex = member.value.text()?,
            _ => context.warnings.unknown(member, shape::CONDITION),
        }
    }
    let names = &mut context.names;
    Ok((names.conditions.id(&cond), names.mutexes.id(&mutex)))
}

/// Reads `{"ref": pipe, "bytes": number, "capacity": number}`.
fn pipe(value: Node<'_>, names: &mut Names) -> Result<(ObjectId, u64), Fault> {
    let (mut name, mut bytes, mut capacity) = (None, None, None);
    let mut capacity_at = value.at();
    for member in value.object()? {
        match shape::PIPE.own("`send` and `recv`", member)? {
            "ref" => name = Some(member.value.text()?),
            "bytes" => bytes = Some(member.value.natural("bytes", 1..=MAX_INT)?),
            "capacity" => {
                capacity_at = member.value.at();
                capacity = Some(member.value.natural("bytes", 1..=MAX_INT)?);
            }
            _ => unreachable!("every key of a pipe is read"),
        }
    }
    let (Some(name), Some(bytes)) = (name, bytes) else {
        return Err(Fault::new(value.at(), "a pipe needs `ref` and `bytes`"));
    };
    Ok((names.pipe(&name, capacity, capacity_at)?, bytes.into()))
}

fn timer_mode(value: Node<'_>) -> Result<TimerMode, Fault> {
    match &*value.text()? {
        "relative" => Ok(TimerMode::Relative),
        "absolute" => Ok(TimerMode::Absolute),
        _ => Err(value.expected("\"relative\" or \"absolute\"")),
    }
}
