//! The future events, in order of time. A seeded draw orders events of the same time, and then the sequence of their
//! entry. So no run depends on the order in which the code happens to enter events.
//!
//! The calendar is a wheel of buckets. Each bucket covers a short span of time and keeps its events unsorted. A heap
//! sorts a bucket when its time comes. A second heap holds the events after the wheel's last bucket. The next few
//! events are taken out of the heap together. Their data can then be [read ahead](crate::ahead), and an event entered
//! before the last of them needs no heap.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;

/// A kind of future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The timer hardware of a CPU interrupts it.
    Interrupt(CpuId),
    /// Another CPU's request to reschedule arrives.
    Kick(CpuId),
    /// A CPU completes the stretch with this ticket, of its own work or of its task's work.
    Done(CpuId, Ticket),
    /// The migrating task with this number arrives.
    Arrive(u32),
    /// The state that a CPU held back is published.
    Publish(CpuId),
    /// A task of the scenario begins.
    Start(TaskId),
    /// The change with this number of the scenario's timeline takes place.
    Change(u32),
    /// A request of the arrivals with this number comes.
    Request(u32),
    /// The run ends.
    End,
}

/// The name of one stretch of a CPU. A CPU that begins another stretch issues another ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl Ticket {
    pub(crate) fn next(self) -> Ticket {
        Ticket(self.0.wrapping_add(1))
    }
}

/// A future event with its place among events of the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The time, then the draw, then the number of the entry.
    key: u128,
    due: Due,
}

impl Entry {
    /// Returns the time of the event.
    pub(crate) fn at(self) -> Time {
        Time((self.key >> 64) as u64)
    }
}

/// The number of events taken out of the heap together.
pub(crate) const AT_ONCE: usize = 16;

/// The time that the wheel covers, in binary digits: 4.2 ms. Most events are entered within a tick or two of their
/// time.
const SPAN_BITS: u32 = 22;

/// The number of CPUs for each bucket of the wheel. On a busy machine a bucket has some hundred events.
const CPUS_PER_BUCKET: usize = 4;

/// The number of bits in a word. Each bucket has one bit, and there is at least one word of buckets.
const WORD: usize = u64::BITS as usize;

/// The largest number of events for which a bucket keeps its memory.
const KEPT: usize = 256;

/// The future events.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The next events in reverse order. Each precedes all other events.
    soon: Vec<Entry>,
    /// The events until the end of bucket `current`.
    near: Heap,
    /// The events of the later buckets, by the number of the bucket modulo the number of buckets.
    wheel: Box<[Vec<Entry>]>,
    /// One bit for each place of the wheel with events.
    filled: Box<[u64]>,
    /// The events after the wheel's last bucket.
    far: Heap,
    /// The number of a bucket, counted from time zero.
    current: u64,
    /// The duration of a bucket, in binary digits.
    bucket_bits: u32,
    entered: u32,
    draws: Pcg64Mcg,
}

impl Calendar {
    /// Returns an empty calendar for a machine with this number of CPUs. The buckets are shorter for more CPUs.
    pub(crate) fn new(cpus: usize, draws: Pcg64Mcg) -> Calendar {
        let buckets = (cpus / CPUS_PER_BUCKET).next_power_of_two().max(WORD);
        Calendar {
            soon: Vec::with_capacity(2 * AT_ONCE + 1),
            near: Heap::default(),
            wheel: (0..buckets).map(|_| Vec::new()).collect(),
            filled: (0..buckets / WORD).map(|_| 0).collect(),
            far: Heap::default(),
            current: 0,
            bucket_bits: SPAN_BITS - buckets.ilog2(),
            entered: 0,
            draws,
        }
    }

    pub(crate) fn enter(&mut self, at: Time, due: Due) {
        let entry = self.entry(at, due);
        self.put(entry);
    }

    /// Enters an event that comes before all others of its time. It takes no draw, so the others come in the same order as
    /// without it.
    pub(crate) fn enter_first(&mut self, at: Time, due: Due) {
        self.put(Entry { key: u128::from(at.0) << 64, due });
    }

    /// Returns an event that the caller enters later or never. Its place is drawn now, as with [`Calendar::enter`].
    pub(crate) fn entry(&mut self, at: Time, due: Due) -> Entry {
        let tie = u64::from(self.draws.next_u32()) << 32 | u64::from(self.entered);
        self.entered = self.entered.wrapping_add(1);
        Entry { key: u128::from(at.0) << 64 | u128::from(tie), due }
    }

    /// Enters an event that [`Calendar::entry`] returned.
    pub(crate) fn put(&mut self, entry: Entry) {
        match self.soon.first() {
            Some(last) if entry.key < last.key => self.put_soon(entry),
            _ => self.put_later(entry),
        }
    }

    fn put_soon(&mut self, entry: Entry) {
        let before = self.soon.iter().rposition(|it| it.key > entry.key);
        self.soon.insert(before.map_or(0, |at| at + 1), entry);
        if self.soon.len() > 2 * AT_ONCE {
            for nth in 0..AT_ONCE {
                self.near.push(self.soon[nth]);
            }
            self.soon.drain(..AT_ONCE);
        }
    }

    fn put_later(&mut self, entry: Entry) {
        let bucket = entry.at().0 >> self.bucket_bits;
        let (nth, len) = (self.place(bucket), self.wheel.len() as u64);
        match bucket.saturating_sub(self.current) {
            0 => self.near.push(entry),
            ahead if ahead < len => {
                self.wheel[nth].push(entry);
                self.filled[nth / WORD] |= 1 << (nth % WORD);
            }
            _ => self.far.push(entry),
        }
    }

    /// Makes the next event known. Returns whether events after it became known as well.
    #[inline]
    pub(crate) fn look(&mut self) -> bool {
        self.soon.is_empty() && self.take_some()
    }

    #[inline(never)]
    fn take_some(&mut self) -> bool {
        if self.near.is_empty() {
            self.turn();
        }
        self.soon.extend(std::iter::from_fn(|| self.near.pop()).take(AT_ONCE));
        self.soon.reverse();
        !self.soon.is_empty()
    }

    /// Returns the place of a bucket on the wheel, whose size is a power of two.
    fn place(&self, bucket: u64) -> usize {
        bucket as usize & (self.wheel.len() - 1)
    }

    /// Advances to the next bucket with events.
    fn turn(&mut self) {
        let on_wheel = self.next_filled();
        let beyond = self.far.first().map(|entry| entry.at().0 >> self.bucket_bits);
        let Some(next) = on_wheel.into_iter().chain(beyond).min() else { return };
        self.current = next;
        let nth = self.place(next);
        self.filled[nth / WORD] &= !(1 << (nth % WORD));
        let room = if self.near.0.capacity() > KEPT {
            Vec::new()
        } else {
            std::mem::take(&mut self.near.0)
        };
        self.near = Heap::of(std::mem::replace(&mut self.wheel[nth], room));
        let end = next + self.wheel.len() as u64;
        while let Some(entry) = self.far.first()
            && entry.at().0 >> self.bucket_bits < end
        {
            self.far.pop();
            self.put_later(entry);
        }
    }

    /// Returns the next bucket of the wheel with events.
    fn next_filled(&self) -> Option<u64> {
        let (words, len) = (self.filled.len(), self.wheel.len() as u64);
        let begin = (self.current + 1) % len;
        let (first, bit) = (begin as usize / WORD, begin as usize % WORD);
        // The first word is read twice: from the first bit on, and at the end below it.
        let found = (0..=words).find_map(|nth| {
            let at = (first + nth) % words;
            let word = match nth {
                0 => self.filled[at] & u64::MAX << bit,
                _ => self.filled[at],
            };
            (word != 0).then(|| (at * WORD) as u64 + u64::from(word.trailing_zeros()))
        })?;
        Some(self.current + 1 + (found + len - begin) % len)
    }

    /// Returns the next events that are known.
    pub(crate) fn soon(&self) -> impl Iterator<Item = Due> {
        self.soon.iter().map(|entry| entry.due)
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Due)> {
        self.look();
        let entry = self.soon.pop()?;
        Some((entry.at(), entry.due))
    }

    /// Returns the number of entered events.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let on_wheel: usize = self.wheel.iter().map(Vec::len).sum();
        self.soon.len() + self.near.0.len() + on_wheel + self.far.0.len()
    }
}

const CHILDREN: usize = 4;

/// A heap in one array with four children for each node. Its first event is known.
#[derive(Debug, Default)]
struct Heap(Vec<Entry>);

impl Heap {
    fn of(entries: Vec<Entry>) -> Heap {
        let mut heap = Heap(entries);
        for at in (0..heap.0.len().div_ceil(CHILDREN)).rev() {
            heap.sink(at, heap.0[at]);
        }
        heap
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn first(&self) -> Option<Entry> {
        self.0.first().copied()
    }

    fn push(&mut self, entry: Entry) {
        let mut at = self.0.len();
        self.0.push(entry);
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.0[parent].key < entry.key {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = entry;
    }

    fn pop(&mut self) -> Option<Entry> {
        let last = self.0.pop()?;
        let first = self.first();
        if first.is_some() {
            self.sink(0, last);
        }
        first.or(Some(last))
    }

    /// Puts `entry` at a free place and moves it down to its own.
    fn sink(&mut self, mut at: usize, entry: Entry) {
        let heap = &mut self.0[..];
        loop {
            let first = at * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(heap.len());
            let Some(least) = children.min_by_key(|&child| heap[child].key) else { break };
            if entry.key < heap[least].key {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares the calendar with a list that is sorted at each access. A new event lies some time after the last
        /// one taken. One number gives the digits of that distance, and the other one the value within them.
        #[test]
        fn events_come_in_order_of_time(
            cpus in 1..3_000_usize,
            actions in prop::collection::vec(prop::option::of((0..40_u32, any::<u64>())), 0..600),
        ) {
            let mut calendar = Calendar::new(cpus, Pcg64Mcg::new(7));
            let (mut naive, mut now): (Vec<u64>, u64) = (Vec::new(), 0);
            for action in actions {
                if let Some((digits, part)) = action {
                    let at = now + part % (1 << digits);
                    calendar.enter(Time(at), Due::Start(TaskId(at)));
                    naive.push(at);
                } else {
                    naive.sort_unstable_by(|a, b| b.cmp(a));
                    let expected = naive.pop();
                    now = expected.unwrap_or(now);
                    let next = calendar.next();
                    prop_assert_eq!(next.map(|(at, _)| at.0), expected);
                    if let Some((at, due)) = next {
                        prop_assert_eq!(due, Due::Start(TaskId(at.0)));
                    }
                }
            }
        }
    }

    #[test]
    fn simultaneous_events_are_in_a_drawn_order_each_once() {
        let order = |seed| {
            let mut calendar = Calendar::new(1, Pcg64Mcg::new(seed));
            (0..200).for_each(|id| calendar.enter(Time(5), Due::Start(TaskId(id))));
            let mut order = Vec::new();
            while let Some((_, Due::Start(task))) = calendar.next() {
                order.push(task.0);
            }
            order
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..200).collect::<Vec<_>>());
    }
}
