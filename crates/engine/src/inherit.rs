//! The inheritance of a task that others wait for, for example at a lock: the best of their
//! real-time priorities; and the group where it competes, if a limit would otherwise stop it that
//! does not apply to a waiter.
//!
//! These are pure functions. A host knows which task waits for which, and passes the result to the
//! run queue as a [`Change`]. Nice values are not inherited, as in the kernel.

use crate::attr::{GroupId, RtPrio};
use crate::limits::Pools;
use crate::task::Change;

/// The values that a task inherits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lent {
    /// The best of the waiters' real-time priorities.
    pub boost: Option<RtPrio>,
    /// The lowest group that is above the task and above all waiters, if a limit below that group
    /// could delay them ([`Change::inherited_group`]).
    pub group: Option<GroupId>,
}

/// The relevant data of a waiting task, including the values that it has inherited itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its real-time priority.
    pub prio: Option<RtPrio>,
    /// The group in which it competes.
    pub group: GroupId,
}

impl Lent {
    /// Adds the values that a task of group `own` inherits from `waiter`.
    #[must_use]
    pub fn also_from(self, waiter: Waiter, own: GroupId, groups: &impl Pools) -> Lent {
        let outside = |&group: &GroupId| !is_at_or_below(waiter.group, group, groups);
        let below = groups.lineage(own).take_while(outside);
        let held = below.into_iter().any(|group| groups.has_limit(group));
        let from = self.group.unwrap_or(own);
        let common = groups.lineage(from).find(|group| !outside(group));
        let group = common.filter(|&common| held && common != own).or(self.group);
        Lent { boost: self.boost.max(waiter.prio), group }
    }

    /// Combines two inheritances of a task that holds several resources.
    #[must_use]
    pub fn and(self, other: Lent, groups: &impl Pools) -> Lent {
        let group = match (self.group, other.group) {
            // Both groups are above the task, so one is above the other.
            (Some(a), Some(b)) => Some(if is_at_or_below(a, b, groups) { b } else { a }),
            (a, b) => a.or(b),
        };
        Lent { boost: self.boost.max(other.boost), group }
    }

    /// Returns the request that passes it to the run queue.
    #[must_use]
    pub fn change(self) -> Change {
        let Lent { boost, group } = self;
        Change { boost: boost.into(), inherited_group: group.into(), ..Change::default() }
    }
}

fn is_at_or_below(group: GroupId, above: GroupId, groups: &impl Pools) -> bool {
    groups.lineage(group).any(|group| group == above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{LatencyNice, Weight};
    use crate::group::Groups;

    /// The root; 1 below it; 2 and 3 below 1; 4 below 2; some with a limit.
    struct Tree(Vec<u32>);

    impl Groups for Tree {
        fn count(&self) -> usize {
            5
        }

        fn parent(&self, group: GroupId) -> GroupId {
            GroupId([0, 0, 1, 1, 2][group.index()])
        }

        fn weight(&self, _: GroupId) -> Weight {
            Weight::NICE_0
        }

        fn latency_nice(&self, _: GroupId) -> LatencyNice {
            LatencyNice::ZERO
        }

        fn is_idle(&self, _: GroupId) -> bool {
            false
        }

        fn exchange_load(&self, _: GroupId, _: u64, _: u64) -> u64 {
            0
        }
    }

    impl Pools for Tree {
        fn has_limit(&self, group: GroupId) -> bool {
            self.0.contains(&group.0)
        }
    }

    fn of(prio: i64, group: u32) -> Waiter {
        Waiter { prio: RtPrio::new(prio), group: GroupId(group) }
    }

    fn lent(own: u32, waiters: &[Waiter], limited: &[u32]) -> Option<u32> {
        let (own, tree) = (GroupId(own), Tree(limited.to_vec()));
        let all = waiters.iter().fold(Lent::default(), |lent, &it| lent.also_from(it, own, &tree));
        all.group.map(|group| group.0)
    }

    #[test]
    fn a_limit_of_which_the_waiter_knows_nothing_holds_nobody_back() {
        assert_eq!(lent(4, &[of(0, 3)], &[2]), Some(1));
        assert_eq!(lent(4, &[of(0, 0)], &[4]), Some(0));
        assert_eq!(lent(4, &[of(0, 3), of(0, 0)], &[2]), Some(0), "the highest of all");
        assert_eq!(lent(4, &[of(0, 0), of(0, 2)], &[2, 4]), Some(0));
    }

    #[test]
    fn a_limit_that_holds_the_waiter_too_goes_on_to_hold() {
        assert_eq!(lent(4, &[of(0, 3)], &[1]), None);
        assert_eq!(lent(4, &[of(0, 4)], &[4]), None, "in the same group");
        assert_eq!(lent(4, &[of(0, 0)], &[]), None, "without limits no task is delayed");
    }

    #[test]
    fn the_best_of_all_priorities_is_inherited() {
        let tree = Tree(vec![2]);
        let one = Lent::default().also_from(of(7, 3), GroupId(4), &tree);
        let two = Lent::default().also_from(of(50, 0), GroupId(4), &tree);
        let both = one.and(two, &tree);
        assert_eq!((both.boost, both.group), (RtPrio::new(50), Some(GroupId(0))));
        assert_eq!(both.change().boost, RtPrio::new(50).into());
    }
}
