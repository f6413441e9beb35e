//! Waits for a change of a word, by a lock and a condition variable that many words share.
//!
//! A waiter compares the word under the lock, and keeps the lock until the condition variable has registered it. A
//! thread that wakes others has changed the word before, and takes the lock before it notifies. So the waiter either
//! sees the change, or is registered when the notification comes.

use crate::os::portable::thread;
use crate::os::sync::{AtomicU32, Mutex, Ordering, lock};
use runyard_engine::time::Time;
use std::sync::Condvar;
use std::time::Duration;

/// The number of beds: pairs of a lock and a condition variable. The address of a word selects its bed, and all waiters
/// of a bed are woken together.
const BEDS: usize = 64;

/// The smallest distance between two words, in bytes.
const WORD: usize = size_of::<AtomicU32>();

static ALL: [Bed; BEDS] = [const { Bed { lock: Mutex::new(()), told: Condvar::new() } }; BEDS];

struct Bed {
    lock: Mutex<()>,
    told: Condvar,
}

fn bed(word: &AtomicU32) -> &'static Bed {
    let address = std::ptr::from_ref(word).addr() / WORD;
    // Words at equal distances, as in an array of structures, should have different beds.
    &ALL[address.wrapping_mul(0x9E37_79B1) / BEDS % BEDS]
}

/// Waits until another thread wakes this word, while the word is `expected`, and until `deadline` on the clock of
/// [`thread::now`] at the latest. May return spuriously: callers check and wait again.
pub(crate) fn wait(word: &AtomicU32, expected: u32, deadline: Option<Time>) {
    let bed = bed(word);
    let guard = lock(&bed.lock);
    if word.load(Ordering::SeqCst) != expected {
        return;
    }
    let Some(deadline) = deadline else {
        drop(bed.told.wait(guard));
        return;
    };
    let left = Duration::from_nanos(deadline.since(thread::now()).0);
    if !left.is_zero() {
        drop(bed.told.wait_timeout(guard, left));
    }
}

/// Wakes one thread that waits for this word. May also wake others spuriously.
pub(crate) fn wake(word: &AtomicU32) {
    wake_all(word);
}

/// Wakes every thread that waits for this word.
pub(crate) fn wake_all(word: &AtomicU32) {
    let bed = bed(word);
    drop(lock(&bed.lock));
    bed.told.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::time::Nanos;

    #[test]
    fn who_waits_sees_the_change_or_is_woken() {
        const ROUNDS: u32 = 2_000;
        // There are as many words as threads, and more pairs than beds, so some pairs share a bed.
        let words: Vec<_> = (0..2 * BEDS).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for mine in [0, 1] {
                let words = &words;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let word = &words[round as usize % words.len()];
                        // Even numbers are one thread's turn, odd numbers the other's.
                        loop {
                            let now = word.load(Ordering::SeqCst);
                            if now % 2 == mine {
                                word.store(now + 1, Ordering::SeqCst);
                                wake(word);
                                break;
                            }
                            wait(word, now, None);
                        }
                    }
                });
            }
        });
        assert_eq!(words.iter().map(|word| word.load(Ordering::SeqCst)).sum::<u32>(), 2 * ROUNDS);
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let (word, until) = (AtomicU32::new(7), thread::now() + Nanos::from_millis(5));
        while thread::now() < until {
            wait(&word, 7, Some(until));
        }
        // The wait ends at once if the deadline has passed, or if the word has another value.
        wait(&word, 7, Some(until));
        wait(&word, 6, None);
    }
}
