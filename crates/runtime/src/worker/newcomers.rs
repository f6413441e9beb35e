//! Newcomers ([`crate::protocol::newcomers`]): the place where a new task waits, and the ways in which the owner of a
//! slot and idle CPUs get it.

use super::Worker;
use super::batch::{Batches, STAYS, fits};
use super::beside::{Dispatch, Outsiders};
use super::own::Own;
use super::poll::Poll;
use super::thread::Thread;
use crate::crew::kick::KickNow;
use crate::crew::kick::ring;
use crate::crew::members::Crew;
use crate::os;
use crate::os::sync::Ordering;
use crate::protocol::company::NO_POLL;
use crate::shared::Scheduler;
use crate::task::Job;
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::{Machine, TaskOf, apply_pending};
use std::collections::VecDeque;

/// The longest time for which a task that no task has spawned waits for the tasks that are there. The debit of a slice
/// keeps spawning tasks from the time of others; a task from outside takes no other task's time by its arrival. It
/// waits as long as the order within a batch is relaxed: without any wait, a flood of such tasks would keep the others
/// from the CPU.
const OUTSIDE: Nanos = Nanos::from_micros(100);

/// The greatest age of the virtual clock that places a task that a poll spawns: little compared with a slice.
const CLOCK_LASTS: Nanos = Nanos::from_micros(50);

/// The number of tasks from outside that are a flood if they arrive within a short time. One CPU gets all of them, as
/// long as it takes newcomers and is in no long poll. A thread that spawns many tasks is as fast with one worker as
/// with all of them, which would be woken again and again, and take its CPU.
const FLOOD: usize = 16;
const FLOODS_WITHIN: Nanos = Nanos::from_micros(50);
const POLLS_FOR: Nanos = Nanos::from_micros(20);

/// The number of tasks in a flood for each check of the CPU: a check takes from its worker the cache line that the
/// worker writes with each poll.
const LOOKS_EVERY: usize = 8;

impl Outsiders {
    /// Returns whether the `nth` is one of a flood.
    fn are_flood(&self, now: Time, nth: usize) -> bool {
        if nth.is_multiple_of(FLOOD) {
            let before = Time(self.counted_at.swap(now.0, Ordering::Relaxed));
            self.is_flood.store(now < before + FLOODS_WITHIN, Ordering::Relaxed);
        }
        self.is_flood.load(Ordering::Relaxed)
    }
}

impl Poll {
    /// Updates the clock that places a task spawned by a poll outside a batch: it must not be older than
    /// [`CLOCK_LASTS`]. Otherwise children are placed as if their parent had not run: a chain of them got a tenth too
    /// much.
    fn update_clock(&self, thread: &Thread, scheduler: &Scheduler, now: Time) {
        let known = self.began().0.max(self.clock_at.load(Ordering::Relaxed));
        if now >= Time(known) + CLOCK_LASTS
            && self.batch.load(Ordering::Relaxed) == 0
            && thread.owns()
        {
            self.clock_at.store(now.0, Ordering::Relaxed);
            let fx = &mut KickNow(scheduler);
            scheduler.machine().update_curr(now, thread.cpu(), fx);
        }
    }
}

impl Scheduler {
    /// Puts the first newcomer of `cpu` into the run queue, so that the next decision considers it. Returns whether
    /// there was one.
    pub(super) fn offer_newcomer(&self, own: &Own, cpu: CpuId, now: Time) -> bool {
        let newcomers = self.dispatch().of(cpu).map(|it| &it.newcomers);
        let Some(newcomers) = newcomers.filter(|it| it.len() > 0) else { return false };
        let Some(task) = newcomers.take_first() else { return false };
        newcomers.note_taken(now.0);
        own.serve(|| self.give_back(now, cpu, cpu, task));
        true
    }

    /// Takes some of the tasks that wait in another CPU's batch, and of its newcomers, as this CPU has none. Returns
    /// whether there were any.
    pub(super) fn take_some(&self, own: &Own, cpu: CpuId) -> bool {
        if !self.machine().sight().is_online(cpu) {
            return false;
        }
        let others = || self.machine().config().topology.iter().filter(|&other| other != cpu);
        let len = |other| self.dispatch().len(other);
        let Some(from) = others().max_by_key(|&other| len(other)).filter(|&it| len(it) > 0) else {
            return false;
        };
        let (Some(here), Some(victim)) = (self.dispatch().of(cpu), self.dispatch().of(from)) else {
            return false;
        };
        let mut taken = here.take_room();
        let now = os::thread::now();
        let has_stayed = |task: &TaskOf<Job>| now.since(task.waits_since()) >= STAYS;
        // A newcomer that its spawner waits for stays on that CPU.
        let more = usize::from(victim.newcomers.look(has_stayed) == Some(true));
        let half = ((victim.newcomers.len() + more) / 2).min(taken.capacity());
        victim.newcomers.take(half, u64::MAX, |task| taken.push_back(task));
        let any = self.settle(cpu, &mut taken);
        victim.company.steal(&mut taken, has_stayed);
        let any = any || !taken.is_empty();
        own.serve(|| taken.drain(..).for_each(|task| self.give_back(now, from, cpu, task)));
        here.keep_room(taken);
        any
    }

    /// Makes newcomers of another CPU newcomers of this one. Returns whether there were any.
    fn settle(&self, cpu: CpuId, taken: &mut VecDeque<TaskOf<Job>>) -> bool {
        let Some(own) = self.dispatch().of(cpu) else { return false };
        let any = !taken.is_empty();
        for mut task in taken.drain(..) {
            let from = task.cpu();
            let place = self.machine().sight().move_newcomer(cpu, &mut task);
            if let Err(task) = own.newcomers.push(place.0, task) {
                self.give_back(os::thread::now(), from, cpu, task);
            }
        }
        any
    }

    /// Makes a new task without special settings, which no poll has spawned, a newcomer of any CPU. Returns other tasks.
    pub(crate) fn welcome(&self, now: Time, task: TaskOf<Job>) -> Result<(), TaskOf<Job>> {
        let sight = self.machine().sight();
        let spawner = self.here(|worker| worker.thread.own_cpu()).flatten();
        if spawner.is_some_and(|cpu| sight.has_others_than_fair(cpu)) {
            return Err(task);
        }
        let cpu = self.dispatch().cpu_for_newcomer(self.machine(), self.crew(), now);
        let Some((cpu, batches)) = cpu.and_then(|cpu| Some((cpu, self.dispatch().of(cpu)?))) else {
            return Err(task);
        };
        if !self.takes_newcomer(cpu, &task) {
            return Err(task);
        }
        self.line_up((now, cpu), batches, task, OUTSIDE)?;
        if self.crew().slot(cpu).is_away() {
            ring(self, cpu);
        }
        Ok(())
    }

    /// Places a new task at most so far beyond the clock of a CPU, as a newcomer there. Returns how many there are then, or the
    /// task if it cannot be one.
    #[inline]
    fn line_up(
        &self,
        (now, cpu): (Time, CpuId),
        batches: &Batches,
        mut task: TaskOf<Job>,
        most: Nanos,
    ) -> Result<usize, TaskOf<Job>> {
        apply_pending(&mut task);
        let Some(place) = self.machine().sight().place_newcomer(cpu, &mut task, most) else {
            return Err(task);
        };
        task.wakes(now);
        batches.newcomers.push(place.0, task)
    }

    /// Returns whether a new task may wait at a CPU outside of its run queue.
    #[inline]
    fn takes_newcomer(&self, cpu: CpuId, task: &TaskOf<Job>) -> bool {
        let sight = self.machine().sight();
        fits(task) && sight.is_online(cpu) && !sight.has_others_than_fair(cpu)
    }
}

impl Worker {
    /// Adds a new task without special settings, which a poll of this thread has spawned, to the batch of that poll, or
    /// makes it a newcomer of its CPU. Returns other tasks, and each task that no poll has spawned.
    #[inline]
    pub(crate) fn spawns(&self, now: Time, mut task: TaskOf<Job>) -> Result<(), TaskOf<Job>> {
        let (thread, poll, scheduler) = (&self.thread, &self.poll, &self.shared.scheduler);
        let cpu = thread.cpu();
        let Some(batches) = scheduler.dispatch().of(cpu) else { return Err(task) };
        if !poll.is_foreign() || !thread.owns() || !scheduler.takes_newcomer(cpu, &task) {
            return Err(task);
        }
        task.set_cpu(cpu);
        let task = match poll.join(thread, scheduler, (now, true), task) {
            Ok(()) => return Ok(()),
            Err(task) => task,
        };
        poll.update_clock(thread, scheduler, now);
        let waiting = scheduler.line_up((now, cpu), batches, task, Nanos::MAX)?;
        poll.look_soon(thread, now, false);
        if !thread.owns() {
            if scheduler.crew().slot(cpu).is_away() {
                ring(scheduler, cpu);
            }
        } else if waiting > 1
            && let Some(idle) = scheduler.machine().sight().idle_cpu_beside(cpu)
        {
            ring(scheduler, idle);
        }
        Ok(())
    }
}

impl Dispatch {
    /// Returns the CPU where a task waits that no poll of this runtime has spawned. It is the CPU of the last one, if
    /// that looks for work, or is quick in a flood. Otherwise it is an idle CPU, or of two CPUs, in turn, the one where
    /// fewer tasks wait.
    fn cpu_for_newcomer(&self, machine: &Machine<Job>, crew: &Crew, now: Time) -> Option<CpuId> {
        let outsiders = &self.outsiders;
        let sight = machine.sight();
        let takes = |cpu: &CpuId| sight.is_online(*cpu) && !sight.has_others_than_fair(*cpu);
        let last = CpuId(outsiders.last.load(Ordering::Relaxed) as u16);
        let is_quick = |cpu: &CpuId| {
            self.of(*cpu).is_some_and(|it| {
                let began = it.company.polls_since();
                now < Time(it.newcomers.taken_at()) + FLOODS_WITHIN
                    && (began == NO_POLL || now < Time(began) + POLLS_FOR)
            })
        };
        let looks = |cpu: &CpuId| self.is_free(machine, *cpu) && !crew.slot(*cpu).is_asleep();
        let nth = outsiders.nr.fetch_add(1, Ordering::Relaxed);
        // Where no poll is stopped, no poll tells an idle CPU which tasks wait beside it.
        let in_flood = outsiders.are_flood(now, nth) && crew.preemption().is_on;
        let was_quick = |_: &CpuId| !nth.is_multiple_of(LOOKS_EVERY);
        let goes_on = |cpu: &CpuId| in_flood && (was_quick(cpu) || is_quick(cpu));
        let quick = Some(last).filter(|cpu| looks(cpu) || goes_on(cpu)).filter(takes);
        quick.or_else(|| {
            let cpu = self.cpu_for_one(machine, nth, takes)?;
            self.of(cpu)?.newcomers.note_taken(now.0);
            outsiders.last.store(cpu.0.into(), Ordering::Relaxed);
            Some(cpu)
        })
    }

    fn is_free(&self, machine: &Machine<Job>, cpu: CpuId) -> bool {
        machine.sight().is_idle(cpu) && !self.has_any(cpu)
    }

    /// Returns an idle CPU, or else, of two CPUs in turn, the one where fewer tasks wait.
    fn cpu_for_one(
        &self,
        machine: &Machine<Job>,
        nth: usize,
        takes: impl Fn(&CpuId) -> bool,
    ) -> Option<CpuId> {
        let nr = self.all().len();
        let [one, other] = [nth, nth + 1].map(|nth| CpuId::at(nth % nr));
        let free = |cpu: &CpuId| self.is_free(machine, *cpu);
        let beside = || machine.sight().idle_cpu_beside(other).filter(free);
        let idle = Some(other).filter(free).or_else(beside);
        let fewest = || [one, other].into_iter().filter(takes).min_by_key(|&it| self.len(it));
        idle.or_else(fewest)
    }
}
