//! Words of the calling thread: a value that is lent to it for a time, whether it serves workers, whether it is in the
//! signal handler, and whether it holds the steering of a thread.
//!
//! The words are initialised at compile time and have no destructor. So to read one is one load relative to the thread
//! pointer, in a signal handler too, and never registers anything (H2).

use std::cell::Cell;
use std::ptr;
use std::thread::LocalKey;

thread_local! {
    /// Whether this is a thread of a runtime that serves its workers.
    static SERVANT: Cell<bool> = const { Cell::new(false) };
    /// Whether the thread is in the signal handler.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
    /// The number of threads whose steering the thread holds.
    static STEERS: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether the calling thread serves a runtime's workers: a keeper, a maker or a teller.
pub(crate) fn is_servant() -> bool {
    SERVANT.get()
}

/// Marks the calling thread as one that serves workers.
pub(crate) fn be_servant() {
    SERVANT.set(true);
}

/// Returns whether the calling thread is in the signal handler, where much is forbidden (H1).
pub(crate) fn is_handling() -> bool {
    HANDLING.get()
}

/// Marks the calling thread as being in the signal handler while `body` runs.
pub(crate) fn handling(body: impl FnOnce()) {
    HANDLING.set(true);
    body();
    HANDLING.set(false);
}

/// Returns whether the calling thread holds the steering of a thread.
pub(crate) fn steers() -> bool {
    STEERS.get() > 0
}

/// Marks the calling thread as one that holds the steering of a thread while `body` runs.
pub(crate) fn steering<R>(body: impl FnOnce() -> R) -> R {
    counted(&STEERS, body)
}

/// Runs `body` while a count of the calling thread is higher by one.
#[inline]
pub(crate) fn counted<R>(count: &'static LocalKey<Cell<u32>>, body: impl FnOnce() -> R) -> R {
    struct End(&'static LocalKey<Cell<u32>>);
    impl Drop for End {
        #[inline]
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    count.set(count.get() + 1);
    let _end = End(count);
    body()
}

/// A thread's word that points to a value while the value is lent. It has no destructor.
pub(crate) struct Lent<T>(Cell<*const T>);

impl<T> Lent<T> {
    /// Makes a word that points nowhere.
    pub(crate) const fn none() -> Lent<T> {
        Lent(Cell::new(ptr::null()))
    }

    /// Makes the word point to `value` while `body` runs, and then to what it pointed to before, also if `body` panics.
    pub(crate) fn lend<R>(&self, value: &T, body: impl FnOnce() -> R) -> R {
        struct End<'a, T>(&'a Cell<*const T>, *const T);
        impl<T> Drop for End<'_, T> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _end = End(&self.0, self.0.replace(value));
        body()
    }

    /// Calls `body` with the value, if one is lent. May be called in a signal handler.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(Option<&T>) -> R) -> R {
        let value = self.0.get();
        // SAFETY: the pointer is set only while `lend` borrows the value, and is reset if that panics. An outer call of
        // `lend` borrows its value for longer than an inner one. Only the thread of the word reads it, so the value lives
        // as long as `body` runs.
        body(unsafe { value.as_ref() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_points_nowhere_after_a_panic() {
        let word = Lent::none();
        let is_there = || word.with(|value| value == Some(&7));
        let panics = || word.lend(&7, || assert!(!is_there(), "it is lent"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert!(!is_there());
    }

    /// A task may run the tasks of another runtime in its poll.
    #[test]
    fn a_word_points_to_the_outer_value_after_the_inner_one() {
        let word = Lent::none();
        let value = || word.with(|value| value.copied());
        word.lend(&7, || {
            word.lend(&8, || assert_eq!(value(), Some(8)));
            assert_eq!(value(), Some(7));
        });
        assert_eq!(value(), None);
    }
}
