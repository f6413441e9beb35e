//! Whose turn it is to have a mutex: one word, and a queue of those who wait, the best first and among
//! equals who came first.
//!
//! ```text
//!  take     word: 0 -> me
//!  free     word: me -> 0
//!  join     with the queue's lock:  word: 0 -> me, or WAITERS is set and one more waits
//!  pass on  with the queue's lock:  word: me, WAITERS -> the best of the queue, WAITERS if others wait; or 0
//!  leave    with the queue's lock:  one less waits, and WAITERS is cleared with the last
//! ```
//!
//! WAITERS is changed with the queue's lock only, so who finds it set there may rely on it. Without it
//! nobody waits, and a mutex costs two compare-and-swaps.
//!
//! A mutex is handed over: whoever waited longest among the best has it from the moment at which it is
//! given back. (Rejected: waking the next and letting it compete with whoever comes meanwhile. There is
//! more throughput in that, and no bound on how long the most important one waits.)
//!
//! Invariants, modelled in loom: one at a time has it; whoever waits has it some time, or leaves.

use crate::primitives::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use runyard_engine::attr::RtPrio;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Who has a mutex, as a word; none is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taker(pub(crate) u64);

/// Somebody waits.
const WAITERS: u64 = 1 << 63;

/// A place in one queue, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Whose turn it is. `W` is what is known of who waits, `H` of who has it.
pub(crate) struct Turns<W, H> {
    word: AtomicU64,
    queue: Mutex<Queue<W, H>>,
}

/// Who waits.
pub(crate) struct Queue<W, H> {
    next: u64,
    waiters: BTreeMap<Ticket, Waiting<W>>,
    order: BTreeSet<Rank>,
    /// Who has it, once somebody wanted to know.
    pub(crate) holder: Option<H>,
}

type Rank = (Reverse<Option<RtPrio>>, Ticket);

struct Waiting<W> {
    taker: Taker,
    prio: Option<RtPrio>,
    who: W,
}

/// What came of wanting to have it.
pub(crate) enum Joined<'a, W, H> {
    /// It was free; what is known of who wanted it.
    Taken(W),
    /// The queue with one more, and who has it.
    Waits(Ticket, MutexGuard<'a, Queue<W, H>>, Taker),
}

impl<W, H> Turns<W, H> {
    pub(crate) fn new() -> Turns<W, H> {
        let (waiters, order) = (BTreeMap::new(), BTreeSet::new());
        let queue = Queue { next: 0, waiters, order, holder: None };
        Turns { word: AtomicU64::new(0), queue: Mutex::new(queue) }
    }

    /// Takes it, if it is free.
    pub(crate) fn take(&self, me: Taker) -> bool {
        self.word.compare_exchange(0, me.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives it back, if nobody waits.
    pub(crate) fn free(&self, me: Taker) -> bool {
        self.word.compare_exchange(me.0, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue<W, H>> {
        lock(&self.queue)
    }

    /// Takes it, or waits for it.
    pub(crate) fn join(&self, me: Taker, prio: Option<RtPrio>, who: W) -> Joined<'_, W, H> {
        let mut queue = self.queue();
        let claim = |word| if word == 0 { me.0 } else { word | WAITERS };
        let claimed = |word| Some(claim(word));
        let word = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, claimed);
        let word = word.unwrap_or_else(|_| unreachable!("there is always a next word"));
        if word == 0 {
            return Joined::Taken(who);
        }
        let ticket = Ticket(queue.next);
        queue.next += 1;
        queue.waiters.insert(ticket, Waiting { taker: me, prio, who });
        queue.order.insert((Reverse(prio), ticket));
        Joined::Waits(ticket, queue, Taker(word & !WAITERS))
    }

    /// Gives it to the best of those who wait, in whose name the caller has locked the queue; or to
    /// nobody, if all have left.
    pub(crate) fn pass_on(&self, queue: &mut Queue<W, H>) -> Option<(Ticket, W)> {
        let best = queue.order.pop_first();
        let next = best.and_then(|(_, ticket)| Some((ticket, queue.waiters.remove(&ticket)?)));
        let more = if queue.waiters.is_empty() { 0 } else { WAITERS };
        let word = next.as_ref().map_or(0, |(_, next)| next.taker.0 | more);
        self.word.store(word, Ordering::Release);
        next.map(|(ticket, next)| (ticket, next.who))
    }

    /// Waits no longer; what was known of it, unless its turn has come.
    pub(crate) fn leave(&self, queue: &mut Queue<W, H>, ticket: Ticket) -> Option<W> {
        let Waiting { prio, who, .. } = queue.waiters.remove(&ticket)?;
        queue.order.remove(&(Reverse(prio), ticket));
        if queue.waiters.is_empty() {
            self.word.fetch_and(!WAITERS, Ordering::AcqRel);
        }
        Some(who)
    }
}

impl<W, H> Queue<W, H> {
    /// One that waits still.
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut W> {
        self.waiters.get_mut(&ticket).map(|waiting| &mut waiting.who)
    }

    /// Who waits, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &W> {
        self.waiters.values().map(|waiting| &waiting.who)
    }

    /// The priority of the best.
    pub(crate) fn best(&self) -> Option<RtPrio> {
        self.order.first().and_then(|&(Reverse(prio), _)| prio)
    }

    /// One that waits has another priority. Behind the others of that, unless it came before them.
    pub(crate) fn set_prio(&mut self, ticket: Ticket, prio: Option<RtPrio>) {
        let Some(waiting) = self.waiters.get_mut(&ticket) else { return };
        let old = std::mem::replace(&mut waiting.prio, prio);
        self.order.remove(&(Reverse(old), ticket));
        self.order.insert((Reverse(prio), ticket));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_next_and_among_equals_who_came_first() {
        let turns = Turns::<u8, ()>::new();
        assert!(turns.take(Taker(1)) && !turns.take(Taker(2)));
        let mut tickets = Vec::new();
        for (who, prio) in [(10, None), (11, RtPrio::new(5)), (12, RtPrio::new(5)), (13, None)] {
            match turns.join(Taker(who.into()), prio, who) {
                Joined::Waits(ticket, _, holder) => {
                    assert_eq!(holder, Taker(1));
                    tickets.push(ticket);
                }
                Joined::Taken(_) => unreachable!("somebody has it"),
            }
        }
        let mut queue = turns.queue();
        queue.set_prio(tickets[3], RtPrio::new(9));
        assert_eq!(queue.best(), RtPrio::new(9));
        let next: Vec<_> =
            std::iter::from_fn(|| turns.pass_on(&mut queue)).map(|next| next.1).collect();
        assert_eq!(next, [13, 11, 12, 10]);
        assert!(turns.take(Taker(7)), "nobody waits any more");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitives::{Arc, AtomicU32};
    use loom::sync::Notify;
    use loom::thread;

    /// What the mutex guards is added to in two steps without an order of their own, so it is wrong in
    /// the end if two did so at a time, or one did not see what the other had done.
    struct World {
        turns: Turns<Arc<Notify>, ()>,
        value: AtomicU32,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World { turns: Turns::new(), value: AtomicU32::new(0) })
        }

        /// Has it once, however long that takes.
        fn once(&self, me: Taker) {
            let bell = Arc::new(Notify::new());
            if !self.turns.take(me)
                && let Joined::Waits(ticket, queue, _) = self.turns.join(me, None, bell.clone())
            {
                drop(queue);
                while self.turns.queue().get_mut(ticket).is_some() {
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
            if !self.turns.free(me) {
                let next = self.turns.pass_on(&mut self.turns.queue());
                if let Some((_, bell)) = next {
                    bell.notify();
                }
            }
        }

        /// Wants it, and leaves if its turn has not come by then.
        fn perhaps(&self, me: Taker) -> u32 {
            let bell = Arc::new(Notify::new());
            if let Joined::Waits(ticket, queue, _) = self.turns.join(me, None, bell) {
                drop(queue);
                if self.turns.leave(&mut self.turns.queue(), ticket).is_some() {
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

    /// Three threads, of which few ways to go wrong take more than three preemptions: without a bound
    /// these models take minutes.
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
            assert!(world.turns.take(Taker(9)), "it is free in the end");
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
            assert!(world.turns.take(Taker(9)), "it is free in the end");
        });
    }
}
