//! Where the owners of slots run, as far as is known, and whether an idle one is bound until it wakes.
//!
//! A kernel wakes a thread on an idle CPU if there is one. That of a virtual machine may rather fill a CPU that is in use,
//! so that the host sees few of them. There a worker that is woken waits for the slice of another worker, while the CPU on
//! which it slept is idle. A worker sees that as it wakes: it runs where the owner of another slot does, and no owner runs
//! where it slept. From then on idle workers sleep bound, for a time, each to a CPU on which no other owner runs.
//!
//! A thread that is bound waits for its CPU while another process has it. If one that was called does not come, the
//! keeper unbinds it, and for a time none is bound.

use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};

/// For how long workers sleep bound after one was woken beside another: long beside the wake-ups of which one is late
/// before that is seen again.
const LASTS: Nanos = Nanos::from_millis(10_000);

/// For how long they do not after one that was bound did not come. Another process may have its CPU for long; or the
/// machine's host had it, for some milliseconds.
const PAUSES: Nanos = Nanos::from_millis(1_000);

/// The owner of the slot sleeps.
const NOWHERE: u32 = u32::MAX;

/// For each slot the CPU of the kernel on which its owner runs, and what follows from that.
#[derive(Debug)]
pub(crate) struct Homes {
    places: Box<[AtomicU32]>,
    /// Until when idle workers sleep bound, and from when on they may.
    until: AtomicU64,
    from: AtomicU64,
}

impl Homes {
    /// Idle workers sleep bound from the beginning if that is said.
    pub(crate) fn new(slots: usize, are_kept: bool) -> Homes {
        let places = (0..slots).map(|_| AtomicU32::new(NOWHERE)).collect();
        let until = if are_kept { u64::MAX } else { 0 };
        Homes { places, until: AtomicU64::new(until), from: AtomicU64::new(0) }
    }

    /// The owner of `slot`, which runs on this CPU, is about to sleep.
    pub(crate) fn leaves(&self, slot: CpuId) {
        self.places[slot.index()].store(NOWHERE, Ordering::Relaxed);
    }

    /// The owner of `slot` runs on this CPU.
    pub(crate) fn comes(&self, slot: CpuId, cpu: u32) {
        self.places[slot.index()].store(cpu, Ordering::Relaxed);
    }

    /// The owner of `slot` was to wake on one CPU, and `woke_on` another, maybe: notes whether the kernel brought it to the
    /// CPU of another owner for nothing.
    pub(crate) fn woke(
        &self,
        slot: CpuId,
        to_wake_on: u32,
        woke_on: u32,
        now: impl FnOnce() -> Time,
    ) {
        self.comes(slot, woke_on);
        let is_beside = to_wake_on != woke_on
            && self.has_others(slot, woke_on)
            && !self.has_others(slot, to_wake_on);
        if is_beside {
            let now = now();
            if now >= Time(self.from.load(Ordering::Relaxed)) {
                self.until.store((now + LASTS).0, Ordering::Relaxed);
            }
        }
    }

    /// The owner of `slot` was given it by one that ran where it is to run: as [`Homes::woke`].
    pub(crate) fn follows(&self, slot: CpuId, woke_on: u32, now: impl FnOnce() -> Time) {
        match self.places[slot.index()].load(Ordering::Relaxed) {
            NOWHERE => self.comes(slot, woke_on),
            before => self.woke(slot, before, woke_on, now),
        }
    }

    /// One that was bound and called does not come.
    pub(crate) fn does_not_come(&self, now: Time) {
        self.from.store((now + PAUSES).0, Ordering::Relaxed);
        self.until.store(0, Ordering::Relaxed);
    }

    /// Whether idle workers sleep bound.
    pub(crate) fn are_kept(&self, now: impl FnOnce() -> Time) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && now() < Time(until)
    }

    /// Whether the owner of a slot other than `slot` runs on a CPU.
    pub(crate) fn has_others(&self, slot: CpuId, cpu: u32) -> bool {
        let others = self.places.iter().enumerate().filter(|&(nth, _)| nth != slot.index());
        others.map(|(_, place)| place.load(Ordering::Relaxed)).any(|place| place == cpu)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const OWN: CpuId = CpuId(0);
    const OTHER: CpuId = CpuId(1);

    /// The other owner runs on this CPU.
    fn beside(cpu: u32) -> Homes {
        let homes = Homes::new(2, false);
        homes.comes(OTHER, cpu);
        homes
    }

    #[test]
    fn workers_are_bound_for_a_time_after_one_woke_beside_another() {
        let homes = beside(5);
        assert!(!homes.are_kept(|| Time(1)));
        homes.woke(OWN, 4, 5, || Time(1));
        assert!(homes.are_kept(|| Time(2)));
        assert!(!homes.are_kept(|| Time(1) + LASTS));
    }

    #[test]
    fn no_worker_is_bound_after_one_woke_where_it_could() {
        for (other, slept_on, woke_on) in [(5, 4, 4), (5, 4, 6), (5, 5, 5), (4, 4, 5)] {
            let homes = beside(other);
            homes.woke(OWN, slept_on, woke_on, || Time(1));
            assert!(!homes.are_kept(|| Time(2)), "{other}: from {slept_on} to {woke_on}");
        }
        let homes = beside(5);
        homes.leaves(OTHER);
        homes.woke(OWN, 4, 5, || Time(1));
        assert!(!homes.are_kept(|| Time(2)), "the other one sleeps");
    }

    #[test]
    fn none_is_bound_for_a_time_after_one_did_not_come() {
        let homes = beside(5);
        homes.woke(OWN, 4, 5, || Time(1));
        homes.does_not_come(Time(2));
        assert!(!homes.are_kept(|| Time(3)));
        homes.woke(OWN, 4, 5, || Time(3));
        assert!(!homes.are_kept(|| Time(4)));
        let later = Time(2) + PAUSES;
        homes.woke(OWN, 4, 5, || later);
        assert!(homes.are_kept(|| later));
    }
}
