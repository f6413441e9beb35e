//! Mutexes as real programs have them: words on which the kernel lets threads sleep
//! ([futex(2)](https://man7.org/linux/man-pages/man2/futex.2.html)).
//!
//! A mutex that barges is like the C library's normal mutex. Locking and unlocking take one atomic operation while no
//! thread waits. A thread marks the word as contended before it waits, and when it takes the word after a wait. A
//! thread that frees a contended word wakes one other, which tries again. The word has the owner's number where the C
//! library's has a 1, so that other threads can see the owner. A mutex that inherits is the kernel's own
//! (`FUTEX_LOCK_PI`), like a pthread mutex with `PTHREAD_PRIO_INHERIT`; its owner is a thread number.
//!
//! The end of a run is a flag in the words that barge. A task that waits in the kernel for a mutex that inherits gets
//! it from the tasks that leave the run before it.

use super::park::wake_all;
use crate::play::mutexes::{Mutexes, Seat, Waited};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_workload::scenario::{MutexKind, ObjectId, Objects};
use rustix::io::Errno;
use rustix::thread::futex::{Flags, lock_pi, unlock_pi, wait, wake};

/// A thread waits. This is the kernel's flag, for both kinds.
const CONTENDED: u32 = 1 << 31;

/// The run is over; only in a word that barges.
const OVER: u32 = 1 << 30;

/// The bits of the owner; 0 means no owner.
const OWNER: u32 = OVER - 1;

/// All words of a run, by the numbers of the mutexes. The words of mutexes that hand over are unused.
#[derive(Debug)]
pub(super) struct Words {
    words: Vec<Word>,
    /// 1 when the run is over.
    over: AtomicU32,
}

/// The word of a mutex, in a cache line of its own, as in carefully written programs.
#[derive(Debug)]
#[repr(align(64))]
struct Word {
    kind: MutexKind,
    word: AtomicU32,
    /// The last time at which a contended word was freed, before its waiter was woken.
    freed: AtomicU64,
    /// For a mutex that inherits: the owning task's number plus one, once the task has stored it.
    task: AtomicU32,
}

/// Whether a mutex of this kind has a word.
fn has_word(kind: MutexKind) -> bool {
    kind != MutexKind::HandOver
}

impl Words {
    /// The mutexes of a scenario, if it has some of these kinds.
    pub(super) fn of(objects: &Objects) -> Option<Words> {
        let kinds = || objects.mutexes.iter().map(|&(_, kind)| kind);
        let words = kinds().map(Word::new).collect();
        kinds().any(has_word).then_some(Words { words, over: AtomicU32::new(0) })
    }

    fn word(&self, mutex: ObjectId) -> &Word {
        &self.words[mutex.0 as usize]
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) != 0
    }
}

impl Mutexes for Words {
    fn has(&self, kind: MutexKind) -> bool {
        has_word(kind)
    }

    fn try_lock(&self, seat: &Seat, mutex: ObjectId) -> bool {
        let word = self.word(mutex);
        let own = word.name(seat);
        let taken =
            word.word.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            word.is_had_by(seat);
        }
        taken
    }

    fn wait(&self, seat: &Seat, mutex: ObjectId, now: &dyn Fn() -> Time) -> Waited {
        let word = self.word(mutex);
        match word.kind {
            MutexKind::Inherit => {
                let waited = word.wait_for_kernels(now);
                match waited {
                    // The mutex comes from a task that leaves the run, and leaves in the same way.
                    Waited::Has(_) if self.is_over() => return Waited::Over,
                    Waited::Has(_) => word.is_had_by(seat),
                    Waited::Woken(_) | Waited::InVain | Waited::Over => {}
                }
                waited
            }
            MutexKind::Barge | MutexKind::HandOver => word.wait(seat),
        }
    }

    fn unlock(&self, seat: &Seat, mutex: ObjectId, now: &dyn Fn() -> Time) {
        let word = self.word(mutex);
        if word.owner() == word.name(seat) {
            word.free(&|| word.freed.store(now().0, Ordering::Release));
        }
    }

    fn wait_for_end(&self) {
        while !self.is_over() {
            // A wake-up, a late call and an interruption all end the wait; the word tells which.
            let _ = wait(&self.over, Flags::PRIVATE, 0, None);
        }
    }

    fn is_free_for(&self, seat: &Seat, mutex: ObjectId) -> bool {
        let word = self.word(mutex);
        let owner = word.owner();
        owner == 0 || owner == word.name(seat)
    }

    fn owner(&self, mutex: ObjectId) -> Option<TaskId> {
        let word = self.word(mutex);
        let number = match word.kind {
            MutexKind::Inherit => word.task.load(Ordering::Acquire),
            MutexKind::Barge | MutexKind::HandOver => word.owner(),
        };
        Some(TaskId(u64::from(number.checked_sub(1)?)))
    }

    fn end(&self) {
        self.over.store(1, Ordering::Release);
        wake_all(&self.over);
        for word in self.words.iter().filter(|word| word.kind == MutexKind::Barge) {
            word.word.fetch_or(OVER, Ordering::AcqRel);
            wake_all(&word.word);
        }
    }

    fn leave(&self, seat: &Seat) {
        let own = |word: &&Word| word.kind == MutexKind::Inherit && word.owner() == word.name(seat);
        self.words.iter().filter(own).for_each(|word| word.free_kernels(&|| {}));
    }
}

impl Word {
    fn new(kind: MutexKind) -> Word {
        let [word, task] = [0, 0].map(AtomicU32::new);
        Word { kind, word, freed: AtomicU64::new(0), task }
    }

    /// The value of the word while the task of the seat has the mutex and no task waits.
    fn name(&self, seat: &Seat) -> u32 {
        match self.kind {
            MutexKind::Inherit => seat.thread.load(Ordering::Relaxed),
            MutexKind::Barge | MutexKind::HandOver => number(seat.task),
        }
    }

    fn owner(&self) -> u32 {
        self.word.load(Ordering::SeqCst) & OWNER
    }

    fn is_had_by(&self, seat: &Seat) {
        if self.kind == MutexKind::Inherit {
            self.task.store(number(seat.task), Ordering::Release);
        }
    }

    /// Waits for a mutex that barges, once.
    fn wait(&self, seat: &Seat) -> Waited {
        let own = self.name(seat);
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen & OVER != 0 {
                return Waited::Over;
            }
            // Other threads may wait, unknown to this one.
            let then = if seen & OWNER == 0 { own } else { seen } | CONTENDED;
            let changed = || {
                self.word.compare_exchange(seen, then, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            };
            match seen & OWNER {
                owner if owner == own => return Waited::InVain,
                0 if changed() => return Waited::Has(None),
                0 => continue,
                _ if seen == then || changed() => {}
                _ => continue,
            }
            match wait(&self.word, Flags::PRIVATE, then, None) {
                Ok(()) if self.word.load(Ordering::Acquire) & OVER != 0 => return Waited::Over,
                Ok(()) => return Waited::Woken(Time(self.freed.load(Ordering::Acquire))),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => panic!("a thread sleeps on a word of its own process: {error}"),
            }
        }
    }

    /// Waits for a mutex that inherits.
    fn wait_for_kernels(&self, now: &dyn Fn() -> Time) -> Waited {
        let began = now();
        loop {
            match lock_pi(&self.word, Flags::PRIVATE, None) {
                Ok(()) => {
                    let freed = Time(self.freed.load(Ordering::Acquire));
                    return Waited::Has((freed >= began).then_some(freed));
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                // The owners form a circle that includes this task, or an owner ended with the mutex.
                Err(_) => return Waited::InVain,
            }
        }
    }

    /// Gives back the calling task's mutex. It calls `waking` before it wakes a waiter.
    fn free(&self, waking: &dyn Fn()) {
        if self.kind == MutexKind::Inherit {
            self.task.store(0, Ordering::Release);
            return self.free_kernels(waking);
        }
        if self.word.fetch_and(OVER, Ordering::SeqCst) & CONTENDED != 0 {
            waking();
            wake(&self.word, Flags::PRIVATE, 1)
                .expect("a word of one's own process can be woken on");
        }
    }

    fn free_kernels(&self, waking: &dyn Fn()) {
        let own = self.owner();
        if self.word.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            waking();
            unlock_pi(&self.word, Flags::PRIVATE).expect("the owner gives the mutex back");
        }
    }
}

fn number(task: TaskId) -> u32 {
    task.0 as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicUsize};
    use rustix::thread::gettid;

    const M: ObjectId = ObjectId(0);

    fn one(kind: MutexKind) -> Words {
        let mutexes = vec![("m".to_owned(), kind)];
        Words::of(&Objects { mutexes, ..Objects::default() }).expect("it has a word")
    }

    /// A seat of the calling thread.
    fn seat(task: u64) -> Seat {
        let seat = Seat::new(TaskId(task));
        seat.thread.store(gettid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
        seat
    }

    fn lock(words: &Words, seat: &Seat) {
        if words.try_lock(seat, M) {
            return;
        }
        loop {
            match words.wait(seat, M, &|| Time(1)) {
                Waited::Has(_) => return,
                Waited::Woken(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Many threads take the mutex again and again. At most one has it at a time, and all of them end, so none is left
    /// asleep.
    #[test]
    fn one_at_a_time_has_it_and_nobody_is_left_asleep() {
        for kind in [MutexKind::Barge, MutexKind::Inherit] {
            let shared = Arc::new((one(kind), AtomicUsize::new(0), AtomicUsize::new(0)));
            let work = |task: u64| {
                let (words, inside, sum) = &*shared.clone();
                let seat = seat(task);
                for round in 0..3_000 {
                    lock(words, &seat);
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "{kind:?}");
                    assert_eq!(words.owner(M), Some(TaskId(task)));
                    sum.fetch_add(1, Ordering::Relaxed);
                    if (round + task).is_multiple_of(7) {
                        std::thread::yield_now();
                    }
                    inside.fetch_sub(1, Ordering::Relaxed);
                    words.unlock(&seat, M, &|| Time(1));
                }
            };
            std::thread::scope(|scope| (0..6).for_each(|task| _ = scope.spawn(move || work(task))));
            assert_eq!(shared.2.load(Ordering::Relaxed), 18_000);
            assert_eq!(
                (shared.0.owner(M), shared.0.word(M).word.load(Ordering::Relaxed)),
                (None, 0)
            );
        }
    }

    #[test]
    fn what_is_anothers_is_not_given_back() {
        for kind in [MutexKind::Barge, MutexKind::Inherit] {
            let words = one(kind);
            let own = seat(0);
            assert!(words.try_lock(&own, M));
            let other = std::thread::scope(|scope| {
                scope.spawn(|| words.unlock(&seat(1), M, &|| Time(1))).join().is_ok()
            });
            assert!(other && words.owner(M) == Some(TaskId(0)) && words.is_free_for(&own, M));
            assert_eq!(words.wait(&own, M, &|| Time(1)), Waited::InVain, "it has it itself");
        }
    }

    #[test]
    fn at_the_end_nobody_waits_any_longer() {
        let words = one(MutexKind::Barge);
        assert!(words.try_lock(&seat(0), M));
        let waited = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| words.wait(&seat(1), M, &|| Time(1)));
            let vain = scope.spawn(|| words.wait_for_end());
            while words.word(M).word.load(Ordering::Relaxed) & CONTENDED == 0 {
                std::thread::yield_now();
            }
            words.end();
            vain.join().unwrap();
            waiter.join().unwrap()
        });
        assert_eq!((waited, words.owner(M)), (Waited::Over, Some(TaskId(0))));
    }
}
