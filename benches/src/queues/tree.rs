//! A balanced search tree of waiting tasks: a treap in an array, with the links of a kernel's tree. A node knows its
//! parent, and the tree knows its first node. So the first is read without a search, and a node is removed without one.
//!
//! The priority of a node is a hash of its number, so a run repeats exactly. An augmented tree also keeps the least key
//! of each subtree in another order. A tree without that compiles to one that does nothing for it.

use super::{Key, Order};
use std::fmt::Debug;

/// The link of a node that has none there.
const NIL: u32 = u32::MAX;

/// The value that each node keeps of its subtree.
pub(super) trait Below: Copy + PartialEq + Debug {
    /// The value of no node.
    const NONE: Self;

    /// Returns the value of two subtrees together.
    fn with(self, other: Self) -> Self;
}

/// A plain tree: nodes keep nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nothing;

impl Below for Nothing {
    const NONE: Nothing = Nothing;

    #[inline(always)]
    fn with(self, _: Nothing) -> Nothing {
        Nothing
    }
}

/// An augmented tree: the least key of a subtree in another order.
impl Below for Key {
    const NONE: Key = Key::NEVER;

    #[inline(always)]
    fn with(self, other: Key) -> Key {
        self.min(other)
    }
}

#[derive(Clone, Copy, Debug)]
struct Node<B> {
    key: Key,
    /// The value of the node itself.
    own: B,
    /// The value of its subtree.
    all: B,
    parent: u32,
    children: [u32; 2],
    priority: u32,
}

/// A tree of the tasks with the given numbers.
#[derive(Debug)]
pub(super) struct Tree<B> {
    nodes: Vec<Node<B>>,
    root: u32,
    first: u32,
}

impl<B: Below> Tree<B> {
    /// Creates an empty tree for the tasks below `tasks`.
    pub(super) fn new(tasks: u32) -> Tree<B> {
        let node = |task: u32| Node {
            key: Key::NEVER,
            own: B::NONE,
            all: B::NONE,
            parent: NIL,
            children: [NIL; 2],
            priority: hash(task),
        };
        Tree { nodes: (0..tasks).map(node).collect(), root: NIL, first: NIL }
    }

    /// Returns the first task.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Returns the key of a task in the tree.
    #[inline(always)]
    pub(super) fn key(&self, task: u32) -> Key {
        self.node(task).key
    }

    /// Returns the value of the whole tree.
    #[inline(always)]
    pub(super) fn all(&self) -> B {
        if self.root == NIL { B::NONE } else { self.node(self.root).all }
    }

    /// Returns the task to which the value of the whole tree belongs. It is searched from the root.
    #[inline(always)]
    pub(super) fn owner_of_all(&self) -> Option<u32> {
        let value = self.all();
        if value == B::NONE {
            return None;
        }
        let mut at = self.root;
        while self.node(at).own != value {
            let [left, right] = self.node(at).children;
            at = if left != NIL && self.node(left).all == value { left } else { right };
        }
        Some(at)
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, task: u32, key: Key, own: B) {
        let (mut parent, mut side, mut is_first) = (NIL, 0, true);
        let mut next = self.root;
        while next != NIL {
            let node = self.node(next);
            (parent, side) = (next, usize::from(node.key < key));
            is_first &= side == 0;
            next = node.children[side];
        }
        let priority = self.node(task).priority;
        *self.node_mut(task) = Node { key, own, all: own, parent, children: [NIL; 2], priority };
        if is_first {
            self.first = task;
        }
        if parent == NIL {
            self.root = task;
            return;
        }
        self.node_mut(parent).children[side] = task;
        self.add_from(parent, own);
        while self.node(task).parent != NIL && self.parent_of(task).priority < priority {
            self.rotate(task);
        }
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, task: u32) {
        if self.first == task {
            self.first = self.second();
        }
        let only_child = loop {
            match self.node(task).children {
                [NIL, child] | [child, NIL] => break child,
                [left, right] => {
                    let left_first = self.node(left).priority > self.node(right).priority;
                    self.rotate(if left_first { left } else { right });
                }
            }
        };
        let parent = self.node(task).parent;
        self.replace(parent, task, only_child);
        self.renew_from(parent);
    }

    /// Returns the successor of the first node.
    #[inline(always)]
    fn second(&self) -> u32 {
        let Node { parent, children: [_, mut at], .. } = *self.node(self.first);
        if at == NIL {
            return parent;
        }
        while self.node(at).children[0] != NIL {
            at = self.node(at).children[0];
        }
        at
    }

    /// Puts `child` into the place of its parent, which becomes its child.
    #[inline(always)]
    fn rotate(&mut self, child: u32) {
        let parent = self.node(child).parent;
        let Node { parent: above, children, all, .. } = *self.node(parent);
        let side = usize::from(children[1] == child);
        let inner = self.node(child).children[1 - side];
        self.node_mut(parent).children[side] = inner;
        if inner != NIL {
            self.node_mut(inner).parent = parent;
        }
        self.replace(above, parent, child);
        self.node_mut(child).children[1 - side] = parent;
        self.node_mut(parent).parent = child;
        self.node_mut(child).all = all;
        self.node_mut(parent).all = self.sum(parent);
    }

    /// Replaces a child of `parent`, or the root if `parent` is none.
    #[inline(always)]
    fn replace(&mut self, parent: u32, old: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else {
            let side = usize::from(self.node(parent).children[1] == old);
            self.node_mut(parent).children[side] = new;
        }
        if new != NIL {
            self.node_mut(new).parent = parent;
        }
    }

    /// Adds the value of a new node to the subtrees that contain it.
    #[inline(always)]
    fn add_from(&mut self, mut at: u32, own: B) {
        while at != NIL {
            let node = self.node_mut(at);
            let all = node.all.with(own);
            if all == node.all {
                break;
            }
            node.all = all;
            at = node.parent;
        }
    }

    /// Computes the values anew of the subtrees that contained a removed node, which was below `at`.
    #[inline(always)]
    fn renew_from(&mut self, mut at: u32) {
        while at != NIL {
            let all = self.sum(at);
            let node = self.node_mut(at);
            if all == node.all {
                break;
            }
            node.all = all;
            at = node.parent;
        }
    }

    /// Returns the value of a subtree, by the values of its root and of its root's children.
    #[inline(always)]
    fn sum(&self, at: u32) -> B {
        let node = self.node(at);
        let [left, right] =
            node.children.map(|child| if child == NIL { B::NONE } else { self.node(child).all });
        node.own.with(left).with(right)
    }

    #[inline(always)]
    fn parent_of(&self, at: u32) -> &Node<B> {
        self.node(self.node(at).parent)
    }

    #[inline(always)]
    fn node(&self, at: u32) -> &Node<B> {
        &self.nodes[at as usize]
    }

    #[inline(always)]
    fn node_mut(&mut self, at: u32) -> &mut Node<B> {
        &mut self.nodes[at as usize]
    }
}

impl Order for Tree<Nothing> {
    fn new(tasks: u32) -> Tree<Nothing> {
        Tree::new(tasks)
    }

    #[inline(always)]
    fn insert(&mut self, task: u32, key: Key) {
        Tree::insert(self, task, key, Nothing);
    }

    #[inline(always)]
    fn remove(&mut self, task: u32) {
        Tree::remove(self, task);
    }

    #[inline(always)]
    fn first(&self) -> Option<(Key, u32)> {
        Tree::first(self).map(|task| (self.key(task), task))
    }
}

/// Returns a number that looks random (the finalizer of splitmix64).
fn hash(task: u32) -> u32 {
    let mut bits = u64::from(task).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ bits >> 31) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use runyard_engine::time::Time;
    use std::collections::BTreeMap;

    const TASKS: u32 = 40;

    impl Tree<Key> {
        /// Checks a subtree, and returns its tasks in order and its least value.
        fn check(&self, at: u32, parent: u32, tasks: &mut Vec<u32>) -> Key {
            if at == NIL {
                return Key::NEVER;
            }
            let Node { own, all, children: [left, right], priority, .. } = *self.node(at);
            assert_eq!(self.node(at).parent, parent);
            assert!(parent == NIL || self.node(parent).priority >= priority);
            let least = self.check(left, at, tasks);
            tasks.push(at);
            let least = own.min(least).min(self.check(right, at, tasks));
            assert_eq!(all, least);
            least
        }
    }

    proptest! {
        #[test]
        fn a_tree_keeps_its_order_and_the_least_of_each_subtree(
            steps in prop::collection::vec((0..TASKS, 0_u64..50, 0_u64..50), 0..300)
        ) {
            let mut tree = Tree::<Key>::new(TASKS);
            let mut inside = BTreeMap::new();
            for (task, at, other) in steps {
                let key = |at| Key { at: Time(at), nth: task.into() };
                if inside.remove(&task).is_some() {
                    tree.remove(task);
                } else {
                    tree.insert(task, key(at), key(other));
                    inside.insert(task, (key(at), key(other)));
                }
                let mut tasks = Vec::new();
                let least = tree.check(tree.root, NIL, &mut tasks);
                let mut expected: Vec<_> = inside.keys().copied().collect();
                expected.sort_by_key(|task| inside[task].0);
                prop_assert_eq!(&tasks, &expected);
                prop_assert_eq!(tree.first(), expected.first().copied());
                let owner = inside.iter().min_by_key(|(_, keys)| keys.1);
                prop_assert_eq!(tree.owner_of_all(), owner.map(|(task, _)| *task));
                prop_assert_eq!(least, owner.map_or(Key::NEVER, |(_, keys)| keys.1));
            }
        }
    }
}
