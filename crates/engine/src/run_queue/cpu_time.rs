//! The CPU time that was used on one CPU: up to when it is charged, and by which tasks and groups.
//!
//! The charge of the running task is in `charge.rs`, and who asks for the sums is in `usage.rs`.

use crate::account::{Account, Counted};
use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::ensure::ensure;
use crate::run_queue::meter::{Meter, Metered};
use crate::run_queue::used::Used;
use crate::time::{Nanos, Time};
use std::fmt::Display;
use std::sync::Arc;

/// The CPU time of one CPU.
#[derive(Debug)]
pub struct CpuTime {
    /// The time up to which the running task, or the task that ran last, was charged.
    charged: Time,
    metered: Metered,
    used: Used,
    /// CPU time that ended tasks used in their lives, for tasks that ended on this CPU.
    ended: Nanos,
    /// The other counters of this CPU, if counters are on.
    counted: Option<Box<Counted>>,
}

impl CpuTime {
    /// Returns that of a CPU on which nothing ran; with the other counters, if it `counts`.
    pub(super) fn new(counts: bool) -> CpuTime {
        CpuTime {
            charged: Time::ZERO,
            metered: Metered::default(),
            used: Used::new(),
            ended: Nanos::ZERO,
            counted: counts.then(Box::default),
        }
    }

    /// Makes room for this many groups. Allocates.
    pub(super) fn grow(&mut self, groups: usize) {
        self.used.grow(groups);
    }

    pub(super) fn charge_by(&mut self, meter: Arc<dyn Meter>) {
        self.metered.set(meter);
    }

    /// Charges until `now`. Returns for how long the running task had the CPU since the last
    /// charge; `None` if no time passed.
    #[inline]
    pub(super) fn charge(&mut self, cpu: CpuId, now: Time) -> Option<Nanos> {
        let passed = now.since(self.charged);
        self.charged = now;
        (passed > Nanos::ZERO).then(|| self.metered.had_of(passed, cpu, now))
    }

    /// Returns the time up to which the running task was charged.
    #[inline]
    pub(super) fn charged(&self) -> Time {
        self.charged
    }

    /// Estimates the charge from then until `now`.
    pub(super) fn estimate(&self, now: Time) -> Nanos {
        self.metered.estimate(now.since(self.charged))
    }

    /// Notes that nobody is charged for the time until `now`, because the CPU was idle, or because
    /// another task begins.
    #[inline]
    pub(super) fn skip_to(&mut self, now: Time) {
        self.charged = now;
    }

    /// Notes that the CPU was idle for this span.
    #[inline]
    pub(super) fn was_idle(&mut self, span: Nanos) {
        self.metered.was_idle(span);
    }

    /// Notes that the CPU was forced idle until `now`: no task is charged for that.
    pub(super) fn was_forced_idle(&mut self, now: Time) {
        self.metered.was_idle(now.since(self.charged));
        self.charged = now;
    }

    /// Returns the total that was charged on this CPU.
    #[inline]
    fn in_all(&self) -> Nanos {
        self.metered.charged(self.charged)
    }

    /// Adds the CPU time that was charged until now to its group; the following time belongs to
    /// `next`.
    #[inline]
    pub(super) fn belongs_to(&mut self, next: GroupId) {
        if next != self.used.group() {
            self.settle(next);
        }
    }

    #[inline(never)]
    fn settle(&mut self, next: GroupId) {
        let charged = self.in_all();
        self.used.settle(charged, next);
    }

    /// Adds the CPU time that was charged until now to its group.
    pub(super) fn update(&mut self) {
        self.settle(self.used.group());
    }

    /// Adds CPU time that tasks of a group used after they had lost the CPU.
    pub(super) fn add_unpicked(&mut self, group: GroupId, span: Nanos) {
        self.used.add_unpicked(group, span);
    }

    /// Hands the usage of a removed group to another one.
    pub(super) fn pass_on(&mut self, group: GroupId, to: GroupId) {
        self.update();
        self.used.pass_on(group, to);
    }

    /// Returns the groups whose tasks used CPU time here, and the CPU time of each, as of the last
    /// [`RunQueue::charge_until`](crate::run_queue::RunQueue::charge_until). The CPU time of the
    /// groups below is not included.
    pub fn by_group(&self) -> impl Iterator<Item = (GroupId, Nanos)> {
        self.used.all()
    }

    /// Returns the counters of this CPU, as of the last charge.
    #[must_use]
    pub fn account(&self) -> Account {
        let counted = self.counted.as_deref().map(|counted| counted.here);
        Account { run: self.in_all(), ..counted.unwrap_or_default() }
    }

    /// Returns the sum over the whole lives of the tasks that ended on this CPU.
    #[must_use]
    pub fn ended(&self) -> Account {
        let counted = self.counted.as_deref().map(|counted| counted.ended);
        Account { run: self.ended, ..counted.unwrap_or_default() }
    }

    /// Notes that a task ended that had used this much in its life.
    #[inline]
    pub(super) fn note_end(&mut self, runtime: Nanos) {
        self.ended += runtime;
    }

    /// Returns whether there are counters beside that of CPU time.
    #[inline]
    pub(super) fn counts(&self) -> bool {
        self.counted.is_some()
    }

    /// Returns the counters beside that of CPU time, which must be on.
    pub(super) fn counted_mut(&mut self) -> &mut Counted {
        self.counted.as_mut().expect("counters are on")
    }

    /// Asserts that the sums agree, for a CPU that is idle since `idle_since` or runs a task of
    /// `group`.
    ///
    /// # Panics
    /// If they do not, with `picture`.
    pub(super) fn check(
        &self,
        idle_since: Option<Time>,
        group: Option<GroupId>,
        picture: &dyn Display,
    ) {
        let (charged, mine) = (self.charged, self.used.group());
        let idle = idle_since.is_none_or(|since| since == charged);
        ensure!(picture, idle, "the CPU is idle since {idle_since:?}, and charged until {charged}");
        let all = self.by_group().fold(Nanos::ZERO, |sum, (_, used)| sum + used);
        let known = self.used.in_all();
        ensure!(picture, all == known, "groups used {all:?} of {known:?}");
        let has_time = group.is_none_or(|group| group == mine);
        ensure!(picture, has_time, "the CPU time is that of {mine:?}, not of {group:?}");
    }
}
