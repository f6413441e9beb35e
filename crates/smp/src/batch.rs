//! Batches: the first tasks of a CPU's queue are with its host, which polls them without a decision for each
//! ([`runyard_engine::run_queue`], docs/design/dispatch.md).
//!
//! A task of a batch is [`Home::Away`]. What is asked of it waits until it is in a run queue again: its host sees to it
//! that this is soon.

use crate::control::{Home, take};
use crate::host::{Controlled, Effects, Moving, TaskOf, mark_away, tag};
use crate::machine::{Machine, Queue};
use runyard_engine::attr::Weight;
use runyard_engine::balance::Seen;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Begun, Bounds, Enqueue, Prev, Terms};
use runyard_engine::task::Task;
use runyard_engine::time::{Nanos, Time, VTime};

/// Which tasks a host wants to be lent.
#[expect(missing_debug_implementations, reason = "it is a call's arguments")]
pub struct Loan<'a, W> {
    /// How many at the most.
    pub most: usize,
    /// Whether it can poll a task that waits.
    pub fits: fn(&Task<W>) -> bool,
    /// Is given them in the order in which they are to be polled, under the run queue's lock.
    pub take: &'a mut dyn FnMut(TaskOf<W>),
}

impl<W: Controlled> Loan<'_, W> {
    /// How many there were.
    fn lend(self, rq: &mut Queue<W>, terms: &Terms) -> u32 {
        let mut lent = 0;
        rq.lend(terms, self.most, self.fits, |task| {
            mark_away(&task);
            lent += 1;
            (self.take)(task);
        });
        lent
    }
}

impl<W: Controlled> Machine<W> {
    /// In place of [`Machine::schedule`], at the end of a poll: the task that ran leaves its place to `stand_in`, and
    /// some of those that wait go to the host. Refused where no batch may
    /// begin, and where nobody could go on without a decision.
    ///
    /// # Panics
    /// If nobody runs on `cpu`.
    pub fn begin_batch(
        &self,
        (now, cpu): (Time, CpuId),
        (prev, stand_in): (Prev<W>, TaskOf<W>),
        loan: Loan<'_, W>,
        fx: &mut impl Effects<W>,
    ) -> Begun<W> {
        let (begun, delta) = self.with(cpu, fx, |rq| {
            let yields = matches!(prev, Prev::Yielded(_));
            if !rq.could_go_on(now, yields, loan.fits) {
                return Begun::Refused(prev, stand_in);
            }
            let begun = rq.begin_batch(now, prev, stand_in);
            if let Begun::Open(task, terms) = &begun {
                if let Some(tag) = tag(task) {
                    tag.set_home(Home::Away);
                }
                let (lent, yielder) = (loan.lend(rq, terms), u32::from(yields));
                rq.set_company(now, (lent + yielder).saturating_sub(1));
            }
            begun
        });
        self.react(now, cpu, delta, fx);
        begun
    }

    /// Lends more tasks to a batch of which nobody waits with the host any more.
    pub fn lend(
        &self,
        (now, cpu): (Time, CpuId),
        terms: &Terms,
        loan: Loan<'_, W>,
        fx: &mut impl Effects<W>,
    ) {
        let ((), delta) = self.with(cpu, fx, |rq| {
            rq.set_company(now, 0);
            let lent = loan.lend(rq, terms);
            rq.set_company(now, lent.saturating_sub(1));
        });
        self.react(now, cpu, delta, fx);
    }

    /// Ends the batch of `cpu`: `task`, to which `cell` belongs and of which the host keeps the payload, runs in the
    /// place of the stand-in, which is given back. The first of the others, which are to be given back, stands at `first`.
    pub fn end_batch(
        &self,
        (now, cpu): (Time, CpuId),
        (task, cell): (TaskOf<W>, &(impl Controlled + ?Sized)),
        first: Option<VTime>,
        fx: &mut impl Effects<W>,
    ) -> TaskOf<W> {
        let id = task.id;
        let (stand_in, delta) = self.with(cpu, fx, |rq| {
            let (stand_in, _, at) = rq.end_batch(now, task, first);
            cell.tag().enter(id, Home::At(cpu, at));
            if cell.tag().was_asked_meanwhile()
                && let Some(change) = take(cell)
            {
                // It runs, so it is evicted when the next is decided for.
                let _ = rq.change(now, at, change);
            }
            stand_in
        });
        self.react(now, cpu, delta, fx);
        stand_in
    }

    /// A task that is with the host, of a batch of `from`, enters the queue of `to`.
    pub fn give_back(
        &self,
        now: Time,
        task: TaskOf<W>,
        (from, to): (CpuId, CpuId),
        fx: &mut impl Effects<W>,
    ) {
        self.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
    }

    /// Up to where the tasks of the batch of `cpu` go before all others, as far as it is known here.
    #[must_use]
    pub fn batch_bounds(&self, cpu: CpuId) -> Bounds {
        Bounds { vruntime: self.hints.bound(cpu), until: None }
    }

    /// A new task that asks for nothing at all is to wait at `cpu` with the host: gives it a place there, `most` beyond the
    /// clock if its [debit](Machine::debit) is not less, and says which; `None` if it is to be spawned.
    pub fn place_newcomer(&self, cpu: CpuId, task: &mut TaskOf<W>, most: Nanos) -> Option<VTime> {
        let start = self.starts.get(cpu.index())?;
        let place = start.place(task, self.hints.clock(cpu), self.debit(cpu).min(most));
        if place.is_some() {
            task.set_cpu(cpu);
        }
        place
    }

    /// Charges the task that runs on `cpu` until `now`: the clock that is published there is as of then.
    pub fn update_curr(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let ((), delta) = self.with(cpu, fx, |rq| rq.update_curr(now));
        self.react(now, cpu, delta, fx);
    }

    /// A newcomer that has its place at another CPU comes to `cpu`: its place there.
    ///
    /// # Panics
    /// If newcomers are not placed here.
    pub fn move_newcomer(&self, cpu: CpuId, task: &mut TaskOf<W>) -> VTime {
        let place = self.starts[cpu.index()].move_here(task, self.hints.clock(cpu));
        task.set_cpu(cpu);
        place
    }

    /// How long a newcomer of `cpu` waits for those that are there: as long as each of them may run in its turn, as
    /// `sched_slice` has it. Nobody waits for SCHED_IDLE tasks.
    #[must_use]
    pub fn debit(&self, cpu: CpuId) -> Nanos {
        let Seen { nr_fair, nr_idle, .. } = self.hints.counts(cpu);
        if nr_fair == nr_idle {
            return Nanos::ZERO;
        }
        let (config, own) = (&self.config, u64::from(Weight::NICE_0.get()));
        let period = config.latency.0.max((u64::from(nr_fair) + 1) * config.min_granularity.0);
        let slice = period * own / (self.hints.load(cpu) + own);
        Nanos(slice.max(config.min_granularity.0))
    }

    /// Whether a new task is the machine's to place, for one that a host would have wait at `cpu`: real-time tasks are
    /// there, or some CPU has only SCHED_IDLE ones, which give way.
    #[must_use]
    pub fn has_others_than_fair(&self, cpu: CpuId) -> bool {
        !self.hints.sched_idle.is_empty() || self.hints.counts(cpu).nr_rt > 0
    }

    /// Whether `cpu` has nothing to do, as far as it is known here.
    #[must_use]
    pub fn is_idle(&self, cpu: CpuId) -> bool {
        self.hints.idle.contains(cpu)
    }

    /// Some CPU that has nothing to do, other than `cpu`: the next one.
    #[inline]
    #[must_use]
    pub fn idle_cpu_beside(&self, cpu: CpuId) -> Option<CpuId> {
        self.hints.idle.next_beside(cpu)
    }
}
