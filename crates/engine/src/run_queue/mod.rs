//! The tasks of one CPU: the running task, the waiting tasks, and the choice of the next one.
//!
//! The run queue is a state machine. Its methods take the time and return the work that the host
//! must do; `#[must_use]` makes the compiler warn if the host drops an answer. Nothing here knows
//! another CPU. A state change never switches tasks. It asks for [`RunQueue::schedule`] by
//! a [`Resched`], and only that call switches.
//!
//! The clock of a queue never runs back, whatever order the calls of the host arrive in: a caller
//! reads the time before it takes the lock of the queue.
//!
//! Invariants: [`RunQueue::check`].

mod ahead;
mod charge;
mod check;
mod class;
mod cookies;
mod cpu_time;
mod expire;
mod follow;
mod ghosts;
mod idle;
mod meter;
mod next;
mod serve;
mod server;
mod site;
mod switch;
mod tasks;
mod thread;
mod usage;
mod used;
mod waiting;
mod watch;

pub use class::{Begun, Bounds, Changed, Classes, CpuLoad, FairPull, Heeded, Importance};
pub use class::{MAX_LOOKED_AT, NotPulled, Queues, Room, Start, Terms, TimeTaken};
pub use cpu_time::CpuTime;
pub use expire::{Expired, NextExpiries};
pub use follow::{FairPlace, Followed};
pub use idle::Idle;
pub use meter::Meter;
pub use site::Site;
pub use switch::{Enqueue, Prev, Released, Resched, Switch};
pub use tasks::Tasks;

pub use crate::fair::averages::{LoadAverages, LoadSums, Signal, TaskAverages};

use crate::attr::GroupId;
use crate::config::Config;
use crate::core::Decision;
use crate::cpu::CpuId;
use crate::fair::order::Before;
use crate::limits::{News, Pools};
use crate::store::heap::Index;
use crate::task::{Change, QueueIndex, Task};
use crate::time::Time;
use crate::timer::TimerQueue;
use std::sync::Arc;

/// The queues of one CPU. See the documentation of the module.
///
/// ```
/// use runyard_engine::attr::{Attr, Policy, RtPrio};
/// use runyard_engine::config::Config;
/// use runyard_engine::cpu::{CpuId, CpuSet};
/// use runyard_engine::run_queue::{Enqueue, Prev, Resched, RunQueue};
/// use runyard_engine::task::{Task, TaskId};
/// use runyard_engine::time::Time;
/// use runyard_engine::topology::Topology;
/// use std::sync::Arc;
///
/// let config = Arc::new(Config::new(Topology::flat(1).unwrap()));
/// let mut rq: RunQueue<&str, ()> = RunQueue::new(CpuId(0), config, Arc::new(()));
///
/// // A normal task wakes up on the idle CPU. The host gets its payload and runs it.
/// let normal = Attr::normal(CpuSet::only(CpuId(0)));
/// let task = Task::new(TaskId(1), normal.clone(), "normal");
/// let (_, resched) = rq.offer(Time(0), task, Enqueue::Woken).unwrap();
/// assert_eq!(resched, Resched::Yes);
/// assert_eq!(rq.schedule(Time(0), Prev::Idle).next, Some((TaskId(1), "normal")));
///
/// // After 1 ms a real-time task wakes up and preempts it.
/// let fifo = Attr { policy: Policy::Fifo(RtPrio::MIN), ..normal };
/// let task = Task::new(TaskId(2), fifo, "fifo");
/// let (_, resched) = rq.offer(Time(1_000_000), task, Enqueue::Woken).unwrap();
/// assert_eq!(resched, Resched::Yes);
/// let switch = rq.schedule(Time(1_000_000), Prev::Preempted("normal"));
/// assert_eq!(switch.next, Some((TaskId(2), "fifo")));
///
/// // The real-time task ends. The host owns its box, and the normal task continues.
/// let switch = rq.schedule(Time(3_000_000), Prev::Exited);
/// assert!(switch.released.is_some());
/// assert_eq!(switch.next, Some((TaskId(1), "normal")));
/// ```
#[derive(Debug)]
pub struct RunQueue<P, G> {
    classes: Classes<P, G>,
    time: CpuTime,
    timers: TimerQueue,
    /// The next tick, set while a task runs. It has no meaning on a tickless CPU with one task.
    tick_at: Option<Time>,
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns an idle CPU that is online.
    #[must_use]
    pub fn new(cpu: CpuId, config: Arc<Config>, groups: Arc<G>) -> RunQueue<P, G> {
        let mut rq = RunQueue {
            time: CpuTime::new(config.accounts),
            timers: TimerQueue::default(),
            tick_at: None,
            classes: Classes::new(Site::new(cpu, config, groups)),
        };
        rq.reserve(0);
        rq
    }

    /// Makes room for `len` tasks and group queues. Beyond that room, an enqueue allocates.
    pub fn reserve(&mut self, len: usize) {
        self.classes.grow(len);
        self.time.grow(self.site().groups().count());
    }

    /// Like [`RunQueue::reserve`], with the memory of `room`; the old memory is left there.
    /// Allocates and frees nothing. There is room for all groups already.
    pub fn reserve_in(&mut self, room: &mut Room<P>) {
        self.classes.queues_mut().grow_into(room);
    }

    /// Returns the first hard expiry of a timer of this CPU, or a time later than any other if it
    /// has none.
    #[must_use]
    pub fn first_timer(&self) -> Time {
        self.timers.first()
    }

    /// Returns the timers of this CPU.
    pub fn timers(&mut self) -> &mut TimerQueue {
        &mut self.timers
    }

    /// Returns whether a switch is due.
    pub fn resched(&self) -> Resched {
        self.classes.next().resched()
    }

    /// Returns the CPU of this queue, with its configuration.
    #[inline]
    #[must_use]
    pub fn site(&self) -> &Site<G> {
        self.classes.queues().site()
    }

    /// Returns the tasks in the queue.
    #[inline]
    #[must_use]
    pub fn tasks(&self) -> &Tasks<P> {
        self.classes.queues().tasks()
    }

    /// Returns the tasks in the queues of their classes.
    #[inline]
    #[must_use]
    pub fn queues(&self) -> &Queues<P, G> {
        self.classes.queues()
    }

    /// Returns the classes, as of the last call that had the time.
    #[inline]
    #[must_use]
    pub fn classes(&self) -> &Classes<P, G> {
        &self.classes
    }

    /// Returns the classes for a call that depends on no time.
    #[inline]
    pub fn classes_mut(&mut self) -> &mut Classes<P, G> {
        &mut self.classes
    }

    /// Returns the CPU time that was used here, as of the last charge.
    #[inline]
    #[must_use]
    pub fn time(&self) -> &CpuTime {
        &self.time
    }

    /// Returns what the machine must know of the limits of groups.
    #[inline]
    pub fn news_mut(&mut self) -> &mut News {
        self.classes.queues_mut().news_mut()
    }

    /// Enqueues a task or refuses it. A CPU refuses each task while it is offline, and each task
    /// whose affinity excludes it. It also refuses a pushed task that could no longer run at once.
    ///
    /// # Errors
    /// The refused task.
    pub fn offer(
        &mut self,
        now: Time,
        task: Box<Task<P>>,
        why: Enqueue,
    ) -> Result<(QueueIndex, Resched), Box<Task<P>>> {
        let late = why == Enqueue::Pushed && self.queues().is_pushed_in_vain(task.class());
        if !self.site().takes(&task) || late {
            return Err(task);
        }
        let comes = self.classes.expect(&task);
        let classes = self.at(now);
        if classes.queues().site().config().tickless && classes.queues().runs_alone() {
            self.tick_at = Some(self.site().next_tick());
        }
        let at = self.classes.arrive(comes, task);
        Ok((QueueIndex(at), self.resched()))
    }

    /// Takes a waiting task out. Returns `None` if no task is at `at`, or if that task runs.
    pub fn detach(&mut self, now: Time, at: QueueIndex) -> Option<Box<Task<P>>> {
        let waits = self.tasks().get(at).is_some() && !self.tasks().runs(at);
        waits.then(|| self.at(now).detach(at.0))
    }

    /// Takes any waiting task out of a CPU that is offline.
    pub fn evict(&mut self, now: Time) -> Option<Box<Task<P>>> {
        assert!(!self.site().is_online(), "an online CPU keeps its tasks");
        let at = self.tasks().iter().map(|(at, _)| at).find(|&at| !self.tasks().runs(at))?;
        self.detach(now, at)
    }

    /// Changes a task that is here. A task that becomes less important goes to the head of its new
    /// list, as in the kernel and, for inherited priorities, in POSIX. Any other task goes to the
    /// tail.
    ///
    /// # Panics
    /// If no task is at `at`.
    pub fn change(&mut self, now: Time, at: QueueIndex, change: Change) -> Changed<P> {
        let changed = self.at(now).change(at, change);
        if let Some(curr) = self.classes.queues().tasks().curr() {
            self.time.belongs_to(curr.attr.group);
        }
        changed
    }

    /// Sets the start of a task that the running one forks (`task_fork`). A latency-sensitive child
    /// may inherit a part of its parent's lead.
    pub fn fork(&self, now: Time, child: &mut Task<P>) {
        self.queues().fork(child, self.time.estimate(now));
    }

    /// Returns the bounds of the batch; `None` if there is none.
    #[must_use]
    pub fn batch_bounds(&self) -> Option<Bounds> {
        self.queues().batch_bounds(self.time.charged())
    }

    /// Removes a group that has no task any more, after the queues of its children.
    ///
    /// # Panics
    /// If a task of the group is here.
    pub fn forget_group(&mut self, now: Time, group: GroupId) {
        self.at(now).forget_group(group);
        let parent = self.site().groups().parent(group);
        self.time.pass_on(group, parent);
    }

    /// On a tickless machine, notes that a thread of the core is forced idle from now on, or that
    /// none is any more. While one is, a task that runs alone here has its ticks.
    pub fn note_episode(&mut self, now: Time, lasts: bool) {
        self.classes.next_mut().thread_mut().note_episode(lasts);
        if lasts && self.tasks().running().is_some() {
            self.tick_at = Some(self.site().config().next_tick(self.site().cpu(), now));
        }
    }
}

/// Switches.
impl<P, G: Pools> RunQueue<P, G> {
    /// Chooses the next task; `prev` is the state of the task that had the CPU. A preempted task
    /// continues if no switch is due.
    ///
    /// # Panics
    /// If `prev` does not match the task that runs here.
    pub fn schedule(&mut self, now: Time, prev: Prev<P>) -> Switch<P> {
        match self.time.counts() {
            true => self.switch_counted(now, prev),
            false => self.switch(now, prev),
        }
    }

    /// Like [`RunQueue::schedule`], for a thread of a core whose other threads have made their
    /// offers. A CPU without a task does nothing here unless a switch is due.
    ///
    /// # Panics
    /// Like [`RunQueue::schedule`], and if this CPU does not index its tasks by cookie.
    pub fn schedule_beside(
        &mut self,
        now: Time,
        prev: Prev<P>,
        decision: &mut Decision,
    ) -> Switch<P> {
        let idles = matches!(prev, Prev::Idle) && self.tasks().running().is_none();
        if idles && !self.classes.next().is_due() {
            return Switch { next: None, released: None };
        }
        self.classes.next_mut().thread_mut().swap_decision(decision);
        let switch = self.schedule(now, prev);
        self.classes.next_mut().thread_mut().swap_decision(decision);
        switch
    }

    fn switch(&mut self, now: Time, prev: Prev<P>) -> Switch<P> {
        self.switch_by(now, prev, RunQueue::pick)
    }

    /// Switches to the task that `pick` makes the running one.
    #[inline(always)]
    fn switch_by(
        &mut self,
        now: Time,
        prev: Prev<P>,
        pick: impl FnOnce(&mut RunQueue<P, G>, Before) -> Option<Index>,
    ) -> Switch<P> {
        let mut before = Before::default();
        let switch = match self.at(now).leave(prev, &mut before) {
            Err(stays) => Switch { next: Some(stays), released: None },
            Ok(released) => {
                if let Some((task, Released::Exited)) = &released {
                    self.time.note_end(task.runtime);
                }
                let next = pick(self, before).map(|at| {
                    let (id, payload, group) = self.classes.queues_mut().hand_out(at);
                    self.time.belongs_to(group);
                    (id, payload)
                });
                Switch { next, released }
            }
        };
        self.classes.queues_mut().note_rt_throttling();
        switch
    }

    fn pick(&mut self, before: Before) -> Option<Index> {
        if self.classes.next().has_core() {
            return self.pick_beside(before);
        }
        let next = self.classes.pick(before);
        self.begin(next, false)
    }

    /// Picks the task of a thread of a core.
    #[cold]
    fn pick_beside(&mut self, before: Before) -> Option<Index> {
        self.classes.end_idle_of_server();
        if self.classes.idle().since().is_none() {
            self.time.was_forced_idle(self.classes.queues().site().clock());
        }
        let (next, forced) = self.classes.pick_beside(before);
        self.begin(next, forced)
    }

    /// Makes the picked task the running one, or the CPU idle, or `forced` idle.
    #[inline(always)]
    fn begin(&mut self, next: Option<Index>, forced: bool) -> Option<Index> {
        let idle = self.classes.begin(next, forced);
        if next.is_some() || forced {
            self.time.skip_to(self.classes.queues().site().clock());
        }
        if let Some(idle) = idle {
            self.time.was_idle(idle);
        }
        if next.is_none() {
            self.tick_at = None;
        } else if self.tick_at.is_none() {
            self.tick_at = Some(self.site().next_tick());
        }
        next
    }
}
