//! The counters of a switch ([`crate::account`]). No decision reads them.

use crate::account::{Account, Cause};
use crate::limits::Pools;
use crate::run_queue::class::Classes;
use crate::store::heap::Index;
use crate::task::Task;

impl<P, G: Pools> Classes<P, G> {
    /// Counts a switch. If the previous task was preempted it is `loser`; if it left the queue it
    /// is `left`. `here` is the account of this CPU.
    pub(in crate::run_queue) fn count_switch(
        &mut self,
        loser: Option<Index>,
        left: Option<&mut Task<P>>,
        here: &mut Account,
    ) {
        match (loser, left) {
            (Some(_), Some(task)) => task.kept.loses(Cause::Moved, here),
            (Some(at), None) => {
                let cause = self.cause(at, self.queues.tasks.running());
                self.queues.tasks.task_mut(at).kept.loses(cause, here);
            }
            (None, _) => {}
        }
        if let Some(next) = self.queues.tasks.running() {
            let (now, cpu) = (self.queues.site.clock(), self.queues.site.cpu());
            let task = self.queues.tasks.task_mut(next);
            let waited = now.since(task.waits_since());
            task.kept.comes((now, waited), cpu, here);
        }
    }

    fn cause(&self, at: Index, next: Option<Index>) -> Cause {
        let class = self.queues.tasks.task(at).class();
        let gives_way = self.is_serving() && !class.is_fair();
        let limited =
            gives_way || self.queues.is_out_of_budget(class) || self.queues.is_set_aside(at);
        let Some(next) = next.filter(|_| !limited) else { return Cause::Limit };
        let by = self.queues.tasks.task(next).class();
        let [idle, by_idle] = [(at, class), (next, by)]
            .map(|(at, it)| it.is_fair() && self.queues.fair.is_idle_class(at));
        match by > class || by == class && idle && !by_idle {
            true => Cause::Important,
            false => Cause::Turn,
        }
    }
}
