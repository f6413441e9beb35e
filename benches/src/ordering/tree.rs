//! One balanced search tree by vruntime, which may know the first of another order as well.
//!
//! It is what the second heap of the engine is compared with, so it is as quick as could be made: an
//! AVL tree with parent links in one array, which knows its first node. It is augmented
//! if each node knows the least *urgent* key of its subtree, so that the root knows the first of those
//! that have one. That is kept up only while somebody has: else it costs a look at a count.
//!
//! Rejected: a red-black tree (fewer rotations, but a longer way down, and every node on the way up
//! is looked at for its least key anyway); a treap (a way down half as long again).
//!
//! Invariants ([`Tree::check`]): a node is in order and knows its parent, its height and the least
//! below it; the heights of two siblings differ by one at the most.

use super::heap::Index;
use runyard_engine::time::VTime;

const NIL: Index = Index::MAX;

/// The urgent key of a node, and which; of no node if that is `NIL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Least {
    key: VTime,
    at: Index,
}

const NOBODY: Least = Least { key: VTime(0), at: NIL };

#[derive(Clone, Copy, Debug)]
struct Node {
    key: VTime,
    /// Smaller keys, and larger or equal ones.
    children: [Index; 2],
    parent: Index,
    /// Zero while the node is in no tree.
    height: u32,
    urgent: Least,
    least: Least,
    /// Who came first is first of equal urgent keys.
    arrival: u64,
}

const FREE: Node = Node {
    key: VTime(0),
    children: [NIL; 2],
    parent: NIL,
    height: 0,
    urgent: NOBODY,
    least: NOBODY,
    arrival: 0,
};

/// The tree with all its nodes, whether they are in it or not.
#[derive(Debug)]
pub(super) struct Tree<const AUGMENTED: bool> {
    nodes: Vec<Node>,
    root: Index,
    first: Index,
    /// How many nodes have an urgent key.
    urgent: u32,
    arrivals: u64,
}

impl<const AUGMENTED: bool> Tree<AUGMENTED> {
    /// An empty tree of the nodes `0..len`.
    pub(super) fn new(len: usize) -> Self {
        Tree { nodes: vec![FREE; len], root: NIL, first: NIL, urgent: 0, arrivals: 0 }
    }

    /// The member with the smallest key.
    pub(super) fn first(&self) -> Option<Index> {
        (self.first != NIL).then_some(self.first)
    }

    pub(super) fn first_urgent(&self) -> Option<Index> {
        assert!(AUGMENTED, "the tree knows");
        if self.urgent == 0 {
            return None;
        }
        Some(self.node(self.root).least.at)
    }

    pub(super) fn contains(&self, at: Index) -> bool {
        self.node(at).height > 0
    }

    /// The key under which `at` is queued.
    pub(super) fn key(&self, at: Index) -> VTime {
        debug_assert!(self.contains(at), "node {at} is in the tree");
        self.node(at).key
    }

    pub(super) fn insert(&mut self, at: Index, key: VTime, urgent: Option<VTime>) {
        assert!(!self.contains(at), "node {at} is in no tree");
        let (mut parent, mut below, mut side, mut is_first) = (NIL, self.root, 0, true);
        while below != NIL {
            let node = self.node(below);
            side = usize::from(key >= node.key);
            is_first &= side == 0;
            (parent, below) = (below, node.children[side]);
        }
        let urgent = urgent.map_or(NOBODY, |key| Least { key, at });
        self.urgent += u32::from(urgent.at != NIL);
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.nodes[at as usize] =
            Node { key, parent, height: 1, urgent, least: urgent, arrival, ..FREE };
        if is_first {
            self.first = at;
        }
        if parent == NIL {
            self.root = at;
            return;
        }
        self.nodes[parent as usize].children[side] = at;
        self.mend(parent, urgent.at != NIL);
    }

    pub(super) fn remove(&mut self, at: Index) {
        let Node { children: [left, right], parent, height, urgent, .. } = *self.node(at);
        assert!(height > 0, "node {at} is in the tree");
        if at == self.first {
            // Without a left child the right one is a leaf.
            self.first = if right == NIL { parent } else { right };
        }
        if left == NIL || right == NIL {
            let rest = if left == NIL { right } else { left };
            self.replace(at, parent, rest);
            self.mend(parent, urgent.at != NIL);
        } else {
            self.remove_inner(at);
        }
        self.nodes[at as usize].height = 0;
        self.urgent -= u32::from(urgent.at != NIL);
    }

    /// Removes a node that has two children: the next in order takes its place.
    fn remove_inner(&mut self, at: Index) {
        let Node { children: [left, right], parent, height, least, urgent, .. } = *self.node(at);
        let mut next = right;
        while self.node(next).children[0] != NIL {
            next = self.node(next).children[0];
        }
        let mut from = next;
        if next != right {
            let Node { children: [_, orphan], parent: above, .. } = *self.node(next);
            self.replace(next, above, orphan);
            self.adopt(next, 1, right);
            from = above;
        }
        self.replace(at, parent, next);
        self.adopt(next, 0, left);
        let node = &mut self.nodes[next as usize];
        (node.height, node.least) = (height, least);
        let urgent = urgent.at != NIL || self.node(next).urgent.at != NIL;
        self.mend(from, urgent);
        if AUGMENTED && urgent {
            // What changed below may have ended before it came here, where the key is another.
            self.mend(next, urgent);
        }
    }

    /// Puts `other`, which may be nobody, in the place of `at` below `parent`.
    fn replace(&mut self, at: Index, parent: Index, other: Index) {
        if other != NIL {
            self.nodes[other as usize].parent = parent;
        }
        if parent == NIL {
            self.root = other;
            return;
        }
        let above = &mut self.nodes[parent as usize];
        let side = usize::from(above.children[1] == at);
        above.children[side] = other;
    }

    fn adopt(&mut self, at: Index, side: usize, child: Index) {
        self.nodes[at as usize].children[side] = child;
        if child != NIL {
            self.nodes[child as usize].parent = at;
        }
    }

    /// As [`Tree::mend_upwards`]: somebody who is or is not `urgent` came or left below `at`.
    fn mend(&mut self, at: Index, urgent: bool) {
        if AUGMENTED && urgent {
            self.mend_upwards::<true>(at);
        } else {
            self.mend_upwards::<false>(at);
        }
    }

    /// Restores balance, heights and least keys from a node upwards, as far as anything changes: the
    /// least keys of nodes that keep their children only if `URGENT`.
    fn mend_upwards<const URGENT: bool>(&mut self, mut at: Index) {
        while at != NIL {
            let Node { height, least, children, parent, urgent, .. } = *self.node(at);
            let [left, right] = children.map(|child| self.height(child));
            let (mut height_now, mut least_now) = (left.max(right) + 1, least);
            if left.abs_diff(right) <= 1 {
                if URGENT {
                    least_now = self.least_of(urgent, children);
                }
                let node = &mut self.nodes[at as usize];
                node.height = height_now;
                if URGENT {
                    node.least = least_now;
                }
            } else {
                let top = self.balance(at, usize::from(right > left));
                let top = self.node(top);
                (height_now, least_now) = (top.height, top.least);
            }
            if height_now == height && (!URGENT || least_now.at == least.at) {
                return;
            }
            at = parent;
        }
    }

    /// Balances a node that is too high at `side`; returns who is in its place.
    #[inline(never)]
    fn balance(&mut self, at: Index, side: usize) -> Index {
        let heavy = self.node(at).children[side];
        let below = self.node(heavy).children;
        if self.height(below[side]) < self.height(below[1 - side]) {
            self.rotate(heavy, 1 - side);
        }
        self.rotate(at, side)
    }

    /// Raises the child at `side` above `at`; returns the child.
    fn rotate(&mut self, at: Index, side: usize) -> Index {
        let Node { children, parent, .. } = *self.node(at);
        let child = children[side];
        let inner = self.node(child).children[1 - side];
        self.adopt(at, side, inner);
        self.replace(at, parent, child);
        self.adopt(child, 1 - side, at);
        for changed in [at, child] {
            let Node { children, urgent, .. } = *self.node(changed);
            let [left, right] = children.map(|below| self.height(below));
            if self.is_kept_up() {
                self.nodes[changed as usize].least = self.least_of(urgent, children);
            }
            self.nodes[changed as usize].height = left.max(right) + 1;
        }
        child
    }

    fn is_kept_up(&self) -> bool {
        AUGMENTED && self.urgent > 0
    }

    fn least_of(&self, own: Least, [left, right]: [Index; 2]) -> Least {
        self.lesser(self.lesser(own, self.least(left)), self.least(right))
    }

    fn lesser(&self, a: Least, b: Least) -> Least {
        if b.at == NIL {
            return a;
        }
        let is_b = a.at == NIL
            || b.key < a.key
            || b.key == a.key && self.node(b.at).arrival < self.node(a.at).arrival;
        if is_b { b } else { a }
    }

    fn least(&self, at: Index) -> Least {
        if at == NIL { NOBODY } else { self.node(at).least }
    }

    fn height(&self, at: Index) -> u32 {
        if at == NIL { 0 } else { self.node(at).height }
    }

    fn node(&self, at: Index) -> &Node {
        &self.nodes[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    impl<const AUGMENTED: bool> Tree<AUGMENTED> {
        /// Asserts the structure below a node, and returns the members in order.
        fn check(&self, at: Index, parent: Index) -> Vec<Index> {
            if at == NIL {
                return Vec::new();
            }
            let node = self.node(at);
            assert_eq!(node.parent, parent, "node {at} knows its parent");
            let [left, right] = node.children.map(|child| self.height(child));
            assert!(left.abs_diff(right) <= 1, "node {at} is balanced");
            assert_eq!(node.height, left.max(right) + 1, "node {at} knows its height");
            let mut members = self.check(node.children[0], at);
            members.push(at);
            members.extend(self.check(node.children[1], at));
            if self.is_kept_up() {
                let urgent = members.iter().map(|&at| self.node(at));
                let least = urgent
                    .filter(|node| node.urgent.at != NIL)
                    .min_by_key(|node| (node.urgent.key, node.arrival))
                    .map_or(NOBODY, |node| node.urgent);
                assert_eq!(node.least.at, least.at, "node {at} knows the least below it");
            }
            members
        }
    }

    proptest! {
        #[test]
        fn a_tree_behaves_like_two_sorted_sets(
            actions in prop::collection::vec((0..48_u32, 0..30_u64, 0..40_u64), 0..400),
        ) {
            let mut tree = Tree::<true>::new(48);
            let (mut model, mut urgents) = (BTreeSet::new(), BTreeSet::new());
            for (arrival, (at, key, urgent)) in (0..).zip(actions) {
                if tree.contains(at) {
                    tree.remove(at);
                    model.retain(|&(_, _, it)| it != at);
                    urgents.retain(|&(_, _, it)| it != at);
                } else {
                    // Most of the time some have an urgent key, and sometimes nobody.
                    let urgent = (urgent < 12).then_some(urgent);
                    tree.insert(at, VTime(key), urgent.map(VTime));
                    model.insert((key, arrival, at));
                    urgents.extend(urgent.map(|key| (key, arrival, at)));
                }
                let in_order: Vec<_> = model.iter().map(|&(_, _, at)| at).collect();
                prop_assert_eq!(tree.check(tree.root, NIL), in_order);
                prop_assert_eq!(tree.first(), model.first().map(|&(_, _, at)| at));
                prop_assert_eq!(tree.first_urgent(), urgents.first().map(|&(_, _, at)| at));
            }
        }
    }
}
