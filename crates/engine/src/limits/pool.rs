//! The budget of a task group, from which CPUs draw.
//!
//! A CPU draws a *grant* when it begins to run the group, and another one when that is used up. It
//! gives the rest back when it stops running the group. So the budget outside the pool is with CPUs that
//! run the group at this moment. None of it is stranded on other CPUs, and the first CPU that draws
//! gets it, however many CPUs there are. A grant is a part of the rest; it is smaller if more CPUs
//! run the group, so that a later CPU finds some. It ends with the period at the latest.
//!
//! A CPU that was stopped too late used more than it drew. That *debt* is taken from the rest or
//! from the next refill.
//!
//! Refilling is lazy: each caller of the pool brings the time. No call is needed at the end of a
//! period, and a CPU whose tasks wait for it has a timer of its own.
//!
//! Rejected: a slice that a CPU keeps until it is used, as in the kernel, which strands a part of
//! the budget on each CPU; and a budget for each CPU, with passes that borrow from the others, as
//! in the founding document (`docs/design/hard-limits.md` has the figures of both).
//!
//! Invariants: the budget granted in the pool's life equals the sum of the used, the held, the
//! remaining and the lapsed budget ([`Pool::check`]). In any `k` consecutive periods at most `k`
//! quotas, the burst and debts are drawn.

use crate::cpu::CpuId;
use crate::limits::limit::{Limit, Usage};
use crate::store::bits::Bits;
use crate::time::{Nanos, Time};

/// The highest grant: the budget that one CPU may hold while another waits
/// (`sched_cfs_bandwidth_slice`).
const MAX_GRANT: i64 = 5_000_000;

/// The lowest grant, and the lowest rest of which a throttled CPU is notified. A timer interrupt
/// and two switches on real CPUs take a tenth of it.
const MIN_GRANT: Nanos = Nanos::from_micros(100);

/// The budget that a CPU has drawn from a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The amount drawn; zero if there was none left.
    drawn: i64,
    /// The unused part of it; negative if the CPU used more.
    left: i64,
    /// The end of the period that it belongs to.
    pub(crate) until: Time,
    /// The own part of each CPU in the runtime of a period.
    pub(crate) part: Nanos,
    /// The time until which the group counts as exhausted: the end of the period after the last in
    /// which it was throttled.
    pub(crate) exhausted_until: Time,
    /// The epoch of its pool; a group may get another pool.
    epoch: u32,
}

impl Grant {
    /// Notes that the CPU used so much of it, or beyond it.
    pub fn charge(&mut self, span: Nanos) {
        self.left -= span.0.cast_signed();
    }

    /// Returns the part that may still be used at `now`.
    pub(crate) fn usable(&self, now: Time) -> Nanos {
        let left = if now < self.until { self.left.max(0) } else { 0 };
        Nanos(left.cast_unsigned())
    }

    /// The grant of a group whose limit is being removed: it never ends.
    pub const UNLIMITED: Grant = Grant {
        drawn: 0,
        left: i64::MAX / 2,
        until: Time::MAX,
        part: Nanos::MAX,
        exhausted_until: Time::ZERO,
        epoch: 0,
    };

    /// Returns the amount drawn.
    #[must_use]
    pub fn drawn(&self) -> Nanos {
        Nanos(self.drawn.cast_unsigned())
    }
}

/// The part of a limit that belongs to the CPUs that share a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The budget in a period.
    pub quota: Nanos,
    /// The most that is carried over.
    pub burst: Nanos,
    /// The own part of one CPU in the quota.
    pub of_cpu: Nanos,
}

/// The budget of a task group.
#[derive(Debug)]
pub struct Pool {
    limit: Limit,
    part: Part,
    epoch: u32,
    period_end: Time,
    /// The budget that may be drawn; negative if debts exceed it.
    left: i64,
    /// The budget that was drawn in this period and not given back, debts included.
    drawn: i64,
    /// The number of CPUs that hold a grant.
    holders: u32,
    /// The CPUs that wait for budget: a bit for each, from the first that shares the pool.
    throttled: Bits,
    first: CpuId,
    /// Whether in this period a CPU drew or tried to, and whether one was throttled.
    active: bool,
    was_throttled: bool,
    /// See [`Grant::exhausted_until`].
    exhausted_until: Time,
    usage: Usage,
    /// The budget that CPUs hold now.
    held: i64,
    /// Totals over the pool's life: budget granted, used, and not used in time.
    granted: i128,
    used: i128,
    lapsed: i128,
}

impl Pool {
    /// Returns a full pool for a number of CPUs, from `first` on. Its first period begins now and
    /// is longer by `stagger`, so that not all groups are refilled at one moment.
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

    /// Returns the limit that it was made for.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Gives the CPUs that share the pool another part of the limit, from the next period on.
    pub fn set_part(&mut self, now: Time, part: Part) {
        self.refill(now);
        self.part = part;
    }

    /// Returns the CPU time used in its life, as far as CPUs have given their grants back.
    #[must_use]
    pub fn used(&self) -> Nanos {
        Nanos(u64::try_from(self.used).expect("the used budget is not negative"))
    }

    /// Returns the effects of the limit on the group until `now`, as far as the pool knows them.
    pub fn usage(&mut self, now: Time) -> Usage {
        self.refill(now);
        self.so_far()
    }

    /// Draws a grant for a CPU that runs the group, or would. It is empty if no budget is left.
    /// Then, if it `waits`, the CPU is noted as throttled.
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
        // One part is for this CPU, and one for the next that draws.
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

    /// Takes back the unused part of a grant, or notes use beyond it. Returns a CPU that waits for
    /// it.
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

    /// Charges CPU time that the group used without a grant. It is a debt if less than that is
    /// left.
    pub fn charge(&mut self, now: Time, span: Nanos) {
        self.refill(now);
        self.active = true;
        let used = span.0.cast_signed();
        self.left -= used;
        self.drawn += used;
        self.used += i128::from(used);
    }

    /// Reduces a debt that exceeds one quota to that: the budget of the next period is still lost.
    pub fn forgive(&mut self, now: Time) {
        self.refill(now);
        let excess = -self.part.quota.0.cast_signed() - self.left;
        if excess > 0 {
            self.left += excess;
            self.granted += i128::from(excess);
        }
    }

    /// Notes that the CPU no longer waits for budget.
    pub fn forget(&mut self, cpu: CpuId) {
        self.note_throttled(cpu, false);
    }

    /// Returns when to ask again whether there is budget to draw; `None` if there is now. A debt of
    /// more than a quota takes longer; how much longer depends on the CPUs that draw until then.
    pub fn next_refill(&mut self, now: Time) -> Option<Time> {
        self.refill(now);
        (self.left <= 0).then_some(self.period_end)
    }

    /// Returns a CPU that waits although there is budget at `now`, enough also for as many others
    /// as have a claim. The caller that came to the pool last does not matter.
    #[must_use]
    pub fn waits_in_vain(&self, now: Time, claims: u32) -> Option<CpuId> {
        let left = self.left.saturating_add(self.due(now).1);
        let enough = left >= MIN_GRANT.0.cast_signed() * (i64::from(claims) + 1);
        if enough { self.first_throttled() } else { None }
    }

    /// Returns a CPU that waits for budget, if there is enough to be worth a notice, after `told`
    /// CPUs that were notified and have not drawn yet.
    pub fn who_waits(&mut self, now: Time, told: u32) -> Option<CpuId> {
        self.refill(now);
        let enough = self.left >= MIN_GRANT.0.cast_signed() * (i64::from(told) + 1);
        if enough { self.first_throttled() } else { None }
    }

    /// Returns the first of the CPUs that wait for budget.
    fn first_throttled(&self) -> Option<CpuId> {
        self.throttled.first().map(|nth| CpuId::at(self.first.index() + nth))
    }

    /// Asserts that no budget was lost or made, and that CPUs hold `held`.
    ///
    /// # Panics
    /// If an assertion fails.
    pub fn check(&self, held: Nanos) {
        assert_eq!(
            self.held,
            held.0.cast_signed(),
            "CPUs hold the budget that they drew: {self:?}"
        );
        let known = self.used + i128::from(self.held) + i128::from(self.left) + self.lapsed;
        assert_eq!(self.granted, known, "no budget was lost: {self:?}");
    }

    /// Returns the usage, including the current period.
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

    /// Returns the number of periods that have ended without being accounted for, and the budget
    /// granted at their ends.
    fn due(&self, now: Time) -> (u64, i64) {
        if now < self.period_end {
            return (0, 0);
        }
        let periods = now.since(self.period_end).0 / self.limit.period().0 + 1;
        (periods, self.part.quota.0.cast_signed().saturating_mul(periods.cast_signed()))
    }

    /// Accounts for the periods that are over.
    fn refill(&mut self, now: Time) {
        let (periods, granted) = self.due(now);
        if periods == 0 {
            return;
        }
        self.period_end = self.period_end + Nanos(periods * self.limit.period().0);
        let mut usage = self.so_far();
        // A CPU that still waits has waited all the time.
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

    /// Uses all the budget at `now`; returns how much it was.
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
    fn of_a_debt_that_is_forgiven_one_quota_is_left() {
        let mut pool = pool(10, 0);
        pool.charge(Time(MS), Nanos(14 * MS));
        pool.forgive(Time(2 * MS));
        assert_eq!(drain(&mut pool, 100 * MS), 6 * MS, "a debt below a quota stays");
        pool.charge(Time(150 * MS), Nanos(500 * MS));
        pool.forgive(Time(160 * MS));
        assert_eq!(drain(&mut pool, 200 * MS), 0, "one quota is owed");
        assert_eq!(drain(&mut pool, 300 * MS), 10 * MS);
        assert_eq!(pool.used(), Nanos(530 * MS), "the use itself is not forgotten");
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
        assert_eq!(until(&mut pool, 20, false), 0, "no CPU was throttled");
        assert_eq!(until(&mut pool, 30, true), 200);
        assert_eq!(until(&mut pool, 199, true), 200, "no CPU was throttled in this period");
        drain(&mut pool, 250 * MS);
        assert_eq!(until(&mut pool, 250, true), 400);
        // A debt of three quotas: a CPU that waits for it does so through the next periods, too.
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
