//! The checks that time passes in a scenario, and that the scenario ends.
//!
//! Both use the text alone, so only certain cases are refused. One case is an endless loop without any step that can
//! take time, in which virtual time would not advance. The other is an endless loop, or endless forks, without a
//! duration. Whether a task ever waits at a lock, a condition or a pipe depends on other tasks. So a step that may
//! block counts as one that may take time. A host must still handle a task that repeats such a loop at one instant.

use super::arrivals::Asked;
use super::number::number;
use super::tasks::Task;
use crate::arrivals::Receiver;
use crate::diagnostic::{Fault, quoted};
use crate::scenario::{Objects, Phase, SpecId, Step, TaskSpec};
use runyard_engine::time::Nanos;

pub(super) fn check(
    tasks: &[Task],
    objects: &Objects,
    arrivals: &[Asked],
    has_duration: bool,
) -> Result<(), Fault> {
    let courses: Vec<_> = tasks.iter().map(|task| Course::of(task, objects)).collect();
    for course in &courses {
        if let Some(at) = course.endless_at.filter(|_| course.stands_still) {
            let what = "this loop goes on for ever, and no step in it can take any time";
            return Err(Fault::new(at as usize, what));
        }
    }
    let requests: Vec<_> = arrivals.iter().filter_map(started).collect();
    for &task in &requests {
        if let Some(at) = courses[task].endless_at {
            let what = "this goes on for ever, so the request that starts it never ends: give it a \"loop\"";
            return Err(Fault::new(at as usize, what));
        }
    }
    let live = live(tasks, &courses, &requests);
    let fault = |found: usize, at: u32, what: &str| {
        Err(Fault::new(at as usize, format!("{} {what}", quoted(&tasks[found].spec.name))))
    };
    if let Some(found) =
        forked_for_ever(&live, |at| &courses[at].forks[..courses[at].prompt as usize])
    {
        return fault(found, tasks[found].at, "is forked for ever, and no time can pass meanwhile");
    }
    if has_duration {
        return Ok(());
    }
    if let Some(endless) = arrivals.iter().find(|it| it.spec.times.are_endless()) {
        let what = "these arrivals go on for ever, and the scenario has no `duration`";
        return Err(Fault::new(endless.at, what));
    }
    for found in (0..tasks.len()).filter(|&at| live[at]) {
        if let Some(at) = courses[found].endless_at {
            return fault(found, at, "goes on for ever, and the scenario has no `duration`");
        }
    }
    match forked_for_ever(&live, |at| &courses[at].forks) {
        None => Ok(()),
        Some(found) => {
            fault(found, tasks[found].at, "is forked for ever, and the scenario has no `duration`")
        }
    }
}

/// The course of a task's life.
struct Course {
    /// The tasks that it forks.
    forks: Box<[SpecId]>,
    /// The place of the endless loop in which it stays, if any.
    endless_at: Option<u32>,
    /// The endless loop cannot take any time.
    stands_still: bool,
    /// The number of immediate forks: those before any step that can take time, of a task that never keeps a CPU busy.
    prompt: u32,
}

/// The end of a task's course.
#[derive(Clone, Copy)]
enum End {
    /// It ends.
    Ends,
    /// It stays in this phase.
    InPhase(usize),
    /// It repeats its phases without an end.
    InThread,
}

impl Course {
    fn of(Task { spec: task, loop_at, endless_at, .. }: &Task, objects: &Objects) -> Course {
        let (phases, end) = reached(task);
        let steps = || steps(phases).take_while(|&step| step != Step::Exit);
        let takes_time = |step| may_take_time(step, objects);
        let stands_still = match end {
            End::InPhase(phase) => !task.phases[phase].steps.iter().any(takes_time),
            End::Ends | End::InThread => !steps().any(takes_time),
        };
        let busy = steps().any(may_be_busy) || task.delay.may_last();
        let at_once = steps().take_while(|&step| !takes_time(step));
        Course {
            forks: steps().filter_map(forked).collect(),
            endless_at: match end {
                End::Ends => None,
                End::InPhase(_) => *endless_at,
                End::InThread => Some(*loop_at),
            },
            stands_still,
            prompt: if busy { 0 } else { number(at_once.filter_map(forked).count()) },
        }
    }
}

fn steps(phases: &[Phase]) -> impl Iterator<Item = Step> + '_ {
    phases.iter().flat_map(|phase| phase.steps.iter())
}

fn forked(step: Step) -> Option<SpecId> {
    if let Step::Fork(spec) = step { Some(spec) } else { None }
}

/// Returns the phases that a task can reach, in the last of them up to an `exit` if there is one, and the end of its
/// course.
fn reached(task: &TaskSpec) -> (&[Phase], End) {
    if task.loops == Some(0) {
        return (&[], End::Ends);
    }
    for (at, phase) in task.phases.iter().enumerate() {
        if phase.steps.iter().any(|step| step == Step::Exit) {
            return (&task.phases[..=at], End::Ends);
        }
        if phase.loops.is_none() {
            return (&task.phases[..=at], End::InPhase(at));
        }
    }
    let end = if task.loops.is_none() { End::InThread } else { End::Ends };
    (&task.phases, end)
}

fn may_be_busy(step: Step) -> bool {
    match step {
        Step::Run(span) | Step::Runtime(span) | Step::Kernel(span) => span.may_last(),
        Step::Memory(span) => span > Nanos::ZERO,
        _ => false,
    }
}

fn may_take_time(step: Step, objects: &Objects) -> bool {
    match step {
        Step::Run(_) | Step::Runtime(_) | Step::Memory(_) | Step::Kernel(_) => may_be_busy(step),
        Step::Sleep(span) => span.may_last(),
        Step::Timer { period, .. } => period.may_last(),
        Step::Barrier(barrier) => objects.barriers[barrier.0 as usize].1 > 1,
        Step::Lock(_) | Step::Wait { .. } | Step::Sync { .. } | Step::SemWait(_) => true,
        Step::Suspend(_) | Step::Send { .. } | Step::Recv { .. } => true,
        Step::Unlock(_) | Step::Signal(_) | Step::Broadcast(_) | Step::SemPost(_) => false,
        Step::Resume(_) | Step::Yield | Step::Fork(_) | Step::Exit => false,
    }
}

/// Returns the task that each of the arrivals starts, if any.
fn started(arrivals: &Asked) -> Option<usize> {
    if let Receiver::Task(task) = arrivals.spec.to { Some(task.0 as usize) } else { None }
}

/// Returns for each task whether it ever runs: it exists from the start, or `requests` or a running task start it.
fn live(tasks: &[Task], courses: &[Course], requests: &[usize]) -> Vec<bool> {
    let mut live: Vec<bool> = tasks.iter().map(|task| task.spec.instances > 0).collect();
    requests.iter().for_each(|&task| live[task] = true);
    let mut found: Vec<usize> = (0..tasks.len()).filter(|&at| live[at]).collect();
    while let Some(at) = found.pop() {
        for forked in courses[at].forks.iter().map(|spec| spec.0 as usize) {
            if !std::mem::replace(&mut live[forked], true) {
                found.push(forked);
            }
        }
    }
    live
}

/// Returns a task that a circle of `live` tasks forks without an end, if there is one. `forks` gives the tasks that
/// each task forks. The search removes tasks that no remaining task forks, one after another, and returns one that is
/// left.
fn forked_for_ever<'c>(live: &[bool], forks: impl Fn(usize) -> &'c [SpecId]) -> Option<usize> {
    let targets = |at: usize| forks(at).iter().map(|spec| spec.0 as usize);
    let mut left = live.to_vec();
    let mut forkers = vec![0_u32; left.len()];
    for at in (0..left.len()).filter(|&at| live[at]) {
        targets(at).for_each(|forked| forkers[forked] += 1);
    }
    let mut unforked: Vec<_> = (0..left.len()).filter(|&at| left[at] && forkers[at] == 0).collect();
    while let Some(at) = unforked.pop() {
        left[at] = false;
        for forked in targets(at) {
            forkers[forked] -= 1;
            if forkers[forked] == 0 {
                unforked.push(forked);
            }
        }
    }
    left.iter().position(|&left| left)
}
