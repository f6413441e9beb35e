//! The tasks of one CPU: the running task, the waiting tasks, and the choice of the next one.
//!
//! The run queue is a state machine. Its methods take the time and return the work that the host
//! must do; `#[must_use]` makes the compiler warn if the host drops an answer. Nothing here knows
//! another CPU. A state change never switches tasks. It asks for [`RunQueue::schedule`] by
//! [`Resched::Yes`], and only that call switches.
//!
//! The clock of a queue never runs back, whatever order the calls of the host arrive in: a caller
//! reads the time before it takes the lock of the queue.
//!
//! Invariants: [`RunQueue::check`].

mod ahead;
mod batch;
mod beside;
mod change;
mod charge;
mod check;
mod class;
mod cookies;
mod expire;
mod ghosts;
mod give;
mod load;
mod meter;
mod passed_over;
mod pelt;
mod pick;
mod reap;
mod room;
mod serve;
mod server;
mod site;
mod switch;
mod tasks;
#[cfg(test)]
mod tests;
mod throttle;
mod usage;
mod used;
mod watch;

pub use batch::{Begun, Bounds, Start, Terms};
pub use beside::Heeded;
pub use room::Room;

pub use change::Changed;
pub use expire::{Expired, NextExpiries};
pub use give::{FairPull, MAX_LOOKED_AT, NotPulled};
pub use load::{CpuLoad, Importance};
pub use meter::Meter;
pub use site::Site;
pub use switch::{Enqueue, Prev, Released, Resched, Switch};
pub use tasks::Tasks;

pub use crate::fair::averages::{LoadAverages, LoadSums, Signal, TaskAverages};

use crate::account::Counted;
use crate::attr::GroupId;
use crate::balance::power::Taken;
use crate::config::Config;
use crate::cpu::CpuId;
use crate::fair::Fair;
use crate::fair::entity::QueueId;
use crate::fair::order::Before;
use crate::features::Feature;
use crate::limits::Pools;
use crate::limits::grants::Limits;
use crate::rt::Rt;
use crate::run_queue::cookies::Beside;
use crate::run_queue::meter::Metered;
use crate::run_queue::server::Server;
use crate::run_queue::tasks::Place;
use crate::run_queue::used::Used;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::task::{QueueIndex, Task, TaskId};
use crate::time::{Nanos, Time};
use crate::timer::TimerQueue;
use crate::wakees::Wakees;
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
    site: Site<G>,
    tasks: Tasks<P>,
    /// The time up to which `curr`, or the task that ran last, was charged.
    charged: Time,
    metered: Metered,
    used: Used,
    resched: bool,
    /// The CPU that gets the running task at the next switch.
    given: Option<CpuId>,
    taken: TimeTaken,
    /// CPU time that ended tasks used in their lives, for tasks that ended on this CPU.
    ended: Nanos,
    /// The other counters of this CPU, if counters are on.
    counted: Option<Box<Counted>>,
    /// The time since which the CPU has been idle, if it is idle.
    idle_since: Option<Time>,
    /// The mean length of an idle period: a moving average in which each period has a weight of one
    /// eighth.
    avg_idle: Nanos,
    /// The tasks that timers woke while this CPU was idle.
    idle_wakees: Wakees,
    /// The next tick, set while a task runs. It has no meaning on a tickless CPU with one task.
    tick_at: Option<Time>,
    rt: Rt,
    fair: Fair,
    /// The bandwidth reserved for fair tasks, under [`Feature::FairServer`].
    server: Option<Server>,
    limits: Limits,
    timers: TimerQueue,
    /// The state for core scheduling, on a machine that has it.
    beside: Option<Box<Beside>>,
}

/// The CPU time that was recently taken from less important tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeTaken {
    /// Taken by real-time tasks.
    pub by_rt: Taken,
    /// Taken by real-time tasks, and by fair tasks that are not of the SCHED_IDLE class.
    pub by_normal: Taken,
}

impl<P, G: Pools> RunQueue<P, G> {
    /// Returns an idle CPU that is online.
    #[must_use]
    pub fn new(cpu: CpuId, config: Arc<Config>, groups: Arc<G>) -> RunQueue<P, G> {
        let mut rq = RunQueue {
            tasks: Tasks::new(),
            charged: Time::ZERO,
            metered: Metered::default(),
            used: Used::new(),
            resched: false,
            given: None,
            taken: TimeTaken::default(),
            ended: Nanos::ZERO,
            counted: config.accounts.then(Box::default),
            idle_since: Some(Time::ZERO),
            avg_idle: Nanos(2 * config.migration_cost.0),
            idle_wakees: Wakees::default(),
            tick_at: None,
            rt: Rt::default(),
            fair: Fair::new(cpu, config.features.has(Feature::Eevdf)),
            server: config.features.has(Feature::FairServer).then(Server::new),
            limits: Limits::new(),
            timers: TimerQueue::default(),
            beside: (config.cookies && config.topology.threads() > 1).then(Box::default),
            site: Site::new(cpu, config, groups),
        };
        rq.fair.keep_ghosts(rq.site.has(Feature::DelayDequeue));
        rq.fair.keep_averages(rq.site.has(Feature::Pelt));
        rq.reserve(0);
        rq
    }

    /// Makes room for `len` tasks and group queues. Beyond that room, an enqueue allocates.
    pub fn reserve(&mut self, len: usize) {
        let groups = len.min(self.site.groups().count());
        self.tasks.grow(len);
        self.rt.grow(len);
        self.fair.grow(len, groups);
        self.limits.grow(self.fair.tree.nr_queues(), self.site.groups().count());
        self.used.grow(self.site.groups().count());
        self.reserve_beside(len);
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
        if self.resched { Resched::Yes } else { Resched::No }
    }

    /// Returns the CPU of this queue, with its clock and its configuration.
    #[inline]
    #[must_use]
    pub fn site(&self) -> &Site<G> {
        &self.site
    }

    /// Returns the tasks in the queue.
    #[inline]
    #[must_use]
    pub fn tasks(&self) -> &Tasks<P> {
        &self.tasks
    }

    /// Returns the contribution of this CPU to the load of each group that has a queue here.
    pub fn group_loads(&self) -> impl Iterator<Item = (GroupId, u64)> {
        self.fair.group_queues().map(|(id, queue)| (id, self.fair.tree.queue(queue).contribution))
    }

    /// Returns the contribution of this CPU to the load of a group.
    #[must_use]
    pub fn group_load(&self, group: GroupId) -> u64 {
        let queue = self.fair.queue_of(group);
        queue.map_or(0, |queue| self.fair.tree.queue(queue).contribution)
    }

    /// Enqueues a task or refuses it. A CPU refuses each task while it is offline, and each task
    /// whose affinity excludes it. It also refuses a pushed task that could no longer run at once.
    ///
    /// # Errors
    /// The refused task.
    pub fn offer(
        &mut self,
        now: Time,
        mut task: Box<Task<P>>,
        why: Enqueue,
    ) -> Result<(QueueIndex, Resched), Box<Task<P>>> {
        let late = why == Enqueue::Pushed && self.is_pushed_in_vain(task.class());
        if !self.site.takes(&task) || late {
            return Err(task);
        }
        let ghost = self.tasks.ghost_of(&task, &self.site);
        ghost.into_iter().for_each(|at| self.fair.place_ghost(at));
        // The task may have waited with the host until now: the clock did not pass it until then.
        let outside = self.fair.set_outside(self.fair.outside_with(&task.standing));
        self.advance(now);
        let _ = self.fair.set_outside(outside);
        self.migrate(now, &mut task);
        task.cpu = self.site.cpu();
        if self.site.config().tickless && self.nr_running() == 1 && self.tasks.running().is_some() {
            self.tick_at = Some(self.site.next_tick());
        }
        let at = match ghost {
            Some(at) => {
                self.tasks.rejoin(at, task);
                self.fair.rejoin(self.site.now(), at);
                self.reindex(at);
                at
            }
            None => {
                let at = self.add_place(Place::Task(task));
                self.enqueue(at, End::Tail);
                at
            }
        };
        if self.beside.is_some() {
            self.note_arrival(at);
        }
        self.preempt_for(at);
        Ok((QueueIndex(at), self.resched()))
    }

    /// Takes a waiting task out. Returns `None` if no task is at `at`, or if that task runs.
    pub fn detach(&mut self, now: Time, at: QueueIndex) -> Option<Box<Task<P>>> {
        let waits = matches!(self.tasks.places().get(at.0), Some(Place::Task(_)));
        if !waits || self.tasks.running() == Some(at.0) {
            return None;
        }
        self.advance(now);
        self.dequeue(at.0, false);
        self.preempt_for_loss();
        Some(self.remove_task(at.0))
    }

    /// Returns the CPU time that was recently taken from less important tasks.
    #[must_use]
    pub fn taken(&self) -> TimeTaken {
        self.taken
    }

    /// Returns the time since which the CPU has been idle, if it is idle.
    #[must_use]
    pub fn idle_since(&self) -> Option<Time> {
        self.idle_since
    }

    /// Returns the recent mean length of an idle period (`avg_idle`).
    #[must_use]
    pub fn avg_idle(&self) -> Nanos {
        self.avg_idle
    }

    /// Chooses the next task; `prev` is the state of the task that had the CPU. A preempted task
    /// continues if no switch is due.
    ///
    /// # Panics
    /// If `prev` does not match the task that runs here.
    pub fn schedule(&mut self, now: Time, prev: Prev<P>) -> Switch<P> {
        match self.counted.is_some() {
            true => self.switch_counted(now, prev),
            false => self.switch(now, prev),
        }
    }

    fn switch(&mut self, now: Time, prev: Prev<P>) -> Switch<P> {
        self.advance(now);
        let given = self.given.take();
        let mut before = Before::default();
        let released = match (prev, self.tasks.running()) {
            (Prev::Idle, None) => None,
            (Prev::Preempted(payload), Some(at)) => {
                if !self.resched {
                    self.note_rt_throttling();
                    return Switch {
                        next: Some((self.tasks.task(at).id, payload)),
                        released: None,
                    };
                }
                let gone = self.stop(at, payload).or_else(|| self.give(at, given?));
                before.ran = gone.is_none().then_some(at);
                gone
            }
            (Prev::Yielded(payload), Some(at)) => {
                let passed_over = self.yield_task(at);
                let evicted = self.stop(at, payload);
                before.ran = evicted.is_none().then_some(at);
                before.yielded = before.ran.filter(|_| passed_over);
                evicted
            }
            (Prev::Blocked(payload), Some(at)) => {
                self.tasks.task_mut(at).payload = Some(payload);
                before.ran = self.group_left(at);
                Some((self.release(at, true), Released::Blocked))
            }
            (Prev::Exited, Some(at)) => {
                before.ran = self.group_left(at);
                let task = self.release(at, false);
                self.ended += task.runtime;
                Some((task, Released::Exited))
            }
            (_, curr) => {
                panic!("CPU {} does not run the task that left it: {curr:?}", self.site.cpu())
            }
        };
        self.resched = false;
        let next = self.pick(before).map(|at| {
            let task = self.tasks.task_mut(at);
            (task.id, task.payload.take().expect("a waiting task has its payload"))
        });
        self.note_rt_throttling();
        Switch { next, released }
    }

    /// Takes the CPU out of service or back into service. The host must take its waiting tasks out
    /// one by one with [`RunQueue::evict`]; the running task leaves at the next switch.
    pub fn set_online(&mut self, now: Time, online: bool) -> Resched {
        self.advance(now);
        self.site.set_online(online);
        self.decide_anew();
        self.fair.keep_ghosts(online && self.site.has(Feature::DelayDequeue));
        if !online {
            self.tasks.drop_ghosts(&self.site, &mut self.fair);
            self.stop_server();
        }
        self.start_server();
        self.resched_if(
            !online && (self.tasks.running().is_some() || self.forced_idle().is_some()),
        );
        self.resched()
    }

    /// Replaces the configuration. It applies at once, also to waiting tasks: the spans of the fair
    /// class depend on the number of online CPUs ([`Config::with_online`]). The topology and the
    /// features stay.
    pub fn set_config(&mut self, now: Time, config: Arc<Config>) {
        self.advance(now);
        self.site.set_config(config);
        self.renew();
        self.reindex_all();
    }

    /// Takes any waiting task out of a CPU that is offline.
    pub fn evict(&mut self, now: Time) -> Option<Box<Task<P>>> {
        assert!(!self.site.is_online(), "an online CPU keeps its tasks");
        let curr = self.tasks.running();
        let at = self.tasks.iter().map(|(at, _)| at).find(|at| Some(at.0) != curr)?;
        self.detach(now, at)
    }

    fn resched_if(&mut self, due: bool) {
        self.resched |= due;
    }

    /// Asks for a switch if the task that arrived at `at` should run instead of the running one.
    fn preempt_for(&mut self, at: Index) {
        if self.is_set_aside(at) {
            return;
        }
        let Some(curr) = self.tasks.running() else {
            self.resched = true;
            return;
        };
        let due = self.preempts(curr, at);
        self.resched_if(due);
    }

    /// Asks for a switch, if due, after a task left or lost its boost: that task may have prevented
    /// the throttling of the others.
    fn preempt_for_loss(&mut self) {
        let due = self.tasks.running().is_some_and(|curr| self.makes_way(curr));
        self.resched_if(due);
    }

    /// Makes the running task a waiting one, or takes it out if it may not wait here.
    fn stop(&mut self, at: Index, payload: P) -> Option<(Box<Task<P>>, Released)> {
        let task = self.tasks.task_mut(at);
        task.payload = Some(payload);
        if !self.site.takes(task) {
            return Some((self.release(at, false), Released::Evicted));
        }
        self.tasks.set_running(None);
        self.put_prev(at);
        None
    }

    fn release(&mut self, at: Index, asleep: bool) -> Box<Task<P>> {
        if asleep && let Some(task) = self.block(at) {
            return task;
        }
        self.dequeue(at, asleep);
        self.tasks.set_running(None);
        self.remove_task(at)
    }

    /// Notes that the running task, or a timer that interrupts this CPU, wakes another task.
    /// Returns how often the woken task differed from the one before, recently (`record_wakee`).
    pub fn note_wakee(&mut self, now: Time, wakee: TaskId) -> u32 {
        let wakees = match self.tasks.running() {
            Some(curr) => self.tasks.task_mut(curr).kept.wakees_mut(),
            None => &mut self.idle_wakees,
        };
        wakees.note(now, wakee.0);
        wakees.flips()
    }

    /// Returns the queue of `group` on this CPU, and creates it if necessary.
    fn group_queue(&mut self, group: GroupId) -> QueueId {
        if let Some(id) = self.fair.queue_of(group) {
            return id;
        }
        self.reap();
        let parent = self.group_queue(self.site.groups().parent(group));
        let at = self.add_place(Place::Group);
        let (fair, now, groups) = self.fair_here();
        let id = fair.add_queue(now, groups, (group, parent), at);
        self.limits.grow(self.fair.tree.nr_queues(), 0);
        self.limits.set(id, self.site.groups().has_limit(group));
        id
    }

    fn remove_queue(&mut self, id: QueueId) {
        let (fair, now, groups) = self.fair_here();
        let at = fair.remove_queue(now, groups, id);
        self.tasks.free(at);
    }

    fn add_place(&mut self, place: Place<P>) -> Index {
        if self.tasks.is_at_end() {
            self.open_places();
        }
        self.tasks.insert(place)
    }

    /// Opens more indices for use.
    #[cold]
    fn open_places(&mut self) {
        if self.tasks.places().is_full() {
            self.reserve((self.tasks.places().capacity() * 2).max(8));
        }
        let len = self.tasks.open();
        self.fair.open(len);
    }

    fn remove_task(&mut self, at: Index) -> Box<Task<P>> {
        self.pass_on();
        if self.beside.is_some() {
            self.note_loss(at);
        }
        self.tasks.remove(at)
    }

    /// Notes for the host that the throttling of real-time tasks began or ended. The note covers
    /// only changes that this CPU has acted on, by a decision or at the end of a walk of its
    /// timers. Between two such points an inherited priority may come and go.
    fn note_rt_throttling(&mut self) {
        if let Some(begins) = self.rt.take_throttling() {
            self.limits.note_rt(begins);
        }
    }
}
