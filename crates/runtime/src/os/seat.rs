//! The turn to touch a task, and the place of the engine's box while the task is blocked.
//!
//! ```text
//!   RUNNING    it is polled, and until it blocks after that; or another thread looks at it
//!   SCHEDULED  it is in a queue or on its way there; or it was woken while it was RUNNING
//!   IDLE       it is blocked, and its box is in the seat
//!   OVER       it is never polled again
//!
//!   wake   IDLE -> SCHEDULED: takes the box       RUNNING -> SCHEDULED: the holder of the box sees it
//!   begin  SCHEDULED -> RUNNING
//!   block  RUNNING -> IDLE, with the box in the seat; if it is SCHEDULED the box is given back
//!   look   IDLE -> RUNNING, then as `block`
//! ```
//!
//! So each wake-up either takes the box out of the seat, or is seen by the thread that has the box. The word is the
//! lock: to wake or to block takes no other lock.
//!
//! Invariants, modelled in loom: the box has one owner; no wake-up is lost; a thread that gives up the turn touches
//! nothing of the task after that.

use crate::os::sync::{AtomicBool, AtomicU32, Ordering, UnsafeCell};

const IDLE: u32 = 0;
const SCHEDULED: u32 = 1;
const RUNNING: u32 = 2;
const OVER: u32 = 3;

/// The turn of one task, and the seat of its box `T`.
#[derive(Debug)]
pub(crate) struct Seat<T> {
    turn: AtomicU32,
    /// Whether the task is in a poll. Written by the holder of the turn.
    in_poll: AtomicBool,
    seat: UnsafeCell<Option<T>>,
}

// SAFETY: only the holder of the turn touches `seat`, and one thread has the turn at a time. So `T` is at most sent.
unsafe impl<T: Send> Sync for Seat<T> {}

/// A poll, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InPoll<'a>(&'a AtomicBool);

impl Drop for InPoll<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Seat<T> {
    /// Makes the seat of a task that is scheduled.
    pub(crate) fn new() -> Seat<T> {
        Seat {
            turn: AtomicU32::new(SCHEDULED),
            in_poll: AtomicBool::new(false),
            seat: UnsafeCell::new(None),
        }
    }

    /// Wakes the task. Returns its box if it was blocked: the caller has to queue it.
    #[inline]
    pub(crate) fn wake(&self) -> Option<T> {
        let mut turn = self.turn.load(Ordering::Relaxed);
        loop {
            // The word is written even if it does not change: so the next poll sees the waker's earlier writes.
            let next = if turn == OVER { OVER } else { SCHEDULED };
            match self.turn.compare_exchange_weak(turn, next, Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: of all threads that wake an idle task, one gets the turn.
                Ok(IDLE) => return unsafe { self.take() },
                Ok(_) => return None,
                Err(now) => turn = now,
            }
        }
    }

    /// Wakes the task from its own poll, on the calling thread.
    #[inline]
    pub(crate) fn wake_in_poll(&self) {
        self.turn.store(SCHEDULED, Ordering::Release);
    }

    /// Returns whether the task was woken. Called by the thread that polled it.
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.turn.load(Ordering::Acquire) == SCHEDULED
    }

    /// Returns whether the task is blocked.
    pub(crate) fn is_idle(&self) -> bool {
        self.turn.load(Ordering::Acquire) == IDLE
    }

    /// Begins a poll.
    ///
    /// # Panics
    /// If the task is not scheduled, or is in a poll.
    #[inline]
    pub(crate) fn begin(&self) -> InPoll<'_> {
        let turn = self.turn.swap(RUNNING, Ordering::AcqRel);
        assert!(turn == SCHEDULED, "only a scheduled task is polled");
        assert!(!self.in_poll.load(Ordering::Acquire), "one thread polls a task at a time");
        self.in_poll.store(true, Ordering::Relaxed);
        InPoll(&self.in_poll)
    }

    /// Marks that the caller has polled the task for the last time.
    pub(crate) fn end(&self) {
        self.turn.store(OVER, Ordering::Release);
    }

    /// Blocks the task after a poll. Returns its box if it was woken meanwhile.
    ///
    /// # Safety
    /// `seat` points to a seat that lives as long as `task` does, and as long as its task is RUNNING. `task` is the box
    /// of that task.
    #[inline]
    pub(crate) unsafe fn block(seat: *const Seat<T>, task: T) -> Option<T> {
        // SAFETY: as the caller promises, the seat lives until the turn is given up below. Nothing is touched after
        // that.
        let (turn, in_poll, place) = unsafe { (&(*seat).turn, &(*seat).in_poll, &(*seat).seat) };
        assert!(!in_poll.load(Ordering::Acquire), "a task blocks after its poll");
        // SAFETY: the caller has the turn, since it has the box.
        unsafe { put(place, Some(task)) };
        match turn.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => None,
            // SAFETY: the thread that woke the task left the turn to the thread that has the box.
            Err(_) => unsafe { put(place, None) },
        }
    }

    /// Calls `look` with the box of a blocked task. Returns the result of `look`, and the box if the task was woken
    /// meanwhile: the caller has to queue it.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> (Option<R>, Option<T>) {
        if self.turn.compare_exchange(IDLE, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return (None, None);
        }
        // SAFETY: the caller has the turn.
        let Some(mut task) = (unsafe { self.take() }) else {
            unreachable!("the box of an idle task is in its seat")
        };
        let said = look(&mut task);
        // SAFETY: the seat is borrowed, so it lives.
        let woken = unsafe { Seat::block(self, task) };
        (Some(said), woken)
    }

    /// # Safety
    /// The caller has the turn.
    unsafe fn take(&self) -> Option<T> {
        // SAFETY: as the caller promises.
        unsafe { put(&self.seat, None) }
    }
}

/// # Safety
/// No other thread touches the cell during the call.
#[cfg(not(loom))]
unsafe fn put<T>(cell: &UnsafeCell<Option<T>>, new: Option<T>) -> Option<T> {
    // SAFETY: as the caller promises.
    std::mem::replace(unsafe { &mut *cell.get() }, new)
}

/// # Safety
/// No other thread touches the cell during the call; the model asserts it.
#[cfg(loom)]
unsafe fn put<T>(cell: &UnsafeCell<Option<T>>, new: Option<T>) -> Option<T> {
    // SAFETY: as the caller promises.
    cell.with_mut(|cell| std::mem::replace(unsafe { &mut *cell }, new))
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::os::sync::Arc;
    use loom::thread;

    type Task = Box<u32>;

    struct World {
        seat: Seat<Task>,
        /// A word that wakers write before they wake.
        said: AtomicU32,
        polls: AtomicU32,
        seen: AtomicU32,
    }

    impl World {
        fn new() -> Arc<World> {
            let (said, polls, seen) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
            Arc::new(World { seat: Seat::new(), said, polls, seen })
        }

        /// Polls the task until it blocks, as a worker that has its box.
        fn run(&self, mut task: Task) {
            loop {
                let poll = self.seat.begin();
                self.polls.fetch_add(1, Ordering::Relaxed);
                self.seen.store(self.said.load(Ordering::Relaxed), Ordering::Relaxed);
                drop(poll);
                *task += 1;
                if !self.seat.is_scheduled() {
                    // SAFETY: the model keeps the world alive.
                    match unsafe { Seat::block(&raw const self.seat, task) } {
                        None => return,
                        Some(woken) => task = woken,
                    }
                }
            }
        }

        fn wake(&self) {
            self.said.fetch_add(1, Ordering::Relaxed);
            self.seat.wake().into_iter().for_each(|task| self.run(task));
        }

        /// Checks the end of the model: no thread runs any more.
        fn is_settled(&self) {
            assert_eq!(self.seen.load(Ordering::Relaxed), self.said.load(Ordering::Relaxed));
            let task = self.seat.wake().expect("the task is blocked");
            assert_eq!(*task, self.polls.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn no_wake_up_is_lost_and_the_box_has_one_owner() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let world = World::new();
            let wakers = [(); 2].map(|()| {
                let world = world.clone();
                thread::spawn(move || world.wake())
            });
            world.run(Box::new(0));
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
            world.is_settled();
        });
    }

    #[test]
    fn whoever_looks_loses_no_wake_up() {
        loom::model(|| {
            let world = World::new();
            world.run(Box::new(0));
            let (waker, other) = (world.clone(), world.clone());
            let waker = thread::spawn(move || waker.wake());
            let looker = thread::spawn(move || {
                let (_, woken) = other.seat.look(|task| **task);
                woken.into_iter().for_each(|task| other.run(task));
            });
            waker.join().unwrap();
            looker.join().unwrap();
            world.is_settled();
        });
    }
}
