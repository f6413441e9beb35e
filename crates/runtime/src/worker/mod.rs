//! Kernel threads that run tasks: the scheduling loop. The parts are the reaction to the doorbell ([`stop`]), the
//! kernel's settings of the thread ([`thread`]), waiting for work ([`idle`]), visits to tokio's driver ([`visits`]),
//! many polls for one decision ([`batch`]), and tasks that have never been polled ([`newcomers`]).
//!
//! A worker owns a slot while it runs tasks ([`crate::protocol::handoff`]). Foreign code runs with `preempt_count` at
//! zero and may be stopped at any instruction. The runtime's own code runs with it above zero and is never stopped,
//! only notified (H3). A stopped task keeps its thread: its job is now to resume that worker, and it is scheduled like
//! any other task.

mod alarm;
pub(crate) mod batch;
pub(crate) mod beside;
mod binding;
mod graces;
mod hearing;
mod idle;
mod life;
pub(crate) mod newcomers;
mod own;
mod picture;
mod poll;
mod section;
mod stall;
mod steer;
mod stop;
mod thread;
mod timer;
mod visits;

use crate::crew::kick::KickNow;
use crate::crew::meter::Reading;
use crate::crew::slotless::WithoutSlot;
use crate::deferred::rubbish::{Rubbish, discard};
use crate::os;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Ordering, lock};
use crate::os::thread::Tid;
use crate::protocol::baton::Baton;
use crate::protocol::company::NO_POLL;
use crate::protocol::handoff::{Left, WorkerId};
use crate::protocol::in_kernel::InKernel;
use crate::shared::Shared;
use crate::task::{Cell, Job, Todo};
use alarm::Alarm;
use binding::Binding;
use graces::Graces;
use hearing::Hearing;
use idle::Found;
use life::Life;
use own::Own;
use poll::{Later, Poll};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::{Prev, Released, Switch};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::TaskOf;
use section::Section;
use visits::Visits;

/// The time for which a task that was woken or spawned by a poll waits for the end of that poll, while another CPU is
/// idle or the task should preempt. It is long compared with most polls and with the cost of a signal (5 us, at most
/// once in this time), and too short for people to notice.
pub(crate) const POLL_GRACE: Nanos = Nanos::from_micros(200);

/// The panic message where a worker must exist.
const ALIVE: &str = "its thread lives until the runtime ends";

/// One kernel thread.
///
/// Legend of access: `(c)` constant; `(o)` read and written by this thread only, in its handler too; `(w)` written by
/// this thread, read by others; `(a)` accessed by any thread, as the field says.
#[derive(Debug)]
pub(crate) struct Worker {
    /// (c)
    pub(crate) id: WorkerId,
    /// (c)
    pub(crate) shared: Arc<Shared>,
    /// (a) Its thread.
    life: Life,
    /// (a) The slot that it owns, or owned last. Written by the thread that gives it one.
    slot: AtomicU32,
    /// (a) Granted by the thread that gives it a slot, or lets it go.
    pub(crate) baton: Baton,
    /// (w) The runtime's own code on this thread.
    own: Own,
    /// (w) The poll that it is in.
    pub(crate) poll: Poll,
    /// (a) The section of the poll that blocks.
    pub(crate) section: Section,
    /// (a) The engine's part of the task.
    part: Part,
    /// (a) Its CPU time when the engine last asked; see the type.
    pub(crate) reading: Reading,
    /// (a) Its graces.
    graces: Graces,
    /// (a) Its timers.
    alarm: Alarm,
    /// (w) Its visits to tokio's driver, and its waits for work.
    visits: Visits,
    /// (a) The CPUs to which the thread is bound.
    binding: Binding,
    /// (a) Written by the thread that takes its slot, while it blocks, and by the thread that gives it one.
    pub(crate) without_slot: WithoutSlot,
    /// (a) Whether it answers when it is asked for its CPU.
    hearing: Hearing,
}

/// The engine's part of the task that a thread polls.
#[derive(Debug)]
struct Part {
    /// Whether the thread has it: it is neither stopped nor has lost its slot. Written by the owner of the slot.
    is_here: AtomicBool,
    /// The part of a task that blocks in the kernel on this thread: left by the worker that took the slot, taken by this
    /// thread or the keeper.
    in_kernel: InKernel<TaskOf<Job>>,
    /// Whether the slot was taken in this poll, as the thread blocked.
    has_blocked: AtomicBool,
}

impl Worker {
    pub(crate) fn new(shared: &Arc<Shared>, id: WorkerId, slot: CpuId) -> Arc<Worker> {
        Arc::new(Worker {
            id,
            shared: shared.clone(),
            life: Life::new(),
            slot: AtomicU32::new(slot.0.into()),
            baton: Baton::new(),
            own: Own::new(),
            poll: Poll::none(),
            section: Section::outside(),
            part: Part {
                is_here: AtomicBool::new(false),
                in_kernel: InKernel::new(),
                has_blocked: AtomicBool::new(false),
            },
            reading: Reading::default(),
            graces: Graces::new(),
            alarm: Alarm::none(),
            visits: Visits::new(),
            binding: Binding::none(),
            without_slot: WithoutSlot::new(),
            hearing: Hearing::new(),
        })
    }

    pub(crate) fn tid(&self) -> Tid {
        self.life.tid()
    }

    #[inline]
    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.slot.load(Ordering::Acquire) as u16)
    }

    /// Returns whether this worker owns its slot.
    #[inline]
    pub(crate) fn owns(&self) -> bool {
        self.shared.scheduler.crew.slot(self.cpu()).belongs_to(self.id)
    }

    /// Prepares this worker, which has no thread, for a new one.
    pub(crate) fn prepare(&self, cpu: CpuId) {
        self.slot.store(cpu.0.into(), Ordering::Release);
        self.baton.lay_down();
        self.reading.begin();
        self.hearing.begin_anew();
        self.graces.begin_anew();
        self.life.begin_anew();
    }

    /// Runs the thread: it waits as a spare, runs tasks while it owns a slot, and so on until it retires or the runtime
    /// ends. The first worker of a slot owns it from the start. A thread without a timer could not be stopped, and runs
    /// no task.
    pub(crate) fn live(self: &Arc<Worker>, owns: bool) {
        let settled = self.settle_in();
        if settled {
            crate::current::worker::with_worker(self, || self.work(owns));
        } else {
            self.life.is_ready(false);
        }
        self.alarm.delete();
    }

    fn work(self: &Arc<Worker>, owns: bool) {
        self.life.is_ready(true);
        if owns {
            self.run(Prev::Idle, None);
        }
        loop {
            self.wait_to_own();
            if self.shared.scheduler.crew.is_over() || self.retires() {
                return;
            }
            let (prev, curr) = self.take_over();
            self.run(prev, curr);
        }
    }

    /// Sets the thread up. Returns whether the kernel grants all that it needs.
    fn settle_in(&self) -> bool {
        let tid = self.life.begins_here();
        self.shared.scheduler.crew.cpus.pin(self.tid(), self.cpu());
        self.listen();
        self.note_stack();
        !self.shared.scheduler.crew.preemption.is_on
            || self.alarm.make(tid, self.shared.scheduler.crew.preemption.signal)
    }

    /// Waits until the thread of this worker has started: before that its state cannot be read. Returns `false` if the
    /// kernel refuses a resource that it needs; then the thread ends.
    pub(crate) fn wait_until_ready(&self) -> bool {
        self.life.wait_until_ready()
    }

    /// Ends the thread of this worker, which waited as a spare and was taken out of the spares.
    pub(crate) fn retire(&self) {
        self.life.retire();
        self.baton.grant();
    }

    fn retires(&self) -> bool {
        self.life.retires()
    }

    /// Moves this worker, which waits as a spare, to another slot.
    pub(crate) fn move_to(&self, cpu: CpuId) {
        if self.cpu() != cpu {
            self.shared.scheduler.crew.cpus.pin(self.tid(), cpu);
            self.slot.store(cpu.0.into(), Ordering::Release);
        }
    }

    /// Takes over the slot that a spare was granted. Returns the report about the worker before.
    fn take_over(&self) -> (Prev<Job>, Option<TaskId>) {
        let (shared, cpu) = (&self.shared, self.cpu());
        let left = loop {
            // This is stored after the slot changed hands, before the baton is granted; this worker may have been awake
            // already.
            match shared.scheduler.crew.slot(cpu).left_by() {
                Some(left) => break left,
                None => std::thread::yield_now(),
            }
        };
        let (Left::Preempted(from) | Left::Lost(from)) = left else { return (Prev::Idle, None) };
        if let Some(handed) = self.take_handed() {
            return handed;
        }
        let from = shared.scheduler.crew.threads.worker(from).expect(ALIVE);
        let polled = self.end_batch_left(cpu, &from);
        match left {
            Left::Drove(_) => unreachable!("a worker in the driver had no task"),
            Left::Preempted(worker) => {
                let job =
                    shared.scheduler.crew.threads.worker(worker).expect(ALIVE).put_away(polled);
                let curr = job.cell.id;
                (Prev::Preempted(job), Some(curr))
            }
            Left::Lost(worker) => {
                let worker = shared.scheduler.crew.threads.worker(worker).expect(ALIVE);
                worker.part.has_blocked.store(true, Ordering::Relaxed);
                let job = worker.put_away(polled);
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

    /// Runs tasks until the slot goes to another worker. `curr` is the task that `prev` describes.
    fn run(&self, mut prev: Prev<Job>, mut curr: Option<TaskId>) {
        self.shared.scheduler.crew.slot(self.cpu()).take_pending();
        let (mut over, mut idled, mut waits_for_threads) = (None, false, false);
        loop {
            if self.shared.scheduler.crew.is_over() {
                return;
            }
            let cpu = self.cpu();
            self.shared.scheduler.tell(cpu, || What::Overhead);
            let now = os::thread::now();
            self.expire(cpu, now, std::mem::take(&mut idled));
            self.offer_newcomer(cpu, now);
            let Switch { next, released } = self.decide(now, prev, curr);
            match released {
                Some((task, Released::Exited)) => {
                    let cell = over.take().expect("a poll that has just ended left its cell");
                    self.shared.ended(task, cell);
                }
                Some((task, _)) if waits_for_threads => self.shared.wait_for_threads(task),
                Some((task, _)) => self.shared.scheduler.park_blocked(task),
                None => {}
            }
            waits_for_threads = false;
            let Ok(next) = self.hand_on(next) else { return };
            let Some((id, Job { cell, todo })) = next else {
                let found = if self.take_some(cpu) { Found::Asked } else { self.idle(cpu) };
                if found == Found::NoSlot {
                    return self.becomes_spare(cpu);
                }
                idled = found == Found::Due;
                (prev, curr) = (Prev::Idle, None);
                continue;
            };
            curr = Some(id);
            self.shared
                .scheduler
                .tell(cpu, || What::Exec { task: id, policy: lock(&cell.asked).policy });
            match todo {
                Todo::Poll if self.shared.must_wait(cpu, &cell) => {
                    waits_for_threads = true;
                    prev = Prev::Blocked(Job { cell, todo });
                }
                Todo::Poll => {
                    (prev, over) = self.poll(now, cell);
                    (prev, curr, over) = self.poll_others(prev, curr, over);
                    self.shared.scheduler.let_in_next(self.cpu());
                }
                Todo::Resume(worker) => {
                    self.resume(&cell, &worker);
                    // The task may be over by now.
                    return discard(Rubbish::Cell(cell));
                }
                Todo::Nothing => unreachable!("a task that is picked has something to do"),
            }
        }
    }

    /// Schedules the worker's own CPU. `curr` is the task that `prev` describes.
    fn decide(&self, now: Time, prev: Prev<Job>, curr: Option<TaskId>) -> Switch<Job> {
        let cpu = self.cpu();
        let left = curr.zip(prev.left());
        let switch = self.shared.scheduler.machine.schedule(
            now,
            cpu,
            prev,
            &mut KickNow(&self.shared.scheduler),
        );
        let next = switch.next.as_ref().map(|&(id, _)| id);
        self.shared.scheduler.tell(cpu, || What::Switch { prev: left, next });
        switch
    }

    /// Polls a task. Returns the report to the engine, and the task's cell if it is over. When this returns the worker
    /// owns a slot again, though not always the one that it owned before.
    fn poll(&self, now: Time, cell: Arc<Cell>) -> (Prev<Job>, Option<Arc<Cell>>) {
        self.begin_poll(now, &cell);
        self.part.is_here.store(true, Ordering::Release);
        let cpu = self.cpu();
        self.shared.scheduler.crew.meters.polls(cpu, self);
        let enters = self.shared.scheduler.crew.slot(cpu).enter(self.id);
        let company = self.shared.scheduler.dispatch.of(cpu).map(|it| &it.company);
        company.into_iter().for_each(|company| company.note_poll(now.0));
        let polled = self.run_foreign(now, &cell, enters);
        self.leave_poll();
        self.poll.end();
        self.unbind();
        self.note_poll(&cell, polled);
        if let Some(company) = company {
            company.note_poll(NO_POLL);
            self.poll.has_ended();
        }
        if !self.part.is_here.load(Ordering::Acquire) {
            assert!(
                self.shared.scheduler.crew.is_over(),
                "the worker has the engine's part of its task"
            );
            return (Prev::Idle, None);
        }
        self.part.is_here.store(false, Ordering::Release);
        if !polled {
            return (Prev::Preempted(Job { cell, todo: Todo::Poll }), None);
        }
        if cell.is_done() {
            return (Prev::Exited, Some(cell));
        }
        let prev = match cell.seat.is_scheduled() {
            true => Prev::Yielded(Job { cell, todo: Todo::Poll }),
            false => Prev::Blocked(Job { cell, todo: Todo::Nothing }),
        };
        (prev, None)
    }

    /// Sets the fields for a poll.
    #[inline]
    fn begin_poll(&self, now: Time, cell: &Cell) {
        self.poll.begin(now, cell);
        self.reading.begins_poll();
        self.graces.forget();
        self.part.has_blocked.store(false, Ordering::Relaxed);
        self.bind_for(cell);
    }

    /// Polls a task, if the slot says that its owner `enters` foreign code and no thread calls. Returns whether it was
    /// polled.
    #[inline]
    fn run_foreign(&self, now: Time, cell: &Arc<Cell>, enters: bool) -> bool {
        let cpu = self.cpu();
        self.arm(now);
        let enters = enters && (cell.slack.is_real_time() || self.visit_in_passing(now));
        self.own.set_count(0);
        // A signal that came while the count was above zero left its mark.
        let polls = enters && !self.shared.scheduler.crew.slot(cpu).calls(self.id);
        if polls {
            self.shared.deferred.bins.empty_a_little(cpu);
            self.poll.foreign(|| {
                self.clocked(now, || {
                    crate::current::task::with_task(cell, || os::future::run(cell))
                });
                os::fork::end_child();
            });
        }
        self.own.set_count(1);
        polls
    }

    /// Notes the end of a poll, if the task was `polled`.
    #[inline]
    fn note_poll(&self, cell: &Cell, polled: bool) {
        if polled {
            let has_blocked = self.part.has_blocked.load(Ordering::Relaxed);
            cell.note_light(!has_blocked);
            // A thread that was deaf has lost its slot in this poll.
            if has_blocked {
                self.mend_hearing();
            }
        }
        let guards = self.poll.take_guards();
        if guards != 0 {
            cell.guards.add(guards);
        }
    }

    /// Returns the job of the task that this thread was polling when it was stopped: to go on here. `polled` is its
    /// cell if it was polled in a batch.
    fn put_away(self: &Arc<Worker>, polled: Option<Arc<Cell>>) -> Job {
        let ran = self.part.is_here.swap(false, Ordering::AcqRel);
        let cell = polled.or_else(|| self.cell_of_poll());
        let cell = cell.filter(|_| ran).expect("the worker was in the middle of a poll");
        Job { cell, todo: Todo::Resume(self.clone()) }
    }

    /// Returns the cell of the task that this thread polls.
    pub(crate) fn cell_of_poll(&self) -> Option<Arc<Cell>> {
        self.poll.place().and_then(|place| self.shared.registry.cell_at(place))
    }

    /// Returns the task that this thread polls, by its runtime and its place there.
    pub(crate) fn place_of_poll(&self) -> Option<(u16, u64)> {
        self.poll.place().map(|place| (self.shared.number, place))
    }

    /// Counts mutexes that the task at a place of a runtime takes or releases, if this thread is in its poll. Returns
    /// whether it is.
    pub(crate) fn count_guard(&self, of: (u16, u64), more: i32) -> bool {
        let is_in_poll = self.place_of_poll() == Some(of);
        if is_in_poll {
            self.poll.count_guard(more);
        }
        is_in_poll
    }

    /// Returns the CPU on which this thread is in a poll.
    pub(crate) fn cpu_of_poll(&self) -> Option<CpuId> {
        (self.poll.is_foreign() && self.owns()).then(|| self.cpu())
    }

    /// Plans a check soon after a task was queued here, unless the poll ends before.
    pub(crate) fn look_soon(&self, now: Time, kicked: bool) {
        self.poll.add_later(if kicked { Later::Kick } else { Later::Waiter });
        let armed = self.alarm.armed();
        if armed <= now || armed > now + POLL_GRACE {
            self.alarm.set_at(now + POLL_GRACE);
        }
    }

    /// Returns the task that this thread acts for while it wakes tasks; `None` if a timer wakes them.
    pub(crate) fn waking(&self) -> Option<TaskId> {
        let task = self.waking_since().is_none().then(|| self.cell_of_poll()).flatten();
        task.map(|cell| cell.id)
    }

    /// Runs `wakes` as if outside a poll: a task that it wakes does not wait for the end of this poll.
    pub(crate) fn wake_at_once<R>(&self, wakes: impl FnOnce() -> R) -> R {
        self.poll.outside(wakes)
    }

    /// Returns the time since which the tasks that this thread is waking could run.
    pub(crate) fn waking_since(&self) -> Option<Time> {
        self.poll.waking_since()
    }

    /// Wakes a task that could have run since `since`.
    pub(crate) fn wake_since(&self, since: Time, wake: impl FnOnce()) {
        self.poll.wake_since(since, wake);
    }

    /// Waits for the teller. If the teller waits for a lock, that is detected itself ([`crate::crew::foreign`]).
    pub(crate) fn unseen(&self, wait: impl FnOnce()) {
        self.own.unseen(wait);
    }

    /// Returns whether it waits for the teller.
    pub(crate) fn is_unseen(&self) -> bool {
        self.own.is_unseen()
    }

    /// Returns whether this thread serves timers on `cpu`, and schedules next.
    pub(crate) fn serves(&self, cpu: CpuId) -> bool {
        self.own.serves() && self.cpu() == cpu
    }

    /// Returns the CPU of this thread, if it is in tokio's driver for want of work.
    pub(crate) fn cpu_of_driver(&self) -> Option<CpuId> {
        (self.visits.drives() && self.owns()).then(|| self.cpu())
    }

    /// Leaves the code of a task at the end of a poll. When this returns the worker owns a slot, or the runtime is over.
    fn leave_poll(&self) {
        while self.shared.scheduler.crew.slot(self.cpu()).leave(self.id).is_none()
            && !self.shared.scheduler.crew.is_over()
        {
            if self.mend_hearing() {
                self.forgive();
            }
            self.come_back();
        }
    }

    /// Queues for a slot, when the thread is back in the runtime's code: its slot was taken or given away while the
    /// task blocked in the kernel.
    fn come_back(&self) {
        self.baton.lay_down();
        // The worker that took the slot may not have left the task here yet. The task is queued already if this thread
        // was let go.
        let task = self.part.in_kernel.come_back();
        task.into_iter().for_each(|task| self.wake_now(task));
        self.wait_to_own();
        self.part.in_kernel.owns_again();
        self.want_slot(false);
    }

    /// Waits in the runtime's own code, after `lay_down`, until this worker owns a slot, retires, or the runtime ends.
    fn wait_to_own(&self) {
        let may_go_on = || self.owns() || self.shared.scheduler.crew.is_over() || self.retires();
        self.asleep(|| self.baton.wait_until(may_go_on));
    }

    /// Leaves the blocked task of this worker here until its thread runs again, after the slot was taken. Wakes the
    /// task if the thread runs already.
    fn leave_in_kernel(&self, task: TaskOf<Job>) {
        // A section that gave its slot away has done this itself.
        let is_found_waiting = !self.section.waits();
        if is_found_waiting {
            self.wait_quietly();
        }
        self.lose_slot(task.attr().group);
        match self.part.in_kernel.leave(task) {
            None if is_found_waiting => self.stop_when_it_runs(),
            None => {}
            Some(task) => self.wake_now(task),
        }
    }

    fn wake_now(&self, task: TaskOf<Job>) {
        let now = os::thread::now();
        self.shared.scheduler.wake(now, task, now);
    }

    /// Calls `look` with the task that blocks in the kernel on this thread, if there is one.
    pub(crate) fn look_in_kernel(&self, look: impl FnOnce(&Task<Job>)) {
        self.part.in_kernel.look(|task| look(task));
    }

    /// Asks for a slot in the name of this thread, if it waits for one and cannot ask. Calls no foreign code.
    pub(crate) fn ask_if_it_wants(&self) {
        let task = self.part.in_kernel.take_if_wanted();
        task.into_iter().for_each(|task| self.wake_now(task));
    }

    /// Returns whether another thread has to ask for a slot in the name of this one.
    pub(crate) fn wants_slot(&self) -> bool {
        self.part.in_kernel.wants_slot()
    }

    /// Sets whether this thread wants a slot for which another thread has to ask. May be called in a signal handler.
    fn want_slot(&self, wants: bool) {
        if self.part.in_kernel.want_slot(wants) {
            self.shared.scheduler.crew.keeper.count_wanting(wants);
        }
    }

    /// Gives the slot to a parked worker, which goes on with the task of `cell`, and becomes a spare.
    fn resume(&self, cell: &Cell, worker: &Worker) {
        let cpu = self.cpu();
        let slot = self.shared.scheduler.crew.slot(cpu);
        worker.get_slot_back();
        worker.part.is_here.store(true, Ordering::Release);
        worker.move_to(cpu);
        worker.bind_for(cell);
        self.shared.scheduler.crew.meters.comes(cpu, worker);
        self.steer(worker);
        self.baton.lay_down();
        self.shared.scheduler.crew.keep_spare(cpu, self.id);
        slot.resume(self.id, worker.id);
        worker.baton.grant();
        self.arm_for_sleep(self.shared.scheduler.machine.next_expiry(cpu));
    }

    /// Serves every timer whose window is open. If there is none, waits until there is work.
    fn idle(&self, cpu: CpuId) -> Found {
        if self.expire(cpu, os::thread::now(), true) {
            return Found::Asked;
        }
        self.shared.scheduler.tell(cpu, || match self.shared.scheduler.machine.forced_idle(cpu) {
            Some(cookie) => What::ForcedIdle { cookie },
            None => What::Idle,
        });
        self.wait(cpu)
    }
}
