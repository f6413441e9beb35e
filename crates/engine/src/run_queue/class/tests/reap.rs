//! Group queues of sleeping tasks.

use super::*;
use crate::kernel::Model;
use crate::run_queue::class::reap::MANY_GROUP_QUEUES;

/// The number of groups that wake up at once.
const BURST: u32 = 100;

const GROUPS: u32 = 1_000;

/// With `PELT` the queue of a group stays until the load that its sleeper left there is less than 1
/// of 1,024: ten times 34 ms, in which three more bursts come.
const BURSTS_UNTIL_DECAYED: usize = 4;

/// Returns the highest number of group queues on a CPU while tasks of ever different groups wake up
/// there together.
fn most_queues(model: Model, bursts: u32) -> usize {
    let config = Arc::new(model.config(Topology::flat(2).unwrap()));
    let mut rq = RunQueue::new(CpuId(0), config, Arc::new(Flat(GROUPS, ())));
    let (mut now, mut most) = (Time(1), 0);
    for burst in 0..bursts {
        for nth in burst * BURST..(burst + 1) * BURST {
            let attr = Attr::normal(CpuSet::only(CpuId(0)));
            let group = GroupId(1 + nth * 377 % GROUPS);
            let task = Task::new(TaskId(nth.into()), Attr { group, ..attr }, nth);
            let _ = rq.offer(now, task, Enqueue::Woken).expect("the task may run here");
            most = most.max(rq.queues().group_loads().count());
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
        let model: Model = model.parse().unwrap();
        let bursts = if model.features().has(Feature::Pelt) { BURSTS_UNTIL_DECAYED } else { 1 };
        let most = most_queues(model, 50);
        let bound = bursts * BURST as usize + MANY_GROUP_QUEUES;
        assert!(most <= bound, "{model}: {most} queues, not {bound}");
    }
}
