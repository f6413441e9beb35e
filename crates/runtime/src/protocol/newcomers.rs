//! New tasks that have never been polled, on their way to a CPU (docs/design/dispatch.md).
//!
//! A newcomer has its place on the virtual clock of its CPU, which it got on arrival, and a clock never runs back. So
//! newcomers in the order of their arrival are in the order of the run queue, without a heap. The engine knows at most
//! the first of them: the owner of the slot gives it to the engine before each decision. It takes others into its batch
//! as long as they go before all other tasks.
//!
//! ```text
//!   any thread  push; then it asks the owner, if that sleeps or is in tokio's driver
//!   owner       take: to its batch, or one to the engine; after it marks that it sleeps or drives, it checks `len`
//!   thief       take          requester   claim
//! ```
//!
//! (Rejected: to ring an owner in the runtime's own code as well. A thread that spawns many tasks in a row would ring
//! it each time that it is about to poll, and the owner would check and decide again.)
//!
//! Invariants, modelled in loom: of all threads that want a newcomer, one gets it; the owner sees a newcomer before it
//! sleeps or drives, or is asked. The lock is held for some moves of pointers, and for no allocation: `reserve` exchanges memory
//! that its caller brings.

use crate::os::sync::{AtomicU64, Mutex, Ordering, lock};
use std::collections::VecDeque;

/// The place that means "no newcomer".
const NOBODY: u64 = u64::MAX;

/// The most newcomers that are examined in one hold of the lock.
const LOOKED_AT: usize = 64;

/// The newcomers of one CPU, each with its place on the virtual clock.
#[derive(Debug)]
pub(crate) struct Newcomers<T> {
    rear: Rear<T>,
    front: Front,
}

/// The fields that a push writes, away from those that the owner reads between two polls.
#[derive(Debug)]
#[repr(align(128))]
struct Rear<T> {
    list: Mutex<List<T>>,
    /// The number of newcomers. Written under the lock.
    len: AtomicU64,
}

/// The fields that change when newcomers leave, or when one comes to an empty list.
#[derive(Debug)]
#[repr(align(128))]
struct Front {
    /// The place of the first newcomer. Written under the lock.
    first: AtomicU64,
    /// The time at which the owner last took newcomers for its batch.
    taken_at: AtomicU64,
}

#[derive(Debug)]
struct List<T> {
    waiting: VecDeque<(u64, T)>,
    /// The number of newcomers that have ever left at the front.
    left: u64,
}

impl<T> Newcomers<T> {
    pub(crate) fn new(room: usize) -> Newcomers<T> {
        let list = List { waiting: VecDeque::with_capacity(room), left: 0 };
        let rear = Rear { list: Mutex::new(list), len: AtomicU64::new(0) };
        let front = Front { first: AtomicU64::new(NOBODY), taken_at: AtomicU64::new(0) };
        Newcomers { rear, front }
    }

    /// Returns the number of newcomers. It is in one order with the accesses to the slot's word.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rear.len.load(Ordering::SeqCst) as usize
    }

    /// Returns the place of the first newcomer, as far as is known without the lock.
    #[inline]
    pub(crate) fn first(&self) -> Option<u64> {
        let first = self.front.first.load(Ordering::Acquire);
        (first != NOBODY).then_some(first)
    }

    /// Returns the time at which the owner last took newcomers, as it stored it.
    pub(crate) fn taken_at(&self) -> u64 {
        self.front.taken_at.load(Ordering::Relaxed)
    }

    /// Stores the time at which the owner took newcomers.
    pub(crate) fn note_taken(&self, at: u64) {
        self.front.taken_at.store(at, Ordering::Relaxed);
    }

    /// Calls `look` with the first newcomer.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        lock(&self.rear.list).waiting.front().map(|(_, task)| look(task))
    }

    /// Adds a newcomer, and returns how many there are then. Returns the task if there is no room.
    pub(crate) fn push(&self, place: u64, task: T) -> Result<usize, T> {
        let mut list = lock(&self.rear.list);
        if list.waiting.len() == list.waiting.capacity() {
            return Err(task);
        }
        list.waiting.push_back((place.min(NOBODY - 1), task));
        self.count(&mut list);
        Ok(list.waiting.len())
    }

    /// Passes the first newcomers to `to`, at most `most` of them, and none beyond `bound`. `to` runs under the lock.
    /// Returns how many were taken.
    pub(crate) fn take(&self, most: usize, bound: u64, mut to: impl FnMut(T)) -> usize {
        let mut list = lock(&self.rear.list);
        let mut taken = 0;
        while taken < most && list.waiting.front().is_some_and(|&(place, _)| place <= bound) {
            let Some((_, task)) = list.waiting.pop_front() else { break };
            to(task);
            taken += 1;
        }
        list.left += taken as u64;
        self.count(&mut list);
        taken
    }

    /// Takes the first newcomer.
    pub(crate) fn take_first(&self) -> Option<T> {
        let mut list = lock(&self.rear.list);
        let (_, task) = list.waiting.pop_front()?;
        list.left += 1;
        self.count(&mut list);
        Some(task)
    }

    /// Takes the newcomer that `is_it` accepts. Other threads may take the lock while the list is searched.
    pub(crate) fn claim(&self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let mut next = 0;
        loop {
            let mut list = lock(&self.rear.list);
            let from = u64::max(next, list.left);
            let skipped = usize::try_from(from - list.left).unwrap_or(usize::MAX);
            let mut some = list.waiting.iter().skip(skipped).take(LOOKED_AT);
            let looked_at = some.len();
            if let Some(nth) = some.position(|(_, task)| is_it(task)) {
                let found = list.waiting.remove(skipped + nth);
                self.count(&mut list);
                return found.map(|(_, task)| task);
            }
            if looked_at < LOOKED_AT {
                return None;
            }
            next = from + looked_at as u64;
        }
    }

    /// Enlarges the list to the room of `memory`, by an exchange of the two.
    pub(crate) fn reserve(&self, memory: &mut VecDeque<(u64, T)>) {
        let mut list = lock(&self.rear.list);
        if memory.capacity() > list.waiting.capacity() {
            memory.append(&mut list.waiting);
            std::mem::swap(&mut list.waiting, memory);
        }
    }

    fn count(&self, list: &mut List<T>) {
        if list.waiting.is_empty() {
            // The next newcomer goes to the place where the first one was. There is room for all live tasks, and a
            // place costs memory only once it is used.
            list.waiting.clear();
        }
        let first = list.waiting.front().map_or(NOBODY, |&(place, _)| place);
        // A store takes the cache line from the owner even if it changes nothing.
        if self.front.first.load(Ordering::Relaxed) != first {
            self.front.first.store(first, Ordering::Release);
        }
        self.rear.len.store(list.waiting.len() as u64, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn with(places: &[u64]) -> Newcomers<u64> {
        let newcomers = Newcomers::new(1_000);
        places.iter().for_each(|&place| _ = newcomers.push(place, place).unwrap());
        newcomers
    }

    #[test]
    fn those_that_are_not_beyond_the_bound_are_taken_in_order() {
        let newcomers = with(&[3, 4, 4, 6]);
        assert_eq!((newcomers.len(), newcomers.first()), (4, Some(3)));
        let mut taken = Vec::new();
        newcomers.take(2, 5, |task| taken.push(task));
        assert_eq!(taken, [3, 4]);
        newcomers.take(8, 5, |task| taken.push(task));
        assert_eq!(taken, [3, 4, 4]);
        assert_eq!((newcomers.first(), newcomers.take_first()), (Some(6), Some(6)));
        assert_eq!((newcomers.len(), newcomers.first()), (0, None));
    }

    #[test]
    fn one_that_is_claimed_is_found_wherever_it_is() {
        let all: Vec<_> = (0..300).collect();
        for wanted in [0, 63, 64, 65, 299] {
            let newcomers = with(&all);
            assert_eq!(newcomers.claim(|&it| it == wanted), Some(wanted));
            assert_eq!(newcomers.claim(|&it| it == wanted), None);
            assert_eq!(newcomers.len(), 299);
        }
    }

    #[test]
    fn without_room_it_is_given_back_and_more_room_keeps_the_others() {
        let newcomers = Newcomers::new(0);
        assert_eq!(newcomers.push(1, 1), Err(1));
        newcomers.reserve(&mut VecDeque::with_capacity(2));
        newcomers.push(1, 1).unwrap();
        newcomers.reserve(&mut VecDeque::with_capacity(100));
        newcomers.push(2, 2).unwrap();
        assert_eq!((newcomers.take_first(), newcomers.take_first()), (Some(1), Some(2)));
    }

    #[test]
    fn one_that_comes_after_all_have_left_has_the_memory_of_the_first() {
        let newcomers = with(&[]);
        let push = |place| {
            newcomers.push(place, place).unwrap();
            newcomers.look(|task| (&raw const *task).addr())
        };
        let first = push(1);
        assert_eq!((newcomers.take_first(), push(2)), (Some(1), first));
        assert_eq!((newcomers.take(8, 8, drop), push(3)), (1, first));
        assert_eq!((newcomers.claim(|&it| it == 3), push(4)), (Some(3), first));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::os::sync::Arc;
    use crate::protocol::handoff::{Ring, Slot, WorkerId};
    use loom::sync::atomic::fence;
    use loom::thread;

    #[test]
    fn of_all_who_want_a_newcomer_one_gets_it() {
        loom::model(|| {
            let newcomers = Arc::new(Newcomers::new(2));
            newcomers.push(1, 7).unwrap();
            let (thief, requester) = (newcomers.clone(), newcomers.clone());
            let thief = thread::spawn(move || {
                let mut taken = Vec::new();
                thief.take(2, u64::MAX, |task| taken.push(task));
                taken.len()
            });
            let requester = thread::spawn(move || requester.claim(|&it| it == 7).iter().count());
            let own = newcomers.take_first().iter().count();
            assert_eq!(own + thief.join().unwrap() + requester.join().unwrap(), 1);
            assert_eq!((newcomers.len(), newcomers.first()), (0, None));
        });
    }

    /// The owner marks that it is away, and then checks; another thread pushes, and asks an owner that is away. The
    /// accesses are in one order, as all are `SeqCst`; the model checker honours that only for fences.
    #[test]
    fn a_newcomer_is_seen_or_the_owner_is_woken() {
        the_owner_goes_away(|slot| assert!(slot.fall_asleep(false).is_some(), "nobody asks it"));
    }

    /// Seen failing: a newcomer waited for as long as a waker computed in the driver.
    #[test]
    fn a_newcomer_is_seen_or_the_owner_is_called_in_the_driver() {
        the_owner_goes_away(|slot| assert!(slot.drive(), "nobody asks it"));
    }

    fn the_owner_goes_away(goes: impl Fn(&Slot) + Send + Sync + 'static) {
        loom::model(move || {
            const OWNER: WorkerId = WorkerId(0);
            let world = Arc::new((Slot::new(OWNER), Newcomers::new(2)));
            assert!(world.0.enter(OWNER));
            let other = world.clone();
            let pusher = thread::spawn(move || {
                let (slot, newcomers) = &*other;
                newcomers.push(1, 7).unwrap();
                fence(Ordering::SeqCst);
                if slot.is_away() {
                    slot.request();
                }
            });
            let (slot, newcomers) = &*world;
            assert!(slot.leave(OWNER).is_some());
            goes(slot);
            fence(Ordering::SeqCst);
            let sees = newcomers.len() > 0;
            pusher.join().unwrap();
            assert!(sees || slot.is_called(), "the owner is away, and was not asked");
        });
    }
}
