//! The structural invariants of a run queue, each computed afresh, and the picture of a queue.
//!
//! Wherever correctness is tested (simulator, property tests, fuzzer), [`RunQueue::check`] is
//! called after every event. Its cost is linear in the length of the queue. A failure is a bug
//! here, never bad input, so it panics with a picture of the queue in the message.

use crate::ensure::ensure;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::run_queue::tasks::Place;
use crate::task::Task;
use std::fmt;

impl<P, G: Pools> RunQueue<P, G> {
    /// Asserts every structural invariant.
    ///
    /// # Panics
    /// If an invariant does not hold, with a picture of the queue.
    pub fn check(&self) {
        self.check_curr();
        self.rt.check(|at| (self.rt_task(at), self.is_set_aside(at)), self);
        self.check_class_order();
        self.fair.check(self.site.now(), self);
        for (_, queue) in self.fair.group_queues() {
            self.limits.check(&self.fair.tree, queue, self);
        }
        let below = self.tasks.running().is_some_and(|curr| self.is_set_aside(curr));
        ensure!(self, !below || self.resched, "the running task is not below a throttled group");
        self.check_ghosts();
        self.check_server();
        self.check_beside();
        self.check_usage();
        self.timers.check();
    }

    fn check_curr(&self) {
        let mut tasks = 0;
        for (at, task) in self.tasks.iter().map(|(at, task)| (at.0, task)) {
            let has_budget = !self.is_set_aside(at) && !self.is_out_of_budget(task.class());
            tasks += u32::from(has_budget);
            let runs = self.tasks.running() == Some(at);
            ensure!(
                self,
                task.payload.is_none() == runs,
                "{} has its payload if and only if it waits",
                task.id
            );
            ensure!(self, task.cpu == self.site.cpu(), "{} knows its CPU", task.id);
            let fair = task.class().is_fair();
            ensure!(self, self.is_in_its_lists(at), "{} is in a list of its class", task.id);
            let queued = self.fair.tree.waits(at);
            ensure!(
                self,
                queued == (fair && !runs),
                "{} is in a heap if and only if it is fair and waits",
                task.id
            );
            let current = fair && self.fair.tree.queue_of(at).curr == Some(at);
            ensure!(
                self,
                current == (fair && runs),
                "{} is curr of its queue if and only if it is fair and runs",
                task.id
            );
            let here = task.attr.affinity.contains(self.site.cpu()) && self.site.is_online();
            ensure!(
                self,
                here || runs && self.resched || !self.site.is_online(),
                "{} may be here",
                task.id
            );
        }
        // This bounds the overrun of a SCHED_RR slice to one tick.
        let tick = self.tick_at.map(|at| at <= self.site.clock() + self.site.config().tick);
        ensure!(
            self,
            tick == self.tasks.running().map(|_| true),
            "a busy CPU ticks: {:?}",
            self.tick_at
        );
        let lent = self.fair.company().filter(|it| !self.is_set_aside(it.stand_in));
        tasks += lent.map_or(0, |it| it.nr);
        let load = self.load();
        ensure!(
            self,
            load.nr_running == tasks,
            "nr_running is {} for {tasks} tasks",
            load.nr_running
        );
    }

    /// Asserts that a task has one owner: the entity that stays here for a task of the host is a
    /// ghost.
    fn check_ghosts(&self) {
        for (at, place) in self.tasks.places().iter() {
            let is_ghost = matches!(place, Place::Ghost(_));
            let delayed = !matches!(place, Place::Group) && self.fair.is_ghost(at);
            ensure!(self, is_ghost == delayed, "{at} is a ghost, in its queue: {delayed}");
        }
        let ghosts = self.tasks.places().iter().any(|(_, place)| matches!(place, Place::Ghost(_)));
        ensure!(
            self,
            self.site.is_online() || !ghosts,
            "no task sleeps in the queues of an offline CPU"
        );
        let idles = self.tasks.running().is_none() && self.forced_idle().is_none();
        let picked = !idles || self.resched || self.fair.root().nr == 0;
        ensure!(self, picked, "an idle CPU has nothing in its queue");
    }
}

/// The picture: a line for the CPU and a line for each task.
impl<P, G: Pools> fmt::Display for RunQueue<P, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = if self.site.is_online() { "" } else { " offline" };
        let throttled = if self.rt.is_throttled() { " rt-throttled" } else { "" };
        let serving = if self.is_serving() { " fair-first" } else { "" };
        writeln!(
            f,
            "CPU {}{off}{throttled}{serving} at {}, resched: {}, virtual clock {}",
            self.site.cpu(),
            self.site.clock(),
            self.resched,
            self.fair.root().clock.0
        )?;
        for (at, task) in self.tasks.iter() {
            let state = if self.tasks.running() == Some(at.0) { "runs " } else { "waits" };
            write!(f, "  {state} {}", Line(task))?;
            if task.class().is_fair() {
                let entity = self.fair.tree.entity(at.0);
                write!(f, ", vruntime {}, weight {}", entity.vruntime.0, entity.weight)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

struct Line<'a, P>(&'a Task<P>);

impl<P> fmt::Display for Line<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task { id, attr, .. } = self.0;
        write!(f, "{id} {} {}", attr.policy, attr.policy.priority())?;
        if let Some(boost) = self.0.boost {
            write!(f, " boosted to {}", boost.get())?;
        }
        write!(f, ", CPUs {}, group {}", attr.affinity, attr.group.0)
    }
}
