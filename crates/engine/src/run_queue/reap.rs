//! Group queues that are empty are given back.
//!
//! A queue is kept for a while after its last member left: a group that comes back soon finds it, with where
//! its entity stands. One that would be placed no differently if it were made anew is forgotten, when its turn to be
//! looked at comes.

use crate::fair::entity::Now;
use crate::limits::Pools;
use crate::run_queue::RunQueue;

/// With more group queues than these on a CPU those that rest are looked for sooner than one at a time. Groups
/// that come back in a while find their queue where there are fewer, as in the kernel. More of them cost memory
/// and cache: 32 queues are some 18 KB.
const MANY_GROUP_QUEUES: usize = 32;

/// How many more group queues are looked at then, each time that one is made and at each tick. With one alone
/// 10,000 groups on 1,024 CPUs had 369 queues a CPU after 4 million wake-ups, of which all but one rested.
const REAPED_OF_MANY: u32 = 4;

impl<P, G: Pools> RunQueue<P, G> {
    /// Forgets an empty group queue that would be placed no differently if it were made anew, or some where
    /// there are many.
    pub(super) fn reap(&mut self) {
        self.reap_one();
        if self.fair.nr_group_queues() > MANY_GROUP_QUEUES {
            (0..REAPED_OF_MANY).for_each(|_| self.reap_one());
        }
    }

    /// Forgets the group queue whose turn it is, if it is such a one.
    fn reap_one(&mut self) {
        let now = Now { clock: self.clock, config: &self.config };
        let rests = |id| self.limits.is_at_rest(self.clock, id);
        if let Some(id) = self.fair.next_to_reap(now, rests) {
            self.remove_queue(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Attr, GroupId, LatencyNice, Weight};
    use crate::cpu::{CpuId, CpuSet};
    use crate::group::Groups;
    use crate::kernel::Model;
    use crate::run_queue::{Enqueue, Prev};
    use crate::task::{Task, TaskId};
    use crate::time::{Nanos, Time};
    use crate::topology::Topology;
    use std::sync::Arc;

    /// As many groups as anybody asks for, side by side.
    #[derive(Debug)]
    struct Flat;

    const GROUPS: u32 = 1_000;

    impl Pools for Flat {}

    impl Groups for Flat {
        fn count(&self) -> usize {
            1 + GROUPS as usize
        }

        fn parent(&self, _: GroupId) -> GroupId {
            GroupId::ROOT
        }

        fn weight(&self, _: GroupId) -> Weight {
            Weight::NICE_0
        }

        fn is_idle(&self, _: GroupId) -> bool {
            false
        }

        fn latency_nice(&self, _: GroupId) -> LatencyNice {
            LatencyNice::ZERO
        }

        fn exchange_load(&self, _: GroupId, _: u64, new: u64) -> u64 {
            new
        }
    }

    /// How many groups wake up at once.
    const BURST: u32 = 100;

    /// The most group queues that a CPU has while tasks of ever other groups wake up there together.
    fn most_queues(model: Model, bursts: u32) -> usize {
        let config = Arc::new(model.config(Topology::flat(2).unwrap()));
        let mut rq = RunQueue::new(CpuId(0), config, Arc::new(Flat));
        let (mut now, mut most) = (Time(1), 0);
        for burst in 0..bursts {
            for nth in burst * BURST..(burst + 1) * BURST {
                let attr = Attr::normal(CpuSet::only(CpuId(0)));
                let group = GroupId(1 + nth * 377 % GROUPS);
                let task = Task::new(TaskId(nth.into()), Attr { group, ..attr }, nth);
                let _ = rq.offer(now, task, Enqueue::Woken).expect("it may run here");
                most = most.max(rq.group_loads().count());
            }
            let mut next = rq.schedule(now, Prev::Idle).next;
            while let Some((_, payload)) = next {
                now = now + Nanos::from_micros(100);
                next = rq.schedule(now, Prev::Blocked(payload)).next;
            }
            rq.check();
            now = now + Nanos::from_millis(100);
        }
        most
    }

    #[test]
    fn the_queues_of_groups_that_sleep_are_given_back() {
        for model in ["6.1", "6.12", "6.18", "6.1 + founding"] {
            let most = most_queues(model.parse().unwrap(), 50);
            assert!(most <= BURST as usize + MANY_GROUP_QUEUES, "{model}: {most} queues");
        }
    }
}
