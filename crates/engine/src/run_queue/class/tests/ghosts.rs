//! Tasks and groups that sleep in their place, and the slice of a group.

use super::*;
use crate::attr::RtPrio;
use crate::kernel::Model;

/// Returns three equal tasks; the first ran for so long that it owes the others time, and sleeps
/// now.
fn asleep_in_debt(rules: FairRules) -> (Lone, Box<Task<u64>>, Index) {
    let mut lone = Lone::by(rules, &[(0, 20_000), (0, 20_000), (0, 20_000)]);
    let _ = lone.switch(Prev::Preempted);
    lone.now = lone.now + Nanos::from_millis(9);
    let _ = lone.rq.at(lone.now);
    let runs = lone.rq.tasks().curr().unwrap().id.0;
    assert!(lone.lag(runs) < -5_000_000, "no update for 9 ms");
    let at = lone.at(runs);
    let (sleeper, _) = lone.switch(Prev::Blocked).released.expect("the task blocks");
    (lone, sleeper, at)
}

/// A sleeper with a debt has weight in its queue until the debt is worked off; not in 6.6, and not
/// in the runtime.
#[test]
fn who_owes_something_sleeps_in_its_place() {
    for rules in RULES {
        let (mut lone, sleeper, at) = asleep_in_debt(rules);
        let stays = lone.rq.site().has(Feature::DelayDequeue);
        assert_eq!(lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site()), stays, "{rules:?}");
        assert_eq!(sleeper.sleeps_on(), stays.then_some(CpuId(0)));
        let root = lone.rq.classes.queues.fair.root();
        assert_eq!((root.nr, root.nr_tasks), (2 + u32::from(stays), 2));
        // The others have the time back when each of them has run for as long.
        lone.run(Nanos::from_millis(16), |_| {});
        assert_eq!(lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site()), stays, "{rules:?}");
        lone.run(Nanos::from_millis(30), |_| {});
        assert!(!lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site()), "{rules:?}");
        assert!(lone.rq.tasks().places().get(at).is_none(), "the ghost's place is free");
        lone.offer(sleeper);
        let owes = lone.lag(0) < -1_000;
        assert_eq!(owes, rules == FairRules::V6_6, "{rules:?}: a lag of {}", lone.lag(0));
    }
}

/// A task that wakes before its ghost is dropped continues from there, and is owed no time.
#[test]
fn who_wakes_in_its_place_has_what_it_owes_and_is_owed_nothing() {
    for rules in [FairRules::V6_12, FairRules::V6_18] {
        let (mut lone, sleeper, at) = asleep_in_debt(rules);
        lone.run(Nanos::from_millis(2), |_| {});
        let before = lone.entity(at);
        lone.offer(sleeper);
        let after = lone.entity(lone.at(0));
        assert_eq!((lone.at(0), after.0.vruntime), (at, before.0.vruntime), "{rules:?}");
        assert_eq!(after.1.deadline, before.1.deadline, "{rules:?}");
        assert!(!after.0.delayed && lone.rq.classes.queues.fair.root().nr == 3);

        let (mut lone, sleeper, _) = asleep_in_debt(rules);
        // No pick happens.
        lone.now = lone.now + Nanos::from_millis(60);
        let _ = lone.rq.at(lone.now);
        assert!(lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site()));
        lone.offer(sleeper);
        assert!(lone.lag(0).abs() <= 1, "{rules:?}: a lag of {}", lone.lag(0));
        let (entity, turn) = lone.entity(lone.at(0));
        assert_eq!(turn.deadline.diff(entity.vruntime), 20_000_000);
    }
}

/// A wake-up decides by the last charge of the running task where the task of a ghost continues,
/// and only then charges the running task. So a task that slept with a debt is not placed behind a
/// running one of little weight, and takes its CPU.
#[test]
fn who_wakes_in_its_place_is_placed_by_the_last_charge() {
    for rules in [FairRules::V6_12, FairRules::V6_18] {
        let mut lone = Lone::by(rules, &[(0, 3_000), (11, 3_000)]);
        let _ = lone.switch(Prev::Preempted);
        assert_eq!(
            lone.rq.tasks().curr().unwrap().id,
            TaskId(0),
            "of equal places the earlier deadline"
        );
        lone.now = lone.now + Nanos::from_micros(850);
        let (sleeper, _) = lone.switch(Prev::Blocked).released.expect("the task blocks");
        lone.now = lone.now + Nanos::from_micros(1_180);
        assert!(lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site()));
        let offered =
            lone.rq.offer(lone.now, sleeper, Enqueue::Woken).expect("the task may run here");
        assert_eq!(offered.1, Resched::Lazy, "{rules:?}");
        let _ = lone.switch(Prev::Preempted);
        assert_eq!(lone.rq.tasks().curr().unwrap().id, TaskId(0), "{rules:?}");
    }
}

/// A ghost that would be picked before a woken task hides it in 6.12, and is dropped in 6.18.
#[test]
fn a_wakeup_takes_out_a_ghost_that_comes_before_it_but_not_in_6_12() {
    for rules in [FairRules::V6_12, FairRules::V6_18] {
        for (slept, slice, due) in [(60, 300, true), (60, 20_000, false), (1, 300, false)] {
            let mut lone = Lone::by(rules, &[(0, 20_000), (0, 20_000)]);
            let _ = lone.switch(Prev::Preempted);
            lone.now = lone.now + Nanos::from_millis(9);
            let (sleeper, _) = lone.switch(Prev::Blocked).released.expect("the task blocks");
            // No pick happens, and the other task continues.
            lone.now = lone.now + Nanos::from_millis(slept);
            let _ = lone.rq.at(lone.now);
            lone.offer(task(2, 0, slice));
            let stays = !due || rules == FairRules::V6_12;
            // A fork with an equal slice causes no test in 6.18.
            assert_eq!(
                lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site()),
                stays,
                "{slept} {slice} {rules:?}"
            );
        }
    }
}

/// A task that no longer matches its ghost, or may not run there, leaves the ghost to its end.
#[test]
fn a_ghost_is_of_its_task_as_it_was() {
    let none = Change::default;
    let changes = [
        Change { policy: Some(Policy::Fifo(RtPrio::new(1).unwrap())), ..none() },
        Change { policy: Some(normal(3)), ..none() },
        Change { slice: Update::Clear, ..none() },
        Change { group: Some(GroupId(1)), ..none() },
        Change { boost: Update::Set(RtPrio::new(1).unwrap()), ..none() },
        Change { affinity: Some(std::iter::once(CpuId(1)).collect()), ..none() },
    ];
    for change in changes {
        let (lone, mut sleeper, _) = asleep_in_debt(FairRules::V6_18);
        sleeper.apply(change.clone());
        assert!(!lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site()), "{change:?}");
    }
    let (mut lone, sleeper, _) = asleep_in_debt(FairRules::V6_18);
    let _ = lone.rq.at(lone.now).set_online(false);
    lone.rq.check();
    assert!(
        !lone.rq.tasks().has_ghost_of(&sleeper, lone.rq.site())
            && lone.rq.tasks().places().iter().count() == 2
    );
}

/// A CPU of 6.18 with a task group.
struct Nested(RunQueue<u64, Flat>, Time);

impl Nested {
    /// Returns a CPU with these tasks, by group and slice.
    fn new(tasks: &[(u32, u64)]) -> Nested {
        let model = Model::named("6.18".parse().unwrap());
        let config = model.config(Topology::flat(8).unwrap());
        let mut nested =
            Nested(RunQueue::new(CpuId(0), Arc::new(config), Arc::new(Flat(1, ()))), Time(1));
        for (id, &(group, slice)) in (0..).zip(tasks) {
            let mut task = task(id, 0, slice);
            task.attr.group = GroupId(group);
            task.note_attr();
            nested.offer(task);
        }
        nested
    }

    fn offer(&mut self, task: Box<Task<u64>>) {
        let _ = self.0.offer(self.1, task, Enqueue::Woken).expect("the task may run here");
        self.0.check();
    }

    /// Returns the entity of the group.
    fn group(&self) -> (Entity, Turn) {
        let id = self.0.classes.queues.fair.queue_of(GroupId(1)).expect("the group has a queue");
        let at = self.0.classes.queues.fair.tree.queue(id).entity.expect("a group has an entity");
        let Order::Eevdf(order) = &self.0.classes.queues.fair.order else {
            panic!("the order is EEVDF")
        };
        (*self.0.classes.queues.fair.tree.entity(at), order.turn(at))
    }

    fn switch(&mut self, after: u64, how: fn(u64) -> Prev<u64>) -> Switch<u64> {
        self.1 = self.1 + Nanos::from_millis(after);
        let prev = self.0.tasks().curr().map_or(Prev::Idle, |task| how(task.id.0));
        self.0.classes.next.ask(true);
        let switch = self.0.schedule(self.1, prev);
        self.0.check();
        switch
    }
}

/// The only task of a group owes no other task of the group any time. The debt of the group to the
/// others still exists when the task returns.
#[test]
fn a_group_that_is_left_empty_sleeps_in_its_place() {
    let mut nested = Nested::new(&[(1, 20_000)]);
    let _ = nested.switch(0, Prev::Preempted);
    let mut other = task(1, 0, 20_000);
    other.attr.group = GroupId::ROOT;
    other.note_attr();
    nested.offer(other);
    let sleeper = nested.switch(9, Prev::Blocked).released.expect("the task blocks").0;
    assert_eq!(sleeper.sleeps_on(), None);
    let before = nested.group();
    assert!(before.0.delayed);
    nested.1 = nested.1 + Nanos::from_millis(2);
    nested.offer(sleeper);
    let after = nested.group();
    assert!(!after.0.delayed);
    assert_eq!(after.0.vruntime, before.0.vruntime);
    assert_eq!(after.1.deadline, before.1.deadline);
    let sleeper = nested.switch(30, Prev::Blocked).released.expect("the task blocks").0;
    assert_eq!(sleeper.id, TaskId(1), "the other task had the time that it was owed");
}

/// A group has the shortest slice of its members, asleep or not.
#[test]
fn a_group_has_the_shortest_slice_of_its_members() {
    let slice = |nested: &Nested| nested.group().1.slice();
    let mut nested = Nested::new(&[(1, 20_000), (1, 5_000), (0, 9_000)]);
    assert_eq!(slice(&nested), 5_000_000);
    let deadline = nested.group().1.deadline;
    let mut short = task(3, 0, 300);
    short.attr.group = GroupId(1);
    short.note_attr();
    nested.offer(short);
    assert_eq!((slice(&nested), nested.group().1.deadline), (300_000, deadline));
    let at = nested.0.tasks().iter().find(|(_, it)| it.id == TaskId(3)).unwrap().0;
    let change = Change { slice: Slice::new(Nanos::from_millis(7)).into(), ..Change::default() };
    let _ = nested.0.change(nested.1, at, change);
    assert_eq!(slice(&nested), 5_000_000, "the task requests more now");
    let config = nested.0.site().config().with_online(2);
    nested.0.at(nested.1).set_config(Arc::new(config));
    nested.0.check();
    assert_eq!(slice(&nested), 5_000_000, "another machine changes no request");
    for id in [2, 1] {
        let at = nested.0.tasks().iter().find(|(_, it)| it.id == TaskId(id)).unwrap().0;
        let _ = nested.0.detach(nested.1, at);
        nested.0.check();
    }
    assert_eq!(slice(&nested), 7_000_000);
}
