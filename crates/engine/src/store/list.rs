//! Doubly linked lists in one array of links, and the hundred lists of a real-time queue.
//!
//! A real-time queue needs both ends of each priority's list: a preempted task keeps the head, and
//! a yielding one goes to the tail. It needs its best member in constant time, and a walk in order
//! of importance past members that cannot be moved. Lists and a bitmap provide these, as in every
//! kernel. A heap by (priority, arrival) provides the first two but not the walk.
//!
//! Invariants ([`PrioLists::check`]): a member is in at most one list of the array; a bit is set
//! exactly where a list has members.

use crate::attr::RtPrio;
use crate::store::column::Column;
use crate::store::heap::Index;

const NIL: Index = Index::MAX;
/// The value in `prev` of a member that is in no list.
const OUT: Index = Index::MAX - 1;

/// One list; its members are linked in a [`Links`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: Index,
    tail: Index,
}

impl Default for List {
    fn default() -> List {
        List { head: NIL, tail: NIL }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: Index,
    next: Index,
}

/// The links of all lists that share an index space.
#[derive(Debug)]
pub(crate) struct Links(Column<Link>);

impl Default for Links {
    fn default() -> Links {
        Links(Column::new(Link { prev: OUT, next: NIL }))
    }
}

impl Links {
    /// Makes room for the members `0..len`. Allocates; while there is room, no other method does.
    pub(crate) fn grow(&mut self, len: usize) {
        self.0.grow(len);
    }

    /// Like [`Links::grow`], up to the room of `room`, whose memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Links) {
        self.0.grow_into(&mut room.0);
    }

    pub(crate) fn contains(&self, at: Index) -> bool {
        self.0.get(at).is_some_and(|link| link.prev != OUT)
    }

    pub(crate) fn push_front(&mut self, list: &mut List, at: Index) {
        let link = self.0.cover(at);
        assert!(link.prev == OUT, "member {at} is in no other list");
        *link = Link { prev: NIL, next: list.head };
        match list.head {
            NIL => list.tail = at,
            head => self.0[head].prev = at,
        }
        list.head = at;
    }

    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, at: Index) {
        let link = self.0.cover(at);
        assert!(link.prev == OUT, "member {at} is in no other list");
        *link = Link { prev: list.tail, next: NIL };
        match list.tail {
            NIL => list.head = at,
            tail => self.0[tail].next = at,
        }
        list.tail = at;
    }

    #[inline]
    pub(crate) fn remove(&mut self, list: &mut List, at: Index) {
        let Link { prev, next } = self.0[at];
        assert!(prev != OUT, "member {at} is in a list");
        match prev {
            NIL => list.head = next,
            prev => self.0[prev].next = next,
        }
        match next {
            NIL => list.tail = prev,
            next => self.0[next].prev = prev,
        }
        self.0[at].prev = OUT;
    }

    /// Makes the first of a list its last, and returns it.
    ///
    /// # Panics
    /// If the list is empty.
    #[inline]
    pub(crate) fn rotate(&mut self, list: &mut List) -> Index {
        let List { head, tail } = *list;
        let second = self.0[head].next;
        if second != NIL {
            self.0[second].prev = NIL;
            self.0[tail].next = head;
            self.0[head] = Link { prev: tail, next: NIL };
            *list = List { head: second, tail: head };
        }
        head
    }

    pub(crate) fn iter(&self, list: List) -> impl Iterator<Item = Index> + '_ {
        let some = |at: Index| (at != NIL).then_some(at);
        std::iter::successors(some(list.head), move |&at| some(self.0[at].next))
    }
}

/// A list for each real-time priority.
#[derive(Debug)]
pub(crate) struct PrioLists {
    lists: Box<[List; 100]>,
    occupied: u128,
}

impl Default for PrioLists {
    fn default() -> PrioLists {
        PrioLists { lists: Box::new([List::default(); 100]), occupied: 0 }
    }
}

/// The end of its priority's list that a task joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    Head,
    Tail,
}

impl PrioLists {
    #[inline]
    pub(crate) fn insert(&mut self, links: &mut Links, prio: RtPrio, at: (Index, End)) {
        let list = &mut self.lists[usize::from(prio.get())];
        match at {
            (at, End::Head) => links.push_front(list, at),
            (at, End::Tail) => links.push_back(list, at),
        }
        self.occupied |= 1 << prio.get();
    }

    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, prio: RtPrio, at: Index) {
        let list = &mut self.lists[usize::from(prio.get())];
        links.remove(list, at);
        if list.head == NIL {
            self.occupied &= !(1 << prio.get());
        }
    }

    /// Returns the best priority that has a member.
    #[inline]
    pub(crate) fn highest(&self) -> Option<RtPrio> {
        self.occupied.checked_ilog2().and_then(|level| RtPrio::new(level.into()))
    }

    /// Returns the most important member; among equals the one at the head.
    #[inline]
    pub(crate) fn first(&self) -> Option<Index> {
        self.highest().map(|prio| self.lists[usize::from(prio.get())].head)
    }

    /// Returns whether `prio` has at least two members.
    pub(crate) fn is_shared(&self, prio: RtPrio) -> bool {
        let list = self.lists[usize::from(prio.get())];
        list.head != list.tail
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Returns the member after one of priority `prio`, in the order of [`PrioLists::iter`].
    pub(crate) fn after(&self, links: &Links, at: Index, prio: RtPrio) -> Option<Index> {
        let next = links.0[at].next;
        if next != NIL {
            return Some(next);
        }
        let level = (self.occupied & ((1 << prio.get()) - 1)).checked_ilog2()?;
        Some(self.lists[level as usize].head)
    }

    /// Returns all members, most important first.
    pub(crate) fn iter<'a>(&'a self, links: &'a Links) -> impl Iterator<Item = Index> + 'a {
        let mut left = self.occupied;
        std::iter::from_fn(move || {
            let level = left.checked_ilog2()?;
            left &= !(1 << level);
            Some(self.lists[level as usize])
        })
        .flat_map(|list| links.iter(list))
    }

    /// Asserts the structure, and calls `visit` with each member and its priority.
    pub(crate) fn check(&self, links: &Links, mut visit: impl FnMut(Index, RtPrio)) {
        for (level, list) in self.lists.iter().enumerate() {
            let has = list.head != NIL;
            assert_eq!(self.occupied >> level & 1 == 1, has, "bit {level} matches its list");
            let mut last = NIL;
            for at in links.iter(*list) {
                assert_eq!(links.0[at].prev, last, "member {at} knows the previous one");
                visit(at, RtPrio::new(level as i64).expect("lists 1..=99 have members"));
                last = at;
            }
            assert_eq!(list.tail, last, "list {level} ends at its tail");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prio(level: i64) -> RtPrio {
        RtPrio::new(level).unwrap()
    }

    #[test]
    fn the_walk_goes_by_importance_then_by_place_in_the_list() {
        let (mut lists, mut links) = (PrioLists::default(), Links::default());
        links.grow(8);
        lists.insert(&mut links, prio(10), (0, End::Tail));
        lists.insert(&mut links, prio(99), (1, End::Tail));
        lists.insert(&mut links, prio(10), (2, End::Tail));
        lists.insert(&mut links, prio(10), (3, End::Head));
        assert_eq!(lists.iter(&links).collect::<Vec<_>>(), [1, 3, 0, 2]);
        assert!(lists.is_shared(prio(10)) && !lists.is_shared(prio(99)));
        lists.remove(&mut links, prio(99), 1);
        lists.remove(&mut links, prio(10), 0);
        assert_eq!((lists.first(), lists.highest()), (Some(3), Some(prio(10))));
        lists.check(&links, |_, _| ());
    }
}
