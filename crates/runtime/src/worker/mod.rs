//! Kernel threads that run tasks: the scheduling loop. Beside it are the reaction to the doorbell ([`stop`]), sections
//! that block ([`blocking`]), waiting for work ([`idle`]), many polls for one decision ([`batch`]), and tasks that have
//! never been polled ([`newcomers`]). The other files have the parts of a worker.
//!
//! A worker owns a slot while it runs tasks ([`crate::protocol::handoff`]). Foreign code runs with `preempt_count` at
//! zero and may be stopped at any instruction. The runtime's own code runs with it above zero and is never stopped,
//! only notified (H3). A stopped task keeps its thread: its job is now to resume that worker, and it is scheduled like
//! any other task.

mod alarm;
pub(crate) mod batch;
pub(crate) mod beside;
mod binding;
mod blocking;
mod graces;
mod hearing;
mod idle;
mod join;
mod later;
mod life;
pub(crate) mod newcomers;
mod own;
mod part;
mod picture;
mod poll;
mod section;
mod stall;
mod steer;
mod stop;
mod thread;
mod timer;
mod visits;
mod without_slot;

use crate::current::turn;
use crate::deferred::rubbish::{Rubbish, discard};
use crate::driver::budget;
use crate::os;
use crate::os::alternate::AlternateStack;
use crate::os::sync::{Arc, lock};
use crate::protocol::company::NO_POLL;
use crate::protocol::handoff::{Left, WorkerId};
use crate::shared::Shared;
use crate::task::{Cell, Head, Job, Todo};
use batch::Lender;
use graces::Graces;
use hearing::Hearing;
use idle::Found;
use own::Own;
use part::Part;
use poll::Poll;
use runyard_engine::cpu::CpuId;
use runyard_engine::event::What;
use runyard_engine::run_queue::{Prev, Released, Switch};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_smp::machine::TaskOf;
use section::Section;
use thread::Thread;
use visits::Visits;
use without_slot::WithoutSlot;

/// The time for which a task that was woken or spawned by a poll waits for the end of that poll, while another CPU is
/// idle or the task should preempt. It is long compared with most polls and with the cost of a signal (5 us, at most
/// once in this time), and too short for people to notice.
pub(crate) const POLL_GRACE: Nanos = Nanos::from_micros(200);

/// The panic message where a worker must exist.
const ALIVE: &str = "its thread lives until the runtime ends";

/// One kernel thread, with the task that it polls. Each part says which threads use it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: Thread,
    /// The runtime's own code on this thread.
    pub(crate) own: Own,
    /// The poll that it is in.
    pub(crate) poll: Poll,
    /// The section of the poll that blocks.
    pub(crate) section: Section,
    /// The engine's part of the task.
    pub(crate) part: Part,
    graces: Graces,
    /// Its visits to tokio's driver, and its waits for work.
    visits: Visits,
    pub(crate) without_slot: WithoutSlot,
    /// Whether it answers when it is asked for its CPU.
    pub(crate) hearing: Hearing,
}

impl Worker {
    pub(crate) fn new(shared: &Arc<Shared>, id: WorkerId, slot: CpuId) -> Arc<Worker> {
        Arc::new(Worker {
            shared: shared.clone(),
            thread: Thread::new(id, shared.scheduler.crew(), slot),
            own: Own::new(),
            poll: Poll::none(shared.observation.stalls.clone()),
            section: Section::outside(),
            part: Part::none(),
            graces: Graces::new(),
            visits: Visits::new(),
            without_slot: WithoutSlot::new(),
            hearing: Hearing::new(),
        })
    }

    /// Prepares this worker, which has no thread, for a new one.
    pub(crate) fn prepare(&self, cpu: CpuId) {
        self.hearing.begin_anew();
        self.graces.begin_anew();
        self.thread.prepare(cpu);
    }

    /// Runs the thread: it waits as a spare, runs tasks while it owns a slot, and so on until it retires or the runtime
    /// ends. The first worker of a slot owns it from the start. A thread without a timer or a stack for the handler could not
    /// be stopped, and runs no task.
    pub(crate) fn live(self: &Arc<Worker>, owns: bool) {
        let settled = self.thread.begins_here();
        let stack = settled.then(AlternateStack::new).flatten();
        self.hearing.listen(&self.thread);
        self.poll.clock().note_stack();
        if stack.is_some() {
            crate::current::worker::with_worker(self, || {
                self.thread.is_ready(true);
                if owns {
                    self.run(Prev::Idle, None);
                }
                loop {
                    self.thread.wait_to_own();
                    if self.thread.is_to_end() {
                        return;
                    }
                    let (prev, curr) = self.take_over();
                    self.run(prev, curr);
                }
            });
        } else {
            self.thread.is_ready(false);
        }
        self.thread.ends();
        self.thread.alarm.delete();
    }

    /// Takes over the slot that a spare was granted. Returns the report about the worker before.
    fn take_over(&self) -> (Prev<Job>, Option<TaskId>) {
        let Shared { scheduler, registry, .. } = &*self.shared;
        let (crew, slot) = (self.thread.crew(), self.thread.slot());
        let left = loop {
            // This is stored after the slot changed hands, before the baton is granted; this worker may have been awake
            // already.
            match slot.left_by() {
                Some(left) => break left,
                None => std::thread::yield_now(),
            }
        };
        let (Left::Preempted(from) | Left::Lost(from)) = left else { return (Prev::Idle, None) };
        if let Some(handed) = self.hearing.take_handed() {
            return handed;
        }
        let from = crew.threads().worker(from).expect(ALIVE);
        let polled = Lender::new((scheduler, registry), &self.own, self.thread.cpu())
            .and_then(|lender| lender.end_left(&from.thread));
        let is_lost = matches!(left, Left::Lost(_));
        if is_lost {
            from.part.note_blocked(true);
        }
        // Its task is to go on there.
        let ran = from.part.take();
        let cell = polled.or_else(|| from.poll.cell(registry));
        let cell = cell.filter(|_| ran).expect("the worker was in the middle of a poll");
        let (curr, job) = (Some(cell.id), Job { cell, todo: Todo::Resume(from.clone()) });
        if !is_lost {
            return (Prev::Preempted(job), curr);
        }
        let Switch { next, released } =
            scheduler.decide(os::thread::now(), self.thread.cpu(), Prev::Blocked(job), curr);
        let (task, _) = released.expect("a blocked task is released");
        from.leave_in_kernel(task);
        match next {
            Some((id, job)) => (Prev::Preempted(job), Some(id)),
            None => (Prev::Idle, None),
        }
    }

    /// Runs tasks until the slot goes to another worker. `curr` is the task that `prev` describes.
    fn run(&self, mut prev: Prev<Job>, mut curr: Option<TaskId>) {
        let Shared { scheduler, registry, timers, .. } = &*self.shared;
        self.thread.slot().take_pending();
        let (mut over, mut idled, mut waits_for_threads) = (None, false, false);
        loop {
            if scheduler.crew().is_over() {
                return;
            }
            let cpu = self.thread.cpu();
            scheduler.tell(cpu, || What::Overhead);
            let now = os::thread::now();
            self.own.expire((scheduler, timers), cpu, now, std::mem::take(&mut idled));
            scheduler.offer_newcomer(&self.own, cpu, now);
            let Switch { next, released } = scheduler.decide(now, cpu, prev, curr);
            match released {
                Some((task, Released::Exited)) => {
                    let cell = over.take().expect("a poll that has just ended left its cell");
                    registry.ended(task, cell);
                }
                Some((task, _)) if waits_for_threads => scheduler.wait_for_threads(registry, task),
                Some((task, _)) => scheduler.park_blocked(task),
                None => {}
            }
            waits_for_threads = false;
            let Ok(next) = self.hand_on(next) else { return };
            let Some((id, Job { cell, todo })) = next else {
                let found = if scheduler.take_some(&self.own, cpu)
                    || self.own.expire((scheduler, timers), cpu, os::thread::now(), true)
                {
                    Found::Asked
                } else {
                    scheduler.tell_idle(cpu);
                    self.visits.wait(&self.thread, &self.own, scheduler)
                };
                if found == Found::NoSlot {
                    // It was taken in the driver, where this worker had no task.
                    self.thread.becomes_spare();
                    return self.thread.arm_for_sleep(scheduler.machine(), None);
                }
                idled = found == Found::Due;
                (prev, curr) = (Prev::Idle, None);
                continue;
            };
            curr = Some(id);
            scheduler.tell(cpu, || What::Exec { task: id, policy: lock(&cell.asked).policy });
            match todo {
                Todo::Poll if scheduler.crew().must_wait(registry, cpu, &cell) => {
                    waits_for_threads = true;
                    prev = Prev::Blocked(Job { cell, todo });
                }
                Todo::Poll => {
                    (prev, over) = self.poll(now, cell);
                    (prev, curr, over) = self.poll_others(prev, curr, over);
                    scheduler.let_in_next(self.thread.cpu());
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

    /// Polls a task. Returns the report to the engine, and the task's cell if it is over. When this returns the worker
    /// owns a slot again, though not always the one that it owned before.
    fn poll(&self, now: Time, cell: Arc<Cell>) -> (Prev<Job>, Option<Arc<Cell>>) {
        self.begin_poll(now, &cell);
        self.part.be_here(true);
        let cpu = self.thread.cpu();
        self.shared.scheduler.crew().meters().polls(cpu, self);
        let enters = self.thread.slot().enter(self.thread.id());
        let company = self.shared.scheduler.dispatch().of(cpu).map(|it| &it.company);
        company.into_iter().for_each(|company| company.note_poll(now.0));
        let polled = self.run_foreign(now, os::future::Found::new(&cell), enters);
        self.leave_poll();
        self.poll.end();
        self.thread.unbind();
        self.note_poll(&cell, polled);
        if let Some(company) = company {
            company.note_poll(NO_POLL);
            self.poll.has_ended();
        }
        if !self.part.is_here() {
            assert!(
                self.shared.scheduler.crew().is_over(),
                "the worker has the engine's part of its task"
            );
            return (Prev::Idle, None);
        }
        self.part.be_here(false);
        if !polled {
            return (Prev::Preempted(Job { cell, todo: Todo::Poll }), None);
        }
        Cell::leave_poll(cell)
    }

    /// Sets the fields for a poll.
    #[inline]
    fn begin_poll(&self, now: Time, cell: &Cell) {
        self.poll.begin(now, cell);
        self.thread.reading().begins_poll();
        self.graces.forget();
        self.part.note_blocked(false);
        self.thread.bind_for(cell);
    }

    /// Polls a task, if the slot says that its owner `enters` foreign code and no thread calls. Returns whether it was
    /// polled.
    #[inline]
    fn run_foreign(&self, now: Time, cell: os::future::Found<'_, Head>, enters: bool) -> bool {
        let (cpu, scheduler) = (self.thread.cpu(), &self.shared.scheduler);
        self.thread.arm(scheduler.machine(), now);
        let visits = || {
            let parts = (&self.thread, &self.own, &self.poll);
            !self.visits.are_due(now) || self.visits.in_passing(parts, scheduler, now)
        };
        let enters = enters && (cell.slack.is_real_time() || visits());
        self.own.set_count(0);
        // A signal that came while the count was above zero left its mark.
        let polls = enters && !scheduler.crew().slot(cpu).calls(self.thread.id());
        if polls {
            self.shared.deferred.bins.empty_a_little(cpu);
            self.poll.foreign(|| {
                self.poll.clock().clocked(now, || {
                    turn::begin(now);
                    budget::begin_poll();
                    crate::current::task::with_task(cell.shared(), || os::future::run(cell))
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
            let has_blocked = self.part.has_blocked();
            cell.note_light(!has_blocked);
            // A thread that was deaf has lost its slot in this poll.
            if has_blocked {
                self.hearing.mend(&self.thread);
            }
        }
        let guards = self.poll.take_guards();
        if guards != 0 {
            cell.guards.add(guards);
        }
    }

    /// Leaves the code of a task at the end of a poll. When this returns the worker owns a slot, or the runtime is over.
    fn leave_poll(&self) {
        let thread = &self.thread;
        while thread.slot().leave(thread.id()).is_none() && !thread.crew().is_over() {
            if self.hearing.mend(thread) {
                self.without_slot.forgive(thread, self.shared.scheduler.machine());
            }
            self.come_back();
        }
    }

    /// Queues for a slot, when the thread is back in the runtime's code: its slot was taken or given away while the
    /// task blocked in the kernel.
    fn come_back(&self) {
        self.thread.baton().lay_down();
        // The worker that took the slot may not have left the task here yet. The task is queued already if this thread
        // was let go.
        let task = self.part.come_back();
        task.into_iter().for_each(|task| self.shared.scheduler.wake_now(task));
        self.thread.wait_to_own();
        self.part.owns_again();
        self.part.want_slot(self.thread.crew().keeper(), false);
    }

    /// Leaves the blocked task of this worker here until its thread runs again, after the slot was taken. Wakes the
    /// task if the thread runs already.
    fn leave_in_kernel(&self, task: TaskOf<Job>) {
        let Worker { thread, section, without_slot, .. } = self;
        // A section that gave its slot away has done this itself.
        let is_found_waiting = !section.waits();
        if is_found_waiting {
            section.wait_quietly(thread);
        }
        let scheduler = &self.shared.scheduler;
        without_slot.begin(thread, section, scheduler.machine(), task.attr().group);
        match self.part.leave_in_kernel(task) {
            None if is_found_waiting => section.stop_when_it_runs(thread, &self.graces),
            None => {}
            Some(task) => scheduler.wake_now(task),
        }
    }

    /// Gives the slot to a parked worker, which goes on with the task of `cell`, and becomes a spare.
    fn resume(&self, cell: &Cell, worker: &Worker) {
        let (thread, machine) = (&self.thread, self.shared.scheduler.machine());
        let (cpu, slot) = (thread.cpu(), thread.slot());
        worker.without_slot.end(&worker.thread, machine);
        worker.part.be_here(true);
        worker.thread.move_to(cpu);
        worker.thread.bind_for(cell);
        thread.crew().meters().comes(cpu, worker);
        thread.steer(&worker.thread);
        thread.becomes_spare();
        slot.resume(thread.id(), worker.thread.id());
        worker.thread.baton().grant();
        thread.arm_for_sleep(machine, machine.sight().next_expiry(cpu));
    }

    /// Hands the slot to a spare, with the task that this worker was about to poll or to resume, if its thread cannot
    /// have its nice value back: then the thread ends. Returns the task otherwise.
    fn hand_on(&self, next: Option<(TaskId, Job)>) -> Result<Option<(TaskId, Job)>, ()> {
        if !self.hearing.is_stuck() {
            return Ok(next);
        }
        let (thread, crew) = (&self.thread, self.thread.crew());
        let slot = thread.slot();
        let Some(spare) = slot.take_spare().and_then(|spare| crew.threads().worker(spare)) else {
            crew.maker().order();
            return Ok(next);
        };
        spare.hearing.hand(next);
        thread.leaves();
        let is_handed = slot.hand_over(thread.id(), spare.thread.id());
        assert!(is_handed, "a slot is not taken in its owner's own code");
        spare.thread.baton().grant();
        Err(())
    }

    /// Rings this thread, which runs without a slot and has used this much CPU time in all, unless it waits by now.
    /// Called by the keeper.
    pub(crate) fn stop_if_it_runs(&self, used: Nanos) {
        let Worker { thread, section, hearing, .. } = self;
        if hearing.is_deaf() {
            return;
        }
        // Without /proc the state is not known, and the timer on the CPU clock has to suffice.
        let waits = || os::thread::is_blocked(thread.tid()).unwrap_or(true);
        if !self.part.wants_slot() && !waits() {
            section.hear(thread);
            thread.signal();
            hearing.await_answer(thread, &self.poll, &self.shared.registry, used);
        }
    }
}
