//! The section `chains`, an extension: tasks that wake one another, from the first of them to the last.

use crate::diagnostic::{Fault, quoted};
use crate::json::{Member, Node};
use crate::nearest::did_you_mean;
use crate::scenario::{ChainSpec, Join, SpecId, Step, TaskSpec};
use crate::shape;
use runyard_engine::time::Nanos;
use std::collections::BTreeMap;

/// The longest deadline: an hour.
const LONGEST_US: u32 = 3_600_000_000;

/// Returns the chains of the section, which refer to `tasks`.
pub(super) fn read(section: Option<Node<'_>>, tasks: &[TaskSpec]) -> Result<Vec<ChainSpec>, Fault> {
    let ids = (0..).map(SpecId);
    let names: BTreeMap<_, _> = tasks.iter().map(|task| task.name.as_str()).zip(ids).collect();
    let known = Known { tasks, names };
    let members = section.map(Node::object).transpose()?;
    members.into_iter().flatten().map(|member| known.chain(member)).collect()
}

/// Reads a deadline.
pub(super) fn longest(node: Node<'_>) -> Result<Nanos, Fault> {
    let micros = node.natural("a deadline in microseconds", 1..=LONGEST_US)?;
    Ok(Nanos::from_micros(micros.into()))
}

/// The tasks of the scenario.
struct Known<'t> {
    tasks: &'t [TaskSpec],
    names: BTreeMap<&'t str, SpecId>,
}

impl Known<'_> {
    fn chain(&self, member: Member<'_>) -> Result<ChainSpec, Fault> {
        let name = member.key().into_owned();
        let (mut places, mut deadline, mut join) = (None, None, Join::All);
        if member.value.is_object() {
            for key in member.value.object()? {
                match shape::CHAIN.own("a chain", key)? {
                    "tasks" => places = Some(self.places(key.value)?),
                    "deadline_us" => deadline = Some(longest(key.value)?),
                    _ => join = joined(key.value)?,
                }
            }
        } else {
            places = Some(self.places(member.value)?);
        }
        match places {
            Some(places) => Ok(ChainSpec { name, places, join, deadline }),
            None => Err(Fault::new(member.value.at(), "a chain needs `tasks`")),
        }
    }

    /// Returns the tasks of each place, of which each can pass a token to one of the next.
    fn places(&self, list: Node<'_>) -> Result<Vec<Vec<SpecId>>, Fault> {
        let mut places: Vec<Vec<SpecId>> = Vec::new();
        for node in list.list()? {
            let nodes = if node.is_list() { node.list()?.collect() } else { vec![node] };
            let mut place = Vec::with_capacity(nodes.len());
            for node in nodes {
                let id = self.named(node)?;
                if let Some(before) = places.last() {
                    self.reaches(before, id).map_err(|what| Fault::new(node.at(), what))?;
                }
                place.push(id);
            }
            if place.is_empty() {
                return Err(Fault::new(node.at(), "a place of a chain has a task"));
            }
            places.push(place);
        }
        match places.is_empty() {
            false => Ok(places),
            true => Err(Fault::new(list.at(), "a chain has a task")),
        }
    }

    fn named(&self, node: Node<'_>) -> Result<SpecId, Fault> {
        let name = node.text()?;
        self.names.get(&*name).copied().ok_or_else(|| {
            let near = did_you_mean(&name, self.names.keys().copied());
            Fault::new(node.at(), format!("no task is called {}{near}", quoted(&name)))
        })
    }

    /// Returns an error if no task of `before` can wake the task `next` or send it a message.
    fn reaches(&self, before: &[SpecId], next: SpecId) -> Result<(), String> {
        let spec = |id: SpecId| &self.tasks[id.0 as usize];
        if before.iter().any(|&id| passes(spec(id), spec(next), next)) {
            return Ok(());
        }
        let names: Vec<_> = before.iter().map(|&id| quoted(&spec(id).name)).collect();
        Err(format!(
            "a token never comes here: {} wakes no {}, and sends it no message",
            names.join(" or "),
            quoted(&spec(next).name)
        ))
    }
}

fn joined(node: Node<'_>) -> Result<Join, Fault> {
    match &*node.text()? {
        "all" => Ok(Join::All),
        "first" => Ok(Join::First),
        _ => Err(node.expected("\"all\" or \"first\"")),
    }
}

/// Returns whether a task of `one` has a step that may wake a task of `next`, or leave a message that it takes.
fn passes(one: &TaskSpec, next: &TaskSpec, id: SpecId) -> bool {
    let steps = |task: &TaskSpec| task.phases.iter().flat_map(|phase| phase.steps.iter()).collect();
    let (gives, takes): (Vec<Step>, Vec<Step>) = (steps(one), steps(next));
    gives.iter().any(|give| *give == Step::Fork(id) || takes.iter().any(|take| wakes(give, take)))
}

/// Returns whether one step may end the wait of the other.
fn wakes(give: &Step, take: &Step) -> bool {
    match (*give, *take) {
        (Step::SemPost(one), Step::SemWait(other))
        | (Step::Resume(one), Step::Suspend(other))
        | (Step::Barrier(one), Step::Barrier(other))
        | (Step::Send { pipe: one, .. }, Step::Recv { pipe: other, .. }) => one == other,
        (
            Step::Signal(one) | Step::Broadcast(one) | Step::Sync { cond: one, .. },
            Step::Wait { cond: other, .. } | Step::Sync { cond: other, .. },
        ) => one == other,
        _ => false,
    }
}
