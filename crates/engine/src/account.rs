//! The work of a task so far, and that of all tasks on a CPU: for observers of a host, never for a decision.
//!
//! CPU time, and since when a task waits, are always known, nearly all of it from what the queue keeps anyway. The
//! rest is counted if [`Config::accounts`](crate::config::Config::accounts) says so, at each switch, in one place.
//!
//! Invariant: over all CPUs of a machine, what the CPUs counted is what the tasks counted that there are, and those
//! that are over; if each of them keeps an account.

use crate::cpu::CpuId;
use crate::fair::averages::Carried;
use crate::time::{Nanos, Time};
use crate::wakees::Wakees;

/// Numbers that only grow. Of a task: since it began. Of a CPU: of whatever ran there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// CPU time that was charged.
    pub run: Nanos,
    /// Time in a run queue without a CPU, as far as the wait is over. On a CPU: of the waits that ended there.
    pub wait: Nanos,
    /// How often a task came to a CPU that had run another before, or none.
    pub switches: u64,
    /// How often one came to another CPU than the one where it ran last.
    pub migrations: u64,
    /// How often one lost its CPU without asking for that.
    pub preemptions: Preemptions,
}

/// Why tasks lost their CPU without asking for that, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preemptions {
    /// A more important one came: a real-time task of a better priority, or any for one of the SCHED_IDLE class.
    pub important: u64,
    /// Its turn was over, and another's began that is as important.
    pub turn: u64,
    /// A limit was reached: of a group above it, or the one of all real-time tasks.
    pub limit: u64,
    /// It was moved: it may not stay on this CPU, or another one asked for it.
    pub moved: u64,
}

/// Why a task loses its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Important,
    Turn,
    Limit,
    Moved,
}

/// Notes about one task on which no turn depends: its account, and its averages while it is in no queue.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// When it woke up last; or came to a CPU, if that is counted and was later.
    since: Time,
    /// Only some hosts keep it: most have many more tasks than they have use for it.
    beside: Option<Box<Beside>>,
}

#[derive(Debug, Default)]
struct Beside {
    /// The counters, if the host has them.
    life: Option<Life>,
    /// With `PELT`.
    average: Option<Carried>,
    /// With [`FairRules::wake_wide`](crate::rules::FairRules::wake_wide).
    wakees: Wakees,
}

/// The work of one task so far.
#[derive(Debug, Default)]
struct Life {
    /// All but the CPU time, which is in the task.
    account: Account,
    /// Where it ran last.
    ran_on: Option<CpuId>,
}

/// The counters of one CPU, beside its CPU time.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// The sum over everything that ran there.
    pub(crate) here: Account,
    /// The sum over the whole lives of the tasks that ended there.
    pub(crate) ended: Account,
}

impl Account {
    /// Adds what another one says.
    pub fn add(&mut self, other: &Account) {
        self.run += other.run;
        self.wait += other.wait;
        self.switches += other.switches;
        self.migrations += other.migrations;
        self.preemptions.add(&other.preemptions);
    }
}

impl Preemptions {
    /// For whatever cause.
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
    /// Counts from now on. Allocates, if it never did.
    pub(crate) fn begin(&mut self) {
        self.beside.get_or_insert_default().life.get_or_insert_default();
    }

    /// Its average while it is in no fair queue (`PELT`).
    pub(crate) fn average(&self) -> Option<&Carried> {
        self.beside.as_ref()?.average.as_ref()
    }

    /// Where that is kept. Allocates, if nothing was kept so far.
    pub(crate) fn average_mut(&mut self) -> &mut Option<Carried> {
        &mut self.beside.get_or_insert_default().average
    }

    /// How often it woke another task than the time before.
    pub(crate) fn flips(&self) -> u32 {
        self.beside.as_ref().map_or(0, |it| it.wakees.flips())
    }

    /// Where its wakees are noted. Allocates, if nothing was kept so far.
    pub(crate) fn wakees_mut(&mut self) -> &mut Wakees {
        &mut self.beside.get_or_insert_default().wakees
    }

    /// As of another task, with the memory of this one.
    pub(crate) fn renewed(&mut self) -> Kept {
        let mut beside = self.beside.take();
        if let Some(beside) = &mut beside {
            let life = beside.life.is_some().then(Life::default);
            **beside = Beside { life, ..Beside::default() };
        }
        Kept { beside, ..Kept::default() }
    }

    /// With its CPU time, which is `run`.
    pub(crate) fn account(&self, run: Nanos) -> Account {
        let counted = self.beside.as_ref().and_then(|it| Some(it.life.as_ref()?.account));
        Account { run, ..counted.unwrap_or_default() }
    }

    fn life_mut(&mut self) -> Option<&mut Life> {
        self.beside.as_mut()?.life.as_mut()
    }

    /// Since when the task waits that waits and has not run since.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// It waits from now on.
    #[inline]
    pub(crate) fn wakes(&mut self, now: Time) {
        self.since = now;
    }

    /// It has a CPU, for which it waited so long, and of which `all` is the account.
    pub(crate) fn comes(&mut self, (now, waited): (Time, Nanos), cpu: CpuId, all: &mut Account) {
        let mut own = self.life_mut();
        let from = own.as_mut().and_then(|life| life.ran_on.replace(cpu));
        let migrates = u64::from(from.is_some_and(|from| from != cpu));
        for account in own.map(|life| &mut life.account).into_iter().chain([all]) {
            account.wait += waited;
            account.switches += 1;
            account.migrations += migrates;
        }
        // So that this wait counts once, however short the task runs.
        self.since = now;
    }

    /// It loses its CPU, of which `all` is the account.
    pub(crate) fn loses(&mut self, cause: Cause, all: &mut Account) {
        if let Some(life) = self.life_mut() {
            life.account.preemptions.count(cause);
        }
        all.preemptions.count(cause);
    }
}
