//! CLOCK_MONOTONIC computed from the processor's counter, for less than half of the cost of the vDSO.
//!
//! Where the kernel's clock source is the time-stamp counter, the kernel's clock is a multiple of the counter. A thread
//! measures that multiple, and then reads only the counter. Every 100 us it also reads the kernel's clock: this pair of
//! readings is its *anchor*, to which later readings add. On every other machine, and until the multiple is known, the
//! vDSO is read.
//!
//! * *Never ahead.* Timers and futexes take instants of the kernel's clock, so no timer may seem due before it is. So
//!   the multiple is taken 1/1024 too small, and the anchor's counter is read after the kernel's clock.
//! * *At most about 1 us behind.* NTP changes the pace of the kernel's clock by up to 500 ppm. Together with the 1/1024
//!   and the error of the measurement this is 0.16 us in 100 us. The two counter readings of an anchor are at most
//!   1,000 counts apart. Usual is 0.1 us in all. A program that sets `adjtimex`'s tick changes the pace by up to a
//!   tenth: after each such change, a thread may once be 10 us off, to either side, for 100 us.
//! * *Never backwards* on one thread: no reading is before the last one. Two threads differ by at most the bound. So a
//!   span between instants of two threads is taken by `Time::since`, which saturates at zero. Where the order of
//!   instants has to be the order of events, [`gettime::monotonic`] is read.
//! * *Never before a deadline that has passed.* A thread that waited in the kernel for an instant, or was interrupted
//!   by a timer, next reads the kernel's clock ([`forget`]). So a timer whose signal has come never seems to be pending
//!   still.
//!
//! The words are thread-local and have no destructor. A signal handler may interrupt a reading or a change of the
//! anchor at any instruction, and may read the time itself. The version is odd during a change: a handler that finds it
//! odd reads the kernel's clock and changes nothing. A reading that was interrupted by a change finds another version,
//! and starts again. No thread or handler waits for another.
//!
//! The next anchor detects a counter that has jumped, as it may when the machine sleeps or is moved; the multiple is
//! then measured again. After [`MOST_FAULTS`] jumps without a good second between them, the thread stays with the vDSO.
//!
//! Rejected: one anchor for all threads, since a reader that has interrupted the writer would wait for ever; the
//! kernel's own multiple, since it is in pages whose layout is no interface.

use super::gettime;
use crate::os::sync::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use runyard_engine::time::{Nanos, Time};
use std::cell::Cell;

/// Whether this code can read a counter of this processor.
const COUNTS: bool = cfg!(target_arch = "x86_64");

/// The file in which the kernel names its clock source.
const KERNELS_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The environment variable, and its value, that keep the vDSO.
const VARIABLE: &str = "RUNYARD_CLOCK";
const VDSO: &str = "vdso";

/// The time for which an anchor is good. One reading of the vDSO in 100 us costs almost nothing, and the error grows
/// with this time.
const WINDOW: Nanos = Nanos::from_micros(100);

/// The time over which the multiple is first measured: an error of 1,000 counts is 50 ppm of it at 2 GHz.
const FIRST_SPAN: Nanos = Nanos(10_000_000 >> gettime::SLOWER);

/// The time after which the multiple is measured again, each time. If twice this time has passed, the measurement
/// restarts, since the machine may have slept meanwhile.
const NEXT_SPAN: Nanos = Nanos::from_secs(1);

/// The most counts between the two counter readings of a pair: 0.2 to 0.5 us on present machines, where 130 counts are
/// usual. A larger distance means that the thread was interrupted between the readings.
const CLOSE: u64 = 1_000;

/// The shift by which the multiple is reduced, 1/1024: more than NTP's change and the error of the measurement
/// together.
const SLOWER_SHIFT: u32 = 10;

/// The largest difference between the multiple and the kernel's clock: 1/500 of the time between two anchors, plus 2
/// us. A larger difference is a jump.
const STEADY: (u64, Nanos) = (500, Nanos::from_micros(2));

/// The number of jumps without a good second between them, or of pairs in a row that are not close, after which a
/// thread gives up the counter.
const MOST_FAULTS: u32 = 16;

/// Whether the counter is read: it is the kernel's clock source, and the environment does not ask for the vDSO.
static BY_COUNTER: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CLOCK: Clock = const { Clock::new() };
}

/// Decides, at the first call, how this process reads the clock. Not for signal handlers: it reads the environment.
pub(crate) fn choose() {
    static CHOSEN: AtomicBool = AtomicBool::new(false);
    if COUNTS && !CHOSEN.swap(true, Ordering::Relaxed) {
        let wants_vdso = std::env::var_os(VARIABLE).is_some_and(|value| value == VDSO);
        let source = std::fs::read_to_string(KERNELS_SOURCE).unwrap_or_default();
        BY_COUNTER.store(!wants_vdso && source.trim_end() == "tsc", Ordering::Relaxed);
    }
}

/// Returns the time on the monotonic clock. May be called in a signal handler.
#[inline]
pub(crate) fn now() -> Time {
    if !COUNTS {
        return gettime::monotonic();
    }
    Time(CLOCK.with(|clock| clock.by_counter(|| Machine.count()).unwrap_or_else(by_kernel)))
}

/// Makes the calling thread's next reading come from the kernel's clock. May be called in a signal handler.
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

/// The counter and the kernel's clock, of this machine or of a test.
trait Source {
    /// Reads the counter.
    fn count(&self) -> u64;

    /// Reads the counter after all earlier instructions have completed.
    fn count_after(&self) -> u64;

    /// Reads the kernel's clock.
    fn time(&self) -> u64;
}

struct Machine;

impl Source for Machine {
    /// Reads without a fence: the processor may read the counter before earlier instructions complete. So a reading is
    /// at most about 0.1 us early and never late, as the callers require. This is less than the difference between
    /// threads.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn count(&self) -> u64 {
        // SAFETY: every processor of this architecture has the instruction. The kernel lets programs use it: where this
        // is called, the vDSO uses it too.
        (unsafe { std::arch::x86_64::_rdtsc() }) >> gettime::SLOWER
    }

    #[cfg(target_arch = "x86_64")]
    fn count_after(&self) -> u64 {
        // SAFETY: every processor of this architecture has the fence.
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
        gettime::monotonic().0
    }
}

/// The readings of both clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    count: u64,
    time: u64,
}

impl Pair {
    /// Returns the pair of a reading of the kernel's clock between two readings of the counter, with the later count.
    /// `None` if the two are too far apart.
    fn between(before: u64, time: u64, after: u64) -> Option<Pair> {
        (after.wrapping_sub(before) <= CLOSE).then_some(Pair { count: after, time })
    }
}

/// The multiple: nanoseconds per count, in units of 2^-32 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate(u64);

impl Rate {
    /// The rates of counters of 50 MHz to 20 GHz. No kernel uses a counter outside this range as its clock source.
    const SANE: std::ops::RangeInclusive<u64> = (1 << 32) / 20..=20 << 32;

    fn between(earlier: Pair, later: Pair) -> Option<Rate> {
        let counts = u128::from(later.count.wrapping_sub(earlier.count));
        let nanos = u128::from(later.time.saturating_sub(earlier.time));
        let rate = (nanos << 32).checked_div(counts)?;
        let rate = u64::try_from(rate).ok()?;
        Rate::SANE.contains(&rate).then_some(Rate(rate))
    }

    /// Returns the rate reduced by 1/1024, which stays behind the kernel's clock whatever NTP does.
    fn slower(self) -> Rate {
        Rate(self.0 - (self.0 >> SLOWER_SHIFT))
    }

    /// Returns the nanoseconds of this many counts.
    fn nanos(self, counts: u64) -> u128 {
        (u128::from(counts) * u128::from(self.0)) >> 32
    }

    /// Returns the number of counts in a span.
    fn counts(self, span: Nanos) -> u64 {
        (span.0 << 32) / self.0
    }
}

/// The state of a thread's measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measure {
    /// The pair at which the measurement began.
    base: Option<Pair>,
    last: Pair,
    rate: Option<Rate>,
    /// Jumps since the last complete measurement over [`NEXT_SPAN`].
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

    /// Returns whether the measurement needs a pair at this time.
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

/// Returns whether the counter or the kernel's clock has jumped between two pairs.
fn has_jumped(earlier: Pair, rate: Rate, later: Pair) -> bool {
    let said = later.time.saturating_sub(earlier.time);
    let counted = rate.nanos(later.count.wrapping_sub(earlier.count));
    let (part, least) = STEADY;
    counted.abs_diff(said.into()) > u128::from(said / part + least.0)
}

/// The clock of one thread. Only that thread and its signal handlers use it.
///
/// | field | written | read |
/// |---|---|---|
/// | `version` | before and after a change | by every reading |
/// | the anchor: `count`, `time`, `rate` | while the version is odd | at any time; the result counts if the version is even and stays the same |
/// | `window` | while the version is odd; set to 0 at any time | before the anchor |
/// | `is_forgotten` | set at any time; cleared while the version is odd | at the end of a change |
/// | `last` | by each reading | by each reading |
/// | `measure` | while the version is odd | while it is odd, by the code that made it odd |
struct Clock {
    version: AtomicU64,
    /// The number of counts for which the anchor is good; 0 if there is no anchor.
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

    /// Returns the time by the anchor, if the anchor is good.
    #[inline]
    fn by_counter(&self, count: impl FnOnce() -> u64) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let window = self.window.load(Ordering::Relaxed);
        if window == 0 {
            return None;
        }
        let start = self.count.load(Ordering::Relaxed);
        // A test runs its handler here, between two words of the anchor.
        let since = count().wrapping_sub(start);
        let time = self.time.load(Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let is_one = version.is_multiple_of(2) && version == self.version.load(Ordering::Relaxed);
        if since >= window || !is_one {
            return None;
        }
        // This does not overflow: the product is at most the window in units of 2^-32 ns, which is below 2^49.
        Some(self.not_before_last(time + ((since * rate) >> 32)))
    }

    /// Returns `time`, or the last reading if that is later. A handler may run between the two steps. Then this reading
    /// is before the handler's, as it began before it.
    fn not_before_last(&self, time: u64) -> u64 {
        let time = time.max(self.last.load(Ordering::Relaxed));
        self.last.store(time, Ordering::Relaxed);
        time
    }

    /// Reads the kernel's clock and sets a new anchor.
    fn by_kernel(&self, source: &impl Source) -> u64 {
        let version = self.version.load(Ordering::Relaxed);
        if !version.is_multiple_of(2) {
            // This is a handler that has interrupted a change.
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
            // A handler called `forget` after the kernel's clock was read above.
            self.window.store(0, Ordering::Relaxed);
        }
        self.not_before_last(time)
    }

    /// Makes the next reading come from the kernel's clock.
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
        // The processor may read the first count too early; then the pair only seems less close than it is.
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

    /// Counts per microsecond.
    const PACE: u64 = 2_600;

    const MICRO: u64 = 1_000;

    /// A machine whose counter and kernel's clock advance as the test says.
    struct Model<'a> {
        count: Cell<u64>,
        time: Cell<u64>,
        /// A handler that interrupts one reading of the kernel's clock.
        handler: Cell<Option<&'a dyn Fn()>>,
    }

    impl<'a> Model<'a> {
        fn new() -> Model<'a> {
            let (count, time) = (Cell::new(7 << 40), Cell::new(3 << 40));
            Model { count, time, handler: Cell::new(None) }
        }

        /// Advances the machine by this time, with the kernel's clock `ppm` faster than usual.
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
            assert!(clock.by_counter(|| self.count.get()).is_some(), "the rate is measured");
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
        // The machine slept: its counter advanced and its clock did not.
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
        assert!(model.handler.get().is_none(), "the handler interrupted the reading");
        assert!(clock.by_counter(|| model.count.get()).is_some());
    }

    #[test]
    fn no_part_of_an_anchor_is_read_while_it_is_written() {
        let (model, clock) = (Model::new(), Clock::new());
        model.measure(&clock);
        let reads_none = || assert_eq!(clock.by_counter(|| model.count.get()), None);
        clock.version.fetch_add(1, Ordering::Relaxed);
        // The window is the last word that a change writes before the version, as here.
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
        assert!(model.read(&clock) < model.time.get(), "the counter is read again");
        let handler = || clock.forget();
        model.handler.set(Some(&handler));
        clock.by_kernel(&model);
        model.pass(50, 0);
        assert_eq!(model.read(&clock), model.time.get());
    }

    /// This holds on a busy machine: each reading is between two readings of the kernel's clock, however long these are
    /// apart.
    #[test]
    fn it_goes_with_the_kernels_clock_on_two_threads() {
        const BOUND: Nanos = Nanos::from_micros(50);
        choose();
        let beside = || {
            let (began, mut last) = (gettime::monotonic(), Time::ZERO);
            while gettime::monotonic().since(began) < Nanos::from_millis(200) {
                let before = gettime::monotonic();
                let now = now();
                let after = gettime::monotonic();
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
            let kernel = gettime::monotonic();
            assert!(kernel <= super::now(), "after forget() a reading is not behind the kernel's");
        }
    }
}
