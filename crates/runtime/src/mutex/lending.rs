//! Priority inheritance: the priority and the group that waiters for a mutex lend to the task that holds it.
//!
//! The holder is as important as the most important of its waiters, through chains of mutexes. No limit of a task group
//! throttles it unless the limit holds for the waiters too. It competes in the lowest group that they have in common,
//! but its own group is charged. The order of the waiters is in [`crate::protocol::turns`]. The computation of the
//! loans is in [`runyard_engine::inherit`]. The mutex with its value is in [`crate::mutex`].
//!
//! A task's loans are in its [`Inheritance`]. A loan changes under the queue lock of its mutex, so every loan in it
//! comes from a mutex that the task holds now. Locks are taken in this order, and only from left to right: the queue of
//! one mutex; the inheritance of one task; a run queue. A walk along a chain visits one mutex at a time, and holds
//! nothing in between. Each step reads the current waiters and the current holder. A thread that changes them meanwhile
//! starts its own walk. A walk ends where nothing changes. It also ends after [`MAX_STEPS`]: then there must be a
//! cycle, which is a deadlock of the program.
//!
//! All of this is the runtime's own code, in which no thread is stopped. Otherwise an important task that was handed
//! the mutex, but not yet woken, would wait for the thread that released it.
//!
//! The word of a mutex identifies its holder by the task's place among the live tasks. A holder that is not a task, or
//! is a task of another runtime, gets no loan. If a guard is sent to another task, the loan stays with the task that
//! locked.
//!
//! A mutex consists only of its word until a task must wait. Then it gets a [`Core`], the queue of its waiters. The
//! memory of the core is allocated before the section, and stays until the mutex is dropped. So a mutex can be a
//! `static`, and an uncontended one has no memory of its own. Rejected: to make the core at the first lock. It would
//! cost an allocation for each mutex, and a check at each lock.

use crate::current::runtime::current_if_any;
use crate::current::task;
use crate::deferred::errands::Bell;
use crate::deferred::rubbish::{Discarded, Rubbish, discard};
use crate::mutex::guards;
use crate::os::above::without_preemption;
use crate::os::list::List;
use crate::os::sync::{Arc, AtomicUsize, MutexGuard as QueueGuard, OnceLock, Ordering, lock};
use crate::protocol::turns::{Joined, Line, Queue, Taker, Ticket, Word};
use crate::shared::Shared;
use crate::task::Cell;
use runyard_engine::attr::{GroupId, RtPrio};
use runyard_engine::inherit::{Lent, Waiter};
use runyard_engine::limits::Pools;
use std::fmt;
use std::task::{Context, Poll, Waker};

/// Maximum number of mutexes that a walk visits; the kernel's limit of a chain (`max_lock_depth`).
const MAX_STEPS: usize = 1_024;

/// The taker of a mutex that is not a task.
const NO_TASK: Taker = Taker(1 << 62);

/// Lowest bit of the number of a runtime in a [`Taker`]. The bits below are a task's place.
const RUNTIME: u32 = 48;

/// Returns the taker that stands for the calling code.
fn me() -> Taker {
    let task = crate::current::task::task(|task| task.map(place_of));
    task.map_or(NO_TASK, |(shared, place)| Taker(u64::from(shared) << RUNTIME | place))
}

/// Returns the number of a task's runtime, and the task's place there.
fn place_of(cell: &Arc<Cell>) -> (u16, u64) {
    (cell.shared.number, cell.place.load(Ordering::Relaxed))
}

/// Returns the task that holds a mutex, if it belongs to `shared`.
fn holder(taker: Taker, shared: &Shared) -> Option<Arc<Cell>> {
    let ours = taker.0 >> RUNTIME == u64::from(shared.number);
    ours.then(|| shared.registry.cell_at(taker.0 & ((1 << RUNTIME) - 1))).flatten()
}

/// Adds `more` guards to the task that takes a mutex. The number is negative for a release.
pub(crate) fn count(taker: Taker, more: i32) {
    if taker != NO_TASK {
        guards::count((taker.0 >> RUNTIME) as u16, taker.0 & ((1 << RUNTIME) - 1), more);
    }
}

/// Number of waiters for mutexes in this process. While it is zero, no task inherits anything.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Returns whether there is a waiter for a mutex in this process.
pub(crate) fn somebody_waits() -> bool {
    WAITING.load(Ordering::SeqCst) > 0
}

/// Returns the bell that wakes a waiter. If the runtime of the calling code passes the mutex on, one of its tasks calls
/// a foreign waker. Another runtime calls the waker after the section.
fn bell_of(waker: &Waker) -> Bell {
    let bell = Bell::of(waker);
    if bell.is_foreign() {
        current_if_any().iter().for_each(|shared| shared.provide_for(&bell));
    }
    bell
}

/// A waiter for a mutex.
struct Waits {
    bell: Bell,
    /// The task that waits. None if the waiter is not a task.
    cell: Option<Arc<Cell>>,
}

type WaitQueue = Queue<Waits, Arc<Cell>>;

/// The waiters for a mutex, and their loan. Tasks that hold the mutex or wait for it refer to it, and may do so for a
/// moment after the mutex was dropped.
pub(crate) struct Core(Line<Waits, Arc<Cell>>);

/// A task's place in the queue of a mutex.
type Wait = (Arc<Core>, Ticket);

impl Discarded for Core {}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Core")
    }
}

/// The loans of a task, and the mutexes for which it waits.
#[derive(Debug, Default)]
pub(crate) struct Inheritance {
    /// The loan from each contended mutex that the task holds. It may be empty.
    lent: List<(Arc<Core>, Lent)>,
    waits: List<Wait>,
    /// The sum of the loans, as last reported to the engine.
    total: Lent,
}

impl Inheritance {
    /// Returns the known loan from `core`, and adds an empty one if there is none.
    fn note(&mut self, core: &Arc<Core>) -> &mut Lent {
        let at = self.lent.iter().position(|(of, _)| Arc::ptr_eq(of, core));
        let at = at.unwrap_or_else(|| {
            self.lent.push((core.clone(), Lent::default()));
            self.lent.len() - 1
        });
        &mut self.lent[at].1
    }

    /// Removes the loan from `core`, which has no waiters any more or has another holder.
    fn forget(&mut self, core: &Arc<Core>) {
        self.lent.retain(|(of, _)| !Arc::ptr_eq(of, core));
    }

    /// Reports the sum of the loans to the engine, if it has changed. The task's own loans change with it, so the call
    /// then returns the places where the task waits.
    fn tell(&mut self, cell: &Cell) -> List<Wait> {
        let groups = cell.shared.scheduler.machine().groups();
        let lent = self.lent.iter();
        let total = lent.fold(Lent::default(), |total, &(_, lent)| total.and(lent, groups));
        if total == self.total {
            return List::new();
        }
        self.total = total;
        cell.shared.scheduler.change(cell, total.change());
        self.waits.clone()
    }

    /// Returns whether the task waits for a mutex, and the tasks that hold those mutexes, as far as they are known.
    pub(crate) fn awaited(&self) -> (bool, List<Arc<Cell>>) {
        let holders = self.waits.iter().filter_map(|(core, _)| core.0.queue().holder.clone());
        (!self.waits.is_empty(), holders.collect())
    }

    fn waits_no_more(&mut self, core: &Arc<Core>, ticket: Ticket) {
        self.waits.retain(|(of, at)| !(Arc::ptr_eq(of, core) && *at == ticket));
    }
}

impl Cell {
    /// Returns the task's priority and group as a waiter for a mutex.
    fn standing(&self) -> Waiter {
        let total =
            self.rest_if_any().map(|rest| lock(&rest.inheritance).total).unwrap_or_default();
        let prio = self.own_prio().max(total.boost);
        Waiter { prio, group: total.group.unwrap_or(self.group_id()) }
    }

    /// Returns the real-time priority that was asked for the task itself.
    fn own_prio(&self) -> Option<RtPrio> {
        if self.slack.is_real_time() { lock(&self.asked).policy.class().lent_prio() } else { None }
    }

    /// Updates the task's loans in both directions, after a change of its policy, its group, or the limit of a group.
    pub(crate) fn stands_differently(&self) {
        let Some(rest) = self.rest_if_any() else { return };
        let (has, waits) = {
            let inheritance = lock(&rest.inheritance);
            let has: List<_> = inheritance.lent.iter().map(|(core, _)| core.clone()).collect();
            (has, inheritance.waits.clone())
        };
        for core in has {
            walk(core.lend(core.0.queue()));
            discard(Rubbish::Other(core));
        }
        walk(waits);
    }
}

impl WaitQueue {
    /// Returns the loan of all waiters to the task that holds the mutex.
    fn lent_to(&self, holder: &Cell) -> Lent {
        let (own, groups) = (holder.group_id(), holder.shared.scheduler.machine().groups());
        let best = Lent { boost: self.best(), group: None };
        if !groups.is_limited(own) {
            return best;
        }
        self.iter().fold(best, |lent, waits| {
            // A waiter that is not a task of this runtime is in none of its groups.
            let known =
                waits.cell.as_ref().filter(|cell| Arc::ptr_eq(&cell.shared, &holder.shared));
            let none = Waiter { prio: None, group: GroupId::ROOT };
            lent.also_from(known.map_or(none, |cell| cell.standing()), own, groups)
        })
    }
}

impl Core {
    /// Updates the loan to the task that holds the mutex. Returns the places where that task waits itself.
    #[must_use]
    fn lend(self: &Arc<Core>, mut queue: QueueGuard<'_, WaitQueue>) -> List<Wait> {
        if queue.is_empty() {
            // There are no waiters, so the mutex may be released without coming here.
            let holder = queue.holder.take();
            return holder.map(|holder| self.take_back(holder)).unwrap_or_default();
        }
        let Some(holder) = &queue.holder else { return List::new() };
        let inheritance = &holder.rest().inheritance;
        // A thread that changes groups or limits from now on comes here later, and waits for the lock of the queue.
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
        // The task may have released the mutex meanwhile, and be over.
        discard(Rubbish::Cell(holder));
        waits
    }

    /// Removes the loan from a task that held the mutex, under the lock of the queue. Returns the places where that
    /// task waits itself.
    #[must_use]
    fn take_back(self: &Arc<Core>, holder: Arc<Cell>) -> List<Wait> {
        let mut inheritance = lock(&holder.rest().inheritance);
        inheritance.forget(self);
        let waits = inheritance.tell(&holder);
        drop(inheritance);
        // A task that releases the mutex itself is in its poll, and other references to its cell exist. That is the
        // usual case.
        if !holder.is_polled_here() {
            discard(Rubbish::Cell(holder));
        }
        waits
    }

    /// Takes the mutex, or enters its queue.
    fn join(self: &Arc<Core>, word: &Word, me: Taker, bell: Bell) -> Result<Ticket, Bell> {
        let cell = task::current();
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
            // A later change comes here after this, and waits for the lock of the queue.
            queue.set_prio(ticket, cell.own_prio().max(boost));
        }
        if queue.holder.is_none() {
            let shared = cell.map(|cell| cell.shared.clone()).or_else(current_if_any);
            queue.holder = shared.and_then(|shared| holder(taker, &shared));
        }
        walk(self.lend(queue));
        Ok(ticket)
    }

    /// Returns whether a waiter's turn has come. If not, and `bell` is given, exchanges it with the waiter's bell.
    fn has_come(&self, ticket: Ticket, bell: Option<&mut Bell>) -> bool {
        let mut queue = self.0.queue();
        let waits = queue.get_mut(ticket);
        let is_there = waits.is_some();
        if let (Some(waits), Some(bell)) = (waits, bell) {
            std::mem::swap(&mut waits.bell, bell);
        }
        !is_there
    }

    /// Hands the mutex from its holder to the next waiter, and rings that waiter's bell. A foreign bell is rung as an
    /// errand, because the releasing task may be throttled as soon as its section is over. Returns the rest of the
    /// bell, which is dropped after the section.
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

    /// Removes a waiter from the queue, and returns its bell. Returns none if its turn has come.
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

/// Updates the loans along the chains of mutexes from the places of waiters whose importance has changed.
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
        // The waiter may have left the queue meanwhile, and the mutex may have been dropped.
        discard(Rubbish::Other(core));
    }
    waits.into_iter().for_each(|(core, _)| discard(Rubbish::Other(core)));
}

/// A mutex without its value.
pub(crate) struct RawMutex {
    word: Word,
    /// Set once a waiter has entered the queue.
    core: OnceLock<Arc<Core>>,
}

impl RawMutex {
    pub(crate) const fn new() -> RawMutex {
        RawMutex { word: Word::new(), core: OnceLock::new() }
    }

    /// Takes the mutex for the calling code, unless it is held.
    pub(crate) fn try_take(&self) -> Option<Taker> {
        let me = me();
        self.word.take(me).then_some(me)
    }

    /// Releases the mutex.
    pub(crate) fn release(&self, me: Taker) {
        if !self.word.free(me) {
            let core = self.core.get().expect("a waiter has made the core");
            let bell = without_preemption(|| core.pass_on(&self.word));
            bell.into_iter().for_each(Bell::end);
        }
    }

    /// Returns the core, and makes it if there is none. Called in foreign code.
    fn core(&self) -> &Arc<Core> {
        self.core.get().unwrap_or_else(|| {
            let new = Arc::new(Core(Line::new()));
            // If several threads make a core, the first one counts.
            let superfluous = without_preemption(|| self.core.set(new).err());
            drop(superfluous);
            self.core.get().expect("another thread has made the core")
        })
    }
}

/// The state of a future that locks a mutex.
#[derive(Debug)]
pub(crate) struct Attempt {
    taker: Taker,
    /// The place in the queue. It is kept until the future learns that its turn has come.
    ticket: Option<Ticket>,
}

impl Attempt {
    pub(crate) fn new() -> Attempt {
        Attempt { taker: NO_TASK, ticket: None }
    }

    /// Returns the taker when its turn has come.
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

    /// Enters the queue. Returns whether the mutex was free by then.
    fn join(&mut self, mutex: &RawMutex, cx: &Context<'_>) -> bool {
        let (core, bell) = (mutex.core(), bell_of(cx.waker()));
        // An unused bell is dropped after the section.
        let joined = without_preemption(|| core.join(&mutex.word, self.taker, bell));
        self.ticket = joined.ok();
        self.ticket.is_none()
    }

    /// Leaves the queue, or releases the mutex if the turn had come.
    pub(crate) fn give_up(&mut self, mutex: &RawMutex) {
        if let Some(ticket) = self.ticket.take()
            && without_preemption(|| mutex.core().leave(&mutex.word, ticket)).is_none()
        {
            mutex.release(self.taker);
        }
    }
}
