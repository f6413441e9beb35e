//! The classes of tasks on one CPU: what each does for its tasks, and which of them goes first.
//!
//! A *duty* is a method that matches the class of a task without a wildcard. So the compiler leads
//! whoever adds a class through this file and `queues.rs`, which has the duties that only move
//! tasks. `rt.rs` and `fair.rs` have the answers of the two classes, as far as they concern the run
//! queue; the state behind them is in [`crate::rt`] and [`crate::fair`]. The page
//! `docs/design/classes.md` has the list of the duties beside the kernel's names.
//!
//! Invariant: in a run queue only these four files say which class has which duty (`check.rs`
//! compares classes to assert their order). Other files call a
//! duty, or they are a mechanism of one class and ask [`Class::is_fair`].

mod ahead;
mod batch;
mod beside;
mod change;
mod check;
mod count;
mod fair;
mod give;
mod limbo;
mod limits;
mod load;
mod passed_over;
mod pelt;
mod pick;
mod queues;
mod reap;
mod room;
mod rt;
mod stay;
#[cfg(test)]
mod tests;

pub use batch::{Begun, Bounds, Start, Terms};
pub use beside::Heeded;
pub use change::Changed;
pub use give::{FairPull, MAX_LOOKED_AT, NotPulled};
pub use load::{CpuLoad, Importance};
pub use queues::Queues;
pub use room::Room;

use crate::attr::Cookie;
use crate::balance::power::Taken;
use crate::class::Class;
use crate::core::Rank;
use crate::fair::order::Before;
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::idle::Idle;
use crate::run_queue::next::NextSwitch;
use crate::run_queue::serve::FairServer;
use crate::run_queue::site::Site;
use crate::run_queue::switch::Resched;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::time::{Nanos, Time};

/// The classes of one CPU, with their tasks and the switch that is due because of them.
#[derive(Debug)]
pub struct Classes<P, G> {
    queues: Queues<P, G>,
    server: FairServer,
    next: NextSwitch,
    idle: Idle,
    taken: TimeTaken,
}

/// The CPU time that was recently taken from less important tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeTaken {
    /// Taken by real-time tasks.
    pub by_rt: Taken,
    /// Taken by real-time tasks, and by fair tasks that are not of the SCHED_IDLE class.
    pub by_normal: Taken,
}

impl<P, G: Pools> Classes<P, G> {
    /// Returns those of an idle CPU.
    pub(super) fn new(site: Site<G>) -> Classes<P, G> {
        let config = site.config();
        let has_core = config.cookies && config.topology.threads() > 1;
        Classes {
            server: FairServer::new(site.has(Feature::FairServer)),
            next: NextSwitch::new(has_core),
            idle: Idle::new(config),
            taken: TimeTaken::default(),
            queues: Queues::new(site, has_core),
        }
    }

    /// Makes room for `len` tasks and group queues. Allocates.
    pub(super) fn grow(&mut self, len: usize) {
        self.queues.grow(len);
        self.next.grow(self.queues.fair.tree.nr_queues());
    }

    /// Returns the tasks in the queues of their classes.
    #[inline]
    #[must_use]
    pub fn queues(&self) -> &Queues<P, G> {
        &self.queues
    }

    /// Returns the same for a call that asks for no switch.
    #[inline]
    pub fn queues_mut(&mut self) -> &mut Queues<P, G> {
        &mut self.queues
    }

    /// Returns the idle time of the CPU.
    #[inline]
    #[must_use]
    pub fn idle(&self) -> &Idle {
        &self.idle
    }

    /// Returns what is known of the next switch.
    #[inline]
    pub(super) fn next(&self) -> &NextSwitch {
        &self.next
    }

    #[inline]
    pub(super) fn next_mut(&mut self) -> &mut NextSwitch {
        &mut self.next
    }

    /// Returns whether fair tasks precede real-time tasks here.
    #[inline]
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.server.is_serving()
    }

    /// Returns the CPU time that was recently taken from less important tasks.
    #[must_use]
    pub fn taken(&self) -> TimeTaken {
        self.taken
    }
}

/// The choice of the next task.
impl<P, G: Pools> Classes<P, G> {
    /// A task enters the queues of its class (`enqueue_task`).
    fn enqueue(&mut self, at: Index, end: End) {
        match self.queues.tasks.task(at).class() {
            Class::Fair => {
                self.queues.enqueue_fair(at);
                self.start_server();
            }
            Class::Rt(_) => self.queues.enqueue_rt(at, end),
        }
    }

    /// Picks the first task of the class that goes first (`pick_next_task`).
    fn pick_class(&mut self, before: &mut Before) -> Option<Index> {
        if self.is_serving() {
            let fair = self.queues.pick_fair(before);
            if fair.is_some() {
                return fair;
            }
            self.server.stop();
        }
        Class::all().find_map(|class| match class {
            Class::Rt(_) => self.queues.rt.pick(),
            Class::Fair => self.queues.pick_fair(before),
        })
    }

    /// Returns the first task of the class that goes first, without taking it (`pick_task`).
    fn peek_class(&mut self, before: &mut Before) -> Option<Index> {
        if self.is_serving() {
            let fair = self.queues.peek_fair(before);
            if fair.is_some() {
                return fair;
            }
            self.server.stop();
        }
        Class::all().find_map(|class| match class {
            Class::Rt(_) => self.queues.rt.pick(),
            Class::Fair => self.queues.peek_fair(before),
        })
    }

    /// Returns the best waiting task of a cookie (`sched_core_find`).
    pub(super) fn best_of(&self, cookie: Option<Cookie>) -> Option<Index> {
        let first = |class| self.queues.first_of(class, cookie);
        let served = self.is_serving().then(|| first(Class::Fair)).flatten();
        served.or_else(|| Class::all().find_map(first))
    }

    /// The running task lets others go first (`yield_task`). Returns whether the next pick must pass
    /// over it.
    fn yield_task(&mut self, at: Index) -> bool {
        match self.queues.tasks.task(at).class() {
            Class::Fair => {
                if self.queues.fair.root().nr_tasks > 1 {
                    self.queues.fair.clear_buddy(at);
                }
                true
            }
            Class::Rt(_) => {
                self.queues.requeue_rt(at, End::Tail);
                false
            }
        }
    }

    /// Returns the rank of a task of this class among those of its core (`prio_less`).
    fn rank(&self, class: Class) -> Rank {
        match class {
            Class::Rt(prio) => Rank::Rt(prio),
            Class::Fair if self.is_serving() => Rank::Served,
            Class::Fair => Rank::Fair,
        }
    }
}

/// The running task: its charge, its tick, and whether it makes way.
impl<P, G: Pools> Classes<P, G> {
    /// Brings the clock up to `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) {
        self.queues.site.advance(now);
    }

    /// The running task used CPU time until now (`update_curr`).
    #[inline]
    pub(super) fn charge(&mut self, curr: Index, span: Nanos) {
        let clock = self.queues.site.clock();
        let task = self.queues.tasks.task_mut(curr);
        task.runtime += span;
        task.ran_until = clock;
        let class = task.class();
        if self.queues.limits.pays() {
            self.charge_payers(span);
        }
        match class {
            Class::Fair => self.charge_fair(curr, span),
            Class::Rt(_) => self.charge_rt(curr, span),
        }
    }

    #[inline(never)]
    fn charge_payers(&mut self, span: Nanos) {
        let Queues { site, limits, .. } = &mut self.queues;
        let stops = limits.charge(&site.here(), span);
        self.next.ask(stops);
    }

    /// A tick comes while a task runs (`task_tick`).
    pub(super) fn tick(&mut self, curr: Index) {
        match self.queues.tasks.task(curr).class() {
            Class::Fair => self.tick_fair(curr),
            Class::Rt(prio) => self.tick_rt(curr, prio),
        }
        self.queues.reap();
    }

    /// Returns whether the task that arrived at `at` should run instead of `curr`
    /// (`wakeup_preempt`), and how soon.
    fn preempts(&mut self, curr: Index, at: Index) -> Resched {
        let [woken, running] = [at, curr].map(|at| self.queues.tasks.task(at).class());
        let (preempts, then) = match (woken, running) {
            (Class::Rt(_), Class::Rt(_) | Class::Fair) => (self.makes_way(curr), Resched::Yes),
            (Class::Fair, Class::Rt(_)) => (false, Resched::Yes),
            (Class::Fair, Class::Fair) => {
                let due = self.next.is_due();
                (self.queues.preempts_on_wakeup(curr, at, due), Resched::Lazy)
            }
        };
        if preempts { then } else { Resched::No }
    }

    /// Returns whether `curr` must make way for a task of a more important class, or for a better
    /// one of its own; or whether it is throttled, or keeps off fair tasks that go first.
    fn makes_way(&self, curr: Index) -> bool {
        let rt = &self.queues.rt;
        match self.queues.tasks.task(curr).class() {
            Class::Fair => !self.is_serving() && rt.best().is_some(),
            Class::Rt(prio) => self.is_serving() || rt.is_throttled() || rt.best() > Some(prio),
        }
    }

    /// Asks for a switch if the task that arrived at `at` should run instead of the running one.
    fn preempt_for(&mut self, at: Index) {
        if self.queues.is_set_aside(at) {
            return;
        }
        let due = match self.queues.tasks.running() {
            Some(curr) => self.preempts(curr, at),
            None => Resched::Yes,
        };
        self.next.ask_for(due);
    }

    /// Asks for a switch, if due, after a task left or lost its boost: that task may have prevented
    /// the throttling of the others.
    fn preempt_for_loss(&mut self) {
        let due = self.queues.tasks.running().is_some_and(|curr| self.makes_way(curr));
        self.next.ask(due);
    }
}

/// Returns whether a running task that was requeued may no longer be the first (`prio_changed`,
/// `switched_to`).
fn is_beaten(before: Class, after: Class) -> bool {
    match after {
        Class::Fair => true,
        Class::Rt(_) => after < before,
    }
}

/// The fair server: it learns which class had the CPU, and says which class goes first.
impl<P, G: Pools> Classes<P, G> {
    /// Returns when the server begins to run, if fair tasks wait for that.
    #[inline]
    pub(super) fn server_due(&self) -> Option<Time> {
        if self.server.is_on() { self.due_of_server() } else { None }
    }

    #[inline(never)]
    fn due_of_server(&self) -> Option<Time> {
        let due = self.server.due()?;
        let keeps_off = match self.queues.tasks.running() {
            Some(curr) => !self.queues.tasks.task(curr).class().is_fair(),
            // A switch that is due handles this.
            None => self.next.forced_idle().is_some() && !self.next.is_due(),
        };
        (keeps_off && self.queues.fair.root().nr > 0).then_some(due)
    }

    /// Starts the server, if the first fair task may have come.
    #[inline]
    fn start_server(&mut self) {
        if !self.server.is_on() || self.queues.fair.root().nr == 0 || !self.queues.site.is_online()
        {
            return;
        }
        let now = self.queues.site.now();
        // This also applies to an idle CPU: the task may leave again before it is picked. The pick
        // then stops the server.
        let serves = self.server.start(now.clock, self.idle.since(), now.config);
        self.next.ask_anew(serves && self.queues.tasks.running_fair().is_none());
    }

    /// Ends the idle time of the server, if the CPU was idle and a task can be picked. The pick may
    /// take a fair task because of this.
    #[inline]
    pub(super) fn end_idle_of_server(&mut self) {
        let waits = self.queues.fair.root().nr > 0;
        if let Some(since) = self.idle.since().filter(|_| waits || self.queues.rt.nr() > 0) {
            let now = self.queues.site.now();
            self.server.end_idle(now.clock, since, waits, now.config);
        }
    }

    /// Runs the server's timer after a real-time task ran until now.
    #[inline]
    pub(super) fn expire_server(&mut self) {
        let waits = self.queues.fair.root().nr > 0;
        let now = self.queues.site.now();
        let begins = self.server.expire(now.clock, waits, now.config);
        self.next.ask_anew(begins);
    }
}
