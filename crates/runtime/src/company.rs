//! The tasks of a batch beside the one that is polled, and how each of them has one owner (docs/design/dispatch.md).
//!
//! A [`Seat`] is in the cell of a task. It has the box of the task while no run queue has that, and the runnable
//! while the task waits to be polled. A [`Company`] is the list of a CPU's members, by reference: an entry says that
//! there may be a member in that seat. Whoever takes box and runnable out of the seat has the task. The entry that is
//! left then is a tombstone, and is skipped.
//!
//! ```text
//!            leave                  join                 take_to_poll
//!   Away ------------> Parked -------------> Member -----------------> Polled
//!    ^ \                 | wake                | claim                   | end_poll
//!    |  note             v                     v                         v
//!    +-------------------+---------------------+-------------------------+
//! ```
//!
//! The runtime does not dispatch in batches yet. The models come first.
//!
//! Lock order: list, seat. Nothing is locked under a seat.
//!
//! Invariants, modelled in loom: of all who want a task one gets it; a wake-up ends in one poll; nothing joins a
//! company that is over.

use crate::primitives::{Arc, Mutex, lock};
use std::collections::VecDeque;

/// Where a task is while it is in no run queue: its box `B`, and its runnable `R` while it waits to be polled.
#[derive(Debug)]
pub(crate) enum Place<B, R> {
    /// In a run queue, polled from there, or on its way. A wake-up that comes meanwhile is noted.
    Away { noted: Option<R> },
    /// Blocked.
    Parked(B),
    /// It waits in a company.
    Member(B, R),
    /// A member that is polled. A wake-up that comes meanwhile is noted.
    Polled { task: B, noted: Option<R> },
}

/// The part of a cell that says who has the task.
#[derive(Debug)]
pub(crate) struct Seat<B, R>(Mutex<Place<B, R>>);

/// What a wake-up came to.
#[derive(Debug)]
pub(crate) enum Woken<B, R> {
    /// Whoever has the task will find it.
    Noted,
    /// The caller has the task.
    Taken(B, R),
}

impl<B, R> Seat<B, R> {
    pub(crate) fn new(place: Place<B, R>) -> Seat<B, R> {
        Seat(Mutex::new(place))
    }

    /// The task is woken. At most one wake-up is on its way at a time.
    pub(crate) fn wake(&self, runnable: R) -> Woken<B, R> {
        let mut place = lock(&self.0);
        match std::mem::replace(&mut *place, Place::Away { noted: None }) {
            Place::Parked(task) => Woken::Taken(task, runnable),
            Place::Away { noted: None } => {
                *place = Place::Away { noted: Some(runnable) };
                Woken::Noted
            }
            Place::Polled { task, noted: None } => {
                *place = Place::Polled { task, noted: Some(runnable) };
                Woken::Noted
            }
            Place::Member(..) | Place::Away { .. } | Place::Polled { .. } => {
                unreachable!("a task is woken once at a time")
            }
        }
    }

    /// The task has blocked and left its run queue. It is given back if it was woken meanwhile.
    pub(crate) fn leave(&self, task: B) -> Option<(B, R)> {
        let mut place = lock(&self.0);
        match std::mem::replace(&mut *place, Place::Away { noted: None }) {
            Place::Away { noted: Some(runnable) } => Some((task, runnable)),
            Place::Away { noted: None } => {
                *place = Place::Parked(task);
                None
            }
            _ => unreachable!("a task has one box"),
        }
    }

    /// The member is to be polled: its runnable. `None` if another has taken it.
    pub(crate) fn take_to_poll(&self) -> Option<R> {
        let mut place = lock(&self.0);
        match std::mem::replace(&mut *place, Place::Away { noted: None }) {
            Place::Member(task, runnable) => {
                *place = Place::Polled { task, noted: None };
                Some(runnable)
            }
            other => {
                *place = other;
                None
            }
        }
    }

    /// The poll of a member is over, or the batch ends in its name: its box, and its runnable if it was woken
    /// meanwhile. `None` if another has ended the batch in its name.
    pub(crate) fn end_poll(&self) -> Option<(B, Option<R>)> {
        let mut place = lock(&self.0);
        match std::mem::replace(&mut *place, Place::Away { noted: None }) {
            Place::Polled { task, noted } => Some((task, noted)),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Takes a member: for another CPU, for a request, or as its batch is over. `None` if another has.
    pub(crate) fn claim(&self) -> Option<(B, R)> {
        let mut place = lock(&self.0);
        match std::mem::replace(&mut *place, Place::Away { noted: None }) {
            Place::Member(task, runnable) => Some((task, runnable)),
            other => {
                *place = other;
                None
            }
        }
    }

    fn seat(&self, task: B, runnable: R) {
        *lock(&self.0) = Place::Member(task, runnable);
    }
}

/// Which batch of a CPU, and by whom it is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch(pub(crate) u64);

/// The members of a CPU's batch, in the order in which they are polled.
#[derive(Debug)]
pub(crate) struct Company<S> {
    list: Mutex<List<S>>,
}

#[derive(Debug)]
struct List<S> {
    /// The batch that is open.
    open: Option<Batch>,
    entries: VecDeque<Arc<S>>,
}

/// At which end of its company a task joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Front,
    Back,
}

impl<B, R> Company<Seat<B, R>> {
    pub(crate) fn new() -> Company<Seat<B, R>> {
        Company { list: Mutex::new(List { open: None, entries: VecDeque::with_capacity(64) }) }
    }

    /// A batch begins.
    pub(crate) fn open(&self, batch: Batch) {
        lock(&self.list).open = Some(batch);
    }

    /// A task joins the company of a batch. It is given back if that is over.
    pub(crate) fn join(
        &self,
        batch: Batch,
        seat: &Arc<Seat<B, R>>,
        (task, runnable): (B, R),
        at: At,
    ) -> Result<(), (B, R)> {
        let mut list = lock(&self.list);
        if list.open != Some(batch) {
            return Err((task, runnable));
        }
        seat.seat(task, runnable);
        match at {
            At::Front => list.entries.push_front(seat.clone()),
            At::Back => list.entries.push_back(seat.clone()),
        }
        Ok(())
    }

    /// The next to be polled, in the batch that the caller polls.
    pub(crate) fn next(&self, batch: Batch) -> Option<(Arc<Seat<B, R>>, R)> {
        loop {
            let seat = {
                let mut list = lock(&self.list);
                if list.open != Some(batch) {
                    return None;
                }
                list.entries.pop_front()?
            };
            if let Some(runnable) = seat.take_to_poll() {
                return Some((seat, runnable));
            }
        }
    }

    /// Takes up to `most` members for another CPU.
    pub(crate) fn steal(&self, most: usize) -> Vec<(B, R)> {
        let taken: Vec<_> = {
            let mut list = lock(&self.list);
            let half = list.entries.len().div_ceil(2).min(most);
            list.entries.drain(..half).collect()
        };
        taken.iter().filter_map(|seat| seat.claim()).collect()
    }

    /// The batch is over, if it is the one that is open: whoever was in its company is the caller's.
    pub(crate) fn close(&self, batch: Batch) -> Option<Vec<(B, R)>> {
        let entries = {
            let mut list = lock(&self.list);
            if list.open != Some(batch) {
                return None;
            }
            list.open = None;
            std::mem::take(&mut list.entries)
        };
        Some(entries.iter().filter_map(|seat| seat.claim()).collect())
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::primitives::{AtomicU32, Ordering};
    use loom::thread;

    const BATCH: Batch = Batch(7);

    /// A task, as box and as runnable.
    #[derive(Debug)]
    struct Boxed;
    #[derive(Debug)]
    struct Runnable;

    type TaskSeat = Seat<Boxed, Runnable>;

    struct World {
        company: Company<TaskSeat>,
        seat: Arc<TaskSeat>,
        /// How often the task was polled, or given to a run queue that will have it polled.
        polls: AtomicU32,
    }

    impl World {
        fn new(place: Place<Boxed, Runnable>) -> Arc<World> {
            let (company, seat) = (Company::new(), Arc::new(Seat::new(place)));
            company.open(BATCH);
            Arc::new(World { company, seat, polls: AtomicU32::new(0) })
        }

        fn with_member() -> Arc<World> {
            let world = World::new(Place::Away { noted: None });
            world.company.join(BATCH, &world.seat, (Boxed, Runnable), At::Back).unwrap();
            world
        }

        fn is_polled(&self) {
            self.polls.fetch_add(1, Ordering::SeqCst);
        }

        fn gives_to_engine(&self, tasks: impl IntoIterator<Item = (Boxed, Runnable)>) {
            tasks.into_iter().for_each(|_| self.is_polled());
        }

        /// Wakes the task from a poll of the batch.
        fn wakes(&self) {
            if let Woken::Taken(task, runnable) = self.seat.wake(Runnable) {
                let joined = self.company.join(BATCH, &self.seat, (task, runnable), At::Front);
                self.gives_to_engine(joined.err());
            }
        }

        /// The worker polls whoever is next, and each of them blocks.
        fn works(&self) {
            while let Some((seat, _)) = self.company.next(BATCH) {
                self.is_polled();
                if let Some((task, noted)) = seat.end_poll() {
                    match noted {
                        Some(runnable) => {
                            let joined =
                                self.company.join(BATCH, &seat, (task, runnable), At::Back);
                            self.gives_to_engine(joined.err());
                        }
                        None => self.gives_to_engine(seat.leave(task)),
                    }
                }
            }
        }

        fn ends(&self) {
            self.gives_to_engine(self.company.close(BATCH).into_iter().flatten());
        }

        fn polls(&self) -> u32 {
            self.polls.load(Ordering::SeqCst)
        }
    }

    /// The worker polls, a thief takes, and a requester claims.
    #[test]
    fn of_all_who_want_a_member_one_gets_it() {
        loom::model(|| {
            let world = World::with_member();
            let (thief, requester) = (world.clone(), world.clone());
            let thief = thread::spawn(move || thief.gives_to_engine(thief.company.steal(8)));
            let requester =
                thread::spawn(move || requester.gives_to_engine(requester.seat.claim()));
            world.works();
            thief.join().unwrap();
            requester.join().unwrap();
            world.ends();
            assert_eq!(world.polls(), 1, "it is polled once");
        });
    }

    /// A member is woken while it is polled or after it has blocked.
    #[test]
    fn a_wake_up_beside_a_poll_ends_in_another_one() {
        loom::model(|| {
            let world = World::with_member();
            let (seat, runnable) = world.company.next(BATCH).expect("it is the only one");
            drop(runnable);
            world.is_polled();
            let other = world.clone();
            let waker = thread::spawn(move || other.wakes());
            if let Some((task, noted)) = seat.end_poll() {
                let back = match noted {
                    Some(runnable) => Some((task, runnable)),
                    None => seat.leave(task),
                };
                if let Some(back) = back {
                    let joined = world.company.join(BATCH, &seat, back, At::Back);
                    world.gives_to_engine(joined.err());
                }
            }
            world.works();
            waker.join().unwrap();
            world.works();
            assert_eq!(world.polls(), 2, "once before, once after");
        });
    }

    /// A parked task is woken from a poll while the batch ends, as its thread was stopped.
    #[test]
    fn nothing_joins_a_company_that_is_over() {
        loom::model(|| {
            let world = World::new(Place::Parked(Boxed));
            let other = world.clone();
            let waker = thread::spawn(move || other.wakes());
            world.ends();
            waker.join().unwrap();
            assert_eq!(world.polls(), 1, "it went to the engine, before or after");
            assert!(world.company.next(BATCH).is_none());
        });
    }

    /// The thread that took over the slot ends the batch, and the one that polled comes back.
    #[test]
    fn a_batch_ends_once() {
        loom::model(|| {
            let world = World::with_member();
            let other = world.clone();
            let taker = thread::spawn(move || other.company.close(BATCH).is_some());
            let own = world.company.close(BATCH).is_some();
            let taken = taker.join().unwrap();
            assert!(own != taken, "own {own}, taken {taken}");
        });
    }

    /// The polled member's batch is ended in its name by a requester while its poll ends.
    #[test]
    fn a_batch_ends_in_one_name() {
        loom::model(|| {
            let world = World::with_member();
            let (seat, _) = world.company.next(BATCH).expect("it is the only one");
            let other = seat.clone();
            let requester = thread::spawn(move || other.end_poll().is_some());
            let own = seat.end_poll().is_some();
            let named = requester.join().unwrap();
            assert!(own != named, "own {own}, named {named}");
        });
    }
}
