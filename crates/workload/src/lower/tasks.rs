//! The section `tasks`: thread objects and their phases.
//!
//! A thread object without `phases` is its own only phase. A property that a phase does not give stays as it was,
//! except for `cpus`, which fall back to the thread's. This is the behaviour of rt-app, and hosts must apply the
//! [`Properties`] of a phase in this way.

use super::context::Context;
use super::duration::draw;
use super::event::EventReader;
use super::fields::{Fields, Level};
use super::number::{MAX_INT, number};
use super::policy::PolicyName;
use super::properties::CurrentProperties;
use crate::diagnostic::Fault;
use crate::draw::Draw;
use crate::json::{Keys, Member, Node};
use crate::scenario::{
    Phase, Properties, SharedProperties, Step, Steps, TaskSpec, TimerMode, TimerRef,
};
use runyard_engine::time::Nanos;
use std::collections::BTreeSet;

/// The largest number of tasks at the start of a scenario.
const MAX_INSTANCES: u64 = 1_000_000;

/// A thread object as read.
pub(super) struct Task {
    pub(super) spec: TaskSpec,
    /// The place of its key.
    pub(super) at: u32,
    /// The place of its number of loops: the value of `loop`, else its key.
    pub(super) loop_at: u32,
    /// The same for the first of its phases with an endless loop.
    pub(super) endless_at: Option<u32>,
    /// The place of its first use of a barrier.
    pub(super) barrier_at: Option<u32>,
}

/// Reads the thread objects of the section, in order.
pub(super) fn read(
    section: Node<'_>,
    default_policy: PolicyName,
    context: &mut Context,
) -> Result<Vec<Task>, Fault> {
    let members = section.object()?;
    let ids = Keys::of(members.clone());
    let mut tasks = Vec::with_capacity(ids.len());
    let mut last = LastProperties::default();
    let mut instances = 0;
    for member in members {
        let name = member.key();
        let events = EventReader::new(&name, &ids);
        let properties = CurrentProperties::new(default_policy);
        let task = Reader { events, properties, last: &mut last, context }.thread(member)?;
        instances += u64::from(task.spec.instances);
        if instances > MAX_INSTANCES {
            return Err(Fault::new(
                task.at as usize,
                format!("with this task there are more than {MAX_INSTANCES} task instances"),
            ));
        }
        tasks.push(task);
    }
    refuse_forked_barriers(&tasks)?;
    let phases = tasks.iter_mut().flat_map(|task| &mut task.spec.phases);
    settle_timers(phases, |timer| match timer {
        TimerRef::Shared(id) => Some(context.names.timers.mode(id)),
        TimerRef::Unique(_) => None,
    });
    Ok(tasks)
}

/// Refuses forked tasks that use a barrier. A barrier counts its users when the file is read, so a fork comes too late.
fn refuse_forked_barriers(tasks: &[Task]) -> Result<(), Fault> {
    let phases = tasks.iter().flat_map(|task| &task.spec.phases);
    let forked: BTreeSet<u32> = phases
        .flat_map(|phase| phase.steps.iter())
        .filter_map(|step| if let Step::Fork(spec) = step { Some(spec.0) } else { None })
        .collect();
    for (id, task) in (0..).zip(tasks) {
        let forkable = task.spec.instances == 0 || forked.contains(&id);
        if let Some(at) = task.barrier_at.filter(|_| forkable) {
            return Err(Fault::new(
                at as usize,
                "a task that can be forked must not use a barrier",
            ));
        }
    }
    Ok(())
}

/// Gives every reference to a timer the mode that follows from all references to it, if `modes` has it.
fn settle_timers<'p>(
    phases: impl Iterator<Item = &'p mut Phase>,
    modes: impl Fn(TimerRef) -> Option<TimerMode>,
) {
    for step in phases.flat_map(|phase| phase.steps.timers_mut()) {
        if let Step::Timer { timer, mode, .. } = step {
            *mode = modes(*timer).unwrap_or(*mode);
        }
    }
}

/// The reader of one thread object.
struct Reader<'c, 'v> {
    events: EventReader<'c, 'v>,
    properties: CurrentProperties,
    last: &'c mut LastProperties,
    context: &'c mut Context,
}

/// The properties of the last thread and of the last phase.
#[derive(Default)]
struct LastProperties {
    thread: SharedProperties,
    phase: SharedProperties,
}

/// Returns `properties` as the shared ones that were stored last, if both are equal.
fn shared(last: &mut SharedProperties, properties: Properties) -> SharedProperties {
    if **last != properties {
        *last = properties.into();
    }
    last.clone()
}

/// The program of a thread.
struct Program {
    loops: Option<u32>,
    phases: Vec<Phase>,
}

impl<'v> Reader<'_, 'v> {
    fn thread(mut self, member: Member<'v>) -> Result<Task, Fault> {
        let fields = Fields::read(member.value, Level::Thread, &mut self.context.warnings)?;
        if let Some(node) = fields.instance {
            self.events.instances = node.natural("a number of instances", 0..=MAX_INT)?;
        }
        let properties = self.properties.of_thread(&fields, self.context)?;
        let properties = shared(&mut self.last.thread, properties);
        let (program, endless_at) = match fields.phases {
            Some(phases) => self.phases(phases, &fields)?,
            None => self.only_phase(member, &fields)?,
        };
        let delay = match fields.delay {
            Some(node) => draw(node, self.context)?,
            None => Draw::Fixed(Nanos::ZERO),
        };
        let reset_on_fork = fields.reset_on_fork.map_or(Ok(false), Node::boolean)?;
        let Program { loops, mut phases } = program;
        settle_timers(phases.iter_mut(), |timer| match timer {
            TimerRef::Shared(_) => None,
            TimerRef::Unique(own) => Some(self.events.own_timer_mode(own)),
        });
        let (name, instances) = (member.key().into_owned(), self.events.instances);
        Ok(Task {
            spec: TaskSpec { name, instances, delay, properties, reset_on_fork, loops, phases },
            at: number(member.at),
            loop_at: fields.loop_at(member),
            endless_at,
            barrier_at: self.events.barrier_at,
        })
    }

    /// Reads the program of a thread with `phases`. Also returns the place of the first endless loop of a phase.
    fn phases(
        &mut self,
        listed: Node<'v>,
        thread: &Fields<'v>,
    ) -> Result<(Program, Option<u32>), Fault> {
        for (_, event) in thread.events() {
            self.context.warnings.beside_phases(event);
        }
        let loops = thread.loops.map_or(Ok(-1), rounds)?;
        let (mut phases, mut endless_at) = (Vec::new(), None);
        // `workgen` numbers repeated phases, as it does events.
        for member in listed.object_with(|_| true)? {
            let fields = Fields::read(member.value, Level::Phase, &mut self.context.warnings)?;
            let properties = self.properties.read(&fields, self.context)?;
            let properties = shared(&mut self.last.phase, properties);
            let phase = Phase { properties, ..self.phase(member, &fields)? };
            if phase.loops.is_none() {
                endless_at.get_or_insert(fields.loop_at(member));
            }
            phases.push(phase);
        }
        phases.shrink_to_fit();
        match phases.is_empty() {
            true => Err(Fault::new(listed.at(), "a thread needs a phase")),
            false => Ok((Program { loops: u32::try_from(loops).ok(), phases }, endless_at)),
        }
    }

    /// Reads the program of a thread without `phases`. Its `loop` is the loop of its only phase.
    fn only_phase(
        &mut self,
        member: Member<'v>,
        fields: &Fields<'v>,
    ) -> Result<(Program, Option<u32>), Fault> {
        let loops = fields.loops.map(|_| 1);
        let phase = Phase { name: String::new(), ..self.phase(member, fields)? };
        let endless_at = phase.loops.is_none().then(|| fields.loop_at(member));
        Ok((Program { loops, phases: vec![phase] }, endless_at))
    }

    /// Reads the phase `member`, except for its properties.
    fn phase(&mut self, member: Member<'v>, fields: &Fields<'v>) -> Result<Phase, Fault> {
        self.properties.check(member, fields, self.context.deadline)?;
        if fields.events == 0 {
            return Err(Fault::new(member.value.at(), "a thread or phase needs an event"));
        }
        let steps = fields.events();
        let steps = steps.map(|(event, member)| self.events.step(event, member, self.context));
        let steps = Steps::of(fields.events, steps)?;
        // rt-app increments its counter before it compares, so that neither 0 nor -1 is reached.
        let loops = fields.loops.map_or(Ok(1), rounds)?;
        let loops = u32::try_from(loops).ok().filter(|&loops| loops > 0);
        Ok(Phase {
            name: member.key().into_owned(),
            loops,
            properties: SharedProperties::default(),
            steps,
        })
    }
}

/// Reads a number of rounds; -1 is without an end.
fn rounds(node: Node<'_>) -> Result<i64, Fault> {
    node.integer("rounds, or -1 for ever", -1..=MAX_INT.into())
}
