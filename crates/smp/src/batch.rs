//! Batches: a host borrows the first tasks of a CPU's queue and polls them without one scheduling decision for each
//! ([`runyard_engine::run_queue`], docs/design/dispatch.md).
//!
//! A task of a batch is [`Home::Away`]. A request for it waits until the task is in a run queue again. The host must
//! make sure that this happens soon.

use crate::control::{Home, take};
use crate::cpu::Queue;
use crate::host::{Controlled, Effects, Moving, TaskOf, mark_away, tag};
use crate::machine::Machine;
use crate::sight::Sight;
use runyard_engine::attr::Weight;
use runyard_engine::balance::Seen;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Begun, Enqueue, Prev, Terms};
use runyard_engine::task::Task;
use runyard_engine::time::{Nanos, Time, VTime};

/// The tasks that a host wants to borrow.
#[expect(missing_debug_implementations, reason = "it is a call's arguments")]
pub struct Loan<'a, W> {
    /// The largest number of tasks to lend.
    pub most: usize,
    /// Returns whether the host can poll a waiting task.
    pub fits: fn(&Task<W>) -> bool,
    /// Receives the tasks in the order in which they are to be polled. The run queue's lock is held during the call.
    pub take: &'a mut dyn FnMut(TaskOf<W>),
}

impl<W: Controlled> Loan<'_, W> {
    /// Lends the tasks and returns their number.
    fn lend(self, rq: &mut Queue<W>, terms: &Terms) -> u32 {
        let mut lent = 0;
        rq.classes_mut().lend(terms, self.most, self.fits, |task| {
            mark_away(&task);
            lent += 1;
            (self.take)(task);
        });
        lent
    }
}

impl<W: Controlled> Machine<W> {
    /// Begins a batch, in place of [`Machine::schedule`] at the end of a poll. The task that ran leaves its place to
    /// `stand_in`, and some of the waiting tasks go to the host. The call refuses if no batch may begin, or if no task
    /// could continue without a decision.
    ///
    /// # Panics
    /// If no task runs on `cpu`.
    pub fn begin_batch(
        &self,
        (now, cpu): (Time, CpuId),
        (prev, stand_in): (Prev<W>, TaskOf<W>),
        loan: Loan<'_, W>,
        fx: &mut impl Effects<W>,
    ) -> Begun<W> {
        let (begun, delta) = self.cpu(cpu).change(fx, |rq| {
            let yields = matches!(prev, Prev::Yielded(_));
            if !rq.at(now).could_go_on(yields, loan.fits) {
                return Begun::Refused(prev, stand_in);
            }
            let begun = rq.at(now).begin_batch(prev, stand_in);
            if let Begun::Open(task, terms) = &begun {
                if let Some(tag) = tag(task) {
                    tag.set_home(Home::Away);
                }
                let (lent, yielder) = (loan.lend(rq, terms), u32::from(yields));
                rq.at(now).set_company((lent + yielder).saturating_sub(1));
            }
            begun
        });
        self.cpus.react(now, cpu, delta, fx);
        begun
    }

    /// Lends more tasks to a batch that has no waiting task left with the host.
    pub fn lend(
        &self,
        (now, cpu): (Time, CpuId),
        terms: &Terms,
        loan: Loan<'_, W>,
        fx: &mut impl Effects<W>,
    ) {
        let ((), delta) = self.cpu(cpu).change(fx, |rq| {
            rq.at(now).set_company(0);
            let lent = loan.lend(rq, terms);
            rq.at(now).set_company(lent.saturating_sub(1));
        });
        self.cpus.react(now, cpu, delta, fx);
    }

    /// Ends the batch of `cpu` and returns the stand-in. `task`, whose control cell is `cell`, runs in the place of the
    /// stand-in; the host keeps its payload. The other tasks of the batch must be given back. `first` is the position
    /// of the first of them.
    pub fn end_batch(
        &self,
        (now, cpu): (Time, CpuId),
        (task, cell): (TaskOf<W>, &(impl Controlled + ?Sized)),
        first: Option<VTime>,
        fx: &mut impl Effects<W>,
    ) -> TaskOf<W> {
        let id = task.id;
        let (stand_in, delta) = self.cpu(cpu).change(fx, |rq| {
            let (stand_in, _, at) = rq.at(now).end_batch(task, first);
            cell.tag().enter(id, Home::At(cpu, at));
            if cell.tag().was_asked_meanwhile()
                && let Some(change) = take(cell)
            {
                // The task is running, so the next scheduling decision evicts it if it may not stay.
                let _ = rq.change(now, at, change);
            }
            stand_in
        });
        self.cpus.react(now, cpu, delta, fx);
        stand_in
    }

    /// Enqueues a task of a batch of `from`, which is with the host, on `to`.
    pub fn give_back(
        &self,
        now: Time,
        task: TaskOf<W>,
        (from, to): (CpuId, CpuId),
        fx: &mut impl Effects<W>,
    ) {
        self.cpus.migrate(now, Moving::new(task, from, to, Enqueue::Moved), fx);
    }

    /// Charges the task that runs on `cpu` until `now`, so that the published clock is up to date.
    pub fn update_curr(&self, now: Time, cpu: CpuId, fx: &mut impl Effects<W>) {
        let ((), delta) = self.cpu(cpu).change(fx, |rq| rq.charge_until(now));
        self.cpus.react(now, cpu, delta, fx);
    }
}

impl Sight {
    /// Places a new task without any special attributes, which is to wait for `cpu` with the host. The place is its
    /// [debit](Sight::debit) beyond the clock, but at most `most`. Returns the place, or `None` if the task must be
    /// spawned.
    pub fn place_newcomer(
        &self,
        cpu: CpuId,
        task: &mut TaskOf<impl Sized>,
        most: Nanos,
    ) -> Option<VTime> {
        let start = self.starts.get(cpu.index())?;
        let place = start.place(task, self.hints.clock(cpu), self.debit(cpu).min(most));
        if place.is_some() {
            task.set_cpu(cpu);
        }
        place
    }

    /// Moves a newcomer that has its place at another CPU to `cpu`, and returns its place there.
    ///
    /// # Panics
    /// If newcomers are not placed on this machine.
    pub fn move_newcomer(&self, cpu: CpuId, task: &mut TaskOf<impl Sized>) -> VTime {
        let place = self.starts[cpu.index()].move_here(task, self.hints.clock(cpu));
        task.set_cpu(cpu);
        place
    }

    /// Returns how long a newcomer of `cpu` waits for the tasks already there: one turn of each of them
    /// (`sched_slice`). No task waits for SCHED_IDLE tasks, so they do not count.
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
}
