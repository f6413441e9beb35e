//! Timers with slack: each has an earliest moment (soft expiry) and a latest one (hard expiry).
//!
//! The queue is ordered by hard expiry, and the next interrupt is programmed for the first hard
//! expiry alone. The walk in an interrupt runs timers in that order as long as their soft expiry
//! has come, and stops at the first whose has not, as the kernel's does (`hrtimer_run_queues`):
//! timers behind it wait, though their window may be open. It minimises interrupts, not delay.
//!
//! Invariants: a timer is never taken before its soft expiry; a cancelled timer is never taken;
//! of two timers that are due, the one with the earlier hard expiry is taken first.

use crate::heap::{Forest, Heap, Index};
use crate::slots::Slots;
use crate::time::Time;

/// When a timer may expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Not before this.
    pub soft: Time,
    /// Not after this, if the CPU is awake.
    pub hard: Time,
}

impl Window {
    /// A window without slack.
    #[must_use]
    pub fn exact(at: Time) -> Window {
        Window { soft: at, hard: at }
    }
}

/// A timer of one queue, for ever: a place that is used again gets a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId {
    slot: Index,
    generation: u32,
}

/// What the host wants back when a timer expires; the queue does not look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

#[derive(Debug)]
struct Timer {
    window: Window,
    token: Token,
    generation: u32,
}

/// The timers of one CPU.
#[derive(Debug)]
pub struct TimerQueue {
    timers: Slots<Timer>,
    forest: Forest<(Time, u64)>,
    by_hard: Heap,
    /// Orders timers of the same hard expiry by arming.
    armed: u64,
}

impl Default for TimerQueue {
    fn default() -> TimerQueue {
        TimerQueue {
            timers: Slots::new(),
            forest: Forest::new(),
            by_hard: Heap::default(),
            armed: 0,
        }
    }
}

impl TimerQueue {
    /// Makes room for `len` timers in all. Arming beyond the room allocates.
    pub fn reserve(&mut self, len: usize) {
        self.timers.grow(len);
        self.forest.grow(len);
    }

    /// Queues a timer.
    ///
    /// # Panics
    /// If the window ends before it begins.
    pub fn arm(&mut self, window: Window, token: Token) -> TimerId {
        assert!(window.soft <= window.hard, "a window ends after it begins: {window:?}");
        if self.timers.is_full() {
            self.reserve((self.timers.capacity() * 2).max(8));
        }
        let generation = self.armed as u32;
        let slot = self.timers.insert(Timer { window, token, generation });
        self.enqueue(slot, window.hard);
        TimerId { slot, generation }
    }

    /// Gives a queued timer another window; `false` if it was taken or cancelled before.
    ///
    /// # Panics
    /// If the window ends before it begins.
    pub fn change(&mut self, id: TimerId, window: Window) -> bool {
        assert!(window.soft <= window.hard, "a window ends after it begins: {window:?}");
        let Some(timer) = self.timers.get_mut(id.slot).filter(|t| t.generation == id.generation)
        else {
            return false;
        };
        timer.window = window;
        self.forest.remove(&mut self.by_hard, id.slot);
        self.enqueue(id.slot, window.hard);
        true
    }

    /// Takes a queued timer out, from whichever CPU; `false` if it was taken or cancelled before.
    pub fn cancel(&mut self, id: TimerId) -> bool {
        let queued = self.timers.get(id.slot).is_some_and(|t| t.generation == id.generation);
        if queued {
            self.dequeue(id.slot);
        }
        queued
    }

    /// The window of the timer whose hard expiry is first.
    #[must_use]
    pub fn first(&self) -> Option<Window> {
        let slot = self.by_hard.first()?;
        self.timers.get(slot).map(|timer| timer.window)
    }

    /// One step of the walk: takes the first timer if its soft expiry has come.
    pub fn take_expired(&mut self, now: Time) -> Option<Token> {
        let slot = self.by_hard.first()?;
        let soft = self.timers.get(slot)?.window.soft;
        (soft <= now).then(|| self.dequeue(slot).token)
    }

    /// How many timers are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_hard.first().is_none()
    }

    /// Asserts the structure.
    ///
    /// # Panics
    /// If it is broken.
    pub fn check(&self) {
        let mut queued = 0;
        self.forest.check(&self.by_hard, |slot| {
            let timer = self.timers.get(slot).expect("a queued timer exists");
            assert_eq!(self.forest.key(slot).0, timer.window.hard, "ordered by hard expiry");
            queued += 1;
        });
        assert_eq!(queued, self.timers.len(), "every timer is queued");
    }

    fn enqueue(&mut self, slot: Index, hard: Time) {
        self.forest.insert(&mut self.by_hard, slot, (hard, self.armed));
        self.armed += 1;
    }

    fn dequeue(&mut self, slot: Index) -> Timer {
        self.forest.remove(&mut self.by_hard, slot);
        self.timers.remove(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(soft: u64, hard: u64) -> Window {
        Window { soft: Time(soft), hard: Time(hard) }
    }

    fn walk(queue: &mut TimerQueue, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| queue.take_expired(Time(now))).map(|token| token.0).collect()
    }

    #[test]
    fn the_walk_stops_at_the_first_timer_whose_window_is_closed() {
        let mut queue = TimerQueue::default();
        queue.arm(window(10, 20), Token(1));
        queue.arm(window(30, 30), Token(2));
        queue.arm(window(10, 40), Token(3));
        assert_eq!(walk(&mut queue, 20), [1], "3 is open but behind 2");
        assert_eq!(walk(&mut queue, 30), [2, 3]);
    }

    #[test]
    fn a_timer_is_cancelled_or_taken_never_both() {
        let mut queue = TimerQueue::default();
        let early = queue.arm(window(1, 1), Token(1));
        let late = queue.arm(window(2, 2), Token(2));
        assert_eq!(walk(&mut queue, 1), [1]);
        assert!(!queue.cancel(early), "it was taken");
        assert!(queue.cancel(late) && !queue.cancel(late));
        let again = queue.arm(window(3, 3), Token(3));
        assert!(!queue.cancel(late) && !queue.change(late, window(9, 9)), "the place is another's");
        assert!(queue.change(again, window(5, 7)));
        assert_eq!(queue.first(), Some(window(5, 7)));
    }

    proptest! {
        /// Against a list that is searched from end to end.
        #[test]
        fn expiry_is_that_of_the_naive_queue(
            timers in prop::collection::vec((0..100_u64, 0..20_u64, any::<bool>()), 0..60),
            times in prop::collection::vec(0..130_u64, 1..20),
        ) {
            let (mut queue, mut naive) = (TimerQueue::default(), Vec::new());
            for (at, &(soft, slack, cancelled)) in timers.iter().enumerate() {
                let id = queue.arm(window(soft, soft + slack), Token(at as u64));
                if cancelled {
                    prop_assert!(queue.cancel(id));
                } else {
                    naive.push((soft + slack, at as u64, soft));
                }
            }
            naive.sort_unstable();
            let mut times = times;
            times.sort_unstable();
            for now in times {
                queue.check();
                let due = naive.iter().take_while(|&&(_, _, soft)| soft <= now).count();
                let expected: Vec<_> = naive.drain(..due).map(|(_, token, _)| token).collect();
                prop_assert_eq!(walk(&mut queue, now), expected);
            }
        }
    }
}
