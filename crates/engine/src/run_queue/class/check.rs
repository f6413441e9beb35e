//! The structural invariants of the classes of one CPU, each computed afresh, and their picture
//! ([`RunQueue::check`](crate::run_queue::RunQueue::check)).

use crate::class::Class;
use crate::ensure::ensure;
use crate::fair::entity::QueueId;
use crate::limits::Pools;
use crate::run_queue::class::{Classes, Queues};
use crate::run_queue::tasks::Place;
use crate::store::heap::Index;
use crate::task::Task;
use std::fmt;

impl<P, G: Pools> Classes<P, G> {
    /// Asserts every structural invariant.
    ///
    /// # Panics
    /// If an invariant does not hold, with a picture.
    pub(in crate::run_queue) fn check(&self) {
        self.check_tasks();
        let Queues { site, tasks, rt, fair, limits, .. } = &self.queues;
        rt.check(|at| (tasks.rt_task(at), self.queues.is_set_aside(at)), self);
        self.check_class_order();
        fair.check(site.now(), self);
        for (_, queue) in fair.group_queues() {
            limits.check(&fair.tree, (queue, self.queues.throttles_tasks()), self);
        }
        let below = tasks.running().is_some_and(|curr| self.queues.is_set_aside(curr));
        let due = self.next.is_due();
        ensure!(self, !below || due, "the running task is not below a throttled group");
        self.check_ghosts();
        self.check_limbo(self);
        let serves = tasks.running_fair().is_some() || due || !self.is_serving();
        ensure!(self, serves || self.next.is_kept_off(), "a fair task runs while the server does");
        self.server.check(fair.root().nr > 0 && site.is_online(), site.config(), self);
        self.check_beside(self);
    }

    fn check_tasks(&self) {
        let Queues { site, tasks, fair, .. } = &self.queues;
        let mut nr = 0;
        for (at, task) in tasks.iter().map(|(at, task)| (at.0, task)) {
            let limited = self.queues.is_out_of_budget(task.class());
            let has_budget = !self.queues.is_set_aside(at) && !limited;
            nr += u32::from(has_budget);
            let runs = tasks.running() == Some(at);
            ensure!(
                self,
                task.payload.is_none() == runs,
                "{} has its payload if and only if it waits",
                task.id
            );
            ensure!(self, task.cpu == site.cpu(), "{} knows its CPU", task.id);
            let is_plain =
                task.attr.is_plain() && task.boost.is_none() && task.inherited_group().is_none();
            let knows = task.is_plain() == is_plain;
            ensure!(self, knows, "{} knows whether it asks for nothing", task.id);
            let is_fair = task.class().is_fair();
            let listed = self.queues.is_in_its_lists(at);
            ensure!(self, listed, "{} is in a list of its class", task.id);
            let queued = fair.tree.waits(at);
            ensure!(
                self,
                queued == (is_fair && !runs && !fair.is_in_limbo(at)),
                "{} is in a heap if and only if it is fair, waits, and is not in limbo",
                task.id
            );
            let current = is_fair && fair.tree.queue_of(at).curr == Some(at);
            ensure!(
                self,
                current == (is_fair && runs),
                "{} is curr of its queue if and only if it is fair and runs",
                task.id
            );
            let here = site.takes(task) || runs && self.next.is_due() || !site.is_online();
            ensure!(self, here, "{} may be here", task.id);
        }
        let lent = fair.company().filter(|it| !self.queues.is_set_aside(it.stand_in));
        nr += lent.map_or(0, |it| it.nr);
        let load = self.load();
        ensure!(self, load.nr_running == nr, "nr_running is {} for {nr} tasks", load.nr_running);
    }

    /// Asserts that a task has one owner: the entity that stays here for a task of the host is a
    /// ghost.
    fn check_ghosts(&self) {
        let Queues { site, tasks, fair, .. } = &self.queues;
        for (at, place) in tasks.places().iter() {
            let is_ghost = matches!(place, Place::Ghost(_));
            let delayed = !matches!(place, Place::Group) && fair.is_ghost(at);
            ensure!(self, is_ghost == delayed, "{at} is a ghost, in its queue: {delayed}");
        }
        let ghosts = tasks.places().iter().any(|(_, place)| matches!(place, Place::Ghost(_)));
        let online = site.is_online();
        ensure!(self, online || !ghosts, "no task sleeps in the queues of an offline CPU");
        let idles = tasks.running().is_none() && self.forced_idle().is_none();
        let picked = !idles || self.next.is_due() || fair.root().nr == 0;
        ensure!(self, picked, "an idle CPU has nothing in its queue");
    }

    /// Asserts the order of the classes: while a real-time task may run, no less important task
    /// does.
    fn check_class_order(&self) {
        let Queues { site, tasks, rt, .. } = &self.queues;
        // An idle CPU is no more important than one with a fair task.
        let running = tasks.curr().map_or(Class::Fair, Task::class);
        let best = rt.best().map_or(Class::Fair, Class::Rt);
        let due = self.next.is_due();
        let may_run = due || !self.queues.is_out_of_budget(running);
        ensure!(self, may_run, "{running:?} runs without a budget");
        let first = due || running >= best || self.is_serving() || self.next.is_kept_off();
        ensure!(self, first, "{best:?} waits while {running:?} runs");
        let budget = site.config().rt_runtime.is_some();
        let period = rt.period_end().is_some();
        let active = running.has_rt_budget() || rt.is_budget_used();
        ensure!(self, period || !budget || !active, "a period runs while the budget is used");
    }
}

/// The picture: a line for the CPU and a line for each task.
impl<P, G: Pools> fmt::Display for Classes<P, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Queues { site, tasks, rt, fair, .. } = &self.queues;
        let off = if site.is_online() { "" } else { " offline" };
        let throttled = if rt.is_throttled() { " rt-throttled" } else { "" };
        let serving = if self.is_serving() { " fair-first" } else { "" };
        let (cpu, clock, due) = (site.cpu(), site.clock(), self.next.is_due());
        let virtual_clock = fair.virtual_clock(QueueId::ROOT).0;
        writeln!(
            f,
            "CPU {cpu}{off}{throttled}{serving} at {clock}, resched: {due}, virtual clock {virtual_clock}",
        )?;
        for (at, task) in tasks.iter() {
            let state = if tasks.runs(at) { "runs " } else { "waits" };
            write!(f, "  {state} {}", Line(task))?;
            if task.class().is_fair() {
                fair.show(f, at.0)?;
            }
            writeln!(f)?;
        }
        fair.show_groups(f)
    }
}

impl<P, G: Pools> Queues<P, G> {
    /// Returns how far a task's vruntime, deadline and turn are ahead of its queue's virtual clock.
    pub(in crate::run_queue) fn fair_place(&self, at: Index) -> Option<(i64, i64, i64)> {
        self.fair.place(at)
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
