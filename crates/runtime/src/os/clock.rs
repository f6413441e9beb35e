//! CLOCK_MONOTONIC from the processor's counter, for less than half of what the vDSO takes.
//!
//! Where the kernel's own clock source is the time-stamp counter, the kernel's clock is a multiple of the counter. A
//! thread measures that multiple, and reads the counter only. Every 100 us it reads the kernel's clock as well: the pair
//! of both is its *anchor*, from which it counts on. Everywhere else, and until the multiple is known, the vDSO is read.
//!
//! * *Never ahead.* Timers and futexes are given instants of the kernel's clock, so no timer may seem due before it is.
//!   The multiple is taken 1/1024 too small, and the anchor's counter is read after the kernel's clock.
//! * *At most some 1 us behind.* The kernel's NTP changes the pace of its clock by up to 500 ppm. That, the 1/1024 and
//!   the measurement are 0.16 us in 100 us, and the two readings of an anchor are 1,000 counts apart at most. Usual are
//!   0.1 us. A program that sets `adjtimex`'s tick changes the pace by up to a tenth: once for each such change
//!   a thread may be 10 us off, to either side, for 100 us.
//! * *Never backwards* on one thread: no reading is before the last. Two threads differ by the bound, so a span between
//!   instants of two threads is taken by `Time::since`, which is zero then; and where the order of instants is to be that
//!   of events, [`thread::monotonic`] is read.
//! * *After its deadline.* Who has waited in the kernel for an instant, or was interrupted by a timer, reads the kernel's
//!   clock ([`forget`]): a timer whose signal has come is never thought to be set.
//!
//! The words are the thread's own, without a destructor. A signal handler may interrupt a reading and a change of
//! the anchor at any instruction, and read the time itself: the version is odd during a change, and a handler that
//! finds it so takes the kernel's clock and changes nothing. A reading that a change has interrupted finds
//! another version, and begins again. Nobody waits for anybody.
//!
//! A counter that jumps, as it may when the machine sleeps or is moved, is found out at the next anchor: the multiple is
//! measured again. After [`MOST_FAULTS`] without a good second between them the thread keeps to the vDSO.
//!
//! Rejected: one anchor for all threads, whose reader would wait for ever for a writer that it has interrupted; the
//! kernel's own multiple, in pages whose layout is no interface.

use crate::os::sync::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use crate::os::thread;
use runyard_engine::time::{Nanos, Time};
use std::cell::Cell;

/// Whether there is a counter that we know how to read.
const COUNTS: bool = cfg!(target_arch = "x86_64");

/// Where the kernel says which clock source it has.
const KERNELS_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The variable of the environment, and the value of it, by which the vDSO is kept.
const VARIABLE: &str = "RUNYARD_CLOCK";
const VDSO: &str = "vdso";

/// For how long an anchor is good. A reading of the vDSO in 100 us is nothing, and the error grows with it.
const WINDOW: Nanos = Nanos::from_micros(100);

/// The multiple is first measured over this time: an error of 1,000 counts is 50 ppm of it at 2 GHz.
const FIRST_SPAN: Nanos = Nanos::from_millis(10);

/// And again each time that so much has passed. After twice that, a measurement is begun anew: the machine may have
/// slept meanwhile.
const NEXT_SPAN: Nanos = Nanos::from_secs(1);

/// The two readings of a pair are at most so many counts apart, 0.2 to 0.5 us on machines of today; usual are 130. More
/// are those of a thread that was interrupted between them.
const CLOSE: u64 = 1_000;

/// So much of the multiple is left away, 1/1024: more than NTP changes and the error of the measurement together.
const SLOWER_SHIFT: u32 = 10;

/// So much of the time between two anchors, 1/500, and 2 us may be between what the multiple says and what the kernel
/// says. More is a jump.
const STEADY: (u64, Nanos) = (500, Nanos::from_micros(2));

/// After so many jumps without a good second, or pairs in a row that are not close, a counter is no use here.
const MOST_FAULTS: u32 = 16;

/// Whether the kernel's clock source is the counter, and nobody wants the vDSO.
static BY_COUNTER: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CLOCK: Clock = const { Clock::new() };
}

/// Decides, the first time, how this process reads the clock. Not for signal handlers: it reads the environment.
pub(crate) fn choose() {
    static CHOSEN: AtomicBool = AtomicBool::new(false);
    if COUNTS && !CHOSEN.swap(true, Ordering::Relaxed) {
        let wants_vdso = std::env::var_os(VARIABLE).is_some_and(|value| value == VDSO);
        let source = std::fs::read_to_string(KERNELS_SOURCE).unwrap_or_default();
        BY_COUNTER.store(!wants_vdso && source.trim_end() == "tsc", Ordering::Relaxed);
    }
}

/// The monotonic clock. May be called in a signal handler.
#[inline]
pub(crate) fn now() -> Time {
    if !COUNTS {
        return thread::monotonic();
    }
    Time(CLOCK.with(|clock| clock.by_counter(|| Machine.count()).unwrap_or_else(by_kernel)))
}

/// The next reading of the calling thread is the kernel's. May be called in a signal handler.
pub(crate) fn forget() {
    CLOCK.with(Clock::forget);
}

#[cold]
#[inline(never)]
fn by_kernel() -> u64 {
    if !BY_COUNTER.load(Ordering::Relaxed) {
        return Machine.time();
    }
    CLOCK.with(|clock| clock.by_kernel(&Machine))
}

/// The counter and the kernel's clock: of this machine, or of a test.
trait Source {
    /// The counter.
    fn count(&self) -> u64;

    /// The counter, read after everything that the program does before.
    fn count_after(&self) -> u64;

    /// The kernel's clock.
    fn time(&self) -> u64;
}

struct Machine;

impl Source for Machine {
    /// Without a fence: the processor may read the counter while it still waits for earlier instructions. So a
    /// reading is early by some 0.1 us at most, and is never late, as what uses it needs it. That is less than
    /// threads differ by anyhow.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn count(&self) -> u64 {
        // SAFETY: every processor of this kind has the instruction, and the kernel lets programs use it: the vDSO
        // does where this is called.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[cfg(target_arch = "x86_64")]
    fn count_after(&self) -> u64 {
        // SAFETY: every processor of this kind has the fence as well.
        unsafe { std::arch::x86_64::_mm_lfence() };
        self.count()
    }

    /// Never called: see [`COUNTS`].
    #[cfg(not(target_arch = "x86_64"))]
    fn count(&self) -> u64 {
        0
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn count_after(&self) -> u64 {
        0
    }

    fn time(&self) -> u64 {
        thread::monotonic().0
    }
}

/// The answers of both clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    count: u64,
    time: u64,
}

impl Pair {
    /// The counter when the kernel's clock had shown `time` for a moment; `None` if the moment was long.
    fn between(before: u64, time: u64, after: u64) -> Option<Pair> {
        (after.wrapping_sub(before) <= CLOSE).then_some(Pair { count: after, time })
    }
}

/// The multiple: nanoseconds for a count, in units of 2^-32 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate(u64);

impl Rate {
    /// Of counters of 50 MHz to 20 GHz. Beyond that it is none that kernels go by.
    const SANE: std::ops::RangeInclusive<u64> = (1 << 32) / 20..=20 << 32;

    fn between(earlier: Pair, later: Pair) -> Option<Rate> {
        let counts = u128::from(later.count.wrapping_sub(earlier.count));
        let nanos = u128::from(later.time.saturating_sub(earlier.time));
        let rate = (nanos << 32).checked_div(counts)?;
        let rate = u64::try_from(rate).ok()?;
        Rate::SANE.contains(&rate).then_some(Rate(rate))
    }

    /// Behind the kernel's, whatever NTP does.
    fn slower(self) -> Rate {
        Rate(self.0 - (self.0 >> SLOWER_SHIFT))
    }

    /// The time of so many counts.
    fn nanos(self, counts: u64) -> u128 {
        (u128::from(counts) * u128::from(self.0)) >> 32
    }

    /// How many counts a span has.
    fn counts(self, span: Nanos) -> u64 {
        (span.0 << 32) / self.0
    }
}

/// The measurements of a thread so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measure {
    /// The beginning of the measurement.
    base: Option<Pair>,
    last: Pair,
    rate: Option<Rate>,
    /// Jumps since a measurement over [`NEXT_SPAN`].
    jumps: u32,
    /// Pairs in a row that were not close.
    misses: u32,
}

impl Measure {
    const NOTHING: Measure =
        Measure { base: None, last: Pair { count: 0, time: 0 }, rate: None, jumps: 0, misses: 0 };

    fn is_hopeless(&self) -> bool {
        self.jumps >= MOST_FAULTS || self.misses >= MOST_FAULTS
    }

    /// Whether a pair at this time is of any use.
    fn wants_pair(&self, time: u64) -> bool {
        let Some(base) = self.base else { return true };
        self.rate.is_some() || time.saturating_sub(base.time) >= FIRST_SPAN.0
    }

    fn without_pair(self) -> Measure {
        Measure { misses: self.misses + 1, ..self }
    }

    fn with_pair(self, pair: Pair) -> Measure {
        if self.rate.is_some_and(|rate| has_jumped(self.last, rate, pair)) {
            let jumps = self.jumps + 1;
            return Measure { base: Some(pair), last: pair, jumps, ..Measure::NOTHING };
        }
        let known = Measure { last: pair, misses: 0, ..self };
        let restarted = Measure { base: Some(pair), ..known };
        let Some(base) = self.base else { return restarted };
        let age = pair.time.saturating_sub(base.time);
        let least = if self.rate.is_some() { NEXT_SPAN } else { FIRST_SPAN };
        if age < least.0 {
            return known;
        }
        if age > 2 * NEXT_SPAN.0 {
            return restarted;
        }
        let jumps = if self.rate.is_some() { 0 } else { self.jumps };
        match Rate::between(base, pair) {
            Some(rate) => Measure { rate: Some(rate), jumps, ..restarted },
            None => Measure { rate: None, jumps: self.jumps + 1, ..restarted },
        }
    }
}

/// Whether the counter, or the kernel's clock, has jumped between two pairs.
fn has_jumped(earlier: Pair, rate: Rate, later: Pair) -> bool {
    let said = later.time.saturating_sub(earlier.time);
    let counted = rate.nanos(later.count.wrapping_sub(earlier.count));
    let (part, least) = STEADY;
    counted.abs_diff(said.into()) > u128::from(said / part + least.0)
}

/// The clock of one thread. Only that thread uses it, and its signal handlers.
///
/// | field | written | read |
/// |---|---|---|
/// | `version` | around a change | by everybody |
/// | the anchor: `count`, `time`, `rate` | while the version is odd | the result is used if the version stays, and is even |
/// | `window` | as these; to 0 at any time | first |
/// | `is_forgotten` | to true at any time; to false while the version is odd | at the end of a change |
/// | `last` | by each reading | by each reading |
/// | `measure` | while the version is odd | while it is odd, by who made it so |
struct Clock {
    version: AtomicU64,
    /// For how many counts the anchor is good; 0 if there is none.
    window: AtomicU64,
    count: AtomicU64,
    time: AtomicU64,
    rate: AtomicU64,
    last: AtomicU64,
    is_forgotten: AtomicBool,
    measure: Cell<Measure>,
}

impl Clock {
    const fn new() -> Clock {
        const fn zero() -> AtomicU64 {
            AtomicU64::new(0)
        }
        Clock {
            version: zero(),
            window: zero(),
            count: zero(),
            time: zero(),
            rate: zero(),
            last: zero(),
            is_forgotten: AtomicBool::new(false),
            measure: Cell::new(Measure::NOTHING),
        }
    }

    /// The time by the anchor, if it is good.
    #[inline]
    fn by_counter(&self, count: impl FnOnce() -> u64) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let window = self.window.load(Ordering::Relaxed);
        if window == 0 {
            return None;
        }
        let start = self.count.load(Ordering::Relaxed);
        // A test has its handler here, between two words of the anchor.
        let since = count().wrapping_sub(start);
        let time = self.time.load(Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let is_one = version.is_multiple_of(2) && version == self.version.load(Ordering::Relaxed);
        if since >= window || !is_one {
            return None;
        }
        // No overflow: the product is at most the window in units of 2^-32 ns, which is below 2^49.
        Some(self.not_before_last(time + ((since * rate) >> 32)))
    }

    /// A handler may come between the two steps. This reading is then before that of the handler, as it began before it.
    fn not_before_last(&self, time: u64) -> u64 {
        let time = time.max(self.last.load(Ordering::Relaxed));
        self.last.store(time, Ordering::Relaxed);
        time
    }

    /// The time by the kernel, and a new anchor.
    fn by_kernel(&self, source: &impl Source) -> u64 {
        let version = self.version.load(Ordering::Relaxed);
        if !version.is_multiple_of(2) {
            // A handler has interrupted a change.
            return source.time();
        }
        self.version.store(version + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.window.store(0, Ordering::Relaxed);
        self.is_forgotten.store(false, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let time = self.renew(source);
        compiler_fence(Ordering::SeqCst);
        self.version.store(version + 2, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if self.is_forgotten.load(Ordering::Relaxed) {
            // By a handler, after the kernel's clock was read.
            self.window.store(0, Ordering::Relaxed);
        }
        self.not_before_last(time)
    }

    /// The next reading is the kernel's.
    fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.window.store(0, Ordering::Relaxed);
    }

    fn renew(&self, source: &impl Source) -> u64 {
        let measure = self.measure.get();
        if measure.is_hopeless() {
            return source.time();
        }
        if measure.rate.is_none() {
            let time = source.time();
            if !measure.wants_pair(time) {
                return time;
            }
        }
        // The first may be read too early, and the pair seems less close than it is.
        let before = source.count();
        let time = source.time();
        let after = source.count_after();
        let Some(pair) = Pair::between(before, time, after) else {
            self.measure.set(measure.without_pair());
            return time;
        };
        let measure = measure.with_pair(pair);
        self.measure.set(measure);
        if let Some(rate) = measure.rate {
            self.anchor(pair, rate.slower());
        }
        time
    }

    fn anchor(&self, pair: Pair, rate: Rate) {
        self.count.store(pair.count, Ordering::Relaxed);
        self.time.store(pair.time, Ordering::Relaxed);
        self.rate.store(rate.0, Ordering::Relaxed);
        self.window.store(rate.counts(WINDOW), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in a microsecond.
    const PACE: u64 = 2_600;

    const MICRO: u64 = 1_000;

    /// A machine whose counter and whose kernel go as the test says.
    struct Model<'a> {
        count: Cell<u64>,
        time: Cell<u64>,
        /// Interrupts who reads the kernel's clock, once.
        handler: Cell<Option<&'a dyn Fn()>>,
    }

    impl<'a> Model<'a> {
        fn new() -> Model<'a> {
            let (count, time) = (Cell::new(7 << 40), Cell::new(3 << 40));
            Model { count, time, handler: Cell::new(None) }
        }

        /// So much later. The kernel's clock has gone `ppm` faster than usual.
        fn pass(&self, micros: u64, ppm: i64) {
            self.count.update(|count| count + micros * PACE);
            let more = (micros * MICRO).cast_signed() * ppm / 1_000_000;
            self.time.update(|time| (time + micros * MICRO).strict_add_signed(more));
        }

        fn read(&self, clock: &Clock) -> u64 {
            clock.by_counter(|| self.count.get()).unwrap_or_else(|| clock.by_kernel(self))
        }

        /// Reads until the multiple is known.
        fn measure(&self, clock: &Clock) {
            self.read(clock);
            self.pass(FIRST_SPAN.0 / MICRO, 0);
            assert_eq!(self.read(clock), self.time.get());
            assert!(clock.by_counter(|| self.count.get()).is_some(), "it is measured");
        }
    }

    impl Source for Model<'_> {
        fn count(&self) -> u64 {
            self.count.get()
        }

        fn count_after(&self) -> u64 {
            self.count.get()
        }

        fn time(&self) -> u64 {
            if let Some(handler) = self.handler.take() {
                handler();
            }
            self.time.get()
        }
    }

    #[test]
    fn a_rate_is_what_the_kernel_multiplies_by() {
        let earlier = Pair { count: u64::MAX - 5, time: 1_000 };
        let after = |counts: u64, nanos| Pair {
            count: earlier.count.wrapping_add(counts),
            time: earlier.time + nanos,
        };
        let rate = Rate::between(earlier, after(2_000_000_000, 1_000_000_000)).unwrap();
        assert_eq!(rate, Rate(1 << 31));
        assert_eq!(rate.nanos(2_000), 1_000);
        assert_eq!(rate.counts(Nanos(1_000)), 2_000);
        assert_eq!(rate.slower().nanos(2_048_000), 1_023_000);
        let refused = [(0, 1_000), (1_000, 0), (1_000, 1_000_000), (1_000_000, 1_000)];
        for (counts, nanos) in refused {
            assert_eq!(Rate::between(earlier, after(counts, nanos)), None, "{counts} {nanos}");
        }
    }

    #[test]
    fn no_product_of_a_reading_overflows() {
        for rate in [*Rate::SANE.start(), 1 << 31, *Rate::SANE.end()] {
            let rate = Rate(rate).slower();
            assert!(rate.counts(WINDOW).checked_mul(rate.0).is_some(), "{rate:?}");
        }
    }

    #[test]
    fn a_pair_is_of_one_moment() {
        let pair = |after: u64| Pair::between(u64::MAX, 5, u64::MAX.wrapping_add(after));
        assert_eq!(pair(CLOSE), Some(Pair { count: CLOSE - 1, time: 5 }));
        assert_eq!(pair(CLOSE + 1), None);
        assert_eq!(Pair::between(7, 5, 6), None, "the counter goes forward");
    }

    #[test]
    fn it_is_behind_the_kernel_by_its_bound_and_never_ahead_whatever_ntp_does() {
        for change in [0, 500, -500] {
            let (model, clock) = (Model::new(), Clock::new());
            model.measure(&clock);
            let (mut last, mut counted) = (0, 0);
            for step in 0..300_000_u64 {
                // The pace changes twice in each measurement.
                model.pass(7, if step / 70_000 % 2 == 0 { change } else { 0 });
                counted += u64::from(clock.by_counter(|| model.count.get()).is_some());
                let (now, kernel) = (model.read(&clock), model.time.get());
                assert!(now <= kernel, "{change} ppm, step {step}: {now} is after {kernel}");
                assert!(now + 160 >= kernel, "{change} ppm, step {step}: {now} of {kernel}");
                assert!(now >= last, "{change} ppm, step {step}: {now} after {last}");
                last = now;
            }
            assert!(counted > 250_000, "{change} ppm: {counted} readings are the counter's");
            assert_eq!(clock.measure.get().jumps, 0);
        }
    }

    #[test]
    fn it_never_goes_backwards_where_the_kernel_slows_down_at_once() {
        let (model, clock) = (Model::new(), Clock::new());
        model.measure(&clock);
        let mut last = 0;
        for _ in 0..200 {
            model.pass(7, -100_000);
            let now = model.read(&clock);
            assert!(now >= last, "{now} after {last}");
            assert!(now <= model.time.get() + 10 * MICRO, "a tenth of the window");
            last = now;
        }
    }

    #[test]
    fn a_counter_that_jumps_is_measured_again() {
        for jump in [-1_i64 << 40, -30_000, 30_000, 1 << 40] {
            let (model, clock) = (Model::new(), Clock::new());
            model.measure(&clock);
            model.pass(200, 0);
            model.count.update(|count| count.wrapping_add_signed(jump));
            model.count.update(|count| count + WINDOW.0 * PACE / MICRO);
            model.time.update(|time| time + WINDOW.0);
            assert_eq!(model.read(&clock), model.time.get(), "{jump}");
            assert!(clock.by_counter(|| model.count.get()).is_none(), "{jump}");
            assert_eq!(clock.measure.get().jumps, 1, "{jump}");
            model.pass(FIRST_SPAN.0 / MICRO, 0);
            model.read(&clock);
            assert!(clock.by_counter(|| model.count.get()).is_some(), "{jump}: measured");
        }
    }

    #[test]
    fn a_counter_that_jumps_all_the_time_is_left_alone() {
        let (model, clock) = (Model::new(), Clock::new());
        for _ in 0..MOST_FAULTS {
            model.measure(&clock);
            model.count.update(|count| count + (1 << 40));
            assert_eq!(model.read(&clock), model.time.get());
        }
        model.pass(FIRST_SPAN.0 / MICRO, 0);
        assert_eq!(model.read(&clock), model.time.get());
        assert!(clock.by_counter(|| model.count.get()).is_none());
    }

    #[test]
    fn jumps_with_good_seconds_between_them_are_forgiven() {
        let (model, clock) = (Model::new(), Clock::new());
        for _ in 0..2 * MOST_FAULTS {
            model.measure(&clock);
            (0..101).for_each(|_| {
                model.pass(NEXT_SPAN.0 / MICRO / 100, 0);
                model.read(&clock);
            });
            assert_eq!(clock.measure.get().jumps, 0);
            model.count.update(|count| count + (1 << 40));
            model.read(&clock);
        }
    }

    #[test]
    fn a_thread_that_has_slept_for_long_measures_from_then_on() {
        let (model, clock) = (Model::new(), Clock::new());
        model.read(&clock);
        // The machine slept: its counter went on, and the clock did not.
        model.pass(10_000_000, -500_000);
        model.read(&clock);
        assert!(clock.by_counter(|| model.count.get()).is_none());
        model.measure(&clock);
    }

    #[test]
    fn a_handler_that_moves_the_anchor_in_a_reading_is_found_out() {
        let (model, clock) = (Model::new(), Clock::new());
        model.measure(&clock);
        let interrupted = clock.by_counter(|| {
            let count = model.count.get();
            model.pass(150, 0);
            assert_eq!(model.read(&clock), model.time.get(), "the handler's");
            count
        });
        assert_eq!(interrupted, None);
        assert_eq!(model.read(&clock), model.time.get());
    }

    #[test]
    fn a_handler_in_a_change_reads_the_kernel_and_changes_nothing() {
        let (model, clock) = (Model::new(), Clock::new());
        model.measure(&clock);
        model.pass(150, 0);
        let handler = || {
            let before = (clock.version.load(Ordering::Relaxed), clock.measure.get());
            assert_eq!(clock.by_counter(|| model.count.get()), None);
            assert_eq!(clock.by_kernel(&model), model.time.get());
            assert_eq!(before, (clock.version.load(Ordering::Relaxed), clock.measure.get()));
        };
        model.handler.set(Some(&handler));
        assert_eq!(clock.by_kernel(&model), model.time.get());
        assert!(model.handler.get().is_none(), "it was interrupted");
        assert!(clock.by_counter(|| model.count.get()).is_some());
    }

    #[test]
    fn no_part_of_an_anchor_is_read_while_it_is_written() {
        let (model, clock) = (Model::new(), Clock::new());
        model.measure(&clock);
        let reads_none = || assert_eq!(clock.by_counter(|| model.count.get()), None);
        clock.version.fetch_add(1, Ordering::Relaxed);
        // The last write of a change but that of the version is the window, as here.
        reads_none();
        clock.window.store(0, Ordering::Relaxed);
        reads_none();
        clock.count.fetch_add(40, Ordering::Relaxed);
        reads_none();
        clock.window.store(u64::MAX, Ordering::Relaxed);
        reads_none();
    }

    #[test]
    fn who_forgets_reads_the_kernel_next_also_in_a_change() {
        let (model, clock) = (Model::new(), Clock::new());
        model.measure(&clock);
        model.pass(50, 0);
        clock.forget();
        assert_eq!(model.read(&clock), model.time.get());
        model.pass(50, 0);
        assert!(model.read(&clock) < model.time.get(), "it counts again");
        let handler = || clock.forget();
        model.handler.set(Some(&handler));
        clock.by_kernel(&model);
        model.pass(50, 0);
        assert_eq!(model.read(&clock), model.time.get());
    }

    /// Holds on a busy machine: each reading is between two of the kernel's, however long these are apart.
    #[test]
    fn it_goes_with_the_kernels_clock_on_two_threads() {
        const BOUND: Nanos = Nanos::from_micros(50);
        choose();
        let beside = || {
            let (began, mut last) = (thread::monotonic(), Time::ZERO);
            while thread::monotonic().since(began) < Nanos::from_millis(200) {
                let before = thread::monotonic();
                let now = now();
                let after = thread::monotonic();
                assert!(before <= now + BOUND, "{now:?} is long before {before:?}");
                assert!(now <= after + BOUND, "{now:?} is long after {after:?}");
                assert!(last <= now, "{now:?} comes after {last:?}");
                last = now;
                forget_sometimes(now);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(beside);
            scope.spawn(beside);
        });
    }

    fn forget_sometimes(now: Time) {
        if now.0.is_multiple_of(64) {
            forget();
            let kernel = thread::monotonic();
            assert!(kernel <= super::now(), "who has forgotten is not behind");
        }
    }
}
