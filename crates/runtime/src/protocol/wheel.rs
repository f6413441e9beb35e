//! The *wheel*: the right to drive tokio's driver. A worker that has no other work or the driver's thread holds it, one
//! at a time.
//!
//! ```text
//!  worker   before it waits for work: takes the wheel, if it is free
//!           if it is not: marks that it sleeps; checks the wheel again; sleeps, unless the wheel is free by now
//!           as soon as there is work: leaves the wheel
//!           while it is busy: takes the wheel now and then before a poll, or asks the thread to leave it
//!  thread   is called: takes the wheel, if it is free
//!           drives until a worker sleeps or asks; leaves the wheel, and then wakes a worker that sleeps
//!           where only the thread may drive: reserves the wheel; a worker that leaves it calls the thread
//! ```
//!
//! A worker leaves the wheel for each task that it runs, and takes it again after that: two changes of a word, and no
//! notification. Mostly it is back after some microseconds. So the wheel may be free while workers are busy. A thread
//! that finds that the wheel has been free for long wakes a worker that sleeps, or calls the thread
//! ([`Scheduler::see_to_driver`](crate::shared::Scheduler)). Two kinds of threads check this: the signal handler of a worker
//! that is in a long poll, and the keeper.
//!
//! Invariants, modelled in loom: no two threads hold the wheel; no worker sleeps while the wheel is free and no awake
//! thread sees to that; a thread that wants the wheel gets it.

use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use crate::os::wait::{futex_wait, futex_wake};

const FREE: u32 = 0;
const WORKER: u32 = 1;
const THREAD: u32 = 2;
/// Only the thread may take it next.
const WANTED: u32 = 4;

/// The place of the worker or thread that drives.
#[derive(Debug)]
pub(crate) struct Wheel {
    word: AtomicU32,
    /// The number of calls of the thread, which waits on this word.
    calls: AtomicU32,
    /// The time at which the wheel was left last.
    left_at: AtomicU64,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { word: AtomicU32::new(FREE), calls: AtomicU32::new(0), left_at: AtomicU64::new(0) }
    }

    /// Takes the wheel for the calling worker, if it is free. Returns whether it did.
    pub(crate) fn take(&self) -> bool {
        let (order, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        self.word.compare_exchange(FREE, WORKER, order, failure).is_ok()
    }

    /// Leaves the wheel, which the calling worker holds.
    pub(crate) fn leave(&self, now: u64) {
        self.left_at.store(now, Ordering::Relaxed);
        if self.word.fetch_and(!WORKER, Ordering::SeqCst) & WANTED != 0 {
            self.call();
        }
    }

    /// Returns whether a worker could take the wheel. The read is a read-modify-write that changes nothing, so its
    /// result is no older than the caller's earlier writes.
    pub(crate) fn is_free(&self) -> bool {
        self.word.fetch_or(0, Ordering::SeqCst) == FREE
    }

    /// Returns whether the thread holds the wheel.
    pub(crate) fn is_thread_there(&self) -> bool {
        self.word.load(Ordering::Relaxed) & THREAD != 0
    }

    /// Returns the time since which the wheel is free, if it is. May be called in a signal handler.
    pub(crate) fn free_since(&self) -> Option<u64> {
        self.is_free().then(|| self.left_at())
    }

    /// Reserves the wheel for the thread. The caller calls the thread after that.
    pub(crate) fn want(&self) {
        self.word.fetch_or(WANTED, Ordering::SeqCst);
    }

    /// Wakes the thread. May be called in a signal handler.
    pub(crate) fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        futex_wake(&self.calls);
    }

    /// Returns how often the thread was called.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Waits, as the thread, until the number of calls is no longer `calls`.
    pub(crate) fn wait(&self, calls: u32) {
        while self.calls() == calls {
            futex_wait(&self.calls, calls);
        }
    }

    /// Takes the wheel for the calling thread, if it is free or reserved. Returns whether it did.
    pub(crate) fn take_as_thread(&self) -> bool {
        [FREE, WANTED].into_iter().any(|free| {
            let (order, failure) = (Ordering::SeqCst, Ordering::SeqCst);
            self.word.compare_exchange(free, THREAD, order, failure).is_ok()
        })
    }

    /// Leaves the wheel as the thread, which then wakes a worker that sleeps. If the wheel is reserved for the thread
    /// by now, the thread was also called.
    pub(crate) fn leave_as_thread(&self, now: u64) {
        self.left_at.store(now, Ordering::Relaxed);
        self.word.fetch_and(!THREAD, Ordering::SeqCst);
    }

    /// Returns the time at which the wheel was left last: a new time for each turn of a worker.
    pub(crate) fn left_at(&self) -> u64 {
        self.left_at.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::os::sync::Arc;
    use crate::protocol::handoff::{Ring, Slot, WorkerId};
    use loom::thread;

    struct World {
        wheel: Wheel,
        slot: Slot,
        /// The number of threads that drive now.
        drivers: AtomicU32,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World {
                wheel: Wheel::new(),
                slot: Slot::new(WorkerId(0)),
                drivers: AtomicU32::new(0),
            })
        }

        fn drive(&self) {
            assert_eq!(
                self.drivers.fetch_add(1, Ordering::SeqCst),
                0,
                "one thread drives at a time"
            );
            self.drivers.fetch_sub(1, Ordering::SeqCst);
        }

        /// Runs a worker without work. Returns whether it drove; otherwise it sleeps.
        fn idle(&self) -> bool {
            loop {
                if self.wheel.take() {
                    self.drive();
                    return true;
                }
                let asleep = self.slot.fall_asleep(false).is_some();
                if asleep && !self.wheel.is_free() {
                    return false;
                }
                self.slot.leave(WorkerId(0));
            }
        }

        /// Wakes a worker that sleeps, as the thread that left the wheel.
        fn see_to_it(&self) -> bool {
            // A change that changes nothing: loads of two words have no order in the model.
            self.slot.be_rung_again(WorkerId(0));
            self.slot.is_asleep() && self.slot.request() == Ring::Wake
        }
    }

    /// Seen failing: a worker that does not check again after it has marked that it sleeps.
    #[test]
    fn a_worker_that_sleeps_beside_a_free_wheel_is_woken() {
        loom::model(|| {
            let world = World::new();
            assert!(world.wheel.take_as_thread());
            let other = world.clone();
            let thread = thread::spawn(move || {
                other.drive();
                other.wheel.leave_as_thread(1);
                other.see_to_it()
            });
            let drove = world.idle();
            let woken = thread.join().unwrap();
            assert!(drove || woken, "the worker sleeps, and no thread drives");
        });
    }

    /// The runtime ends while the thread leaves the wheel to a worker. Seen failing: a thread that clears the
    /// reservation when it leaves.
    #[test]
    fn a_thread_that_leaves_the_wheel_as_it_is_wanted_gets_it_back() {
        loom::model(|| {
            let world = World::new();
            let calls = world.wheel.calls();
            assert!(world.wheel.take_as_thread());
            let (ends, works) = (world.clone(), world.clone());
            let end = thread::spawn(move || {
                ends.wheel.want();
                ends.wheel.call();
            });
            let worker = thread::spawn(move || {
                if works.wheel.take() {
                    works.drive();
                    works.wheel.leave(1);
                }
            });
            world.wheel.leave_as_thread(1);
            let mut calls = calls;
            loop {
                world.wheel.wait(calls);
                calls = world.wheel.calls();
                if world.wheel.take_as_thread() {
                    break;
                }
            }
            world.drive();
            end.join().unwrap();
            worker.join().unwrap();
        });
    }

    /// Seen failing: a worker that leaves the wheel without checking whether it is reserved.
    #[test]
    fn a_thread_that_wants_the_wheel_gets_it() {
        loom::model(|| {
            let world = World::new();
            let other = world.clone();
            let worker = thread::spawn(move || {
                if other.wheel.take() {
                    other.drive();
                    other.wheel.leave(1);
                }
            });
            loop {
                let calls = world.wheel.calls();
                world.wheel.want();
                if world.wheel.take_as_thread() {
                    break;
                }
                world.wheel.wait(calls);
            }
            world.drive();
            assert!(!world.wheel.take(), "no worker gets the wheel");
            worker.join().unwrap();
        });
    }
}
