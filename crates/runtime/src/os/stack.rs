//! A copy of a thread's stack and registers, taken by that thread in the signal handler.
//!
//! The handler may have interrupted the allocator or the loader, so it must not follow the stack itself: the tables that
//! say how are found under the loader's lock. It copies words, which takes some microseconds; another thread
//! [follows](super::unwind) the copy.
//!
//! ```text
//!  asker    word := WANTED by that worker; rings its bell; waits
//!  handler  WANTED -> TAKING; copies; TAKING -> TAKEN; wakes the asker
//!  asker    TAKEN -> IDLE and reads; or gives up: WANTED -> IDLE
//! ```
//!
//! Invariant: the copy is written by who made TAKING of WANTED, until TAKEN, and read by the asker after that.

use super::futex;
use super::unwind::{self, Registers};
use crate::os::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use runyard_engine::time::Time;
use std::ops::Range;

/// How many words are copied at the most, which is 64 KiB: `perf` copies as much, and few polls are deeper.
const WORDS: usize = 8 << 10;

const WORD: usize = size_of::<usize>();

const IDLE: u32 = 0;
const TAKING: u32 = 1;
const TAKEN: u32 = 2;

/// As a worker's number, it is wanted by that one.
fn wanted_by(worker: u32) -> u32 {
    worker + 3
}

/// A copy of a stack.
#[derive(Debug)]
pub(crate) struct Copied {
    state: AtomicU32,
    /// Of which poll it is.
    poll: AtomicU64,
    registers: [AtomicUsize; unwind::REGISTERS],
    /// From where the words were copied, and how many there are; none from a stack that is not the thread's.
    base: AtomicUsize,
    len: AtomicUsize,
    words: Box<[AtomicUsize]>,
}

/// What the thread answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The addresses of the functions in which it was.
    Taken(Vec<usize>),
    /// It was in another poll, or in none.
    AnotherPoll,
    /// It was on a stack that is not its own.
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

    /// A worker is to copy its stack when it hears its bell.
    pub(crate) fn ask(&self, worker: u32) {
        let was = self.state.swap(wanted_by(worker), Ordering::SeqCst);
        assert_eq!(was, IDLE, "one stack is copied at a time");
    }

    /// Waits until then. Whether it was copied.
    pub(crate) fn wait(&self, until: Time) -> bool {
        match self.state.load(Ordering::SeqCst) {
            TAKEN => true,
            other => {
                futex::wait(&self.state, other, Some(until));
                self.state.load(Ordering::SeqCst) == TAKEN
            }
        }
    }

    /// The stack is not to be copied any more. `false` if it is being copied, or was.
    pub(crate) fn give_up(&self) -> bool {
        let state = self.state.load(Ordering::SeqCst);
        let is_wanted = state >= wanted_by(0);
        let (old, new) = (state, IDLE);
        is_wanted
            && self.state.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The copy, which was taken, if it is of this poll.
    pub(crate) fn take(&self, poll: u64) -> Answer {
        assert_eq!(self.state.load(Ordering::SeqCst), TAKEN, "a copy is read when it is whole");
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

    /// What was at an address of the stack.
    fn word_at(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.base.load(Ordering::Relaxed))?;
        let nth = offset / WORD;
        let is_there = offset.is_multiple_of(WORD) && nth < self.len.load(Ordering::Relaxed);
        is_there.then(|| self.words[nth].load(Ordering::Relaxed))
    }

    /// Copies the stack of the calling thread, if that is wanted of this worker, which is in `poll` and was interrupted
    /// with these registers. Called in the signal handler.
    ///
    /// # Safety
    /// All of `stack` is the calling thread's, and mapped.
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
            // SAFETY: the word lies between the stack pointer and the end of the thread's stack. Nobody else
            // writes there; what the interrupted code has there is read as it is, and only compared.
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

/// The lowest address of the calling thread's stack, if the C library knows. Not in a signal handler.
pub(crate) fn lowest() -> Option<usize> {
    // SAFETY: attributes of zeros may be written over. The calls write them, and two words to where those are;
    // what was got is destroyed once.
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
