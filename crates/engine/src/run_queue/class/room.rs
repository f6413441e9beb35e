//! Room for more tasks, in memory that the caller allocates before it takes the lock of the run
//! queue.

use crate::cpu::CpuId;
use crate::fair::Fair;
use crate::limits::Pools;
use crate::rt::Rt;
use crate::run_queue::class::Queues;
use crate::run_queue::cookies::CookieIndex;
use crate::run_queue::tasks::Place;
use crate::store::slots::Slots;

/// Room for tasks in one run queue.
#[derive(Debug)]
pub struct Room<P> {
    places: Slots<Place<P>>,
    rt: Rt,
    fair: Fair,
    cookies: Option<CookieIndex>,
}

impl<P> Room<P> {
    /// Allocates room for `len` tasks and group queues, in a run queue that has EEVDF if `eevdf`,
    /// and indexes its tasks by cookie if `cookies`.
    #[must_use]
    pub fn new(len: usize, eevdf: bool, cookies: bool) -> Room<P> {
        let (cpu, mut places, mut rt) = (CpuId::default(), Slots::new(), Rt::default());
        let mut fair = Fair::new(cpu, eevdf);
        places.grow(len);
        rt.grow(len);
        fair.grow(len, 0);
        let cookies = cookies.then(|| {
            let mut index = CookieIndex::default();
            index.grow(len);
            index
        });
        Room { places, rt, fair, cookies }
    }
}

impl<P, G: Pools> Queues<P, G> {
    /// Like [`RunQueue::reserve`](crate::run_queue::RunQueue::reserve), with the memory of `room`;
    /// the old memory is left there. Allocates and frees nothing. There is room for all groups
    /// already.
    pub(in crate::run_queue) fn grow_into(&mut self, room: &mut Room<P>) {
        self.tasks.grow_into(&mut room.places);
        self.rt.grow_into(&mut room.rt);
        self.fair.grow_into(&mut room.fair);
        self.waiting.grow_into(room.cookies.as_mut());
    }
}
