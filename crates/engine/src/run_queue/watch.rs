//! What a queue counts for who watches it ([`crate::account`]). No decision asks for it.

use crate::account::{Account, Cause};
use crate::limits::Pools;
use crate::run_queue::{Prev, Released, RunQueue, Switch};
use crate::store::heap::Index;
use crate::task::{QueueIndex, Task};
use crate::time::{Nanos, Time};

impl<P, G: Pools> RunQueue<P, G> {
    /// What was done on this CPU by whatever ran here, as of the last charge.
    #[must_use]
    pub fn account(&self) -> Account {
        let counted = self.counted.as_deref().map(|counted| counted.here);
        Account { run: self.charged_in_all(), ..counted.unwrap_or_default() }
    }

    /// The sum over the whole lives of the tasks that ended on this CPU.
    #[must_use]
    pub fn ended(&self) -> Account {
        let counted = self.counted.as_deref().map(|counted| counted.ended);
        Account { run: self.ended, ..counted.unwrap_or_default() }
    }

    /// Whether the task at `at` is the one that runs.
    #[must_use]
    pub fn runs(&self, at: QueueIndex) -> bool {
        self.curr == Some(at.0)
    }

    /// As [`RunQueue::switch`], and counts it if another task than before has the CPU, or none.
    #[inline(never)]
    pub(super) fn switch_counted(&mut self, now: Time, prev: Prev<P>) -> Switch<P> {
        let was = self.curr;
        let loser = was.filter(|_| matches!(prev, Prev::Preempted(_)));
        let mut switch = self.switch(now, prev);
        let mut counted = self.counted.take().expect("it is counted");
        if let Some((task, Released::Exited)) = &switch.released {
            counted.ended.add(&task.kept.account(Nanos::ZERO));
        }
        if self.curr != was {
            let left = switch.released.as_mut().map(|(task, _)| &mut **task);
            self.note_switch(loser, left, &mut counted.here);
        }
        self.counted = Some(counted);
        switch
    }

    /// The task before was preempted if it is `loser`; it is `left` if it left the queue. `here` is the account of
    /// this CPU.
    fn note_switch(
        &mut self,
        loser: Option<Index>,
        left: Option<&mut Task<P>>,
        here: &mut Account,
    ) {
        match (loser, left) {
            (Some(_), Some(task)) => task.kept.loses(Cause::Moved, here),
            (Some(at), None) => {
                let cause = self.cause(at, self.curr);
                self.task_mut(at).kept.loses(cause, here);
            }
            (None, _) => {}
        }
        if let Some(next) = self.curr {
            let (now, cpu) = (self.clock, self.cpu);
            let task = self.task_mut(next);
            let waited = now.since(task.waits_since());
            task.kept.comes((now, waited), cpu, here);
        }
    }

    fn cause(&self, at: Index, next: Option<Index>) -> Cause {
        let prio = self.task(at).rt_prio();
        let out_of_budget = prio.is_some() && (self.rt.is_throttled() || self.is_serving());
        let Some(next) = next.filter(|_| !out_of_budget && !self.is_set_aside(at)) else {
            return Cause::Limit;
        };
        let is_idle = |at| self.fair.is_idle_class(at);
        match (prio, self.task(next).rt_prio()) {
            (before, after) if after > before => Cause::Important,
            (None, None) if is_idle(at) && !is_idle(next) => Cause::Important,
            _ => Cause::Turn,
        }
    }
}
