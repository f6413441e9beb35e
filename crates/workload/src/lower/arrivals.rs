//! The section `arrivals`, an extension: requests that come from outside.
//!
//! A chain of the same name measures them. One that the scenario does not list has a single place: the tasks that the
//! arrivals start, or that wait for their semaphore.

use super::chains::longest;
use super::context::Context;
use super::duration::{draw, micros};
use super::limits;
use super::number::MAX_INT;
use super::tasks::Task;
use super::values;
use crate::arrivals::{ArrivalsSpec, Receiver, Times};
use crate::diagnostic::{Fault, quoted};
use crate::draw::Draw;
use crate::json::{Member, Node};
use crate::nearest::did_you_mean;
use crate::scenario::{ChainSpec, Join, ObjectId, SpecId, Step, TaskSpec};
use crate::shape;
use runyard_engine::time::Nanos;

/// The highest rate, in millionths of an arrival a second: ten million of them.
const MOST: u64 = 10_000_000_000_000;

/// The keys of which an object has one: its times.
const TIMES: &str = "one of `every`, `rate`, `rates` and `times`";

/// The keys of which an object has one: its effect.
const EFFECTS: &str = "one of `sem_post` and `fork`";

/// Arrivals as read.
pub(super) struct Asked {
    pub(super) spec: ArrivalsSpec,
    /// The place of the key.
    pub(super) at: usize,
    deadline: Option<Nanos>,
}

/// Returns the arrivals of the section, in order.
pub(super) fn read(
    section: Option<Node<'_>>,
    tasks: &[Task],
    context: &mut Context,
) -> Result<Vec<Asked>, Fault> {
    let members = section.map(Node::object).transpose()?;
    members.into_iter().flatten().map(|member| one(member, tasks, context)).collect()
}

/// Refuses the section for a host on real CPUs.
pub(super) fn refuse_on_real_cpus(asked: &[Asked]) -> Result<(), Fault> {
    match asked.first() {
        None => Ok(()),
        Some(first) => {
            let what = "`arrivals` are for `sim` alone: on `live` and `linux` a task has to make the requests";
            Err(Fault::new(first.at, what))
        }
    }
}

fn one(member: Member<'_>, tasks: &[Task], context: &mut Context) -> Result<Asked, Fault> {
    let (mut times, mut to, mut jitter) = (None, None, None);
    let (mut bound, mut deadline) = (None, None);
    for key in member.value.object()? {
        let value = key.value;
        let new_times = match shape::ARRIVALS.own("`arrivals`", key)? {
            "every" => every(value, context)?,
            "rate" => Times::Rates(vec![(Nanos::ZERO, rate(value)?)]),
            "rates" => Times::Rates(rates(value)?),
            "times" => Times::At(times_of(value, context)?),
            "jitter" => {
                jitter = Some((value.at(), micros(value)?));
                continue;
            }
            "bound" => {
                bound = Some(value.natural("a number of requests", 0..=MAX_INT)?);
                continue;
            }
            "deadline_us" => {
                deadline = Some(longest(value)?);
                continue;
            }
            effect => {
                let new = match effect {
                    "fork" => forked(value, tasks)?,
                    _ => posted(value, tasks, context)?,
                };
                if to.replace(new).is_some() {
                    return Err(Fault::new(key.at, format!("arrivals have {EFFECTS}, not two")));
                }
                continue;
            }
        };
        if times.replace(new_times).is_some() {
            return Err(Fault::new(key.at, format!("arrivals have {TIMES}, not two")));
        }
    }
    let needs = |what: &str| Fault::new(member.value.at(), format!("arrivals need {what}"));
    let mut times = times.ok_or_else(|| needs(TIMES))?;
    if let Some((at, jitter)) = jitter {
        add_jitter(&mut times, at, jitter)?;
    }
    let to = to.ok_or_else(|| needs(EFFECTS))?;
    let spec = ArrivalsSpec { name: member.key().into_owned(), times, to, bound };
    Ok(Asked { spec, at: member.at, deadline })
}

fn every(node: Node<'_>, context: &mut Context) -> Result<Times, Fault> {
    let gap = draw(node, context)?;
    match gap.may_last() {
        true => Ok(Times::Every { gap, jitter: Nanos::ZERO }),
        false => Err(Fault::new(node.at(), "the time between two arrivals is above 0")),
    }
}

/// Adds a jitter to arrivals with a constant gap. With a longer jitter they would overtake each other.
fn add_jitter(times: &mut Times, at: usize, new: Nanos) -> Result<(), Fault> {
    match times {
        Times::Every { gap: Draw::Fixed(gap), jitter } if new <= *gap => {
            *jitter = new;
            Ok(())
        }
        _ => Err(Fault::new(at, "a jitter needs a constant `every` that is as long or longer")),
    }
}

fn rate(node: Node<'_>) -> Result<f64, Fault> {
    let millionths = node.decimal("a number a second, of 0 to 10000000", 0..=MOST)?;
    Ok(millionths as f64 / 1e6)
}

fn rates(node: Node<'_>) -> Result<Vec<(Nanos, f64)>, Fault> {
    let mut all: Vec<(Nanos, f64)> = Vec::new();
    for entry in node.list()? {
        let (mut from, mut new) = (None, None);
        for member in entry.object()? {
            match shape::RATE.own("a rate", member)? {
                "at" => from = Some((member.value.at(), limits::span(member.value)?)),
                _ => new = Some(rate(member.value)?),
            }
        }
        let (Some((at, from)), Some(new)) = (from, new) else {
            return Err(Fault::new(entry.at(), "a rate has `at` and `rate`"));
        };
        if all.last().is_some_and(|&(last, _)| last >= from) {
            return Err(Fault::new(at, "this is not after the time of the rate before"));
        }
        all.push((from, new));
    }
    match all.iter().any(|&(_, rate)| rate > 0.0) {
        true => Ok(all),
        false => Err(Fault::new(node.at(), "no rate is above 0")),
    }
}

fn times_of(node: Node<'_>, context: &Context) -> Result<&'static [Nanos], Fault> {
    let times = values::read(node, &context.folder)?;
    match times.is_sorted() {
        true => Ok(times),
        false => Err(Fault::new(node.at(), "the times are not in their order")),
    }
}

fn forked(node: Node<'_>, tasks: &[Task]) -> Result<Receiver, Fault> {
    let name = node.text()?;
    let names = || tasks.iter().map(|task| task.spec.name.as_str());
    let Some(found) = names().position(|known| *known == *name) else {
        let near = did_you_mean(&name, names());
        return Err(Fault::new(node.at(), format!("no task is called {}{near}", quoted(&name))));
    };
    if tasks[found].spec.delay.may_last() {
        let what = "a request begins when it arrives, and this task has a `delay`";
        return Err(Fault::new(node.at(), what));
    }
    if let Some(at) = tasks[found].barrier_at {
        return Err(Fault::new(at as usize, "a task that can be forked must not use a barrier"));
    }
    Ok(Receiver::Task(SpecId(found as u32)))
}

fn posted(node: Node<'_>, tasks: &[Task], context: &mut Context) -> Result<Receiver, Fault> {
    let name = node.text()?;
    let semaphore = context.names.semaphores.id(&name);
    let mut tasks = tasks.iter().map(|task| &task.spec);
    match tasks.any(|task| waits_for(task, semaphore)) {
        true => Ok(Receiver::Semaphore(semaphore)),
        false => {
            let what = format!("no task has a `sem_wait` of {}", quoted(&name));
            Err(Fault::new(node.at(), what))
        }
    }
}

fn waits_for(task: &TaskSpec, semaphore: ObjectId) -> bool {
    let mut steps = task.phases.iter().flat_map(|phase| phase.steps.iter());
    steps.any(|step| step == Step::SemWait(semaphore))
}

/// Returns whether some of the arrivals start tasks.
pub(super) fn start_tasks(asked: &[Asked]) -> bool {
    asked.iter().any(|it| matches!(it.spec.to, Receiver::Task(_)))
}

/// Adds a chain for each of the arrivals that has none. A chain that the scenario lists begins with these requests.
pub(super) fn add_chains(
    asked: &[Asked],
    tasks: &[TaskSpec],
    chains: &mut Vec<ChainSpec>,
) -> Result<(), Fault> {
    for Asked { spec, at, deadline } in asked {
        let takes = |(id, task): (SpecId, &TaskSpec)| match spec.to {
            Receiver::Task(started) => (id == started).then_some(id),
            Receiver::Semaphore(semaphore) => waits_for(task, semaphore).then_some(id),
        };
        let place: Vec<_> = (0..).map(SpecId).zip(tasks).filter_map(takes).collect();
        match chains.iter_mut().find(|chain| chain.name == spec.name) {
            None => chains.push(ChainSpec {
                name: spec.name.clone(),
                places: vec![place],
                join: Join::All,
                deadline: *deadline,
            }),
            Some(chain) if chain.places[0].iter().any(|id| place.contains(id)) => {
                chain.deadline = chain.deadline.or(*deadline);
            }
            Some(_) => {
                let what = "the first task of the chain of this name does not take these requests";
                return Err(Fault::new(*at, what));
            }
        }
    }
    Ok(())
}
