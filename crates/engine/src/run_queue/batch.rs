//! Many polls for one decision: the first tasks of a queue are lent to the host, which polls them one after the
//! other, each as long as it would go before those that were left (docs/design/dispatch.md).
//!
//! ```text
//!  schedule        the host runs `curr`, as ever
//!  begin_batch     `curr` has blocked, yielded or ended: a stand-in of the host has its place
//!  lend            the first that wait go to the host
//!  end_batch       the task that ran last has the place of the stand-in; the host offers the others again,
//!                  and decides by `schedule`
//! ```
//!
//! The host charges its tasks itself, by [`Terms`]. Time is charged to the stand-in as it passes, and so to the
//! groups above; the vruntime of the stand-in stands still.
//!
//! Invariants ([`RunQueue::check`]): a lent task counts as if it waited here; the stand-in runs.

use crate::attr::{Attr, GroupId, LatencyNice, Nice, Policy, Slice};
use crate::fair::cfs;
use crate::fair::entity::{Lag, QueueName, Standing, virtual_span};
use crate::fair::lend::{Clock, Left};
use crate::limits::Pools;
use crate::run_queue::{Place, Prev, RunQueue};
use crate::task::{QueueIndex, Task};
use crate::time::{Nanos, Time, VTime};

/// The demands that all tasks of a batch share, and the clock on which they stand.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    ask: PlainAsk,
    clock: Clock,
}

/// The answer to a host that asks for a batch in place of a decision.
#[must_use]
#[derive(Debug)]
pub enum Begun<P> {
    /// The task that ran, and the terms of the batch. The stand-in runs.
    Open(Box<Task<P>>, Terms),
    /// The arguments of the call, given back: the host has to decide.
    Refused(Prev<P>, Box<Task<P>>),
}

/// Until when a batch goes before all others. It changes as these come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For a task of it: as long as its vruntime is not beyond that.
    pub vruntime: Option<VTime>,
    /// For all of it.
    pub until: Option<Time>,
}

impl Bounds {
    /// Nobody else waits.
    const NONE: Bounds = Bounds { vruntime: None, until: None };

    /// Whether somebody at this place goes before the others.
    #[must_use]
    pub fn admit(&self, vruntime: VTime) -> bool {
        self.vruntime.is_none_or(|bound| vruntime <= bound)
    }
}

/// What a task asks of the fair class, if that is nothing special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlainAsk {
    policy: Policy,
    group: GroupId,
    slice: Option<Slice>,
}

impl PlainAsk {
    /// That of a task for which nothing was asked.
    const NOTHING: PlainAsk =
        PlainAsk { policy: Policy::Normal(Nice::ZERO), group: GroupId::ROOT, slice: None };

    /// `None` if the task asks for more, or somebody asks for it.
    fn of<P>(task: &Task<P>) -> Option<PlainAsk> {
        let Attr { policy, group, latency_nice, slice, .. } = task.attr;
        let special = task.rt_prio().is_some()
            || task.inherited_group().is_some()
            || latency_nice != LatencyNice::ZERO;
        (!special).then_some(PlainAsk { policy, group, slice })
    }
}

impl Terms {
    /// Whether a task that is with the host asks for the same. Its affinity is for the host to know.
    #[must_use]
    pub fn fit<P>(&self, task: &Task<P>) -> bool {
        PlainAsk::of(task) == Some(self.ask)
    }

    /// Whether they are those of tasks for which nothing was asked.
    #[must_use]
    pub fn are_plain(&self) -> bool {
        self.ask == PlainAsk::NOTHING
    }

    /// A task that is with the host joins, and has not been polled yet: a `parent` of the batch, which has been polled
    /// for `span`, spawned it. If nobody else waits there is nobody whom it would rob, so it stands where its parent
    /// does. So a chain of spawns gets no more than one task. Whether it may be polled; else it is to be offered.
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

    /// A task that is with the host joins after it was woken: it is placed as if it entered the queue. Whether it may be
    /// polled; else it is to be offered.
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

    /// Whether a task of the batch may be polled again; else it is to be offered.
    #[must_use]
    pub fn is_within<P>(&self, task: &Task<P>, bounds: &Bounds) -> bool {
        Terms::vruntime(task).is_some_and(|vruntime| bounds.admit(vruntime))
    }

    /// Whether a task of the batch has used less than another.
    #[must_use]
    pub fn goes_before<P>(&self, task: &Task<P>, other: &Task<P>) -> bool {
        let by = Terms::vruntime(task).zip(Terms::vruntime(other));
        by.is_none_or(|(own, other)| own <= other)
    }

    /// Where a task of the batch is on the virtual clock.
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

    /// How long a poll may last while others wait.
    #[must_use]
    pub fn slice(&self) -> Nanos {
        Nanos(self.clock.slice)
    }

    /// A task of the batch was polled for `span`, until `now`.
    pub fn charge<P>(&self, now: Time, task: &mut Task<P>, span: Nanos) {
        task.runtime += span;
        task.ran_until = now;
        if let Lag::Lent { vruntime, .. } = task.standing.lag {
            let vruntime = vruntime.after(virtual_span(self.clock.weight, span.0));
            task.standing = self.standing(vruntime, span);
        }
    }

    /// A task of the batch blocks.
    pub fn sleep<P>(&self, now: Time, task: &mut Task<P>) {
        if let Lag::Lent { vruntime, queue, lead } = task.standing.lag {
            task.standing.lag = Lag::Asleep { vruntime, queue, lead, since: now };
        }
    }
}

/// Where newcomers start in the root's queue of one CPU, for a host that has them wait there itself.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    queue: QueueName,
}

impl Start {
    /// A task that asks for nothing at all gets its place, so far beyond the clock: the one with which it joins a
    /// batch, or enters a queue. `None` for any other task, and for one that has been in a queue.
    pub fn place<P>(&self, task: &mut Task<P>, clock: VTime, debit: Nanos) -> Option<VTime> {
        let is_new = matches!(task.standing.lag, Lag::New { .. });
        if !is_new || PlainAsk::of(task) != Some(PlainAsk::NOTHING) {
            return None;
        }
        // Of the weight of such a task virtual time is time.
        let vruntime = clock.after(debit.0);
        let lead = vruntime.diff(clock);
        task.standing.lag = Lag::Lent { vruntime, queue: self.queue, lead };
        Some(vruntime)
    }

    /// One that was placed on another CPU comes here: it starts as far beyond the clock as it did there.
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

impl<P, G: Pools> RunQueue<P, G> {
    /// Where newcomers start in the root's queue; `None` if its order goes by more than vruntimes.
    #[must_use]
    pub fn start(&self) -> Option<Start> {
        self.fair.name_of_root().map(|queue| Start { queue })
    }

    /// Charges the running task until `now`, if there is one, so that the clock of its queue is as of then.
    pub fn update_curr(&mut self, now: Time) {
        self.advance(now);
    }

    /// The first newcomer that waits with the host has its [place](Start::place) there; `None` if no one waits. The clock
    /// of the root's queue does not pass it, as if it waited here: those that come later are placed behind it.
    #[inline]
    pub fn set_outside(&mut self, place: Option<VTime>) {
        let _ = self.fair.set_outside(place);
    }

    /// The virtual clock of the root's queue.
    #[inline]
    #[must_use]
    pub fn clock(&self) -> VTime {
        self.fair.root().clock
    }

    /// In place of a decision: the running task, of which `prev` tells, leaves its place to `stand_in`, a task of
    /// the host's own. A batch is refused where a switch is due, where the task asks for anything special, and where
    /// others go before those that have less vruntime.
    ///
    /// # Panics
    /// If nobody runs.
    pub fn begin_batch(
        &mut self,
        now: Time,
        prev: Prev<P>,
        mut stand_in: Box<Task<P>>,
    ) -> Begun<P> {
        self.advance(now);
        let curr = self.curr.expect("the task that ran is here");
        let goes_on = matches!(prev, Prev::Preempted(_) | Prev::Idle);
        let ask = PlainAsk::of(self.task(curr));
        let Some(ask) = ask.filter(|_| !goes_on && self.may_begin_batch(curr)) else {
            return Begun::Refused(prev, stand_in);
        };
        let left = match prev {
            Prev::Blocked(_) => Left::Asleep,
            Prev::Exited => Left::Over,
            Prev::Yielded(_) | Prev::Preempted(_) | Prev::Idle => Left::Runnable,
        };
        let Attr { policy, group, slice, .. } = self.task(curr).attr;
        (stand_in.attr.policy, stand_in.attr.group, stand_in.attr.slice) = (policy, group, slice);
        let mut task = self.replace(curr, stand_in);
        let (fair, here, _) = self.fair_here();
        task.standing = fair.begin_company(here, curr, left);
        let clock_of_queue = fair.clock(here, curr);
        task.payload = match prev {
            Prev::Blocked(payload) | Prev::Yielded(payload) => Some(payload),
            Prev::Exited | Prev::Preempted(_) | Prev::Idle => None,
        };
        Begun::Open(task, Terms { ask, clock: clock_of_queue })
    }

    /// Whether a task could follow the running one in a batch, at the end of its poll: the first that waits, if it
    /// asks for the same and `fits` says so; itself, if nobody waits and it `yields`.
    ///
    /// # Panics
    /// If nobody runs.
    pub fn could_go_on(
        &mut self,
        now: Time,
        yields: bool,
        fits: impl Fn(&Task<P>) -> bool,
    ) -> bool {
        self.advance(now);
        let curr = self.curr.expect("the task that ran is here");
        let Some(ask) = PlainAsk::of(self.task(curr)).filter(|_| self.may_begin_batch(curr)) else {
            return false;
        };
        let waits = |at| {
            let task = self.task(at);
            PlainAsk::of(task) == Some(ask) && fits(task)
        };
        // If this one leaves, the first is near, as the clock follows it.
        let first = match yields {
            true => self.fair.first_beside(curr),
            false => self.fair.first_task_beside(curr),
        };
        first.map_or(yields && self.nr_running() == 1, waits)
    }

    fn may_begin_batch(&self, curr: u32) -> bool {
        let due = self.resched || self.given.is_some() || !self.online;
        !due && self.rt.nr() == 0 && self.fair.can_have_company(curr)
    }

    /// Lends the first tasks that wait, `most` at the most: those that ask for the same as the batch, and that
    /// `fits` says may join.
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
        let stand_in = self.fair.company().expect("a batch has begun").stand_in;
        for _ in 0..most {
            let Some(at) = self.fair.first_beside(stand_in) else { break };
            let task = self.task(at);
            if !terms.fit(task) || !fits(task) {
                break;
            }
            let (fair, here, _) = self.fair_here();
            let standing = fair.lend(here, at);
            let mut task = self.remove_task(at);
            task.standing = standing;
            take(task);
        }
    }

    /// There are so many tasks in the batch now beside the one that is polled: those that were lent and those that
    /// joined, less those that left.
    ///
    /// # Panics
    /// If no batch has begun.
    pub fn set_company(&mut self, now: Time, nr: u32) {
        // The shares of the groups above follow. What they used until now they used with the old ones.
        self.advance(now);
        let (fair, here, groups) = self.fair_here();
        fair.set_company(here, groups, nr);
    }

    /// Until when the batch goes before all others; `None` if there is none.
    #[must_use]
    pub fn batch_bounds(&self) -> Option<Bounds> {
        let stand_in = self.fair.company()?.stand_in;
        let until = self.fair.turn(stand_in).map(|turn| self.charged + turn);
        Some(Bounds { vruntime: self.fair.bound(stand_in), until })
    }

    /// Ends a batch of which no task is left to have the place of the stand-in: that leaves, and nobody runs.
    ///
    /// # Panics
    /// If no batch has begun.
    pub fn dissolve_batch(&mut self, now: Time) -> Box<Task<P>> {
        self.advance(now);
        let at = self.fair.company().expect("a batch has begun").stand_in;
        let (fair, here, groups) = self.fair_here();
        fair.end_company(here, groups, None, None);
        self.resched_if(true);
        self.release(at, false)
    }

    /// A task of the batch has the place of the stand-in from now on, as if it had run there; that is given
    /// back, and the task's payload, and where it is. The others of the batch are to be offered again; the first of
    /// them stands at `first`, and the clock does not pass that.
    ///
    /// # Panics
    /// If no batch has begun.
    pub fn end_batch(
        &mut self,
        now: Time,
        mut task: Box<Task<P>>,
        first: Option<VTime>,
    ) -> (Box<Task<P>>, Option<P>, QueueIndex) {
        self.advance(now);
        let at = self.fair.company().expect("a batch has begun").stand_in;
        let (payload, standing) = (task.payload.take(), task.standing);
        task.cpu = self.cpu;
        let (fair, here, groups) = self.fair_here();
        fair.end_company(here, groups, Some(standing), first);
        (self.replace(at, task), payload, QueueIndex(at))
    }

    fn replace(&mut self, at: u32, by: Box<Task<P>>) -> Box<Task<P>> {
        match self.places.get_mut(at) {
            Some(Place::Task(task)) => std::mem::replace(task, by),
            Some(Place::Group | Place::Ghost(_)) | None => unreachable!("no task is at {at}"),
        }
    }
}
