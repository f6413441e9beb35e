//! Throttling task by task: limbo, seen through a run queue in virtual time.
//!
//! Seen failing: with `throttles_tasks` off, all of them but that of a task that stays.

use super::*;
use crate::attr::RtPrio;
use crate::balance::Measure;
use crate::fair::entity::Lag;
use crate::limits::Limit;
use crate::limits::bandwidth::{CfsBandwidth, Control};
use std::cell::{RefCell, RefMut};

const POD: GroupId = GroupId(1);
const MS: Nanos = Nanos::from_millis(1);

/// A CPU with tasks in the pod, which has 10 of each 100 ms.
struct Pod {
    rq: RunQueue<u64, Flat<RefCell<CfsBandwidth>>>,
    now: Time,
    /// The tasks in the order in which they were picked.
    picked: Vec<u64>,
}

impl Pod {
    fn new() -> Pod {
        let mut config =
            Config { rules: FairRules::V6_18, ..Config::new(Topology::flat(2).unwrap()) };
        config.features.set(Switched { feature: Feature::Eevdf, on: true });
        config.features.set(Switched { feature: Feature::DelayDequeue, on: true });
        let limit = Limit::new(Nanos::from_millis(10), Limit::PERIOD, Nanos::ZERO, false).unwrap();
        let control = Control { slice: Nanos::from_millis(5), interleaves: true };
        let pool = CfsBandwidth::new(limit, 1, 1, control, (Time(1), Nanos::ZERO));
        let groups = Flat(1, RefCell::new(pool));
        #[expect(clippy::arc_with_non_send_sync, reason = "a run queue of a test has one thread")]
        let groups = Arc::new(groups);
        let rq = RunQueue::new(CpuId(0), Arc::new(config), groups);
        Pod { rq, now: Time(1), picked: Vec::new() }
    }

    /// Returns a CPU on which tasks with these slices in microseconds used the budget up.
    fn throttled(slices: &[u64]) -> Pod {
        let mut pod = Pod::new();
        (0..).zip(slices).for_each(|(id, &slice)| pod.wake(id, slice));
        pod.run(50 * MS.0);
        assert_eq!(pod.rq.tasks().curr().map(|task| task.id), None, "{}", pod.rq);
        pod
    }

    /// The group's bandwidth, which all CPUs share.
    fn bandwidth(&self) -> RefMut<'_, CfsBandwidth> {
        self.rq.classes.queues.site.groups().1.borrow_mut()
    }

    fn wake(&mut self, id: u64, slice: u64) {
        let mut task = task(id, 0, slice);
        task.attr.group = POD;
        task.note_attr();
        self.offer(task);
    }

    fn offer(&mut self, task: Box<Task<u64>>) {
        let _ = self.rq.offer(self.now, task, Enqueue::Woken).expect("the task may run here");
        self.rq.check();
    }

    fn switch(&mut self, how: fn(u64) -> Prev<u64>) -> Switch<u64> {
        let prev = self.rq.tasks().curr().map_or(Prev::Idle, |task| how(task.id.0));
        let switch = self.rq.schedule(self.now, prev);
        self.picked.extend(switch.next.map(|(id, _)| id.0));
        self.rq.check();
        switch
    }

    /// Runs for so many nanoseconds. The host's tasks are never in the kernel.
    fn run(&mut self, span: u64) {
        let end = self.now + Nanos(span);
        while self.now < end {
            while self.rq.resched().is_due() {
                let _ = self.switch(Prev::Preempted);
            }
            self.now = self.rq.next_expiry().map_or(end, |at| at.min(end));
            while self.rq.expire(self.now, Walk::Busy).is_some() {}
            self.refill();
            let _ = self.rq.at(self.now);
        }
    }

    /// Hands the budget out that a timer brought.
    fn refill(&mut self) {
        while let Some((_, group)) = self.rq.news_mut().take_refilled() {
            let _ = self.rq.at(self.now).refill(self.now, group, &mut 0);
            self.rq.check();
        }
    }

    /// Brings the clock to the first refill and hands it out, without a switch.
    fn refill_at_period_end(&mut self) {
        self.now = Time(1) + Limit::PERIOD;
        while self.rq.expire(self.now, Walk::Busy).is_some() {}
        self.refill();
    }

    fn at(&self, id: u64) -> Index {
        let mut tasks = self.rq.tasks().iter();
        tasks.find(|(_, task)| task.id == TaskId(id)).expect("the task is here").0.0
    }

    /// Returns the tasks in limbo, the one that entered last first.
    fn limbo(&self) -> Vec<u64> {
        let fair = &self.rq.classes.queues.fair;
        let in_limbo = |at: &Index| fair.is_in_limbo(*at);
        let mut all: Vec<_> = self.rq.tasks().iter().map(|(at, _)| at.0).filter(in_limbo).collect();
        let left = |at: &Index| self.picked.iter().rposition(|id| *id == self.id(*at));
        all.sort_by_key(|at| std::cmp::Reverse(left(at)));
        let last = fair.queue_of(POD).and_then(|id| fair.last_in_limbo(id));
        assert_eq!(last, all.first().copied(), "the last one is the first in the list");
        all.into_iter().map(|at| self.id(at)).collect()
    }

    fn id(&self, at: Index) -> u64 {
        self.rq.tasks().get(QueueIndex(at)).expect("a task").id.0
    }

    /// Returns the CPU time that a task in limbo owed its queue when it left.
    fn lead(&self, id: u64) -> i64 {
        let task = self.rq.tasks().get(QueueIndex(self.at(id))).expect("a task");
        match task.standing.lag {
            Lag::Asleep { lead, .. } => lead,
            lag => panic!("{id} left as a sleeper, not as {lag:?}"),
        }
    }

    /// Returns how far a task is ahead of its queue's virtual clock, and its deadline ahead of it.
    fn place(&self, id: u64) -> (i64, i64) {
        let at = self.at(id);
        let queues = &self.rq.classes.queues;
        let (ahead, deadline, _) = queues.fair_place(at).expect("the order is EEVDF");
        (ahead, deadline - ahead)
    }

    fn change(&mut self, id: u64, change: Change) {
        let at = QueueIndex(self.at(id));
        assert!(self.rq.change(self.now, at, change).evicted.is_none());
        self.rq.check();
    }
}

/// The tasks leave one by one, each when it is picked; the first one is the one that comes back last.
/// It has the lag with which it left, and a new deadline.
#[test]
fn tasks_leave_one_by_one_and_come_back_in_the_opposite_order_with_their_lag() {
    let mut pod = Pod::throttled(&[3_000, 2_000, 1_000]);
    let limbo = pod.limbo();
    assert_eq!(limbo.len(), 3);
    let left: Vec<_> = limbo.iter().rev().copied().collect();
    assert!(pod.picked.ends_with(&left), "{left:?} left as they were picked: {:?}", pod.picked);
    let (first, last) = (left[0], left[2]);
    let lead = pod.lead(first);
    assert!(lead != 0 && pod.lead(last) == 0, "{lead}: who is alone has no lag");
    pod.refill_at_period_end();
    assert_eq!(pod.limbo(), []);
    let Queues { fair, .. } = &mut pod.rq.classes.queues;
    let back: Vec<_> = (0..3).map(|_| fair.look_at_next()).collect();
    assert_eq!(back.into_iter().map(|at| pod.id(at)).collect::<Vec<_>>(), limbo);
    let (ahead, due) = pod.place(first);
    assert!((ahead - lead).abs() < 10, "{first} is {ahead} ahead, {lead} when it left");
    let slice = 1_000_000 * (3 - first).cast_signed();
    assert_eq!(due, slice, "a new deadline");
}

/// It runs until its return to user mode, and its group pays for that.
#[test]
fn a_task_that_wakes_in_a_throttled_group_runs_to_its_return_to_user_mode() {
    let mut pod = Pod::throttled(&[3_000]);
    pod.wake(7, 3_000);
    assert_eq!(pod.rq.resched(), Resched::Yes);
    let (owed, next) = (pod.rq.queues().owed(POD), pod.switch(Prev::Preempted).next);
    assert_eq!((next, pod.rq.resched()), (Some((TaskId(7), 7)), Resched::InUserMode));
    pod.now = pod.now + Nanos::from_micros(50);
    assert_eq!(pod.switch(Prev::Preempted).next, None);
    assert_eq!(pod.limbo(), [7, 0]);
    let used = pod.rq.queues().usage(pod.now, POD).expect("the pod used CPU time").used;
    pod.refill_at_period_end();
    assert_eq!(pod.limbo(), []);
    assert_eq!(used, Nanos(10_050_000 + owed.0), "the 50 us count");
    // A task that sleeps in the kernel never gets there.
    pod.run(50 * MS.0);
    pod.wake(8, 3_000);
    let _ = pod.switch(Prev::Preempted);
    let slept = pod.switch(Prev::Blocked).released.expect("the task sleeps");
    assert_eq!((slept.0.id, pod.limbo().len()), (TaskId(8), 2));
}

/// A task of another group that must run comes first, and the task of the pod waits meanwhile.
#[test]
fn another_switch_comes_before_the_way_to_limbo() {
    let mut pod = Pod::throttled(&[3_000]);
    pod.wake(7, 3_000);
    let _ = pod.switch(Prev::Preempted);
    let mut fifo = task(9, 0, 3_000);
    fifo.attr.policy = Policy::Fifo(RtPrio::MIN);
    fifo.note_attr();
    pod.offer(fifo);
    assert_eq!(pod.switch(Prev::Preempted).next, Some((TaskId(9), 9)));
    assert_eq!((pod.limbo(), pod.rq.queues().competing().count()), (vec![0], 2));
    let _ = pod.switch(|_| Prev::Exited);
    assert_eq!(pod.rq.resched(), Resched::InUserMode, "the task is picked again");
}

/// The budget came before the task was in user mode, so the task goes on.
#[test]
fn a_task_that_its_group_no_longer_holds_back_stays() {
    let mut pod = Pod::throttled(&[3_000]);
    pod.now = Time(1 + Limit::PERIOD.0 - 50_000);
    pod.wake(7, 3_000);
    let _ = pod.switch(Prev::Preempted);
    pod.refill_at_period_end();
    assert_eq!(pod.switch(Prev::Preempted).next, Some((TaskId(7), 7)));
    assert_eq!((pod.limbo(), pod.rq.resched()), (vec![], Resched::No));
}

#[test]
fn a_change_in_limbo_keeps_a_task_there_unless_nothing_holds_it_back() {
    let mut pod = Pod::throttled(&[3_000, 3_000, 3_000, 3_000]);
    let change = |policy| Change { policy: Some(policy), ..Change::default() };
    pod.change(0, change(normal(5)));
    assert_eq!(pod.limbo().len(), 4);
    pod.change(1, change(Policy::Fifo(RtPrio::MIN)));
    let regroups = Change { group: Some(GroupId::ROOT), ..Change::default() };
    pod.change(2, regroups);
    assert_eq!(pod.limbo().len(), 2, "a real-time task and one of another group compete");
    assert_eq!(pod.switch(Prev::Preempted).next, Some((TaskId(1), 1)));
    let _ = pod.switch(|_| Prev::Exited);
    assert_eq!(pod.rq.tasks().curr().map(|task| task.id), Some(TaskId(2)));
    let gone = pod.rq.detach(pod.now, QueueIndex(pod.at(3)));
    assert_eq!(gone.expect("a task in limbo can be moved").id, TaskId(3));
    pod.rq.check();
    pod.refill_at_period_end();
    assert_eq!(pod.limbo(), []);
}

/// Neither a waiting task nor the running one goes where it could not run (`throttled_lb_pair`).
#[test]
fn balance_takes_no_task_to_a_cpu_where_its_group_is_throttled() {
    let mut pod = Pod::new();
    for id in 0..2 {
        let mut task = task(id, 0, 3_000);
        (task.attr.group, task.attr.affinity) = (POD, CpuSet::first(2));
        task.note_attr();
        pod.offer(task);
    }
    let _ = pod.switch(Prev::Preempted);
    let to = CpuId(1);
    let pull = FairPull {
        to,
        measure: Measure::All,
        max_load: u64::MAX,
        hot: true,
        eligible: false,
        runs: None,
    };
    pod.bandwidth().wait(to);
    let given = pod.rq.at(pod.now).detach_fair(pull).map(|(task, _)| task.id);
    assert_eq!(given, Err(NotPulled::Pinned));
    assert_eq!(pod.rq.at(pod.now).give_curr(to, Measure::All), Err(NotPulled::Pinned));
    pod.bandwidth().forget(to);
    assert_eq!(pod.rq.at(pod.now).give_curr(to, Measure::All), Ok(Resched::Yes));
    let given = pod.rq.at(pod.now).detach_fair(pull).map(|(task, _)| task.id);
    assert!(given.is_ok(), "{given:?}");
    pod.rq.check();
}
