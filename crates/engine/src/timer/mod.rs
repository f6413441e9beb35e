//! Timers with slack: each has an earliest moment (soft expiry) and a latest one (hard expiry).
//!
//! The next interrupt is programmed only for the first hard expiry. The regular walk runs timers in
//! the order of their hard expiries. It stops at the first timer whose soft expiry has not come, as
//! in the kernel (`hrtimer_run_queues`). A timer behind that one waits, though its window may be
//! open: the walk minimises interrupts, not delay. The greedy walk runs every timer whose window is
//! open, in the order of hard expiries. On an idle CPU that delays no task. It saves the later
//! interrupt, when the CPU may be busy.
//!
//! Timers whose slack is of the same order of magnitude are queued together in a class. Among
//! timers of equal slack the first hard expiry is also the first soft one, so the greedy walk
//! examines only the head. Where slacks differ, by less than a factor of two, it searches on past
//! closed timers, until the longest slack rules out an open one. If it finds none, it knows when to
//! search again.
//!
//! Invariants: a timer is never taken before its soft expiry. A cancelled timer is never taken.
//! Each is taken once, or once for each of its periods. Of two timers that a walk may take, the one
//! with the earlier hard expiry is taken first.

pub mod deadlines;
mod room;

pub use room::{Lack, TimerRoom};

use crate::store::heap::Index;
use crate::store::slots::Slots;
use crate::time::{Nanos, Time};
use crate::timer::deadlines::{Deadline, Deadlines, Place};

/// The slack of a task that requests none: 50 us, as in prctl(2).
pub const DEFAULT_SLACK: Nanos = Nanos::from_micros(50);

/// The time in which a timer may expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The earliest expiry.
    pub soft: Time,
    /// The latest expiry, if the CPU is awake.
    pub hard: Time,
}

impl Window {
    /// Returns a window without slack.
    #[must_use]
    pub fn exact(at: Time) -> Window {
        Window { soft: at, hard: at }
    }

    fn later(self, span: Nanos) -> Window {
        Window { soft: self.soft + span, hard: self.hard + span }
    }

    fn slack(self) -> Nanos {
        self.hard.since(self.soft)
    }
}

/// The state of a CPU that walks its timers, which determines the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// An interrupt came while a task ran: the regular walk.
    Busy,
    /// An interrupt came while the CPU was idle: the regular walk, then the greedy one.
    Idle,
    /// The CPU is about to go idle: the greedy walk.
    BeforeIdle,
}

/// The unique name of a timer of one queue: a reused place gets a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId {
    slot: Index,
    generation: u32,
}

/// The value that the host gets back when a timer expires; the queue does not use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

/// A timer that expires now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The token of the timer.
    pub token: Token,
    /// Whether only the greedy walk takes it now.
    pub greedy: bool,
    /// For a periodic timer: the number of further periods whose soft expiry has come; they are not
    /// run (`timer_getoverrun`).
    pub overruns: u64,
}

#[derive(Debug)]
struct Timer {
    window: Window,
    /// Zero if the timer expires once.
    period: Nanos,
    token: Token,
    generation: u32,
    class: u8,
    place: Place,
}

/// Timers whose slacks differ by less than a factor of two.
#[derive(Debug)]
struct Class {
    by_hard: Deadlines,
    /// An upper bound of their slacks.
    most_slack: Nanos,
    /// A time before which none of them opens.
    opens_at: Time,
    /// The number of timers that the whole queue had armed when `most_slack` was last computed.
    looked: u64,
}

impl Default for Class {
    fn default() -> Class {
        let (most_slack, opens_at) = (Nanos::ZERO, Time::MAX);
        Class { by_hard: Deadlines::default(), most_slack, opens_at, looked: 0 }
    }
}

impl Class {
    #[inline(always)]
    fn admit(&mut self, window: Window) {
        if window.slack() > self.most_slack {
            self.most_slack = window.slack();
        }
        if window.soft < self.opens_at {
            self.opens_at = window.soft;
        }
    }

    /// Returns the first open timer. If there is none, `opens_at` is updated.
    fn first_open(
        &mut self,
        timers: &Slots<Timer>,
        armed: u64,
        now: Time,
    ) -> Option<(Deadline, Index)> {
        if self.opens_at > now {
            return None;
        }
        let (mut closed, mut opens_at) = (0, Time::MAX);
        let found = self.by_hard.find(now + self.most_slack, |slot| {
            let soft = window_of(timers, slot).soft;
            if soft > now {
                closed += 1;
                opens_at = opens_at.min(soft);
            }
            soft <= now
        });
        if let Err(beyond) = found {
            self.opens_at = opens_at.min(Time(beyond.0.saturating_sub(self.most_slack.0)));
        }
        // The timer with the longest slack may be gone long since. A search examines every timer,
        // so it is not repeated before the same number was armed.
        if closed > RESCAN_AFTER && armed - self.looked >= self.by_hard.len() as u64 {
            let slacks = self.by_hard.owners().map(|slot| window_of(timers, slot).slack());
            (self.most_slack, self.looked) = (slacks.max().unwrap_or_default(), armed);
        }
        found.ok()
    }
}

/// The number of closed timers before an open one after which the longest slack is computed again.
const RESCAN_AFTER: u32 = 32;

/// The number of binary digits of a slack in nanoseconds.
const CLASSES: usize = u64::BITS as usize;

/// The timers of one CPU.
#[derive(Debug)]
pub struct TimerQueue {
    timers: Slots<Timer>,
    /// The classes up to the highest ever used.
    classes: Vec<Class>,
    /// A bit for each class that has timers.
    used: u64,
    /// The first hard expiry, and its class.
    first: (Deadline, u8),
    /// The number of timers ever armed; orders timers of equal hard expiry.
    armed: u64,
}

impl Default for TimerQueue {
    fn default() -> TimerQueue {
        TimerQueue {
            timers: Slots::new(),
            classes: Vec::with_capacity(CLASSES),
            used: 0,
            first: (Deadline::NEVER, 0),
            armed: 0,
        }
    }
}

impl TimerQueue {
    /// Makes room for `len` timers in total. Arming beyond the room allocates. Arming with a slack
    /// of a new order of magnitude may allocate, too.
    pub fn reserve(&mut self, len: usize) {
        self.timers.grow(len);
    }

    /// Queues a timer.
    ///
    /// # Panics
    /// If the window ends before it begins.
    pub fn arm(&mut self, window: Window, token: Token) -> TimerId {
        self.arm_each(window, Nanos::ZERO, token)
    }

    /// Queues a periodic timer: its window moves by a period at each expiry. A period in which it
    /// is not run counts as an overrun. It is queued until it is cancelled.
    ///
    /// # Panics
    /// If the window ends before it begins, or the period is zero.
    pub fn arm_periodic(&mut self, window: Window, period: Nanos, token: Token) -> TimerId {
        assert!(period > Nanos::ZERO, "a period is not zero");
        self.arm_each(window, period, token)
    }

    #[inline(always)]
    fn arm_each(&mut self, window: Window, period: Nanos, token: Token) -> TimerId {
        assert!(window.soft <= window.hard, "a window ends after it begins");
        if self.timers.is_full() {
            self.reserve((self.timers.capacity() * 2).max(8));
        }
        let (generation, class) = (self.armed as u32, class_of(window));
        let timer = Timer { window, period, token, generation, class, place: 0 };
        let slot = self.timers.insert(timer);
        self.enqueue(slot, class, window);
        TimerId { slot, generation }
    }

    /// Takes a queued timer out, from whichever CPU; returns `false` if it was already taken or
    /// cancelled.
    pub fn cancel(&mut self, id: TimerId) -> bool {
        let queued = self.is_queued(id);
        if queued {
            self.remove(id.slot);
        }
        queued
    }

    fn is_queued(&self, id: TimerId) -> bool {
        self.timers.get(id.slot).is_some_and(|timer| timer.generation == id.generation)
    }

    /// Returns the first hard expiry; later than any time if there is none.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Time {
        self.first.0.at
    }

    /// Reads the data for taking the first timer that is `hops` pointers away from here, so that it
    /// is in the caches.
    #[inline]
    #[must_use]
    pub fn read_ahead(&self, hops: u32) -> u64 {
        let Some(class) = self.classes.get(usize::from(self.first.1)) else { return 0 };
        let first = || class.by_hard.first().map(|(_, slot)| slot);
        match hops {
            1 => class.opens_at.0 ^ u64::from(self.timers.next_free().unwrap_or_default()),
            2 => first().map_or(0, u64::from),
            _ => first().map_or(0, |slot| self.timer(slot).window.soft.0),
        }
    }

    /// Returns the token of the timer that expires first.
    #[inline]
    #[must_use]
    pub fn first_token(&self) -> Option<Token> {
        let (_, slot) = self.classes.get(usize::from(self.first.1))?.by_hard.first()?;
        Some(self.timer(slot).token)
    }

    /// Does one step of the regular walk: takes the timer with the first hard expiry if its soft
    /// expiry has come.
    pub fn take_expired(&mut self, now: Time) -> Option<Expiry> {
        let (_, slot) = self.classes.get(usize::from(self.first.1))?.by_hard.first()?;
        let open = self.timer(slot).window.soft <= now;
        open.then(|| self.take(slot, now, false))
    }

    /// Does one step of the greedy walk: of the open timers, takes the one with the first hard
    /// expiry.
    pub fn take_open(&mut self, now: Time) -> Option<Expiry> {
        let slot = self.first_open(now)?;
        Some(self.take(slot, now, true))
    }

    fn first_open(&mut self, now: Time) -> Option<Index> {
        let TimerQueue { timers, classes, armed, .. } = self;
        let of_class = |nth: u8| classes[usize::from(nth)].first_open(timers, *armed, now);
        let first = used(self.used).filter_map(of_class).min_by_key(|&(deadline, _)| deadline);
        first.map(|(_, slot)| slot)
    }

    /// Returns the number of queued timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Returns whether no timer is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Asserts the structure.
    ///
    /// # Panics
    /// If it is broken.
    pub fn check(&self) {
        let (mut queued, mut first) = (0, Deadline::NEVER);
        for (nth, class) in self.classes.iter().enumerate() {
            let Class { by_hard, most_slack, opens_at, .. } = class;
            assert_eq!(
                by_hard.is_empty(),
                self.used >> nth & 1 == 0,
                "`used` has the used classes"
            );
            by_hard.check(|deadline, slot, place| {
                let timer = self.timers.get(slot).expect("a queued timer exists");
                assert_eq!(deadline.at, timer.window.hard, "ordered by hard expiry");
                assert_eq!(place, timer.place, "a timer knows its place");
                assert_eq!(nth, usize::from(timer.class), "a timer is in its class");
                assert_eq!(timer.class, class_of(timer.window), "the class is that of the slack");
                assert!(timer.window.slack() <= *most_slack, "`most_slack` bounds the slack");
                assert!(timer.window.soft >= *opens_at, "no timer opens before `opens_at`");
                first = first.min(deadline);
                queued += 1;
            });
        }
        assert_eq!(queued, self.timers.len(), "every timer is queued");
        assert_eq!(first, self.first.0, "`first` is the first deadline");
    }

    #[inline(always)]
    fn take(&mut self, slot: Index, now: Time, greedy: bool) -> Expiry {
        let Timer { window, period, token, .. } = *self.timer(slot);
        let mut overruns = 0;
        if period > Nanos::ZERO {
            overruns = now.since(window.soft).0 / period.0;
            self.requeue(slot, window.later(Nanos(period.0.saturating_mul(overruns + 1))));
        } else {
            self.remove(slot);
        }
        Expiry { token, greedy, overruns }
    }

    #[inline(never)]
    fn requeue(&mut self, slot: Index, window: Window) {
        let timer = self.timer_mut(slot);
        timer.window = window;
        let (nth, place) = (class_of(window), timer.place);
        let old = std::mem::replace(&mut timer.class, nth);
        if nth != old {
            self.leave(old, place);
            return self.enqueue_in(slot, nth, window);
        }
        let deadline = self.next_deadline(window);
        let TimerQueue { timers, classes, .. } = self;
        let class = &mut classes[usize::from(nth)];
        class.admit(window);
        class.by_hard.change(place, deadline, |slot, place| place_of(timers, slot, place));
        if place == 0 && nth == self.first.1 {
            self.renew_first();
        } else {
            self.note_first(deadline, nth);
        }
    }

    #[inline(never)]
    fn enqueue_in(&mut self, slot: Index, nth: u8, window: Window) {
        self.enqueue(slot, nth, window);
    }

    fn next_deadline(&mut self, window: Window) -> Deadline {
        self.armed += 1;
        Deadline { at: window.hard, nth: self.armed - 1 }
    }

    #[inline(always)]
    fn enqueue(&mut self, slot: Index, nth: u8, window: Window) {
        let deadline = self.next_deadline(window);
        let TimerQueue { timers, classes, .. } = self;
        if usize::from(nth) >= classes.len() {
            add_classes(classes, nth);
        }
        let class = &mut classes[usize::from(nth)];
        class.admit(window);
        let moved = |slot, place| place_of(timers, slot, place);
        if class.by_hard.insert(deadline, slot, moved) {
            self.used |= 1 << nth;
            self.note_first(deadline, nth);
        }
    }

    fn note_first(&mut self, deadline: Deadline, nth: u8) {
        if deadline.key() < self.first.0.key() {
            self.first = (deadline, nth);
        }
    }

    #[inline(always)]
    fn remove(&mut self, slot: Index) {
        let Timer { class, place, .. } = self.timers.remove(slot);
        self.leave(class, place);
    }

    #[inline(always)]
    fn leave(&mut self, nth: u8, place: Place) {
        let TimerQueue { timers, classes, .. } = self;
        let class = &mut classes[usize::from(nth)];
        class.by_hard.remove(place, |slot, place| place_of(timers, slot, place));
        if place == 0 {
            self.lost_first(nth);
        }
    }

    fn lost_first(&mut self, nth: u8) {
        let class = &mut self.classes[usize::from(nth)];
        if class.by_hard.is_empty() {
            (class.most_slack, class.opens_at) = (Nanos::ZERO, Time::MAX);
            self.used &= !(1 << nth);
        }
        let others = self.used & !(1 << nth);
        match self.classes[usize::from(nth)].by_hard.first() {
            Some((deadline, _)) if others == 0 => self.first = (deadline, nth),
            _ if nth == self.first.1 => self.renew_first(),
            _ => {}
        }
    }

    fn renew_first(&mut self) {
        let mut first = (Deadline::NEVER, 0);
        for nth in used(self.used) {
            let class = &self.classes[usize::from(nth)];
            let (deadline, _) = class.by_hard.first().expect("the class is used");
            if deadline.key() < first.0.key() {
                first = (deadline, nth);
            }
        }
        self.first = first;
    }

    fn timer(&self, slot: Index) -> &Timer {
        self.timers.get(slot).expect("a queued timer exists")
    }

    fn timer_mut(&mut self, slot: Index) -> &mut Timer {
        self.timers.get_mut(slot).expect("a queued timer exists")
    }
}

/// Returns the class of a window. A class has the slacks with the same number of binary digits;
/// zero is in the class of 1 ns.
fn class_of(window: Window) -> u8 {
    (window.slack().0 | 1).ilog2() as u8
}

/// Returns the numbers of the bits that are set.
fn used(mut bits: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let nth = (bits != 0).then_some(bits.trailing_zeros() as u8);
        bits &= bits.wrapping_sub(1);
        nth
    })
}

#[cold]
fn add_classes(classes: &mut Vec<Class>, until: u8) {
    classes.resize_with(usize::from(until) + 1, Class::default);
}

fn window_of(timers: &Slots<Timer>, slot: Index) -> Window {
    timers.get(slot).expect("a queued timer exists").window
}

fn place_of(timers: &mut Slots<Timer>, slot: Index, place: Place) {
    timers.get_mut(slot).expect("a queued timer exists").place = place;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(soft: u64, hard: u64) -> Window {
        Window { soft: Time(soft), hard: Time(hard) }
    }

    fn walk(queue: &mut TimerQueue, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| queue.take_expired(Time(now))).map(|expiry| expiry.token.0).collect()
    }

    fn greedy_walk(queue: &mut TimerQueue, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| queue.take_open(Time(now))).map(|expiry| expiry.token.0).collect()
    }

    #[test]
    fn the_regular_walk_stops_at_the_first_timer_whose_window_is_closed() {
        let mut queue = TimerQueue::default();
        queue.arm(window(10, 20), Token(1));
        queue.arm(window(30, 30), Token(2));
        queue.arm(window(10, 40), Token(3));
        assert_eq!(walk(&mut queue, 20), [1], "3 is open but behind 2");
        assert_eq!(walk(&mut queue, 30), [2, 3]);
    }

    #[test]
    fn the_greedy_walk_takes_what_is_open_in_the_order_of_hard_expiries() {
        let mut queue = TimerQueue::default();
        queue.arm(window(30, 30), Token(1));
        queue.arm(window(10, 50), Token(2));
        queue.arm(window(10, 40), Token(3));
        queue.arm(window(21, 35), Token(4));
        queue.arm(window(20, 52), Token(5));
        assert_eq!(greedy_walk(&mut queue, 20), [3, 2, 5]);
        assert_eq!(queue.first(), Time(30), "an exact timer is not postponed");
        assert_eq!(greedy_walk(&mut queue, 30), [1, 4]);
    }

    #[test]
    fn a_timer_is_cancelled_or_taken_never_both() {
        let mut queue = TimerQueue::default();
        let early = queue.arm(window(1, 1), Token(1));
        let late = queue.arm(window(2, 2), Token(2));
        assert_eq!(walk(&mut queue, 1), [1]);
        assert!(!queue.cancel(early), "the timer was taken");
        assert!(queue.cancel(late) && !queue.cancel(late));
        let again = queue.arm(window(3, 3), Token(3));
        assert!(!queue.cancel(late), "the place has another timer");
        assert_eq!((queue.first(), queue.len()), (Time(3), 1));
        assert!(queue.cancel(again));
    }

    #[test]
    fn a_look_in_vain_finds_out_when_to_look_again_and_who_is_gone() {
        let mut queue = TimerQueue::default();
        let longest = queue.arm(window(0, 16), Token(0));
        for soft in 100..200 {
            queue.arm(window(soft, soft + 9), Token(soft));
        }
        assert!(queue.cancel(longest));
        let class = usize::from(class_of(window(0, 9)));
        assert_eq!(class, usize::from(class_of(window(0, 15))), "both slacks are of one class");
        queue.arm(window(100, 115), Token(1));
        assert_eq!(queue.classes[class].most_slack, Nanos(15));
        assert_eq!(greedy_walk(&mut queue, 99), []);
        assert_eq!(queue.classes[class].opens_at, Time(100));
        assert_eq!(greedy_walk(&mut queue, 100), [100, 1]);
        for soft in 200..300 {
            queue.arm(window(200, 209), Token(soft));
        }
        queue.arm(window(200, 212), Token(2));
        assert_eq!(greedy_walk(&mut queue, 199).len(), 99);
        assert_eq!(queue.classes[class].most_slack, Nanos(12), "the timer with slack 15 is gone");
        queue.check();
    }

    #[test]
    fn a_periodic_timer_counts_the_periods_in_which_it_was_not_run() {
        let mut queue = TimerQueue::default();
        let id = queue.arm_periodic(window(10, 15), Nanos(10), Token(1));
        let mut overruns = |now| queue.take_expired(Time(now)).map(|expiry| expiry.overruns);
        assert_eq!([overruns(12), overruns(12), overruns(19)], [Some(0), None, None]);
        assert_eq!([overruns(20), overruns(59), overruns(59)], [Some(0), Some(2), None]);
        assert_eq!(queue.first(), Time(65));
        assert!(queue.cancel(id) && queue.is_empty());
    }

    /// A timer of the reference list, which is searched linearly.
    #[derive(Clone, Copy, Debug)]
    struct Naive {
        window: Window,
        period: u64,
        armed: u64,
        token: u64,
    }

    impl Naive {
        fn key(&self) -> (Time, u64) {
            (self.window.hard, self.armed)
        }

        fn is_open(&self, now: Time) -> bool {
            self.window.soft <= now
        }
    }

    #[derive(Clone, Debug)]
    enum Action {
        Arm { soft: u64, slack: u64, period: u64 },
        Cancel(usize),
        Walk { after: u64, walk: Walk },
    }

    fn action() -> impl Strategy<Value = Action> {
        let slack = prop_oneof![Just(0), Just(8), 0..40_u64, Just(u64::MAX)];
        let period = prop_oneof![3 => Just(0), 1 => 1..30_u64];
        let walk = prop_oneof![Just(Walk::Busy), Just(Walk::Idle), Just(Walk::BeforeIdle)];
        prop_oneof![
            4 => (0..60_u64, slack, period)
                .prop_map(|(soft, slack, period)| Action::Arm { soft, slack, period }),
            1 => any::<usize>().prop_map(Action::Cancel),
            2 => (0..25_u64, walk).prop_map(|(after, walk)| Action::Walk { after, walk }),
        ]
    }

    /// The queue and the reference list.
    #[derive(Default)]
    struct Both {
        queue: TimerQueue,
        ids: Vec<TimerId>,
        naive: Vec<Naive>,
        armed: u64,
        now: Time,
    }

    impl Both {
        fn act(&mut self, action: &Action) {
            let from = |now: Time, soft: u64, slack: u64| {
                let soft = now + Nanos(soft);
                Window { soft, hard: soft + Nanos(slack) }
            };
            match *action {
                Action::Arm { soft, slack, period } => {
                    let (window, token) = (from(self.now, soft, slack), self.ids.len() as u64);
                    let id = match period {
                        0 => self.queue.arm(window, Token(token)),
                        _ => self.queue.arm_periodic(window, Nanos(period), Token(token)),
                    };
                    self.ids.push(id);
                    self.naive.push(Naive { window, period, armed: self.armed, token });
                    self.armed += 1;
                }
                Action::Cancel(which) if !self.ids.is_empty() => {
                    let token = which % self.ids.len();
                    let known = self.position(token);
                    assert_eq!(self.queue.cancel(self.ids[token]), known.is_some());
                    if let Some(at) = known {
                        self.naive.remove(at);
                    }
                }
                Action::Walk { after, walk } => {
                    self.now = self.now + Nanos(after);
                    if walk != Walk::BeforeIdle {
                        self.walk(false, TimerQueue::take_expired);
                    }
                    if walk != Walk::Busy {
                        self.walk(true, TimerQueue::take_open);
                        let open = self.naive.iter().find(|timer| timer.is_open(self.now));
                        assert!(open.is_none(), "{open:?} is open and left");
                    }
                }
                Action::Cancel(_) => {}
            }
        }

        fn position(&self, token: usize) -> Option<usize> {
            self.naive.iter().position(|timer| timer.token == token as u64)
        }

        fn walk(&mut self, greedy: bool, take: fn(&mut TimerQueue, Time) -> Option<Expiry>) {
            loop {
                let may = |timer: &&Naive| !greedy || timer.is_open(self.now);
                let first = self.naive.iter().filter(may).min_by_key(|timer| timer.key()).copied();
                let first = first.filter(|timer| timer.is_open(self.now));
                let taken = take(&mut self.queue, self.now);
                let Some(Naive { window, period, token, .. }) = first else {
                    return assert_eq!(taken, None);
                };
                let at = self.position(token as usize).unwrap();
                let overruns = self.now.since(window.soft).0.checked_div(period).unwrap_or(0);
                assert_eq!(taken, Some(Expiry { token: Token(token), greedy, overruns }));
                if period == 0 {
                    self.naive.remove(at);
                } else {
                    self.naive[at].window = window.later(Nanos(period * (overruns + 1)));
                    self.naive[at].armed = self.armed;
                    self.armed += 1;
                }
            }
        }

        fn check(&self) {
            self.queue.check();
            let first = self.naive.iter().map(|timer| timer.window.hard).min();
            assert_eq!(self.queue.first(), first.unwrap_or(Time::MAX), "the least hard expiry");
            assert_eq!(self.queue.len(), self.naive.len());
        }
    }

    proptest! {
        /// Compares each walk, cancellation, change and period with the reference list.
        #[test]
        fn the_queue_is_the_naive_one(actions in prop::collection::vec(action(), 0..120)) {
            let mut both = Both::default();
            for action in &actions {
                both.act(action);
                both.check();
            }
        }
    }
}
