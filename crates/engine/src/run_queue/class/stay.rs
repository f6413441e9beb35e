//! The stay of a task in a run queue: how it comes, how it leaves the CPU, and how it leaves the queue.

use crate::config::Config;
use crate::fair::order::Before;
use crate::features::Feature;
use crate::limits::Pools;
use crate::run_queue::class::{Classes, Queues};
use crate::run_queue::switch::{Prev, Released, Resched};
use crate::run_queue::tasks::Place;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{Task, TaskId};
use crate::time::{Time, VTime};
use std::sync::Arc;

/// A task that left the queue, and why.
pub(in crate::run_queue) type Gone<P> = Option<(Box<Task<P>>, Released)>;

/// What is known of a task that is about to come, before the clock is brought up to date.
#[derive(Clone, Copy, Debug)]
pub(in crate::run_queue) struct Comes {
    /// Its ghost here.
    ghost: Option<Index>,
    /// The place of the first task that waits with the host beside it.
    outside: Option<VTime>,
}

impl<P, G: Pools> Classes<P, G> {
    /// Prepares for a task that comes. The task may have waited with the host until now: the clock
    /// does not pass it before it is here.
    pub(in crate::run_queue) fn expect(&mut self, task: &Task<P>) -> Comes {
        let Queues { site, tasks, fair, .. } = &mut self.queues;
        let ghost = tasks.ghost_of(task, site);
        ghost.into_iter().for_each(|at| fair.place_ghost(at));
        Comes { ghost, outside: fair.set_outside(fair.outside_with(&task.standing)) }
    }

    /// Enqueues the task.
    pub(in crate::run_queue) fn arrive(&mut self, comes: Comes, mut task: Box<Task<P>>) -> Index {
        let _ = self.queues.fair.set_outside(comes.outside);
        self.queues.migrate(&mut task);
        task.cpu = self.queues.site.cpu();
        let at = match comes.ghost {
            Some(at) => {
                self.queues.rejoin(at, task);
                at
            }
            None => {
                let at = self.queues.add_place(Place::Task(task));
                self.enqueue(at, End::Tail);
                at
            }
        };
        if self.next.has_core() {
            let task = self.queues.tasks.task(at);
            let (cookie, boosted) = (self.queues.site.cookie_of(task), task.boost.is_some());
            self.next.note_arrival(cookie, boosted);
            self.note_boost(boosted);
        }
        self.preempt_for(at);
        at
    }

    /// Takes a waiting task out.
    pub(in crate::run_queue) fn detach(&mut self, at: Index) -> Box<Task<P>> {
        if !self.queues.take_from_limbo(at) {
            self.queues.dequeue(at, false);
        }
        self.preempt_for_loss();
        self.remove(at)
    }

    /// Removes a task that is in no queue any more.
    pub(super) fn remove(&mut self, at: Index) -> Box<Task<P>> {
        self.note_loss(at);
        self.queues.tasks.remove(at)
    }

    /// Notes that a task left its queue without a pick.
    pub(super) fn note_loss(&mut self, at: Index) {
        self.queues.limits.pass_on(&self.queues.site.here());
        if self.next.has_core() {
            let runs = self.queues.tasks.running().is_some();
            self.next.note_loss(at, runs, self.queues.anybody_waits());
            self.note_boost(self.queues.tasks.task(at).boost.is_some());
        }
    }

    /// Notes that a task came or left, perhaps one that is `boosted`: while it is here, no real-time
    /// task waits for the budget. The last decision of the core did not know of that.
    #[cold]
    fn note_boost(&mut self, boosted: bool) {
        if boosted && self.queues.rt.is_budget_used_up() {
            self.next.decide_anew();
        }
    }

    /// Takes the CPU from the task that had it; the next pick knows of that by `before`. Returns the
    /// task if it leaves the queue.
    ///
    /// # Errors
    /// The task itself, if it keeps the CPU.
    ///
    /// # Panics
    /// If `prev` does not match the task that runs here.
    pub(in crate::run_queue) fn leave(
        &mut self,
        prev: Prev<P>,
        before: &mut Before,
    ) -> Result<Gone<P>, (TaskId, P)> {
        let given = self.next.take_given();
        let released = match (prev, self.queues.tasks.running()) {
            (Prev::Idle, None) => None,
            (Prev::Preempted(payload), Some(at)) => match self.next.resched() {
                Resched::No => return Err((self.queues.tasks.task(at).id, payload)),
                Resched::InUserMode => self.leave_for_limbo(at, payload, before)?,
                Resched::Lazy | Resched::Yes => {
                    let gone = self.stop(at, payload).or_else(|| self.give(at, given?));
                    before.ran = gone.is_none().then_some(at);
                    gone
                }
            },
            (Prev::Yielded(payload), Some(at)) => {
                let passed_over = self.yield_task(at);
                let evicted = self.stop(at, payload);
                before.ran = evicted.is_none().then_some(at);
                before.yielded = before.ran.filter(|_| passed_over);
                evicted
            }
            (Prev::Blocked(payload), Some(at)) => {
                self.queues.tasks.task_mut(at).payload = Some(payload);
                Some((self.end_stay(at, true, before), Released::Blocked))
            }
            (Prev::Exited, Some(at)) => Some((self.end_stay(at, false, before), Released::Exited)),
            (_, curr) => {
                let cpu = self.queues.site.cpu();
                panic!("CPU {cpu} does not run the task that left it: {curr:?}")
            }
        };
        self.next.done();
        Ok(released)
    }

    /// Makes the running task a waiting one, or takes it out if it may not wait here.
    fn stop(&mut self, at: Index, payload: P) -> Gone<P> {
        let task = self.queues.tasks.task_mut(at);
        task.payload = Some(payload);
        if !self.queues.site.takes(task) {
            return Some((self.release(at, false), Released::Evicted));
        }
        self.queues.tasks.set_running(None);
        self.queues.put_prev(at);
        None
    }

    /// The running task sleeps or has ended. Another task of its group may be preferred for that.
    fn end_stay(&mut self, at: Index, asleep: bool, before: &mut Before) -> Box<Task<P>> {
        before.ran = self.queues.group_left(at);
        let task = self.release(at, asleep);
        if let Some(group) = before.ran.filter(|_| task.sleeps_on().is_none()) {
            self.queues.fair.nominate(self.queues.site.now(), group);
        }
        task
    }

    pub(super) fn release(&mut self, at: Index, asleep: bool) -> Box<Task<P>> {
        if asleep && let Some(task) = self.queues.block(at) {
            return task;
        }
        self.queues.dequeue(at, asleep);
        self.queues.tasks.set_running(None);
        self.remove(at)
    }

    /// Takes the CPU out of service or back into service. The host must take its waiting tasks out
    /// one by one with [`RunQueue::evict`](crate::run_queue::RunQueue::evict); the running task
    /// leaves at the next switch.
    pub fn set_online(&mut self, online: bool) -> Resched {
        let Queues { site, tasks, fair, .. } = &mut self.queues;
        site.set_online(online);
        self.next.decide_anew();
        fair.keep_ghosts(online && site.has(Feature::DelayDequeue));
        let busy = tasks.running().is_some() || self.next.forced_idle().is_some();
        if !online {
            tasks.drop_ghosts(site, fair);
            self.queues.return_slack();
            self.server.stop();
        }
        self.start_server();
        self.next.ask(!online && busy);
        self.next.resched()
    }

    /// Replaces the configuration. It applies at once, also to waiting tasks: the spans of the fair
    /// class depend on the number of online CPUs ([`Config::with_online`]). The topology and the
    /// features stay. Returns the configuration before, so that a host frees it without the lock of
    /// the run queue.
    pub fn set_config(&mut self, config: Arc<Config>) -> Arc<Config> {
        let before = self.queues.site.set_config(config);
        self.queues.renew();
        self.queues.reindex_all();
        before
    }

    /// Notes that the running task, or a timer that interrupts this CPU, wakes another task.
    /// Returns how often the woken task differed from the one before, recently (`record_wakee`).
    pub fn note_wakee(&mut self, now: Time, wakee: TaskId) -> u32 {
        let tasks = &mut self.queues.tasks;
        let wakees = match tasks.running() {
            Some(curr) => tasks.task_mut(curr).kept.wakees_mut(),
            None => self.idle.wakees_mut(),
        };
        wakees.note(now, wakee.0);
        wakees.flips()
    }
}
