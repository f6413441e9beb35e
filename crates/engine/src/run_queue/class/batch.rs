//! Batches: several polls for one decision. The queue lends its first tasks to the host. The host
//! polls them one after the other, each as long as it would precede the tasks that remain queued
//! (docs/design/dispatch.md).
//!
//! ```text
//!  schedule        the host runs `curr`, as without batches
//!  begin_batch     `curr` has blocked, yielded or ended: a stand-in of the host takes its place
//!  lend            the first waiting tasks go to the host
//!  end_batch       the task that ran last takes the place of the stand-in; the host offers the
//!                  other tasks again, and decides by `schedule`
//! ```
//!
//! The host charges its tasks itself, by [`Terms`]. The queue charges time to the stand-in as it
//! passes, and so to the groups above. The vruntime of the stand-in stands still.
//!
//! Invariants ([`RunQueue::check`](crate::run_queue::RunQueue::check)): a lent task counts as if it waited here; the stand-in runs.

use crate::attr::{Attr, GroupId, LatencyNice, Policy, Slice};
use crate::fair::cfs;
use crate::fair::entity::{Lag, QueueName, Standing, virtual_span};
use crate::fair::lend::{Clock, Left};
use crate::limits::Pools;
use crate::run_queue::class::{Classes, Queues};
use crate::run_queue::switch::Prev;
use crate::task::{QueueIndex, Task};
use crate::time::{Nanos, Time, VTime};

/// The attributes that all tasks of a batch share, and the virtual clock of their queue.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    ask: PlainAsk,
    /// Whether these are the terms of tasks that ask for nothing.
    plain: bool,
    clock: Clock,
}

/// The answer to a host that asks for a batch instead of a decision.
#[must_use]
#[derive(Debug)]
pub enum Begun<P> {
    /// The task that ran, and the terms of the batch. The stand-in runs.
    Open(Box<Task<P>>, Terms),
    /// The arguments of the call, returned unchanged: the host has to decide by `schedule`.
    Refused(Prev<P>, Box<Task<P>>),
}

/// The bounds within which a batch precedes all waiting tasks. They change as waiting tasks come
/// and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The highest vruntime at which a task of the batch may be polled.
    pub vruntime: Option<VTime>,
    /// The end of the whole batch.
    pub until: Option<Time>,
}

impl Bounds {
    /// The bounds while no other task waits.
    const NONE: Bounds = Bounds { vruntime: None, until: None };

    /// Returns whether a task at this vruntime precedes the waiting tasks.
    #[must_use]
    pub fn admit(&self, vruntime: VTime) -> bool {
        self.vruntime.is_none_or(|bound| vruntime <= bound)
    }
}

/// The scheduling attributes of a fair task that has no special ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlainAsk {
    policy: Policy,
    group: GroupId,
    slice: Option<Slice>,
}

impl PlainAsk {
    /// Returns `None` if the task has special attributes, or inherits a priority or a group.
    fn of<P>(task: &Task<P>) -> Option<PlainAsk> {
        let Attr { policy, group, latency_nice, slice, .. } = task.attr;
        let special = !task.class().is_fair()
            || task.inherited_group().is_some()
            || latency_nice != LatencyNice::ZERO;
        (!special).then_some(PlainAsk { policy, group, slice })
    }
}

impl Terms {
    /// Returns whether a task that is with the host has the same attributes. The host checks its
    /// affinity.
    #[must_use]
    pub fn fit<P>(&self, task: &Task<P>) -> bool {
        if self.plain { task.is_plain() } else { PlainAsk::of(task) == Some(self.ask) }
    }

    /// Returns whether these are the terms of tasks with default attributes.
    #[must_use]
    pub fn are_plain(&self) -> bool {
        self.plain
    }

    /// Adds a task that is with the host and has not been polled yet. A task of the batch,
    /// `parent`, spawned it after it had been polled for `span`. If no other task waits, no task
    /// can lose its share, so the new task gets the vruntime of its parent. A chain of spawns thus
    /// gets no more than one task. Returns whether the new task may be polled; if not, the host
    /// must offer it.
    pub fn join_new<P>(
        &self,
        task: &mut Task<P>,
        (parent, span): (&Task<P>, Nanos),
        bounds: &Bounds,
    ) -> bool {
        let is_new = matches!(task.standing.lag, Lag::New { .. });
        let Some(stands) = Terms::vruntime(parent).filter(|_| is_new && *bounds == Bounds::NONE)
        else {
            return false;
        };
        let vruntime = stands.after(virtual_span(self.clock.weight, span.0));
        task.standing = self.standing(vruntime, Nanos::ZERO);
        true
    }

    /// Adds a task that is with the host and was woken. It is placed as if it entered the queue.
    /// Returns whether it may be polled; if not, the host must offer it.
    pub fn join<P>(&self, now: Time, task: &mut Task<P>, bounds: &Bounds) -> bool {
        let Clock { queue, at, floor, slice, weight } = self.clock;
        let lag = &task.standing.lag;
        let (new, floor) = (|_| at.after(virtual_span(weight, slice)), || floor);
        let vruntime = cfs::place_by(lag, now, (queue, at), (new, floor));
        let is_within = bounds.admit(vruntime);
        if is_within {
            task.standing = self.standing(vruntime, Nanos::ZERO);
        }
        is_within
    }

    /// Returns whether a task of the batch may be polled again; if not, the host must offer it.
    #[must_use]
    pub fn is_within<P>(&self, task: &Task<P>, bounds: &Bounds) -> bool {
        Terms::vruntime(task).is_some_and(|vruntime| bounds.admit(vruntime))
    }

    /// Returns whether a task of the batch has used no more than another.
    #[must_use]
    pub fn goes_before<P>(&self, task: &Task<P>, other: &Task<P>) -> bool {
        let by = Terms::vruntime(task).zip(Terms::vruntime(other));
        by.is_none_or(|(own, other)| own <= other)
    }

    /// Returns the vruntime of a task of the batch.
    #[must_use]
    pub fn vruntime<P>(task: &Task<P>) -> Option<VTime> {
        match task.standing.lag {
            Lag::Lent { vruntime, .. } => Some(vruntime),
            Lag::New { .. } | Lag::Asleep { .. } | Lag::Moving { .. } | Lag::Delayed { .. } => None,
        }
    }

    fn standing(&self, vruntime: VTime, ran: Nanos) -> Standing {
        let lead = vruntime.diff(self.clock.at);
        let lag = Lag::Lent { vruntime, queue: self.clock.queue, lead };
        Standing { lag, turn: ran.0 }
    }

    /// Returns how long a poll may last while other tasks wait.
    #[must_use]
    pub fn slice(&self) -> Nanos {
        Nanos(self.clock.slice)
    }

    /// Charges a task of the batch that was polled for `span`, until `now`.
    pub fn charge<P>(&self, now: Time, task: &mut Task<P>, span: Nanos) {
        task.runtime += span;
        task.ran_until = now;
        if let Lag::Lent { vruntime, .. } = task.standing.lag {
            let vruntime = vruntime.after(virtual_span(self.clock.weight, span.0));
            task.standing = self.standing(vruntime, span);
        }
    }

    /// Marks a task of the batch as blocked.
    pub fn sleep<P>(&self, now: Time, task: &mut Task<P>) {
        if let Lag::Lent { vruntime, queue, lead } = task.standing.lag {
            task.standing.lag = Lag::Asleep { vruntime, queue, lead, since: now };
        }
    }
}

/// The start of new tasks in the root queue of one CPU, for a host that keeps them waiting itself.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    queue: QueueName,
}

impl Start {
    /// Places a task with default attributes `debit` beyond the clock. It joins a batch, or enters
    /// a queue, with that place. Returns `None` for any other task, and for one that has been in a
    /// queue.
    pub fn place<P>(&self, task: &mut Task<P>, clock: VTime, debit: Nanos) -> Option<VTime> {
        let is_new = matches!(task.standing.lag, Lag::New { .. });
        if !is_new || !task.is_plain() {
            return None;
        }
        // A task with default attributes has the weight at which virtual time passes like real
        // time.
        let vruntime = clock.after(debit.0);
        let lead = vruntime.diff(clock);
        task.standing.lag = Lag::Lent { vruntime, queue: self.queue, lead };
        Some(vruntime)
    }

    /// Moves a task that was placed on another CPU here: it starts as far beyond the clock as it
    /// did there.
    pub fn move_here<P>(&self, task: &mut Task<P>, clock: VTime) -> VTime {
        let lead = match task.standing.lag {
            Lag::Lent { lead, .. } | Lag::Moving { lead } => lead,
            Lag::New { .. } | Lag::Asleep { .. } | Lag::Delayed { .. } => 0,
        };
        let vruntime = clock.after(lead.cast_unsigned());
        task.standing.lag = Lag::Lent { vruntime, queue: self.queue, lead };
        vruntime
    }
}

impl<P, G: Pools> Queues<P, G> {
    /// Returns the start of new tasks in the root queue; `None` if its order depends on more than
    /// vruntimes.
    #[must_use]
    pub fn start(&self) -> Option<Start> {
        self.fair.name_of_root().map(|queue| Start { queue })
    }

    /// Returns the virtual clock of the root queue.
    #[inline]
    #[must_use]
    pub fn clock(&self) -> VTime {
        self.fair.root().clock
    }

    /// Returns the bounds of the batch; `None` if there is none. The running
    /// task was charged until `charged`.
    #[must_use]
    pub(in crate::run_queue) fn batch_bounds(&self, charged: Time) -> Option<Bounds> {
        let stand_in = self.fair.company()?.stand_in;
        let until = self.fair.turn(stand_in).map(|turn| charged + turn);
        Some(Bounds { vruntime: self.fair.bound(stand_in), until })
    }
}

impl<P, G: Pools> Classes<P, G> {
    /// Sets the [place](Start::place) of the first new task that waits with the host; `None` if
    /// none waits. The clock of the root queue does not pass that place, as if the task waited
    /// here. Tasks that arrive later are placed behind it.
    #[inline]
    pub fn set_outside(&mut self, place: Option<VTime>) {
        let _ = self.queues.fair.set_outside(place);
    }

    /// Sets the time for which a tick leaves the CPU to a fair task, even beyond its slice; zero, as
    /// at the beginning, for none. A preempted task may cost its host more than a longer wait costs
    /// the others. A wake-up preempts as ever, and a new task then does not. A tick preempts as ever
    /// if a latency-sensitive task waits.
    /// A task of less weight than that of nice 0 keeps the CPU for a smaller part of that time. EEVDF
    /// does not heed it.
    pub fn set_least_turn(&mut self, turn: Nanos) {
        self.queues.fair.set_least_turn(turn);
    }

    /// Begins a batch instead of a decision: the running task, whose state is `prev`, leaves its
    /// place to `stand_in`, a task of the host. The queue refuses a batch in three cases: a switch
    /// is due; the task has special attributes; or other tasks may precede those that have less
    /// vruntime.
    ///
    /// # Panics
    /// If no task runs.
    pub fn begin_batch(&mut self, prev: Prev<P>, mut stand_in: Box<Task<P>>) -> Begun<P> {
        let curr = self.queues.tasks.running().expect("the task that ran is here");
        let goes_on = matches!(prev, Prev::Preempted(_) | Prev::Idle);
        let ask = PlainAsk::of(self.queues.tasks.task(curr));
        let Some(ask) = ask.filter(|_| !goes_on && self.may_begin_batch(curr)) else {
            return Begun::Refused(prev, stand_in);
        };
        let left = match prev {
            Prev::Blocked(_) => Left::Asleep,
            Prev::Exited => Left::Over,
            Prev::Yielded(_) | Prev::Preempted(_) | Prev::Idle => Left::Runnable,
        };
        stand_in.asks_as(self.queues.tasks.task(curr));
        let mut task = self.queues.tasks.replace(curr, stand_in);
        let (fair, here) = (&mut self.queues.fair, self.queues.site.now());
        task.standing = fair.begin_company(here, curr, left);
        let clock_of_queue = fair.clock(here, curr);
        task.payload = match prev {
            Prev::Blocked(payload) | Prev::Yielded(payload) => Some(payload),
            Prev::Exited | Prev::Preempted(_) | Prev::Idle => None,
        };
        let plain = task.is_plain();
        Begun::Open(task, Terms { ask, plain, clock: clock_of_queue })
    }

    /// Returns whether a task could follow the running one in a batch, at the end of its poll. That
    /// is the first waiting task, if it has the same attributes and `fits` accepts it. If no task
    /// waits, it is the running task itself, if it `yields`.
    ///
    /// # Panics
    /// If no task runs.
    pub fn could_go_on(&mut self, yields: bool, fits: impl Fn(&Task<P>) -> bool) -> bool {
        let curr = self.queues.tasks.running().expect("the task that ran is here");
        let Some(ask) =
            PlainAsk::of(self.queues.tasks.task(curr)).filter(|_| self.may_begin_batch(curr))
        else {
            return false;
        };
        let waits = |at| {
            let task = self.queues.tasks.task(at);
            PlainAsk::of(task) == Some(ask) && fits(task)
        };
        // If the running task leaves, the first waiting task is within the bounds, as the clock
        // follows it.
        let first = match yields {
            true => self.queues.fair.first_beside(curr),
            false => self.queues.fair.first_task_beside(curr),
        };
        first.map_or(yields && self.queues.nr_running() == 1, waits)
    }

    fn may_begin_batch(&self, curr: u32) -> bool {
        let due = self.next.is_due() || self.next.is_given() || !self.queues.site.is_online();
        !due && self.queues.rt.nr() == 0 && self.queues.fair.can_have_company(curr)
    }

    /// Lends the first waiting tasks, `most` at the most: those that have the attributes of the
    /// batch and that `fits` accepts.
    ///
    /// # Panics
    /// If no batch has begun.
    pub fn lend(
        &mut self,
        terms: &Terms,
        most: usize,
        fits: impl Fn(&Task<P>) -> bool,
        mut take: impl FnMut(Box<Task<P>>),
    ) {
        let stand_in = self.queues.fair.company().expect("a batch has begun").stand_in;
        for _ in 0..most {
            let Some(at) = self.queues.fair.first_beside(stand_in) else { break };
            let task = self.queues.tasks.task(at);
            if !terms.fit(task) || !fits(task) {
                break;
            }
            let (fair, here) = (&mut self.queues.fair, self.queues.site.now());
            let standing = fair.lend(here, at);
            let mut task = self.remove(at);
            task.standing = standing;
            take(task);
        }
    }

    /// Sets the number of tasks in the batch beside the one that is polled: the tasks that were
    /// lent or joined, less those that left. The shares of the groups above change from now on.
    ///
    /// # Panics
    /// If no batch has begun.
    pub fn set_company(&mut self, nr: u32) {
        let Queues { site, fair, .. } = &mut self.queues;
        fair.set_company(site.now(), site.groups(), nr);
    }

    /// Ends a batch: a task of it takes the place of the stand-in, as if it had run there. Returns
    /// the stand-in, the payload of the task, and the index of its place. The host must offer the
    /// other tasks of the batch again. The first of them has the vruntime `first`, and the clock
    /// does not pass it.
    ///
    /// # Panics
    /// If no batch has begun, or `task` is asleep: such a task has left the batch.
    pub fn end_batch(
        &mut self,
        mut task: Box<Task<P>>,
        first: Option<VTime>,
    ) -> (Box<Task<P>>, Option<P>, QueueIndex) {
        let at = self.queues.fair.company().expect("a batch has begun").stand_in;
        let (payload, standing) = (task.payload.take(), task.standing);
        task.cpu = self.queues.site.cpu();
        let Queues { site, fair, .. } = &mut self.queues;
        fair.end_company(site.now(), site.groups(), standing, first);
        (self.queues.tasks.replace(at, task), payload, QueueIndex(at))
    }
}
