//! The structural invariants of a run queue, each counted afresh; and its picture.
//!
//! [`RunQueue::check`] is called after every event where correctness is proven (simulator, property
//! tests, fuzzer). It costs as much as the queue is long. What fails is a bug here, never bad
//! input, so it panics, with the queue drawn in the message.

use crate::fair::{Entity, FairQueue};
use crate::group::Groups;
use crate::heap::Index;
use crate::run_queue::{Member, RunQueue};
use crate::task::Task;
use crate::time::Nanos;
use std::fmt;

macro_rules! ensure {
    ($rq:expr, $holds:expr, $($what:tt)+) => {
        assert!($holds, "{}\n{}", format_args!($($what)+), $rq)
    };
}

impl<P, G: Groups> RunQueue<P, G> {
    /// Asserts every structural invariant.
    ///
    /// # Panics
    /// If one does not hold, with a picture of the queue.
    pub fn check(&self) {
        self.check_curr();
        self.check_rt();
        self.check_fair();
        self.check_limits();
        self.check_timers();
    }

    fn check_curr(&self) {
        let mut tasks = 0;
        for (slot, task) in self.tasks() {
            let out_of_budget = task.rt_prio().is_some() && self.rt.is_throttled();
            tasks += u32::from(!self.is_stopped(slot.0) && !out_of_budget);
            let runs = self.curr == Some(slot.0);
            ensure!(
                self,
                task.payload.is_none() == runs,
                "{} has its payload iff it waits",
                task.id
            );
            ensure!(self, task.cpu == self.cpu, "{} knows where it is", task.id);
            ensure!(self, self.links.contains(slot.0), "{} is in a list", task.id);
            let fair = task.rt_prio().is_none();
            let level = if fair { self.entity(slot.0).parent } else { None };
            let queued = self.waits(slot.0);
            ensure!(self, queued == (fair && !runs), "{} is in a heap iff it waits, fair", task.id);
            let current = fair && self.queue(level).curr == Some(slot.0);
            ensure!(
                self,
                current == (fair && runs),
                "{} is curr of its queue iff it runs",
                task.id
            );
            let here = task.attr.affinity.contains(self.cpu) && self.online;
            ensure!(self, here || runs && self.resched || !self.online, "{} may be here", task.id);
        }
        // With this a SCHED_RR slice is overrun by a tick at the most.
        let tick = self.tick_at.map(|at| at <= self.clock + self.config.tick);
        ensure!(self, tick == self.curr.map(|_| true), "a busy CPU ticks: {:?}", self.tick_at);
        let load = self.load();
        ensure!(self, load.nr_running == tasks, "{} tasks are {tasks}", load.nr_running);
    }

    fn check_rt(&self) {
        let (mut nr, mut boosted) = (0, 0);
        self.rt.queue.check(&self.links, |at, prio| {
            ensure!(
                self,
                self.task(at).rt_prio() == Some(prio),
                "{} is in its list",
                self.name(at)
            );
            nr += 1;
            boosted += u32::from(self.task(at).boost.is_some());
            let pushable = self.task(at).is_migratory() && self.curr != Some(at);
            let listed = self.rt.pushable_links.contains(at);
            ensure!(self, pushable == listed, "{} is pushable: {pushable}", self.name(at));
        });
        ensure!(
            self,
            (self.rt.nr, self.rt.nr_boosted) == (nr, boosted),
            "{nr} rt, {boosted} boosted"
        );
        self.rt.pushable.check(&self.rt.pushable_links, |at, prio| {
            ensure!(
                self,
                self.task(at).rt_prio() == Some(prio),
                "{} is in its list",
                self.name(at)
            );
        });
        // Class order: while something real-time may run, nothing less important does.
        let running = self.curr.and_then(|at| self.task(at).rt_prio());
        let best = self.rt.queue.highest().filter(|_| !self.rt.is_throttled());
        let may_run = running.is_none() || !self.rt.is_throttled();
        ensure!(self, self.resched || may_run, "{running:?} runs without a budget");
        ensure!(self, self.resched || running >= best, "{best:?} waits while {running:?} runs");
        let budget = self.config.rt_runtime.is_some();
        let period = self.rt.period_end.is_some();
        let active = running.is_some() || self.rt.used > Nanos::ZERO;
        ensure!(self, period || !budget || !active, "a period runs while the budget is used");
    }

    fn check_fair(&self) {
        self.check_queue(None);
        for &(group, at) in &self.fair.group_queues {
            let queue = self.group(at);
            ensure!(self, queue.group == group, "{group:?} is listed under its name");
            ensure!(self, queue.contribution == queue.queue.load, "{group:?} contributes its load");
            self.check_queue(Some(at));
        }
        let names = self.fair.group_queues.windows(2).all(|pair| pair[0].0 < pair[1].0);
        ensure!(self, names, "group queues are in order");
        let listed = self.links.iter(self.fair.tasks).count();
        let tasks = self.fair.root.nr_tasks as usize;
        ensure!(self, listed == tasks, "{listed} fair tasks are {tasks}");
        let compete = self.links.iter(self.fair.tasks).all(|at| !self.is_stopped(at));
        let aside = self.links.iter(self.fair.aside).all(|at| self.is_stopped(at));
        ensure!(self, compete && aside, "who is below a throttled group is listed apart");
        let idle = self.links.iter(self.fair.tasks).filter(|&at| self.is_idle_class(at)).count();
        let counted = self.fair.root.nr_idle_tasks as usize;
        ensure!(self, idle == counted, "{idle} fair tasks of the idle class are {counted}");
        let mut idle_load = 0;
        let mut add = |at| idle_load += self.idle_weight(at);
        self.fair.root.curr.into_iter().for_each(&mut add);
        self.check_heaps(None, &mut add);
        ensure!(self, idle_load == self.fair.idle_load, "the idle class weighs {idle_load}");
    }

    fn check_queue(&self, level: Option<Index>) {
        let queue = self.queue(level);
        let (mut nr, mut load, mut tasks, mut idle, mut children) = (0, 0, 0, 0, 0);
        let (mut ahead, mut longest) = (0, 0);
        let mut count = |at: Index| {
            let Entity { weight, vruntime, .. } = *self.entity(at);
            nr += 1;
            load += u64::from(weight);
            ahead += i128::from(weight) * i128::from(vruntime.diff(queue.clock));
            longest = longest.max(self.slice_of(at).get().0);
            let (below, idle_below) = match self.member(at) {
                Member::Task(task) => (1, u32::from(task.attr.policy == crate::attr::Policy::Idle)),
                Member::Group(group) => {
                    let FairQueue { nr_tasks, nr_idle_tasks, .. } = group.queue;
                    let all = self.groups.counts_as_idle(group.group);
                    (nr_tasks, if all { nr_tasks } else { nr_idle_tasks })
                }
            };
            ensure!(self, below > 0, "a queued entity has tasks");
            tasks += below;
            idle += idle_below;
        };
        queue.curr.into_iter().for_each(&mut count);
        self.check_heaps(level, &mut count);
        let counted = (nr, load, tasks, idle);
        let kept = (queue.nr, queue.load, queue.nr_tasks, queue.nr_idle_tasks);
        ensure!(self, counted == kept, "queue {level:?} counts {kept:?}, has {counted:?}");
        let summed = !self.is_eevdf() || ahead == queue.ahead;
        ensure!(self, summed, "queue {level:?} is {} ahead, not {ahead}", queue.ahead);
        let bounded = !self.is_eevdf() || longest <= queue.longest_slice;
        ensure!(self, bounded, "the longest slice is {}, not {longest}", queue.longest_slice);
        for &(_, at) in &self.fair.group_queues {
            children += u32::from(self.group(at).entity.parent == level);
        }
        let known = level.is_none_or(|at| self.group(at).children == children);
        ensure!(self, known, "queue {level:?} knows its {children} children");
    }

    /// Visits each entity that waits in a queue, once.
    fn check_heaps(&self, level: Option<Index>, visit: &mut impl FnMut(Index)) {
        let queue = self.queue(level);
        self.fair.forest.check(&queue.waiting, |at| {
            visit(at);
            ensure!(self, self.entity(at).parent == level, "an entity knows its queue");
            let key = self.fair.forest.key(at).0;
            ensure!(self, key == self.entity(at).vruntime, "the order is that of vruntimes");
        });
        self.fair.urgent_forest.check(&queue.urgent, |at| {
            let (key, entity) = (self.fair.urgent_forest.key(at).0, self.entity(at));
            let also_waits = self.fair.forest.contains(at);
            ensure!(self, entity.parent == level, "an urgent entity knows its queue");
            ensure!(self, also_waits != self.is_eevdf(), "who is urgent waits, in one heap or two");
            if self.is_eevdf() {
                visit(at);
                ensure!(self, key == entity.deadline, "the order is that of deadlines");
            } else {
                let offset = self.config.latency_offset(entity.latency_nice);
                let place = entity.vruntime.after(offset.cast_unsigned());
                ensure!(self, offset < 0 && key == place, "the order is that of sensitive ones");
            }
        });
    }

    fn name(&self, at: Index) -> crate::task::TaskId {
        self.task(at).id
    }
}

/// The picture: a line for the CPU, one for each task.
impl<P, G: Groups> fmt::Display for RunQueue<P, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let off = if self.is_online() { "" } else { " offline" };
        let throttled = if self.rt.is_throttled() { " rt-throttled" } else { "" };
        writeln!(
            f,
            "CPU {}{off}{throttled} at {}, resched: {}, virtual clock {}",
            self.cpu, self.clock, self.resched, self.fair.root.clock.0
        )?;
        for (slot, task) in self.tasks() {
            let state = if self.curr == Some(slot.0) { "runs " } else { "waits" };
            writeln!(f, "  {state} {}", Line(task))?;
        }
        Ok(())
    }
}

struct Line<'a, P>(&'a Task<P>);

impl<P> fmt::Display for Line<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task { id, attr, fair, .. } = self.0;
        write!(f, "{id} {} {}", attr.policy, attr.policy.priority())?;
        if let Some(boost) = self.0.boost {
            write!(f, " boosted to {}", boost.get())?;
        }
        write!(f, ", CPUs {}, group {}", attr.affinity, attr.group.0)?;
        match self.0.rt_prio() {
            Some(_) => Ok(()),
            None => write!(f, ", vruntime {}, weight {}", fair.vruntime.0, fair.weight),
        }
    }
}
