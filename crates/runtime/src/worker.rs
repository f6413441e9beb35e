//! Kernel threads that run tasks: the scheduling loop. What the doorbell does to it: [`stop`].
//!
//! A worker owns a slot while it runs tasks ([`crate::handoff`]). Foreign code runs with
//! `preempt_count` at zero and may be stopped at any instruction; the runtime's own code runs with it
//! above zero and is never stopped, only told (H3). A task that was stopped keeps its thread: its job is now
//! to resume that worker, and it is scheduled like any other.

mod stop;

use crate::handoff::{Baton, Left, Ring, WorkerId};
use crate::os;
use crate::os::thread::Tid;
use crate::os::timer::{Clock, Timer};
use crate::primitives::{
    Arc, AtomicBool, AtomicI32, AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, compiler_fence,
    lock,
};
use crate::shared::{KickNow, Shared};
use crate::task::{Cell, Job, Todo};
use async_task::Runnable;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::{Expired, Prev, Released, Switch};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_smp::machine::TaskOf;

/// How long an idle worker looks before it sleeps. An idle virtual CPU takes 17-30 us to wake, a
/// looking one next to nothing; this is what a wake-up costs, so looking costs at most twice the
/// best that could have been done.
const SPIN: Nanos = Nanos::from_micros(20);

/// How often it looks between two reads of the clock: some 0.3 us.
const SPINS_PER_READ: u32 = 16;

/// How long a task that was woken or spawned by one in a poll waits for that poll to end, while
/// another CPU is idle or it should preempt: long beside most polls and what a signal costs (5 us,
/// at most once in so long), short beside what people notice.
const POLL_GRACE: Nanos = Nanos::from_micros(200);

/// As a moment that is over, a timer that is not set is due to be.
const UNSET: u64 = 0;

/// Why a worker is there.
const ALIVE: &str = "its thread lives until the runtime ends";

/// What a poll left to be looked at soon.
mod later {
    pub(super) const NOTHING: u32 = 0;
    /// Somebody waits on this CPU, and might run on another.
    pub(super) const WAITER: u32 = 1;
    /// Somebody waits who should preempt.
    pub(super) const KICK: u32 = 2;
}

/// The engine's part of a task that blocks in the kernel.
#[derive(Debug, Default)]
struct InKernel {
    task: Option<TaskOf<Job>>,
    /// Its thread has come back before that was here, and waits to be woken.
    is_back: bool,
}

/// One kernel thread.
///
/// Legend of access: `(c)` constant; `(o)` read and written by this thread only, in its handler too;
/// `(w)` written by this thread, read by others; `(a)` by anybody, as told there.
#[derive(Debug)]
pub(crate) struct Worker {
    /// (c)
    pub(crate) id: WorkerId,
    /// (c)
    pub(crate) shared: Arc<Shared>,
    /// (a) Granted by who gives it a slot, or lets it go.
    pub(crate) baton: Baton,
    /// (w) Once.
    tid: AtomicI32,
    /// (w) Once, when it can run tasks: 1.
    is_ready: AtomicU32,
    /// (a) The slot that it owns, or owned last: written by who gives it one.
    slot: AtomicU32,
    /// (o) Above zero: not to be stopped.
    preempt_count: AtomicU32,
    /// (o) How often it was let go on at an unsafe point.
    graces: AtomicU32,
    /// (o) What CPU time it had used the last time.
    used: AtomicU64,
    /// (a) Since when it is stopped in the middle of foreign code, on the monotonic clock; 0 if it is not.
    /// Taken by who lets it go.
    pub(crate) stopped: AtomicU64,
    /// (a) How much CPU time it may use without a slot: said by who lets it go.
    pub(crate) grace: AtomicU64,
    /// (o) Up to which of its CPU time it goes on without a slot.
    goes_on_until: AtomicU64,
    /// (w) Whose poll it is in the middle of: the task's place among the live ones.
    polling: AtomicU64,
    /// (a) Whether it has the engine's part of that: it is neither stopped nor has lost its slot.
    /// Written by who owns the slot.
    running: AtomicBool,
    /// (a) The engine's part of a task that blocks in the kernel on this thread: left by who took
    /// the slot, taken by this thread or the keeper.
    in_kernel: Mutex<InKernel>,
    /// (w) It wants a slot again, and cannot ask for one itself: the keeper does.
    wants_slot: AtomicBool,
    /// (c)
    timer: OnceLock<Option<Timer>>,
    /// (c) Set by who took the slot as well.
    cpu_timer: OnceLock<Option<Timer>>,
    /// (o) To when `timer` is set, or was.
    armed: AtomicU64,
    /// (o) Whether it is in a poll.
    in_poll: AtomicBool,
    /// (o) Whether it serves timers, and schedules next.
    serves: AtomicBool,
    /// (o) What that poll left to be looked at soon.
    later: AtomicU32,
    /// (o) Since when those could run whom this worker is waking; 0 for now.
    since: AtomicU64,
    /// (o) How many mutexes this poll took, less those that it gave back.
    guards: AtomicI32,
    /// (o) Whether it is in a blocking section, deaf to our signal.
    deaf: AtomicBool,
}

impl Worker {
    pub(crate) fn new(shared: &Arc<Shared>, id: WorkerId, slot: CpuId) -> Arc<Worker> {
        Arc::new(Worker {
            id,
            shared: shared.clone(),
            baton: Baton::new(),
            tid: AtomicI32::new(0),
            is_ready: AtomicU32::new(0),
            slot: AtomicU32::new(slot.0.into()),
            preempt_count: AtomicU32::new(1),
            graces: AtomicU32::new(0),
            used: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            grace: AtomicU64::new(0),
            goes_on_until: AtomicU64::new(0),
            polling: AtomicU64::new(u64::MAX),
            running: AtomicBool::new(false),
            in_kernel: Mutex::default(),
            wants_slot: AtomicBool::new(false),
            timer: OnceLock::new(),
            cpu_timer: OnceLock::new(),
            armed: AtomicU64::new(UNSET),
            in_poll: AtomicBool::new(false),
            serves: AtomicBool::new(false),
            later: AtomicU32::new(later::NOTHING),
            since: AtomicU64::new(0),
            guards: AtomicI32::new(0),
            deaf: AtomicBool::new(false),
        })
    }

    pub(crate) fn tid(&self) -> Tid {
        Tid(self.tid.load(Ordering::Acquire))
    }

    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.slot.load(Ordering::Acquire) as u16)
    }

    /// Whether this worker owns its slot.
    pub(crate) fn owns(&self) -> bool {
        self.shared.slot(self.cpu()).belongs_to(self.id)
    }

    /// The thread: waits as a spare, runs tasks while it owns a slot, and so on until shutdown.
    /// The first worker of a slot owns it from the start.
    pub(crate) fn live(self: &Arc<Worker>, owns: bool) {
        self.settle_in();
        os::local::with_worker(self, || {
            self.is_ready.store(1, Ordering::SeqCst);
            os::futex::wake(&self.is_ready);
            if owns {
                self.run(Prev::Idle, None);
            }
            loop {
                self.wait_to_own();
                if self.shared.is_over() {
                    return;
                }
                let (prev, curr) = self.take_over();
                self.run(prev, curr);
            }
        });
    }

    fn settle_in(&self) {
        let tid = os::thread::current();
        self.tid.store(tid.0, Ordering::Release);
        os::thread::be_exact();
        self.shared.pin(self, self.cpu());
        os::signal::listen_only_to(self.shared.signal);
        let timer = |clock| {
            self.shared.preempts.then(|| Timer::new(clock, tid, self.shared.signal)).flatten()
        };
        let _ = self.timer.set(timer(Clock::Monotonic));
        let _ = self.cpu_timer.set(timer(Clock::OwnCpuTime));
    }

    /// Waits until the thread of this worker is there: before that it cannot be seen to wait.
    pub(crate) fn wait_until_ready(&self) {
        while self.is_ready.load(Ordering::SeqCst) == 0 {
            os::futex::wait(&self.is_ready, 0, None);
        }
    }

    /// Binds this worker, which waits for it, to another slot.
    pub(crate) fn move_to(&self, cpu: CpuId) {
        if self.cpu() != cpu {
            self.shared.pin(self, cpu);
            self.slot.store(cpu.0.into(), Ordering::Release);
        }
    }

    /// A spare was granted the slot: what became of whom it belonged to.
    fn take_over(&self) -> (Prev<Job>, Option<TaskId>) {
        let (shared, cpu) = (&self.shared, self.cpu());
        let left = loop {
            // Said after the slot changed hands, before the baton is granted; this worker may have
            // been awake already.
            match shared.slot(cpu).left_by() {
                Some(left) => break left,
                None => std::thread::yield_now(),
            }
        };
        match left {
            Left::Preempted(worker) => {
                let job = shared.worker(worker).expect(ALIVE).put_away();
                let curr = job.cell.id;
                (Prev::Preempted(job), Some(curr))
            }
            Left::Lost(worker) => {
                let worker = shared.worker(worker).expect(ALIVE);
                let job = worker.put_away();
                let curr = Some(job.cell.id);
                let Switch { next, released } =
                    self.decide(os::thread::now(), Prev::Blocked(job), curr);
                let (task, _) = released.expect("a blocked task is released");
                worker.leave_in_kernel(task);
                match next {
                    Some((id, job)) => (Prev::Preempted(job), Some(id)),
                    None => (Prev::Idle, None),
                }
            }
        }
    }

    /// Runs tasks until the slot goes to somebody else. `curr` is whom `prev` is about.
    fn run(&self, mut prev: Prev<Job>, mut curr: Option<TaskId>) {
        self.shared.slot(self.cpu()).take_pending();
        let (mut over, mut idled) = (None, false);
        loop {
            if self.shared.is_over() {
                return;
            }
            let cpu = self.cpu();
            self.shared.tell(cpu, || What::Overhead);
            let now = os::thread::now();
            self.expire(cpu, now, std::mem::take(&mut idled));
            let Switch { next, released } = self.decide(now, prev, curr);
            match released {
                Some((task, Released::Exited)) => {
                    let cell = over.take().expect("its poll has just ended");
                    self.shared.ended(task, cell);
                }
                Some((task, _)) => self.shared.park_blocked(task),
                None => {}
            }
            let Some((id, Job { cell, todo })) = next else {
                idled = self.idle(cpu);
                (prev, curr) = (Prev::Idle, None);
                continue;
            };
            curr = Some(id);
            self.shared.tell(cpu, || What::Exec { task: id, policy: lock(&cell.asked).policy });
            match todo {
                Todo::Poll(runnable) => (prev, over) = self.poll(now, cell, runnable),
                Todo::Resume(worker) => return self.resume(&worker),
                Todo::Nothing => unreachable!("a task that is picked has something to do"),
            }
        }
    }

    /// Schedules the own CPU. `curr` is the task that `prev` is about.
    fn decide(&self, now: Time, prev: Prev<Job>, curr: Option<TaskId>) -> Switch<Job> {
        let cpu = self.cpu();
        let left = curr.zip(prev.left());
        let switch = self.shared.machine.schedule(now, cpu, prev, &mut KickNow(&self.shared));
        let next_job = switch.next.iter();
        next_job.for_each(|(_, job)| self.shared.tell_of_quiet_wake(cpu, &job.cell));
        let next = switch.next.as_ref().map(|&(id, _)| id);
        self.shared.tell(cpu, || What::Switch { prev: left, next });
        self.shared.tell_throttling(cpu);
        switch
    }

    /// Polls a task, and tells what became of it; its cell, if it is over. When this returns the
    /// worker owns a slot again, though not always the one it owned before.
    fn poll(
        &self,
        now: Time,
        cell: Arc<Cell>,
        runnable: Runnable,
    ) -> (Prev<Job>, Option<Arc<Cell>>) {
        self.graces.store(0, Ordering::Relaxed);
        self.later.store(later::NOTHING, Ordering::Relaxed);
        self.polling.store(cell.place.load(Ordering::Relaxed), Ordering::Relaxed);
        self.running.store(true, Ordering::Release);
        let slot = self.shared.slot(self.cpu());
        let entered = slot.enter(self.id);
        self.arm(now);
        self.set_preempt_count(0);
        // A signal that came while the count was above zero left its mark.
        let left = if entered && !slot.calls(self.id) {
            self.in_poll.store(true, Ordering::Relaxed);
            os::local::with_task(&cell, || runnable.run());
            self.in_poll.store(false, Ordering::Relaxed);
            if cell.is_done() {
                cell.note_over();
            }
            None
        } else {
            Some(runnable)
        };
        self.set_preempt_count(1);
        while self.shared.slot(self.cpu()).leave(self.id).is_none() && !self.shared.is_over() {
            self.come_back();
        }
        self.polling.store(u64::MAX, Ordering::Relaxed);
        let guards = self.guards.load(Ordering::Relaxed);
        if guards != 0 {
            self.guards.store(0, Ordering::Relaxed);
            cell.guards.add(guards);
        }
        if !self.running.load(Ordering::Acquire) {
            assert!(self.shared.is_over(), "it runs whose poll it was");
            return (Prev::Idle, None);
        }
        self.running.store(false, Ordering::Release);
        if left.is_none() && cell.is_done() {
            return (Prev::Exited, Some(cell));
        }
        if let Some(runnable) = left {
            return (Prev::Preempted(Job { cell, todo: Todo::Poll(runnable) }), None);
        }
        let prev = match cell.take_note() {
            Some(runnable) => Prev::Yielded(Job { cell, todo: Todo::Poll(runnable) }),
            None => Prev::Blocked(Job { cell, todo: Todo::Nothing }),
        };
        (prev, None)
    }

    /// The task in whose poll this thread was stopped: its job is to go on here.
    fn put_away(self: &Arc<Worker>) -> Job {
        let ran = self.running.swap(false, Ordering::AcqRel);
        let cell = self.cell_of_poll().filter(|_| ran).expect("it was in the middle of a poll");
        Job { cell, todo: Todo::Resume(self.clone()) }
    }

    /// The cell of the task in whose poll this thread is.
    pub(crate) fn cell_of_poll(&self) -> Option<Arc<Cell>> {
        let place = self.polling.load(Ordering::Relaxed);
        (place < u64::MAX).then(|| self.shared.cell_at(place)).flatten()
    }

    /// The task in whose poll this thread is, by its runtime and its place there.
    pub(crate) fn place_of_poll(&self) -> Option<(u16, u64)> {
        let place = self.polling.load(Ordering::Relaxed);
        (place < u64::MAX).then_some((self.shared.number, place))
    }

    /// Counts mutexes that the task at a place of a runtime takes or gives back, if this thread is in
    /// its poll.
    pub(crate) fn count_guard(&self, of: (u16, u64), more: i32) -> bool {
        let is_in_poll = self.place_of_poll() == Some(of);
        if is_in_poll {
            self.guards.store(self.guards.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
        is_in_poll
    }

    /// The CPU on which this thread is in a poll.
    pub(crate) fn cpu_of_poll(&self) -> Option<CpuId> {
        (self.in_poll.load(Ordering::Relaxed) && self.owns()).then(|| self.cpu())
    }

    /// Looks soon after somebody was queued here, unless the poll ends before.
    pub(crate) fn look_soon(&self, now: Time, kicked: bool) {
        let what = if kicked { later::KICK } else { later::WAITER };
        self.later.fetch_max(what, Ordering::Relaxed);
        let armed = Time(self.armed.load(Ordering::Relaxed));
        if armed <= now || armed > now + POLL_GRACE {
            self.set_timer(now + POLL_GRACE);
        }
    }

    /// The task that wakes whom this thread wakes at the moment; none if a timer does.
    pub(crate) fn waking(&self) -> Option<TaskId> {
        let task = self.waking_since().is_none().then(|| self.cell_of_poll()).flatten();
        task.map(|cell| cell.id)
    }

    /// Runs `wakes` as from outside a poll: whom it wakes does not wait for the end of this one.
    pub(crate) fn wake_at_once<R>(&self, wakes: impl FnOnce() -> R) -> R {
        let in_poll = self.in_poll.swap(false, Ordering::Relaxed);
        let result = wakes();
        self.in_poll.store(in_poll, Ordering::Relaxed);
        result
    }

    /// Since when those could run whom this thread wakes at the moment.
    pub(crate) fn waking_since(&self) -> Option<Time> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then_some(Time(since))
    }

    /// Wakes somebody who could have run since `since`.
    pub(crate) fn wake_since(&self, since: Time, wake: impl FnOnce()) {
        self.since.store(since.0, Ordering::Relaxed);
        wake();
        self.since.store(0, Ordering::Relaxed);
    }

    fn set_preempt_count(&self, count: u32) {
        compiler_fence(Ordering::SeqCst);
        self.preempt_count.store(count, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// The slot was taken or given away while the task blocked in the kernel, and the runtime's code
    /// has the thread again: queues for a slot.
    fn come_back(&self) {
        self.baton.lay_down();
        // Whoever took the slot may not have put the task away yet. It is queued already if this thread was
        // let go.
        let mut in_kernel = lock(&self.in_kernel);
        let task = in_kernel.task.take();
        in_kernel.is_back = task.is_none();
        drop(in_kernel);
        task.into_iter().for_each(|task| self.wake_now(task));
        self.wait_to_own();
        lock(&self.in_kernel).is_back = false;
        self.want_slot(false);
    }

    /// Waits in the runtime's own code, having laid down the baton, until this worker owns a slot or
    /// the runtime ends. The baton alone may be a late one, from when it was to be let go.
    fn wait_to_own(&self) {
        while !self.owns() && !self.shared.is_over() {
            self.baton.wait();
            if !self.owns() {
                self.baton.lay_down();
            }
        }
    }

    /// Runs `section`, which is going to block in the kernel, without the slot, and queues for one
    /// after it. With the slot, if it cannot be given away.
    pub(crate) fn blocking<R>(&self, section: impl FnOnce() -> R) -> R {
        self.set_preempt_count(self.preempt_count.load(Ordering::Relaxed) + 1);
        let alone = self.preempt_count.load(Ordering::Relaxed) == 1;
        let given = alone && self.owns() && self.shared.take_slot(self.cpu(), self.id);
        let is_outermost = !self.deaf.swap(true, Ordering::Relaxed);
        let _end = Blocking { worker: self, given, is_outermost };
        if is_outermost {
            os::signal::listen_to_nothing();
        }
        section()
    }

    /// The slot was taken from this worker, and its task blocks: it is left here until its thread runs
    /// again, or woken if it does already.
    fn leave_in_kernel(&self, task: TaskOf<Job>) {
        let mut in_kernel = lock(&self.in_kernel);
        let runs = in_kernel.is_back || self.wants_slot.load(Ordering::SeqCst);
        if !runs {
            in_kernel.task = Some(task);
            drop(in_kernel);
            return self.stop_when_it_runs();
        }
        drop(in_kernel);
        self.wake_now(task);
    }

    fn wake_now(&self, task: TaskOf<Job>) {
        let now = os::thread::now();
        self.shared.wake(now, task, now);
    }

    /// Asks for a slot in the name of this thread, if it waits for one and cannot ask. Calls nothing foreign.
    pub(crate) fn ask_if_it_wants(&self) {
        // Whoever has not yet put the task away sees then that it is wanted.
        let mut in_kernel = lock(&self.in_kernel);
        let task = in_kernel.task.take_if(|_| self.wants_slot.load(Ordering::SeqCst));
        drop(in_kernel);
        task.into_iter().for_each(|task| self.shared.wake_quietly(os::thread::now(), task));
    }

    /// This thread wants a slot, and somebody has to ask for it; or no more. May be called in a signal
    /// handler.
    fn want_slot(&self, wants: bool) {
        if self.wants_slot.swap(wants, Ordering::SeqCst) != wants {
            self.shared.keeper.count_wanting(wants);
        }
    }

    /// Gives the slot to a parked worker, which goes on with its task, and becomes a spare.
    fn resume(&self, worker: &Worker) {
        let cpu = self.cpu();
        let slot = self.shared.slot(cpu);
        worker.running.store(true, Ordering::Release);
        worker.move_to(cpu);
        self.baton.lay_down();
        self.shared.keep_spare(cpu, self.id);
        slot.resume(self.id, worker.id);
        worker.baton.grant();
        self.arm_for_sleep(self.shared.machine.next_expiry(cpu));
    }

    /// Serves every timer whose window is open, and if there is none waits until there is something to do.
    /// Whether it waited, and was not asked for: it is still idle then.
    fn idle(&self, cpu: CpuId) -> bool {
        if self.expire(cpu, os::thread::now(), true) {
            return false;
        }
        self.shared.tell(cpu, || What::Idle);
        !self.wait(cpu)
    }

    /// Waits until somebody asks for this worker, or a timer is due. Whether somebody did.
    fn wait(&self, cpu: CpuId) -> bool {
        let slot = self.shared.slot(cpu);
        let started = os::thread::now();
        let mut now = started;
        while now.since(started) <= SPIN {
            for _ in 0..SPINS_PER_READ {
                if slot.is_pending() || self.shared.is_over() {
                    slot.take_pending();
                    return true;
                }
                std::hint::spin_loop();
            }
            // Whoever else is on this CPU may be about to give us work.
            std::thread::yield_now();
            now = os::thread::now();
            if self.shared.machine.next_expiry(cpu).is_some_and(|at| at <= now) {
                return false;
            }
        }
        if let Some(bed) = slot.fall_asleep() {
            let until = self.shared.machine.next_expiry(cpu);
            self.arm_for_sleep(until);
            os::futex::wait(&slot.bed, bed, until);
        }
        slot.leave(self.id).is_some_and(|asked| asked)
    }

    /// Serves the timers of `cpu` whose time has come, all in one visit. Of one that is idle these are all
    /// whose windows are open: awake, it serves them for less than an interrupt of their own would cost.
    /// But none of these goes before a task: if somebody asks for the worker, what is left is served
    /// before it waits the next time. Whether there were any.
    fn expire(&self, cpu: CpuId, now: Time, idle: bool) -> bool {
        let shared = &self.shared;
        let Some(next) = shared.machine.next_expiry(cpu) else { return false };
        let due = next <= now;
        let walk = match (idle, due) {
            (false, false) => return false,
            (false, true) => Walk::Busy,
            (true, false) => Walk::BeforeIdle,
            (true, true) => Walk::Idle,
        };
        if due {
            shared.tell(cpu, || What::TimerInterrupt);
        }
        self.serves.store(true, Ordering::Relaxed);
        let mut any = false;
        while let Some(expired) = shared.machine.expire(now, cpu, walk, &mut KickNow(shared)) {
            any = true;
            let Expired::Timer(expiry) = expired else { continue };
            shared.fire(now, cpu, expiry);
            if expiry.greedy && shared.slot(cpu).is_pending() {
                // It schedules next.
                shared.slot(cpu).take_pending();
                break;
            }
        }
        self.serves.store(false, Ordering::Relaxed);
        any
    }

    /// Sets the timer to the next moment at which somebody must look: to the next tick at the
    /// latest, as others who queue a task here while this one runs alone do not tell. May be called
    /// in a signal handler.
    pub(crate) fn arm(&self, now: Time) {
        let machine = &self.shared.machine;
        let due = machine.next_expiry(self.cpu()).unwrap_or(Time::MAX);
        let armed = Time(self.armed.load(Ordering::Relaxed));
        let tick = machine.config().tick;
        // It may have been set to a moment that is far away, and its timer be gone since.
        let late = due < armed || armed <= now || armed > now + tick;
        if late {
            self.set_timer(due.min(now.next_multiple(tick)));
        }
    }

    /// As [`Worker::arm`], in a poll: the timer is set then, or its signal is on its way, so it is to be
    /// looked at only if it is set to later than that.
    pub(crate) fn arm_sooner(&self) {
        let armed = Time(self.armed.load(Ordering::Relaxed));
        if self.shared.machine.next_expiry(self.cpu()).is_some_and(|due| due < armed) {
            self.arm(os::thread::now());
        }
    }

    /// Sets the timer of a worker that has nothing to do until then: to the tick after that, to which
    /// [`Worker::arm`] would set it when it polls whoever is woken. A signal before that would only wake
    /// it, and the call takes longer than all else between a timer and its task, which nobody waits for
    /// now. One who sleeps longer, as a spare may, is woken for nothing, once.
    fn arm_for_sleep(&self, until: Option<Time>) {
        let armed = Time(self.armed.load(Ordering::Relaxed));
        match until.map(|until| until.next_multiple(self.shared.machine.config().tick)) {
            Some(tick) if armed != tick => self.set_timer(tick),
            None if armed > os::thread::now() => {
                self.set_timer(Time::MAX);
                self.armed.store(UNSET, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn set_timer(&self, at: Time) {
        if let Some(Some(timer)) = self.timer.get() {
            self.armed.store(at.0, Ordering::Relaxed);
            timer.set_at(at);
        }
    }
}

/// The end of a section that blocks, also if it panics.
struct Blocking<'a> {
    worker: &'a Worker,
    given: bool,
    /// One in another is as deaf as that, and does not end its deafness.
    is_outermost: bool,
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        let worker = self.worker;
        if self.is_outermost {
            worker.deaf.store(false, Ordering::Relaxed);
            os::signal::listen_only_to(worker.shared.signal);
        }
        if self.given {
            worker.come_back();
            worker.arm(os::thread::now());
            worker.shared.slot(worker.cpu()).enter_all_the_same(worker.id);
        }
        worker.end_section();
    }
}

/// Asks the owner of a slot to schedule, unless it is the caller who is going to.
pub(crate) fn ring(shared: &Shared, cpu: CpuId) {
    let serves = |own: &Worker| own.serves.load(Ordering::Relaxed) && own.cpu() == cpu;
    if shared.here(serves) == Some(true) {
        return;
    }
    let slot = shared.slot(cpu);
    match slot.request() {
        Ring::Nothing => {}
        // The caller itself: looks when its section ends.
        Ring::Signal(owner) if shared.here(|own| own.id) == Some(owner) => {}
        Ring::Signal(_) if !shared.preempts => {}
        Ring::Signal(owner) => {
            let tid = shared.worker(owner).map(|worker| worker.tid());
            tid.into_iter().for_each(|tid| os::signal::ring(tid, shared.signal));
        }
        Ring::Wake => os::futex::wake(&slot.bed),
    }
}
