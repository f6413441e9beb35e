//! The section `chains`, an extension: tasks that wake one another, from the first of them to the last.

use crate::diagnostic::{Fault, quoted};
use crate::json::{Member, Node};
use crate::nearest::did_you_mean;
use crate::scenario::{ChainSpec, SpecId, TaskSpec};
use crate::shape;
use runyard_engine::time::Nanos;
use std::collections::BTreeMap;

/// The longest deadline: an hour.
const LONGEST_US: u32 = 3_600_000_000;

/// Returns the chains of the section, which refer to `tasks`.
pub(super) fn read(section: Option<Node<'_>>, tasks: &[TaskSpec]) -> Result<Vec<ChainSpec>, Fault> {
    let ids = (0..).map(SpecId);
    let names: BTreeMap<_, _> = tasks.iter().map(|task| task.name.as_str()).zip(ids).collect();
    let members = section.map(Node::object).transpose()?;
    members.into_iter().flatten().map(|member| chain(member, &names)).collect()
}

fn chain(member: Member<'_>, names: &BTreeMap<&str, SpecId>) -> Result<ChainSpec, Fault> {
    let name = member.key().into_owned();
    if !member.value.is_object() {
        let tasks = named(member.value, names)?;
        return Ok(ChainSpec { name, tasks, deadline: None });
    }
    let (mut tasks, mut deadline) = (None, None);
    for key in member.value.object()? {
        match shape::CHAIN.own("a chain", key)? {
            "tasks" => tasks = Some(named(key.value, names)?),
            "deadline_us" => {
                let micros = key.value.natural("a deadline in microseconds", 1..=LONGEST_US)?;
                deadline = Some(Nanos::from_micros(micros.into()));
            }
            _ => unreachable!("every key of a chain is read"),
        }
    }
    match tasks {
        Some(tasks) => Ok(ChainSpec { name, tasks, deadline }),
        None => Err(Fault::new(member.value.at(), "a chain needs `tasks`")),
    }
}

/// Returns the listed tasks, in order.
fn named(list: Node<'_>, names: &BTreeMap<&str, SpecId>) -> Result<Vec<SpecId>, Fault> {
    let one = |node: Node<'_>| {
        let name = node.text()?;
        names.get(&*name).copied().ok_or_else(|| {
            let near = did_you_mean(&name, names.keys().copied());
            Fault::new(node.at(), format!("no task is called {}{near}", quoted(&name)))
        })
    };
    let tasks: Vec<_> = list.list()?.map(one).collect::<Result<_, _>>()?;
    match tasks.is_empty() {
        false => Ok(tasks),
        true => Err(Fault::new(list.at(), "a chain has a task")),
    }
}
