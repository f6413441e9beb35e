//! A future as a task of the engine, and the state that it shares with its wakers and handles.
//!
//! The engine's box of a blocked task waits in the [seat](Seat) of its [`Cell`]. A waker can only enqueue a box that is
//! in its hands, and the box comes to the seat after the poll is over. So a task is never in two queues, and no wake-up
//! is lost.

use super::join::JoinError;
use super::new::Kind;
use crate::crew::kick::KickNow;
use crate::group::Membership;
use crate::mutex::guards::Guards;
use crate::mutex::lending::Inheritance;
use crate::os;
use crate::os::above::without_preemption;
use crate::os::future::{self, block};
use crate::os::memory::Own;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, lock};
use crate::shared::Shared;
use crate::worker::Worker;
use allocator_api2::boxed::Box;
use runyard_engine::attr::{Attr, Cookie, LatencyNice, Policy, Slice};
use runyard_engine::cpu::CpuSet;
use runyard_engine::event::What;
use runyard_engine::run_queue::Prev;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::control::{Requests, Tag};
use runyard_smp::machine::{Controlled, TaskOf, apply_pending};
use std::any::Any;
use std::fmt;
use std::ptr;
use std::task::Waker;
use std::time::Duration;

/// The payload of an engine task, which a worker needs to run it.
pub(crate) type Job = future::Job<Head>;

impl Controlled for Job {
    fn tag(&self) -> &Tag {
        &self.cell.tag
    }

    fn requests(&self) -> &Requests {
        self.cell.requests()
    }
}

/// A caller that requests a change of a task has its cell. The requests are in the runtime's own memory, and exist
/// before the lock of a run queue is taken for them.
impl Controlled for Cell {
    fn tag(&self) -> &Tag {
        &self.tag
    }

    fn requests(&self) -> &Requests {
        &self.rest().requests
    }
}

/// The next step when the task runs.
#[derive(Debug)]
pub(crate) enum Todo {
    /// No step: the task runs, or waits to be woken.
    Nothing,
    /// Poll its future.
    Poll,
    /// Resume the worker that was stopped in the middle of a poll.
    Resume(Arc<Worker>),
}

/// The attributes that were last asked for a task, except its [`Slack`].
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

/// Timer slack of a task, in nanoseconds, and whether the task is real-time, in one word because each timer that is
/// armed reads it. Timers of a real-time task have no slack, but the task keeps the value for the tasks that it spawns,
/// and for when it is fair again. Run queues do not need the slack, so their [`Attr`] is not updated.
#[derive(Debug)]
pub(crate) struct Slack(AtomicU64);

impl Slack {
    /// The bit above the slack, which is at most 292 years.
    const REAL_TIME: u64 = 1 << 63;

    fn new(asked: Nanos, policy: Policy) -> Slack {
        let real_time = if policy.class().is_fair() { 0 } else { Slack::REAL_TIME };
        Slack(AtomicU64::new(asked.0.min(!Slack::REAL_TIME) | real_time))
    }

    pub(crate) fn is_real_time(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Slack::REAL_TIME != 0
    }

    /// Returns the slack of the task's timers.
    pub(crate) fn of_timers(&self) -> Nanos {
        let word = self.0.load(Ordering::Relaxed);
        if word & Slack::REAL_TIME == 0 { Nanos(word) } else { Nanos::ZERO }
    }

    /// Returns the slack that was last asked for. Tasks that the task spawns inherit it.
    pub(crate) fn asked(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed) & !Slack::REAL_TIME)
    }

    pub(crate) fn ask(&self, slack: Nanos) {
        let asked = slack.0.min(!Slack::REAL_TIME);
        let with = |word: u64| Some(word & Slack::REAL_TIME | asked);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
    }

    /// Follows a change of the task's policy.
    fn follow(&self, policy: Policy) {
        match policy.class().is_fair() {
            true => self.0.fetch_and(!Slack::REAL_TIME, Ordering::Relaxed),
            false => self.0.fetch_or(Slack::REAL_TIME, Ordering::Relaxed),
        };
    }
}

/// A place that stands for none among the live tasks. It differs from the place of a thread that is in no poll.
const NOWHERE: u64 = u64::MAX - 1;

/// The bit of [`Cell::used`] that says that the task is over.
const FINAL: u64 = 1 << 63;

/// The number of times that a caller looks for the CPU time of a task that has its result, until its end is recorded.
/// Between the first looks other threads may run.
const LOOKS: u32 = 1_000;

/// The number of those looks after which the caller sleeps before each further one, and for how long. The kernel may have
/// taken the CPU of the thread that records the end for several slices. All sleeps together are about a second: after
/// a shutdown nobody may record the end.
const SLEEPS_FROM: u32 = 100;
const SLEEP: Duration = Duration::from_millis(1);

/// The values from which the cell of a new task is made.
#[derive(Debug)]
pub(crate) struct NewCell {
    pub(crate) name: Option<String>,
    pub(crate) asked: Asked,
    pub(crate) slack: Nanos,
    pub(crate) kind: Kind,
    pub(crate) bequeaths: bool,
    /// See [`Cell::is_light`].
    pub(crate) light: bool,
}

/// The state that a task shares with its wakers and handles, for any type of future.
pub(crate) type Cell = future::Cell<Head>;

/// The part of a [`Cell`] beside the turn of the task, its future and its result.
///
/// The fields stay in the order of the source. Those that every wake-up and poll reads are at the front, behind the
/// turn, because with thousands of tasks each cache line is a miss.
#[repr(C)]
pub(crate) struct Head {
    /// See [`Cell::is_light`].
    light: AtomicBool,
    /// Set if `affinity` is some.
    has_affinity: AtomicBool,
    /// See [`Cell::bequeaths`].
    bequeaths: AtomicBool,
    kind: Kind,
    pub(crate) guards: Guards,
    pub(crate) id: TaskId,
    /// The only reference of a task to its runtime. All others go through it, because CPUs would contend for the
    /// reference count.
    pub(crate) shared: Arc<Shared>,
    /// Its place among the runtime's live tasks.
    pub(crate) place: AtomicU64,
    pub(crate) slack: Slack,
    pub(crate) tag: Tag,
    pub(crate) asked: Mutex<Asked>,
    /// CPU time charged to the task. It is updated when a caller asks for it, when the task is woken, and at its end.
    /// From then on it has the bit [`FINAL`].
    used: AtomicU64,
    /// Time at which the task became runnable, if it was woken in its poll. For the observer.
    woken_at: AtomicU64,
    rest: OnceLock<Box<Rest, Own>>,
}

/// The part of a cell that few tasks need. It is allocated from the runtime's own memory when a task first needs it,
/// also within the runtime's own code.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// The task's group. Its lock is held while the task changes groups.
    pub(crate) membership: Mutex<Membership>,
    pub(crate) inheritance: Mutex<Inheritance>,
    /// The CPUs that the task last asked for, unless these are all.
    affinity: Mutex<Option<CpuSet>>,
    /// The cookie that the task last asked for; 0 for none.
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
    pub(crate) fn new(shared: Arc<Shared>, id: TaskId, new: NewCell) -> Head {
        let NewCell { name, asked, slack, kind, bequeaths, light } = new;
        let rest = OnceLock::new();
        if name.is_some() {
            let _ = rest.set(Box::new_in(Rest { name, ..Rest::default() }, Own));
        }
        Head {
            light: AtomicBool::new(light),
            has_affinity: AtomicBool::new(false),
            bequeaths: AtomicBool::new(bequeaths),
            kind,
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

    /// Makes this, of a task that is over, the head of a new task of the same runtime. Returns `false`, and changes
    /// nothing, if one of the two has a part that few tasks need: to drop that frees memory.
    #[inline]
    pub(crate) fn renew(&mut self, id: impl FnOnce() -> TaskId, new: &NewCell) -> bool {
        let &NewCell { ref name, asked, slack, kind, bequeaths, light } = new;
        if self.rest.get().is_some() || name.is_some() {
            return false;
        }
        self.light = AtomicBool::new(light);
        self.has_affinity = AtomicBool::new(false);
        self.bequeaths = AtomicBool::new(bequeaths);
        self.kind = kind;
        self.guards = Guards::default();
        self.id = id();
        self.place = AtomicU64::new(NOWHERE);
        self.slack = Slack::new(slack, asked.policy);
        self.tag = Tag::default();
        self.asked = Mutex::new(asked);
        self.used = AtomicU64::new(0);
        self.woken_at = AtomicU64::new(0);
        true
    }
}

impl Cell {
    /// Returns whether the task serves other tasks, and ends after them.
    pub(crate) fn serves(&self) -> bool {
        self.kind == Kind::Server
    }

    /// Returns whether the task is a blocking function.
    pub(crate) fn is_function(&self) -> bool {
        self.kind == Kind::Function
    }

    /// Returns the part of the cell that few tasks need, and makes it if it does not exist. The thread is not stopped
    /// meanwhile.
    pub(crate) fn rest(&self) -> &Rest {
        without_preemption(|| self.rest.get_or_init(|| Box::new_in(Rest::default(), Own)))
    }

    /// Returns the part of the cell that few tasks need, if it exists.
    pub(crate) fn rest_if_any(&self) -> Option<&Rest> {
        self.rest.get().map(|rest| &**rest)
    }

    /// Returns the task's name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.rest_if_any()?.name.as_deref()
    }

    /// Returns whether the task may have attributes to pass on to the tasks that it spawns. Once true, it stays true. A
    /// task that serves others passes on nothing, because tasks that foreign wakers spawn in it are unrelated to it.
    pub(crate) fn bequeaths(&self) -> bool {
        self.bequeaths.load(Ordering::Acquire)
    }

    /// Records that the task has an attribute to pass on.
    pub(crate) fn note_heritage(&self) {
        self.bequeaths.store(!self.serves(), Ordering::Release);
    }

    /// Changes the attributes that are asked for the task.
    pub(crate) fn ask(&self, change: impl FnOnce(&mut Asked)) {
        self.note_heritage();
        without_preemption(|| {
            let mut asked = lock(&self.asked);
            change(&mut asked);
            self.slack.follow(asked.policy);
        });
    }

    /// Records that the task is to run on `cpus` from now on. Binds the calling thread to them, if it is in the task's
    /// poll.
    pub(crate) fn note_affinity(&self, cpus: &CpuSet) {
        without_preemption(|| {
            let own =
                Some(cpus).filter(|&cpus| cpus != self.shared.scheduler.all(&self.shared.registry));
            self.has_affinity.store(own.is_some(), Ordering::Release);
            self.note_heritage();
            if own.is_some() || self.rest_if_any().is_some() {
                *lock(&self.rest().affinity) = own.cloned();
            }
            self.shared.scheduler.here(|worker| {
                if worker.poll.is_of(self) {
                    worker.thread.follow(Some(self));
                }
            });
        });
    }

    /// Records the task's own cookie from now on.
    pub(crate) fn note_cookie(&self, cookie: Option<Cookie>) {
        without_preemption(|| {
            self.note_heritage();
            if cookie.is_some() || self.rest_if_any().is_some() {
                self.rest().cookie.store(cookie.map_or(0, Cookie::get), Ordering::Release);
            }
        });
    }

    /// Returns the own cookie that the task last asked for.
    pub(crate) fn cookie(&self) -> Option<Cookie> {
        Cookie::new(self.rest_if_any()?.cookie.load(Ordering::Acquire))
    }

    /// Returns whether the task asked for fewer CPUs than all.
    pub(crate) fn has_affinity(&self) -> bool {
        self.has_affinity.load(Ordering::Acquire)
    }

    /// Returns the CPUs that the task last asked for, unless these are all.
    pub(crate) fn affinity(&self) -> Option<CpuSet> {
        lock(&self.rest_if_any()?.affinity).clone()
    }

    /// Returns whether the last poll of the task ended without blocking.
    ///
    /// Before the first poll this is a guess. It is true for a task that serves others, because they may hold the
    /// threads for which it would wait. It is also true for every future without preemption, because there only
    /// [`blocking`](crate::blocking) takes a slot. It is false for a blocking function.
    pub(crate) fn is_light(&self) -> bool {
        self.light.load(Ordering::Relaxed)
    }

    /// Records whether the poll that just ended did so without blocking.
    pub(crate) fn note_light(&self, light: bool) {
        if self.is_light() != light {
            self.light.store(light, Ordering::Relaxed);
        }
    }

    /// Returns whether the calling thread is in the poll of this task.
    pub(crate) fn is_polled_here(&self) -> bool {
        let own = (&raw const *self).cast::<()>();
        crate::current::task::polled(|task| {
            task.is_some_and(|task| ptr::eq(Arc::as_ptr(task).cast(), own))
        })
    }

    /// Returns whether `waker` is the task's own waker, which calls no foreign code.
    pub(crate) fn is_woken_by(&self, waker: &Waker) -> bool {
        ptr::eq(waker.data(), (&raw const *self).cast())
    }

    /// Leaves the blocked task in its cell. Returns a task that was woken meanwhile, and the time at which it became
    /// runnable.
    pub(crate) fn park(mut task: TaskOf<Job>) -> Option<(TaskOf<Job>, Time)> {
        apply_pending(&mut task);
        let mut task = block(task)?;
        let job = job(&mut task);
        job.todo = Todo::Poll;
        let since = Time(job.cell.woken_at.load(Ordering::Relaxed));
        Some((task, since))
    }

    /// Calls `look` with the task, if it is parked.
    pub(crate) fn look_at_parked<R>(&self, look: impl FnOnce(&mut TaskOf<Job>) -> R) -> Option<R> {
        let (said, woken) = self.seat.look(look);
        if let Some(mut task) = woken {
            job(&mut task).todo = Todo::Poll;
            let now = os::thread::now();
            self.shared.scheduler.wake(now, task, now);
        }
        said
    }

    /// Applies the pending requests of a parked task. If the task is not parked, its current owner applies them.
    pub(crate) fn do_what_was_asked_while_parked(&self) {
        self.look_at_parked(apply_pending);
    }

    /// Returns the CPU time charged to the task so far. While a thread has the task in hand, this is the last known
    /// value. The returned values never decrease.
    pub(crate) fn used(&self) -> Nanos {
        for look in 0..LOOKS {
            // Read before the search: a task whose end is recorded meanwhile is looked for again.
            let is_done = self.is_done();
            let noted = self.used.load(Ordering::Acquire);
            if noted & FINAL != 0 {
                return Nanos(noted & !FINAL);
            }
            let found = without_preemption(|| self.look_for_used());
            if found.is_some() || !is_done || self.is_polled_here() {
                let used = found.unwrap_or_default();
                let noted = self.used.fetch_max(used.0, Ordering::Relaxed);
                return Nanos(used.0.max(noted & !FINAL));
            }
            // The thread of the last poll, which is another one, is about to record the end.
            match look {
                ..SLEEPS_FROM => std::thread::yield_now(),
                _ => std::thread::sleep(SLEEP),
            }
        }
        Nanos(self.used.load(Ordering::Acquire) & !FINAL)
    }

    /// Returns the CPU time charged to the task so far, or `None` if it is in transit or over.
    fn look_for_used(&self) -> Option<Nanos> {
        let now = os::thread::now();
        let queued = self.shared.scheduler.machine().used_by(
            now,
            self,
            &mut KickNow(&self.shared.scheduler),
        );
        let queued =
            queued.or_else(|| self.shared.scheduler.dispatch().used_in_batch(now, &self.tag));
        queued.or_else(|| self.look_at_parked(|task| task.runtime()))
    }

    /// Records the final CPU time of a task that is over.
    pub(crate) fn note_used(&self, used: Nanos) {
        let known = self.used.load(Ordering::Relaxed);
        self.used.store(FINAL | known.max(used.0), Ordering::Release);
    }

    /// Wakes the task, unless it is awake or over. In a child of fork the task does not exist.
    pub(crate) fn wake(&self) {
        let paused = self.shared.scheduler.paused();
        if paused.is_none() && self.is_polled_here() {
            return self.seat.wake_in_poll();
        }
        if os::fork::is_child() || !paused.as_ref().is_none_or(|host| host.admits(self)) {
            return;
        }
        without_preemption(|| {
            let scheduler = &self.shared.scheduler;
            let since =
                || crate::current::worker::worker(|worker| worker.poll.waking_since()).flatten();
            if scheduler.is_observed() {
                let noted = since().unwrap_or_else(os::thread::now);
                self.woken_at.store(noted.0, Ordering::Relaxed);
            }
            let Some(task) = self.take_woken() else { return };
            if let Err(task) = scheduler.rejoin(task) {
                let now = os::thread::now();
                scheduler.wake(now, task, since().unwrap_or(now));
            }
        });
    }

    /// Marks the task as woken. Returns its box, which is to be enqueued, if it was blocked.
    pub(crate) fn take_woken(&self) -> Option<TaskOf<Job>> {
        let mut task = self.seat.wake()?;
        self.used.store(task.runtime().0, Ordering::Relaxed);
        job(&mut task).todo = Todo::Poll;
        Some(task)
    }

    /// Returns the report to the engine after a poll of the task, and its cell if the task is over.
    #[inline]
    pub(crate) fn leave_poll(cell: Arc<Cell>) -> (Prev<Job>, Option<Arc<Cell>>) {
        if cell.is_done() {
            return (Prev::Exited, Some(cell));
        }
        let prev = match cell.seat.is_scheduled() {
            true => Prev::Yielded(Job { cell, todo: Todo::Poll }),
            false => Prev::Blocked(Job { cell, todo: Todo::Nothing }),
        };
        (prev, None)
    }

    /// Reports the change of the task's attributes to the observer, if there is one.
    pub(crate) fn tell_change(&self) {
        let shared = &self.shared;
        without_preemption(|| {
            shared.scheduler.tell(
                shared.scheduler.here(|worker| worker.thread.cpu()).unwrap_or_default(),
                || {
                    let Asked { policy, latency_nice, .. } = *lock(&self.asked);
                    What::Changed { task: self.id, policy, group: self.group_id(), latency_nice }
                },
            );
        });
    }

    /// Ends the task at its next await. A blocking function that has begun goes on; its task may wait for another thread
    /// that calls it.
    pub(crate) fn abort(&self) {
        if self.is_function() && self.seat.is_idle() {
            return;
        }
        self.note_aborted();
        if !self.is_done() {
            self.wake();
        }
    }
}

/// Returns the job of a task that is with its host.
fn job(task: &mut TaskOf<Job>) -> &mut Job {
    task.payload.as_mut().expect("a blocked task has its payload")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::future::TaskCell;
    use runyard_engine::task::Task;

    /// A program may have a million cells.
    #[test]
    fn a_task_is_small() {
        assert_eq!(size_of::<TaskCell<Head, ()>>(), 152);
        assert_eq!(size_of::<Task<Job>>(), 160);
        assert_eq!(
            size_of::<Result<(), JoinError>>(),
            8,
            "room for the result of a task without output"
        );
    }
}
