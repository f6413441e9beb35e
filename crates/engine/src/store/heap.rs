//! Many priority queues in one array of nodes: leftist heaps with parent links.
//!
//! The fair queue of each task group on a CPU needs its minimum, insertion, and removal from the
//! middle. None of these may allocate: a preempted task may hold the allocator's lock. An array for
//! each group on each CPU would have to be reserved. Here a node is reserved for each member,
//! whatever queue it joins. The left-biased rank bounds insertion, removal and pop by O(log n) in
//! the worst case.
//!
//! Rejected: a heap in an array for each queue ([`crate::store::array_heap`] takes less than half
//! the instructions at 64 members, but its storage belongs to the queue); a pairing heap (no
//! worst-case bound under a lock); balanced search trees (three times the code for an order that no
//! walk needs).
//!
//! Invariants ([`Forest::check`]): a node is in at most one heap. No child orders before its
//! parent. `rank` is one more than the right child's, and the left child's is not smaller.

use crate::store::column::Column;

pub(crate) use crate::store::column::Index;

const NIL: Index = Index::MAX;

/// A priority queue of the forest; it stores only the place of its minimum.
#[derive(Debug)]
pub(crate) struct Heap {
    root: Index,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap { root: NIL }
    }
}

impl Heap {
    /// Returns the member with the smallest key.
    #[inline]
    pub(crate) fn first(&self) -> Option<Index> {
        (self.root != NIL).then_some(self.root)
    }
}

#[derive(Clone, Copy, Debug)]
struct Node<K> {
    key: K,
    parent: Index,
    left: Index,
    right: Index,
    /// The length of the right spine; zero while the node is in no heap.
    rank: u32,
}

/// The nodes of all heaps that share an index space.
#[derive(Debug)]
pub(crate) struct Forest<K> {
    nodes: Column<Node<K>>,
}

impl<K: Ord + Copy + Default> Default for Forest<K> {
    fn default() -> Forest<K> {
        let free = Node { key: K::default(), parent: NIL, left: NIL, right: NIL, rank: 0 };
        Forest { nodes: Column::new(free) }
    }
}

impl<K: Ord + Copy + Default> Forest<K> {
    /// Makes room for the nodes `0..len`. Allocates; while there is room, no other method does.
    pub(crate) fn grow(&mut self, len: usize) {
        self.nodes.grow(len);
    }

    /// Like [`Forest::grow`], up to the room of `room`, whose memory is used. Allocates nothing.
    pub(crate) fn grow_into(&mut self, room: &mut Forest<K>) {
        self.nodes.grow_into(&mut room.nodes);
    }

    pub(crate) fn contains(&self, at: Index) -> bool {
        self.nodes.get(at).is_some_and(|node| node.rank > 0)
    }

    /// Returns the key of a queued node.
    pub(crate) fn key(&self, at: Index) -> K {
        debug_assert!(self.contains(at), "node {at} is in a heap");
        self.node(at).key
    }

    /// Returns the member with the second smallest key.
    pub(crate) fn second(&self, heap: &Heap) -> Option<Index> {
        let first = heap.first()?;
        let Node { left, right, .. } = *self.node(first);
        let below = [left, right].into_iter().filter(|&at| at != NIL);
        below.min_by_key(|&at| self.node(at).key)
    }

    /// Returns the member after one. Starting at [`Heap::first`], this visits each member once, in
    /// no order of keys.
    pub(crate) fn after(&self, mut at: Index) -> Option<Index> {
        let Node { left, .. } = *self.node(at);
        if left != NIL {
            return Some(left);
        }
        while self.node(at).parent != NIL {
            let Node { left, right, .. } = *self.node(self.node(at).parent);
            if left == at && right != NIL {
                return Some(right);
            }
            at = self.node(at).parent;
        }
        None
    }

    #[inline]
    pub(crate) fn insert(&mut self, heap: &mut Heap, at: Index, key: K) {
        let node = self.nodes.cover(at);
        assert!(node.rank == 0, "node {at} is in no other heap");
        *node = Node { key, parent: NIL, left: NIL, right: NIL, rank: 1 };
        heap.root = self.meld(heap.root, at);
    }

    pub(crate) fn remove(&mut self, heap: &mut Heap, at: Index) {
        let Node { parent, left, right, rank, .. } = *self.node(at);
        assert!(rank > 0, "node {at} is in a heap");
        for child in [left, right] {
            if child != NIL {
                self.nodes[child].parent = NIL;
            }
        }
        let rest = self.meld(left, right);
        self.nodes[at].rank = 0;
        if rest != NIL {
            self.nodes[rest].parent = parent;
        }
        if parent == NIL {
            debug_assert_eq!(heap.root, at, "node {at} is in this heap");
            heap.root = rest;
            return;
        }
        let above = &mut self.nodes[parent];
        if above.left == at {
            above.left = rest;
        } else {
            above.right = rest;
        }
        self.mend_upwards(parent);
    }

    /// Joins two heaps given by their roots along their right spines; returns the new root.
    fn meld(&mut self, a: Index, b: Index) -> Index {
        if a == NIL || b == NIL {
            return if a == NIL { b } else { a };
        }
        let (tail, rest) = self.interleave(a, b);
        self.lean(tail, rest)
    }

    /// Links the right spines of two heaps by their parents, up to the end of one. Returns the last
    /// node, and the heap that belongs below it.
    fn interleave(&mut self, mut a: Index, mut b: Index) -> (Index, Index) {
        let mut tail = NIL;
        let (mut key, mut other) = (self.node(a).key, self.node(b).key);
        loop {
            if other < key {
                std::mem::swap(&mut a, &mut b);
                std::mem::swap(&mut key, &mut other);
            }
            let node = &mut self.nodes[a];
            node.parent = tail;
            (tail, a) = (a, node.right);
            if a == NIL {
                return (tail, b);
            }
            key = self.node(a).key;
        }
    }

    /// From `at` upwards, makes `child`, and each node in turn, a child of the one above it, on the
    /// side that the rank rule requires. Returns the root.
    fn lean(&mut self, mut at: Index, mut child: Index) -> Index {
        let below = &mut self.nodes[child];
        below.parent = at;
        let mut rank = below.rank;
        while at != NIL {
            let left = self.node(at).left;
            let high = self.rank(left);
            let node = &mut self.nodes[at];
            if high < rank {
                (node.left, node.right) = (child, left);
            } else {
                node.right = child;
            }
            node.rank = high.min(rank) + 1;
            (rank, child, at) = (node.rank, at, node.parent);
        }
        child
    }

    /// Restores the rank rule at one node; returns whether its rank changed.
    fn mend(&mut self, at: Index) -> bool {
        let Node { left, right, rank, .. } = *self.node(at);
        let (low, high) = (self.rank(right), self.rank(left));
        let node = &mut self.nodes[at];
        if high < low {
            (node.left, node.right) = (right, left);
        }
        node.rank = low.min(high) + 1;
        node.rank != rank
    }

    /// Restores the rank rule upwards. A rank that changes is one more than the changed one below
    /// it. So this walk is at most as long as the largest rank, which is logarithmic.
    fn mend_upwards(&mut self, mut at: Index) {
        while at != NIL && self.mend(at) {
            at = self.node(at).parent;
        }
    }

    fn rank(&self, at: Index) -> u32 {
        if at == NIL { 0 } else { self.node(at).rank }
    }

    fn node(&self, at: Index) -> &Node<K> {
        &self.nodes[at]
    }

    /// Asserts the structure of `heap`, and calls `visit` with each member. Allocates.
    pub(crate) fn check(&self, heap: &Heap, mut visit: impl FnMut(Index)) {
        let mut stack = vec![(heap.root, NIL)];
        while let Some((at, parent)) = stack.pop() {
            if at == NIL {
                continue;
            }
            let node = self.node(at);
            assert_eq!(node.parent, parent, "node {at} knows its parent");
            assert!(parent == NIL || self.node(parent).key <= node.key, "node {at} is in order");
            assert!(self.rank(node.left) >= self.rank(node.right), "node {at} leans left");
            assert_eq!(node.rank, self.rank(node.right) + 1, "node {at} has its rank");
            visit(at);
            stack.extend([(node.left, at), (node.right, at)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Action {
        Insert(u32, u64),
        Remove(u32),
        Pop,
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            (0..64_u32, 0..50_u64).prop_map(|(at, key)| Action::Insert(at, key)),
            (0..64_u32).prop_map(Action::Remove),
            Just(Action::Pop),
        ]
    }

    proptest! {
        #[test]
        fn two_heaps_in_one_forest_behave_like_sorted_sets(
            actions in prop::collection::vec((0..2_usize, action()), 0..300),
        ) {
            let mut forest = Forest::default();
            forest.grow(128);
            let mut heaps = [Heap::default(), Heap::default()];
            let mut models = [BTreeSet::new(), BTreeSet::new()];
            for (which, action) in actions {
                let (heap, model) = (&mut heaps[which], &mut models[which]);
                let base = 64 * which as u32;
                match action {
                    Action::Insert(at, key) if !forest.contains(base + at) => {
                        forest.insert(heap, base + at, (key, base + at));
                        model.insert((key, base + at));
                    }
                    Action::Remove(at) if forest.contains(base + at) => {
                        model.remove(&forest.key(base + at));
                        forest.remove(heap, base + at);
                    }
                    Action::Pop => {
                        let popped = heap.first();
                        popped.into_iter().for_each(|at| forest.remove(heap, at));
                        prop_assert_eq!(popped, model.pop_first().map(|(_, at)| at));
                    }
                    Action::Insert(..) | Action::Remove(_) => {}
                }
                let mut members = 0;
                let all = std::iter::successors(heap.first(), |&at| forest.after(at));
                let walked: BTreeSet<_> = all.map(|at| (forest.key(at), at)).collect();
                prop_assert_eq!(walked.iter().map(|&(key, _)| key).collect::<Vec<_>>(),
                    model.iter().copied().collect::<Vec<_>>());
                forest.check(heap, |_| members += 1);
                prop_assert_eq!(members, model.len());
                prop_assert_eq!(heap.first(), model.first().map(|&(_, at)| at));
                prop_assert_eq!(forest.second(heap), model.iter().nth(1).map(|&(_, at)| at));
            }
        }
    }
}
