//! The shared state of the tasks of a run: the scenario's objects, the waiting tasks, and the end of the run.
//!
//! One lock protects it. It is held for microseconds and never across an await, a wake-up, or anything else that can
//! block. All accesses of tasks go through [`World::with_shared`], within the host's [`Section`]. The wakers that a
//! step has to call are collected under the lock and called without it.
//!
//! A waiting task is `Waiting` in the shared state; the [`Told`] that it awaits sets its waker there. The task that
//! wakes it makes it `Woken`, notes the time, and takes the waker. So a wake-up before the await is not lost, and each
//! wake-up is delivered once.
//!
//! A run without a duration ends with its last task, or when every task waits for another: then no task is left that
//! could wake them.

use super::marks::{Marks, waits};
use super::mutexes::{Mutexes, Seat};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Changed, Mutex, OnceLock, Ordering, lock};
use rand_pcg::Pcg64Mcg;
use runyard_engine::attr::{Cookie, GroupId, LatencyNice, Policy, RtPrio};
use runyard_engine::cpu::CpuSet;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::ChainReport;
use runyard_workload::Scenario;
use runyard_workload::cpusets::Cpusets;
use runyard_workload::draw::{Stream, stream};
use runyard_workload::log::Row;
use runyard_workload::objects::{self, Awaited, Left, Objects, Sharing, Undone};
use runyard_workload::scenario::{ObjectId, Reservation, SpecId, Step, TaskAttr, TaskSpec};
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The largest number of tasks, including forked ones; the same as in a scenario.
const MAX_TASKS: usize = 1_000_000;

/// The longest time in which a run, or a task that sleeps, does not check whether the run is stopped. A check takes CPU time
/// from the tasks.
const NAP: Nanos = Nanos::from_millis(250);

/// A section in which a host keeps a task from being stopped for long, since the task has the world's lock.
pub(crate) trait Section: Debug + Send + Sync {
    /// Runs `access`.
    fn run(&self, access: &mut dyn FnMut());

    /// Wakes these tasks. None of them has to wait until the waking task itself waits.
    fn wake(&self, woken: Vec<Waker>) {
        woken.into_iter().for_each(Waker::wake);
    }
}

/// A scenario and the options of its run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tasks, and the objects that they share.
    pub scenario: Scenario,
    /// The seed of all random draws.
    pub seed: u64,
    /// A watcher of every step, if there is one.
    pub watch: Option<Arc<dyn Watch>>,
    /// Whether the tasks keep logs.
    pub log: bool,
    /// A flag that ends the run early when it is set. A signal handler may set it.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Plan {
    /// A plan that runs this scenario to its end, without a watcher and without logs.
    #[must_use]
    pub fn new(scenario: Scenario, seed: u64) -> Plan {
        Plan { scenario, seed, watch: None, log: false, stop: None }
    }
}

/// A watcher of the tasks' steps. The task itself calls it and can be stopped in the call, so a lock that one task's
/// call takes must not be needed by another's.
pub trait Watch: Debug + Send + Sync {
    /// `task` takes the step of this number in its phase.
    fn step(&self, task: TaskId, step: usize, now: Time);
}

/// A run, as its tasks and its host see it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    seed: u64,
    watch: Option<Arc<dyn Watch>>,
    pub(crate) log: bool,
    /// The CPUs on which the tasks of each group may run.
    cpusets: Cpusets,
    /// Set once, when no task may go on; a task sees it at its next step at the latest.
    over: AtomicBool,
    /// The flag by which others may end the run, and the time at which that happened.
    stop: Option<Arc<AtomicBool>>,
    stopped: OnceLock<Time>,
    shared: Mutex<SharedState>,
    section: Box<dyn Section>,
    /// The host's own mutexes, if it has some, and the number of tasks that want one.
    mutexes: Option<Box<dyn Mutexes>>,
    wanting: AtomicUsize,
    /// The host waits here for the end.
    ended: Changed,
}

/// The scheduling attributes that a task asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) attr: TaskAttr,
    /// The reservation of a SCHED_DEADLINE task.
    pub(crate) reservation: Option<Reservation>,
}

/// The initial state of a task.
#[derive(Clone, Debug)]
pub(crate) struct NewTask {
    pub(crate) task: TaskId,
    pub(crate) spec: SpecId,
    pub(crate) name: String,
    pub(crate) asked: Asked,
    /// The seat in which the task stores the mutex that it wants, if the host has mutexes of its own.
    pub(crate) seat: Option<Arc<Seat>>,
    /// The start of the task.
    pub(crate) begin: Time,
    /// The start of its periodic timers: its delay after the run's start.
    pub(crate) timer_zero: Time,
    pub(crate) draws: Pcg64Mcg,
    /// The task that starts it; `None` if its delay does, or the run.
    pub(crate) by: Option<TaskId>,
}

/// The facts about a task, in the order of the report.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) name: String,
    /// The thread object of its program.
    pub(crate) thread: String,
    /// The initial policy, task group and latency nice.
    pub(crate) policy: Policy,
    pub(crate) group: GroupId,
    pub(crate) latency_nice: LatencyNice,
    /// The initial cookie: its own, or that of its task group.
    pub(crate) cookie: Option<Cookie>,
    /// The initial slack of its timers.
    pub(crate) slack: Nanos,
    /// Whether it had a reservation of the kernel's at the beginning.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only the host `linux` has such tasks")
    )]
    pub(crate) is_deadline: bool,
    /// The beginning and the end of its life.
    pub(crate) life: (Time, Time),
    /// Whether its program came to its end.
    ended: bool,
    prio: Option<RtPrio>,
    state: State,
    /// The requests that it left out since it reached a timer too late, in thousandths.
    omitted: u64,
    seat: Option<Arc<Seat>>,
    /// The waker that ends a long sleep when the run is stopped.
    sleeper: Option<Waker>,
}

impl Known {
    /// The state in which the run leaves the task.
    fn left(&self) -> Left<'_> {
        let waits = match self.state {
            State::Waiting(awaited, _) => Some(awaited),
            State::Awake | State::Woken(_) => {
                let wanted = self.seat.as_ref().and_then(|seat| seat.wanted());
                wanted.map(|wanted| Awaited::Mutex(wanted.mutex))
            }
        };
        let (name, thread, ended, omitted) = (&self.name, &self.thread, self.ended, self.omitted);
        Left { name, thread, ended, waits, omitted }
    }
}

/// Whether a task waits for another.
#[derive(Clone, Debug)]
enum State {
    Awake,
    /// The task waits for this object; with its waker, once it has one.
    Waiting(Awaited, Option<Waker>),
    /// The task was woken.
    Woken(Woken),
}

/// A wake-up of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    pub(crate) since: Time,
    /// The mutex that the task has to try to take when it executes.
    pub(crate) to_try: Option<ObjectId>,
}

#[derive(Debug)]
struct SharedState {
    objects: Objects,
    tasks: Vec<Known>,
    /// The number of forks of each thread object.
    forks: Vec<u32>,
    /// The number of unfinished tasks, and of those among them that wait for another.
    alive: usize,
    waiting: usize,
    /// The first refusal that the host met.
    refused: Option<String>,
    /// The time of the step for which the state is locked, and the tasks that the step wakes.
    now: Time,
    wakers: Vec<Waker>,
    /// The last time at which a task did something that concerns others. Its end counts.
    latest: Time,
    /// The logs of the finished tasks.
    logs: Vec<Vec<Row>>,
    /// The marks from which chains are measured, if the scenario has some.
    marks: Option<Marks>,
}

impl World {
    /// A world with the tasks that exist from the start, on CPUs `0..cpus`.
    pub(crate) fn new(
        plan: Plan,
        cpus: usize,
        section: impl Section + 'static,
        mutexes: Option<Box<dyn Mutexes>>,
    ) -> (Arc<World>, Vec<NewTask>) {
        let Plan { scenario, seed, watch, log, stop } = plan;
        let mut objects = Objects::new(&scenario.objects);
        if let Some(own) = &mutexes {
            objects.leave_to_host(|kind| own.has(kind));
        }
        let shared = SharedState {
            objects,
            tasks: Vec::new(),
            forks: vec![0; scenario.tasks.len()],
            alive: 0,
            waiting: 0,
            refused: None,
            now: Time::ZERO,
            wakers: Vec::new(),
            latest: Time::ZERO,
            logs: Vec::new(),
            marks: Marks::of(&scenario),
        };
        let cpusets = scenario.cpusets(CpuSet::first(cpus));
        let world = World {
            scenario,
            seed,
            watch,
            log,
            cpusets,
            over: AtomicBool::new(false),
            stop,
            stopped: OnceLock::new(),
            shared: Mutex::new(shared),
            section: Box::new(section),
            mutexes,
            wanting: AtomicUsize::new(0),
            ended: Changed::default(),
        };
        let instance = |(id, nth, name): (SpecId, u32, String)| {
            let attr = world.spec(id).first_attr(&world.cpusets);
            let draws = (Stream::Task(id, nth), Time::ZERO);
            world.create(&mut lock(&world.shared), (id, name, attr), draws)
        };
        let tasks = world.scenario.instances().map(instance).collect();
        (Arc::new(world), tasks)
    }

    /// A thread object.
    pub(crate) fn spec(&self, id: SpecId) -> &TaskSpec {
        &self.scenario.tasks[id.0 as usize]
    }

    /// All CPUs of the run.
    pub(crate) fn all(&self) -> &CpuSet {
        self.cpusets.all()
    }

    /// The CPUs on which the tasks of each group may run.
    pub(crate) fn cpusets(&self) -> &Cpusets {
        &self.cpusets
    }

    /// The watcher of every step.
    pub(crate) fn watch(&self) -> Option<&dyn Watch> {
        self.watch.as_deref()
    }

    /// The latest end of the run.
    pub(crate) fn end(&self) -> Time {
        self.scenario.duration.map_or(Time::MAX, |duration| Time::ZERO + duration)
    }

    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.end() || self.over.load(Ordering::Acquire) || self.is_stopped()
    }

    /// Takes a step of `task` that concerns others. Returns a future to await, if the task has to wait.
    pub(crate) fn take_shared_step(
        self: &Arc<World>,
        task: TaskId,
        step: &Step,
        now: Time,
    ) -> Option<Told> {
        self.then_await(task, now, |shared| {
            shared.mark(What::Acts { task });
            shared.take_shared_step(task, step)
        })
    }

    /// Tries to take the mutex for which `task` was woken. Returns a future to await, if the task has to wait again.
    pub(crate) fn try_again(
        self: &Arc<World>,
        task: TaskId,
        mutex: ObjectId,
        now: Time,
    ) -> Option<Told> {
        self.then_await(task, now, |shared| shared.try_again(task, mutex))
    }

    /// Does something for `task` that concerns others, after which the task may have to wait.
    fn then_await(
        self: &Arc<World>,
        task: TaskId,
        now: Time,
        does: impl FnOnce(&mut SharedState) -> Option<Awaited>,
    ) -> Option<Told> {
        self.with_shared(|shared| {
            shared.now = now;
            shared.latest = shared.latest.max(now);
            let awaited = does(shared)?;
            shared.mark(waits(task));
            Some(self.told(shared, task, awaited))
        })
    }

    fn told(self: &Arc<World>, shared: &mut SharedState, task: TaskId, awaited: Awaited) -> Told {
        shared.tasks[task.index()].state = State::Waiting(awaited, None);
        shared.waiting += 1;
        Told { world: self.clone(), task }
    }

    /// The host's own mutexes, if this is one of them.
    pub(crate) fn own_mutexes(&self, mutex: ObjectId) -> Option<&dyn Mutexes> {
        let kind = self.scenario.objects.mutexes[mutex.0 as usize].1;
        self.mutexes.as_deref().filter(|mutexes| mutexes.has(kind))
    }

    /// Sleeps as `sleep` does. In a run that may be stopped, the sleep ends with the run.
    pub(crate) async fn sleep_while_on(
        &self,
        task: TaskId,
        sleep: impl Future<Output = ()> + Send,
    ) {
        let mut sleep = pin!(sleep);
        poll_fn(|cx| {
            if sleep.as_mut().poll(cx).is_ready() || self.over.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            self.with_shared(|shared| {
                shared.tasks[task.index()].sleeper = Some(cx.waker().clone());
                match self.over.load(Ordering::Acquire) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
        })
        .await;
    }

    /// Gives back the mutexes of a task that leaves a finished run.
    pub(crate) fn leave_mutexes(&self, seat: &Seat) {
        self.mutexes.iter().for_each(|mutexes| mutexes.leave(seat));
    }

    /// Notes that a task wants a mutex of the host's, as its seat says. It may be the last task that could have gone
    /// on.
    pub(crate) fn wants(&self, now: Time) {
        if self.end() == Time::MAX {
            self.wanting.fetch_add(1, Ordering::SeqCst);
            self.look_around(now);
        }
    }

    /// Checks again whether any task can go on, after a task has changed its seat.
    pub(crate) fn look_around(&self, now: Time) {
        self.with_shared(|shared| shared.latest = shared.latest.max(now));
    }

    /// Notes that a task wants no mutex any longer.
    pub(crate) fn wanted(&self) {
        if self.end() == Time::MAX {
            self.wanting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether no task can go on: each waits for another.
    fn all_wait(&self, shared: &SharedState) -> bool {
        let wanting = self.wanting.load(Ordering::SeqCst);
        if self.end() < Time::MAX || shared.alive > shared.waiting + wanting {
            return false;
        }
        let Some(mutexes) = &self.mutexes else { return true };
        // A task whose request changed between two readings went on meanwhile.
        let waiting = |task: &&Known| !task.ended && !matches!(task.state, State::Waiting(..));
        let seats = || shared.tasks.iter().filter(waiting).map(|task| task.seat.as_deref());
        let wanted = || seats().map(|seat| seat?.wanted()).collect::<Vec<_>>();
        let first = wanted();
        let stuck = seats().zip(&first).all(|(seat, wanted)| match (seat, wanted) {
            (Some(seat), Some(it)) => it.in_vain || !mutexes.is_free_for(seat, it.mutex),
            _ => false,
        });
        stuck && first == wanted()
    }

    /// Changes the beginning of the current period of a shared timer.
    pub(crate) fn with_period<T>(
        &self,
        timer: ObjectId,
        change: impl FnOnce(&mut Option<Time>) -> T,
    ) -> T {
        self.with_shared(|shared| change(shared.objects.period_mut(timer)))
    }

    pub(crate) fn set_prio(&self, task: TaskId, prio: Option<RtPrio>) {
        self.with_shared(|shared| shared.tasks[task.index()].prio = prio);
    }

    /// Notes that a task left requests out, in thousandths.
    pub(crate) fn omit(&self, task: TaskId, omitted: u64) {
        self.with_shared(|shared| shared.tasks[task.index()].omitted += omitted);
    }

    /// Adds a forked task. It begins at once, or after its delay from the start of the run. Its parent runs the program
    /// of `parent`, and last asked for `asked`.
    pub(crate) fn fork(
        &self,
        id: SpecId,
        (parent, asked): (SpecId, &TaskAttr),
        now: Time,
    ) -> Result<NewTask, String> {
        self.with_shared(|shared| {
            if shared.tasks.len() >= MAX_TASKS {
                return Err(format!("{MAX_TASKS} tasks exist, and one more is forked"));
            }
            let nth = shared.forks[id.0 as usize];
            shared.forks[id.0 as usize] += 1;
            let name = format!("{}-{nth:04}", self.spec(id).name);
            let attr = self.spec(id).forked_attr(&self.cpusets, self.spec(parent), asked);
            Ok(self.create(shared, (id, name, attr), (Stream::Fork(id, nth), now)))
        })
    }

    fn create(
        &self,
        shared: &mut SharedState,
        (id, name, attr): (SpecId, String, TaskAttr),
        (draws, now): (Stream, Time),
    ) -> NewTask {
        let task = TaskId(shared.tasks.len() as u64);
        let spec = self.spec(id);
        let mut draws = stream(self.seed, draws);
        let timer_zero = Time::ZERO + spec.delay.sample(&mut draws);
        let reservation = spec.first_reservation();
        let seat = self.mutexes.as_ref().map(|_| Arc::new(Seat::new(task)));
        shared.tasks.push(Known {
            name: name.clone(),
            thread: spec.name.clone(),
            policy: attr.policy,
            group: attr.group,
            latency_nice: attr.latency_nice,
            cookie: self.scenario.cookie_of(attr.cookie, attr.group),
            slack: attr.effective_slack(),
            is_deadline: reservation.is_some(),
            life: (now, Time::MAX),
            ended: false,
            prio: attr.policy.class().lent_prio(),
            state: State::Awake,
            omitted: 0,
            seat: seat.clone(),
            sleeper: None,
        });
        shared.alive += 1;
        let begin = timer_zero.max(now);
        let asked = Asked { attr, reservation };
        NewTask { task, spec: id, name, asked, seat, begin, timer_zero, draws, by: None }
    }

    /// Notes that a task is over: its program `ended`, or the run did before. `rows` are its finished rounds.
    pub(crate) fn leave(&self, task: TaskId, now: Time, ended: bool, rows: Vec<Row>) {
        self.with_shared(|shared| {
            shared.alive -= 1;
            shared.logs.push(rows);
            if ended {
                let known = &mut shared.tasks[task.index()];
                (known.life.1, known.ended) = (now, true);
                shared.latest = shared.latest.max(now);
            }
        });
    }

    /// Notes that a task could not be started.
    pub(crate) fn unborn(&self, task: TaskId) {
        self.leave(task, Time::ZERO, false, Vec::new());
    }

    /// Notes that the host met a refusal, which ends the run.
    pub(crate) fn refuse(&self, why: String) {
        self.with_shared(|shared| _ = shared.refused.get_or_insert(why));
        self.finish();
    }

    /// The refusal that the host met, if any.
    pub(crate) fn refused(&self) -> Option<String> {
        self.with_shared(|shared| shared.refused.clone())
    }

    /// The end of the run: the planned end, the time at which it was stopped, or the time from which no task could go
    /// on.
    pub(crate) fn ended(&self) -> Time {
        if let Some(&stopped) = self.stopped.get() {
            return stopped;
        }
        self.with_shared(|shared| if self.end() < Time::MAX { self.end() } else { shared.latest })
    }

    /// Whether the run has been stopped before its end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// The longest time that a task may sleep before it checks whether the run goes on; `None` if only the planned end
    /// ends the run.
    pub(crate) fn nap(&self) -> Option<Nanos> {
        self.stop.as_ref().map(|_| NAP)
    }

    /// The facts about all tasks so far.
    pub(crate) fn known(&self) -> Vec<Known> {
        self.with_shared(|shared| shared.tasks.clone())
    }

    /// The work that a finished run left undone.
    pub(crate) fn left(&self) -> Undone {
        self.with_shared(|shared| {
            let tasks: Vec<_> = shared.tasks.iter().map(Known::left).collect();
            let owner = |mutex| match self.own_mutexes(mutex) {
                Some(mutexes) => mutexes.owner(mutex),
                None => shared.objects.owner(mutex),
            };
            objects::left(&self.scenario, &tasks, &shared.objects, owner)
        })
    }

    /// Takes the logs of a finished run, one task after the other.
    pub(crate) fn take_rows(&self) -> Vec<Row> {
        let logs = self.with_shared(|shared| std::mem::take(&mut shared.logs));
        logs.into_iter().flatten().collect()
    }

    /// Keeps the marks of a task that is over.
    pub(crate) fn keep(&self, marks: Vec<Event>) {
        self.with_shared(|shared| _ = shared.marks.as_mut().map(|all| all.keep(marks)));
    }

    /// The reports of the chains of a finished run.
    pub(crate) fn chains(&self) -> Vec<ChainReport> {
        let end = self.ended();
        self.with_shared(|shared| {
            let Some(marks) = &shared.marks else { return Vec::new() };
            let tasks = shared.tasks.iter().map(|task| (task.name.as_str(), task.thread.as_str()));
            marks.reports(&self.scenario, &tasks.collect::<Vec<_>>(), end)
        })
    }

    /// Waits for the end of the run, and then makes every task stop.
    pub(crate) fn wait(&self, now: impl Fn() -> Time) {
        let mut shared = lock(&self.shared);
        while !self.is_over(now()) && (shared.alive > 0 || self.end() < Time::MAX) {
            let left = Duration::from_nanos(self.end().since(now().min(self.end())).0);
            let look = self.stop.as_ref().map_or(Duration::MAX, |_| Duration::from_nanos(NAP.0));
            shared = match left.min(look) {
                _ if self.stop.is_none() && self.end() == Time::MAX => self.ended.wait(shared),
                left => self.ended.wait_for(shared, left),
            };
        }
        drop(shared);
        if self.is_stopped() {
            self.stopped.get_or_init(|| now().min(self.end()));
        }
        self.finish();
    }

    /// Ends the run for all tasks that still wait.
    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Release);
        self.with_shared(|shared| {
            for task in &mut shared.tasks {
                if let State::Waiting(_, waker) = &mut task.state {
                    shared.wakers.extend(waker.take());
                }
                shared.wakers.extend(task.sleeper.take());
            }
        });
        self.mutexes.iter().for_each(|mutexes| mutexes.end());
        self.ended.tell_all();
    }

    /// Accesses the shared state. There is no other access to it.
    fn with_shared<T>(&self, access: impl FnOnce(&mut SharedState) -> T) -> T {
        let mut access = Some(access);
        let mut result = None;
        self.section.run(&mut || {
            let Some(access) = access.take() else { return };
            let mut shared = lock(&self.shared);
            let value = access(&mut shared);
            let stuck = self.all_wait(&shared);
            result = Some((value, stuck, std::mem::take(&mut shared.wakers)));
        });
        let (value, stuck, wakers) = result.expect("a section runs what it is given");
        if !wakers.is_empty() {
            self.section.wake(wakers);
        }
        if stuck && !self.over.load(Ordering::Acquire) {
            self.finish();
        }
        value
    }
}

impl SharedState {
    /// Marks an event of the step for which the state is locked. No mark is earlier than the one before it.
    fn mark(&mut self, what: What) {
        if let Some(marks) = &mut self.marks {
            marks.add(self.latest, what);
        }
    }

    fn wake_with(&mut self, by: TaskId, woken: TaskId, to_try: Option<ObjectId>) {
        self.mark(What::Wake { task: woken, since: self.now, by: Some(by) });
        let state = &mut self.tasks[woken.index()].state;
        let woken = State::Woken(Woken { since: self.now, to_try });
        let State::Waiting(_, waker) = std::mem::replace(state, woken) else {
            unreachable!("who is to be woken waits");
        };
        self.wakers.extend(waker);
        self.waiting -= 1;
    }
}

impl Sharing for SharedState {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn objects_mut(&mut self) -> &mut Objects {
        &mut self.objects
    }

    fn rt_prio(&self, task: TaskId) -> Option<RtPrio> {
        self.tasks[task.index()].prio
    }

    fn wake(&mut self, waker: TaskId, woken: TaskId) {
        self.wake_with(waker, woken, None);
    }

    fn wake_to_try(&mut self, waker: TaskId, woken: TaskId, mutex: ObjectId) {
        self.wake_with(waker, woken, Some(mutex));
    }
}

/// A future that is ready when another task wakes this one, with the time of that; with `None` if the run is over.
#[derive(Debug)]
pub(crate) struct Told {
    world: Arc<World>,
    task: TaskId,
}

impl Future for Told {
    type Output = Option<Woken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Woken>> {
        self.world.with_shared(|shared| {
            let state = &mut shared.tasks[self.task.index()].state;
            match state {
                State::Woken(woken) => {
                    let woken = *woken;
                    *state = State::Awake;
                    Poll::Ready(Some(woken))
                }
                State::Waiting(..) if self.world.over.load(Ordering::Acquire) => Poll::Ready(None),
                State::Waiting(_, waker) => {
                    *waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                State::Awake => unreachable!("a task that awaits waits"),
            }
        })
    }
}
