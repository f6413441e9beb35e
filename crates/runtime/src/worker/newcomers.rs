//! Newcomers ([`crate::protocol::newcomers`]): where a new task waits, and how the owner of a slot and idle CPUs come by it.

use super::batch::{STAYS, fits};
use super::{Worker, ring};
use crate::os;
use crate::os::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::protocol::company::NO_POLL;
use crate::shared::{KickNow, Shared};
use crate::task::Job;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time, VTime};
use runyard_smp::machine::{TaskOf, apply_pending};
use std::collections::VecDeque;

/// How long a task waits at the most for those that are there if no task has spawned it. The debit of a slice keeps tasks
/// that spawn from what others have; a task that comes from outside takes from nobody by coming. It waits as long as the
/// order within a batch is relaxed: with nothing at all a flood of such tasks would keep the others from the CPU.
const OUTSIDE: Nanos = Nanos::from_micros(100);

/// How old the virtual clock may be by which a task is placed that a poll spawns: little beside a slice.
const CLOCK_LASTS: Nanos = Nanos::from_micros(50);

/// So many tasks that come from outside in so short a time are a flood: one CPU has all of them, as long as it takes
/// newcomers and is in no poll that lasts. A thread that spawns many is as fast with one worker as with all of them: these
/// would be woken again and again, and take its CPU.
const FLOOD: usize = 16;
const FLOODS_WITHIN: Nanos = Nanos::from_micros(50);
const POLLS_FOR: Nanos = Nanos::from_micros(20);

/// In a flood the CPU is looked at for each so many tasks: a look takes the line from its worker that this writes with each
/// poll.
const LOOKS_EVERY: usize = 8;

/// The tasks that are spawned by no poll, away from what all read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Outsiders {
    /// How many there were.
    nr: AtomicUsize,
    /// When the last one was of which the number is a multiple of [`FLOOD`].
    counted_at: AtomicU64,
    is_flood: AtomicBool,
    /// To which CPU the last one went.
    last: AtomicU32,
}

impl Outsiders {
    /// Whether the last ones were.
    pub(super) fn is_flood(&self) -> bool {
        self.is_flood.load(Ordering::Relaxed)
    }

    /// Whether the `nth` is one of a flood.
    fn are_flood(&self, now: Time, nth: usize) -> bool {
        if nth.is_multiple_of(FLOOD) {
            let before = Time(self.counted_at.swap(now.0, Ordering::Relaxed));
            self.is_flood.store(now < before + FLOODS_WITHIN, Ordering::Relaxed);
        }
        self.is_flood.load(Ordering::Relaxed)
    }
}

impl Worker {
    /// The first newcomer of `cpu`, if there is one, enters the run queue: the decision that is next heeds it. Whether
    /// there was one.
    pub(super) fn offer_newcomer(&self, cpu: CpuId, now: Time) -> bool {
        let newcomers = self.shared.batches(cpu).map(|it| &it.newcomers);
        let Some(newcomers) = newcomers.filter(|it| it.len() > 0) else { return false };
        let Some(task) = newcomers.take_first() else { return false };
        newcomers.note_taken(now.0);
        let serves = self.serves.swap(true, Ordering::Relaxed);
        self.give_back(now, cpu, cpu, task);
        self.serves.store(serves, Ordering::Relaxed);
        true
    }

    /// In a poll that is none of a batch and spawns a task: the clock by which that is placed is not older than
    /// [`CLOCK_LASTS`]. Else children stood as if their parent had not run: a chain of them had a tenth too much.
    fn update_clock(&self, now: Time) {
        let known = self.began.load(Ordering::Relaxed).max(self.clock_at.load(Ordering::Relaxed));
        if now >= Time(known) + CLOCK_LASTS
            && self.batch.load(Ordering::Relaxed) == 0
            && self.owns()
        {
            self.clock_at.store(now.0, Ordering::Relaxed);
            self.shared.machine.update_curr(now, self.cpu(), &mut KickNow(&self.shared));
        }
    }

    /// Takes some of the tasks that wait in the company of another CPU, and of its newcomers, as this one has none.
    /// Whether there were any.
    pub(super) fn take_some(&self, cpu: CpuId) -> bool {
        let others = || self.shared.machine.config().topology.iter().filter(|&other| other != cpu);
        let len = |other| self.shared.nr_beside(other);
        let Some(from) = others().max_by_key(|&other| len(other)).filter(|&it| len(it) > 0) else {
            return false;
        };
        let (Some(own), Some(victim)) = (self.shared.batches(cpu), self.shared.batches(from))
        else {
            return false;
        };
        let mut taken = own.take_room();
        let now = os::thread::now();
        let has_stayed = |task: &TaskOf<Job>| now.since(task.waits_since()) >= STAYS;
        // One that its spawner waits for stays with that.
        let more = usize::from(victim.newcomers.look(has_stayed) == Some(true));
        let half = ((victim.newcomers.len() + more) / 2).min(taken.capacity());
        victim.newcomers.take(half, u64::MAX, |task| taken.push_back(task));
        let any = self.settle(cpu, &mut taken);
        victim.company.steal(&mut taken, has_stayed);
        let any = any || !taken.is_empty();
        let serves = self.serves.swap(true, Ordering::Relaxed);
        taken.drain(..).for_each(|task| self.give_back(now, from, cpu, task));
        self.serves.store(serves, Ordering::Relaxed);
        own.keep_room(taken);
        any
    }

    /// Newcomers of another CPU are some of this one from now on. Whether there were any.
    fn settle(&self, cpu: CpuId, taken: &mut VecDeque<TaskOf<Job>>) -> bool {
        let Some(own) = self.shared.batches(cpu) else { return false };
        let any = !taken.is_empty();
        for mut task in taken.drain(..) {
            let from = task.cpu();
            let place = self.shared.machine.move_newcomer(cpu, &mut task);
            if let Err(task) = own.newcomers.push(place.0, task) {
                self.give_back(os::thread::now(), from, cpu, task);
            }
        }
        any
    }
}

impl Shared {
    /// The place of the first newcomer of a CPU, as far as is known without the line that a push writes.
    #[inline]
    pub(crate) fn first_newcomer(&self, cpu: CpuId) -> Option<VTime> {
        self.batches(cpu)?.newcomers.first().map(VTime)
    }

    /// Whether newcomers wait at a CPU.
    pub(super) fn has_newcomers(&self, cpu: CpuId) -> bool {
        self.batches(cpu).is_some_and(|it| it.newcomers.len() > 0)
    }

    /// A new task for which nothing was asked waits with the host of a CPU: of that of the poll in which it was spawned,
    /// or of any. Other tasks are given back.
    pub(crate) fn welcome(
        &self,
        now: Time,
        mut task: TaskOf<Job>,
        own: Option<CpuId>,
    ) -> Result<(), TaskOf<Job>> {
        let spawner = || self.here(|worker| worker.owns().then(|| worker.cpu())).flatten();
        if own.is_none() && spawner().is_some_and(|cpu| self.machine.has_others_than_fair(cpu)) {
            return Err(task);
        }
        let cpu = own.or_else(|| self.cpu_for_newcomer(now));
        let Some((cpu, batches)) = cpu.and_then(|cpu| Some((cpu, self.batches(cpu)?))) else {
            return Err(task);
        };
        if !fits(&task) || self.machine.has_others_than_fair(cpu) {
            return Err(task);
        }
        if own.is_some() {
            task = match self.by_worker(task, |worker, task| worker.join(now, task, true)) {
                Ok(()) => return Ok(()),
                Err(task) => task,
            };
        }
        if own.is_some() {
            self.here(|worker| worker.update_clock(now));
        }
        apply_pending(&mut task);
        let most = own.map_or(OUTSIDE, |_| Nanos::MAX);
        let Some(place) = self.machine.place_newcomer(cpu, &mut task, most) else {
            return Err(task);
        };
        task.wakes(now);
        let waiting = batches.newcomers.push(place.0, task)?;
        if let Some(own) = own
            && self.here(|worker| {
                worker.look_soon(now, false);
                worker.owns()
            }) == Some(true)
        {
            let idle = (waiting > 1).then(|| self.machine.idle_cpu_beside(own));
            idle.flatten().into_iter().for_each(|idle| ring(self, idle));
        } else if self.slot(cpu).is_asleep() {
            ring(self, cpu);
        }
        Ok(())
    }

    /// Where a task waits that is spawned by no poll of this runtime: where the last one does, if that CPU looks for
    /// work, or is quick in a flood; else at an idle CPU, else at one of two, in turn, where fewer wait.
    fn cpu_for_newcomer(&self, now: Time) -> Option<CpuId> {
        let outsiders = &self.outsiders;
        let takes = |cpu: &CpuId| !self.machine.has_others_than_fair(*cpu);
        let last = CpuId(outsiders.last.load(Ordering::Relaxed) as u16);
        let is_quick = |cpu: &CpuId| {
            self.batches(*cpu).is_some_and(|it| {
                let began = it.company.polls_since();
                now < Time(it.newcomers.taken_at()) + FLOODS_WITHIN
                    && (began == NO_POLL || now < Time(began) + POLLS_FOR)
            })
        };
        let looks = |cpu: &CpuId| self.is_free(*cpu) && !self.slot(*cpu).is_asleep();
        let nth = outsiders.nr.fetch_add(1, Ordering::Relaxed);
        // Where no poll is stopped, none shows to an idle CPU who waits beside it.
        let in_flood = outsiders.are_flood(now, nth) && self.preempts;
        let was_quick = |_: &CpuId| !nth.is_multiple_of(LOOKS_EVERY);
        let goes_on = |cpu: &CpuId| in_flood && (was_quick(cpu) || is_quick(cpu));
        let quick = Some(last).filter(|cpu| looks(cpu) || goes_on(cpu)).filter(takes);
        quick.or_else(|| {
            let cpu = self.cpu_for_one(nth, takes)?;
            self.batches(cpu)?.newcomers.note_taken(now.0);
            outsiders.last.store(cpu.0.into(), Ordering::Relaxed);
            Some(cpu)
        })
    }

    fn is_free(&self, cpu: CpuId) -> bool {
        self.machine.is_idle(cpu) && !self.has_company(cpu)
    }

    /// An idle CPU, else the one of two, in turn, where fewer wait.
    fn cpu_for_one(&self, nth: usize, takes: impl Fn(&CpuId) -> bool) -> Option<CpuId> {
        let nr = self.slots.len();
        let [one, other] = [nth, nth + 1].map(|nth| CpuId::at(nth % nr));
        let free = |cpu: &CpuId| self.is_free(*cpu);
        let beside = || self.machine.idle_cpu_beside(other).filter(free);
        let idle = Some(other).filter(free).or_else(beside);
        let fewest = || [one, other].into_iter().filter(takes).min_by_key(|&it| self.nr_beside(it));
        idle.or_else(fewest)
    }
}
