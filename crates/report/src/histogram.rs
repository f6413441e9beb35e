//! The wake-up latencies of one task: count, minimum, maximum and mean exactly, percentiles within 1 %, in at most 4
//! KiB, and without any memory before the first sample.
//!
//! Up to [`EXACT_SAMPLES`] samples are kept as they are: a run may have a million tasks that wake up a few times each.
//! Beyond that, samples are counted in buckets whose size grows with their value.
//!
//! **Error.** A bucket starts at `low`, ends before `low + 2 * (low / 100) + 1` and is represented by `low + low /
//! 100`. No member is further from that value than `low / 100`, hence than 1 % of itself. Below 100 ns a bucket is one
//! value. [`BUCKETS`] buckets reach beyond one hour. Longer values are in the last bucket, which is represented by the
//! maximum.
//!
//! **Size.** [`Buckets`] asserts its own size at compile time. A counter has 24 bits in two planes, and [`CARRIES`]
//! buckets may have 16 more. A count is lost only when more than 28 buckets of one task have 2^24 samples each, which
//! takes 470 million wake-ups of that task, or when one bucket has 2^40. A full counter then keeps its value, so the
//! percentiles lean away from it.
//!
//! Rejected:
//! * HDR histograms of two significant digits take 9 KiB for this range.
//! * Logarithms by `f64` need not agree on every machine.
//! * Pages for each octave have no bound that holds for every run.
//! * Counting every second sample, and so on, has no bound on its error.

use runyard_engine::time::Nanos;
use std::fmt;

/// The number of samples that are kept as they are, in 2 KiB. A growing `Vec` of them has room for at most twice as
/// many, so it stays within 4 KiB.
const EXACT_SAMPLES: usize = 256;

/// The parts of a whole in which quantiles are given.
const MILLION: u32 = 1_000_000;

/// The number of buckets: 1326 that reach from 0 ns to beyond one hour, and the open last one.
const BUCKETS: usize = 1327;

/// The number of buckets that may count beyond 24 bits: as many as fit into the 4 KiB.
const CARRIES: usize = 28;

/// The first value of each bucket, in nanoseconds.
static LOW: [u64; BUCKETS] = lows();

/// The number of bits below a value's highest bit that select its bucket: cells of 1/64 are smaller than buckets of
/// 1/50.
const CELL_BITS: u32 = 6;

/// The number of cells of 64-bit values.
const CELLS: usize = cell_of(u64::MAX) + 1;

/// The bucket of the least value of each cell.
static BUCKET_OF_CELL: [u16; CELLS] = buckets_of_cells();

const _: () =
    assert!(lows()[BUCKETS - 1] > Nanos::from_secs(3600).0, "the buckets must reach one hour");
const _: () = assert!(size_of::<Buckets>() <= 4096, "a task may have 4 KiB");

/// A histogram of spans of time. The module has its error and size.
#[derive(Clone)]
pub struct Histogram {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    samples: Samples,
}

/// The samples themselves, or their number in each bucket.
#[derive(Clone)]
enum Samples {
    Few(Vec<u64>),
    Many(Box<Buckets>),
}

/// The counters: bits 0..16 of each bucket, then bits 16..24, then the carries of 2^24.
#[derive(Clone)]
struct Buckets {
    low: [u16; BUCKETS],
    high: [u8; BUCKETS],
    carries: [Carry; CARRIES],
}

/// A carry: `bucket` has `times` times 2^24 samples more than its counter says. It is free if `times` is 0.
#[derive(Clone, Copy, Default)]
struct Carry {
    bucket: u16,
    times: u16,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { count: 0, sum: 0, min: u64::MAX, max: 0, samples: Samples::Few(Vec::new()) }
    }
}

/// Shows a summary; the counters do not help a reader.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} samples", self.count)?;
        match (self.min(), self.max()) {
            (Some(min), Some(max)) => write!(f, " from {min} to {max}"),
            _ => Ok(()),
        }
    }
}

impl Histogram {
    /// Counts `value`. It allocates while there are few samples, then once more, then never again.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value.0);
        self.min = self.min.min(value.0);
        self.max = self.max.max(value.0);
        match &mut self.samples {
            Samples::Few(few) if few.len() < EXACT_SAMPLES => few.push(value.0),
            Samples::Few(few) => {
                let mut buckets = Buckets::of(few);
                buckets.add(bucket_of(value.0));
                self.samples = Samples::Many(buckets);
            }
            Samples::Many(buckets) => buckets.add(bucket_of(value.0)),
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        let theirs = match &other.samples {
            Samples::Few(few) => return few.iter().for_each(|&value| self.record(Nanos(value))),
            Samples::Many(theirs) => theirs,
        };
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if let Samples::Few(few) = &self.samples {
            self.samples = Samples::Many(Buckets::of(few));
        }
        if let Samples::Many(buckets) = &mut self.samples {
            let counts = theirs.counts();
            (0..).zip(&counts).for_each(|(bucket, &times)| buckets.add_times(bucket, times));
        }
    }

    /// The distribution as at most `most` ascending values, each with the number of samples that it stands for. The
    /// values are the buckets, or several neighbouring buckets together, represented by the greatest of them. The last
    /// value is the maximum.
    ///
    /// # Panics
    /// If `most` is 0.
    #[must_use]
    pub fn points(&self, most: usize) -> Vec<(Nanos, u64)> {
        assert!(most > 0, "a distribution has a point");
        let mut counts = [0; BUCKETS];
        match &self.samples {
            Samples::Few(few) => few.iter().for_each(|&value| counts[bucket_of(value)] += 1),
            Samples::Many(buckets) => counts = buckets.counts(),
        }
        let points = |together: usize| {
            let filled = counts.chunks(together).enumerate().filter_map(move |(chunk, counts)| {
                let last = counts.iter().rposition(|&count| count > 0)?;
                Some((chunk * together + last, counts.iter().sum::<u64>()))
            });
            filled.collect::<Vec<_>>()
        };
        let mut together = 1;
        while points(together).len() > most {
            together *= 2;
        }
        let mut points: Vec<_> =
            points(together).iter().map(|&(at, count)| (self.represented(at), count)).collect();
        if let Some((value, _)) = points.last_mut() {
            *value = Nanos(self.max);
        }
        points
    }

    /// The value that represents the samples of a bucket.
    fn represented(&self, bucket: usize) -> Nanos {
        match bucket {
            last if last + 1 == BUCKETS => Nanos(self.max),
            _ => Nanos((LOW[bucket] + LOW[bucket] / 100).clamp(self.min, self.max)),
        }
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least value, exactly; `None` without values.
    #[must_use]
    pub fn min(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.min))
    }

    /// The greatest value, exactly; `None` without values.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.max))
    }

    /// The mean of the values, rounded down to a nanosecond; `None` without values. The values
    /// must not sum to more than 584 years.
    #[must_use]
    pub fn mean(&self) -> Option<Nanos> {
        self.sum.checked_div(self.count).map(Nanos)
    }

    /// The least value that at least `millionths` of a million values do not exceed, within 1 % of itself; `None` without
    /// values.
    ///
    /// ```
    /// use runyard_engine::time::Nanos;
    /// use runyard_report::Histogram;
    ///
    /// let mut latencies = Histogram::default();
    /// (1..=200).for_each(|ns| latencies.record(Nanos(ns)));
    /// assert_eq!(latencies.quantile(950_000), Some(Nanos(190)), "p95");
    /// ```
    ///
    /// # Panics
    /// If `millionths` is above a million.
    #[must_use]
    pub fn quantile(&self, millionths: u32) -> Option<Nanos> {
        assert!(millionths <= MILLION, "there are a million millionths");
        if self.count == 0 {
            return None;
        }
        let value = match &self.samples {
            Samples::Few(few) => {
                let mut sorted = few.clone();
                sorted.sort_unstable();
                sorted[usize::try_from(rank(self.count, millionths)).expect("few") - 1]
            }
            Samples::Many(buckets) => return Some(self.represented(buckets.quantile(millionths))),
        };
        Some(Nanos(value))
    }
}

impl Buckets {
    fn of(values: &[u64]) -> Box<Buckets> {
        let mut buckets = Box::new(Buckets {
            low: [0; BUCKETS],
            high: [0; BUCKETS],
            carries: [Carry::default(); CARRIES],
        });
        values.iter().for_each(|&value| buckets.add(bucket_of(value)));
        buckets
    }

    #[inline]
    fn add(&mut self, bucket: usize) {
        self.low[bucket] = self.low[bucket].wrapping_add(1);
        if self.low[bucket] == 0 {
            self.high[bucket] = self.high[bucket].wrapping_add(1);
            if self.high[bucket] == 0 {
                self.carry(bucket);
            }
        }
    }

    fn add_times(&mut self, bucket: usize, times: u64) {
        const WRAP: u64 = 1 << 24;
        let counter = u64::from(self.high[bucket]) << 16 | u64::from(self.low[bucket]);
        let sum = counter + times % WRAP;
        self.low[bucket] = (sum & 0xffff) as u16;
        self.high[bucket] = (sum >> 16 & 0xff) as u8;
        (0..times / WRAP + sum / WRAP).for_each(|_| self.carry(bucket));
    }

    /// Notes that the counter of `bucket` wrapped around. Without room for a carry it fills the counter again.
    #[cold]
    fn carry(&mut self, bucket: usize) {
        let name = u16::try_from(bucket).expect("there are less than 65,536 buckets");
        let carry = self.carries.iter_mut().find(|it| it.times == 0 || it.bucket == name);
        match carry.and_then(|it| Some((it.times.checked_add(1)?, it))) {
            Some((times, carry)) => *carry = Carry { bucket: name, times },
            None => {
                self.low[bucket] = u16::MAX;
                self.high[bucket] = u8::MAX;
            }
        }
    }

    fn counts(&self) -> [u64; BUCKETS] {
        let mut counts =
            std::array::from_fn(|at| u64::from(self.high[at]) << 16 | u64::from(self.low[at]));
        for carry in &self.carries {
            counts[usize::from(carry.bucket)] += u64::from(carry.times) << 24;
        }
        counts
    }

    /// The bucket of the value that [`Histogram::quantile`] asks for.
    fn quantile(&self, millionths: u32) -> usize {
        let counts = self.counts();
        let rank = rank(counts.iter().sum(), millionths);
        let mut seen = 0;
        counts
            .iter()
            .position(|count| {
                seen += count;
                seen >= rank
            })
            .expect("a rank is at most the number of values")
    }
}

/// The position in the sorted values, from 1, of the least value that `millionths` of `count` values do not exceed.
fn rank(count: u64, millionths: u32) -> u64 {
    let rank = (u128::from(count) * u128::from(millionths)).div_ceil(MILLION.into());
    u64::try_from(rank.max(1)).expect("a rank is at most the number of values")
}

/// The bucket of `value`: that of the least value of its cell, or the next one. A cell is smaller than the buckets that
/// it overlaps, so there is no third candidate.
#[inline]
fn bucket_of(value: u64) -> usize {
    let bucket = usize::from(BUCKET_OF_CELL[cell_of(value)]);
    bucket + usize::from(LOW.get(bucket + 1).is_some_and(|&low| low <= value))
}

/// The highest bit of a value and the [`CELL_BITS`] below it, as one number. Values with fewer bits are cells of their
/// own.
#[inline]
const fn cell_of(value: u64) -> usize {
    match value.checked_ilog2() {
        Some(highest) if highest > CELL_BITS => {
            let below = highest - CELL_BITS;
            ((below as usize) << CELL_BITS) + (value >> below) as usize
        }
        _ => value as usize,
    }
}

const fn lows() -> [u64; BUCKETS] {
    let mut lows = [0; BUCKETS];
    let mut at = 1;
    while at < BUCKETS {
        lows[at] = lows[at - 1] + 2 * (lows[at - 1] / 100) + 1;
        at += 1;
    }
    lows
}

const fn buckets_of_cells() -> [u16; CELLS] {
    let lows = lows();
    let mut buckets = [0; CELLS];
    let mut bucket = 0;
    let mut cell = 0;
    while cell < CELLS {
        let least = least_of(cell);
        while bucket + 1 < BUCKETS && lows[bucket + 1] <= least {
            bucket += 1;
        }
        buckets[cell] = bucket as u16;
        cell += 1;
    }
    buckets
}

/// The least value of a cell.
const fn least_of(cell: usize) -> u64 {
    let below = (cell >> CELL_BITS).saturating_sub(1);
    ((cell - (below << CELL_BITS)) as u64) << below
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Nanos = Nanos::from_secs(3600);

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.record(Nanos(value)));
        histogram
    }

    /// The definition of the percentile, on the sorted values themselves.
    fn exact(sorted: &[u64], millionths: u32) -> u64 {
        let enough = |&&value: &&u64| {
            let not_above = sorted.partition_point(|&other| other <= value);
            not_above as u64 * 1_000_000 >= u64::from(millionths) * sorted.len() as u64
        };
        *sorted.iter().find(enough).unwrap()
    }

    #[test]
    fn nothing_is_known_without_samples() {
        let none = Histogram::default();
        assert_eq!((none.count(), none.min(), none.max()), (0, None, None));
        assert_eq!((none.mean(), none.quantile(500_000)), (None, None));
        assert!(matches!(&none.samples, Samples::Few(few) if few.capacity() == 0));
    }

    #[test]
    fn a_bucket_is_within_1_percent_of_all_its_members() {
        for (bucket, pair) in LOW.windows(2).enumerate() {
            let (first, last, shown) = (pair[0], pair[1] - 1, pair[0] + pair[0] / 100);
            assert!((shown - first) * 100 <= first, "bucket {bucket} from {first} ns");
            assert!(shown <= last && (last - shown) * 100 <= last, "bucket {bucket} to {last} ns");
            assert_eq!((bucket_of(first), bucket_of(last)), (bucket, bucket));
        }
    }

    #[test]
    fn what_is_beyond_the_last_bucket_is_shown_as_the_maximum() {
        let week = 7 * 24 * HOUR.0;
        let long = of((0..1000).map(|_| HOUR.0).chain([week - 1, week]));
        assert_eq!(long.quantile(MILLION), Some(Nanos(week)));
        assert!(long.quantile(500_000).unwrap().0.abs_diff(HOUR.0) * 100 <= HOUR.0);
        assert_eq!(of([u64::MAX; EXACT_SAMPLES + 1]).quantile(1), Some(Nanos(u64::MAX)));
    }

    #[test]
    fn a_counter_goes_on_beyond_24_bits() {
        let (bucket, full) = (bucket_of(5_000), (1 << 24) - 1);
        let mut buckets = Buckets::of(&[]);
        for round in 1..=3_u64 {
            (buckets.low[bucket], buckets.high[bucket]) = (u16::MAX, u8::MAX);
            buckets.add(bucket);
            assert_eq!(buckets.counts()[bucket], round << 24);
        }
        assert_eq!(buckets.carries[1].times, 0, "a bucket needs one place to carry");
        (buckets.low[bucket], buckets.high[bucket]) = (u16::MAX, u8::MAX);
        assert_eq!(buckets.counts()[bucket], (3 << 24) + full);
    }

    #[test]
    fn a_counter_without_room_to_carry_stays_full() {
        let mut buckets = Buckets::of(&[]);
        for bucket in 0..=CARRIES {
            (buckets.low[bucket], buckets.high[bucket]) = (u16::MAX, u8::MAX);
            buckets.add(bucket);
        }
        assert_eq!(buckets.counts()[CARRIES - 1], 1 << 24);
        assert_eq!(buckets.counts()[CARRIES], (1 << 24) - 1);
        buckets.carries[0].times = u16::MAX;
        (buckets.low[0], buckets.high[0]) = (u16::MAX, u8::MAX);
        buckets.add(0);
        assert_eq!(buckets.counts()[0], (1 << 40) - 1);
    }

    /// Values like latencies: of any magnitude, with many equal ones.
    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        let value = (0..42_u32, 0..8_u64, any::<bool>()).prop_map(|(bits, eighths, odd)| {
            HOUR.0.min((1 << bits) + eighths * (1 << bits) / 8 + u64::from(odd) * 7)
        });
        let value = prop_oneof![value, Just(0), 900_000..1_100_000_u64].boxed();
        prop_oneof![
            prop::collection::vec(value.clone(), 1..EXACT_SAMPLES + 2),
            prop::collection::vec(value, 1..4 * EXACT_SAMPLES),
        ]
    }

    #[test]
    fn counters_are_merged_beyond_24_bits() {
        let bucket = bucket_of(5_000);
        let mut buckets = Buckets::of(&[5_000, 5_000]);
        buckets.add_times(bucket, (1 << 24) - 1);
        assert_eq!(buckets.counts()[bucket], (1 << 24) + 1);
        buckets.add_times(bucket, (2 << 24) + 5);
        assert_eq!(buckets.counts()[bucket], (3 << 24) + 6);
    }

    proptest! {
        #[test]
        fn a_merged_histogram_is_that_of_all_samples(some in latencies(), more in latencies()) {
            let mut merged = of(some.iter().copied());
            merged.merge(&of(more.iter().copied()));
            let all = of(some.into_iter().chain(more));
            let figures = |it: &Histogram| {
                let quantiles = [0, 10_000, 500_000, 999_900, MILLION].map(|part| it.quantile(part));
                (it.count(), it.min(), it.max(), it.mean(), quantiles, it.points(64))
            };
            prop_assert_eq!(figures(&merged), figures(&all));
        }

        #[test]
        fn points_are_the_distribution(values in latencies(), most in 1..200_usize) {
            let histogram = of(values.iter().copied());
            let points = histogram.points(most);
            prop_assert!(points.len() <= most && points.is_sorted());
            prop_assert_eq!(points.iter().map(|point| point.1).sum::<u64>(), histogram.count());
            prop_assert_eq!(points.last().map(|point| point.0), histogram.max());
            for &(value, count) in &histogram.points(BUCKETS) {
                let near = values.iter().filter(|&&it| it.abs_diff(value.0) * 50 <= it);
                prop_assert!(near.count() as u64 >= count, "{value:?} stands for {count}");
            }
        }

        #[test]
        fn figures_are_those_of_the_sorted_samples(mut values in latencies(), at in 0..=MILLION) {
            let histogram = of(values.iter().copied());
            values.sort_unstable();
            let count = values.len() as u64;
            prop_assert_eq!(histogram.count(), count);
            prop_assert_eq!(histogram.min(), Some(Nanos(values[0])));
            prop_assert_eq!(histogram.max(), Some(Nanos(*values.last().unwrap())));
            prop_assert_eq!(histogram.mean(), Some(Nanos(values.iter().sum::<u64>() / count)));
            for part in [at, 0, 500_000, 950_000, 999_900, 999_999, MILLION] {
                let (want, got) = (exact(&values, part), histogram.quantile(part).unwrap());
                prop_assert!(got.0.abs_diff(want) * 100 <= want, "{part}: {got:?} for {want}");
                prop_assert!(count > EXACT_SAMPLES as u64 || got.0 == want, "few samples are exact");
            }
        }
    }
}
