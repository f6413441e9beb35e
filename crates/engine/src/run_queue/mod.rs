//! One CPU's tasks: who runs, who waits, and which of them is next.
//!
//! A state machine: methods take the time and return what the host must do, and the compiler sees
//! to it that the host does. Nothing here knows another CPU. State changes never switch; they ask
//! for [`RunQueue::schedule`] by [`Resched::Yes`], and that acts once.
//!
//! The clock of a queue never runs back, whatever order the host's calls come in: a caller reads
//! the time before it takes the queue's lock.
//!
//! Invariants: [`RunQueue::check`].

mod ahead;
mod batch;
mod beside;
mod change;
mod charge;
mod check;
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

pub use crate::fair::averages::{LoadAverages, LoadSums, Signal, TaskAverages};

use crate::account::Counted;
use crate::attr::{GroupId, Policy};
use crate::balance::power::Taken;
use crate::config::Config;
use crate::cpu::CpuId;
use crate::event::Left;
use crate::fair::Fair;
use crate::fair::entity::{Lag, Now, QueueId};
use crate::fair::order::{Before, Wakeup};
use crate::fair::tree::Member;
use crate::features::Feature;
use crate::limits::Pools;
use crate::limits::grants::Limits;
use crate::rt::{Rt, RtTask};
use crate::run_queue::cookies::Beside;
use crate::run_queue::meter::Metered;
use crate::run_queue::server::Server;
use crate::run_queue::used::Used;
use crate::store::heap::Index;
use crate::store::list::End;
use crate::store::slots::Slots;
use crate::task::{QueueIndex, Task, TaskId};
use crate::time::{Nanos, Time};
use crate::timer::TimerQueue;
use crate::wakees::Wakees;
use std::sync::Arc;

/// Whether the CPU must call [`RunQueue::schedule`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resched {
    /// It may go on.
    No,
    /// As soon as it can.
    Yes,
}

/// Why a task enters a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueue {
    /// It was blocked, or is new.
    Woken,
    /// It waited on another CPU and was chosen for this one because it is important enough here:
    /// refused if that is no longer true.
    Pushed,
    /// It waited on another CPU.
    Moved,
}

/// What happened to the task that had the CPU.
#[derive(Debug)]
pub enum Prev<P> {
    /// It wants to go on.
    Preempted(P),
    /// It wants to go on, but others may go first.
    Yielded(P),
    /// It waits for something; the host gets it back.
    Blocked(P),
    /// It is over; the host gets it back without its payload.
    Exited,
    /// There was none.
    Idle,
}

impl<P> Prev<P> {
    /// The same for reports; `None` if there was no task.
    #[must_use]
    pub fn left(&self) -> Option<Left> {
        match self {
            Prev::Preempted(_) => Some(Left::Preempted),
            Prev::Yielded(_) => Some(Left::Yielded),
            Prev::Blocked(_) => Some(Left::Blocked),
            Prev::Exited => Some(Left::Exited),
            Prev::Idle => None,
        }
    }
}

/// Why a task left its queue at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It waits for something.
    Blocked,
    /// It is over.
    Exited,
    /// It may not stay on this CPU, and must be offered to another.
    Evicted,
    /// The CPU asked for it, and is to be offered it.
    MoveTo(CpuId),
}

/// What a switch decided. A lost one is a lost task, so it must be used. The host runs `next`, and owns what was released.
#[must_use]
#[derive(Debug)]
pub struct Switch<P> {
    /// Who has the CPU now; `None` for idle.
    pub next: Option<(TaskId, P)>,
    /// Who left this queue.
    pub released: Option<(Box<Task<P>>, Released)>,
}

/// What has an index in a run queue.
#[derive(Debug)]
enum Place<P> {
    Task(Box<Task<P>>),
    /// The entity of a group, which is with the fair class.
    Group,
    /// The entity that a task left behind which sleeps ([`crate::fair`]).
    Ghost(TaskId),
}

/// One CPU's queues. See the module's documentation.
#[derive(Debug)]
pub struct RunQueue<P, G> {
    cpu: CpuId,
    config: Arc<Config>,
    groups: Arc<G>,
    online: bool,
    clock: Time,
    places: Slots<Place<P>>,
    /// The running task. It stays in its class's queue.
    curr: Option<Index>,
    /// Until when `curr` was charged, or the task that ran last.
    charged: Time,
    metered: Metered,
    used: Used,
    resched: bool,
    /// The CPU that gets the running task at the next switch.
    given: Option<CpuId>,
    taken: TimeTaken,
    /// CPU time that the tasks used in their lives that ended here.
    ended: Nanos,
    /// What else was done here, if that is counted.
    counted: Option<Box<Counted>>,
    /// Since when the CPU is idle, if it is.
    idle_since: Option<Time>,
    /// How long it is idle at a time: a moving average in which each time has the weight of an eighth.
    avg_idle: Nanos,
    /// Those that timers woke while nothing ran here.
    idle_wakees: Wakees,
    /// The next tick; there is one while a task runs. On a tickless CPU with one task it has no
    /// meaning.
    tick_at: Option<Time>,
    rt: Rt,
    fair: Fair,
    /// What is kept for fair tasks, under [`Feature::FairServer`].
    server: Option<Server>,
    limits: Limits,
    timers: TimerQueue,
    /// What core scheduling needs, on a machine that has it.
    beside: Option<Box<Beside>>,
}

/// The CPU time that was taken lately from less important tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeTaken {
    /// By real-time tasks.
    pub by_rt: Taken,
    /// By these and by fair tasks that are not of the SCHED_IDLE class.
    pub by_normal: Taken,
}

impl<P, G: Pools> RunQueue<P, G> {
    /// An idle CPU. It is online.
    #[must_use]
    pub fn new(cpu: CpuId, config: Arc<Config>, groups: Arc<G>) -> RunQueue<P, G> {
        let mut rq = RunQueue {
            cpu,
            groups,
            online: true,
            clock: Time::ZERO,
            places: Slots::new(),
            curr: None,
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
            config,
        };
        rq.fair.keep_ghosts(rq.has(Feature::DelayDequeue));
        rq.fair.keep_averages(rq.has(Feature::Pelt));
        rq.reserve(0);
        rq
    }

    /// Makes room for `len` tasks and group queues. Beyond the room, entering a queue allocates.
    pub fn reserve(&mut self, len: usize) {
        let groups = len.min(self.groups.count());
        self.places.grow(len);
        self.rt.grow(len);
        self.fair.grow(len, groups);
        self.limits.grow(self.fair.tree.nr_queues(), self.groups.count());
        self.used.grow(self.groups.count());
        self.reserve_beside(len);
    }

    /// The first hard expiry of a timer of this CPU; later than any time if it has none.
    #[must_use]
    pub fn first_timer(&self) -> Time {
        self.timers.first()
    }

    /// The timers of this CPU.
    pub fn timers(&mut self) -> &mut TimerQueue {
        &mut self.timers
    }

    /// Whether a switch is due.
    pub fn resched(&self) -> Resched {
        if self.resched { Resched::Yes } else { Resched::No }
    }

    /// The numbers that it goes by.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the CPU takes tasks.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.online
    }

    /// Which CPU this is.
    #[must_use]
    pub fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// The task at `at`.
    #[must_use]
    pub fn get(&self, at: QueueIndex) -> Option<&Task<P>> {
        match self.places.get(at.0)? {
            Place::Task(task) => Some(task),
            Place::Group | Place::Ghost(_) => None,
        }
    }

    /// What this CPU contributes to the load of each group that has a queue here.
    pub fn group_loads(&self) -> impl Iterator<Item = (GroupId, u64)> {
        self.fair.group_queues().map(|(id, queue)| (id, self.fair.tree.queue(queue).contribution))
    }

    /// The part of this CPU in the load of a group.
    #[must_use]
    pub fn group_load(&self, group: GroupId) -> u64 {
        let queue = self.fair.queue_of(group);
        queue.map_or(0, |queue| self.fair.tree.queue(queue).contribution)
    }

    /// The task that runs.
    #[must_use]
    pub fn curr(&self) -> Option<&Task<P>> {
        self.curr.map(|at| self.task(at))
    }

    /// The tasks in the queue, the running one included, in no particular order.
    pub fn tasks(&self) -> impl Iterator<Item = (QueueIndex, &Task<P>)> {
        self.places.iter().filter_map(|(at, place)| match place {
            Place::Task(task) => Some((QueueIndex(at), &**task)),
            Place::Group | Place::Ghost(_) => None,
        })
    }

    /// Takes a task in, or gives it back: a CPU that is offline or outside the task's affinity
    /// takes none, and a pushed task that came too late is not taken.
    ///
    /// # Errors
    /// The task.
    pub fn offer(
        &mut self,
        now: Time,
        mut task: Box<Task<P>>,
        why: Enqueue,
    ) -> Result<(QueueIndex, Resched), Box<Task<P>>> {
        let busy = task.rt_prio() <= self.rt.highest() || self.rt.is_throttled();
        let late = why == Enqueue::Pushed && busy;
        if !self.online || !task.attr.affinity.contains(self.cpu) || late {
            return Err(task);
        }
        let ghost = self.ghost_of(&task);
        ghost.into_iter().for_each(|at| self.fair.place_ghost(at));
        // Until now it waited with the host, if that had it.
        let outside = self.fair.set_outside(self.fair.outside_with(&task.standing));
        self.advance(now);
        let _ = self.fair.set_outside(outside);
        if task.rt_prio().is_some() {
            self.withdraw(now, &mut task);
        }
        task.cpu = self.cpu;
        if self.config.tickless && self.nr_running() == 1 && self.curr.is_some() {
            self.tick_at = Some(self.config.next_tick(self.cpu, self.clock));
        }
        let at = match ghost {
            Some(at) => self.rejoin(at, task),
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

    /// Takes a waiting task out. `None` if no task is at `at`, or it runs.
    pub fn detach(&mut self, now: Time, at: QueueIndex) -> Option<Box<Task<P>>> {
        let waits = matches!(self.places.get(at.0), Some(Place::Task(_)));
        if !waits || self.curr == Some(at.0) {
            return None;
        }
        self.advance(now);
        self.dequeue(at.0, false);
        self.preempt_for_loss();
        Some(self.remove_task(at.0))
    }

    /// The time that was taken of this CPU lately.
    #[must_use]
    pub fn taken(&self) -> TimeTaken {
        self.taken
    }

    /// Since when the CPU is idle, if it is.
    #[must_use]
    pub fn idle_since(&self) -> Option<Time> {
        self.idle_since
    }

    /// How long the CPU is idle at a time, on average of late (`avg_idle`).
    #[must_use]
    pub fn avg_idle(&self) -> Nanos {
        self.avg_idle
    }

    /// Decides who runs, after telling what became of who did. A preempted task for whose
    /// preemption there is no cause goes on.
    ///
    /// # Panics
    /// If `prev` does not fit what runs here.
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
        let released = match (prev, self.curr) {
            (Prev::Idle, None) => None,
            (Prev::Preempted(payload), Some(at)) => {
                if !self.resched {
                    self.note_rt_throttling();
                    return Switch { next: Some((self.task(at).id, payload)), released: None };
                }
                let gone = self.put_prev(at, payload).or_else(|| self.give(at, given?));
                before.ran = gone.is_none().then_some(at);
                gone
            }
            (Prev::Yielded(payload), Some(at)) => {
                let rt = self.task(at).rt_prio().is_some();
                if rt {
                    self.requeue_rt(at, End::Tail);
                }
                let evicted = self.put_prev(at, payload);
                before.ran = evicted.is_none().then_some(at);
                before.yielded = before.ran.filter(|_| !rt);
                evicted
            }
            (Prev::Blocked(payload), Some(at)) => {
                self.task_mut(at).payload = Some(payload);
                before.ran = self.fair_above(at);
                Some((self.release(at, true), Released::Blocked))
            }
            (Prev::Exited, Some(at)) => {
                before.ran = self.fair_above(at);
                let task = self.release(at, false);
                self.ended += task.runtime;
                Some((task, Released::Exited))
            }
            (_, curr) => panic!("CPU {} does not run what left it: {curr:?}", self.cpu),
        };
        self.resched = false;
        let next = self.pick(before).map(|at| {
            let task = self.task_mut(at);
            (task.id, task.payload.take().expect("a waiting task has its payload"))
        });
        self.note_rt_throttling();
        Switch { next, released }
    }

    /// Takes the CPU out of service or back into it. Its waiting tasks are to be taken out one by
    /// one with [`RunQueue::evict`]; the running one leaves at the next switch.
    pub fn set_online(&mut self, now: Time, online: bool) -> Resched {
        self.advance(now);
        self.online = online;
        self.decide_anew();
        self.fair.keep_ghosts(online && self.has(Feature::DelayDequeue));
        if !online {
            self.drop_ghosts();
            self.stop_server();
        }
        self.start_server();
        self.resched_if(!online && (self.curr.is_some() || self.forced_idle().is_some()));
        self.resched()
    }

    /// Takes over other numbers, at once for those who wait: those of the fair class follow the
    /// machine. The topology and the features stay.
    pub fn set_config(&mut self, now: Time, config: Arc<Config>) {
        self.advance(now);
        self.config = config;
        let now = Now { clock: self.clock, config: &self.config };
        for (at, place) in self.places.iter() {
            match place {
                Place::Group => self.fair.renew(now, at, None),
                Place::Task(task) if task.rt_prio().is_none() => {
                    self.fair.renew(now, at, Some(task.ask()));
                }
                Place::Task(_) | Place::Ghost(_) => {}
            }
        }
        self.fair.reslice_all(now);
        self.reindex_all();
    }

    /// Takes any waiting task out of a CPU that is offline.
    pub fn evict(&mut self, now: Time) -> Option<Box<Task<P>>> {
        assert!(!self.online, "an online CPU keeps its tasks");
        let curr = self.curr;
        let at = self.tasks().map(|(at, _)| at).find(|at| Some(at.0) != curr)?;
        self.detach(now, at)
    }

    fn resched_if(&mut self, due: bool) {
        self.resched |= due;
    }

    /// Asks for a switch if the arrival at `at` should run instead of who does.
    fn preempt_for(&mut self, at: Index) {
        if self.is_set_aside(at) {
            return;
        }
        let Some(curr) = self.curr else {
            self.resched = true;
            return;
        };
        let (arrival, running) = (self.task(at).rt_prio(), self.task(curr).rt_prio());
        let due = match (arrival, running) {
            (Some(_), _) => self.rt_wants_switch(curr),
            (None, Some(_)) => false,
            (None, None) => self.preempts_on_wakeup(curr, at),
        };
        self.resched_if(due);
    }

    /// Whether a woken fair task preempts the running fair one (`check_preempt_wakeup`), whose turn
    /// is over then.
    ///
    /// What is idle is preempted by what is not, and never the other way round. In 6.1 that is
    /// asked twice: of the tasks, whatever their groups and the features; then, for a SCHED_OTHER
    /// task and under `WAKEUP_PREEMPTION`, of the entities that compete in one queue. As of 6.6 the entities
    /// alone are asked, for any task.
    fn preempts_on_wakeup(&mut self, curr: Index, woken: Index) -> bool {
        let [running, arrival] = [curr, woken].map(|at| self.task(at).attr.policy);
        let tasks_first = self.config.rules.idle_tasks_first;
        if tasks_first && running == Policy::Idle && arrival != Policy::Idle {
            self.fair.end_turns(curr);
            return true;
        }
        let may = !matches!(arrival, Policy::Batch(_) | Policy::Idle);
        if tasks_first && !may || !self.has(Feature::WakeupPreemption) {
            return false;
        }
        let forked = matches!(self.task(woken).standing.lag, Lag::New { .. });
        let wakeup = Wakeup { curr, woken, forked };
        if may && self.config.rules.wakeup_drops {
            self.drop_ghosts_before(wakeup);
        }
        let (fair, now, _) = self.fair_here();
        fair.preempts(now, wakeup, may)
    }

    /// Whether something real-time should run instead of `curr`, or `curr` is to be throttled, or to make way for fair
    /// tasks.
    fn rt_wants_switch(&self, curr: Index) -> bool {
        let running = self.task(curr).rt_prio();
        if self.is_serving() {
            return running.is_some();
        }
        let throttled = running.is_some() && self.rt.is_throttled();
        throttled || self.rt.best() > running
    }

    /// After a task left or lost its boost: it may have been what kept the others from being
    /// throttled.
    fn preempt_for_loss(&mut self) {
        let due = self.curr.is_some_and(|curr| self.rt_wants_switch(curr));
        self.resched_if(due);
    }

    /// The running task goes back among those who wait, or out if it may not wait here.
    fn put_prev(&mut self, at: Index, payload: P) -> Option<(Box<Task<P>>, Released)> {
        let cpu = self.cpu;
        let task = self.task_mut(at);
        task.payload = Some(payload);
        let (rt, allowed) = (task.rt_prio().is_some(), task.attr.affinity.contains(cpu));
        if !self.online || !allowed {
            return Some((self.release(at, false), Released::Evicted));
        }
        self.curr = None;
        if rt {
            self.rt.put_prev(self.rt_task(at));
        } else {
            let (fair, now, _) = self.fair_here();
            fair.put_prev(now, at);
        }
        None
    }

    #[inline(never)]
    fn put_prev_fair(&mut self, at: Index) {
        let (fair, now, _) = self.fair_here();
        fair.put_prev(now, at);
        self.reindex(at);
    }

    /// The group that a running fair task leaves.
    fn fair_above(&self, at: Index) -> Option<Index> {
        if self.task(at).rt_prio().is_some() { None } else { self.fair.tree.above(at) }
    }

    fn release(&mut self, at: Index, asleep: bool) -> Box<Task<P>> {
        if asleep && let Some(task) = self.leave_ghost(at) {
            return task;
        }
        self.dequeue(at, asleep);
        self.curr = None;
        self.remove_task(at)
    }

    fn enqueue(&mut self, at: Index, end: End) {
        let task = self.task(at);
        if task.rt_prio().is_none() {
            let queue = self.group_queue(task.queue_group());
            let now = Now { clock: self.clock, config: &self.config };
            if let Some(Place::Task(task)) = self.places.get_mut(at) {
                if self.config.features.has(Feature::Pelt) {
                    let (member, weight) = (Member { queue, at }, task.ask().weight);
                    self.fair.bring(now, &*self.groups, (member, weight), task.kept.average_mut());
                }
                let comes = (task.ask(), &task.standing);
                self.fair.enqueue(now, &*self.groups, Member { queue, at }, comes);
            }
            self.start_server();
            self.reindex(at);
        } else if self.is_set_aside(at) {
            self.rt.set_aside(at);
        } else {
            self.enqueue_rt(at, end);
        }
    }

    fn dequeue(&mut self, at: Index, asleep: bool) {
        if self.task(at).rt_prio().is_none() {
            self.dequeue_fair(at, asleep);
        } else if self.is_set_aside(at) {
            self.rt.bring_back(at);
        } else {
            self.dequeue_rt(at);
        }
    }

    fn dequeue_fair(&mut self, at: Index, asleep: bool) {
        let now = Now { clock: self.clock, config: &self.config };
        if let Some(Place::Task(task)) = self.places.get_mut(at) {
            if self.config.features.has(Feature::Pelt) {
                self.fair.part_with(now, at, asleep, task.kept.average_mut());
            }
            task.standing = self.fair.dequeue(now, &*self.groups, at, asleep);
        }
        self.unindex(at);
    }

    /// The running task wakes another one, or a timer that interrupts this CPU does. How often that was another task than
    /// the time before, of late (`record_wakee`).
    pub fn note_wakee(&mut self, now: Time, wakee: TaskId) -> u32 {
        let wakees = match self.curr {
            Some(curr) => self.task_mut(curr).kept.wakees_mut(),
            None => &mut self.idle_wakees,
        };
        wakees.note(now, wakee.0);
        wakees.flips()
    }

    /// Where a task that the running one forks starts: a latency-sensitive one may owe a part of what
    /// its parent is ahead.
    pub fn fork(&self, now: Time, child: &mut Task<P>) {
        let parent = self.curr.filter(|&curr| self.task(curr).rt_prio().is_none());
        let Some(at) = parent else { return };
        if self.task(at).queue_group() == child.queue_group() {
            let here = Now { clock: self.clock, config: &self.config };
            let uncharged = self.metered.estimate(now.since(self.charged));
            child.standing = self.fair.forked(here, at, uncharged);
        }
    }

    /// The queue of `group` on this CPU, made if need be.
    fn group_queue(&mut self, group: GroupId) -> QueueId {
        if let Some(id) = self.fair.queue_of(group) {
            return id;
        }
        self.reap();
        let parent = self.group_queue(self.groups.parent(group));
        let at = self.add_place(Place::Group);
        let (fair, now, groups) = self.fair_here();
        let id = fair.add_queue(now, groups, (group, parent), at);
        self.limits.grow(self.fair.tree.nr_queues(), 0);
        self.limits.set(id, self.groups.has_limit(group));
        id
    }

    fn remove_queue(&mut self, id: QueueId) {
        let (fair, now, groups) = self.fair_here();
        let at = fair.remove_queue(now, groups, id);
        self.places.remove(at);
    }

    /// The fair class, with what its verbs need.
    fn fair_here(&mut self) -> (&mut Fair, Now<'_>, &G) {
        let now = Now { clock: self.clock, config: &self.config };
        (&mut self.fair, now, &*self.groups)
    }

    /// What the real-time class must know of a task.
    fn rt_task(&self, at: Index) -> RtTask {
        let task = self.task(at);
        RtTask {
            at,
            prio: task.rt_prio().expect("it is real-time"),
            boosted: task.boost.is_some(),
            migratory: task.is_migratory(),
            running: self.curr == Some(at),
        }
    }

    fn add_place(&mut self, place: Place<P>) -> Index {
        if self.places.is_at_end() {
            self.open_places();
        }
        self.places.insert(place)
    }

    /// Some more indices can be used from now on.
    #[cold]
    fn open_places(&mut self) {
        if self.places.is_full() {
            self.reserve((self.places.capacity() * 2).max(8));
        }
        let len = self.places.open();
        self.fair.open(len);
    }

    fn remove_task(&mut self, at: Index) -> Box<Task<P>> {
        self.pass_on();
        if self.beside.is_some() {
            self.note_loss(at);
        }
        match self.places.remove(at) {
            Place::Task(task) => task,
            Place::Group | Place::Ghost(_) => unreachable!("no task is at {at}"),
        }
    }

    /// Notes for the host that real-time tasks wait for their budget from now on, or do not any more:
    /// as far as this CPU has acted on it, by a decision or at the end of a walk of its timers. Between
    /// two of these an inherited priority may come and go.
    #[inline]
    fn note_rt_throttling(&mut self) {
        if let Some(begins) = self.rt.take_throttling() {
            self.limits.note_rt(begins);
        }
    }

    fn has(&self, feature: Feature) -> bool {
        self.config.features.has(feature)
    }

    fn task(&self, at: Index) -> &Task<P> {
        match self.places.get(at) {
            Some(Place::Task(task)) => task,
            Some(Place::Group | Place::Ghost(_)) | None => unreachable!("no task is at {at}"),
        }
    }

    fn task_mut(&mut self, at: Index) -> &mut Task<P> {
        match self.places.get_mut(at) {
            Some(Place::Task(task)) => task,
            Some(Place::Group | Place::Ghost(_)) | None => unreachable!("no task is at {at}"),
        }
    }
}
