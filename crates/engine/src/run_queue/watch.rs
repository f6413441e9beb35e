//! The counters of a queue for observers ([`crate::account`]). No decision reads them.

use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::run_queue::switch::{Prev, Released, Switch};
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// Like [`RunQueue::switch`], and counts the switch if another task than before has the CPU, or
    /// none.
    #[inline(never)]
    pub(super) fn switch_counted(&mut self, now: Time, prev: Prev<P>) -> Switch<P> {
        let was = self.tasks().running();
        let loser = was.filter(|_| matches!(prev, Prev::Preempted(_)));
        let mut switch = self.switch(now, prev);
        let counted = self.time.counted_mut();
        if let Some((task, Released::Exited)) = &switch.released {
            counted.ended.add(&task.kept.account(Nanos::ZERO));
        }
        if self.classes.queues().tasks().running() != was {
            let left = switch.released.as_mut().map(|(task, _)| &mut **task);
            self.classes.count_switch(loser, left, &mut counted.here);
        }
        switch
    }
}
