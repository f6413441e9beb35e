//! A lock that one thread takes again and again: for that one, the *favourite*, it costs no locked instruction.
//!
//! ```text
//!   favourite  marks that it holds; looks whether it is the favourite still. Else it does as a guest does
//!   guest      takes the mutex; if there is a favourite: says that there is none, makes all threads pass a barrier, and
//!              waits as long as the mark says that it holds
//! ```
//!
//! One of the two sees the other: the favourite's store and load are in this order for all threads, since the guest
//! makes the favourite's thread pass a barrier between its own store and load (membarrier(2), some microseconds). A
//! thread becomes the favourite when it has taken the lock so often in a row that this is little beside it. Where the
//! kernel has no such barrier nobody becomes the favourite.
//!
//! (Rejected: a mark in the lock. A thread that was the favourite, and does not know that it is not, would clear the mark
//! of the next. So each thread has a mark of its own, for all such locks: it holds one of them at a time.)
//!
//! Invariants, modelled in loom: one thread at a time has the value.

use crate::os::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering, UnsafeCell, lock};
use crate::os::wait::{
    barrier_for_all, barrier_for_own, barrier_is_there, let_others_run, prepare_barrier,
};

/// How often a thread takes the lock in a row until it is the favourite.
#[cfg(not(loom))]
const COURTS: u32 = 64;
#[cfg(loom)]
const COURTS: u32 = 1;

/// No favourite.
const NOBODY: u32 = u32::MAX;

/// Whether a thread holds a lock as its favourite: the marks of all threads that want to be one, by their numbers. A
/// thread holds one such lock at a time.
#[derive(Debug)]
pub(crate) struct Marks(Box<[Mark]>);

/// Away from its neighbours' cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Mark(AtomicBool);

impl Marks {
    /// For so many threads. Asks the kernel for the barrier, if there are any.
    pub(crate) fn new(threads: usize) -> Arc<Marks> {
        if threads > 0 {
            prepare_barrier();
        }
        Arc::new(Marks((0..threads).map(|_| Mark(AtomicBool::new(false))).collect()))
    }
}

/// The lock of a value.
#[derive(Debug)]
pub(crate) struct Biased<T> {
    marks: Arc<Marks>,
    /// The number of the favourite. Written with the mutex held.
    favourite: AtomicU32,
    guests: Mutex<Guests>,
    value: UnsafeCell<T>,
}

/// Which guest with a number came last, and how often in a row.
#[derive(Debug)]
struct Guests {
    last: u32,
    times: u32,
}

// SAFETY: the value is touched by who holds the lock, which one thread does at a time; so `T` is sent at most.
unsafe impl<T: Send> Sync for Biased<T> {}

/// Holds the lock as the favourite, also through a panic.
struct Holds<'a>(&'a Mark);

impl Drop for Holds<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

impl<T> Biased<T> {
    pub(crate) fn new(marks: &Arc<Marks>, value: T) -> Biased<T> {
        Biased {
            marks: marks.clone(),
            favourite: AtomicU32::new(NOBODY),
            guests: Mutex::new(Guests { last: NOBODY, times: 0 }),
            value: UnsafeCell::new(value),
        }
    }

    /// Has the lock while `section` runs, by the thread of that number, which is a guest always if there is no such mark.
    /// The section takes no lock.
    #[inline]
    pub(crate) fn with<R>(&self, thread: u32, section: impl FnOnce(&mut T) -> R) -> R {
        let Some(mark) = self.marks.0.get(thread as usize) else {
            return self.as_guest(NOBODY, section);
        };
        mark.0.store(true, Ordering::Relaxed);
        let holds = Holds(mark);
        barrier_for_own();
        // Acquire: it sees what the guest did that was here before it was the favourite.
        if self.favourite.load(Ordering::Acquire) == thread {
            // SAFETY: a guest that came since waits until the mark is gone; one that is there now is seen above.
            return unsafe { touch(&self.value, section) };
        }
        drop(holds);
        self.as_guest(thread, section)
    }

    /// The same, by any thread.
    pub(crate) fn with_guest<R>(&self, section: impl FnOnce(&mut T) -> R) -> R {
        self.as_guest(NOBODY, section)
    }

    #[cold]
    fn as_guest<R>(&self, thread: u32, section: impl FnOnce(&mut T) -> R) -> R {
        let mut guests = lock(&self.guests);
        if let Some(mark) = self.marks.0.get(self.favourite.load(Ordering::Relaxed) as usize) {
            self.favourite.store(NOBODY, Ordering::Relaxed);
            barrier_for_all();
            // Acquire: it sees what the favourite did.
            while mark.0.load(Ordering::Acquire) {
                let_others_run();
            }
        }
        // SAFETY: this thread has the mutex, and there is no favourite.
        let result = unsafe { touch(&self.value, section) };
        let in_a_row = if guests.last == thread { guests.times } else { 0 };
        (guests.last, guests.times) = (thread, in_a_row.saturating_add(1));
        if thread != NOBODY && guests.times >= COURTS && barrier_is_there() {
            self.favourite.store(thread, Ordering::Release);
        }
        result
    }
}

/// # Safety
/// Nobody else touches the value meanwhile.
#[cfg(not(loom))]
#[inline]
unsafe fn touch<T, R>(value: &UnsafeCell<T>, section: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: as the caller says.
    section(unsafe { &mut *value.get() })
}

/// # Safety
/// Nobody else touches the value meanwhile, which the model asserts.
#[cfg(loom)]
unsafe fn touch<T, R>(value: &UnsafeCell<T>, section: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: as the caller says.
    value.with_mut(|value| section(unsafe { &mut *value }))
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;

    fn add_as(lock: &Biased<u32>, thread: u32) {
        lock.with(thread, |value| *value += 1);
    }

    /// Each thread is the favourite, or wants to be, and one has no number. Seen failing: without a barrier of either
    /// side, and with a mark that is not waited for.
    #[test]
    fn one_at_a_time_has_it() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let lock = Arc::new(Biased::new(&Marks::new(2), 0));
            // It is the favourite from here on.
            add_as(&lock, 0);
            let (guests, other) = (lock.clone(), lock.clone());
            let guest = thread::spawn(move || guests.with_guest(|value| *value += 1));
            let next = thread::spawn(move || add_as(&other, 1));
            add_as(&lock, 0);
            guest.join().unwrap();
            next.join().unwrap();
            assert_eq!(lock.with_guest(|value| *value), 4);
        });
    }

    /// Two threads take the favour from each other.
    #[test]
    fn a_favour_changes_hands() {
        loom::model(|| {
            let lock = Arc::new(Biased::new(&Marks::new(2), 0));
            let other = lock.clone();
            let rival = thread::spawn(move || {
                add_as(&other, 1);
                add_as(&other, 1);
            });
            add_as(&lock, 0);
            add_as(&lock, 0);
            rival.join().unwrap();
            assert_eq!(lock.with_guest(|value| *value), 4);
        });
    }
}
