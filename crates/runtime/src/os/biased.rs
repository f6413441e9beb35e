//! A lock for a value that one thread takes again and again. For that thread, the *favourite*, it costs no locked
//! instruction.
//!
//! ```text
//!   favourite  sets its mark; checks that it is still the favourite. If it is not, it acts as a guest
//!   guest      takes the mutex. If there is a favourite: removes it, makes all threads pass a barrier, and waits
//!              while the mark of the former favourite is set
//! ```
//!
//! At least one of the two sees the other. All threads see the favourite's store before its load: the guest makes the
//! favourite's thread pass a barrier between its own store and load (membarrier(2), some microseconds). A thread
//! becomes the favourite when it has taken the lock so often in a row that this cost is small in comparison. Where the
//! kernel has no such barrier, no thread becomes the favourite.
//!
//! (Rejected: a mark in the lock. A former favourite that does not know yet that it lost the lock would clear the mark
//! of the next favourite. So each thread has one mark of its own for all such locks, and holds one of them at a time.)
//!
//! Invariant, modelled in loom: one thread at a time has the value.

use crate::os::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering, UnsafeCell, lock};
use crate::os::wait::{
    barrier_for_all, barrier_for_own, barrier_is_there, let_others_run, prepare_barrier,
};

/// The number of times in a row that a thread takes the lock before it becomes the favourite.
#[cfg(not(loom))]
const COURTS: u32 = 64;
#[cfg(loom)]
const COURTS: u32 = 1;

/// The thread number that means "no favourite".
const NOBODY: u32 = u32::MAX;

/// The marks of all threads that may become a favourite, by thread number. A mark is set while its thread holds a lock
/// as the favourite. A thread holds one such lock at a time.
#[derive(Debug)]
pub(crate) struct Marks(Box<[Mark]>);

/// The mark of one thread, alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Mark(AtomicBool);

impl Marks {
    /// Makes the marks of this many threads. Registers for the kernel's barrier, if there are any.
    pub(crate) fn new(threads: usize) -> Arc<Marks> {
        if threads > 0 {
            prepare_barrier();
        }
        Arc::new(Marks((0..threads).map(|_| Mark(AtomicBool::new(false))).collect()))
    }
}

/// A lock together with the value that it guards.
#[derive(Debug)]
pub(crate) struct Biased<T> {
    marks: Arc<Marks>,
    /// The favourite's thread number. Written under the mutex.
    favourite: AtomicU32,
    guests: Mutex<Guests>,
    value: UnsafeCell<T>,
}

/// The numbered guest that took the lock last, and how often it did so in a row.
#[derive(Debug)]
struct Guests {
    last: u32,
    times: u32,
}

// SAFETY: only the holder of the lock touches the value, and one thread holds it at a time. So `T` is at most sent.
unsafe impl<T: Send> Sync for Biased<T> {}

/// A set mark: the thread holds a lock as its favourite. The mark is cleared on drop, also when a panic unwinds.
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

    /// Holds the lock while `section` runs, for the thread of that number. A thread whose number has no mark is always
    /// a guest. The section takes no lock.
    #[inline]
    pub(crate) fn with<R>(&self, thread: u32, section: impl FnOnce(&mut T) -> R) -> R {
        let Some(mark) = self.marks.0.get(thread as usize) else {
            return self.as_guest(NOBODY, section);
        };
        mark.0.store(true, Ordering::Relaxed);
        let holds = Holds(mark);
        barrier_for_own();
        // Acquire: sees the writes of the guest that made this thread the favourite.
        if self.favourite.load(Ordering::Acquire) == thread {
            // SAFETY: a guest that arrived after the mark was set waits until it is cleared. A guest that arrived
            // before has removed the favourite, which the load above sees.
            return unsafe { touch(&self.value, section) };
        }
        drop(holds);
        self.as_guest(thread, section)
    }

    /// Holds the lock while `section` runs, for any thread.
    pub(crate) fn with_guest<R>(&self, section: impl FnOnce(&mut T) -> R) -> R {
        self.as_guest(NOBODY, section)
    }

    #[cold]
    fn as_guest<R>(&self, thread: u32, section: impl FnOnce(&mut T) -> R) -> R {
        let mut guests = lock(&self.guests);
        if let Some(mark) = self.marks.0.get(self.favourite.load(Ordering::Relaxed) as usize) {
            self.favourite.store(NOBODY, Ordering::Relaxed);
            barrier_for_all();
            // Acquire: sees the favourite's writes.
            while mark.0.load(Ordering::Acquire) {
                let_others_run();
            }
        }
        // SAFETY: this thread holds the mutex, and there is no favourite.
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
/// No other thread touches the value during the call.
#[cfg(not(loom))]
#[inline]
unsafe fn touch<T, R>(value: &UnsafeCell<T>, section: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: as the caller promises.
    section(unsafe { &mut *value.get() })
}

/// # Safety
/// No other thread touches the value during the call; the model asserts it.
#[cfg(loom)]
unsafe fn touch<T, R>(value: &UnsafeCell<T>, section: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: as the caller promises.
    value.with_mut(|value| section(unsafe { &mut *value }))
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;

    fn add_as(lock: &Biased<u32>, thread: u32) {
        lock.with(thread, |value| *value += 1);
    }

    /// Two threads are favourites or about to become one, and a third has no number. Seen failing without the barrier
    /// on either side, and with a guest that does not wait for the mark.
    #[test]
    fn one_at_a_time_has_it() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let lock = Arc::new(Biased::new(&Marks::new(2), 0));
            // This call makes the thread the favourite.
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

    /// Two threads take the favourite's place from each other.
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
