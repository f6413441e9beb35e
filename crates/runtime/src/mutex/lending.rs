//! What those who wait for a mutex lend the task that has it.
//!
//! Who has it runs as importantly as the best of those who wait, through chains of mutexes, and no limit
//! of a task group holds it back that is none of theirs: it competes in the lowest group that they have
//! in common, and its own pays. Whose turn it is: [`crate::protocol::turns`]; who lends what:
//! [`runyard_engine::inherit`]; the mutex with its value: [`crate::mutex`].
//!
//! What a task inherits is in its [`Inheritance`]. It changes with the queue's lock held of the mutex
//! concerned, so whatever is there is from one that the task has now. The locks are taken in this order,
//! and from left to right only: the queue of one mutex; the inheritance of one task; a run queue. A chain
//! is walked a mutex at a time, with nothing held in between: each step looks afresh who waits and who
//! has it, and whoever changes that meanwhile does the same. The walk ends where nothing changes, and
//! after [`MAX_STEPS`], for which there must be a cycle: a deadlock, which is the program's.
//!
//! All of it is the runtime's own code, in which nobody is stopped: between being handed the mutex and
//! being woken, somebody important waits for whoever gives it back.
//!
//! Who takes the mutex is known by its place among the live tasks, in the word. Somebody who is no task,
//! or one of another runtime, is not helped; and who sends a guard to another task is helped in its place.
//!
//! A mutex is its word until somebody has to wait. Then it gets a [`Core`], the line of those who wait, whose
//! memory is taken before the section, and which stays until the mutex goes. So a mutex can be a `static`,
//! and one that nobody waits for has no memory of its own. (Rejected: to make the core at the first lock. It would
//! cost an allocation for each mutex, and a look at each lock.)

use crate::deferred::errands::Bell;
use crate::deferred::rubbish::{Rubbish, discard};
use crate::mutex::guards;
use crate::os::here;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicUsize, MutexGuard as QueueGuard, OnceLock, Ordering, lock};
use crate::protocol::turns::{Joined, Line, Queue, Taker, Ticket, Word};
use crate::runtime::current_if_any;
use crate::shared::Shared;
use crate::task::{Cell, current_cell};
use crate::worker::Worker;
use crate::worker::current::without_preemption;
use runyard_engine::attr::{GroupId, RtPrio};
use runyard_engine::inherit::{Lent, Waiter};
use runyard_engine::limits::Pools;
use std::fmt;
use std::task::{Context, Poll, Waker};

/// How many mutexes a walk visits; the kernel's limit of a chain (`max_lock_depth`).
const MAX_STEPS: usize = 1_024;

/// Who takes a mutex and is no task.
const NO_TASK: Taker = Taker(1 << 62);

/// Where the number of a runtime begins in a [`Taker`]; a task's place is below.
const RUNTIME: u32 = 48;

/// Who takes a mutex now.
fn me() -> Taker {
    let paused =
        || crate::task::current::task(|task| task.filter(|_| here::is_paused()).map(place_of));
    let task = crate::worker::current::worker(Worker::place_of_poll).flatten().or_else(paused);
    task.map_or(NO_TASK, |(shared, place)| Taker(u64::from(shared) << RUNTIME | place))
}

/// The number of a task's runtime, and the task's place there.
fn place_of(cell: &Arc<Cell>) -> (u16, u64) {
    (cell.shared.number, cell.place.load(Ordering::Relaxed))
}

/// The task of a runtime that has a mutex.
fn holder(taker: Taker, shared: &Shared) -> Option<Arc<Cell>> {
    let ours = taker.0 >> RUNTIME == u64::from(shared.number);
    ours.then(|| shared.cell_at(taker.0 & ((1 << RUNTIME) - 1))).flatten()
}

/// The task that takes a mutex has a guard more, or less.
pub(crate) fn count(taker: Taker, more: i32) {
    if taker != NO_TASK {
        guards::count((taker.0 >> RUNTIME) as u16, taker.0 & ((1 << RUNTIME) - 1), more);
    }
}

/// How many wait for mutexes in this process. While nobody does, no task inherits anything.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Whether somebody in this process waits for a mutex.
pub(crate) fn somebody_waits() -> bool {
    WAITING.load(Ordering::SeqCst) > 0
}

/// What wakes one that waits. A foreign waker is called by a task of the runtime to which the calling code
/// belongs, if that passes the mutex on; another runtime calls it after the section.
fn bell_of(waker: &Waker) -> Bell {
    let bell = Bell::of(waker);
    if bell.is_foreign() {
        current_if_any().iter().for_each(|shared| shared.provide_for(&bell));
    }
    bell
}

/// One that waits.
struct Waits {
    bell: Bell,
    /// None if it is no task.
    cell: Option<Arc<Cell>>,
}

type WaitQueue = Queue<Waits, Arc<Cell>>;

/// Those who wait for a mutex, and what they lend. Tasks know it that have the mutex or wait for it, and
/// may do so a moment longer than the mutex is there.
pub(crate) struct Core(Line<Waits, Arc<Cell>>);

/// Where a task waits.
type Wait = (Arc<Core>, Ticket);

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Core")
    }
}

/// What a task inherits, and for what it waits.
#[derive(Debug, Default)]
pub(crate) struct Inheritance {
    /// What those who wait lend, for each mutex that it has and somebody waits for: nothing, maybe.
    lent: List<(Arc<Core>, Lent)>,
    waits: List<Wait>,
    /// All that together, as the engine knows it.
    total: Lent,
}

impl Inheritance {
    /// Somebody waits for `core`. What those lend, as far as it is known.
    fn note(&mut self, core: &Arc<Core>) -> &mut Lent {
        let at = self.lent.iter().position(|(of, _)| Arc::ptr_eq(of, core));
        let at = at.unwrap_or_else(|| {
            self.lent.push((core.clone(), Lent::default()));
            self.lent.len() - 1
        });
        &mut self.lent[at].1
    }

    /// Nobody waits for `core` any more, or another has it.
    fn forget(&mut self, core: &Arc<Core>) {
        self.lent.retain(|(of, _)| !Arc::ptr_eq(of, core));
    }

    /// Tells the engine what the task inherits in all, if that has changed; then it lends something else
    /// itself, where it waits.
    fn tell(&mut self, cell: &Cell) -> List<Wait> {
        let groups = cell.shared.machine.groups();
        let lent = self.lent.iter();
        let total = lent.fold(Lent::default(), |total, &(_, lent)| total.and(lent, groups));
        if total == self.total {
            return List::new();
        }
        self.total = total;
        cell.shared.change(cell, total.change());
        self.waits.clone()
    }

    /// Whether it waits for a mutex, and the tasks that have those, as far as they are known.
    pub(crate) fn awaited(&self) -> (bool, List<Arc<Cell>>) {
        let holders = self.waits.iter().filter_map(|(core, _)| core.0.queue().holder.clone());
        (!self.waits.is_empty(), holders.collect())
    }

    fn waits_no_more(&mut self, core: &Arc<Core>, ticket: Ticket) {
        self.waits.retain(|(of, at)| !(Arc::ptr_eq(of, core) && *at == ticket));
    }
}

impl Cell {
    /// As what it waits for a mutex.
    fn standing(&self) -> Waiter {
        let total =
            self.rest_if_any().map(|rest| lock(&rest.inheritance).total).unwrap_or_default();
        let prio = self.own_prio().max(total.boost);
        Waiter { prio, group: total.group.unwrap_or(self.group_id()) }
    }

    /// The real-time priority that was asked for it.
    fn own_prio(&self) -> Option<RtPrio> {
        if self.slack.is_real_time() { lock(&self.asked).policy.rt_prio() } else { None }
    }

    /// Its policy, its group, or the limit of a group is another: it lends and inherits something else.
    pub(crate) fn stands_differently(&self) {
        let Some(rest) = self.rest_if_any() else { return };
        let (has, waits) = {
            let inheritance = lock(&rest.inheritance);
            let has: List<_> = inheritance.lent.iter().map(|(core, _)| core.clone()).collect();
            (has, inheritance.waits.clone())
        };
        for core in has {
            walk(core.lend(core.0.queue()));
            discard(Rubbish::Core(core));
        }
        walk(waits);
    }
}

impl WaitQueue {
    /// What all who wait lend the task that has the mutex.
    fn lent_to(&self, holder: &Cell) -> Lent {
        let (own, groups) = (holder.group_id(), holder.shared.machine.groups());
        let best = Lent { boost: self.best(), group: None };
        if !groups.is_limited(own) {
            return best;
        }
        self.iter().fold(best, |lent, waits| {
            // Who is none of this runtime's tasks is in none of its groups.
            let known =
                waits.cell.as_ref().filter(|cell| Arc::ptr_eq(&cell.shared, &holder.shared));
            let none = Waiter { prio: None, group: GroupId::ROOT };
            lent.also_from(known.map_or(none, |cell| cell.standing()), own, groups)
        })
    }
}

impl Core {
    /// Lends the task that has the mutex what it is due. Where that waits itself.
    #[must_use]
    fn lend(self: &Arc<Core>, mut queue: QueueGuard<'_, WaitQueue>) -> List<Wait> {
        if queue.is_empty() {
            // Nobody wants it, so it may be given back without a word here.
            let holder = queue.holder.take();
            return holder.map(|holder| self.take_back(holder)).unwrap_or_default();
        }
        let Some(holder) = &queue.holder else { return List::new() };
        let inheritance = &holder.rest().inheritance;
        // Who changes groups or limits from now on comes here after this, and finds the queue locked.
        let known = *lock(inheritance).note(self);
        let lent = queue.lent_to(holder);
        if lent == known {
            return List::new();
        }
        let holder = holder.clone();
        let mut inheritance = lock(&holder.rest().inheritance);
        *inheritance.note(self) = lent;
        drop(queue);
        let waits = inheritance.tell(&holder);
        drop(inheritance);
        // It may have given the mutex back meanwhile, and be over.
        discard(Rubbish::Cell(holder));
        waits
    }

    /// Nothing is lent any more to a task that had the mutex; with the queue's lock held. Where that waits itself.
    #[must_use]
    fn take_back(self: &Arc<Core>, holder: Arc<Cell>) -> List<Wait> {
        let mut inheritance = lock(&holder.rest().inheritance);
        inheritance.forget(self);
        let waits = inheritance.tell(&holder);
        drop(inheritance);
        // Mostly it gives the mutex back itself, and then others have its cell as well.
        if !holder.is_polled_here() {
            discard(Rubbish::Cell(holder));
        }
        waits
    }

    /// Takes the mutex, or waits for it.
    fn join(self: &Arc<Core>, word: &Word, me: Taker, bell: Bell) -> Result<Ticket, Bell> {
        let cell = current_cell();
        let prio = cell.as_ref().and_then(|cell| cell.own_prio());
        let waits = Waits { bell, cell: cell.clone() };
        let (ticket, mut queue, taker) = match self.0.join(word, me, prio, waits) {
            Joined::Waits(ticket, queue, taker) => (ticket, queue, taker),
            Joined::Taken(waits) => return Err(waits.bell),
        };
        WAITING.fetch_add(1, Ordering::SeqCst);
        if let Some(cell) = &cell {
            let mut inheritance = lock(&cell.rest().inheritance);
            inheritance.waits.push((self.clone(), ticket));
            let boost = inheritance.total.boost;
            drop(inheritance);
            // Whatever changes from now on comes here after this, and finds the queue locked.
            queue.set_prio(ticket, cell.own_prio().max(boost));
        }
        if queue.holder.is_none() {
            let shared = cell.map(|cell| cell.shared.clone()).or_else(current_if_any);
            queue.holder = shared.and_then(|shared| holder(taker, &shared));
        }
        walk(self.lend(queue));
        Ok(ticket)
    }

    /// Whether the turn of one who waited has come; else `bell`, if there is one, rings then, and is the one before.
    fn has_come(&self, ticket: Ticket, bell: Option<&mut Bell>) -> bool {
        let mut queue = self.0.queue();
        let waits = queue.get_mut(ticket);
        let is_there = waits.is_some();
        if let (Some(waits), Some(bell)) = (waits, bell) {
            std::mem::swap(&mut waits.bell, bell);
        }
        !is_there
    }

    /// Who has it gives it to the next, whose bell rings: a foreign one as an errand, since whoever gives the
    /// mutex back may be throttled as soon as its section is over. What is left of the bell ends after that.
    fn pass_on(self: &Arc<Core>, word: &Word) -> Option<Bell> {
        let mut queue = self.0.queue();
        let old = queue.holder.take();
        let next = queue.pass_on(word);
        let mut walks = old.map(|old| self.take_back(old)).unwrap_or_default();
        let bell = next.map(|(ticket, Waits { bell, cell })| {
            WAITING.fetch_sub(1, Ordering::SeqCst);
            if let Some(cell) = &cell {
                lock(&cell.rest().inheritance).waits_no_more(self, ticket);
            }
            if queue.is_empty() {
                cell.into_iter().for_each(|cell| discard(Rubbish::Cell(cell)));
            } else {
                queue.holder = cell;
            }
            bell
        });
        walks.extend(self.lend(queue));
        walk(walks);
        bell.and_then(|bell| bell.ring(None))
    }

    /// Waits no longer, and its bell; none if the turn has come.
    fn leave(self: &Arc<Core>, word: &Word, ticket: Ticket) -> Option<Bell> {
        let mut queue = self.0.queue();
        let Waits { cell, bell } = queue.leave(word, ticket)?;
        WAITING.fetch_sub(1, Ordering::SeqCst);
        if let Some(cell) = cell {
            lock(&cell.rest().inheritance).waits_no_more(self, ticket);
            discard(Rubbish::Cell(cell));
        }
        walk(self.lend(queue));
        Some(bell)
    }
}

/// Tells along the chains of mutexes that whoever waits there stands differently.
fn walk(mut waits: List<Wait>) {
    for _ in 0..MAX_STEPS {
        let Some((core, ticket)) = waits.pop() else { break };
        let mut queue = core.0.queue();
        let cell = queue.get_mut(ticket).and_then(|waits| waits.cell.clone());
        if let Some(cell) = cell {
            queue.set_prio(ticket, cell.standing().prio);
            waits.extend(core.lend(queue));
            discard(Rubbish::Cell(cell));
        } else {
            drop(queue);
        }
        // Whoever waited there may have left meanwhile, and the mutex be gone.
        discard(Rubbish::Core(core));
    }
    waits.into_iter().for_each(|(core, _)| discard(Rubbish::Core(core)));
}

/// A mutex without what it guards.
pub(crate) struct RawMutex {
    word: Word,
    /// From when somebody had to wait.
    core: OnceLock<Arc<Core>>,
}

impl RawMutex {
    pub(crate) const fn new() -> RawMutex {
        RawMutex { word: Word::new(), core: OnceLock::new() }
    }

    /// Who has it now, unless somebody has it already.
    pub(crate) fn try_take(&self) -> Option<Taker> {
        let me = me();
        self.word.take(me).then_some(me)
    }

    /// Gives it back.
    pub(crate) fn release(&self, me: Taker) {
        if !self.word.free(me) {
            let core = self.core.get().expect("somebody waits in it");
            let bell = without_preemption(|| core.pass_on(&self.word));
            bell.into_iter().for_each(Bell::end);
        }
    }

    /// The core, made where there is none yet. In foreign code.
    fn core(&self) -> &Arc<Core> {
        self.core.get().unwrap_or_else(|| {
            let new = Arc::new(Core(Line::new()));
            // Of several who make one the first is in time.
            let superfluous = without_preemption(|| self.core.set(new).err());
            drop(superfluous);
            self.core.get().expect("somebody has made it")
        })
    }
}

/// What a future does that locks a mutex.
#[derive(Debug)]
pub(crate) struct Attempt {
    taker: Taker,
    /// While it is in the queue, or has its turn without knowing.
    ticket: Option<Ticket>,
}

impl Attempt {
    pub(crate) fn new() -> Attempt {
        Attempt { taker: NO_TASK, ticket: None }
    }

    /// Who has it, once its turn has come.
    pub(crate) fn poll(&mut self, mutex: &RawMutex, cx: &Context<'_>) -> Poll<Taker> {
        let has_come = match self.ticket {
            Some(ticket) => {
                let core = mutex.core();
                without_preemption(|| core.has_come(ticket, None)) || {
                    let mut bell = bell_of(cx.waker());
                    without_preemption(|| core.has_come(ticket, Some(&mut bell)))
                }
            }
            None => {
                self.taker = me();
                mutex.word.take(self.taker) || self.join(mutex, cx)
            }
        };
        if !has_come {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(self.taker)
    }

    /// Gets in line. Whether the mutex was free by then.
    fn join(&mut self, mutex: &RawMutex, cx: &Context<'_>) -> bool {
        let (core, bell) = (mutex.core(), bell_of(cx.waker()));
        // A bell that was not needed goes after the section.
        let joined = without_preemption(|| core.join(&mutex.word, self.taker, bell));
        self.ticket = joined.ok();
        self.ticket.is_none()
    }

    /// Gives the place in the queue up, or the mutex if its turn had come.
    pub(crate) fn give_up(&mut self, mutex: &RawMutex) {
        if let Some(ticket) = self.ticket.take()
            && without_preemption(|| mutex.core().leave(&mutex.word, ticket)).is_none()
        {
            mutex.release(self.taker);
        }
    }
}
