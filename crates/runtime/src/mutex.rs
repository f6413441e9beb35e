//! A mutex of which the runtime knows who has it and who waits.
//!
//! Who has it runs as importantly as the best of those who wait, through chains of mutexes, and no limit
//! of a task group holds it back that is none of theirs: it competes in the lowest group that they have
//! in common, and its own pays. Whose turn it is: [`crate::turns`]; who lends what:
//! [`runyard_engine::inherit`].
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

use crate::builder::{blocking, current_cell};
use crate::errands::Bell;
use crate::guards;
use crate::list::List;
use crate::os;
use crate::os::locked::{Held, Locked};
use crate::primitives::{Arc, MutexGuard as QueueGuard, lock};
use crate::rubbish::{Rubbish, discard};
use crate::runtime::{Unpark, current_if_any};
use crate::shared::Shared;
use crate::task::{Cell, without_preemption};
use crate::turns::{Joined, Queue, Taker, Ticket, Turns};
use crate::worker::Worker;
use runyard_engine::attr::GroupId;
use runyard_engine::inherit::{Lent, Waiter};
use runyard_engine::limits::Pools;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

/// How many mutexes a walk visits; the kernel's limit of a chain (`max_lock_depth`).
const MAX_STEPS: usize = 1_024;

/// Who takes a mutex and is no task.
const NO_TASK: Taker = Taker(1 << 62);

/// Where the number of a runtime begins in a [`Taker`]; a task's place is below.
const RUNTIME: u32 = 48;

/// Who takes a mutex now.
fn me() -> Taker {
    let task = os::local::worker(Worker::place_of_poll).flatten();
    task.map_or(NO_TASK, |(shared, place)| Taker(u64::from(shared) << RUNTIME | place))
}

/// The task of a runtime that has a mutex.
fn holder(taker: Taker, shared: &Shared) -> Option<Arc<Cell>> {
    let ours = taker.0 >> RUNTIME == u64::from(shared.number);
    ours.then(|| shared.cell_at(taker.0 & ((1 << RUNTIME) - 1))).flatten()
}

/// The task that takes a mutex has a guard more, or less.
fn count(taker: Taker, more: i32) {
    if taker != NO_TASK {
        guards::count((taker.0 >> RUNTIME) as u16, taker.0 & ((1 << RUNTIME) - 1), more);
    }
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

/// A mutex without what it guards.
pub(crate) struct Core(Turns<Waits, Arc<Cell>>);

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
    /// Somebody waits for `core`.
    fn note(&mut self, core: &Arc<Core>) {
        if !self.lent.iter().any(|(of, _)| Arc::ptr_eq(of, core)) {
            self.lent.push((core.clone(), Lent::default()));
        }
    }

    /// Those who wait for `core` lend so much from now on; `None` if nobody does, or another has it.
    fn set(&mut self, core: &Arc<Core>, lent: Option<Lent>) {
        self.lent.retain(|(of, _)| !Arc::ptr_eq(of, core));
        self.lent.extend(lent.map(|lent| (core.clone(), lent)));
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
        cell.shared.change(&cell.control, total.change());
        self.waits.clone()
    }

    fn waits_no_more(&mut self, core: &Arc<Core>, ticket: Ticket) {
        self.waits.retain(|(of, at)| !(Arc::ptr_eq(of, core) && *at == ticket));
    }
}

impl Cell {
    /// As what it waits for a mutex.
    fn standing(&self) -> Waiter {
        let total = lock(&self.inheritance).total;
        let own = lock(&self.asked).policy.rt_prio();
        Waiter { prio: own.max(total.boost), group: total.group.unwrap_or(self.group_id()) }
    }

    /// Its policy, its group, or the limit of a group is another: it lends and inherits something else.
    pub(crate) fn stands_differently(&self) {
        let (has, waits) = {
            let inheritance = lock(&self.inheritance);
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
        let is_wanted = !queue.is_empty();
        // If nobody wants it, it may be given back without a word here.
        let holder = if is_wanted { queue.holder.clone() } else { queue.holder.take() };
        let Some(holder) = holder else { return List::new() };
        if is_wanted {
            // Who changes groups or limits from now on comes here after this, and finds the queue locked.
            lock(&holder.inheritance).note(self);
        }
        let lent = is_wanted.then(|| queue.lent_to(&holder));
        let mut inheritance = lock(&holder.inheritance);
        inheritance.set(self, lent);
        drop(queue);
        let waits = inheritance.tell(&holder);
        drop(inheritance);
        // It may have given the mutex back meanwhile, and be over.
        discard(Rubbish::Cell(holder));
        waits
    }

    /// Takes the mutex, or waits for it.
    fn join(self: &Arc<Core>, me: Taker, bell: Bell) -> Result<Ticket, Bell> {
        let cell = current_cell();
        let prio = cell.as_ref().and_then(|cell| cell.standing().prio);
        let waits = Waits { bell, cell: cell.clone() };
        let (ticket, mut queue, taker) = match self.0.join(me, prio, waits) {
            Joined::Waits(ticket, queue, taker) => (ticket, queue, taker),
            Joined::Taken(waits) => return Err(waits.bell),
        };
        if let Some(cell) = &cell {
            lock(&cell.inheritance).waits.push((self.clone(), ticket));
        }
        if queue.holder.is_none() {
            let shared = cell.map(|cell| cell.shared.clone()).or_else(current_if_any);
            queue.holder = shared.and_then(|shared| holder(taker, &shared));
        }
        walk(self.lend(queue));
        Ok(ticket)
    }

    /// Whether the turn of one who waited has come; else `bell` rings then, and is the one before.
    fn has_come(&self, ticket: Ticket, bell: &mut Bell) -> bool {
        match self.0.queue().get_mut(ticket) {
            Some(waits) => {
                std::mem::swap(&mut waits.bell, bell);
                false
            }
            None => true,
        }
    }

    /// Who has it gives it to the next, whose bell rings: a foreign one as an errand, since whoever gives the
    /// mutex back may be throttled as soon as its section is over. What is left of the bell ends after that.
    fn pass_on(self: &Arc<Core>) -> Option<Bell> {
        let mut queue = self.0.queue();
        let old = queue.holder.take();
        let next = self.0.pass_on(&mut queue);
        let mut walks = List::new();
        if let Some(old) = old {
            let mut inheritance = lock(&old.inheritance);
            inheritance.set(self, None);
            walks = inheritance.tell(&old);
            drop(inheritance);
            discard(Rubbish::Cell(old));
        }
        let bell = next.map(|(ticket, Waits { bell, cell })| {
            if let Some(cell) = &cell {
                lock(&cell.inheritance).waits_no_more(self, ticket);
            }
            queue.holder = cell;
            bell
        });
        walks.extend(self.lend(queue));
        walk(walks);
        bell.and_then(|bell| bell.ring(None))
    }

    /// Waits no longer, and its bell; none if the turn has come.
    fn leave(self: &Arc<Core>, ticket: Ticket) -> Option<Bell> {
        let mut queue = self.0.queue();
        let Waits { cell, bell } = self.0.leave(&mut queue, ticket)?;
        if let Some(cell) = cell {
            lock(&cell.inheritance).waits_no_more(self, ticket);
            discard(Rubbish::Cell(cell));
        }
        walk(self.lend(queue));
        Some(bell)
    }

    fn release(self: &Arc<Core>, me: Taker) {
        if !self.0.free(me) {
            let bell = without_preemption(|| self.pass_on());
            bell.into_iter().for_each(Bell::end);
        }
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

/// A mutual exclusion for tasks, and for threads that are none, with priority inheritance: a task that
/// has it runs as importantly as the best of those who wait for it, and out of the limits of its groups
/// if those who wait are not in them.
///
/// It is handed to the most important of those who wait, and among equals to who came first. A guard
/// may be kept across an await. A panic while it is locked gives it back like any other end.
///
/// A task that waits for another kind of lock, one of the standard library for instance, lends nothing:
/// the runtime does not know who has that.
///
/// ```
/// use runyard::sync::Mutex;
/// use runyard::{Runtime, Task};
/// use std::sync::Arc;
///
/// let sum = Arc::new(Mutex::new(0));
/// Runtime::new().block_on(async {
///     let important = sum.clone();
///     let task = Task::builder().fifo(50).spawn(async move { *important.lock().await += 1 });
///     *sum.lock().await += 1;
///     task.await.unwrap();
///     assert_eq!(*sum.lock().await, 2);
/// });
/// ```
pub struct Mutex<T> {
    core: Arc<Core>,
    value: Locked<T>,
}

impl<T> Mutex<T> {
    /// One that is not locked.
    pub fn new(value: T) -> Mutex<T> {
        Mutex { core: Arc::new(Core(Turns::new())), value: Locked::new(value) }
    }

    /// Locks it: a future that is ready when the caller's turn has come. Dropping it gives the place in
    /// the queue up.
    pub fn lock(&self) -> Lock<'_, T> {
        Lock { mutex: self, taker: NO_TASK, ticket: None }
    }

    /// Locks it where nothing can be awaited: in a function of [`crate::spawn_blocking`], or on a thread
    /// that is no task. Others have the CPU while it waits.
    pub fn blocking_lock(&self) -> MutexGuard<'_, T> {
        if let Some(guard) = self.try_lock() {
            return guard;
        }
        let waker = Unpark::this_thread();
        let mut lock = pin!(self.lock());
        loop {
            match lock.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(guard) => return guard,
                Poll::Pending => blocking(thread::park),
            }
        }
    }

    /// Locks it, unless somebody has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let me = me();
        self.core.0.take(me).then(|| self.guard(me))
    }

    /// The value, which nobody else can have.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value alone.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    fn guard(&self, taker: Taker) -> MutexGuard<'_, T> {
        let held = self.value.take().expect("one at a time has its turn");
        count(taker, 1);
        MutexGuard { mutex: self, taker, held: Some(held) }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("value", &self.value).finish_non_exhaustive()
    }
}

/// Waits for a [`Mutex`].
#[must_use = "a mutex is locked by the future that is awaited"]
#[derive(Debug)]
pub struct Lock<'a, T> {
    mutex: &'a Mutex<T>,
    taker: Taker,
    /// While it is in the queue, or has its turn without knowing.
    ticket: Option<Ticket>,
}

impl<'a, T> Future for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<MutexGuard<'a, T>> {
        let core = &self.mutex.core;
        let has_come = match self.ticket {
            Some(ticket) => {
                let mut bell = bell_of(cx.waker());
                without_preemption(|| core.has_come(ticket, &mut bell))
            }
            None => {
                let me = me();
                let join = || {
                    let bell = bell_of(cx.waker());
                    // A bell that was not needed goes after the section.
                    let joined = without_preemption(|| core.join(me, bell));
                    joined.ok()
                };
                let ticket = if core.0.take(me) { None } else { join() };
                (self.taker, self.ticket) = (me, ticket);
                ticket.is_none()
            }
        };
        if !has_come {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(self.mutex.guard(self.taker))
    }
}

impl<T> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        let core = &self.mutex.core;
        if let Some(ticket) = self.ticket
            && without_preemption(|| core.leave(ticket)).is_none()
        {
            core.release(self.taker);
        }
    }
}

/// A locked [`Mutex`], which is unlocked when this goes.
#[must_use = "a mutex is locked while its guard lives"]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    taker: Taker,
    /// There until the end.
    held: Option<Held<'a, T>>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("a guard has the value")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("a guard has the value")
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MutexGuard").field(&**self).finish()
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.held = None;
        count(self.taker, -1);
        self.mutex.core.release(self.taker);
    }
}
