//! The bandwidth of a task group as the Linux kernel controls it (`struct cfs_bandwidth`).
//!
//! CPUs draw slices of a group's quota from one pool, and keep what they drew until it is used. A
//! CPU whose queue of the group becomes empty keeps [`KEPT`] and gives the rest back at once. A
//! timer of some CPU refills the pool at the end of each period. Another one hands what was given
//! back to the CPUs that wait. `limits/slices.rs` has the part of one CPU.
//!
//! It is on with [`Feature::CfsBandwidth`](crate::features::Feature::CfsBandwidth). The functions
//! in parentheses are those of `kernel/sched/fair.c`. The page `docs/design/bandwidth.md` tells how
//! this differs from [`Pool`](crate::limits::pool::Pool), and what was not compared.
//!
//! Invariants ([`CfsBandwidth::check`]): the granted budget equals what CPUs hold or used, what is
//! left, and what lapsed. A CPU does not wait while the pool has more than a slice, unless the
//! slack timer runs or the refill is near.

use crate::cpu::CpuId;
use crate::limits::limit::{Limit, Usage};
use crate::time::{Nanos, Time};
use std::collections::VecDeque;

/// The budget that a CPU keeps while its queue of the group is empty (`min_cfs_rq_runtime`).
pub const KEPT: Nanos = Nanos::from_millis(1);

/// The delay of the slack timer (`cfs_bandwidth_slack_period`).
pub const SLACK_PERIOD: Nanos = Nanos::from_millis(5);

/// The least time before a refill in which budget is still handed out (`min_bandwidth_expiration`).
const MIN_EXPIRATION: Nanos = Nanos::from_millis(2);

/// The values of the machine for all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// What a CPU draws at a time (`sched_cfs_bandwidth_slice_us`).
    pub slice: Nanos,
    /// Periods of different groups begin at different times. Otherwise they begin at multiples of
    /// their length ([`FairRules::interleaves_periods`](crate::rules::FairRules::interleaves_periods)).
    pub interleaves: bool,
}

/// What a CPU wants to have left of a group's bandwidth after a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A slice (`assign_cfs_rq_runtime`).
    Slice,
    /// Anything at all: 1 ns (`throttle_cfs_rq`, `distribute_cfs_runtime`).
    Any,
}

/// The bandwidth of a task group.
#[derive(Debug)]
pub struct CfsBandwidth {
    limit: Limit,
    slice: Nanos,
    epoch: u32,
    /// The expiry of the period timer, or the last one while the timer is off.
    period_end: Time,
    /// The budget that CPUs may draw.
    runtime: Nanos,
    /// The budget right after the last refill.
    snap: Nanos,
    /// The period timer runs (`period_active`).
    active: bool,
    /// No CPU drew since the last refill.
    idle: bool,
    slack_started: bool,
    /// The CPUs that are throttled, the one that waits longest first.
    waiting: VecDeque<CpuId>,
    usage: Usage,
    /// The time of the last call.
    seen: Time,
    granted: i128,
    lapsed: i128,
    /// What CPUs drew and did not give back.
    held: i128,
}

impl CfsBandwidth {
    /// Returns a full pool: the quota and the burst, which a group has as soon as both are set, and
    /// after each idle period (`__refill_cfs_bandwidth_runtime`). Without interleaving `stagger`
    /// does not matter; otherwise the periods begin so much later than they would from `now` on.
    #[must_use]
    pub fn new(
        limit: Limit,
        cpus: usize,
        epoch: u32,
        control: Control,
        (now, stagger): (Time, Nanos),
    ) -> Self {
        let runtime = limit.runtime() + limit.burst();
        let period_end = if control.interleaves { now + stagger } else { Time::ZERO };
        CfsBandwidth {
            limit,
            slice: control.slice,
            epoch,
            period_end,
            runtime,
            snap: runtime,
            active: false,
            idle: false,
            slack_started: false,
            waiting: VecDeque::with_capacity(cpus),
            usage: Usage::default(),
            seen: now,
            granted: runtime.0.into(),
            lapsed: 0,
            held: 0,
        }
    }

    /// Makes this new limit the successor of an `old` one: its periods go on, and what its pool has
    /// left is added, up to the quota and the burst (`tg_set_cfs_bandwidth`). What CPUs hold lapses.
    #[must_use]
    pub fn after(self, old: &CfsBandwidth) -> Self {
        let (quota, burst) = (self.limit.runtime(), self.limit.burst());
        let runtime = (old.runtime + quota).min(quota + burst);
        let period_end = old.period_end;
        CfsBandwidth { period_end, runtime, snap: runtime, granted: runtime.0.into(), ..self }
    }

    /// Returns the limit that it was made for.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns the number of limits that the group had before and with this one.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the effects of the limit, apart from those that CPUs count.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Draws for a queue that has `remaining` left until it has what it wants, or all that is there
    /// (`__assign_cfs_rq_runtime`). Returns it, and when the period timer must come if the call
    /// starts it.
    pub fn draw(&mut self, now: Time, remaining: i64, want: Want) -> (Nanos, Option<Time>) {
        self.seen = now;
        let starts = !self.active;
        if starts {
            self.active = true;
            self.forward(now);
        }
        let target = match want {
            Want::Slice => self.slice,
            Want::Any => Nanos(1),
        };
        let drawn = self.take(lacks(remaining, target));
        self.idle &= drawn == Nanos::ZERO;
        (drawn, starts.then_some(self.period_end))
    }

    /// Takes what a waiting queue with `remaining` needs to have anything left
    /// (`distribute_cfs_runtime`).
    pub fn hand_out(&mut self, remaining: i64) -> Nanos {
        self.take(lacks(remaining, Nanos(1)))
    }

    fn take(&mut self, most: Nanos) -> Nanos {
        let drawn = most.min(self.runtime);
        self.runtime -= drawn;
        self.held += i128::from(drawn.0);
        drawn
    }

    /// Takes back what a CPU does not keep (`__return_cfs_rq_runtime`). Returns when the slack timer
    /// must come if the call starts it (`start_cfs_slack_bandwidth`).
    pub fn give_back(&mut self, now: Time, rest: Nanos) -> Option<Time> {
        self.seen = now;
        self.runtime += rest;
        self.held -= i128::from(rest.0);
        let wanted = self.runtime > self.slice && !self.waiting.is_empty();
        let late = self.refills_within(now, SLACK_PERIOD + MIN_EXPIRATION);
        if !wanted || late || self.slack_started {
            return None;
        }
        self.slack_started = true;
        Some(now + SLACK_PERIOD)
    }

    /// Runs the slack timer (`do_sched_cfs_slack_timer`). Returns the first CPU that gets budget.
    pub fn end_slack(&mut self, now: Time) -> Option<CpuId> {
        self.seen = now;
        self.slack_started = false;
        let hands_out = !self.refills_within(now, MIN_EXPIRATION) && self.runtime > self.slice;
        self.first_waiting().filter(|_| hands_out)
    }

    /// Runs the period timer (`do_sched_cfs_period_timer`). Returns its next expiry, if it goes on.
    pub fn end_period(&mut self, now: Time) -> Option<Time> {
        self.seen = now;
        let periods = self.forward(now);
        self.usage.nr_periods += periods;
        self.refill();
        let throttled = !self.waiting.is_empty();
        if throttled {
            self.usage.nr_throttled += periods;
        }
        self.active = throttled || !self.idle;
        self.idle = !throttled;
        self.active.then_some(self.period_end)
    }

    /// Grants one quota, however many periods are over (`__refill_cfs_bandwidth_runtime`).
    fn refill(&mut self) {
        let (quota, burst) = (self.limit.runtime(), self.limit.burst());
        let full = self.runtime + quota;
        if self.snap > full {
            self.usage.nr_bursts += 1;
            self.usage.burst += Nanos(self.snap.0 - full.0);
        }
        self.runtime = full.min(quota + burst);
        self.snap = self.runtime;
        self.granted += i128::from(quota.0);
        self.lapsed += i128::from((full - self.runtime).0);
    }

    /// Moves the end of the period beyond `now`. Returns by how many periods (`hrtimer_forward`).
    fn forward(&mut self, now: Time) -> u64 {
        if self.period_end > now {
            return 0;
        }
        let period = self.limit.period();
        let periods = now.since(self.period_end).0 / period.0 + 1;
        self.period_end = self.period_end + Nanos(periods * period.0);
        periods
    }

    fn refills_within(&self, now: Time, span: Nanos) -> bool {
        self.period_end <= now || self.period_end.since(now) < span
    }

    /// Notes that a CPU waits for budget, after those that wait already.
    pub fn wait(&mut self, cpu: CpuId) {
        self.waiting.push_back(cpu);
    }

    /// Notes that a CPU no longer waits.
    pub fn forget(&mut self, cpu: CpuId) {
        self.waiting.retain(|&it| it != cpu);
    }

    /// Returns whether a CPU waits for budget: its queue of the group is throttled.
    #[must_use]
    pub fn waits(&self, cpu: CpuId) -> bool {
        self.waiting.contains(&cpu)
    }

    /// Returns the CPU that waits longest, if there is budget.
    #[must_use]
    pub fn first_waiting(&self) -> Option<CpuId> {
        self.waiting.front().copied().filter(|_| self.runtime > Nanos::ZERO)
    }

    /// For checks: returns the CPU that waits longest while the pool has more than a slice and the
    /// refill is not near. The slack timer ends that wait within [`SLACK_PERIOD`].
    #[must_use]
    pub fn waits_beside_slice(&self, now: Time) -> Option<CpuId> {
        let near = self.refills_within(now, SLACK_PERIOD + MIN_EXPIRATION);
        self.waiting.front().copied().filter(|_| self.runtime > self.slice && !near)
    }

    /// Asserts that no budget was lost or handed out twice, and that CPUs drew `held` of it.
    ///
    /// # Panics
    /// If an assertion fails.
    pub fn check(&self, held: Nanos) {
        assert_eq!(self.held, i128::from(held.0), "CPUs have what they drew: {self:?}");
        let known = self.held + i128::from(self.runtime.0) + self.lapsed;
        assert_eq!(self.granted, known, "no budget was lost: {self:?}");
        let near = self.refills_within(self.seen, SLACK_PERIOD + MIN_EXPIRATION);
        let waits = !self.waiting.is_empty() && self.runtime > self.slice;
        assert!(!waits || self.slack_started || near, "a CPU waits beside a slice: {self:?}");
        assert!(self.waiting.is_empty() || self.active, "a CPU waits for no timer: {self:?}");
        let Usage { nr_periods, nr_throttled, nr_bursts, burst, .. } = self.usage;
        assert!(nr_throttled.max(nr_bursts) <= nr_periods, "periods are counted: {self:?}");
        let most = Nanos(nr_bursts * self.limit.burst().0);
        assert!(burst <= most, "each burst is at most the limit's: {self:?}");
        let most = self.limit.runtime() + self.limit.burst();
        assert!(self.snap <= most, "a refill is at most the quota and the burst: {self:?}");
    }
}

/// Returns how much must be drawn until `target` is left.
fn lacks(remaining: i64, target: Nanos) -> Nanos {
    Nanos(u64::try_from(target.0.cast_signed() - remaining).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SLICE: Nanos = Nanos(5 * MS);
    const CONTROL: Control = Control { slice: SLICE, interleaves: true };

    /// Draws `ms`, or what is there.
    fn draw(pool: &mut CfsBandwidth, at_ms: u64, ms: u64) -> (Nanos, Option<Time>) {
        pool.draw(at(at_ms), 1 - (ms * MS).cast_signed(), Want::Any)
    }

    fn pool(quota_ms: u64, burst_ms: u64) -> CfsBandwidth {
        let (quota, burst) = (Nanos(quota_ms * MS), Nanos(burst_ms * MS));
        let limit = Limit::new(quota, Limit::PERIOD, burst, false).unwrap();
        CfsBandwidth::new(limit, 4, 1, CONTROL, (Time(0), Nanos::ZERO))
    }

    fn at(ms: u64) -> Time {
        Time(ms * MS)
    }

    #[test]
    fn the_first_draw_starts_the_timer_and_a_period_without_draws_stops_it() {
        let mut pool = pool(10, 0);
        assert_eq!(pool.draw(at(1), 0, Want::Slice), (SLICE, Some(at(100))));
        assert_eq!(pool.draw(at(2), 0, Want::Slice), (SLICE, None));
        assert_eq!(pool.draw(at(3), 0, Want::Slice), (Nanos::ZERO, None));
        assert_eq!(pool.end_period(at(100)), Some(at(200)));
        assert_eq!(pool.end_period(at(200)), None);
        assert_eq!(pool.draw(at(350), 0, Want::Slice).1, Some(at(400)));
        assert_eq!(pool.usage().nr_periods, 2);
        pool.check(Nanos(15 * MS));
    }

    #[test]
    fn a_late_timer_refills_once_and_counts_each_period() {
        let mut pool = pool(10, 0);
        let _ = draw(&mut pool, 0, 10);
        pool.wait(CpuId(1));
        assert_eq!(pool.end_period(at(350)), Some(at(400)));
        let usage = pool.usage();
        assert_eq!((usage.nr_periods, usage.nr_throttled), (3, 3));
        assert_eq!(pool.hand_out(1 - (20 * MS).cast_signed()), Nanos(10 * MS));
    }

    #[test]
    fn what_comes_back_late_in_a_period_waits_for_the_refill() {
        let mut pool = pool(10, 0);
        let _ = draw(&mut pool, 0, 10);
        pool.wait(CpuId(1));
        assert_eq!(pool.give_back(at(50), Nanos(5 * MS)), None, "no more than a slice");
        assert_eq!(pool.give_back(at(94), Nanos(MS)), None, "the refill is near");
        assert_eq!(pool.give_back(at(93), Nanos(MS)), Some(at(98)));
        assert_eq!(pool.give_back(at(93), Nanos(MS)), None, "the timer runs");
        assert_eq!(pool.end_slack(at(98)), Some(CpuId(1)));
        assert_eq!(pool.end_slack(at(99)), None, "the refill is too near");
    }

    #[test]
    fn periods_that_do_not_interleave_begin_at_multiples_of_their_length() {
        let limit = Limit::new(Nanos(10 * MS), Limit::PERIOD, Nanos::ZERO, false).unwrap();
        let control = Control { interleaves: false, ..CONTROL };
        let mut pool = CfsBandwidth::new(limit, 4, 1, control, (at(7), Nanos(30 * MS)));
        assert_eq!(draw(&mut pool, 7, 1).1, Some(at(100)));
    }

    #[test]
    fn a_changed_limit_keeps_its_period_and_its_rest_up_to_the_burst() {
        let mut old = pool(10, 0);
        assert_eq!(draw(&mut old, 30, 4).1, Some(at(100)));
        let limit = Limit::new(Nanos(20 * MS), Nanos(50 * MS), Nanos(2 * MS), false).unwrap();
        let new = CfsBandwidth::new(limit, 4, 2, CONTROL, (at(31), Nanos(5 * MS)));
        let mut new = new.after(&old);
        assert_eq!(draw(&mut new, 40, 100), (Nanos(22 * MS), Some(at(100))));
        assert_eq!(new.end_period(at(100)), Some(at(150)));
        new.check(Nanos(22 * MS));
    }

    /// Seen failing: a new group had only its quota.
    #[test]
    fn a_new_group_has_its_burst() {
        let mut pool = pool(10, 4);
        assert_eq!(draw(&mut pool, 0, 20).0, Nanos(14 * MS));
        let _ = pool.end_period(at(100));
        assert_eq!((pool.usage().nr_bursts, pool.usage().burst), (1, Nanos(4 * MS)));
    }

    #[test]
    fn of_an_unused_quota_the_burst_is_left() {
        let mut pool = pool(10, 4);
        let _ = draw(&mut pool, 0, 2);
        let _ = pool.end_period(at(100));
        assert_eq!(draw(&mut pool, 101, 20).0, Nanos(14 * MS));
        let _ = pool.end_period(at(200));
        let usage = pool.usage();
        assert_eq!((usage.nr_bursts, usage.burst), (1, Nanos(4 * MS)));
    }
}
