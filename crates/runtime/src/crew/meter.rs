//! What CPU time the threads use that run tasks, for the engine to charge no more than that.
//!
//! A process that is stopped by SIGSTOP or a debugger, is frozen, or is out of its quota, uses none; nor does a
//! thread while the kernel or the host of a virtual machine runs another on its CPU, or while it blocks.
//! The clock goes on in all these cases. A task is charged for the lesser of the two.
//!
//! The engine asks once in a millisecond of a busy CPU at the most, under the lock of the run queue. The owner of
//! the slot may ask, and so may the owner of another slot that looks for tasks. So each slot has which worker runs
//! its task, and each worker what its thread's clock said when it was last read. To read it takes 350 to 700 ns.
//!
//! Each answer is rather too high than too low: it is what the thread used since its last reading, at this slot
//! or before. What it used before is what nobody asked about: less than a millisecond in each *stay* at a slot,
//! and after [`STAYS`] of them the clock is read as it comes to the next. A thread that ran without a slot is
//! read then too. So an answer is too high by [`STAYS`] milliseconds at the most, which is what may be charged of
//! a stop; mostly it is one.
//!
//! Rejected: to read the clock at each switch, or each time that the thread of a slot changes; to have the owner of
//! a slot tell what was stolen before it decides, as all threads of a stopped process go on at once, and
//! another CPU has often charged the stop by then.

use crate::crew::threads::Threads;
use crate::os;
use crate::os::sync::{Arc, AtomicU32, AtomicU64, Ordering};
use crate::os::thread::Tid;
use crate::protocol::handoff::WorkerId;
use crate::worker::Worker;
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::Meter;
use runyard_engine::time::{Nanos, Time};

/// No task was run yet.
const NOBODY: u32 = u32::MAX;

/// How often a thread comes to a slot until its clock is read, if the engine has not asked meanwhile: so that costs
/// 11 to 22 ns each time. A task that preempts another once a millisecond may be all that is ever asked about.
const STAYS: u32 = 32;

/// Which worker runs the task of each slot, and what its thread uses.
#[derive(Debug)]
pub(crate) struct Meters {
    runners: Box<[Runner]>,
    threads: Arc<Threads>,
}

/// Written by the owner of the slot, read under the lock of the run queue. Between a switch and the moment at which
/// the owner says so, it is still the one before.
#[derive(Debug)]
#[repr(align(128))]
struct Runner(AtomicU32);

/// What is known of a worker's thread.
///
/// Legend of access: `(o)` written by the owner of the slot to which the worker comes, and by the worker without
/// a slot; `(q)` by the holder of the lock of the run queue of the worker's slot. If two write at a time, the one
/// or the other reading stays: both are readings of the past.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// (o), (q) What the thread had used then: never more than it has used.
    used: AtomicU64,
    /// (o), (q) How often the thread has come to a slot since.
    stays: AtomicU32,
    /// (o) `used` as the poll began, or as the thread came to the slot with a poll that goes on. `used` itself does not say
    /// what a poll has used: whoever has the run queue charged in the middle of the poll renews it.
    before: AtomicU64,
}

impl Meters {
    pub(crate) fn new(slots: usize, threads: Arc<Threads>) -> Meters {
        let runners = (0..slots).map(|_| Runner(AtomicU32::new(NOBODY))).collect();
        Meters { runners, threads }
    }

    /// `worker`, which calls, owns the slot of `cpu` and is about to poll the task that was picked there.
    #[inline]
    pub(crate) fn polls(&self, cpu: CpuId, worker: &Worker) {
        if self.runners[cpu.index()].0.load(Ordering::Relaxed) != worker.id.0 {
            self.comes(cpu, worker);
        }
    }

    /// The caller owns the slot of `cpu`, and `worker` comes there to run the task that was picked.
    pub(crate) fn comes(&self, cpu: CpuId, worker: &Worker) {
        worker.reading.comes(worker.tid());
        worker.reading.begins_poll();
        self.runners[cpu.index()].0.store(worker.id.0, Ordering::Release);
    }

    /// As [`Meter::used`]; `None` if it is not known.
    fn used(&self, cpu: CpuId, now: Time) -> Option<Nanos> {
        let runner = self.runners[cpu.index()].0.load(Ordering::Acquire);
        let worker = (runner != NOBODY).then(|| self.threads.worker(WorkerId(runner)))??;
        let used = os::thread::cpu_time(worker.tid())?;
        // A worker that has gone elsewhere meanwhile has used nothing there in this reading; and one that had gone
        // before is not asked about here, or what it used there would not be charged there.
        let is_here = worker.cpu() == cpu;
        is_here.then(|| worker.reading.take(used, os::thread::now().since(now)))?
    }
}

impl Meter for Meters {
    fn used(&self, cpu: CpuId, now: Time) -> Nanos {
        self.used(cpu, now).unwrap_or(Nanos::MAX)
    }
}

impl Reading {
    /// Another thread is started for the worker.
    pub(crate) fn begin(&self) {
        self.used.store(0, Ordering::SeqCst);
        self.stays.store(0, Ordering::SeqCst);
        self.begins_poll();
    }

    /// A poll begins, or goes on at a slot.
    #[inline]
    pub(crate) fn begins_poll(&self) {
        self.before.store(self.used.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The thread may use CPU time without a slot: its clock is read when it comes to one.
    pub(crate) fn runs_without_slot(&self) {
        self.stays.store(STAYS, Ordering::Relaxed);
    }

    #[inline]
    fn comes(&self, thread: Tid) {
        let stays = self.stays.load(Ordering::Relaxed);
        if stays < STAYS {
            self.stays.store(stays + 1, Ordering::Relaxed);
        } else if let Some(used) = os::thread::cpu_time(thread) {
            self.renew(used);
        }
    }

    /// The clock of the thread was read.
    pub(crate) fn renew(&self, used: Nanos) {
        self.used.store(used.0, Ordering::SeqCst);
        self.stays.store(0, Ordering::Relaxed);
    }

    /// What was used by the poll at the most, now that the thread has used so much: since the last reading before it. Nothing
    /// is taken from what the engine is told.
    pub(crate) fn of_poll(&self, used: Nanos) -> Nanos {
        Nanos(used.0.saturating_sub(self.before.load(Ordering::Relaxed)))
    }

    /// What was used since the last reading, now that the thread has used so much. The caller read the clock that
    /// late: what may have been used since then is part of the next answer too.
    fn take(&self, used: Nanos, late: Nanos) -> Option<Nanos> {
        let before = self.used.load(Ordering::SeqCst);
        let Some(since) = used.0.checked_sub(before) else {
            // Two asked at a time, or the number of a thread that has ended is another's.
            self.renew(used);
            return None;
        };
        self.renew(Nanos(before + since.saturating_sub(late.0)));
        Some(Nanos(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_TIME: Nanos = Nanos::ZERO;

    #[test]
    fn what_was_used_is_told_once() {
        let reading = Reading::default();
        assert_eq!(reading.take(Nanos(700), IN_TIME), Some(Nanos(700)));
        assert_eq!(reading.take(Nanos(1_000), IN_TIME), Some(Nanos(300)));
        reading.begin();
        assert_eq!(reading.take(Nanos(50), IN_TIME), Some(Nanos(50)));
    }

    #[test]
    fn what_was_used_after_the_caller_read_the_clock_is_told_again() {
        let reading = Reading::default();
        assert_eq!(reading.take(Nanos(700), Nanos(100)), Some(Nanos(700)));
        assert_eq!(reading.take(Nanos(1_000), Nanos(1_000_000)), Some(Nanos(400)));
        assert_eq!(reading.take(Nanos(1_000), IN_TIME), Some(Nanos(400)), "no more than that");
    }

    #[test]
    fn of_another_thread_nothing_is_known_until_the_next_time() {
        let reading = Reading::default();
        reading.renew(Nanos(700));
        assert_eq!(reading.take(Nanos(300), IN_TIME), None);
        assert_eq!(reading.take(Nanos(400), IN_TIME), Some(Nanos(100)));
    }

    /// Seen failing with what was used since the last reading: a poll beside a thread that asks for snapshots never ended.
    #[test]
    fn what_a_poll_has_used_does_not_depend_on_who_asks() {
        let reading = Reading::default();
        reading.renew(Nanos(700));
        reading.begins_poll();
        assert_eq!(reading.of_poll(Nanos(900)), Nanos(200));
        assert_eq!(reading.take(Nanos(1_000), IN_TIME), Some(Nanos(300)));
        assert_eq!(reading.of_poll(Nanos(1_000)), Nanos(300));
        reading.begins_poll();
        assert_eq!(reading.of_poll(Nanos(1_100)), Nanos(100));
    }

    /// Of some 10 ms that this thread uses. Seen failing without the count.
    #[test]
    fn what_nobody_asked_about_is_forgotten_after_some_stays() {
        let (reading, thread) = (Reading::default(), os::thread::current());
        let used = || os::thread::own_cpu_time();
        let computes = || while used() < Nanos::from_millis(10) {};
        std::thread::scope(|scope| {
            let new = scope.spawn(|| {
                let thread = os::thread::current();
                computes();
                (0..STAYS).for_each(|_| reading.comes(thread));
                let before = used();
                assert_eq!(reading.used.load(Ordering::SeqCst), 0, "it is not read for each");
                reading.comes(thread);
                assert!(Nanos(reading.used.load(Ordering::SeqCst)) >= before);
            });
            new.join().unwrap();
        });
        reading.begin();
        reading.runs_without_slot();
        reading.comes(thread);
        assert!(reading.used.load(Ordering::SeqCst) > 0, "it is read when it comes again");
    }
}
