//! A copy of a thread's stack and registers, taken by that thread in the signal handler.
//!
//! The handler may have interrupted the allocator or the loader, so it must not follow the stack itself: the tables for
//! that are found under the loader's lock. It copies words, which takes some microseconds; another thread
//! [follows](super::unwind) the copy.
//!
//! ```text
//!  asker    word := WANTED by that worker; rings its bell; waits
//!  handler  WANTED -> TAKING; copies; TAKING -> TAKEN; wakes the asker
//!  asker    TAKEN -> IDLE and reads; or gives up: WANTED -> IDLE
//! ```
//!
//! Invariant: from WANTED -> TAKING until TAKEN, only the thread that made this change writes the copy. After that, the
//! asker reads it.

use super::futex;
use super::unwind::{self, Registers};
use crate::os::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use runyard_engine::time::Time;
use std::ops::Range;

/// The most words that are copied, 64 KiB: `perf` copies as much, and few polls are deeper.
const WORDS: usize = 8 << 10;

const WORD: usize = size_of::<usize>();

const IDLE: u32 = 0;
const TAKING: u32 = 1;
const TAKEN: u32 = 2;

/// Returns the state in which the copy is wanted of the worker with this number.
fn wanted_by(worker: u32) -> u32 {
    worker + 3
}

/// A copy of a stack.
#[derive(Debug)]
pub(crate) struct Copied {
    state: AtomicU32,
    /// The poll of the copy.
    poll: AtomicU64,
    registers: [AtomicUsize; unwind::REGISTERS],
    /// The address from which the words were copied, and their number; no words if the stack is not the thread's own.
    base: AtomicUsize,
    len: AtomicUsize,
    words: Box<[AtomicUsize]>,
}

/// The answer of a thread.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The addresses in the functions that the thread was in.
    Taken(Vec<usize>),
    /// The thread was in another poll, or in none.
    AnotherPoll,
    /// The thread was on a stack other than its own.
    AnotherStack,
}

impl Copied {
    pub(crate) fn new() -> Copied {
        Copied {
            state: AtomicU32::new(IDLE),
            poll: AtomicU64::new(0),
            registers: std::array::from_fn(|_| AtomicUsize::new(0)),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            words: (0..WORDS).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Asks a worker to copy its stack when its bell rings.
    pub(crate) fn ask(&self, worker: u32) {
        let was = self.state.swap(wanted_by(worker), Ordering::SeqCst);
        assert_eq!(was, IDLE, "one stack is copied at a time");
    }

    /// Waits for the copy until this instant. Returns whether it was made.
    pub(crate) fn wait(&self, until: Time) -> bool {
        match self.state.load(Ordering::SeqCst) {
            TAKEN => true,
            other => {
                futex::wait(&self.state, other, Some(until));
                self.state.load(Ordering::SeqCst) == TAKEN
            }
        }
    }

    /// Withdraws the request. Returns `false` if the stack is being copied, or was.
    pub(crate) fn give_up(&self) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        let is_wanted = state >= wanted_by(0);
        let (old, new) = (state, IDLE);
        is_wanted
            && self.state.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Takes the finished copy, if it is of this poll.
    pub(crate) fn take(&self, poll: u64) -> Answer {
        assert_eq!(self.state.load(Ordering::SeqCst), TAKEN, "a copy is read when it is complete");
        let answer = if self.poll.load(Ordering::Relaxed) != poll {
            Answer::AnotherPoll
        } else if self.len.load(Ordering::Relaxed) == 0 {
            Answer::AnotherStack
        } else {
            let registers = std::array::from_fn(|nth| self.registers[nth].load(Ordering::Relaxed));
            Answer::Taken(unwind::addresses(registers, |address| self.word_at(address)))
        };
        self.state.store(IDLE, Ordering::SeqCst);
        answer
    }

    /// Returns the word at an address of the stack.
    fn word_at(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.base.load(Ordering::Relaxed))?;
        let nth = offset / WORD;
        let is_there = offset.is_multiple_of(WORD) && nth < self.len.load(Ordering::Relaxed);
        is_there.then(|| self.words[nth].load(Ordering::Relaxed))
    }

    /// Copies the stack of the calling thread, if the copy is wanted of this worker, which is in `poll` and was
    /// interrupted with these registers. Called in the signal handler.
    ///
    /// # Safety
    /// All of `stack` belongs to the calling thread and is mapped.
    pub(super) unsafe fn answer(
        &self,
        worker: u32,
        poll: u64,
        stack: Range<usize>,
        registers: impl FnOnce() -> Registers,
    ) {
        let (old, new) = (wanted_by(worker), TAKING);
        if self.state.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        let registers = registers();
        for (to, &from) in self.registers.iter().zip(&registers) {
            to.store(from, Ordering::Relaxed);
        }
        let base = registers[unwind::SP] / WORD * WORD;
        let own = stack.contains(&base);
        let len = if own { ((stack.end - base) / WORD).min(WORDS) } else { 0 };
        for (nth, to) in self.words[..len].iter().enumerate() {
            // SAFETY: the word lies between the stack pointer and the end of the thread's stack. No other thread writes
            // there. The value is read as the interrupted code left it, and is only compared.
            let word = unsafe { ((base + nth * WORD) as *const usize).read_volatile() };
            to.store(word, Ordering::Relaxed);
        }
        self.poll.store(poll, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.state.store(TAKEN, Ordering::SeqCst);
        futex::wake(&self.state);
    }
}

/// Returns the lowest address of the calling thread's stack, if the C library knows it. Not for signal handlers.
pub(crate) fn lowest() -> Option<usize> {
    // SAFETY: zeroed attributes may be overwritten. The calls write them and two words into valid places; the
    // attributes are destroyed once if they were read.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
        let known =
            libc::pthread_attr_getstack(&raw const attributes, &raw mut lowest, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        (known == 0).then(|| lowest.addr())
    }
}
