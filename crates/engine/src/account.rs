//! The counters of tasks and CPUs, for observers of a host. No decision reads them.
//!
//! CPU time, and the time since which a task waits, are always known, because the queue needs
//! nearly all of it anyway. The other counters are kept if
//! [`Config::accounts`](crate::config::Config::accounts) is set, at each switch, in one place.
//!
//! Invariant: if every task keeps an account, the sum over all CPUs equals the sum over all tasks,
//! including those that ended.

use crate::cpu::CpuId;
use crate::fair::averages::Carried;
use crate::time::{Nanos, Time};
use crate::wakees::Wakees;

/// Counters that only grow: for a task since it began; for a CPU over all tasks that ran there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// CPU time that was charged.
    pub run: Nanos,
    /// Time in a run queue without a CPU, of waits that are over. For a CPU: of the waits that
    /// ended there.
    pub wait: Nanos,
    /// The number of times that a task came to a CPU that had run another task before, or none.
    pub switches: u64,
    /// The number of times that a task came to another CPU than the one where it ran last.
    pub migrations: u64,
    /// The number of times that a task lost its CPU involuntarily.
    pub preemptions: Preemptions,
}

/// The numbers of involuntary losses of the CPU, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preemptions {
    /// A more important task came: a real-time task of a better priority, or any other task instead
    /// of one of the SCHED_IDLE class.
    pub important: u64,
    /// Its turn was over, and that of an equally important task began.
    pub turn: u64,
    /// A limit was reached: of a group above it, or the one of all real-time tasks.
    pub limit: u64,
    /// It was moved: it may not stay on this CPU, or another CPU asked for it.
    pub moved: u64,
}

/// The cause of an involuntary loss of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Important,
    Turn,
    Limit,
    Moved,
}

/// Data of one task that do not affect its turn: its counters, and its averages while it is in no
/// queue.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The time of its last wake-up, or of its last arrival on a CPU, if that is counted and was
    /// later.
    since: Time,
    /// Optional data, in a box because most hosts have many tasks that do not need them.
    beside: Option<Box<Beside>>,
}

#[derive(Debug, Default)]
struct Beside {
    /// The counters, if the host has them.
    life: Option<Life>,
    /// The average, with `PELT`.
    average: Option<Carried>,
    /// The wakees, with [`FairRules::wake_wide`](crate::rules::FairRules::wake_wide).
    wakees: Wakees,
}

/// The counters of one task.
#[derive(Debug, Default)]
struct Life {
    /// All counters except the CPU time, which is in the task.
    account: Account,
    /// The CPU where it ran last.
    ran_on: Option<CpuId>,
}

/// The counters of one CPU, except its CPU time.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The sum over all tasks that ran there.
    pub(crate) here: Account,
    /// The sum over the whole lives of the tasks that ended there.
    pub(crate) ended: Account,
}

impl Account {
    /// Adds the counters of another account.
    pub fn add(&mut self, other: &Account) {
        self.run += other.run;
        self.wait += other.wait;
        self.switches += other.switches;
        self.migrations += other.migrations;
        self.preemptions.add(&other.preemptions);
    }
}

impl Preemptions {
    /// Returns the sum over all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.important + self.turn + self.limit + self.moved
    }

    fn add(&mut self, other: &Preemptions) {
        self.important += other.important;
        self.turn += other.turn;
        self.limit += other.limit;
        self.moved += other.moved;
    }

    fn count(&mut self, cause: Cause) {
        *match cause {
            Cause::Important => &mut self.important,
            Cause::Turn => &mut self.turn,
            Cause::Limit => &mut self.limit,
            Cause::Moved => &mut self.moved,
        } += 1;
    }
}

impl Kept {
    /// Starts the counters. Allocates, unless they were kept before.
    pub(crate) fn begin(&mut self) {
        self.beside.get_or_insert_default().life.get_or_insert_default();
    }

    /// Returns its average while it is in no fair queue (`PELT`).
    pub(crate) fn average(&self) -> Option<&Carried> {
        self.beside.as_ref()?.average.as_ref()
    }

    /// Returns the place of that average. Allocates, unless any data were kept before.
    pub(crate) fn average_mut(&mut self) -> &mut Option<Carried> {
        &mut self.beside.get_or_insert_default().average
    }

    /// Returns how often it recently woke another task than the time before.
    pub(crate) fn flips(&self) -> u32 {
        self.beside.as_ref().map_or(0, |it| it.wakees.flips())
    }

    /// Returns its wakees. Allocates, unless any data were kept before.
    pub(crate) fn wakees_mut(&mut self) -> &mut Wakees {
        &mut self.beside.get_or_insert_default().wakees
    }

    /// Returns the data of another task, in the memory of this one.
    pub(crate) fn renewed(&mut self) -> Kept {
        let mut beside = self.beside.take();
        if let Some(beside) = &mut beside {
            let life = beside.life.is_some().then(Life::default);
            **beside = Beside { life, ..Beside::default() };
        }
        Kept { beside, ..Kept::default() }
    }

    /// Returns its counters, with its CPU time `run`.
    pub(crate) fn account(&self, run: Nanos) -> Account {
        let counted = self.beside.as_ref().and_then(|it| Some(it.life.as_ref()?.account));
        Account { run, ..counted.unwrap_or_default() }
    }

    fn life_mut(&mut self) -> Option<&mut Life> {
        self.beside.as_mut()?.life.as_mut()
    }

    /// Returns the time since which the task waits, if it waits and has not run since.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// Notes that it waits from now on.
    #[inline]
    pub(crate) fn wakes(&mut self, now: Time) {
        self.since = now;
    }

    /// Notes that it has a CPU, after a wait of `waited`; `all` is the account of that CPU.
    pub(crate) fn comes(&mut self, (now, waited): (Time, Nanos), cpu: CpuId, all: &mut Account) {
        let mut own = self.life_mut();
        let from = own.as_mut().and_then(|life| life.ran_on.replace(cpu));
        let migrates = u64::from(from.is_some_and(|from| from != cpu));
        for account in own.map(|life| &mut life.account).into_iter().chain([all]) {
            account.wait += waited;
            account.switches += 1;
            account.migrations += migrates;
        }
        // This wait counts once, however short the task runs.
        self.since = now;
    }

    /// Notes that it loses its CPU; `all` is the account of that CPU.
    pub(crate) fn loses(&mut self, cause: Cause, all: &mut Account) {
        if let Some(life) = self.life_mut() {
            life.account.preemptions.count(cause);
        }
        all.preemptions.count(cause);
    }
}
