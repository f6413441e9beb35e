//! The duties of a class on one CPU: the list that every class answers.
//!
//! Each method here is a duty, and matches the class of a task without a wildcard. So the compiler
//! leads whoever adds a class through this file. `rt.rs` and `fair.rs` have the answers of the two
//! classes, as far as they concern the run queue; the state behind them is in [`crate::rt`] and
//! [`crate::fair`]. The page `docs/design/classes.md` has the same list beside the kernel's names.
//!
//! Invariant: in a run queue only this file, and the two below, say which class has which duty. Other
//! files call a duty, or they are a mechanism of one class and ask [`Class::is_fair`].

mod fair;
mod rt;

use crate::attr::Cookie;
use crate::class::Class;
use crate::core::Rank;
use crate::fair::order::Before;
use crate::limits::Pools;
use crate::rt::RtTask;
use crate::run_queue::RunQueue;
use crate::run_queue::cookies::{Shelf, rt_key};
use crate::run_queue::tasks::Place;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{Change, Task};
use crate::time::{Nanos, Time, VTime};

/// Enqueue and dequeue, and the way from and to other CPUs.
impl<P, G: Pools> RunQueue<P, G> {
    /// A task enters the queues of its class (`enqueue_task`).
    pub(super) fn enqueue(&mut self, at: Index, end: End) {
        match self.tasks.task(at).class() {
            Class::Fair => self.enqueue_fair(at),
            Class::Rt(_) => self.enqueue_rt(at, end),
        }
    }

    /// A task leaves the queues of its class (`dequeue_task`).
    pub(super) fn dequeue(&mut self, at: Index, asleep: bool) {
        match self.tasks.task(at).class() {
            Class::Fair => self.dequeue_fair(at, asleep),
            Class::Rt(_) => self.dequeue_rt(at),
        }
    }

    /// The running task blocks: returns it if something of it stays in its queue, or `None` if it is
    /// dequeued.
    pub(super) fn block(&mut self, at: Index) -> Option<Box<Task<P>>> {
        match self.tasks.task(at).class() {
            Class::Fair => {
                let task = self.tasks.delay(at, &self.site, &mut self.fair)?;
                self.pass_on();
                Some(task)
            }
            Class::Rt(_) => None,
        }
    }

    /// A task comes from outside. The averages of the fair class have only fair tasks.
    pub(super) fn migrate(&mut self, now: Time, task: &mut Task<P>) {
        match task.class() {
            Class::Fair => {}
            Class::Rt(_) => self.withdraw(now, task),
        }
    }

    /// Returns whether a task of this class, pushed here to run at once, could not do so any more.
    /// No CPU pushes a fair task, so that one changed on its way.
    pub(super) fn is_pushed_in_vain(&self, class: Class) -> bool {
        match class {
            Class::Fair => true,
            Class::Rt(prio) => Some(prio) <= self.rt.highest() || self.rt.is_throttled(),
        }
    }
}

/// The choice of the next task, and its way on and off the CPU.
impl<P, G: Pools> RunQueue<P, G> {
    /// Picks the first task of the class that goes first (`pick_next_task`).
    pub(super) fn pick_class(&mut self, before: &mut Before) -> Option<Index> {
        if self.is_serving() {
            let fair = self.pick_fair(before);
            if fair.is_some() {
                return fair;
            }
            self.stop_server();
        }
        self.ask_classes(|rq, class| match class {
            Class::Rt(_) => rq.rt.pick(),
            Class::Fair => rq.pick_fair(before),
        })
    }

    /// Returns the first task of the class that goes first, without taking it (`pick_task`).
    pub(super) fn peek_class(&mut self, before: &mut Before) -> Option<Index> {
        if self.is_serving() {
            let fair = self.peek_fair(before);
            if fair.is_some() {
                return fair;
            }
            self.stop_server();
        }
        self.ask_classes(|rq, class| match class {
            Class::Rt(_) => rq.rt.pick(),
            Class::Fair => rq.peek_fair(before),
        })
    }

    /// Returns the best waiting task of a cookie (`sched_core_find`).
    pub(super) fn best_of(&self, cookie: Option<Cookie>) -> Option<Index> {
        let served = self.is_serving().then(|| self.first_fair_of(cookie)).flatten();
        let first = |class| match class {
            Class::Rt(_) => self.first_rt_of(cookie),
            Class::Fair => self.first_fair_of(cookie),
        };
        served.or_else(|| Class::all().find_map(first))
    }

    /// Asks the classes for a task in their order.
    #[inline(always)]
    fn ask_classes(
        &mut self,
        mut ask: impl FnMut(&mut Self, Class) -> Option<Index>,
    ) -> Option<Index> {
        Class::all().find_map(|class| ask(self, class))
    }

    /// A waiting task is taken out of the order of its class, to run. It is the `first` there, or
    /// any.
    pub(super) fn take(&mut self, at: Index, first: bool, before: &mut Before) {
        match self.tasks.task(at).class() {
            Class::Fair => self.take_to_run(at, first, before),
            Class::Rt(_) => {}
        }
    }

    /// The opposite of [`RunQueue::take`]: a task that was picked goes back without having run, or
    /// the running task is about to move to another place.
    pub(super) fn put_back(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => self.put_back_fair(at),
            Class::Rt(_) => {}
        }
    }

    /// A task that was picked has the CPU (`set_next_task`).
    #[inline]
    pub(super) fn set_next(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => {}
            Class::Rt(_) => {
                self.rt.set_curr(self.rt_task(at), self.site.clock(), self.site.config())
            }
        }
    }

    /// The running task becomes a waiting one (`put_prev_task`).
    #[inline]
    pub(super) fn put_prev(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => self.put_prev_fair(at),
            Class::Rt(_) => self.rt.put_prev(self.rt_task(at)),
        }
    }

    /// The running task lets others go first (`yield_task`). Returns whether the next pick must pass
    /// over it.
    pub(super) fn yield_task(&mut self, at: Index) -> bool {
        match self.tasks.task(at).class() {
            Class::Fair => true,
            Class::Rt(_) => {
                self.requeue_rt(at, End::Tail);
                false
            }
        }
    }

    /// Returns the group that the running task leaves, if its class picks by groups.
    #[inline]
    pub(super) fn group_left(&self, at: Index) -> Option<Index> {
        match self.tasks.task(at).class() {
            Class::Fair => self.fair.tree.above(at),
            Class::Rt(_) => None,
        }
    }
}

/// The running task: its charge, its tick, and whether it makes way.
impl<P, G: Pools> RunQueue<P, G> {
    /// The running task used CPU time (`update_curr`).
    #[inline]
    pub(super) fn charge(&mut self, curr: Index, class: Class, span: Nanos) {
        match class {
            Class::Fair => self.charge_fair(curr, span),
            Class::Rt(_) => self.charge_rt(curr, span),
        }
    }

    /// A tick comes while a task runs (`task_tick`).
    pub(super) fn tick_class(&mut self, curr: Index) {
        match self.tasks.task(curr).class() {
            Class::Fair => self.tick_fair(curr),
            Class::Rt(prio) => self.tick_rt(curr, prio),
        }
    }

    /// Returns whether the task that arrived at `at` should run instead of `curr`
    /// (`wakeup_preempt`).
    pub(super) fn preempts(&mut self, curr: Index, at: Index) -> bool {
        match (self.tasks.task(at).class(), self.tasks.task(curr).class()) {
            (Class::Rt(_), Class::Rt(_) | Class::Fair) => self.makes_way(curr),
            (Class::Fair, Class::Rt(_)) => false,
            (Class::Fair, Class::Fair) => self.preempts_on_wakeup(curr, at),
        }
    }

    /// Returns whether `curr` must make way for a task of a more important class, or for a better
    /// one of its own; or whether it is throttled, or keeps off fair tasks that go first.
    pub(super) fn makes_way(&self, curr: Index) -> bool {
        match self.tasks.task(curr).class() {
            Class::Fair => !self.is_serving() && self.rt.best().is_some(),
            Class::Rt(prio) => {
                self.is_serving() || self.rt.is_throttled() || self.rt.best() > Some(prio)
            }
        }
    }

    /// Returns whether a running task that was requeued may no longer be the first (`prio_changed`,
    /// `switched_to`).
    pub(super) fn is_beaten(before: Class, after: Class) -> bool {
        match after {
            Class::Fair => true,
            Class::Rt(_) => after < before,
        }
    }
}

/// Changes of tasks and of the configuration.
impl<P, G: Pools> RunQueue<P, G> {
    /// Applies a change of a task that may keep its place though it is to be requeued. Returns the
    /// change if it may not.
    pub(super) fn change_in_place(
        &mut self,
        at: Index,
        after: Class,
        change: Change,
    ) -> Option<Change> {
        let before = self.tasks.task(at).class();
        match before {
            Class::Rt(_) if before == after => self.change_in_place_rt(at, change),
            Class::Rt(_) | Class::Fair => return Some(change),
        }
        None
    }

    /// A queued task asks for another slice or latency nice (`reweight_task`).
    pub(super) fn reask(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => {
                let ask = self.tasks.task(at).ask();
                let (fair, now, _) = self.fair_here();
                fair.reask(now, at, ask);
            }
            Class::Rt(_) => {}
        }
    }

    /// The affinity of a queued task may have changed (`set_cpus_allowed`).
    pub(super) fn set_affinity(&mut self, at: Index) {
        match self.tasks.task(at).class() {
            Class::Fair => {}
            Class::Rt(_) => {
                if !self.is_set_aside(at) {
                    self.rt.update_pushable(self.rt_task(at), End::Tail);
                }
            }
        }
    }

    /// The cookie of a queued task may have changed, if `recookies`.
    pub(super) fn set_cookie(&mut self, at: Index, recookies: bool) {
        match self.tasks.task(at).class() {
            Class::Fair => self.reindex(at),
            Class::Rt(_) => {
                if recookies && self.index().place(at).is_some() {
                    self.index_rt(at, End::Tail);
                }
            }
        }
    }

    /// The parameters of the classes changed.
    pub(super) fn renew(&mut self) {
        let now = self.site.now();
        for (at, place) in self.tasks.places().iter() {
            match place {
                Place::Group => self.fair.renew(now, at, None),
                Place::Task(task) => match task.class() {
                    Class::Fair => self.fair.renew(now, at, Some(task.ask())),
                    Class::Rt(_) => {}
                },
                Place::Ghost(_) => {}
            }
        }
        self.fair.reslice_all(now);
    }
}

/// Answers of a class to others.
impl<P, G: Pools> RunQueue<P, G> {
    /// Returns the number of tasks that could run. A CPU whose real-time tasks have no budget has
    /// room for others.
    #[inline]
    pub(super) fn nr_running(&self) -> u32 {
        let nr = |class| match class {
            Class::Rt(_) if self.rt.is_throttled() => 0,
            Class::Rt(_) => self.rt.nr(),
            Class::Fair => self.fair.root().nr_tasks,
        };
        Class::all().map(nr).sum()
    }

    /// Returns the rank of a task of this class among those of its core (`prio_less`).
    pub(super) fn rank(&self, class: Class) -> Rank {
        match class {
            Class::Rt(prio) => Rank::Rt(prio),
            Class::Fair if self.is_serving() => Rank::Served,
            Class::Fair => Rank::Fair,
        }
    }

    /// Returns the fields of a task that the real-time class needs.
    #[inline(always)]
    pub(super) fn rt_task(&self, at: Index) -> RtTask {
        let task = self.tasks.task(at);
        let prio = match task.class() {
            Class::Rt(prio) => prio,
            Class::Fair => unreachable!("the task is real-time"),
        };
        let (boosted, migratory) = (task.boost.is_some(), task.is_migratory());
        RtTask { at, prio, boosted, migratory, running: self.tasks.running() == Some(at) }
    }

    /// For checks: returns whether a task is in the lists of its class, and in no other.
    pub(super) fn is_in_its_lists(&self, at: Index) -> bool {
        let lists = (self.fair.is_listed(at), self.rt.contains(at));
        match self.tasks.task(at).class() {
            Class::Fair => lists == (true, false),
            Class::Rt(_) => lists == (false, true),
        }
    }

    /// For checks: returns where a task should be in the index by cookies, if it should be there.
    pub(super) fn shelf(&self, at: Index) -> Option<(Shelf, VTime)> {
        match self.tasks.task(at).class() {
            Class::Rt(_) if self.is_set_aside(at) => None,
            Class::Rt(prio) => Some((Shelf::RT, rt_key(prio))),
            Class::Fair if self.tasks.running() == Some(at) => None,
            Class::Fair => Some((Shelf::of(self.fair.tree.entity(at).parent), self.key_of(at))),
        }
    }
}
