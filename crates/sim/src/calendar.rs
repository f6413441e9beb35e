//! What will happen, in order of time. Events of the same time are ordered by a seeded draw, then
//! by when they were entered: no run depends on the order in which the code happens to ask.

use crate::cpu::Ticket;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use runyard_engine::cpu::CpuId;
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_smp::machine::Moving;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Due {
    /// The timer hardware of a CPU interrupts it.
    Interrupt(CpuId),
    /// Another CPU's request to reschedule arrives.
    Kick(CpuId),
    /// A CPU is done with what the ticket stands for: its own work, or a stretch of a task's.
    Done(CpuId, Ticket),
    /// A task that was on its way is there. Boxed: it is rare, and events are moved a lot.
    Arrive(Box<Moving<()>>),
    /// What a CPU held back becomes known.
    Publish(CpuId),
    /// A task of the scenario begins.
    Start(TaskId),
    /// A CPU leaves service, or comes back into it.
    Hotplug(CpuId, bool),
    /// The run is over.
    End,
}

#[derive(Debug)]
struct Entry {
    at: Time,
    draw: u32,
    arrival: u64,
    due: Due,
}

/// The events to come.
#[derive(Debug)]
pub(crate) struct Calendar {
    entries: BinaryHeap<Entry>,
    arrivals: u64,
    draws: Pcg64Mcg,
}

impl Calendar {
    pub(crate) fn new(draws: Pcg64Mcg) -> Calendar {
        Calendar { entries: BinaryHeap::new(), arrivals: 0, draws }
    }

    pub(crate) fn enter(&mut self, at: Time, due: Due) {
        let (draw, arrival) = (self.draws.next_u32(), self.arrivals);
        self.arrivals += 1;
        self.entries.push(Entry { at, draw, arrival, due });
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Due)> {
        self.entries.pop().map(|entry| (entry.at, entry.due))
    }
}

impl Entry {
    fn key(&self) -> (Time, u32, u64) {
        (self.at, self.draw, self.arrival)
    }
}

/// The heap gives its greatest first, so the order is turned round.
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}
