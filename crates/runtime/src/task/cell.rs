//! A future as a task of the engine: what it shares with its wakers and handles.
//!
//! The engine's box of a blocked task waits in the [seat](Seat) of its [`Cell`]: a waker can only enqueue a box that
//! it has, and the box comes there after the poll is over, so a task is never in two queues and no wake-up is lost.

use super::join::JoinError;
use crate::group::Membership;
use crate::mutex::guards::Guards;
use crate::mutex::lending::Inheritance;
use crate::os;
use crate::os::future::{self, block};
use crate::os::memory::Own;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, lock};
use crate::shared::{KickNow, Shared};
use crate::worker::Worker;
use crate::worker::current::without_preemption;
use allocator_api2::boxed::Box;
use runyard_engine::attr::{Attr, Cookie, LatencyNice, Policy, Slice};
use runyard_engine::cpu::CpuSet;
use runyard_engine::event::What;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::control::{Requests, Tag};
use runyard_smp::machine::{Controlled, TaskOf, apply_pending};
use std::any::Any;
use std::fmt;
use std::ptr;
use std::task::Waker;

/// What the engine lends a worker to run a task.
pub(crate) type Job = future::Job<Head>;

impl Controlled for Job {
    fn tag(&self) -> &Tag {
        &self.cell.tag
    }

    fn requests(&self) -> &Requests {
        self.cell.requests()
    }
}

/// Who asks something of a task has its cell. The requests are in memory of the runtime's own, and there before the lock
/// of a run queue is taken for them.
impl Controlled for Cell {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn requests(&self) -> &Requests {
        &self.rest().requests
    }
}

/// What running a task means now.
#[derive(Debug)]
pub(crate) enum Todo {
    /// The task runs, or waits to be woken.
    Nothing,
    /// Poll its future.
    Poll,
    /// Let the worker go on that was stopped in the middle of a poll.
    Resume(Arc<Worker>),
}

/// What was asked for a task last, but for its [`Slack`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) policy: Policy,
    pub(crate) latency_nice: LatencyNice,
    pub(crate) slice: Option<Slice>,
    pub(crate) reset_on_fork: bool,
}

impl Asked {
    pub(crate) fn new(attr: &Attr, reset_on_fork: bool) -> Asked {
        let Attr { policy, latency_nice, slice, .. } = *attr;
        Asked { policy, latency_nice, slice, reset_on_fork }
    }
}

/// How much later than asked the timers of a task may expire, and whether it is real-time: then they may
/// not at all, but the task keeps its slack for the tasks that it spawns and for when it is fair. In one
/// word, since each timer that is armed asks for it. The run queues have no use for it, so the
/// [`Attr`] that they know does not follow.
#[derive(Debug)]
pub(crate) struct Slack(AtomicU64);

impl Slack {
    /// Above the slack, which is 292 years at the most.
    const REAL_TIME: u64 = 1 << 63;

    fn new(asked: Nanos, policy: Policy) -> Slack {
        let real_time = policy.rt_prio().map_or(0, |_| Slack::REAL_TIME);
        Slack(AtomicU64::new(asked.0.min(!Slack::REAL_TIME) | real_time))
    }

    pub(crate) fn is_real_time(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Slack::REAL_TIME != 0
    }

    /// That of the task's timers.
    pub(crate) fn of_timers(&self) -> Nanos {
        let word = self.0.load(Ordering::Relaxed);
        if word & Slack::REAL_TIME == 0 { Nanos(word) } else { Nanos::ZERO }
    }

    /// What was asked for last: tasks inherit it that the task spawns.
    pub(crate) fn asked(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed) & !Slack::REAL_TIME)
    }

    pub(crate) fn ask(&self, slack: Nanos) {
        let asked = slack.0.min(!Slack::REAL_TIME);
        let with = |word: u64| Some(word & Slack::REAL_TIME | asked);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
    }

    /// The task has this policy from now on.
    fn follow(&self, policy: Policy) {
        match policy.rt_prio() {
            Some(_) => self.0.fetch_or(Slack::REAL_TIME, Ordering::Relaxed),
            None => self.0.fetch_and(!Slack::REAL_TIME, Ordering::Relaxed),
        };
    }
}

/// No place among the live tasks, and not that of a thread that is in no poll.
const NOWHERE: u64 = u64::MAX - 1;

/// What the cell of a new task is made of.
#[derive(Debug)]
pub(crate) struct NewCell {
    pub(crate) id: TaskId,
    pub(crate) name: Option<String>,
    pub(crate) asked: Asked,
    pub(crate) slack: Nanos,
    pub(crate) serves: bool,
    pub(crate) bequeaths: bool,
    /// See [`Cell::is_light`].
    pub(crate) light: bool,
}

/// What a task shares with its wakers and handles, whatever its future is.
pub(crate) type Cell = future::Cell<Head>;

/// What a [`Cell`] has beside the turn of the task, its future and its result.
///
/// In the order of the source: what every wake-up and poll looks at is at the front, behind these.
#[repr(C)]
pub(crate) struct Head {
    /// See [`Cell::is_light`].
    light: AtomicBool,
    /// Whether `affinity` is some.
    has_affinity: AtomicBool,
    /// See [`Cell::bequeaths`].
    bequeaths: AtomicBool,
    /// It serves other tasks, and ends after them.
    pub(crate) serves: bool,
    pub(crate) guards: Guards,
    pub(crate) id: TaskId,
    /// The one reference that a task has to its runtime: all others go through here, as counting
    /// them is what CPUs would meet at.
    pub(crate) shared: Arc<Shared>,
    /// Its place among the runtime's live tasks.
    pub(crate) place: AtomicU64,
    pub(crate) slack: Slack,
    pub(crate) tag: Tag,
    pub(crate) asked: Mutex<Asked>,
    /// CPU time that it was charged, as far as it was known when somebody asked or it was woken last, and at its end.
    used: AtomicU64,
    /// Since when it could run that was woken in its poll, for the observer.
    woken_at: AtomicU64,
    rest: OnceLock<Box<Rest, Own>>,
}

/// The part of a cell that few tasks need. It is in memory of the runtime's own, which is taken where a task first needs
/// some of it, in own code too.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Its lock is held while the task changes groups.
    pub(crate) membership: Mutex<Membership>,
    pub(crate) inheritance: Mutex<Inheritance>,
    /// The CPUs that it asked for last, if these are not all.
    affinity: Mutex<Option<CpuSet>>,
    /// The cookie that it asked for last; 0 for none.
    cookie: AtomicU32,
    name: Option<String>,
    requests: Requests,
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("id", &self.id).finish_non_exhaustive()
    }
}

impl future::Head for Head {
    type Error = JoinError;
    type Todo = Todo;

    fn cancelled(&self) -> JoinError {
        JoinError::cancelled(self.id)
    }

    fn panicked(&self, payload: std::boxed::Box<dyn Any + Send>) -> JoinError {
        JoinError::panicked(self.id, payload)
    }

    fn wake(cell: &Cell) {
        cell.wake();
    }
}

impl Head {
    pub(crate) fn new(shared: Arc<Shared>, new: NewCell) -> Head {
        let NewCell { id, name, asked, slack, serves, bequeaths, light } = new;
        let rest = OnceLock::new();
        if name.is_some() {
            let _ = rest.set(Box::new_in(Rest { name, ..Rest::default() }, Own));
        }
        Head {
            light: AtomicBool::new(light),
            has_affinity: AtomicBool::new(false),
            bequeaths: AtomicBool::new(bequeaths),
            serves,
            guards: Guards::default(),
            id,
            shared,
            place: AtomicU64::new(NOWHERE),
            slack: Slack::new(slack, asked.policy),
            tag: Tag::default(),
            asked: Mutex::new(asked),
            used: AtomicU64::new(0),
            woken_at: AtomicU64::new(0),
            rest,
        }
    }
}

impl Cell {
    /// The part of the cell that few tasks need: it is made now if it is not there. Nobody is stopped meanwhile.
    pub(crate) fn rest(&self) -> &Rest {
        without_preemption(|| self.rest.get_or_init(|| Box::new_in(Rest::default(), Own)))
    }

    /// The same, if it has any of it.
    pub(crate) fn rest_if_any(&self) -> Option<&Rest> {
        self.rest.get().map(|rest| &**rest)
    }

    /// Its name, if it was given one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.rest_if_any()?.name.as_deref()
    }

    /// Whether it may have anything to pass on to the tasks that it spawns. Once it may, that stays so. A task that
    /// serves others passes on nothing: what foreign wakers spawn in it has nothing to do with it.
    pub(crate) fn bequeaths(&self) -> bool {
        self.bequeaths.load(Ordering::Acquire)
    }

    /// Something was asked for it that it passes on.
    pub(crate) fn note_heritage(&self) {
        self.bequeaths.store(!self.serves, Ordering::Release);
    }

    /// Asks for something else.
    pub(crate) fn ask(&self, change: impl FnOnce(&mut Asked)) {
        self.note_heritage();
        without_preemption(|| {
            let mut asked = lock(&self.asked);
            change(&mut asked);
            self.slack.follow(asked.policy);
        });
    }

    /// It is to run on these CPUs from now on: the calling thread is bound to them, if it is in its poll.
    pub(crate) fn note_affinity(&self, cpus: &CpuSet) {
        without_preemption(|| {
            let own = Some(cpus).filter(|&cpus| cpus != self.shared.all());
            self.has_affinity.store(own.is_some(), Ordering::Release);
            self.note_heritage();
            if own.is_some() || self.rest_if_any().is_some() {
                *lock(&self.rest().affinity) = own.cloned();
            }
            self.shared.here(|worker| worker.follow_affinity_of(self));
        });
    }

    /// It is to have this cookie of its own from now on.
    pub(crate) fn note_cookie(&self, cookie: Option<Cookie>) {
        without_preemption(|| {
            self.note_heritage();
            if cookie.is_some() || self.rest_if_any().is_some() {
                self.rest().cookie.store(cookie.map_or(0, Cookie::get), Ordering::Release);
            }
        });
    }

    /// The cookie of its own that it asked for last.
    pub(crate) fn cookie(&self) -> Option<Cookie> {
        Cookie::new(self.rest_if_any()?.cookie.load(Ordering::Acquire))
    }

    /// Whether it asked for CPUs that are not all.
    pub(crate) fn has_affinity(&self) -> bool {
        self.has_affinity.load(Ordering::Acquire)
    }

    /// The CPUs that it asked for last, if these are not all.
    pub(crate) fn affinity(&self) -> Option<CpuSet> {
        lock(&self.rest_if_any()?.affinity).clone()
    }

    /// Whether its last poll ended without blocking. Of one that was never polled nothing is known, but of one
    /// that serves others it is believed: they may have the threads for which it would wait. So it is without
    /// preemption of every future, as only [`blocking`](crate::blocking) takes a slot there; of a blocking function it
    /// is not.
    pub(crate) fn is_light(&self) -> bool {
        self.light.load(Ordering::Relaxed)
    }

    /// A poll ended: whether without blocking.
    pub(crate) fn note_light(&self, light: bool) {
        if self.is_light() != light {
            self.light.store(light, Ordering::Relaxed);
        }
    }

    /// Whether the calling thread is in the poll of this task.
    pub(crate) fn is_polled_here(&self) -> bool {
        let own = (&raw const *self).cast::<()>();
        crate::task::current::task(|task| {
            task.is_some_and(|task| ptr::eq(Arc::as_ptr(task).cast(), own))
        })
    }

    /// Whether this is the task's own waker, which calls nothing foreign.
    pub(crate) fn is_woken_by(&self, waker: &Waker) -> bool {
        ptr::eq(waker.data(), (&raw const *self).cast())
    }

    /// Leaves the blocked task in its cell. One that was woken meanwhile is given back, and since when it could run.
    pub(crate) fn park(mut task: TaskOf<Job>) -> Option<(TaskOf<Job>, Time)> {
        apply_pending(&mut task);
        let mut task = block(task)?;
        let job = job(&mut task);
        job.todo = Todo::Poll;
        let since = Time(job.cell.woken_at.load(Ordering::Relaxed));
        Some((task, since))
    }

    /// Looks at the task, if it is parked.
    pub(crate) fn look_at_parked<R>(&self, look: impl FnOnce(&mut TaskOf<Job>) -> R) -> Option<R> {
        let (said, woken) = self.seat.look(look);
        if let Some(mut task) = woken {
            job(&mut task).todo = Todo::Poll;
            let now = os::thread::now();
            self.shared.wake(now, task, now);
        }
        said
    }

    /// Carries out what was asked of a task that is parked. Of one that is not, whoever has it does.
    pub(crate) fn do_what_was_asked_while_parked(&self) {
        self.look_at_parked(apply_pending);
    }

    /// CPU time that it was charged until now. Where the task is on its way between CPUs, until it was known last.
    pub(crate) fn used(&self) -> Nanos {
        let fx = &mut KickNow(&self.shared);
        let used = without_preemption(|| {
            let now = os::thread::now();
            let queued = self.shared.machine.used_by(now, self, fx);
            let queued = queued.or_else(|| self.shared.used_in_batch(now, &self.tag));
            queued.or_else(|| self.look_at_parked(|task| task.runtime()))
        });
        // What one answer had, a later one has.
        let used = used.unwrap_or_default();
        used.max(Nanos(self.used.fetch_max(used.0, Ordering::Relaxed)))
    }

    /// The task is over, and was charged so much.
    pub(crate) fn note_used(&self, used: Nanos) {
        self.used.store(used.0, Ordering::Relaxed);
    }

    /// Wakes the task, unless it is awake or over.
    pub(crate) fn wake(&self) {
        if self.shared.paused.is_none() && self.is_polled_here() {
            return self.seat.wake_in_poll();
        }
        if !self.shared.admits(self) {
            return;
        }
        without_preemption(|| {
            let since = crate::worker::current::worker(Worker::waking_since).flatten();
            if self.shared.is_observed() {
                let noted = since.unwrap_or_else(os::thread::now);
                self.woken_at.store(noted.0, Ordering::Relaxed);
            }
            let Some(task) = self.take_woken() else { return };
            if let Err(task) = self.shared.rejoin(task) {
                let now = os::thread::now();
                self.shared.wake(now, task, since.unwrap_or(now));
            }
        });
    }

    /// The task is woken: its box to be queued, if it is blocked.
    pub(crate) fn take_woken(&self) -> Option<TaskOf<Job>> {
        let mut task = self.seat.wake()?;
        self.used.store(task.runtime().0, Ordering::Relaxed);
        job(&mut task).todo = Todo::Poll;
        Some(task)
    }

    /// Tells the observer, if there is one, that something else was asked for the task.
    pub(crate) fn tell_change(&self) {
        let shared = &self.shared;
        without_preemption(|| {
            shared.tell(shared.here(Worker::cpu).unwrap_or_default(), || {
                let Asked { policy, latency_nice, .. } = *lock(&self.asked);
                What::Changed { task: self.id, policy, group: self.group_id(), latency_nice }
            });
        });
    }

    pub(crate) fn abort(&self) {
        self.note_aborted();
        if !self.is_done() {
            self.wake();
        }
    }
}

/// What a task that is with its host is to do.
fn job(task: &mut TaskOf<Job>) -> &mut Job {
    task.payload.as_mut().expect("a blocked task has its payload")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::future::TaskCell;
    use runyard_engine::task::Task;

    /// A program may have a million of them.
    #[test]
    fn a_task_is_small() {
        assert_eq!(size_of::<TaskCell<Head, ()>>(), 152);
        assert_eq!(size_of::<Task<Job>>(), 168);
        assert_eq!(size_of::<Result<(), JoinError>>(), 8, "what a task of no output has room for");
    }
}
