//! The CPUs of the kernel on which slots' owners run, as far as is known, and whether idle workers sleep bound to a
//! CPU.
//!
//! A kernel wakes a thread on an idle CPU if there is one. The kernel of a virtual machine may prefer a CPU in use, so
//! that the host sees few busy CPUs. A woken worker then waits for the slice of another worker, while the CPU on which
//! it slept is idle. A worker detects this when it wakes: it runs on the CPU of another slot's owner, and no owner runs
//! where it slept. From then on, for a time, each idle worker sleeps bound to a CPU on which no other owner runs.
//!
//! A bound thread waits for its CPU while another process has it. If a bound worker is called and does not come, the
//! keeper unbinds it, and for a time no worker is bound.

use crate::os::sync::{AtomicU32, AtomicU64, Ordering};
use runyard_engine::cpu::CpuId;
use runyard_engine::time::{Nanos, Time};

/// The time for which workers sleep bound after one was woken beside another. It is long compared with the time in
/// which late wake-ups are detected again.
const LASTS: Nanos = Nanos::from_millis(10_000);

/// The time for which workers do not sleep bound after a bound one did not come. Another process may keep its CPU for
/// long; or the host kept it, for some milliseconds.
const PAUSES: Nanos = Nanos::from_millis(1_000);

/// The place of an owner that sleeps.
const NOWHERE: u32 = u32::MAX;

/// The CPU of the kernel on which each slot's owner runs, and the resulting times.
#[derive(Debug)]
pub(crate) struct Homes {
    places: Box<[AtomicU32]>,
    /// The time until which idle workers sleep bound, and the time before which they must not.
    until: AtomicU64,
    from: AtomicU64,
}

impl Homes {
    /// Makes the record. If `are_kept`, idle workers always sleep bound.
    pub(crate) fn new(slots: usize, are_kept: bool) -> Homes {
        let places = (0..slots).map(|_| AtomicU32::new(NOWHERE)).collect();
        let until = if are_kept { u64::MAX } else { 0 };
        Homes { places, until: AtomicU64::new(until), from: AtomicU64::new(0) }
    }

    /// Notes that the owner of `slot` is about to sleep.
    pub(crate) fn leaves(&self, slot: CpuId) {
        self.places[slot.index()].store(NOWHERE, Ordering::Relaxed);
    }

    /// Notes that the owner of `slot` runs on this CPU.
    pub(crate) fn comes(&self, slot: CpuId, cpu: u32) {
        self.places[slot.index()].store(cpu, Ordering::Relaxed);
    }

    /// Notes that the owner of `slot` `woke_on` a CPU, which may be another than `to_wake_on`. Detects whether the
    /// kernel put it on the CPU of another owner without need. Returns the CPU to which it should move then, and notes that
    /// it is there already: the other owner must not move there too.
    pub(crate) fn woke(
        &self,
        slot: CpuId,
        to_wake_on: u32,
        woke_on: u32,
        now: impl FnOnce() -> Time,
    ) -> Option<u32> {
        let is_beside = to_wake_on != woke_on
            && self.has_others(slot, woke_on)
            && !self.has_others(slot, to_wake_on);
        self.comes(slot, if is_beside { to_wake_on } else { woke_on });
        if is_beside {
            let now = now();
            if now >= Time(self.from.load(Ordering::Relaxed)) {
                self.until.store((now + LASTS).0, Ordering::Relaxed);
            }
        }
        is_beside.then_some(to_wake_on)
    }

    /// Notes that the owner of `slot` got it from a worker that ran on the CPU where the owner should run: as
    /// [`Homes::woke`].
    pub(crate) fn follows(
        &self,
        slot: CpuId,
        woke_on: u32,
        now: impl FnOnce() -> Time,
    ) -> Option<u32> {
        let before = self.places[slot.index()].load(Ordering::Relaxed);
        self.woke(slot, if before == NOWHERE { woke_on } else { before }, woke_on, now)
    }

    /// Notes that a bound worker was called and does not come.
    pub(crate) fn does_not_come(&self, now: Time) {
        self.from.store((now + PAUSES).0, Ordering::Relaxed);
        self.until.store(0, Ordering::Relaxed);
    }

    /// Returns whether idle workers sleep bound.
    pub(crate) fn are_kept(&self, now: impl FnOnce() -> Time) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && now() < Time(until)
    }

    /// Returns whether the owner of a slot other than `slot` runs on a CPU.
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

    /// Makes a record in which the other owner runs on this CPU.
    fn beside(cpu: u32) -> Homes {
        let homes = Homes::new(2, false);
        homes.comes(OTHER, cpu);
        homes
    }

    #[test]
    fn workers_are_bound_for_a_time_after_one_woke_beside_another() {
        let homes = beside(5);
        assert!(!homes.are_kept(|| Time(1)));
        assert_eq!(homes.woke(OWN, 4, 5, || Time(1)), Some(4));
        assert!(homes.are_kept(|| Time(2)));
        assert!(!homes.are_kept(|| Time(1) + LASTS));
    }

    #[test]
    fn no_worker_is_bound_after_one_woke_where_it_could() {
        for (other, slept_on, woke_on) in [(5, 4, 4), (5, 4, 6), (5, 5, 5), (4, 4, 5)] {
            let homes = beside(other);
            assert_eq!(homes.woke(OWN, slept_on, woke_on, || Time(1)), None);
            assert!(!homes.are_kept(|| Time(2)), "{other}: from {slept_on} to {woke_on}");
        }
        let homes = beside(5);
        homes.leaves(OTHER);
        assert_eq!(homes.woke(OWN, 4, 5, || Time(1)), None);
        assert!(!homes.are_kept(|| Time(2)), "the other owner sleeps");
    }

    /// Seen failing: the other owner left its CPU, too, and both were on the one to which this one moved.
    #[test]
    fn an_owner_that_is_to_move_counts_where_it_moves_to() {
        let homes = beside(5);
        assert_eq!(homes.woke(OWN, 4, 5, || Time(1)), Some(4));
        assert!(!homes.has_others(OTHER, 5) && homes.has_others(OTHER, 4));
        assert_eq!(
            homes.woke(OTHER, 4, 5, || Time(2)),
            None,
            "the CPU to which it would move is taken"
        );
    }

    #[test]
    fn none_is_bound_for_a_time_after_one_did_not_come() {
        let homes = beside(5);
        let _ = homes.woke(OWN, 4, 5, || Time(1));
        homes.does_not_come(Time(2));
        assert!(!homes.are_kept(|| Time(3)));
        let _ = homes.woke(OWN, 4, 5, || Time(3));
        assert!(!homes.are_kept(|| Time(4)));
        let later = Time(2) + PAUSES;
        let _ = homes.woke(OWN, 4, 5, || later);
        assert!(homes.are_kept(|| later));
    }
}
