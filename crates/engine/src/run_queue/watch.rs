//! The counters of a queue for observers ([`crate::account`]). No decision reads them.

use crate::account::{Account, Cause};
use crate::limits::Pools;
use crate::run_queue::{Prev, Released, RunQueue, Switch};
use crate::store::heap::Index;
use crate::task::Task;
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns the counters of this CPU, as of the last charge.
    #[must_use]
    pub fn account(&self) -> Account {
        let counted = self.counted.as_deref().map(|counted| counted.here);
        Account { run: self.charged_in_all(), ..counted.unwrap_or_default() }
    }

    /// Returns the sum over the whole lives of the tasks that ended on this CPU.
    #[must_use]
    pub fn ended(&self) -> Account {
        let counted = self.counted.as_deref().map(|counted| counted.ended);
        Account { run: self.ended, ..counted.unwrap_or_default() }
    }

    /// Like [`RunQueue::switch`], and counts the switch if another task than before has the CPU, or
    /// none.
    #[inline(never)]
    pub(super) fn switch_counted(&mut self, now: Time, prev: Prev<P>) -> Switch<P> {
        let was = self.tasks.running();
        let loser = was.filter(|_| matches!(prev, Prev::Preempted(_)));
        let mut switch = self.switch(now, prev);
        let mut counted = self.counted.take().expect("counters are on");
        if let Some((task, Released::Exited)) = &switch.released {
            counted.ended.add(&task.kept.account(Nanos::ZERO));
        }
        if self.tasks.running() != was {
            let left = switch.released.as_mut().map(|(task, _)| &mut **task);
            self.note_switch(loser, left, &mut counted.here);
        }
        self.counted = Some(counted);
        switch
    }

    /// Counts a switch. If the previous task was preempted it is `loser`; if it left the queue it
    /// is `left`. `here` is the account of this CPU.
    fn note_switch(
        &mut self,
        loser: Option<Index>,
        left: Option<&mut Task<P>>,
        here: &mut Account,
    ) {
        match (loser, left) {
            (Some(_), Some(task)) => task.kept.loses(Cause::Moved, here),
            (Some(at), None) => {
                let cause = self.cause(at, self.tasks.running());
                self.tasks.task_mut(at).kept.loses(cause, here);
            }
            (None, _) => {}
        }
        if let Some(next) = self.tasks.running() {
            let (now, cpu) = (self.site.clock(), self.site.cpu());
            let task = self.tasks.task_mut(next);
            let waited = now.since(task.waits_since());
            task.kept.comes((now, waited), cpu, here);
        }
    }

    fn cause(&self, at: Index, next: Option<Index>) -> Cause {
        let class = self.tasks.task(at).class();
        let gives_way = self.is_serving() && !class.is_fair();
        let limited = gives_way || self.is_out_of_budget(class) || self.is_set_aside(at);
        let Some(next) = next.filter(|_| !limited) else { return Cause::Limit };
        let by = self.tasks.task(next).class();
        let [idle, by_idle] =
            [(at, class), (next, by)].map(|(at, it)| it.is_fair() && self.fair.is_idle_class(at));
        match by > class || by == class && idle && !by_idle {
            true => Cause::Important,
            false => Cause::Turn,
        }
    }
}
