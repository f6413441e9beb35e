//! What will happen, in order of time. Events of the same time are ordered by a seeded draw, then
//! by when they were entered: no run depends on the order in which the code happens to ask.
//!
//! A 4-ary heap of 32-byte entries, since a run is mostly this: an event is taken, and what it does
//! enters another. Taking leaves a hole at the top, which the next entry fills on its way down.

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

const CHILDREN: usize = 4;

/// The events to come.
#[derive(Debug)]
pub(crate) struct Calendar {
    heap: Vec<Entry>,
    /// The first entry of the heap was taken.
    hole: bool,
    entered: u32,
    draws: Pcg64Mcg,
}

impl Calendar {
    pub(crate) fn new(draws: Pcg64Mcg) -> Calendar {
        Calendar { heap: Vec::new(), hole: false, entered: 0, draws }
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
        if std::mem::take(&mut self.hole) {
            self.sink(entry);
        } else {
            self.heap.push(entry);
            self.rise();
        }
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Due)> {
        if std::mem::take(&mut self.hole) {
            let last = self.heap.pop().expect("there is a hole where an entry was");
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        let entry = *self.heap.first()?;
        self.hole = true;
        Some((entry.at(), entry.due))
    }

    /// How many events are entered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len() - usize::from(self.hole)
    }

    /// Puts `entry` at the top and lets it sink to its place.
    fn sink(&mut self, entry: Entry) {
        let heap = &mut self.heap[..];
        let mut at = 0;
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

    /// Lets the last entry rise to its place.
    fn rise(&mut self) {
        let mut at = self.heap.len() - 1;
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent].key < entry.key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list that is sorted whenever it is asked.
        #[test]
        fn events_come_in_order_of_time(
            actions in prop::collection::vec(prop::option::of(0..50_u64), 0..300),
        ) {
            let mut calendar = Calendar::new(Pcg64Mcg::new(7));
            let mut naive: Vec<u64> = Vec::new();
            for action in actions {
                if let Some(at) = action {
                    calendar.enter(Time(at), Due::Start(TaskId(at)));
                    naive.push(at);
                } else {
                    naive.sort_unstable_by(|a, b| b.cmp(a));
                    let expected = naive.pop();
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
            let mut calendar = Calendar::new(Pcg64Mcg::new(seed));
            (0..20).for_each(|id| calendar.enter(Time(5), Due::Start(TaskId(id))));
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
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
