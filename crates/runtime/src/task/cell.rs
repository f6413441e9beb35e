//! A future as a task of the engine: where it is while it is not in a run queue.
//!
//! The engine's box of a blocked task waits in its [`Cell`]: a waker can only enqueue a box that it
//! has, and the box comes here after the poll is over, so a task is never in two queues and no
//! wake-up is lost. A wake-up that comes before the box leaves a note.

use crate::group::Membership;
use crate::guards::Guards;
use crate::lending::Inheritance;
use crate::os;
use crate::primitives::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};
use crate::shared::{KickNow, Shared};
use crate::worker::Worker;
use async_task::Runnable;
use runyard_engine::attr::{Attr, LatencyNice, Policy, Slice};
use runyard_engine::cpu::CpuSet;
use runyard_engine::event::What;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::control::Control;
use runyard_smp::machine::{Controlled, TaskOf, apply_pending};
use std::ptr;
use std::task::Waker;

/// What the engine lends a worker to run a task.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) cell: Arc<Cell>,
    pub(crate) todo: Todo,
}

impl Controlled for Job {
    fn control(&self) -> &Control {
        &self.cell.control
    }
}

/// What running a task means now.
#[derive(Debug)]
pub(crate) enum Todo {
    /// The task runs, or waits to be woken.
    Nothing,
    /// Poll its future.
    Poll(Runnable),
    /// Let the worker go on that was stopped in the middle of a poll.
    Resume(Arc<Worker>),
}

/// Where a task is while it is in no run queue.
#[derive(Debug, Default)]
enum Parking {
    /// Being polled, or in a run queue.
    #[default]
    Awake,
    /// Blocked.
    Parked(TaskOf<Job>),
    /// Woken while it was being polled, and since when it could have run.
    Note(Runnable, Time),
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
        let slack = Slack(AtomicU64::new(0));
        slack.ask(asked);
        slack.follow(policy);
        slack
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

/// What a task shares with its wakers and handles.
///
/// In the order of the source: what every wake-up and poll looks at lies together behind the reference
/// counts. With thousands of tasks each line is a miss.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cell {
    parking: Mutex<Parking>,
    /// Whether `parking` may be a note.
    noted: AtomicBool,
    /// The future is gone.
    done: AtomicBool,
    /// And its result is there, if anybody wants it.
    over: AtomicBool,
    aborted: AtomicBool,
    /// See [`Cell::is_light`].
    light: AtomicBool,
    /// Whether `affinity` is some.
    has_affinity: AtomicBool,
    /// See [`Cell::bequeaths`].
    bequeaths: AtomicBool,
    /// It serves other tasks, and ends after them.
    pub(crate) serves: bool,
    pub(crate) id: TaskId,
    /// The one reference that a task has to its runtime: all others go through here, as counting
    /// them is what CPUs would meet at.
    pub(crate) shared: Arc<Shared>,
    /// Its place among the runtime's live tasks.
    pub(crate) place: AtomicU64,
    pub(crate) slack: Slack,
    pub(crate) control: Control,
    pub(crate) asked: Mutex<Asked>,
    /// Its lock is held while the task changes groups.
    pub(crate) membership: Mutex<Membership>,
    pub(crate) inheritance: Mutex<Inheritance>,
    pub(crate) guards: Guards,
    /// The CPUs that it asked for last, if these are not all.
    affinity: Mutex<Option<CpuSet>>,
    /// CPU time that it was charged, as far as it was known when somebody asked or it was woken last, and at its end.
    used: AtomicU64,
    /// Wakes the task to be aborted. There while the future is: the future drops it.
    waker: Mutex<Option<Waker>>,
    pub(crate) name: Option<String>,
}

impl Cell {
    fn new(shared: Arc<Shared>, new: NewCell) -> Cell {
        let NewCell { id, name, asked, slack, serves, bequeaths, light } = new;
        Cell {
            shared,
            place: AtomicU64::new(0),
            serves,
            id,
            name,
            control: Control::default(),
            slack: Slack::new(slack, asked.policy),
            asked: Mutex::new(asked),
            membership: Mutex::default(),
            inheritance: Mutex::default(),
            guards: Guards::default(),
            parking: Mutex::default(),
            noted: AtomicBool::new(false),
            done: AtomicBool::new(false),
            over: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            light: AtomicBool::new(light),
            has_affinity: AtomicBool::new(false),
            bequeaths: AtomicBool::new(bequeaths),
            affinity: Mutex::new(None),
            used: AtomicU64::new(0),
            waker: Mutex::new(None),
        }
    }

    /// A new task's cell: an old one that nobody knows any more, if there is one.
    pub(crate) fn renewed(old: Option<Arc<Cell>>, shared: &Arc<Shared>, new: NewCell) -> Arc<Cell> {
        if let Some(mut old) = old
            && let Some(cell) = Arc::get_mut(&mut old)
        {
            cell.renew(new);
            return old;
        }
        Arc::new(Cell::new(shared.clone(), new))
    }

    /// The cell of a task that its runtime, which ends, does not take: it is aborted, and at no place.
    pub(crate) fn refused(shared: &Arc<Shared>, new: NewCell) -> Arc<Cell> {
        let cell = Cell::new(shared.clone(), new);
        cell.place.store(NOWHERE, Ordering::Relaxed);
        cell.aborted.store(true, Ordering::Release);
        Arc::new(cell)
    }

    /// As [`Cell::new`], in the same runtime.
    fn renew(&mut self, new: NewCell) {
        let NewCell { id, name, asked, slack, serves, bequeaths, light } = new;
        self.serves = serves;
        self.id = id;
        self.name = name;
        self.control = Control::default();
        self.slack = Slack::new(slack, asked.policy);
        self.asked = Mutex::new(asked);
        self.membership = Mutex::default();
        self.inheritance = Mutex::default();
        self.guards = Guards::default();
        self.parking = Mutex::default();
        self.noted = AtomicBool::new(false);
        self.done = AtomicBool::new(false);
        self.over = AtomicBool::new(false);
        self.aborted = AtomicBool::new(false);
        self.light = AtomicBool::new(light);
        self.has_affinity = AtomicBool::new(false);
        self.bequeaths = AtomicBool::new(bequeaths);
        self.affinity = Mutex::new(None);
        self.used = AtomicU64::new(0);
        self.waker = Mutex::new(None);
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
            *lock(&self.affinity) = own.cloned();
            self.shared.here(|worker| worker.follow_affinity_of(self));
        });
    }

    /// Whether it asked for CPUs that are not all.
    pub(crate) fn has_affinity(&self) -> bool {
        self.has_affinity.load(Ordering::Acquire)
    }

    /// The CPUs that it asked for last, if these are not all.
    pub(crate) fn affinity(&self) -> Option<CpuSet> {
        lock(&self.affinity).clone()
    }

    /// Whether the future is gone, by its end or by being dropped.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// The future is gone.
    pub(crate) fn note_done(&self) {
        drop(without_preemption(|| lock(&self.waker).take()));
        self.done.store(true, Ordering::Release);
    }

    /// Whether somebody asked for the task's end.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// Whether the result of the task is there: it is some time after the future is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The result is there.
    pub(crate) fn note_over(&self) {
        self.over.store(true, Ordering::Release);
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
        os::local::task(|task| task.is_some_and(|task| ptr::eq(&raw const **task, self)))
    }

    /// The wake-up that came during the poll, which has ended on the calling thread.
    pub(crate) fn take_note_of_poll(&self) -> Option<Runnable> {
        os::local::take_note().or_else(|| self.take_note())
    }

    /// The wake-up that came during the poll from elsewhere.
    pub(crate) fn take_note(&self) -> Option<Runnable> {
        // One that comes after this look is found when the task is parked.
        if !self.noted.load(Ordering::Acquire) {
            return None;
        }
        self.noted.store(false, Ordering::Relaxed);
        let mut parking = lock(&self.parking);
        match std::mem::take(&mut *parking) {
            Parking::Note(runnable, _) => Some(runnable),
            Parking::Awake => None,
            Parking::Parked(_) => unreachable!("a task that is being polled has its box"),
        }
    }

    /// Leaves the blocked task here, or gives it back if it was woken meanwhile, and since when.
    pub(crate) fn park(&self, mut task: TaskOf<Job>) -> Option<(TaskOf<Job>, Time)> {
        let mut parking = lock(&self.parking);
        match std::mem::take(&mut *parking) {
            Parking::Awake => {
                apply_pending(&mut task);
                *parking = Parking::Parked(task);
                None
            }
            Parking::Note(runnable, since) => {
                self.noted.store(false, Ordering::Relaxed);
                job(&mut task).todo = Todo::Poll(runnable);
                Some((task, since))
            }
            Parking::Parked(_) => unreachable!("a task has one box"),
        }
    }

    /// Looks at the task, if it is parked.
    pub(crate) fn look_at_parked<R>(
        &self,
        look: impl FnOnce(&runyard_engine::task::Task<Job>) -> R,
    ) -> Option<R> {
        match &*lock(&self.parking) {
            Parking::Parked(task) => Some(look(task)),
            Parking::Awake | Parking::Note(..) => None,
        }
    }

    /// Carries out what was asked of a task that is parked. Of one that is not, whoever has it does.
    pub(crate) fn do_what_was_asked_while_parked(&self) {
        if let Parking::Parked(task) = &mut *lock(&self.parking) {
            apply_pending(task);
        }
    }

    /// CPU time that it was charged until now. Where the task is on its way between CPUs, until it was known last.
    pub(crate) fn used(&self) -> Nanos {
        let fx = &mut KickNow(&self.shared);
        let used = without_preemption(|| {
            let now = os::thread::now();
            let queued = self.shared.machine.used_by(now, &self.control, fx);
            let queued = queued.or_else(|| self.shared.used_in_batch(now, &self.control));
            queued.or_else(|| match &*lock(&self.parking) {
                Parking::Parked(task) => Some(task.runtime()),
                Parking::Awake | Parking::Note(..) => None,
            })
        });
        // What one answer had, a later one has.
        let used = used.unwrap_or_default();
        used.max(Nanos(self.used.fetch_max(used.0, Ordering::Relaxed)))
    }

    /// The task is over, and was charged so much.
    pub(crate) fn note_used(&self, used: Nanos) {
        self.used.store(used.0, Ordering::Relaxed);
    }

    /// Takes the task out to be enqueued, or leaves a note.
    pub(crate) fn wake(&self, runnable: Runnable, since: Time) -> Option<TaskOf<Job>> {
        let mut parking = lock(&self.parking);
        match std::mem::take(&mut *parking) {
            Parking::Parked(mut task) => {
                self.used.store(task.runtime().0, Ordering::Relaxed);
                job(&mut task).todo = Todo::Poll(runnable);
                Some(task)
            }
            Parking::Awake => {
                *parking = Parking::Note(runnable, since);
                self.noted.store(true, Ordering::Release);
                None
            }
            Parking::Note(..) => unreachable!("a task is scheduled once at a time"),
        }
    }

    /// Says how the task is woken; before anybody polls it.
    pub(crate) fn set_waker(&self, waker: Waker) {
        without_preemption(|| *lock(&self.waker) = Some(waker));
    }

    /// Whether this is the task's own waker, which calls nothing foreign.
    pub(crate) fn is_woken_by(&self, waker: &Waker) -> bool {
        without_preemption(|| lock(&self.waker).as_ref().is_some_and(|own| own.will_wake(waker)))
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
        self.aborted.store(true, Ordering::Release);
        if let Some(waker) = without_preemption(|| lock(&self.waker).take()) {
            waker.wake();
        }
    }
}

/// What a task that is with its host is to do.
fn job(task: &mut TaskOf<Job>) -> &mut Job {
    task.payload.as_mut().expect("a blocked task has its payload")
}

/// Runs a section of the runtime's own code; on a worker, without being stopped in it.
pub(crate) fn without_preemption<R>(section: impl FnOnce() -> R) -> R {
    os::local::section(section, Worker::without_preemption)
}
