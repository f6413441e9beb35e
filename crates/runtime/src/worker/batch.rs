//! Many polls for one decision (docs/design/dispatch.md): the steps of a worker between two polls of a batch.
//!
//! The slot says from the first poll of a batch to the last that its owner runs foreign code, so a batch changes the
//! slot's word as often as one poll. Between two polls the thread is in the runtime's own code, and may have lost the
//! slot as in any section. So it does nothing there that only the owner may do: for that it leaves the slot first.

use super::own::Own;
use super::poll::Poll;
use super::thread::Thread;
use super::timer::is_due;
use super::{POLL_GRACE, Worker};
use crate::crew::kick::KickNow;
use crate::crew::kick::ring;
use crate::os;
use crate::os::biased::Marks;
use crate::os::future::Found;
use crate::os::sync::{Arc, Mutex, Ordering, lock};
use crate::protocol::company::{Batch, Closed, Company, MEMBERS, NO_POLL, OVER, Steps, Turn};
use crate::protocol::handoff::{Slot, WorkerId};
use crate::protocol::newcomers::Newcomers;
use crate::registry::Registry;
use crate::shared::{FIRST_ROOM, Scheduler, Shared};
use crate::task::{Cell, Head, Job, Todo};
use runyard_engine::cpu::CpuId;
use runyard_engine::run_queue::{Begun, Bounds, Prev, Terms};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time, VTime};
use runyard_smp::control::Tag;
use runyard_smp::machine::{Loan, TaskOf};
use std::collections::VecDeque;

/// The most tasks that are lent at a time, and the most newcomers that join at a time. More would wait behind later
/// arrivals; fewer would cost a lock each.
const LENT: usize = 8;
const COME: usize = 16;

/// The time for which a task waits in a batch before another CPU takes it: most have had their turn by then.
pub(super) const STAYS: Nanos = Nanos::from_micros(50);

/// The time after which the owner looks again for an idle CPU that could take some of its waiting tasks.
const SHARES_EVERY: Nanos = Nanos::from_micros(50);

/// The time for which a batch without tasks waits for a newcomer, or for the task that was polled last to be woken. It
/// is several times the cost of spawning a task on another thread, and little beside the cost of waking a CPU.
const LINGERS: Nanos = Nanos::from_micros(3);

/// The time for which, in a flood, the first newcomer waits for others in a batch without tasks. Each time that the
/// worker takes some, the thread that spawns has to fetch the list's cache line again.
const GATHERS: Nanos = Nanos(500);

/// The batches of one CPU, alone on their cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Batches {
    pub(crate) company: Company<TaskOf<Job>, Polls>,
    pub(crate) newcomers: Newcomers<TaskOf<Job>>,
    /// The task that takes the place of the running task while a batch is open. Only the owner of the slot uses it.
    stand_in: Mutex<Option<TaskOf<Job>>>,
    /// Memory for tasks that go to a batch or come from one. Only the owner of the slot uses it.
    room: Mutex<VecDeque<TaskOf<Job>>>,
}

/// The terms on which a batch is polled, and the task that is polled.
#[derive(Debug)]
pub(crate) struct Polls {
    pub(super) terms: Terms,
    pub(super) since: Time,
    place: u64,
    pub(super) tag: usize,
}

/// The result of a poll in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// The task was not polled: the worker has to decide first.
    Not,
    Yielded,
    Blocked,
    Over,
}

/// The run queue of a CPU, as the lender of the tasks of a batch.
#[derive(Clone, Copy)]
pub(super) struct Lender<'a> {
    pub(super) cpu: CpuId,
    batches: &'a Batches,
    scheduler: &'a Scheduler,
    registry: &'a Registry,
    own: &'a Own,
}

/// A batch that this thread polls.
struct Open<'a> {
    lender: Lender<'a>,
    thread: &'a Thread,
    slot: &'a Slot,
    batch: Batch,
    /// Whether newcomers may join.
    takes_newcomers: bool,
    /// The time at which it ends at the latest.
    until: Time,
    /// The time at which the last poll ended.
    now: Time,
}

/// A task that is about to be polled, or was.
struct Member {
    cell: Option<Arc<Cell>>,
    came: Came,
}

impl Member {
    fn new(cell: Arc<Cell>) -> Member {
        Member { cell: Some(cell), came: Came::Not }
    }

    fn cell(&self) -> &Arc<Cell> {
        self.cell.as_ref().expect("a member keeps its cell")
    }

    /// Returns the job that the engine keeps for the task.
    fn job(&mut self) -> Job {
        let todo = match self.came {
            Came::Not | Came::Yielded => Todo::Poll,
            Came::Blocked | Came::Over => Todo::Nothing,
        };
        Job { cell: self.cell.take().expect("a member keeps its cell"), todo }
    }
}

/// The steps from the poll of a member to the next poll.
struct Step<'a> {
    thread: &'a Thread,
    registry: &'a Registry,
    now: Time,
    bounds: Bounds,
    /// The place of the first newcomer, if it may be polled.
    newcomer: Option<VTime>,
    member: &'a mut Member,
    /// The place for the task that is polled next.
    next: &'a mut Member,
}

impl Steps<TaskOf<Job>, Polls> for Step<'_> {
    #[inline]
    fn charge(&mut self, polls: &mut Polls, task: &mut TaskOf<Job>, waiting: usize) -> bool {
        polls.charge(self.now, task, self.thread);
        self.member.came == Came::Yielded
            && (waiting > 0 || self.bounds.vruntime.is_none())
            && polls.terms.is_within(task, &self.bounds)
    }

    #[inline]
    fn is_passed(&mut self, next: Option<&TaskOf<Job>>) -> bool {
        self.newcomer.is_some_and(|newcomer| {
            let next = next.and_then(|next| Terms::vruntime(next));
            next.is_none_or(|next| newcomer < next)
        })
    }

    #[inline]
    fn wait(&mut self, task: &mut TaskOf<Job>) {
        task.payload = Some(self.member.job());
    }

    #[inline]
    fn leave(&mut self, polls: &Polls, task: &mut TaskOf<Job>) -> bool {
        let Member { cell, came } = &mut *self.member;
        match came {
            Came::Blocked => polls.terms.sleep(self.now, task),
            Came::Over => {
                let ends_later = |cell: &mut Arc<Cell>| self.registry.may_end_later(task, cell);
                task.payload =
                    cell.take_if(ends_later).map(|cell| Job { cell, todo: Todo::Nothing });
            }
            Came::Yielded | Came::Not => {}
        }
        task.payload.is_some()
    }

    #[inline]
    fn take(&mut self, polls: &mut Polls, task: &mut TaskOf<Job>) {
        *self.next = Member::new(polls.begin(self.now, task));
    }
}

/// The id of the stand-in, which no task of a program has.
pub(crate) const STAND_IN: TaskId = TaskId(u64::MAX);

impl Batches {
    pub(crate) fn new(cpu: CpuId, marks: &Arc<Marks>) -> Batches {
        let stand_in = Task::stand_in(STAND_IN, cpu);
        let room = Mutex::new(VecDeque::with_capacity(2 * MEMBERS));
        let newcomers = Newcomers::new(FIRST_ROOM);
        Batches {
            company: Company::new(marks),
            newcomers,
            stand_in: Mutex::new(Some(stand_in)),
            room,
        }
    }

    /// Returns whether any task may wait in the runtime.
    pub(super) fn has_any(&self) -> bool {
        self.company.is_open() || self.newcomers.len() > 0
    }

    fn take_stand_in(&self) -> Option<TaskOf<Job>> {
        lock(&self.stand_in).take()
    }

    pub(super) fn take_room(&self) -> VecDeque<TaskOf<Job>> {
        std::mem::take(&mut *lock(&self.room))
    }

    pub(super) fn keep_room(&self, room: VecDeque<TaskOf<Job>>) {
        debug_assert!(room.is_empty(), "the room's tasks have left it");
        *lock(&self.room) = room;
    }

    fn keep_stand_in(&self, task: TaskOf<Job>) {
        *lock(&self.stand_in) = Some(task);
    }
}

impl Polls {
    /// Charges a poll that has lasted until `now`, on `thread`.
    #[inline]
    fn charge(&mut self, now: Time, task: &mut Task<Job>, thread: &Thread) {
        let span = now.since(self.since);
        if span > Nanos::ZERO {
            self.terms.charge(now, task, thread.used_of(span));
            self.since = now;
        }
    }

    pub(super) fn is_of(&self, tag: &Tag) -> bool {
        self.tag == (&raw const *tag).addr()
    }

    /// Makes a task the polled one, and returns its cell.
    #[inline]
    fn begin(&mut self, now: Time, task: &mut TaskOf<Job>) -> Arc<Cell> {
        let Job { cell, todo } = task.payload.take().expect("a task that waits has its payload");
        debug_assert!(matches!(todo, Todo::Poll), "a task of a batch is to be polled");
        self.since = now;
        self.place = cell.place.load(Ordering::Relaxed);
        self.tag = (&raw const cell.tag).addr();
        cell
    }
}

/// Returns whether a waiting task can be polled in a batch.
pub(super) fn fits(task: &Task<Job>) -> bool {
    let job = task.payload.as_ref();
    job.is_some_and(|job| matches!(job.todo, Todo::Poll) && !job.cell.has_affinity())
}

impl<'a> Lender<'a> {
    /// Returns the lender of a CPU to the worker, in its `own` code; `None` if tasks are not dispatched in batches.
    pub(super) fn new(
        (scheduler, registry): (&'a Scheduler, &'a Registry),
        own: &'a Own,
        cpu: CpuId,
    ) -> Option<Lender<'a>> {
        let batches = scheduler.dispatch().of(cpu)?;
        Some(Lender { cpu, batches, scheduler, registry, own })
    }

    /// Gives a task back to the run queue.
    fn give_back(&self, now: Time, task: TaskOf<Job>) {
        self.scheduler.give_back(now, self.cpu, self.cpu, task);
    }

    /// Lets go of a task that has left its batch: it is over, or blocks.
    fn let_go(&self, task: TaskOf<Job>, over: Option<Arc<Cell>>) {
        match over {
            Some(cell) => self.registry.ended(task, cell),
            None => self.scheduler.park_blocked(task),
        }
    }

    /// Ends a finished task of a batch, together with those that the batch kept: there is no place for more.
    fn bury(&self, (thread, batch): (WorkerId, Batch), task: TaskOf<Job>) {
        let mut over = [const { None }; OVER + 1];
        self.batches.company.take_over(thread, batch, &mut over);
        over[OVER] = Some(task);
        self.registry.have_ended(&mut over);
    }

    /// Ends the batch that another thread polled when the slot was taken from it, if there is one. It ends in the name
    /// of the task that was polled, or is about to be. Returns that task's cell.
    pub(super) fn end_left(&self, from: &Thread) -> Option<Arc<Cell>> {
        let batches = self.batches;
        if !batches.company.is_open() {
            return None;
        }
        let mut room = batches.take_room();
        let Some(closed) = batches.company.close_any(&mut room) else {
            batches.keep_room(room);
            return None;
        };
        let cell = self.registry.cell_at(closed.terms.place).expect("a task that is polled lives");
        self.give_all_back(os::thread::now(), from, closed, &cell);
        Some(cell)
    }

    /// Gives all tasks of a closed batch back to the engine. The last poll was on `thread`.
    fn give_all_back(
        &self,
        now: Time,
        thread: &Thread,
        closed: Closed<TaskOf<Job>, Polls>,
        cell: &Cell,
    ) {
        let Closed { mut terms, mut polled, mut waiting, over } = closed;
        let Lender { cpu, batches, .. } = *self;
        terms.charge(now, &mut polled, thread);
        let nr_waiting = waiting.len() - over;
        let first = waiting.range(..nr_waiting).filter_map(|task| Terms::vruntime(task)).min();
        // The worker schedules next, so it needs no ring.
        self.own.serve(|| {
            let fx = &mut KickNow(self.scheduler);
            let stand_in =
                self.scheduler.machine().end_batch((now, cpu), (polled, cell), first, fx);
            batches.keep_stand_in(stand_in);
            waiting.drain(..nr_waiting).for_each(|task| self.give_back(now, task));
        });
        if over > 0 {
            let mut all = [const { None }; OVER];
            all.iter_mut().zip(waiting.drain(..)).for_each(|(to, task)| *to = Some(task));
            self.registry.have_ended(&mut all);
        }
        batches.keep_room(waiting);
    }
}

impl Open<'_> {
    /// Returns the place of the first newcomer, if it may be polled.
    fn newcomer(&self, bounds: &Bounds) -> Option<VTime> {
        let first = self.lender.batches.newcomers.first()?;
        Some(VTime(first)).filter(|&first| bounds.admit(first))
    }

    /// Returns whether no decision is due.
    #[inline]
    fn may_go_on(&self) -> bool {
        !self.slot.calls(self.thread.id())
            && self.now < self.until
            && !is_due(self.lender.scheduler.machine(), self.lender.cpu, self.now)
    }

    /// Takes the `next` task to be polled, after `member`, which was polled. Returns `false`, and leaves `member` as it
    /// was, if that needs a decision.
    fn turn(&mut self, poll: &Poll, member: &mut Member, next: &mut Member) -> bool {
        self.share(poll);
        let Lender { cpu, batches, scheduler, registry, .. } = self.lender;
        let (mut may_lend, mut may_come, mut may_linger) = (true, self.takes_newcomers, true);
        loop {
            let bounds = scheduler.machine().sight().batch_bounds(cpu);
            let has_room = batches.company.len() <= MEMBERS - COME;
            let newcomer = self.newcomer(&bounds).filter(|_| may_come && has_room);
            let step = &mut Step {
                thread: self.thread,
                registry,
                now: self.now,
                bounds,
                newcomer,
                member,
                next,
            };
            match batches.company.turn(self.thread.id(), self.batch, step) {
                Turn::Next(left) => {
                    if let Some(task) = left {
                        self.leaves(task, member);
                    }
                    return true;
                }
                Turn::Outsider => may_come = self.admit_newcomers(&bounds),
                Turn::Alone if scheduler.machine().sight().is_wanted(cpu) => {
                    if !std::mem::take(&mut may_lend) || !self.lend() {
                        return false;
                    }
                }
                Turn::Alone if may_linger && self.linger(member) => may_linger = false,
                Turn::Alone | Turn::Over => return false,
            }
        }
    }

    /// Adds newcomers that may be polled to the batch, if there is room. Returns whether any joined.
    fn admit_newcomers(&self, bounds: &Bounds) -> bool {
        let Batches { company, newcomers, .. } = self.lender.batches;
        let bound = bounds.vruntime.map_or(u64::MAX, |bound| bound.0);
        let most = MEMBERS.saturating_sub(company.len()).min(COME);
        // An array on the stack is used: another worker may own the slot by now, and with it the memory of its batches.
        let mut coming = [const { None }; COME];
        let mut places = coming.iter_mut();
        let to = |task| *places.next().expect("at most COME tasks come") = Some(task);
        let any = newcomers.take(most, bound, to) > 0;
        if any {
            newcomers.note_taken(self.now.0);
        }
        company.lead(self.thread.id(), self.batch, &mut coming);
        let is_over = coming[0].is_some();
        // The slot was taken, and its new owner has closed the batch already.
        coming.into_iter().flatten().for_each(|task| {
            self.lender.give_back(self.now, task);
        });
        any && !is_over
    }

    /// Waits a moment, with no task in the batch, for a newcomer or for the last task, which blocks or is over, to be
    /// woken. Returns whether there is a task.
    fn linger(&mut self, member: &mut Member) -> bool {
        let Lender { batches, scheduler, .. } = self.lender;
        let (until, mut gathers_until) = (self.now + LINGERS, None);
        while self.now < until && self.may_go_on() {
            if member.came == Came::Blocked && member.cell().seat.is_scheduled() {
                member.came = Came::Yielded;
                return true;
            }
            if self.takes_newcomers && batches.newcomers.first().is_some() {
                let is_flood = || scheduler.dispatch().outsiders.is_flood();
                let now = self.now;
                let gathers = || if is_flood() { now + GATHERS } else { now };
                if self.now >= *gathers_until.get_or_insert_with(gathers) {
                    return true;
                }
            }
            std::hint::spin_loop();
            self.now = os::thread::now();
        }
        gathers_until.is_some()
    }

    /// Lets go of a polled task that leaves the batch.
    fn leaves(&self, mut task: TaskOf<Job>, member: &mut Member) {
        match member.came {
            Came::Over => match member.cell.take() {
                Some(cell) => self.lender.registry.ended(task, cell),
                None => self.lender.bury((self.thread.id(), self.batch), task),
            },
            Came::Blocked => {
                task.payload = Some(member.job());
                self.lender.let_go(task, None);
            }
            Came::Yielded | Came::Not => {
                task.payload = Some(member.job());
                self.lender.give_back(self.now, task);
            }
        }
    }

    /// Borrows more tasks from the run queue, as none waits. Returns whether there were any, and the worker still owns
    /// its slot.
    fn lend(&self) -> bool {
        let Open { batch, now, .. } = *self;
        let Lender { cpu, batches, scheduler, .. } = self.lender;
        if self.slot.leave(self.thread.id()) != Some(false) {
            return false;
        }
        // In the owner's own code the slot cannot be taken, so the batch stays open.
        let Some(terms) =
            batches.company.look_as(self.thread.id(), |polls, _, _| Some(polls.terms))
        else {
            return false;
        };
        let mut lent = batches.take_room();
        let loan = Loan { most: LENT, fits, take: &mut |task| lent.push_back(task) };
        scheduler.machine().lend((now, cpu), &terms, loan, &mut KickNow(scheduler));
        let any = !lent.is_empty();
        batches.company.extend(self.thread.id(), batch, &mut lent);
        batches.keep_room(lent);
        any && self.slot.enter(self.thread.id())
    }

    /// Rings an idle CPU, now and then, if a task has waited here for long.
    fn share(&self, poll: &Poll) {
        let Lender { cpu, batches, scheduler, .. } = self.lender;
        let now = self.now;
        if now < Time(poll.shares_at.load(Ordering::Relaxed)) || !scheduler.dispatch().has_any(cpu)
        {
            return;
        }
        poll.shares_at.store((now + SHARES_EVERY).0, Ordering::Relaxed);
        let waits_long = |task: &TaskOf<Job>| now.since(task.waits_since()) >= POLL_GRACE;
        let member =
            |_: &_, task: &_, is_polled: bool| (!is_polled && waits_long(task)).then_some(());
        if let Some(idle) = scheduler.machine().sight().idle_cpu_beside(cpu)
            && (batches.newcomers.look(waits_long) == Some(true)
                || batches.company.look_as(self.thread.id(), member).is_some())
        {
            ring(scheduler, idle);
        }
    }
}

impl Worker {
    /// Polls other tasks after the poll that `prev` describes, as long as no decision is needed. Returns the report to
    /// the engine at the end, the task of that report, and that task's cell if the task is over.
    pub(super) fn poll_others(
        &self,
        prev: Prev<Job>,
        curr: Option<TaskId>,
        over: Option<Arc<Cell>>,
    ) -> (Prev<Job>, Option<TaskId>, Option<Arc<Cell>>) {
        let cpu = self.thread.cpu();
        let Shared { scheduler, registry, .. } = &*self.shared;
        let Some(lender) = Lender::new((scheduler, registry), &self.own, cpu) else {
            return (prev, curr, over);
        };
        let batches = lender.batches;
        let may_go_on = match prev {
            Prev::Yielded(_) => true,
            Prev::Blocked(_) | Prev::Exited => {
                scheduler.machine().sight().is_wanted(cpu)
                    || scheduler.offer_newcomer(&self.own, cpu, self.poll.ended())
            }
            Prev::Preempted(_) | Prev::Idle => false,
        };
        if !may_go_on || is_due(scheduler.machine(), cpu, self.poll.ended()) {
            return (prev, curr, over);
        }
        let Some(stand_in) = batches.take_stand_in() else { return (prev, curr, over) };
        let now = self.poll.ended();
        let mut waiting = batches.take_room();
        let loan = Loan { most: LENT, fits, take: &mut |task| waiting.push_back(task) };
        let fx = &mut KickNow(scheduler);
        match scheduler.machine().begin_batch((now, cpu), (prev, stand_in), loan, fx) {
            Begun::Refused(prev, stand_in) => {
                batches.keep_stand_in(stand_in);
                batches.keep_room(waiting);
                (prev, curr, over)
            }
            Begun::Open(task, terms) => {
                let left = match (&task.payload, over) {
                    (_, Some(over)) => Some((task, Some(over))),
                    (Some(Job { todo: Todo::Nothing, .. }), None) => Some((task, None)),
                    _ => {
                        waiting.push_back(task);
                        None
                    }
                };
                let mut first = waiting.pop_front().expect("a task of the batch can be polled");
                let mut polls = Polls { terms, since: now, place: u64::MAX, tag: 0 };
                let member = Member::new(polls.begin(now, &mut first));
                let batch = batches.company.open(self.thread.id(), polls, first, &mut waiting);
                batches.keep_room(waiting);
                self.poll.batch.store(batch.0, Ordering::Relaxed);
                left.into_iter().for_each(|(task, over)| lender.let_go(task, over));
                let until = now + scheduler.machine().config().tick;
                let takes_newcomers = terms.are_plain();
                let slot = scheduler.crew().slot(cpu);
                let thread = &self.thread;
                let open = Open { lender, thread, slot, batch, takes_newcomers, until, now };
                let ended = self.poll_batch(open, member);
                self.poll.batch.store(0, Ordering::Relaxed);
                ended
            }
        }
    }

    fn poll_batch(
        &self,
        mut open: Open<'_>,
        mut member: Member,
    ) -> (Prev<Job>, Option<TaskId>, Option<Arc<Cell>>) {
        let Lender { cpu, batches, .. } = open.lender;
        let mut other = Member { cell: None, came: Came::Not };
        // The two variables take turns: to move one into the other would cost as much as half a turn.
        let (mut member, mut next) = (&mut member, &mut other);
        self.part.be_here(true);
        let (crew, registry) = (self.shared.scheduler.crew(), &self.shared.registry);
        crew.meters().polls(cpu, self);
        let mut enters = open.slot.enter(self.thread.id());
        loop {
            let shared = member.cell.as_ref().expect("a member has its cell before its poll");
            let cell = Found::new(shared);
            if cell.tag.was_asked() || crew.must_wait(registry, cpu, &cell) {
                enters = false;
            }
            batches.company.note_poll(open.now.0);
            member.came = self.poll_member(open.now, cell, enters);
            open.now = self.poll.ended();
            let goes_on = member.came != Came::Not && !cell.tag.was_asked() && open.may_go_on();
            if !goes_on || !open.turn(&self.poll, member, next) {
                return self.end_batch(&open, member);
            }
            std::mem::swap(&mut member, &mut next);
        }
    }

    /// Polls a task of a batch, if the worker `enters` foreign code.
    #[inline]
    fn poll_member(&self, now: Time, cell: Found<'_, Head>, enters: bool) -> Came {
        self.begin_poll(now, &cell);
        let polled = self.run_foreign(now, cell, enters);
        let came = match polled {
            false => Came::Not,
            true if cell.is_done() => Came::Over,
            true if cell.seat.is_scheduled() => Came::Yielded,
            true => Came::Blocked,
        };
        self.thread.unbind();
        self.note_poll(&cell, polled);
        self.poll.has_ended();
        came
    }

    /// Ends the batch at the end of a poll, also if the slot was taken during that poll. Returns the report to the
    /// engine about the task that was polled last.
    fn end_batch(
        &self,
        open: &Open<'_>,
        member: &mut Member,
    ) -> (Prev<Job>, Option<TaskId>, Option<Arc<Cell>>) {
        let Open { batch, now, lender, .. } = *open;
        let batches = lender.batches;
        self.leave_poll();
        batches.company.note_poll(NO_POLL);
        // Until here, a thread that takes the slot reads this, if the batch was closed before.
        self.poll.end();
        // Otherwise another worker may own the slot, and with it the memory of its batches.
        if batches.company.is_open_still(batch) {
            let closed = batches.company.close(self.thread.id(), batch, &mut batches.take_room());
            let closed = closed.expect("the batch is open");
            lender.give_all_back(now, &self.thread, closed, member.cell());
        }
        let curr = Some(member.cell().id);
        if !self.part.is_here() {
            assert!(self.shared.scheduler.crew().is_over(), "the worker has its task");
            return (Prev::Idle, None, None);
        }
        self.part.be_here(false);
        if member.came == Came::Blocked && member.cell().seat.is_scheduled() {
            member.came = Came::Yielded;
        }
        match member.came {
            Came::Not => (Prev::Preempted(member.job()), curr, None),
            Came::Yielded => (Prev::Yielded(member.job()), curr, None),
            Came::Blocked => (Prev::Blocked(member.job()), curr, None),
            Came::Over => (Prev::Exited, curr, member.cell.take()),
        }
    }
}
