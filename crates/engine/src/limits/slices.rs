//! The bandwidth that one CPU has drawn for task groups, under the kernel's control
//! ([`CfsBandwidth`](crate::limits::bandwidth::CfsBandwidth)).
//!
//! The groups at and above the running task's pay for its CPU time if the task is fair. When a
//! charge finds that a group has none left, it draws a slice; if the pool is empty, a switch is due,
//! and the queue is throttled there. No timer comes when a slice is used up: what runs over is owed.
//!
//! Invariants ([`Slices::check`]): an empty queue keeps at most [`KEPT`]. A queue that paid without
//! budget is throttled, or a switch is due.

use crate::attr::GroupId;
use crate::fair::entity::QueueId;
use crate::fair::tree::Tree;
use crate::limits::Pools;
use crate::limits::bandwidth::{KEPT, Want};
use crate::limits::here::Here;
use crate::time::{Nanos, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The timer of a group's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Period,
    Slack,
}

/// The bandwidth of a group on this CPU (`cfs_rq`).
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// What was drawn and not given back, and what was used of it or beyond it.
    drawn: Nanos,
    used: Nanos,
    /// The limit of which it was drawn. What was drawn of an older one does not count.
    epoch: u32,
    throttled: bool,
    /// A task that the group did not hold back used budget beyond what was left. Then there is no
    /// bound of the debt, until it is paid.
    lent: bool,
    /// The time since which throttling counts (`throttled_clock`).
    since: Option<Time>,
}

impl Slice {
    /// Returns what is left (`runtime_remaining`).
    fn remaining(&self) -> i64 {
        self.drawn.0.cast_signed() - self.used.0.cast_signed()
    }

    /// Begins anew with a newer limit.
    fn follow(&mut self, epoch: u32) {
        if self.epoch != epoch {
            let Slice { throttled, since, .. } = *self;
            *self = Slice { epoch, throttled, since, ..Slice::default() };
        }
    }
}

/// A group that pays for the running task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payer {
    pub(crate) queue: QueueId,
    pub(crate) group: GroupId,
    /// Whether the group is throttled when it has no budget left. The groups below the one in which
    /// a task competes only pay.
    pub(crate) holds_back: bool,
}

/// A timer that is set, with its group and the epoch of the limit.
type Armed = Reverse<(Time, u64, GroupId, u32, Timer)>;

/// The bandwidth of the groups on one CPU.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    slices: Vec<Option<Slice>>,
    /// Whether any queue had a limit by bandwidth.
    is_used: bool,
    /// The groups that pay, from the task's own upwards.
    payers: Vec<Payer>,
    /// The queues that may hold more than they keep when they are empty.
    holders: Vec<(QueueId, GroupId)>,
    timers: BinaryHeap<Armed>,
    arrivals: u64,
    /// Whether a timer was set since [`Slices::take_timer`].
    timer_set: bool,
}

impl Slices {
    pub(crate) fn grow(&mut self, queues: usize) {
        self.slices.resize(queues.max(self.slices.len()), None);
        self.payers.reserve(queues.saturating_sub(self.payers.len()));
        self.holders.reserve(queues.saturating_sub(self.holders.len()));
    }

    fn get(&self, queue: QueueId) -> Option<&Slice> {
        self.slices.get(queue.index())?.as_ref()
    }

    fn slice_mut(&mut self, queue: QueueId) -> &mut Slice {
        self.slices[queue.index()].as_mut().expect("the group has bandwidth")
    }

    /// Begins anew with a queue, whose group has a limit by bandwidth of this epoch, or none. A queue
    /// that drew of this limit already keeps that.
    pub(crate) fn set(&mut self, queue: QueueId, limit: Option<u32>) {
        self.payers.retain(|payer| payer.queue != queue);
        self.is_used |= limit.is_some();
        let slice = &mut self.slices[queue.index()];
        if slice.is_none_or(|slice| limit != Some(slice.epoch)) {
            *slice = limit.map(|epoch| Slice { epoch, ..Slice::default() });
            self.holders.retain(|&(it, _)| it != queue);
        }
    }

    /// Returns whether a queue's group has a limit by bandwidth.
    pub(crate) fn has(&self, queue: QueueId) -> bool {
        self.get(queue).is_some()
    }

    /// Returns whether any queue has or had a limit by bandwidth.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used
    }

    pub(crate) fn is_throttled(&self, queue: QueueId) -> bool {
        self.get(queue).is_some_and(|slice| slice.throttled)
    }

    /// Returns whether a group has budget here.
    pub(crate) fn has_left(&self, queue: QueueId) -> bool {
        self.get(queue).is_none_or(|slice| slice.remaining() > 0)
    }

    /// Returns what a queue drew and did not give back.
    pub(crate) fn held(&self, queue: QueueId) -> Nanos {
        self.get(queue).map_or(Nanos::ZERO, |slice| slice.drawn)
    }

    /// Returns what a queue has left; negative if it owes.
    #[cfg(test)]
    pub(crate) fn remaining(&self, queue: QueueId) -> i64 {
        self.get(queue).map_or(0, Slice::remaining)
    }

    /// Returns what a queue used beyond what it drew, apart from time of tasks that its group did not
    /// hold back.
    pub(crate) fn owed(&self, queue: QueueId) -> Nanos {
        let slice = self.get(queue).filter(|slice| !slice.lent);
        slice.map_or(Nanos::ZERO, |slice| Nanos(slice.remaining().min(0).unsigned_abs()))
    }

    /// Returns how long a queue has been throttled, as far as that is not counted yet.
    pub(crate) fn throttled_for(&self, now: Time, queue: QueueId) -> Nanos {
        let since = self.get(queue).and_then(|slice| slice.since);
        since.map_or(Nanos::ZERO, |since| now.since(since))
    }

    /// Returns whether no state is lost if a queue is removed.
    pub(crate) fn is_at_rest(&self, queue: QueueId) -> bool {
        self.get(queue).is_none_or(|slice| slice.drawn == Nanos::ZERO && !slice.throttled)
    }

    /// Returns whether any group pays.
    pub(crate) fn pays(&self) -> bool {
        !self.payers.is_empty()
    }

    /// Makes a group pay for the task that is picked.
    pub(crate) fn add_payer(&mut self, payer: Payer) {
        self.payers.push(payer);
    }

    pub(crate) fn nr_payers(&self) -> usize {
        self.payers.len()
    }

    pub(crate) fn payer(&self, nth: usize) -> Payer {
        self.payers[nth]
    }

    pub(crate) fn dismiss_payers(&mut self) {
        self.payers.clear();
    }

    /// Returns the payers without budget that are not throttled, from the task's own group upwards.
    pub(crate) fn spent(&self) -> Option<Payer> {
        let spent = |payer: &&Payer| {
            payer.holds_back && !self.has_left(payer.queue) && !self.is_throttled(payer.queue)
        };
        self.payers.iter().find(spent).copied()
    }

    /// Returns whether a throttled group holds the running task back.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.payers.iter().any(|payer| payer.holds_back && self.is_throttled(payer.queue))
    }

    /// Charges the payers (`account_cfs_rq_runtime`). Returns whether one of them has no budget
    /// left, so that the task must leave.
    pub(crate) fn charge(&mut self, here: &Here<impl Pools>, span: Nanos) -> bool {
        let mut leaves = false;
        for nth in 0..self.payers.len() {
            let payer = self.payers[nth];
            let slice = self.slice_mut(payer.queue);
            slice.used += span;
            // A task of a throttled queue runs to its return to user mode, where tasks are throttled.
            slice.lent |= (!payer.holds_back || slice.throttled) && slice.remaining() <= 0;
            if self.has_left(payer.queue) || self.is_throttled(payer.queue) {
                continue;
            }
            // The queue of a group that only pays may be empty, and then it keeps no slice.
            let want = if payer.holds_back { Want::Slice } else { Want::Any };
            let left = self.refresh(here, (payer.queue, payer.group), want);
            leaves |= !left && payer.holds_back;
        }
        leaves
    }

    /// Draws until a queue has what it wants, if that much can be drawn. Returns whether anything is
    /// left (`assign_cfs_rq_runtime`). A limit that is being removed refuses nothing.
    pub(crate) fn refresh(
        &mut self,
        here: &Here<impl Pools>,
        (queue, group): (QueueId, GroupId),
        want: Want,
    ) -> bool {
        let slice = self.slice_mut(queue);
        let drawn = here.pools.with_bandwidth(group, |pool| {
            slice.follow(pool.epoch());
            pool.draw(here.now, slice.remaining(), want)
        });
        let epoch = slice.epoch;
        let Some((drawn, starts)) = drawn else {
            let enough = enough(slice.remaining());
            return self.receive((queue, group), enough);
        };
        if let Some(at) = starts {
            self.arm((at, group, epoch), Timer::Period);
        }
        self.receive((queue, group), drawn)
    }

    /// Hands a waiting queue what it needs to have anything left. Returns whether it has
    /// (`distribute_cfs_runtime`).
    pub(crate) fn accept(&mut self, here: &Here<impl Pools>, queue: (QueueId, GroupId)) -> bool {
        let slice = self.slice_mut(queue.0);
        let drawn = here.pools.with_bandwidth(queue.1, |pool| {
            slice.follow(pool.epoch());
            pool.hand_out(slice.remaining())
        });
        let drawn = drawn.unwrap_or_else(|| enough(slice.remaining()));
        self.receive(queue, drawn)
    }

    fn receive(&mut self, (queue, group): (QueueId, GroupId), drawn: Nanos) -> bool {
        let slice = self.slice_mut(queue);
        slice.drawn += drawn;
        let left = slice.remaining();
        slice.lent &= left <= 0;
        if left > KEPT.0.cast_signed() && !self.holders.iter().any(|&(it, _)| it == queue) {
            self.holders.push((queue, group));
        }
        left > 0
    }

    /// Gives back what empty queues do not keep (`return_cfs_rq_runtime`).
    pub(crate) fn return_slack(&mut self, here: &Here<impl Pools>, tree: &Tree) {
        for nth in (0..self.holders.len()).rev() {
            let (queue, group) = self.holders[nth];
            if tree.queue(queue).nr > 0 {
                continue;
            }
            self.holders.swap_remove(nth);
            let slice = self.slice_mut(queue);
            let rest = slice.remaining() - KEPT.0.cast_signed();
            let Ok(rest) = u64::try_from(rest).map(Nanos) else { continue };
            slice.drawn -= rest;
            let epoch = slice.epoch;
            let starts = here.pools.with_bandwidth(group, |pool| {
                let counts = pool.epoch() == epoch;
                counts.then(|| pool.give_back(here.now, rest)).flatten()
            });
            if let Some(at) = starts.flatten() {
                self.arm((at, group, epoch), Timer::Slack);
            }
        }
    }

    /// Returns whether [`Slices::return_slack`] may have anything to do.
    #[inline]
    pub(crate) fn holds_any(&self) -> bool {
        !self.holders.is_empty()
    }

    fn arm(&mut self, (at, group, epoch): (Time, GroupId, u32), timer: Timer) {
        self.arrivals += 1;
        self.timer_set = true;
        self.timers.push(Reverse((at, self.arrivals, group, epoch, timer)));
    }

    /// Returns whether a timer was set since the last call.
    pub(crate) fn take_timer(&mut self) -> bool {
        std::mem::take(&mut self.timer_set)
    }

    /// Returns when the first timer is due; later than any time if none is set.
    pub(crate) fn next(&self) -> Time {
        self.timers.peek().map_or(Time::MAX, |Reverse(armed)| armed.0)
    }

    /// Runs the first timer. Returns the first CPU that gets budget of a group.
    pub(crate) fn expire(
        &mut self,
        here: &Here<impl Pools>,
    ) -> Option<(crate::cpu::CpuId, GroupId)> {
        let Reverse((_, _, group, epoch, timer)) = self.timers.pop()?;
        let (again, first) = here.pools.with_bandwidth(group, |pool| match timer {
            _ if pool.epoch() != epoch => (None, None),
            Timer::Period => (pool.end_period(here.now), pool.first_waiting()),
            Timer::Slack => (None, pool.end_slack(here.now)),
        })?;
        if let Some(at) = again {
            self.arm((at, group, epoch), timer);
        }
        first.map(|cpu| (cpu, group))
    }

    /// Notes that a queue is throttled. Its throttling counts from now on, or from its first task
    /// on.
    pub(crate) fn throttle(
        &mut self,
        here: &Here<impl Pools>,
        (queue, group): (QueueId, GroupId),
        counts: bool,
    ) {
        let slice = self.slice_mut(queue);
        slice.throttled = true;
        slice.since = counts.then_some(here.now);
        here.pools.with_bandwidth(group, |pool| pool.wait(here.cpu));
    }

    /// Counts the throttling of a queue from now on, if it is throttled: a task came.
    pub(crate) fn note_task(&mut self, now: Time, queue: QueueId) {
        if let Some(Some(slice)) = self.slices.get_mut(queue.index())
            && slice.throttled
        {
            slice.since = slice.since.or(Some(now));
        }
    }

    /// Ends the throttling of a queue. Returns how long it counted.
    pub(crate) fn unthrottle(
        &mut self,
        here: &Here<impl Pools>,
        (queue, group): (QueueId, GroupId),
    ) -> Nanos {
        let slice = self.slice_mut(queue);
        slice.throttled = false;
        let since = slice.since.take();
        here.pools.with_bandwidth(group, |pool| pool.forget(here.cpu));
        since.map_or(Nanos::ZERO, |since| here.now.since(since))
    }

    /// Returns what an empty queue holds beyond what it keeps, or whether a payer has nothing left:
    /// for checks.
    pub(crate) fn fault(&self, tree: &Tree, queue: QueueId) -> Option<&'static str> {
        let slice = self.get(queue)?;
        let empty = tree.queue(queue).nr == 0;
        if empty && slice.remaining() > KEPT.0.cast_signed() {
            return Some("an empty queue keeps at most 1 ms");
        }
        let listed = self.holders.iter().any(|&(it, _)| it == queue);
        let known = slice.remaining() <= KEPT.0.cast_signed() || listed;
        (!known).then_some("a queue with more than 1 ms is listed")
    }
}

/// Returns what a queue needs to have anything left.
fn enough(remaining: i64) -> Nanos {
    Nanos(remaining.min(0).unsigned_abs() + 1)
}
