//! Whose turn it is to touch a task, and where the engine's box of a blocked task waits.
//!
//! ```text
//!   RUNNING    begin: it is polled, and until it blocks after that; or somebody looks at it
//!   SCHEDULED  it is in a queue or on its way there; or it was woken while it was RUNNING
//!   IDLE       it is blocked, and its box is in the seat
//!   OVER       it is never polled again
//!
//!   wake   IDLE -> SCHEDULED: takes the box       RUNNING -> SCHEDULED: who has the box sees it
//!   begin  SCHEDULED -> RUNNING
//!   block  RUNNING -> IDLE, with the box in the seat; if it is SCHEDULED the box is given back
//!   look   IDLE -> RUNNING, then as `block`
//! ```
//!
//! So each wake-up takes the box out of the seat, or is seen by whoever has the box. The word is the lock: no other is
//! taken to wake or to block.
//!
//! Invariants, modelled in loom: the box has one owner; no wake-up is lost; whoever gives up the turn touches nothing
//! of the task after that.

use crate::os::sync::{AtomicBool, AtomicU32, Ordering, UnsafeCell};

const IDLE: u32 = 0;
const SCHEDULED: u32 = 1;
const RUNNING: u32 = 2;
const OVER: u32 = 3;

/// The turns of one task, and the seat of its box `T`.
#[derive(Debug)]
pub(crate) struct Seat<T> {
    turn: AtomicU32,
    /// Whether it is in a poll. Written by who has the turn.
    in_poll: AtomicBool,
    seat: UnsafeCell<Option<T>>,
}

// SAFETY: `seat` is touched only by who has the turn, which one thread has at a time; so `T` is sent at most.
unsafe impl<T: Send> Sync for Seat<T> {}

/// A poll, until it is dropped.
#[derive(Debug)]
pub(crate) struct InPoll<'a>(&'a AtomicBool);

impl Drop for InPoll<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Seat<T> {
    /// Of a task that is scheduled.
    pub(crate) fn new() -> Seat<T> {
        Seat {
            turn: AtomicU32::new(SCHEDULED),
            in_poll: AtomicBool::new(false),
            seat: UnsafeCell::new(None),
        }
    }

    /// The task is woken. Its box, if it is blocked: the caller is to queue it.
    #[inline]
    pub(crate) fn wake(&self) -> Option<T> {
        let mut turn = self.turn.load(Ordering::Relaxed);
        loop {
            // Also where nothing changes: the poll that comes sees what the waker did before.
            let next = if turn == OVER { OVER } else { SCHEDULED };
            match self.turn.compare_exchange_weak(turn, next, Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: of all who wake a task that is idle one has the turn.
                Ok(IDLE) => return unsafe { self.take() },
                Ok(_) => return None,
                Err(now) => turn = now,
            }
        }
    }

    /// The task is woken by its own poll, on the calling thread.
    #[inline]
    pub(crate) fn wake_in_poll(&self) {
        self.turn.store(SCHEDULED, Ordering::Release);
    }

    /// Whether it was woken, asked by who polled it.
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.turn.load(Ordering::Acquire) == SCHEDULED
    }

    /// Its poll begins.
    ///
    /// # Panics
    /// If it is not scheduled, or is in a poll.
    #[inline]
    pub(crate) fn begin(&self) -> InPoll<'_> {
        let turn = self.turn.swap(RUNNING, Ordering::AcqRel);
        assert!(turn == SCHEDULED, "a task is polled when it was scheduled");
        assert!(!self.in_poll.load(Ordering::Acquire), "a task is polled by one at a time");
        self.in_poll.store(true, Ordering::Relaxed);
        InPoll(&self.in_poll)
    }

    /// It was polled for the last time, by the caller.
    pub(crate) fn end(&self) {
        self.turn.store(OVER, Ordering::Release);
    }

    /// Its poll is over, and it blocks. The box, if it was woken meanwhile.
    ///
    /// # Safety
    /// `seat` leads to a seat that lives for as long as `task` does, and as long as its task is RUNNING; `task` is the
    /// box of that task.
    #[inline]
    pub(crate) unsafe fn block(seat: *const Seat<T>, task: T) -> Option<T> {
        // SAFETY: as the caller says, the seat lives until the turn is given up below; nothing is touched after that.
        let (turn, in_poll, place) = unsafe { (&(*seat).turn, &(*seat).in_poll, &(*seat).seat) };
        assert!(!in_poll.load(Ordering::Acquire), "its poll is over");
        // SAFETY: the caller has the turn, since it has the box.
        unsafe { put(place, Some(task)) };
        match turn.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => None,
            // SAFETY: whoever woke the task left the turn to who has the box.
            Err(_) => unsafe { put(place, None) },
        }
    }

    /// Looks at the box of a task that is blocked. What `look` said, and the box, if the task was woken
    /// meanwhile: the caller is to queue it.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> (Option<R>, Option<T>) {
        if self.turn.compare_exchange(IDLE, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return (None, None);
        }
        // SAFETY: the caller has the turn.
        let Some(mut task) = (unsafe { self.take() }) else {
            unreachable!("a task that is idle has its box here")
        };
        let said = look(&mut task);
        // SAFETY: the seat is borrowed, so it lives.
        let woken = unsafe { Seat::block(self, task) };
        (Some(said), woken)
    }

    /// # Safety
    /// The caller has the turn.
    unsafe fn take(&self) -> Option<T> {
        // SAFETY: as the caller says.
        unsafe { put(&self.seat, None) }
    }
}

/// # Safety
/// Nobody else touches the cell.
#[cfg(not(loom))]
unsafe fn put<T>(cell: &UnsafeCell<Option<T>>, new: Option<T>) -> Option<T> {
    // SAFETY: as the caller says.
    std::mem::replace(unsafe { &mut *cell.get() }, new)
}

/// # Safety
/// Nobody else touches the cell, which the model asserts.
#[cfg(loom)]
unsafe fn put<T>(cell: &UnsafeCell<Option<T>>, new: Option<T>) -> Option<T> {
    // SAFETY: as the caller says.
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
        /// What wakers say before they wake.
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
                    // SAFETY: the model holds the world.
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

        /// Nobody runs any more.
        fn is_settled(&self) {
            assert_eq!(self.seen.load(Ordering::Relaxed), self.said.load(Ordering::Relaxed));
            let task = self.seat.wake().expect("it is blocked");
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
