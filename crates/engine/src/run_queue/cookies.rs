//! The index of the tasks of a run queue by cookie, which finds the best task of a cookie without a
//! walk over all tasks.
//!
//! A *shelf* is the real-time class or one fair queue. Each cookie has a heap on each shelf where
//! it has tasks. So do the tasks without a cookie. The kernel indexes none of these
//! (`sched_core_enqueue`), so a task without a cookie that waits behind a task with a cookie idles
//! with it.
//!
//! A real-time task is in its heap while it is queued, also while it runs. Its order is by priority
//! and then by arrival, as in the lists of its class. A fair task is in its heap while it waits,
//! ordered by vruntime, which stands still while its task waits.
//!
//! The heaps are in one list, ordered by cookie and shelf. An empty heap stays there until the list
//! is full, because its cookie usually returns. With [room](CookieIndex::grow) for each task, at
//! most half of a full list is in use, so nothing here allocates.

use crate::attr::{Cookie, RtPrio};
use crate::fair::entity::QueueId;
use crate::fair::heaps::Key;
use crate::store::column::Column;
use crate::store::heap::{Forest, Heap, Index};
use crate::store::list::End;
use crate::store::move_into;
use crate::time::VTime;

/// The scope in which tasks of a cookie are compared: the real-time class, or one fair queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shelf(u32);

impl Shelf {
    pub(super) const RT: Shelf = Shelf(0);

    pub(super) fn of(queue: QueueId) -> Shelf {
        Shelf(queue.to_bits() + 1)
    }

    /// Returns the fair queue; `None` for the real-time class.
    pub(super) fn queue(self) -> Option<QueueId> {
        self.0.checked_sub(1).map(QueueId::from_bits)
    }
}

/// The key of a heap of [`CookieIndex`].
type Place = (Option<Cookie>, Shelf);

/// The tasks of a run queue, by cookie.
#[derive(Debug)]
pub(super) struct CookieIndex {
    /// The heaps, ordered by place.
    heaps: Vec<(Place, Heap)>,
    nodes: Forest<Key>,
    /// The heap of each task that is in one.
    places: Column<Place>,
    arrivals: u64,
}

impl Default for CookieIndex {
    fn default() -> CookieIndex {
        CookieIndex {
            heaps: Vec::new(),
            nodes: Forest::default(),
            places: Column::new((None, Shelf::RT)),
            arrivals: 0,
        }
    }
}

/// Returns the key of a real-time task among those of its cookie: the most important task is first.
pub(super) fn rt_key(prio: RtPrio) -> VTime {
    VTime(u64::from(u8::MAX - prio.get()))
}

impl CookieIndex {
    /// Makes room for the tasks at `0..len`. Allocates; while there is room, no other method does.
    pub(super) fn grow(&mut self, len: usize) {
        self.heaps.reserve_exact((2 * len).saturating_sub(self.heaps.len()));
        self.nodes.grow(len);
        self.places.grow(len);
    }

    /// Like [`CookieIndex::grow`], up to the room of `room`, whose memory is used. Allocates
    /// nothing.
    pub(super) fn grow_into(&mut self, room: &mut CookieIndex) {
        move_into(&mut self.heaps, &mut room.heaps);
        self.nodes.grow_into(&mut room.nodes);
        self.places.grow_into(&mut room.places);
    }

    /// Removes a task, if it is in the index.
    pub(super) fn remove(&mut self, at: Index) {
        if !self.nodes.contains(at) {
            return;
        }
        let place = self.places[at];
        let nth = self.find(place).expect("a task is in a heap");
        self.nodes.remove(&mut self.heaps[nth].1, at);
    }

    /// Returns where the heap of a place is, or would be.
    fn find(&self, place: Place) -> Result<usize, usize> {
        self.heaps.binary_search_by_key(&place, |&(place, _)| place)
    }

    /// Returns the heap of a place, and creates it if necessary.
    fn heap(&mut self, place: Place) -> usize {
        self.find(place).unwrap_or_else(|nth| self.make_heap(place, nth))
    }

    #[cold]
    fn make_heap(&mut self, place: Place, mut nth: usize) -> usize {
        if self.heaps.len() == self.heaps.capacity() {
            self.heaps.retain(|(_, heap)| heap.first().is_some());
            if 2 * self.heaps.len() > self.heaps.capacity() {
                self.heaps.reserve(self.heaps.len());
            }
            nth = self.heaps.partition_point(|&(other, _)| other < place);
        }
        self.heaps.insert(nth, (place, Heap::default()));
        nth
    }

    /// Puts a fair task that waits in this queue at this vruntime into its heap.
    pub(super) fn put_fair(
        &mut self,
        at: Index,
        cookie: Option<Cookie>,
        (queue, vruntime): (QueueId, VTime),
    ) {
        self.arrivals += 1;
        self.put(at, (cookie, Shelf::of(queue)), Key { at: vruntime, arrival: self.arrivals });
    }

    /// Puts a queued real-time task before or behind its equals.
    pub(super) fn put_rt(&mut self, at: Index, cookie: Option<Cookie>, (prio, end): (RtPrio, End)) {
        self.arrivals += 1;
        let arrival = match end {
            End::Tail => self.arrivals,
            End::Head => self.arrivals.wrapping_neg(),
        };
        let key = Key { at: rt_key(prio), arrival: arrival ^ (1 << 63) };
        self.put(at, (cookie, Shelf::RT), key);
    }

    fn put(&mut self, at: Index, place: Place, key: Key) {
        self.remove(at);
        *self.places.cover(at) = place;
        let nth = self.heap(place);
        self.nodes.insert(&mut self.heaps[nth].1, at, key);
    }

    /// Returns the first task of a cookie on each shelf where it has any.
    pub(super) fn firsts(&self, cookie: Option<Cookie>) -> impl Iterator<Item = (Shelf, Index)> {
        let first = self.heaps.partition_point(|&(place, _)| place < (cookie, Shelf::RT));
        let all = self.heaps[first..].iter().take_while(move |((of, _), _)| *of == cookie);
        all.filter_map(|((_, shelf), heap)| Some((*shelf, heap.first()?)))
    }

    /// Returns the tasks on a shelf of a cookie, each once, in no order.
    pub(super) fn on(&self, cookie: Option<Cookie>, shelf: Shelf) -> impl Iterator<Item = Index> {
        let first = self.find((cookie, shelf)).ok().and_then(|nth| self.heaps[nth].1.first());
        std::iter::successors(first, |&at| self.nodes.after(at))
    }

    /// Returns the place and the key of a task, if it is in the index.
    pub(super) fn place(&self, at: Index) -> Option<(Option<Cookie>, Shelf, VTime)> {
        let (cookie, shelf) = *self.places.get(at)?;
        self.nodes.contains(at).then(|| (cookie, shelf, self.nodes.key(at).at))
    }

    /// Asserts the structure, and returns the number of tasks.
    pub(super) fn check(&self) -> usize {
        let mut tasks = 0;
        assert!(self.heaps.is_sorted_by_key(|&(place, _)| place), "heaps are in order");
        for (place, heap) in &self.heaps {
            self.nodes.check(heap, |at| {
                assert_eq!(self.places[at], *place, "task {at} knows its heap");
                tasks += 1;
            });
        }
        tasks
    }
}
