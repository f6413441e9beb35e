//! The section `tasks`: thread objects and their phases.
//!
//! A thread object without `phases` is its own only phase. A property that a phase does not give stays as it was,
//! except for `cpus`, which fall back to the thread's. This is the behaviour of rt-app, and hosts must apply the
//! [`Properties`] of a phase in this way.

use super::context::Context;
use super::deadline::DeadlineFields;
use super::duration::{draw, micros};
use super::number::{MAX_INT, number};
use super::objects::Timers;
use super::policy::{PolicyName, latency_nice};
use crate::diagnostic::Fault;
use crate::draw::Draw;
use crate::json::{Keys, Member, Node};
use crate::scenario::{
    ObjectId, Phase, Properties, Reservation, SharedProperties, Step, Steps, TaskSpec, TimerMode,
    TimerRef,
};
use crate::shape::{self, Event};
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::task::Update;
use runyard_engine::time::Nanos;
use std::collections::BTreeSet;

/// The largest number of tasks at the start of a scenario.
const MAX_INSTANCES: u64 = 1_000_000;

/// The largest utilization clamp, which means a whole CPU.
const MAX_CLAMP: i64 = 1_024;

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
    barrier_at: Option<u32>,
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
        let reader = Reader::new(&name, default_policy, &ids, context, &mut last);
        let task = reader.thread(member)?;
        instances += u64::from(task.spec.instances);
        if instances > MAX_INSTANCES {
            return Err(Fault::new(
                task.at as usize,
                format!("with this task there are more than {MAX_INSTANCES} task instances"),
            ));
        }
        tasks.push(task);
    }
    if instances == 0 {
        return Err(Fault::new(section.at(), "no task has an instance"));
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
pub(super) struct Reader<'c, 'v> {
    pub(super) name: &'c str,
    pub(super) instances: u32,
    /// The threads by name, for `fork`.
    pub(super) ids: &'c Keys<'v>,
    pub(super) context: &'c mut Context,
    last: &'c mut LastProperties,
    pub(super) timers: Timers,
    pub(super) barrier_at: Option<u32>,
    /// The policy at this point of the file.
    pub(super) policy: PolicyName,
    /// The reservation at this point of the file, for a policy that has one.
    pub(super) reservation: Option<Reservation>,
    /// Whether the group at this point of the file is a `taskgroup`.
    in_taskgroup: bool,
}

/// The level of an object, which decides the meaning of its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Thread,
    Phase,
}

/// The properties of the last thread and of the last phase.
#[derive(Default)]
struct LastProperties([SharedProperties; 2]);

impl LastProperties {
    /// Returns shared properties for a level. Properties equal to the last ones of that level are stored once.
    fn shared(&mut self, level: Level, properties: Properties) -> SharedProperties {
        let last = &mut self.0[level as usize];
        if **last != properties {
            *last = properties.into();
        }
        last.clone()
    }
}

/// The members of a thread or phase object, sorted by their subjects.
#[derive(Default)]
pub(super) struct Fields<'v> {
    instance: Option<Node<'v>>,
    delay: Option<Node<'v>>,
    phases: Option<Node<'v>>,
    loops: Option<Node<'v>>,
    cpus: Option<Node<'v>>,
    taskgroup: Option<Node<'v>>,
    group: Option<Node<'v>>,
    pub(super) policy: Option<Node<'v>>,
    pub(super) priority: Option<Node<'v>>,
    slack: Option<Node<'v>>,
    latency_nice: Option<Node<'v>>,
    pub(super) slice: Option<Node<'v>>,
    cookie: Option<Node<'v>>,
    pub(super) deadline: DeadlineFields<'v>,
    reset_on_fork: Option<Node<'v>>,
    /// The object itself, which contains the events, and the number of events.
    object: Option<Node<'v>>,
    events: usize,
}

impl<'v> Fields<'v> {
    /// Returns the events in order. They are read again for each use, as there can be millions.
    pub(super) fn events(&self) -> impl Iterator<Item = (Event, Member<'v>)> + use<'v> {
        let members = self.object.into_iter().flat_map(Node::members);
        members.filter_map(|member| Some((Event::of(&member.key())?, member)))
    }

    /// Returns the place of the number of loops of `member`: the value of `loop`, else its key.
    fn loop_at(&self, member: Member<'_>) -> u32 {
        number(self.loops.map_or(member.at, Node::at))
    }
}

/// The program of a thread.
struct Program {
    loops: Option<u32>,
    phases: Vec<Phase>,
}

impl<'c, 'v> Reader<'c, 'v> {
    fn new(
        name: &'c str,
        policy: PolicyName,
        ids: &'c Keys<'v>,
        context: &'c mut Context,
        last: &'c mut LastProperties,
    ) -> Reader<'c, 'v> {
        Reader {
            name,
            instances: 1,
            ids,
            context,
            last,
            timers: Timers::default(),
            barrier_at: None,
            policy,
            reservation: None,
            in_taskgroup: false,
        }
    }

    fn thread(mut self, member: Member<'v>) -> Result<Task, Fault> {
        let fields = self.fields(member.value, Level::Thread)?;
        if let Some(node) = fields.instance {
            self.instances = node.natural("a number of instances", 0..=MAX_INT)?;
        }
        let mut properties = self.properties(&fields)?;
        if properties.policy.is_none() {
            properties.policy = Some(self.policy.with(None)?);
        }
        let properties = self.last.shared(Level::Thread, properties);
        let (program, endless_at) = match fields.phases {
            Some(phases) => self.phases(phases, &fields)?,
            None => self.only_phase(member, &fields)?,
        };
        let delay = fields.delay.map_or(Ok(Draw::Fixed(Nanos::ZERO)), draw)?;
        let reset_on_fork = fields.reset_on_fork.map_or(Ok(false), Node::boolean)?;
        let Program { loops, mut phases } = program;
        settle_timers(phases.iter_mut(), |timer| match timer {
            TimerRef::Shared(_) => None,
            TimerRef::Unique(own) => Some(self.timers.mode(ObjectId(own))),
        });
        let (name, instances) = (self.name.to_owned(), self.instances);
        Ok(Task {
            spec: TaskSpec { name, instances, delay, properties, reset_on_fork, loops, phases },
            at: number(member.at),
            loop_at: fields.loop_at(member),
            endless_at,
            barrier_at: self.barrier_at,
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
            let fields = self.fields(member.value, Level::Phase)?;
            let properties = self.properties(&fields)?;
            let properties = self.last.shared(Level::Phase, properties);
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
        if self.in_taskgroup && self.policy.is_real_time() {
            let told = fields.taskgroup.or(fields.policy);
            let what = "a real-time task in a `taskgroup`; `group` allows it";
            return Err(Fault::new(told.map_or(member.at, Node::at), what));
        }
        self.needs_reservation(member, fields)?;
        if fields.events == 0 {
            return Err(Fault::new(member.value.at(), "a thread or phase needs an event"));
        }
        let steps = fields.events().map(|(event, member)| self.step(event, member));
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

    fn fields(&mut self, object: Node<'v>, level: Level) -> Result<Fields<'v>, Fault> {
        let thread = level == Level::Thread;
        let shape = if thread { shape::THREAD } else { shape::PHASE };
        let deadline = DeadlineFields::of(thread);
        let mut fields = Fields { deadline, object: Some(object), ..Fields::default() };
        for member in object.object_with(|key| Event::of(key).is_some())? {
            let field = match &*member.key() {
                "instance" if thread => &mut fields.instance,
                "delay" if thread => &mut fields.delay,
                "phases" if thread => &mut fields.phases,
                "loop" => &mut fields.loops,
                "cpus" => &mut fields.cpus,
                "taskgroup" => &mut fields.taskgroup,
                "group" => &mut fields.group,
                "policy" => &mut fields.policy,
                "priority" => &mut fields.priority,
                "timer_slack" => &mut fields.slack,
                "latency_nice" => &mut fields.latency_nice,
                "slice" => &mut fields.slice,
                "cookie" => &mut fields.cookie,
                "reset_on_fork" if thread => &mut fields.reset_on_fork,
                key => {
                    if fields.deadline.take(member) {
                        continue;
                    }
                    if let Some(why) = without_effect(member)? {
                        self.context.warnings.instead(member.at, why);
                        continue;
                    }
                    match Event::of(key) {
                        Some(_) => fields.events += 1,
                        None => self.context.warnings.unknown(member, shape),
                    }
                    continue;
                }
            };
            *field = Some(member.value);
        }
        Ok(fields)
    }

    fn properties(&mut self, fields: &Fields<'v>) -> Result<Properties, Fault> {
        if let Some(node) = fields.policy {
            let context = &mut self.context;
            self.policy = PolicyName::read(node, context.deadline, &mut context.warnings)?;
        }
        let (slice, reserves) = self.deadlines(fields)?;
        let policy = match fields.policy.is_some() || fields.priority.is_some() || reserves {
            true => Some(self.policy.with(fields.priority)?),
            false => None,
        };
        let group = match (fields.group, fields.taskgroup) {
            (Some(node), Some(_)) => {
                return Err(Fault::new(node.at(), "`group` and `taskgroup` in one object"));
            }
            (Some(node), None) => Some(self.context.groups.named(node)?),
            (None, Some(node)) => self.context.groups.created(node)?,
            (None, None) => None,
        };
        if group.is_some() {
            self.in_taskgroup = fields.taskgroup.is_some();
        }
        let cpus = fields.cpus.map(|node| cpu_set(node, self.context.cpus)).transpose()?;
        let slack = fields.slack.map(micros).transpose()?;
        let latency_nice = fields.latency_nice.map(latency_nice).transpose()?;
        let cookie = match fields.cookie {
            Some(node) => self.context.cookies.named(node)?.into(),
            None => Update::Keep,
        };
        let reservation = self.reservation;
        Ok(Properties { cpus, policy, group, slack, latency_nice, slice, cookie, reservation })
    }
}

/// Checks a property that rt-app requests from the kernel and that no host here has. Returns the reason why it has no
/// effect. A value that rt-app would refuse is an error here as well.
fn without_effect(member: Member<'_>) -> Result<Option<&'static str>, Fault> {
    let value = member.value;
    Ok(match &*member.key() {
        "util_min" | "util_max" => {
            value.integer("a utilization, or -1 for no change", -1..=MAX_CLAMP)?;
            Some("utilization clamps have no effect here: all CPUs have one capacity and speed")
        }
        "nodes_membind" => {
            value.list()?.try_for_each(|node| node.natural("a node", 0..=MAX_INT).map(drop))?;
            Some("`nodes_membind` has no effect here: all memory is equally near")
        }
        _ => None,
    })
}

/// Reads a number of rounds; -1 is without an end.
fn rounds(node: Node<'_>) -> Result<i64, Fault> {
    node.integer("rounds, or -1 for ever", -1..=MAX_INT.into())
}

fn cpu_set(node: Node<'_>, cpus: usize) -> Result<CpuSet, Fault> {
    let mut listed = node.list()?.peekable();
    if listed.peek().is_none() {
        return Err(Fault::new(node.at(), "an empty list of CPUs"));
    }
    let last = number(cpus) - 1;
    let cpu = |node: Node<'_>| {
        let cpu = node.natural("a CPU of the machine", 0..=last)?;
        Ok(CpuId::at(cpu as usize))
    };
    listed.map(cpu).collect()
}
