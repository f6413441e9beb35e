//! The budget of a task group, from which CPUs draw.
//!
//! A CPU draws a *grant* when it begins to run the group, another when that is used up, and gives back
//! what is left of it when it runs something else. So what is not in the pool is with CPUs that run
//! the group at this moment; none of it lies where nobody uses it, and whoever comes first gets it, on
//! however many CPUs. A grant is a part of what is left, the smaller the more CPUs run the group, so
//! that one that comes later finds some, and ends with the period at the latest.
//!
//! A CPU that was stopped too late used more than it drew. That *debt* is taken from what is left or
//! comes next.
//!
//! Refilling is lazy: whoever comes to the pool brings the time. Nobody has to come at the end of a
//! period, and a CPU whose tasks wait for it has a timer of its own.
//!
//! Rejected: a slice that a CPU keeps until it is used, as the kernel's, which strands a part of the
//! budget on each CPU; a budget for each CPU with passes that borrow from the others, as the founding
//! document's (`docs/design/hard-limits.md` has the figures of both).
//!
//! Invariants: what was granted in the pool's life is what was used, what CPUs hold, what is left, and
//! what lapsed ([`Pool::check`]); in any `k` periods on end no more is drawn than `k` quotas, the burst
//! and debts.

use crate::cpu::CpuId;
use crate::limits::limit::{Limit, Usage};
use crate::store::bits::Bits;
use crate::time::{Nanos, Time};

/// What a CPU draws at a time, at the most: what one CPU may have in hand while another waits
/// (`sched_cfs_bandwidth_slice`).
const MAX_GRANT: i64 = 5_000_000;

/// What it draws at the least, and what a throttled CPU is told about: a timer interrupt and two
/// switches on real CPUs are a tenth of it.
const MIN_GRANT: Nanos = Nanos::from_micros(100);

/// What a CPU has of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// What it drew; nothing if there was none left.
    drawn: i64,
    /// What it did not use of that; negative if it used more.
    left: i64,
    /// The end of the period for which it is.
    pub(crate) until: Time,
    /// Each CPU's own part of the runtime of a period.
    pub(crate) part: Nanos,
    /// The group counts as exhausted until then: the end of the period after the last in which it was
    /// throttled.
    pub(crate) exhausted_until: Time,
    /// Of which pool of the group it is.
    epoch: u32,
}

impl Grant {
    pub(crate) fn charge(&mut self, span: Nanos) {
        self.left -= span.0.cast_signed();
    }

    /// What may still be used of it at `now`.
    pub(crate) fn usable(&self, now: Time) -> Nanos {
        let left = if now < self.until { self.left.max(0) } else { 0 };
        Nanos(left.cast_unsigned())
    }

    /// Of a group whose limit is being taken away: all that is asked for.
    pub const UNLIMITED: Grant = Grant {
        drawn: 0,
        left: i64::MAX / 2,
        until: Time::MAX,
        part: Nanos::MAX,
        exhausted_until: Time::ZERO,
        epoch: 0,
    };

    /// What was drawn.
    #[must_use]
    pub fn drawn(&self) -> Nanos {
        Nanos(self.drawn.cast_unsigned())
    }
}

/// What the CPUs that share a pool may use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// In a period.
    pub quota: Nanos,
    /// What is carried over at the most.
    pub burst: Nanos,
    /// One CPU's own part of the quota.
    pub of_cpu: Nanos,
}

/// The budget of a task group.
#[derive(Debug)]
pub struct Pool {
    limit: Limit,
    part: Part,
    epoch: u32,
    period_end: Time,
    /// What may be drawn; negative if debts are more than that.
    left: i64,
    /// What is drawn in this period and was not given back, debts included.
    drawn: i64,
    /// CPUs that hold something.
    holders: u32,
    /// Which CPUs wait for budget, a bit for each from the first that shares the pool.
    throttled: Bits,
    first: CpuId,
    /// In this period somebody drew or wanted to; was throttled.
    active: bool,
    was_throttled: bool,
    /// See [`Grant::exhausted_until`].
    exhausted_until: Time,
    usage: Usage,
    /// What CPUs hold now.
    held: i64,
    /// Over the pool's life: what was put in, what was used, and what was not used in time.
    granted: i128,
    used: i128,
    lapsed: i128,
}

impl Pool {
    /// A full pool for so many CPUs from one on. Its first period begins now and lasts longer by
    /// `stagger`, so that not all groups are refilled in one moment.
    #[must_use]
    pub fn new(
        limit: Limit,
        part: Part,
        (first, cpus): (CpuId, usize),
        epoch: u32,
        begin: (Time, Nanos),
    ) -> Pool {
        let (now, stagger) = begin;
        let full = part.quota.0.cast_signed();
        Pool {
            limit,
            part,
            epoch,
            period_end: now + limit.period() + stagger,
            left: full,
            drawn: 0,
            holders: 0,
            throttled: Bits::new(cpus),
            first,
            active: false,
            was_throttled: false,
            exhausted_until: Time::ZERO,
            usage: Usage::default(),
            granted: full.into(),
            used: 0,
            held: 0,
            lapsed: 0,
        }
    }

    /// What it was made for.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Gives the CPUs that share the pool another part of the limit, from the next period on.
    pub fn set_part(&mut self, now: Time, part: Part) {
        self.refill(now);
        self.part = part;
    }

    /// What was used in its life, as far as CPUs gave their grants back.
    #[must_use]
    pub fn used(&self) -> Nanos {
        Nanos(u64::try_from(self.used).expect("what is used is not negative"))
    }

    /// What the limit did to the group until `now`, as far as the pool knows.
    pub fn usage(&mut self, now: Time) -> Usage {
        self.refill(now);
        self.so_far()
    }

    /// A grant for a CPU that runs the group, or would. It is empty if nothing is left; then, if it
    /// `waits`, the CPU is noted as throttled.
    pub fn draw(&mut self, now: Time, cpu: CpuId, waits: bool) -> Grant {
        self.refill(now);
        self.active = true;
        let until = self.period_end;
        if self.left <= 0 {
            self.note_throttled(cpu, waits);
            self.was_throttled |= waits;
            self.note_exhausted();
        }
        let mut grant = Grant {
            drawn: 0,
            left: 0,
            until,
            part: self.part.of_cpu,
            exhausted_until: self.exhausted_until,
            epoch: self.epoch,
        };
        if self.left <= 0 {
            return grant;
        }
        let (least, rest) = (MIN_GRANT.0.cast_signed(), until.since(now).0.cast_signed());
        // One part is for the CPU, and one for the next that comes.
        let fair = self.left / (i64::from(self.holders) + 2);
        grant.drawn = fair.clamp(least, MAX_GRANT).min(self.left).min(rest);
        grant.left = grant.drawn;
        self.left -= grant.drawn;
        self.held += grant.drawn;
        self.drawn += grant.drawn;
        self.holders += 1;
        self.note_throttled(cpu, false);
        grant
    }

    /// Takes back what a CPU did not use, or notes what it used beyond its grant. Tells which CPU waits
    /// for it.
    pub fn give_back(&mut self, now: Time, grant: Grant) -> Option<CpuId> {
        self.refill(now);
        if grant.epoch != self.epoch {
            return None;
        }
        self.holders -= u32::from(grant.drawn > 0);
        self.held -= grant.drawn;
        self.used += i128::from(grant.drawn - grant.left);
        if grant.left < 0 || grant.until == self.period_end {
            self.left += grant.left;
            self.drawn -= grant.left;
        } else {
            self.lapsed += i128::from(grant.left);
        }
        self.who_waits(now, 0)
    }

    /// Takes what the group used without a grant: a debt, if there is not so much left.
    pub fn charge(&mut self, now: Time, span: Nanos) {
        self.refill(now);
        self.active = true;
        let used = span.0.cast_signed();
        self.left -= used;
        self.drawn += used;
        self.used += i128::from(used);
    }

    /// The CPU does not wait for budget any more.
    pub fn forget(&mut self, cpu: CpuId) {
        self.note_throttled(cpu, false);
    }

    /// When to ask again whether there is something to draw; `None` if there is now. Debts of more than
    /// a quota take longer, by how much depends on what CPUs come and go until then.
    pub fn next_refill(&mut self, now: Time) -> Option<Time> {
        self.refill(now);
        (self.left <= 0).then_some(self.period_end)
    }

    /// A CPU that waits for budget of which there is some at `now`, whoever came to the pool last, also
    /// for as many others as have a claim.
    #[must_use]
    pub fn waits_in_vain(&self, now: Time, claims: u32) -> Option<CpuId> {
        let left = self.left.saturating_add(self.due(now).1);
        let enough = left >= MIN_GRANT.0.cast_signed() * (i64::from(claims) + 1);
        if enough { self.first_throttled() } else { None }
    }

    /// A CPU that waits for budget of which there is so much that it is worth telling it, after so many
    /// that were told and did not draw yet.
    pub fn who_waits(&mut self, now: Time, told: u32) -> Option<CpuId> {
        self.refill(now);
        let enough = self.left >= MIN_GRANT.0.cast_signed() * (i64::from(told) + 1);
        if enough { self.first_throttled() } else { None }
    }

    /// The first of the CPUs that wait for budget.
    fn first_throttled(&self) -> Option<CpuId> {
        self.throttled.first().map(|nth| CpuId::at(self.first.index() + nth))
    }

    /// Asserts that nothing was lost or made, and that `held` is what CPUs hold.
    ///
    /// # Panics
    /// If it is not so.
    pub fn check(&self, held: Nanos) {
        assert_eq!(self.held, held.0.cast_signed(), "CPUs hold what they drew: {self:?}");
        let known = self.used + i128::from(self.held) + i128::from(self.left) + self.lapsed;
        assert_eq!(self.granted, known, "what was granted is somewhere: {self:?}");
    }

    /// The usage with the period that runs.
    fn so_far(&self) -> Usage {
        let mut usage = self.usage;
        usage.nr_periods += u64::from(self.active);
        usage.nr_throttled += u64::from(self.was_throttled);
        let above = self.drawn - self.part.quota.0.cast_signed();
        if above > 0 && self.part.burst > Nanos::ZERO {
            usage.nr_bursts += 1;
            usage.burst += Nanos(above.cast_unsigned());
        }
        usage
    }

    fn note_throttled(&mut self, cpu: CpuId, waits: bool) {
        let nth = cpu.index() - self.first.index();
        self.throttled.set(nth, waits);
    }

    /// How many periods have ended that are not accounted for, and what was granted at their ends.
    fn due(&self, now: Time) -> (u64, i64) {
        if now < self.period_end {
            return (0, 0);
        }
        let periods = now.since(self.period_end).0 / self.limit.period().0 + 1;
        (periods, self.part.quota.0.cast_signed().saturating_mul(periods.cast_signed()))
    }

    /// Ends the periods that are over.
    fn refill(&mut self, now: Time) {
        let (periods, granted) = self.due(now);
        if periods == 0 {
            return;
        }
        self.period_end = self.period_end + Nanos(periods * self.limit.period().0);
        let mut usage = self.so_far();
        // Who still waits did so all the time.
        let waiting = self.first_throttled().is_some();
        let more = if waiting { periods - 1 } else { 0 };
        usage.nr_periods += more;
        usage.nr_throttled += more;
        self.usage = usage;
        let quota = self.part.quota.0.cast_signed();
        let room = quota + self.part.burst.0.cast_signed();
        let full = self.left.saturating_add(granted);
        self.left = full.min(room);
        self.granted += i128::from(granted);
        self.lapsed += i128::from(full - self.left);
        self.drawn = 0;
        self.was_throttled = waiting && self.left <= 0;
        self.active = self.was_throttled;
        if waiting {
            self.exhausted_until = self.period_end;
        }
        self.note_exhausted();
    }

    fn note_exhausted(&mut self) {
        if self.was_throttled {
            self.exhausted_until = self.period_end + self.limit.period();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pool(quota_ms: u64, burst_ms: u64) -> Pool {
        let (quota, burst) = (Nanos(quota_ms * MS), Nanos(burst_ms * MS));
        let limit = Limit::new(quota, Limit::PERIOD, burst, false).unwrap();
        let part = Part { quota, burst, of_cpu: quota };
        Pool::new(limit, part, (CpuId(0), 130), 0, (Time(0), Nanos::ZERO))
    }

    /// Uses all that there is at `now`; tells how much.
    fn drain(pool: &mut Pool, now: u64) -> u64 {
        let mut used = 0;
        loop {
            let mut grant = pool.draw(Time(now), CpuId(0), false);
            if grant.drawn == 0 {
                return used;
            }
            used += grant.drawn().0;
            grant.charge(grant.drawn());
            let _ = pool.give_back(Time(now), grant);
        }
    }

    #[test]
    fn a_period_has_its_quota_and_what_was_carried_over() {
        let mut pool = pool(10, 4);
        assert_eq!(drain(&mut pool, 0), 10 * MS);
        assert_eq!(drain(&mut pool, 99 * MS), 0);
        assert_eq!(drain(&mut pool, 100 * MS), 10 * MS);
        assert_eq!(drain(&mut pool, 500 * MS), 14 * MS, "of three quotas the burst is left");
        let usage = pool.usage(Time(500 * MS));
        assert_eq!((usage.nr_bursts, usage.burst), (1, Nanos(4 * MS)));
        pool.check(Nanos::ZERO);
    }

    #[test]
    fn a_debt_is_repaid_first() {
        let mut pool = pool(10, 0);
        drain(&mut pool, 0);
        let mut grant = pool.draw(Time(0), CpuId(1), false);
        grant.charge(Nanos(25 * MS));
        assert_eq!(pool.give_back(Time(50 * MS), grant), None);
        assert_eq!(pool.next_refill(Time(60 * MS)), Some(Time(100 * MS)));
        assert_eq!(drain(&mut pool, 299 * MS), 0);
        assert_eq!(pool.next_refill(Time(300 * MS)), None);
        assert_eq!(drain(&mut pool, 300 * MS), 5 * MS);
        pool.check(Nanos::ZERO);
    }

    #[test]
    fn a_debt_does_not_lapse_with_its_period() {
        let mut pool = pool(10, 0);
        let mut grant = pool.draw(Time(99 * MS), CpuId(1), false);
        grant.charge(Nanos(4 * MS));
        let _ = pool.give_back(Time(103 * MS), grant);
        assert_eq!(drain(&mut pool, 103 * MS), 7 * MS);
        pool.check(Nanos::ZERO);
    }

    #[test]
    fn what_is_used_without_a_grant_is_taken_from_what_is_left_or_comes_next() {
        let mut pool = pool(10, 0);
        pool.charge(Time(MS), Nanos(4 * MS));
        assert_eq!(drain(&mut pool, 2 * MS), 6 * MS);
        pool.charge(Time(3 * MS), Nanos(15 * MS));
        assert_eq!(drain(&mut pool, 100 * MS), 0);
        assert_eq!(drain(&mut pool, 200 * MS), 5 * MS);
        assert_eq!((pool.used(), pool.usage(Time(200 * MS)).nr_periods), (Nanos(30 * MS), 3));
        pool.check(Nanos::ZERO);
    }

    #[test]
    fn what_is_given_back_goes_to_who_waits() {
        let mut pool = pool(1, 0);
        let mut grants: Vec<_> = (0..)
            .map(|_| pool.draw(Time(0), CpuId(0), false))
            .take_while(|it| it.drawn > 0)
            .collect();
        assert!(pool.draw(Time(0), CpuId(129), true).drawn == 0);
        assert_eq!(pool.give_back(Time(MS / 2), grants.remove(0)), Some(CpuId(129)));
        assert!(pool.draw(Time(MS / 2), CpuId(129), true).drawn > 0);
        assert_eq!(pool.first_throttled(), None);
        let usage = pool.usage(Time(MS));
        assert_eq!((usage.nr_periods, usage.nr_throttled), (1, 1));
    }

    #[test]
    fn a_group_is_exhausted_until_the_end_of_the_period_after() {
        let mut pool = pool(10, 0);
        let until = |pool: &mut Pool, ms, waits| {
            pool.draw(Time(ms * MS), CpuId(0), waits).exhausted_until.0 / MS
        };
        drain(&mut pool, 0);
        assert_eq!(until(&mut pool, 20, false), 0, "nobody was throttled");
        assert_eq!(until(&mut pool, 30, true), 200);
        assert_eq!(until(&mut pool, 199, true), 200, "nor was anybody in this one");
        drain(&mut pool, 250 * MS);
        assert_eq!(until(&mut pool, 250, true), 400);
        // A debt of three quotas: who waits for it does so through the next periods too.
        let mut grant = pool.draw(Time(300 * MS), CpuId(0), false);
        grant.charge(Nanos(40 * MS));
        let _ = pool.give_back(Time(300 * MS), grant);
        assert_eq!(until(&mut pool, 310, true), 500);
        pool.refill(Time(410 * MS));
        assert_eq!(pool.exhausted_until, Time(600 * MS));
    }

    #[test]
    fn what_is_given_back_after_its_period_has_lapsed() {
        let mut pool = pool(10, 0);
        let grant = pool.draw(Time(0), CpuId(0), false);
        assert_eq!(drain(&mut pool, 100 * MS), 10 * MS);
        let _ = pool.give_back(Time(100 * MS), grant);
        pool.check(Nanos::ZERO);
        assert_eq!(drain(&mut pool, 100 * MS), 0);
    }
}
