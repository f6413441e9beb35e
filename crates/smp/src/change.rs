//! Requests: another affinity, priority or group for a task, wherever it is.
//!
//! How a request and its task find each other is told in [`crate::control`].

use crate::control::{Home, ask, take};
use crate::host::{Controlled, Effects, TaskOf, kick_if, mark_away};
use crate::machine::{Machine, Queue};
use runyard_engine::task::{Change, QueueIndex};
use runyard_engine::time::Time;

/// What came of a request at the run queue where its task was seen.
#[derive(Debug)]
enum Visit<W> {
    /// The task has left, and is to be reacted for again.
    Missed,
    /// It was carried out, here or by whoever brought the task; or the task is over.
    Done {
        /// The task, if it may not stay here.
        evicted: Option<TaskOf<W>>,
    },
}

impl<W: Controlled> Machine<W> {
    /// Asks for a change of the task that `cell` belongs to, wherever it is.
    pub fn change(
        &self,
        now: Time,
        cell: &(impl Controlled + ?Sized),
        change: Change,
        fx: &mut impl Effects<W>,
    ) {
        ask(cell, change);
        while let Home::At(cpu, slot) = cell.tag().home() {
            let (visit, delta) = self.with(cpu, fx, |rq| visit(rq, now, cell, slot));
            let Visit::Done { evicted } = visit else { continue };
            if let Some(task) = evicted {
                self.migrate_away(now, task, cpu, fx);
            }
            kick_if(delta.resched, cpu, fx);
            self.react(now, cpu, delta, fx);
            return;
        }
    }
}

/// Carries out what was asked of the task that `cell` belongs to, if it is at `at` still.
fn visit<W: Controlled>(
    rq: &mut Queue<W>,
    now: Time,
    cell: &(impl Controlled + ?Sized),
    at: QueueIndex,
) -> Visit<W> {
    let tag = cell.tag();
    if tag.home() != Home::At(rq.cpu(), at) {
        return Visit::Missed;
    }
    let lives = rq.get(at).is_some_and(|task| tag.is_of(task.id));
    let change = if lives { take(cell) } else { None };
    let evicted = change.and_then(|change| rq.change(now, at, change).evicted);
    Visit::Done { evicted: evicted.inspect(mark_away) }
}
