//! Changes of a task that is in a run queue: policy, group, affinity, and inherited values.
//!
//! Invariant: a changed task is afterwards where it would be if it had arrived with its new
//! attributes. There is one exception: a task that becomes less important goes to the head of its
//! new list.

use crate::fair::order::Before;
use crate::limits::Pools;
use crate::run_queue::class::{Classes, is_beaten};
use crate::run_queue::switch::Resched;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{Change, QueueIndex, Task};

/// The result of a change to a task in a queue.
#[must_use]
#[derive(Debug)]
pub struct Changed<P> {
    /// Whether this CPU must reschedule.
    pub resched: Resched,
    /// The task itself, if it may not wait here any more; the host must offer it to another CPU.
    pub evicted: Option<Box<Task<P>>>,
}

impl<P, G: Pools> Classes<P, G> {
    /// Changes a task that is here. A task that becomes less important goes to the head of its new
    /// list, as in the kernel and, for inherited priorities, in POSIX. Any other task goes to the
    /// tail.
    ///
    /// # Panics
    /// If no task is at `at`.
    pub(in crate::run_queue) fn change(&mut self, at: QueueIndex, change: Change) -> Changed<P> {
        let at = at.0;
        let running = self.queues.tasks.running() == Some(at);
        let before = self.queues.tasks.task(at).class();
        let requeue = change.moves_in_queue();
        let regroups = change.group.is_some() || change.inherited_group.is_asked();
        let recookies = change.group.is_some() || change.cookie.is_asked();
        if requeue {
            self.requeue(at, change);
        } else {
            let reorders = change.reorders();
            self.queues.tasks.task_mut(at).apply(change);
            if reorders {
                self.queues.reask(at);
            }
        }
        if self.next.has_core() {
            self.note_change(at, recookies);
        }
        let task = self.queues.tasks.task(at);
        let allowed = task.attr.affinity.contains(self.queues.site.cpu());
        let after = task.class();
        self.queues.set_affinity(at);
        // The kernel's bandwidth is paid by fair tasks only.
        let reclasses = before.is_fair() != after.is_fair();
        let renews = regroups || reclasses && self.queues.limits.slices.is_used();
        if running && renews {
            self.renew_payers();
        } else if requeue {
            self.queues.limits.pass_on(&self.queues.site.here());
        }
        if running {
            let beaten = requeue && is_beaten(before, after);
            self.next.ask(beaten || !allowed || self.makes_way(at));
        } else if !allowed {
            let evicted = Some(self.detach(at));
            return Changed { resched: self.next.resched(), evicted };
        } else if requeue {
            self.preempt_for(at);
            self.preempt_for_loss();
        }
        Changed { resched: self.next.resched(), evicted: None }
    }

    /// Applies a change that moves a task to another queue or another place in it.
    fn requeue(&mut self, at: Index, change: Change) {
        let running = self.queues.tasks.running() == Some(at);
        let task = self.queues.tasks.task(at);
        let before = task.class();
        let policy = change.policy.unwrap_or(task.attr.policy);
        let after = policy.class().boosted(change.boost.applied_to(task.boost));
        let (old, inherited) = (task.attr.group, task.inherited_group());
        let group = change.inherited_group.applied_to(inherited).or(change.group).unwrap_or(old);
        let regroups = group != task.queue_group();
        let becomes_fair =
            after.is_fair() && !before.is_fair() && self.queues.fair.is_any_throttled();
        if running && (regroups || becomes_fair) {
            // If its group is throttled, the task stops at the next pick. A real-time task runs in
            // a group that the kernel's bandwidth throttles.
            self.unthrottle_above(group);
        }
        let stops =
            !running && (self.queues.is_set_aside(at) || self.queues.sets_aside(after, group));
        let left =
            if stops { Some(change) } else { self.queues.change_in_place(at, after, change) };
        let Some(change) = left else { return };
        if running {
            self.queues.put_back(at);
        }
        let was_in_limbo = self.queues.take_from_limbo(at);
        if !was_in_limbo {
            self.queues.dequeue(at, false);
        }
        self.queues.tasks.task_mut(at).apply(change);
        let end = if after < before { End::Head } else { End::Tail };
        self.enqueue_changed(at, end, was_in_limbo);
        if running {
            self.queues.take(at, false, &mut Before::default());
            self.queues.set_next(at);
        }
    }
}
