//! The choice of the next task: the first task, of the class that goes first, whose groups have
//! budget.

use crate::fair::order::Before;
use crate::limits::Pools;
use crate::run_queue::RunQueue;
use crate::store::heap::Index;
use crate::time::Nanos;

impl<P, G: Pools> RunQueue<P, G> {
    pub(super) fn pick(&mut self, before: Before) -> Option<Index> {
        if self.beside.is_some() {
            return self.pick_beside(before);
        }
        self.end_idle_of_server();
        // The tasks that wait on a CPU that is offline are about to be evicted.
        let next = match self.site.is_online() {
            true => self.pick_with_budget(before),
            false => {
                self.limits.dismiss_payers();
                None
            }
        };
        self.begin(next, false)
    }

    /// Makes the picked task the running one, or the CPU idle. A CPU that is `forced` idle does not
    /// count as idle, because it has work.
    #[inline(always)]
    pub(super) fn begin(&mut self, next: Option<Index>, forced: bool) -> Option<Index> {
        self.return_grants();
        self.tasks.set_running(next);
        let Some(at) = next else {
            self.tick_at = None;
            match forced {
                true => {
                    self.charged = self.site.clock();
                    self.end_idle();
                }
                false => self.idle_since = self.idle_since.or(Some(self.site.clock())),
            }
            return None;
        };
        self.charged = self.site.clock();
        self.end_idle();
        self.set_next(at);
        if self.tick_at.is_none() {
            self.tick_at = Some(self.site.next_tick());
        }
        next
    }

    #[inline(always)]
    fn end_idle(&mut self) {
        if let Some(since) = self.idle_since.take() {
            let idle = self.site.clock().since(since);
            self.note_idle(idle);
            self.metered.was_idle(idle);
        }
    }

    /// Returns the first task whose groups have budget. Groups without budget are throttled.
    fn pick_with_budget(&mut self, mut before: Before) -> Option<Index> {
        self.limits.dismiss_payers();
        loop {
            let at = self.pick_class(&mut before)?;
            let Err(group) = self.charge_to_groups(at, true) else { return Some(at) };
            self.limits.dismiss_payers();
            self.put_back(at);
            self.throttle(group.0);
        }
    }

    /// Updates a moving average with weight 1/8, with samples capped at twice `migration_cost`
    /// (`update_avg`).
    fn note_idle(&mut self, span: Nanos) {
        let (old, most) = (self.avg_idle.0, 2 * self.site.config().migration_cost.0);
        self.avg_idle = Nanos(old - old / 8 + span.0.min(most) / 8);
    }
}
