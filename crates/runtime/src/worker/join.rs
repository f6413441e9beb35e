//! The way of a task that a poll of a batch wakes or spawns into that batch.

use super::batch::fits;
use super::poll::{Later, Poll};
use super::thread::Thread;
use crate::os::sync::Ordering;
use crate::protocol::company::{At, Batch};
use crate::shared::Scheduler;
use crate::task::Job;
use runyard_engine::time::Time;
use runyard_smp::machine::{TaskOf, apply_pending};

impl Poll {
    /// Adds a task that a poll of a batch wakes or spawns to that batch, if it may join.
    pub(super) fn join(
        &self,
        thread: &Thread,
        scheduler: &Scheduler,
        (now, is_new): (Time, bool),
        mut task: TaskOf<Job>,
    ) -> Result<(), TaskOf<Job>> {
        let (batch, cpu) = (Batch(self.batch.load(Ordering::Relaxed)), thread.cpu());
        let Some(batches) = scheduler.dispatch().of(cpu).filter(|_| batch != Batch::default())
        else {
            return Err(task);
        };
        if !fits(&task) {
            return Err(task);
        }
        apply_pending(&mut task);
        let bounds = scheduler.machine().sight().batch_bounds(cpu);
        batches.company.join(thread.id(), batch, task, |polls, task, (polled, front)| {
            let terms = &polls.terms;
            let joins = terms.fit(task)
                && match is_new {
                    true => terms.join_new(task, (polled, now.since(polls.since)), &bounds),
                    false => terms.join(now, task, &bounds),
                };
            if !joins {
                return None;
            }
            task.set_cpu(cpu);
            task.wakes(now);
            let first = front.is_none_or(|front| terms.goes_before(task, front));
            Some(if first { At::Front } else { At::Back })
        })?;
        let is_noted = self.later() != Later::Nothing;
        if !is_noted && scheduler.machine().sight().idle_cpu_beside(cpu).is_some() {
            self.look_soon(thread, now, false);
        }
        Ok(())
    }

    /// Adds a task that the poll of this thread wakes to its batch, if it may join. The clock is not read for that: the
    /// task counts as woken when the poll began.
    pub(super) fn rejoin(
        &self,
        thread: &Thread,
        scheduler: &Scheduler,
        task: TaskOf<Job>,
    ) -> Result<(), TaskOf<Job>> {
        self.note_wake();
        match self.cpu(thread) {
            Some(_) => self.join(thread, scheduler, (self.began(), false), task),
            None => Err(task),
        }
    }
}
