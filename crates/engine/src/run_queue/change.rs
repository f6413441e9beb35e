//! Changes of a task that is in a run queue: policy, group, affinity, and inherited values.
//!
//! Invariant: a changed task is afterwards where it would be if it had arrived with its new
//! attributes. There is one exception: a task that becomes less important goes to the head of its
//! new list.

use crate::attr::Policy;
use crate::fair::order::Before;
use crate::limits::Pools;
use crate::run_queue::{Resched, RunQueue};
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{Change, QueueIndex, Task};
use crate::time::Time;

/// The result of a change to a task in a queue.
#[must_use]
#[derive(Debug)]
pub struct Changed<P> {
    /// Whether this CPU must reschedule.
    pub resched: Resched,
    /// The task itself, if it may not wait here any more; the host must offer it to another CPU.
    pub evicted: Option<Box<Task<P>>>,
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Changes a task that is here. A task that becomes less important goes to the head of its new
    /// list, as in the kernel and, for inherited priorities, in POSIX. Any other task goes to the
    /// tail.
    ///
    /// # Panics
    /// If no task is at `at`.
    pub fn change(&mut self, now: Time, at: QueueIndex, change: Change) -> Changed<P> {
        self.advance(now);
        let at = at.0;
        let running = self.curr == Some(at);
        let before = self.task(at).rt_prio();
        let requeue = change.moves_in_queue();
        let regroups = change.group.is_some() || change.inherited_group.is_asked();
        let recookies = change.group.is_some() || change.cookie.is_asked();
        if requeue {
            self.requeue(at, change);
        } else if before.is_none() && change.reorders() {
            self.task_mut(at).apply(change);
            let ask = self.task(at).ask();
            let (fair, now, _) = self.fair_here();
            fair.reask(now, at, ask);
        } else {
            self.task_mut(at).apply(change);
        }
        if self.beside.is_some() {
            self.note_change(at, recookies);
        }
        let task = self.task(at);
        let allowed = task.attr.affinity.contains(self.cpu);
        let after = task.rt_prio();
        if after.is_some() && !self.is_set_aside(at) {
            self.rt.update_pushable(self.rt_task(at), End::Tail);
        }
        if running && regroups {
            self.renew_payers();
        } else if requeue {
            self.pass_on();
        }
        if running {
            let beaten = after < before || after.is_none() && requeue;
            self.resched_if(beaten || !allowed || self.rt_wants_switch(at));
        } else if !allowed {
            self.dequeue(at, false);
            self.preempt_for_loss();
            let evicted = Some(self.remove_task(at));
            return Changed { resched: self.resched(), evicted };
        } else if requeue {
            self.preempt_for(at);
            self.preempt_for_loss();
        }
        Changed { resched: self.resched(), evicted: None }
    }

    /// Applies a change that moves a task to another queue or another place in it.
    fn requeue(&mut self, at: Index, change: Change) {
        let running = self.curr == Some(at);
        let task = self.task(at);
        let before = task.rt_prio();
        let after = change
            .policy
            .map_or(task.attr.policy.rt_prio(), Policy::rt_prio)
            .max(change.boost.applied_to(task.boost));
        let (old, inherited) = (task.attr.group, task.inherited_group());
        let group = change.inherited_group.applied_to(inherited).or(change.group).unwrap_or(old);
        let regroups = group != task.queue_group();
        if running && regroups {
            // If the new group is throttled, the task stops at the next pick.
            self.unthrottle_above(group);
        }
        let stops = !running && (self.is_set_aside(at) || self.is_group_set_aside(group));
        if before.is_some() && before == after && !stops {
            let was_boosted = self.task(at).boost.is_some();
            self.task_mut(at).apply(change);
            self.rt.reboost(was_boosted, self.task(at).boost.is_some());
            return;
        }
        if running && before.is_none() {
            self.put_prev_fair(at);
        }
        self.dequeue(at, false);
        self.task_mut(at).apply(change);
        self.enqueue(at, if after < before { End::Head } else { End::Tail });
        match after {
            _ if !running => {}
            Some(_) => self.rt.set_curr(self.rt_task(at), self.clock, &self.config),
            None => {
                let (fair, now, _) = self.fair_here();
                fair.take(now, at, Before::default());
                self.unindex(at);
            }
        }
    }
}
