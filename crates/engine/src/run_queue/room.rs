//! Room for more tasks, from memory that is there before the caller takes the lock of the run queue.

use super::{Place, RunQueue};
use crate::cpu::CpuId;
use crate::fair::Fair;
use crate::limits::Pools;
use crate::rt::Rt;
use crate::store::slots::Slots;

/// Room for tasks in one run queue.
#[derive(Debug)]
pub struct Room<P> {
    places: Slots<Place<P>>,
    rt: Rt,
    fair: Fair,
}

impl<P> Room<P> {
    /// For `len` tasks and group queues, in a run queue that has EEVDF or not. Allocates.
    #[must_use]
    pub fn new(len: usize, eevdf: bool) -> Room<P> {
        let (cpu, mut places, mut rt) = (CpuId::default(), Slots::new(), Rt::default());
        let mut fair = Fair::new(cpu, eevdf);
        places.grow(len);
        rt.grow(len);
        fair.grow(len, 0);
        Room { places, rt, fair }
    }
}

impl<P, G: Pools> RunQueue<P, G> {
    /// As [`RunQueue::reserve`], with the memory of `room`, in which the old memory is left. Allocates and
    /// frees nothing. There is room for all groups already.
    pub fn reserve_in(&mut self, room: &mut Room<P>) {
        self.places.grow_into(&mut room.places);
        self.rt.grow_into(&mut room.rt);
        self.fair.grow_into(&mut room.fair);
    }
}
