//! What will happen, in order of time. Events of the same time are ordered by a seeded draw, then
//! by when they were entered: no run depends on the order in which the code happens to ask.
//!
//! A wheel of buckets, each for a short span of time, in which events lie as they came. A bucket is put in order when
//! its time has come, by a heap; behind the wheel's last bucket another heap begins. The few events that are
//! next are taken out of the heap together: what they need can be [read ahead](crate::ahead), and
//! what is entered before the last of them needs no heap.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The timer hardware of a CPU interrupts it.
    Interrupt(CpuId),
    /// Another CPU's request to reschedule arrives.
    Kick(CpuId),
    /// A CPU is done with what the ticket stands for: its own work, or a stretch of a task's.
    Done(CpuId, Ticket),
    /// The task that is on its way under this number is there.
    Arrive(u32),
    /// What a CPU held back becomes known.
    Publish(CpuId),
    /// A task of the scenario begins.
    Start(TaskId),
    /// A CPU leaves service, or comes back into it.
    Hotplug(CpuId, bool),
    /// A limit changes: which one of the options.
    Relimit(u32),
    /// The run is over.
    End,
}

/// Names one stretch of a CPU's doing; a CPU that does something else gives out another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl Ticket {
    pub(crate) fn next(self) -> Ticket {
        Ticket(self.0.wrapping_add(1))
    }
}

/// Something that will happen, with its place among what happens at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The time, then the draw, then the number of the entry.
    key: u128,
    due: Due,
}

impl Entry {
    /// When it happens.
    pub(crate) fn at(self) -> Time {
        Time((self.key >> 64) as u64)
    }
}

/// How many events are taken out of the heap at a time.
pub(crate) const AT_ONCE: usize = 16;

/// How much time is on the wheel, in digits: 4.2 ms. Most of what is entered happens within a tick or two.
const SPAN_BITS: u32 = 22;

/// The wheel has a bucket for so many CPUs, which makes some hundred events for each of a busy machine.
const CPUS_PER_BUCKET: usize = 4;

/// A bucket has a bit of a word, and there is no less than a word of them.
const WORD: usize = u64::BITS as usize;

/// The memory of a bucket that held more events than that is not kept for the next ones.
const KEPT: usize = 256;

/// The events to come.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The next events, the first of them last. Each comes before all others.
    soon: Vec<Entry>,
    /// Those until the end of bucket `current`.
    near: Heap,
    /// Those of the buckets after that, by the number of the bucket modulo how many there are.
    wheel: Box<[Vec<Entry>]>,
    /// A bit for each place of the wheel where there are any.
    filled: Box<[u64]>,
    /// Those that come after the wheel's last bucket.
    far: Heap,
    /// The number of a bucket, counted from the beginning of time.
    current: u64,
    /// How long a bucket is, in digits.
    bucket_bits: u32,
    entered: u32,
    draws: Pcg64Mcg,
}

impl Calendar {
    /// Of a machine with so many CPUs: the more there are, the shorter is a bucket.
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

    /// What [`Calendar::enter`] enters, for who enters it later or never: its place is drawn now.
    pub(crate) fn entry(&mut self, at: Time, due: Due) -> Entry {
        let tie = u64::from(self.draws.next_u32()) << 32 | u64::from(self.entered);
        self.entered = self.entered.wrapping_add(1);
        Entry { key: u128::from(at.0) << 64 | u128::from(tie), due }
    }

    /// Enters what was made before.
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

    /// Sees to it that the next event is known; whether others that come after it are known from now on.
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

    /// Where a bucket is on the wheel, which has a power of two of them.
    fn place(&self, bucket: u64) -> usize {
        bucket as usize & (self.wheel.len() - 1)
    }

    /// Goes on to the next bucket in which there is something.
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

    /// The next bucket of the wheel in which there is something.
    fn next_filled(&self) -> Option<u64> {
        let (words, len) = (self.filled.len(), self.wheel.len() as u64);
        let begin = (self.current + 1) % len;
        let (first, bit) = (begin as usize / WORD, begin as usize % WORD);
        // The first word is looked at twice: from the first bit on, and at last below it.
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

    /// The next events, as far as they are known.
    pub(crate) fn soon(&self) -> impl Iterator<Item = Due> {
        self.soon.iter().map(|entry| entry.due)
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Due)> {
        self.look();
        let entry = self.soon.pop()?;
        Some((entry.at(), entry.due))
    }

    /// How many events are entered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let on_wheel: usize = self.wheel.iter().map(Vec::len).sum();
        self.soon.len() + self.near.0.len() + on_wheel + self.far.0.len()
    }
}

const CHILDREN: usize = 4;

/// Events of which the first is known, in one array: a heap of four children a node.
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

    /// Puts `entry` at a free place and lets it sink to its own.
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
        /// Against a list that is sorted whenever it is asked. What is entered is some time ahead of what was
        /// taken last: of as many digits as one number says, and within that what the other says.
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
