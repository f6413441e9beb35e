//! The members of thread and phase objects, sorted by their subjects.

use super::deadline::DeadlineFields;
use super::number::{MAX_INT, number};
use super::warnings::Warnings;
use crate::diagnostic::Fault;
use crate::json::{Member, Node};
use crate::shape::{self, Event};

/// The largest utilization clamp, which means a whole CPU.
const MAX_CLAMP: i64 = 1_024;

/// The level of an object, which decides the meaning of its keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Thread,
    Phase,
}

/// The members of one object.
#[derive(Default)]
pub(super) struct Fields<'v> {
    pub(super) instance: Option<Node<'v>>,
    pub(super) delay: Option<Node<'v>>,
    pub(super) phases: Option<Node<'v>>,
    pub(super) loops: Option<Node<'v>>,
    pub(super) cpus: Option<Node<'v>>,
    pub(super) taskgroup: Option<Node<'v>>,
    pub(super) group: Option<Node<'v>>,
    pub(super) policy: Option<Node<'v>>,
    pub(super) priority: Option<Node<'v>>,
    pub(super) slack: Option<Node<'v>>,
    pub(super) latency_nice: Option<Node<'v>>,
    pub(super) slice: Option<Node<'v>>,
    pub(super) cookie: Option<Node<'v>>,
    pub(super) deadline: DeadlineFields<'v>,
    pub(super) reset_on_fork: Option<Node<'v>>,
    /// The object itself, which contains the events, and the number of events.
    object: Option<Node<'v>>,
    pub(super) events: usize,
}

impl<'v> Fields<'v> {
    /// Sorts the members of an object.
    pub(super) fn read(
        object: Node<'v>,
        level: Level,
        warnings: &mut Warnings,
    ) -> Result<Fields<'v>, Fault> {
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
                        warnings.instead(member.at, why);
                        continue;
                    }
                    match Event::of(key) {
                        Some(_) => fields.events += 1,
                        None => warnings.unknown(member, shape),
                    }
                    continue;
                }
            };
            *field = Some(member.value);
        }
        Ok(fields)
    }

    /// Returns the events in order. They are read again for each use, as there can be millions.
    pub(super) fn events(&self) -> impl Iterator<Item = (Event, Member<'v>)> + use<'v> {
        let members = self.object.into_iter().flat_map(Node::members);
        members.filter_map(|member| Some((Event::of(&member.key())?, member)))
    }

    /// Returns the place of the number of loops of `member`: the value of `loop`, else its key.
    pub(super) fn loop_at(&self, member: Member<'_>) -> u32 {
        number(self.loops.map_or(member.at, Node::at))
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
