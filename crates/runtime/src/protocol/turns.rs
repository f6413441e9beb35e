//! The holder of a mutex and its waiters: one word, and a queue with the best priority first, and the earliest arrival
//! first among equals.
//!
//! ```text
//!  take     word: 0 -> me
//!  free     word: me -> 0
//!  join     with the queue's lock:  word: 0 -> me; otherwise WAITERS is set and the queue has one more waiter
//!  pass on  with the queue's lock:  word: me, WAITERS -> the best of the queue, with WAITERS if others wait; or 0
//!  leave    with the queue's lock:  the queue has one waiter less; WAITERS is cleared with the last one
//! ```
//!
//! WAITERS changes only under the queue's lock, so a thread that holds that lock and finds it set may rely on it.
//! Without it no task waits, and a mutex costs two compare-and-swaps.
//!
//! A mutex is handed over: the longest waiter among those of the best priority has it from the moment at which it is
//! released. (Rejected: to wake the next waiter and let it compete with new arrivals. That gives more throughput, but
//! no bound on the wait of the most important task.)
//!
//! Invariants, modelled in loom: one task at a time has the mutex; every waiter gets it some time, or leaves.

use crate::os::list::List;
use crate::os::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::protocol::places::Places;
use runyard_engine::attr::RtPrio;
use std::cmp::Reverse;

/// The holder of a mutex, as a word; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taker(pub(crate) u64);

/// Tasks wait.
const WAITERS: u64 = 1 << 63;

/// The ticket of a waiter; no other waiter of the same queue ever has the same. Tickets are in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    nth: u64,
    place: usize,
}

/// The holder of a mutex, and whether tasks wait for it.
pub(crate) struct Word(AtomicU64);

/// The waiters of a mutex, which has one word and one line. `W` is the data of a waiter, `H` that of the holder.
pub(crate) struct Line<W, H>(Mutex<Queue<W, H>>);

/// The waiters.
pub(crate) struct Queue<W, H> {
    /// The number of arrivals so far.
    came: u64,
    waiters: Places<Waiting<W>>,
    /// A binary heap: no rank is before that of its parent, at half the index. The old ranks of waiters that left or
    /// changed their priority stay until they are first, or make up more than half. So the first rank is a present
    /// waiter's.
    order: List<Rank>,
    /// The holder, once a thread has asked for it.
    pub(crate) holder: Option<H>,
}

type Rank = (Reverse<Option<RtPrio>>, Ticket);

struct Waiting<W> {
    nth: u64,
    taker: Taker,
    prio: Option<RtPrio>,
    who: W,
}

/// The result of an attempt to take a mutex.
pub(crate) enum Joined<'a, W, H> {
    /// The mutex was free. Returns the data of the attempt.
    Taken(W),
    /// The ticket, the locked queue, which now contains the waiter, and the holder.
    Waits(Ticket, MutexGuard<'a, Queue<W, H>>, Taker),
}

impl Word {
    /// Makes the word of a free mutex.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Word {
        Word(AtomicU64::new(0))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Word {
        Word(AtomicU64::new(0))
    }

    /// Takes the mutex if it is free. Returns whether it did.
    pub(crate) fn take(&self, me: Taker) -> bool {
        self.0.compare_exchange(0, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Releases the mutex if no task waits. Returns whether it did.
    pub(crate) fn free(&self, me: Taker) -> bool {
        self.0.compare_exchange(me.0, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

impl<W, H> Line<W, H> {
    pub(crate) fn new() -> Line<W, H> {
        let (waiters, order) = (Places::default(), List::new());
        Line(Mutex::new(Queue { came: 0, waiters, order, holder: None }))
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<W, H>> {
        lock(&self.0)
    }

    /// Takes the mutex, or joins its queue.
    pub(crate) fn join(
        &self,
        word: &Word,
        me: Taker,
        prio: Option<RtPrio>,
        who: W,
    ) -> Joined<'_, W, H> {
        let mut queue = self.queue();
        let claim = |word| if word == 0 { me.0 } else { word | WAITERS };
        let claimed = |word| Some(claim(word));
        let word = word.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, claimed);
        let word = word.unwrap_or_else(|_| unreachable!("there is always a next word"));
        if word == 0 {
            return Joined::Taken(who);
        }
        let ticket = queue.enter(me, prio, who);
        Joined::Waits(ticket, queue, Taker(word & !WAITERS))
    }
}

impl<W, H> Queue<W, H> {
    /// Gives the mutex to the best waiter, with the queue locked by the caller on the holder's behalf. Frees it if all
    /// waiters have left.
    pub(crate) fn pass_on(&mut self, word: &Word) -> Option<(Ticket, W)> {
        let best = self.order.first().map(|&(_, ticket)| ticket);
        let next = best.and_then(|ticket| Some((ticket, self.remove(ticket)?)));
        let more = if self.waiters.len() == 0 { 0 } else { WAITERS };
        let taken = next.as_ref().map_or(0, |(_, next)| next.taker.0 | more);
        word.0.store(taken, Ordering::Release);
        next.map(|(ticket, next)| (ticket, next.who))
    }

    /// Removes a waiter, and returns its data. Returns `None` if its turn has come.
    pub(crate) fn leave(&mut self, word: &Word, ticket: Ticket) -> Option<W> {
        let left = self.remove(ticket)?;
        if self.waiters.len() == 0 {
            word.0.fetch_and(!WAITERS, Ordering::AcqRel);
        }
        Some(left.who)
    }

    fn enter(&mut self, taker: Taker, prio: Option<RtPrio>, who: W) -> Ticket {
        let ticket = Ticket { nth: self.came, place: self.waiters.next() };
        self.came += 1;
        self.waiters.insert(Waiting { nth: ticket.nth, taker, prio, who });
        self.push((Reverse(prio), ticket));
        ticket
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiting<W>> {
        self.waiting(ticket)?;
        let left = self.waiters.remove(ticket.place);
        self.forget_former_ranks();
        Some(left)
    }

    fn waiting(&mut self, ticket: Ticket) -> Option<&mut Waiting<W>> {
        let there = self.waiters.get_mut(ticket.place);
        there.filter(|waiting| waiting.nth == ticket.nth)
    }

    /// Returns the data of a waiter that still waits.
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut W> {
        self.waiting(ticket).map(|waiting| &mut waiting.who)
    }

    /// Returns the data of all waiters, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &W> {
        self.waiters.iter().map(|waiting| &waiting.who)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.len() == 0
    }

    /// Returns the priority of the best waiter.
    pub(crate) fn best(&self) -> Option<RtPrio> {
        self.order.first().and_then(|&(Reverse(prio), _)| prio)
    }

    /// Changes the priority of a waiter. Among waiters of the new priority it keeps its order of arrival.
    pub(crate) fn set_prio(&mut self, ticket: Ticket, prio: Option<RtPrio>) {
        let Some(waiting) = self.waiting(ticket) else { return };
        if std::mem::replace(&mut waiting.prio, prio) != prio {
            self.push((Reverse(prio), ticket));
            self.forget_former_ranks();
        }
    }

    /// Returns whether a present waiter has this rank.
    fn is_of_somebody(waiters: &Places<Waiting<W>>, &(Reverse(prio), ticket): &Rank) -> bool {
        let there = waiters.get(ticket.place);
        there.is_some_and(|waiting| waiting.nth == ticket.nth && waiting.prio == prio)
    }

    fn forget_former_ranks(&mut self) {
        let Queue { waiters, order, .. } = self;
        if order.len() > 2 * waiters.len() {
            order.retain(|rank| Self::is_of_somebody(waiters, rank));
            // A sorted list is a heap.
            order.sort_unstable();
            order.dedup();
        }
        while self.order.first().is_some_and(|first| !Self::is_of_somebody(&self.waiters, first)) {
            self.pop();
        }
    }

    fn push(&mut self, rank: Rank) {
        let mut at = self.order.len();
        self.order.push(rank);
        while at > 0 && self.order[at] < self.order[(at - 1) / 2] {
            self.order.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn pop(&mut self) {
        self.order.swap_remove(0);
        let mut at = 0;
        loop {
            let below = 2 * at + 1..self.order.len().min(2 * at + 3);
            let least = below.min_by_key(|&child| self.order[child]);
            let Some(child) = least.filter(|&child| self.order[child] < self.order[at]) else {
                return;
            };
            self.order.swap(at, child);
            at = child;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rand_pcg::Pcg32;
    use rand_pcg::rand_core::Rng;

    #[test]
    fn the_best_is_next_and_among_equals_who_came_first() {
        let (word, line) = (Word::new(), Line::<u8, ()>::new());
        assert!(word.take(Taker(1)) && !word.take(Taker(2)));
        let mut tickets = Vec::new();
        for (who, prio) in [(10, None), (11, RtPrio::new(5)), (12, RtPrio::new(5)), (13, None)] {
            match line.join(&word, Taker(who.into()), prio, who) {
                Joined::Waits(ticket, _, holder) => {
                    assert_eq!(holder, Taker(1));
                    tickets.push(ticket);
                }
                Joined::Taken(_) => unreachable!("the mutex is taken"),
            }
        }
        let mut queue = line.queue();
        queue.set_prio(tickets[3], RtPrio::new(9));
        assert_eq!(queue.best(), RtPrio::new(9));
        let next: Vec<_> = std::iter::from_fn(|| queue.pass_on(&word)).map(|next| next.1).collect();
        assert_eq!(next, [13, 11, 12, 10]);
        assert!(word.take(Taker(7)), "no task waits any more");
    }

    /// Compares the queue with a list that is sorted anew each time.
    #[test]
    fn the_order_holds_whoever_comes_leaves_or_changes() {
        let mut draws = Pcg32::new(7, 1);
        let (word, line) = (Word::new(), Line::<u32, ()>::new());
        assert!(word.take(Taker(1)));
        let mut model: Vec<(Reverse<Option<RtPrio>>, Ticket)> = Vec::new();
        for who in 0..20_000 {
            let drawn = draws.next_u32();
            let prio = RtPrio::new(i64::from(drawn % 5));
            let at = (drawn >> 16) as usize % model.len().max(1);
            match drawn >> 8 & 7 {
                0..=2 => {
                    let Joined::Waits(ticket, ..) = line.join(&word, Taker(2), prio, who) else {
                        unreachable!("the mutex is taken");
                    };
                    model.push((Reverse(prio), ticket));
                }
                3 | 4 if at < model.len() => {
                    let mut queue = line.queue();
                    queue.set_prio(model[at].1, prio);
                    model[at].0 = Reverse(prio);
                }
                5 if at < model.len() => {
                    let left = model.swap_remove(at).1;
                    assert!(line.queue().leave(&word, left).is_some());
                }
                6 if !model.is_empty() => {
                    model.sort_unstable();
                    let next = line.queue().pass_on(&word).map(|(ticket, _)| ticket);
                    assert_eq!(next, Some(model.remove(0).1));
                }
                _ => {}
            }
            let queue = line.queue();
            assert_eq!(queue.best(), model.iter().min().and_then(|first| first.0.0));
            assert_eq!((queue.iter().count(), queue.is_empty()), (model.len(), model.is_empty()));
            assert!(queue.order.len() <= 2 * model.len() + 1, "old ranks are removed");
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::os::sync::{Arc, AtomicU32};
    use loom::sync::Notify;
    use loom::thread;

    /// A mutex and the number that it guards. An addition takes two steps without an order of their own. So the number
    /// is wrong in the end if two additions overlapped, or one did not see the result of another.
    struct World {
        word: Word,
        line: Line<Arc<Notify>, ()>,
        value: AtomicU32,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World { word: Word::new(), line: Line::new(), value: AtomicU32::new(0) })
        }

        /// Takes the mutex once, however long that takes.
        fn once(&self, me: Taker) {
            let bell = Arc::new(Notify::new());
            if !self.word.take(me)
                && let Joined::Waits(ticket, queue, _) =
                    self.line.join(&self.word, me, None, bell.clone())
            {
                drop(queue);
                while self.line.queue().get_mut(ticket).is_some() {
                    bell.wait();
                }
            }
            self.use_it(me);
        }

        fn use_it(&self, me: Taker) {
            let value = self.value.load(Ordering::Relaxed);
            self.value.store(value + 1, Ordering::Relaxed);
            self.give_back(me);
        }

        fn give_back(&self, me: Taker) {
            if !self.word.free(me) {
                let next = self.line.queue().pass_on(&self.word);
                if let Some((_, bell)) = next {
                    bell.notify();
                }
            }
        }

        /// Tries to take the mutex, and leaves if its turn has not come by then.
        fn perhaps(&self, me: Taker) -> u32 {
            let bell = Arc::new(Notify::new());
            if let Joined::Waits(ticket, queue, _) = self.line.join(&self.word, me, None, bell) {
                drop(queue);
                if self.line.queue().leave(&self.word, ticket).is_some() {
                    return 0;
                }
            }
            self.use_it(me);
            1
        }

        fn value(&self) -> u32 {
            self.value.load(Ordering::Relaxed)
        }
    }

    /// Explores three threads with at most three preemptions: few faults need more, and without a bound these models
    /// take minutes.
    fn explore(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    #[test]
    fn one_at_a_time_has_it_and_all_have_it_some_time() {
        explore(|| {
            let world = World::new();
            let others = [2, 3].map(|me| {
                let world = world.clone();
                thread::spawn(move || world.once(Taker(me)))
            });
            world.once(Taker(1));
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(world.value(), 3);
            assert!(world.word.take(Taker(9)), "the mutex is free in the end");
        });
    }

    #[test]
    fn who_leaves_has_it_or_not_and_keeps_nobody_from_it() {
        explore(|| {
            let world = World::new();
            let leaves = world.clone();
            let leaves = thread::spawn(move || leaves.perhaps(Taker(2)));
            let stays = world.clone();
            let stays = thread::spawn(move || stays.once(Taker(3)));
            world.once(Taker(1));
            let had = leaves.join().unwrap();
            stays.join().unwrap();
            assert_eq!(world.value(), 2 + had);
            assert!(world.word.take(Taker(9)), "the mutex is free in the end");
        });
    }
}
