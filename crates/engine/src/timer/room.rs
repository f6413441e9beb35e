//! Room for more timers, in memory that the caller allocates before it takes the lock of the queue.

use super::{Class, Timer, TimerQueue, Window, class_of};
use crate::store::slots::Slots;
use crate::timer::deadlines::Deadlines;

/// The room that a queue needs that has none for a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// For all timers.
    timers: usize,
    /// For those with a slack of the same order of magnitude.
    deadlines: usize,
}

/// Room for timers.
#[derive(Debug)]
pub struct TimerRoom {
    timers: Slots<Timer>,
    deadlines: Deadlines,
}

impl TimerRoom {
    /// Allocates the room that is lacking.
    #[must_use]
    pub fn new(lack: Lack) -> TimerRoom {
        let mut timers = Slots::new();
        timers.grow(lack.timers);
        TimerRoom { timers, deadlines: Deadlines::with_room(lack.deadlines) }
    }
}

impl TimerQueue {
    /// Returns the room that the queue needs if another timer with such a window does not fit;
    /// `None` if it fits.
    #[inline]
    #[must_use]
    pub fn lacks(&self, window: Window) -> Option<Lack> {
        let class = self.classes.get(usize::from(class_of(window)));
        let has_room = class.is_some_and(|class| class.by_hard.has_room());
        (self.timers.is_full() || !has_room).then(|| self.lack(class))
    }

    #[cold]
    fn lack(&self, class: Option<&Class>) -> Lack {
        let deadlines = class.map_or(0, |class| class.by_hard.len());
        let timers = self.timers.len();
        Lack { timers: (2 * timers).max(64), deadlines: (2 * deadlines).max(64) }
    }

    /// Makes room for timers with such a window, with the memory of `room`; the old memory is left
    /// there. Allocates and frees nothing.
    pub fn reserve_in(&mut self, window: Window, room: &mut TimerRoom) {
        self.timers.grow_into(&mut room.timers);
        let nth = class_of(window);
        if usize::from(nth) >= self.classes.len() {
            super::add_classes(&mut self.classes, nth);
        }
        self.classes[usize::from(nth)].by_hard.grow_into(&mut room.deadlines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;
    use crate::timer::Token;

    #[test]
    fn a_queue_has_room_for_as_many_as_it_was_given() {
        let mut queue = TimerQueue::default();
        let mut grown = 0;
        for nth in 0..1_000 {
            let window = Window { soft: Time(nth), hard: Time(nth + (nth % 3) * 1_000) };
            if let Some(lack) = queue.lacks(window) {
                queue.reserve_in(window, &mut TimerRoom::new(lack));
                grown += 1;
            }
            assert_eq!(queue.lacks(window), None);
            queue.arm(window, Token(nth));
            queue.check();
        }
        assert!((5..20).contains(&grown), "{grown} times");
        assert_eq!(queue.len(), 1_000);
    }
}
