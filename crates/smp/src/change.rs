//! Requests for a new affinity, priority or group of a task, wherever the task is.
//!
//! [`crate::control`] explains how a request and its task find each other.

use crate::control::{Home, ask, take};
use crate::cpu::Queue;
use crate::host::{Controlled, Effects, TaskOf, kick_if, mark_away};
use crate::machine::Machine;
use runyard_engine::task::{Change, QueueIndex};
use runyard_engine::time::Time;

/// The result of a request at the run queue where its task was last seen.
#[derive(Debug)]
enum Visit<W> {
    /// The task has left, so the caller reads its place again.
    Missed,
    /// The request was applied, here or by the carrier of the task, or the task has ended.
    Done {
        /// The task, if it may not stay here.
        evicted: Option<TaskOf<W>>,
    },
}

impl<W: Controlled> Machine<W> {
    /// Requests a change of the task with the control cell `cell`, wherever the task is.
    pub fn change(
        &self,
        now: Time,
        cell: &(impl Controlled + ?Sized),
        change: Change,
        fx: &mut impl Effects<W>,
    ) {
        ask(cell, change);
        while let Home::At(cpu, slot) = cell.tag().home() {
            let (visit, delta) = self.cpu(cpu).change(fx, |rq| visit(rq, now, cell, slot));
            let Visit::Done { evicted } = visit else { continue };
            if let Some(task) = evicted {
                self.cpus.migrate_away(now, task, cpu, fx);
            }
            kick_if(delta.resched, cpu, fx);
            self.cpus.react(now, cpu, delta, fx);
            return;
        }
    }
}

/// Applies the requests for the task with the control cell `cell`, if the task is still at `at`.
fn visit<W: Controlled>(
    rq: &mut Queue<W>,
    now: Time,
    cell: &(impl Controlled + ?Sized),
    at: QueueIndex,
) -> Visit<W> {
    let tag = cell.tag();
    if tag.home() != Home::At(rq.site().cpu(), at) {
        return Visit::Missed;
    }
    let lives = rq.tasks().get(at).is_some_and(|task| tag.is_of(task.id));
    let change = if lives { take(cell) } else { None };
    let evicted = change.and_then(|change| rq.change(now, at, change).evicted);
    Visit::Done { evicted: evicted.inspect(mark_away) }
}
