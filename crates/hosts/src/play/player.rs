//! The interpreter: a task's program, step by step, to its end or to the end of the run.

use super::marks::{ends, mark, matters, waits};
use super::mutexes::{Seat, Waited};
use super::spin;
use super::stage::Stage;
use super::world::{Asked, NewTask, World};
use crate::clock::cpu_time;
use crate::sync::Arc;
use rand_pcg::Pcg64Mcg;
use runyard_engine::attr::GroupId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::Histogram;
use runyard_workload::cursor::{Cursor, Next, Period};
use runyard_workload::draw::Draw;
use runyard_workload::log::{Log, Row};
use runyard_workload::scenario::{ObjectId, Phase, SpecId, Step, TaskSpec, TimerRef};

/// The counts that a task keeps of itself.
#[derive(Debug, Default)]
pub(crate) struct TaskStats {
    /// The latencies of its wake-ups. Its start counts as a wake-up.
    pub(crate) latency: Histogram,
    /// The number of timers that it armed, and of those that expired.
    pub(crate) timers: (u64, u64),
    /// The number of times that it reached its timer after the next period had begun.
    pub(crate) missed: u64,
    /// The number of its yields.
    pub(crate) yields: u64,
    /// CPU time that its `run`, `memory` and `kernel` steps used, by its thread's clock.
    pub(crate) worked: Nanos,
    /// Its thread's CPU time when it began.
    pub(crate) cpu_at_start: Nanos,
    /// The task groups that it moved to, with its thread's CPU time at each move.
    pub(crate) moves: Vec<(GroupId, Nanos)>,
}

/// Runs the program of one task to its end, or to the end of the run.
pub(crate) async fn play<S: Stage>(stage: S, world: Arc<World>, new: NewTask) -> TaskStats {
    let task = new.task;
    let mut player = Player::new(stage, world, new);
    let ended = player.begin().await && player.run().await;
    player.leave_mutexes();
    player.leave_marks(ended);
    let rows = std::mem::take(&mut player.rows);
    player.world.leave(task, player.stage.now(), ended, rows);
    player.stats
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    /// The program or the run is over.
    Stop,
}

struct Player<S> {
    stage: S,
    world: Arc<World>,
    task: TaskId,
    spec: SpecId,
    begin: Time,
    by: Option<TaskId>,
    timer_zero: Time,
    /// The next expiry of each of its own periodic timers.
    timers: Vec<Option<Time>>,
    asked: Asked,
    draws: Pcg64Mcg,
    /// The seat in which it stores the mutex that it wants, and the number of its requests so far.
    seat: Option<Arc<Seat>>,
    wishes: u32,
    /// Its log, if one is asked for, with the finished rounds.
    log: Option<Log>,
    rows: Vec<Row>,
    /// Its own marks, if it matters to chains.
    marks: Option<Vec<Event>>,
    stats: TaskStats,
}

impl<S: Stage> Player<S> {
    fn new(stage: S, world: Arc<World>, new: NewTask) -> Player<S> {
        let NewTask { task, spec, begin, timer_zero, asked, draws, seat, by, .. } = new;
        let (timers, rows, stats) = (Vec::new(), Vec::new(), TaskStats::default());
        let log = world.log.then(|| Log::new(task, &world.scenario));
        let marks = matters(&world.scenario, spec).then(Vec::new);
        Player {
            stage,
            world,
            task,
            spec,
            begin,
            by,
            timer_zero,
            timers,
            asked,
            draws,
            seat,
            wishes: 0,
            log,
            rows,
            marks,
            stats,
        }
    }

    /// Waits for the task's start; `false` if the run ends before.
    async fn begin(&mut self) -> bool {
        let begin = self.begin.min(self.world.end());
        self.sleep(begin).await;
        self.stats.cpu_at_start = cpu_time();
        let starts = self.begin < self.world.end();
        if starts {
            self.mark(self.begin, What::Wake { task: self.task, since: self.begin, by: self.by });
            self.went_on(self.begin);
        }
        starts && !self.is_over()
    }

    /// Runs the program. Returns whether it came to its end.
    async fn run(&mut self) -> bool {
        let world = self.world.clone();
        let spec = world.spec(self.spec);
        let mut cursor = Cursor::default();
        while !self.is_over() {
            let next = cursor.go_on(spec);
            if let Some(log) = &mut self.log {
                let ended = log.comes_to(&next, cursor.place(), self.stage.now());
                self.rows.extend(ended);
            }
            let then = match next {
                Next::Phase(phase) => self.begin_phase(spec, phase),
                Next::Step(step) => {
                    if let Some(watch) = world.watch() {
                        watch.step(self.task, cursor.place().step - 1, self.stage.now());
                    }
                    let (phase, nth) =
                        (cursor.place().phase as u32, cursor.place().step as u32 - 1);
                    self.mark_now(What::Step { task: self.task, phase, step: nth });
                    self.take_step(step).await
                }
                Next::End => Then::Stop,
            };
            if then == Then::Stop {
                return true;
            }
        }
        false
    }

    /// Applies the attributes of a phase that differ from those before.
    fn begin_phase(&mut self, spec: &TaskSpec, phase: &Phase) -> Then {
        let Asked { attr, reservation } = &self.asked;
        let new = Asked {
            attr: spec.attr_in(phase, attr, None, self.world.cpusets()),
            reservation: TaskSpec::reservation_in(phase, *reservation),
        };
        if new == self.asked {
            return Then::GoOn;
        }
        self.world.set_prio(self.task, new.attr.policy.class().lent_prio());
        let applied = self.stage.apply(&new, &self.asked);
        if new.attr.group != attr.group {
            self.stats.moves.push((new.attr.group, cpu_time()));
        }
        self.asked = new;
        self.unless_refused(applied)
    }

    async fn take_step(&mut self, step: Step) -> Then {
        match step {
            Step::Run(draw) => {
                let span = self.run_of(draw);
                self.work(span);
            }
            Step::Runtime(draw) => {
                let until = self.stage.now() + self.run_of(draw);
                spin::until(&self.stage, &self.world, until);
            }
            Step::Memory(span) => self.work(span),
            Step::Kernel(draw) => {
                let span = draw.sample(&mut self.draws);
                match self.stage.work_in_kernel(span) {
                    Some(worked) => self.stats.worked += worked,
                    None => self.work(span),
                }
            }
            Step::Sleep(draw) => {
                let at = self.stage.now() + draw.sample(&mut self.draws);
                self.sleep_until(at).await;
            }
            Step::Timer { timer, period, mode } => {
                let (span, now) = (period.sample(&mut self.draws), self.stage.now());
                let zero = self.timer_zero;
                let next = self.with_period(timer, |last| {
                    let next = Period::after(last.unwrap_or(zero), span, mode, now);
                    *last = Some(next.kept);
                    next
                });
                if let Some(log) = &mut self.log {
                    log.timer(span, next);
                }
                self.stats.missed += u64::from(next.missed);
                if next.missed {
                    self.mark_now(What::Late { task: self.task, since: next.due });
                }
                // On real CPUs many a periodic task is late for the machine's reasons.
                if next.omitted > 0 && self.world.scenario.is_client(self.spec) {
                    self.world.omit(self.task, next.omitted);
                }
                if !next.missed {
                    self.sleep_until(next.due).await;
                }
            }
            Step::Yield => {
                self.stats.yields += 1;
                self.stage.yield_now().await;
            }
            Step::Exit => return Then::Stop,
            Step::Fork(spec) => {
                let now = self.stage.now();
                let forked = self.world.fork(spec, (self.spec, &self.asked.attr), now);
                let started = forked.and_then(|new| {
                    let (task, by) = (new.task, (new.begin <= now).then_some(self.task));
                    self.stage.start(NewTask { by, ..new }).inspect_err(|_| self.world.unborn(task))
                });
                return self.unless_refused(started);
            }
            Step::Lock(mutex) if self.is_hosts(mutex) => self.lock(mutex),
            Step::Unlock(mutex) if self.is_hosts(mutex) => self.unlock(mutex),
            shared => self.share(&shared).await,
        }
        Then::GoOn
    }

    /// Takes a step that concerns other tasks, to its end.
    async fn share(&mut self, step: &Step) {
        let mut waits = self.world.take_shared_step(self.task, step, self.stage.now());
        let mutex = match *step {
            Step::Wait { mutex, .. } | Step::Sync { mutex, .. } if self.is_hosts(mutex) => {
                Some(mutex)
            }
            _ => None,
        };
        // A signal from now on finds the task waiting.
        if let Some(mutex) = mutex {
            self.unlock(mutex);
        }
        while let Some(told) = waits {
            let Some(woken) = told.await else { return };
            self.went_on(woken.since);
            waits = match woken.to_try {
                Some(mutex) => self.world.try_again(self.task, mutex, self.stage.now()),
                None => None,
            };
        }
        if let Some(mutex) = mutex {
            self.lock(mutex);
        }
    }

    /// Whether a mutex belongs to the host.
    fn is_hosts(&self, mutex: ObjectId) -> bool {
        self.world.own_mutexes(mutex).is_some()
    }

    /// Takes a mutex of the host's. If the run is over, the task goes on without it.
    fn lock(&mut self, mutex: ObjectId) {
        let mutexes = self.world.own_mutexes(mutex).zip(self.seat.as_deref());
        if mutexes.is_some_and(|(mutexes, seat)| !mutexes.try_lock(seat, mutex)) {
            self.wait_for(mutex);
        }
    }

    /// Waits for a mutex of the host's.
    fn wait_for(&mut self, mutex: ObjectId) {
        let (world, stage) = (self.world.clone(), self.stage.clone());
        let (Some(mutexes), Some(seat)) = (world.own_mutexes(mutex), self.seat.clone()) else {
            return;
        };
        let now = move || stage.now();
        loop {
            self.wishes += 1;
            seat.want(mutex, false, self.wishes);
            world.wants(now());
            let waited = mutexes.wait(&seat, mutex, &now);
            match waited {
                Waited::Has(since) => {
                    seat.want_none();
                    world.wanted();
                    return since.into_iter().for_each(|since| self.went_on(since));
                }
                Waited::Woken(since) => {
                    world.wanted();
                    self.went_on(since);
                }
                Waited::InVain => {
                    seat.want(mutex, true, self.wishes);
                    world.look_around(now());
                    return mutexes.wait_for_end();
                }
                Waited::Over => return,
            }
        }
    }

    /// Gives a mutex of the host's back.
    fn unlock(&self, mutex: ObjectId) {
        if let (Some(mutexes), Some(seat)) = (self.world.own_mutexes(mutex), &self.seat) {
            mutexes.unlock(seat, mutex, &|| self.stage.now());
        }
    }

    /// Releases the tasks that wait for mutexes of a task that leaves a finished run.
    fn leave_mutexes(&self) {
        if let Some(seat) = &self.seat
            && self.is_over()
        {
            self.world.leave_mutexes(seat);
        }
    }

    /// Marks an event of the task.
    fn mark(&mut self, at: Time, what: What) {
        self.marks.iter_mut().for_each(|marks| marks.push(mark(at, what)));
    }

    /// Marks an event of the task, now.
    fn mark_now(&mut self, what: What) {
        if self.marks.is_some() {
            self.mark(self.stage.now(), what);
        }
    }

    /// Gives the world the task's marks. `ended` is whether its program came to its end.
    fn leave_marks(&mut self, ended: bool) {
        if ended {
            self.mark_now(ends(self.task));
        }
        if let Some(marks) = self.marks.take() {
            self.world.keep(marks);
        }
    }

    fn work(&mut self, span: Nanos) {
        self.stats.worked += spin::work(&self.stage, &self.world, span);
    }

    /// The length of a `run` or `runtime` step that begins now.
    fn run_of(&mut self, draw: Draw) -> Nanos {
        let span = draw.sample(&mut self.draws);
        if let Some(log) = &mut self.log {
            log.run(span);
        }
        span
    }

    async fn sleep_until(&mut self, at: Time) {
        self.stats.timers.0 += 1;
        self.mark_now(waits(self.task));
        self.sleep(at.min(self.world.end())).await;
        if at < self.world.end() && at <= self.stage.now() {
            self.stats.timers.1 += 1;
            self.mark_now(What::Wake { task: self.task, since: at, by: None });
            self.went_on(at);
        }
    }

    /// A long sleep ends early if the run is stopped. A short sleep does nothing for this.
    async fn sleep(&self, at: Time) {
        let sleep = self.stage.sleep_until(at, self.slack());
        match self.world.nap().filter(|&nap| at.since(self.stage.now()) > nap) {
            Some(_) => self.world.sleep_while_on(self.task, sleep).await,
            None => sleep.await,
        }
    }

    /// Changes the beginning of a timer's current period.
    fn with_period<T>(
        &mut self,
        timer: TimerRef,
        change: impl FnOnce(&mut Option<Time>) -> T,
    ) -> T {
        match timer {
            TimerRef::Shared(id) => self.world.with_period(id, change),
            TimerRef::Unique(nth) => {
                let nth = nth as usize;
                self.timers.resize(self.timers.len().max(nth + 1), None);
                change(&mut self.timers[nth])
            }
        }
    }

    fn unless_refused(&self, what: Result<(), String>) -> Then {
        match what {
            Ok(()) => Then::GoOn,
            Err(why) => {
                self.world.refuse(why);
                Then::Stop
            }
        }
    }

    /// Notes that the task executes again; it could have done so since `since`.
    fn went_on(&mut self, since: Time) {
        let late = self.stage.now().since(since.min(self.stage.now()));
        self.stats.latency.record(late);
    }

    fn slack(&self) -> Nanos {
        self.asked.attr.effective_slack()
    }

    fn is_over(&self) -> bool {
        self.world.is_over(self.stage.now())
    }
}
