//! The buddies of queues, by the rules of each kernel.

use super::*;
use crate::kernel::Model;

/// A CPU of a named kernel. Tasks run as a test says; no tick comes.
struct Cpu {
    rq: RunQueue<u64, Flat>,
    now: Time,
}

impl Cpu {
    /// Returns a CPU with these tasks of nice 0, numbered from 0, by their group.
    fn new(kernel: &str, groups: &[u32]) -> Cpu {
        let config = Model::named(kernel.parse().unwrap()).config(Topology::flat(8).unwrap());
        let rq = RunQueue::new(CpuId(0), Arc::new(config), Arc::new(Flat(1, ())));
        let mut cpu = Cpu { rq, now: Time(1) };
        for (id, &group) in (0..).zip(groups) {
            let mut task = Task::new(TaskId(id), Attr::normal(CpuSet::first(1)), id);
            task.attr.group = GroupId(group);
            task.note_attr();
            let _ = cpu.offer(task);
        }
        cpu
    }

    fn offer(&mut self, task: Box<Task<u64>>) -> Resched {
        let offered = self.rq.offer(self.now, task, Enqueue::Woken);
        self.rq.check();
        offered.expect("the task may run here").1
    }

    fn runs(&self) -> u64 {
        self.rq.tasks().curr().expect("a task runs").id.0
    }

    /// Runs a task for this long, whatever the rules say.
    fn run(&mut self, id: u64, micros: u64) {
        let prev = self.rq.tasks().curr().map_or(Prev::Idle, |task| Prev::Preempted(task.id.0));
        let followed = self.rq.follow(self.now, prev, Some(TaskId(id)));
        assert_eq!(followed.switch.next, Some((TaskId(id), id)));
        self.pass(micros);
    }

    /// Lets the running task go on for this long.
    fn pass(&mut self, micros: u64) {
        self.now = self.now + Nanos::from_micros(micros);
        let _ = self.rq.at(self.now);
        self.rq.check();
    }

    /// Switches by the rules. Returns the task that runs then.
    fn switch(&mut self, how: fn(u64) -> Prev<u64>) -> (u64, Option<Box<Task<u64>>>) {
        self.rq.classes.next.ask(true);
        let switch = self.rq.schedule(self.now, how(self.runs()));
        self.rq.check();
        (self.runs(), switch.released.map(|(task, _)| task))
    }

    /// Returns the vruntime of a task's entity in the root queue, in microseconds.
    fn vruntime(&self, id: u64) -> i64 {
        let tree = &self.rq.classes.queues.fair.tree;
        let at = self.rq.tasks().iter().find(|(_, task)| task.id == TaskId(id)).unwrap().0.0;
        let top = tree.above(at).unwrap_or(at);
        tree.entity(top).vruntime.diff(VTime(0)) / 1_000
    }

    /// Runs each of these tasks until its entity in the root queue has this vruntime.
    fn run_to(&mut self, places: &[(u64, i64)]) {
        for &(id, micros) in places {
            let missing = micros - self.vruntime(id);
            self.run(id, missing.try_into().expect("the task is not beyond its place"));
        }
    }
}

/// Returns a CPU of 6.1 where task 0 of a group runs, `ahead` microseconds ahead of task 2 outside.
/// Task 1 of the group waits.
fn ahead_of_an_outsider(ahead: i64) -> Cpu {
    let mut cpu = Cpu::new("6.1", &[1, 1, 0]);
    cpu.run_to(&[(2, 100_000), (0, 100_000 + ahead)]);
    cpu
}

/// Returns a CPU of a kernel with EEVDF where task 0 of a group runs; task 1 of the group waits.
/// Task 2 outside has the first deadline. The group is eligible if task 3 had much CPU time.
fn beside_a_first_deadline(kernel: &str, third: u64) -> Cpu {
    let mut cpu = Cpu::new(kernel, &[1, 1, 0, 0]);
    for (id, micros) in [(3, third), (1, 2_000), (0, 1_000)] {
        cpu.run(id, micros);
    }
    cpu
}

/// After a task of a group went to sleep or ended, another one of the group runs next in 6.1, if the
/// group is within the wake-up granularity of the first: 4 ms on this machine.
#[test]
fn in_6_1_another_task_of_the_group_follows_within_the_granularity() {
    for (ahead, next) in [(-1_000, 1), (1_000, 1), (4_000, 1), (4_001, 2)] {
        let followers = [Prev::Blocked, |_| Prev::Exited].map(|how| {
            let mut cpu = ahead_of_an_outsider(ahead);
            cpu.switch(how).0
        });
        assert_eq!(followers, [next; 2], "{ahead} us ahead");
    }
    let mut cpu = ahead_of_an_outsider(1_000);
    assert_eq!(cpu.switch(Prev::Preempted).0, 2, "a preempted task leaves its group no preference");
}

/// The same in 6.12 and 6.18, if the group is eligible. In 6.6 the first deadline counts.
#[test]
fn since_6_12_another_task_of_the_group_follows_if_the_group_is_eligible() {
    for (kernel, third, next) in [
        ("6.12", 10_000, 1),
        ("6.12", 1_000, 2),
        ("6.18.15", 10_000, 1),
        ("6.18.15", 1_000, 2),
        ("6.18", 10_000, 1),
        ("6.18", 1_000, 2),
        ("6.6", 10_000, 2),
    ] {
        let followers = [Prev::Blocked, |_| Prev::Exited].map(|how| {
            let mut cpu = beside_a_first_deadline(kernel, third);
            cpu.switch(how).0
        });
        assert_eq!(followers, [next; 2], "{kernel}, {third} us");
    }
}

/// A task that sleeps in its place has not left its group, and gives it no preference.
#[test]
fn a_ghost_leaves_its_group_no_preference() {
    for kernel in ["6.12", "6.18.15", "6.18"] {
        let mut cpu = beside_a_first_deadline(kernel, 10_000);
        cpu.pass(1_500);
        let (next, sleeper) = cpu.switch(Prev::Blocked);
        assert!(sleeper.unwrap().sleeps_on().is_some(), "{kernel}: it owes its group time");
        assert_eq!(next, 2, "{kernel}");
    }
}

/// The group of the task that runs now begins no turn, so it is preferred until a tick ends its
/// turn.
#[test]
fn a_group_is_preferred_until_its_turn_is_over() {
    let mut cpu = ahead_of_an_outsider(-1_000);
    assert_eq!(cpu.switch(Prev::Blocked).0, 1);
    cpu.pass(3_000);
    assert_eq!(cpu.switch(Prev::Preempted).0, 1, "2 ms ahead");
    cpu.pass(3_000);
    assert_eq!(cpu.switch(Prev::Preempted).0, 2, "5 ms ahead");

    // A tick ends the turns on all levels, that of the task in its group, too.
    for (groups, tick) in [(&[1, 1, 0][..], false), (&[1, 1, 0], true), (&[1, 1, 0, 1], true)] {
        let mut cpu = Cpu::new("6.1", groups);
        cpu.run_to(&[(2, 100_000), (0, 89_000), (2, 100_000), (0, 89_000)]);
        let (next, _) = cpu.switch(Prev::Blocked);
        assert_ne!(next, 2, "the group is first");
        // Each of the two entities of the root queue has a slice of at most 12 ms.
        cpu.pass(13_000);
        if tick {
            let curr = cpu.rq.tasks().running().unwrap();
            cpu.rq.classes.tick(curr);
        }
        assert_eq!(cpu.switch(Prev::Preempted).0 == 2, tick, "2 ms ahead, of {groups:?}");
    }
}

/// In 6.1 a woken task that preempts runs next, though another one is first, if that is within the
/// granularity. It does not if a switch was due before.
#[test]
fn in_6_1_who_preempts_by_waking_runs() {
    for (place, due, next) in [(105_000, false, 3), (105_000, true, 1), (108_000, false, 1)] {
        let mut cpu = Cpu::new("6.1", &[0, 0, 0, 0]);
        cpu.run_to(&[(2, 110_000), (1, 103_000), (3, place)]);
        let (_, sleeper) = cpu.switch(Prev::Blocked);
        cpu.run_to(&[(0, 113_000)]);
        cpu.rq.classes.next.ask(due);
        assert_ne!(cpu.offer(sleeper.unwrap()), Resched::No);
        assert_eq!(cpu.switch(Prev::Preempted).0, next, "{place} {due}");
    }
}

/// In 6.1 a task that was preempted in a queue of eight or more goes on, when the woken one sleeps
/// again, if it is within the granularity of the first.
#[test]
fn in_6_1_a_preempted_task_goes_on_if_eight_are_queued() {
    for (nr, ahead, next) in [(8, 3_000, 0), (7, 3_000, 1), (8, 5_000, 1)] {
        let mut cpu = Cpu::new("6.1", &vec![0; nr]);
        let last = nr as u64 - 1;
        cpu.run_to(&[(last, 90_000)]);
        let (_, sleeper) = cpu.switch(Prev::Blocked);
        let places: Vec<_> = (1..last).map(|id| (id, 100_000 + id.cast_signed())).collect();
        cpu.run_to(&places);
        cpu.run_to(&[(0, 100_000 + ahead)]);
        assert_ne!(cpu.offer(sleeper.unwrap()), Resched::No);
        assert_eq!(cpu.switch(Prev::Preempted).0, last);
        assert_eq!(cpu.switch(Prev::Blocked).0, next, "{nr} tasks, {ahead} us ahead");
    }
}

/// A woken task with a short slice, which is first, does not take the CPU from an eligible group
/// that is preferred. In 6.12 only the pick says so, in 6.18 the wake-up, too.
#[test]
fn a_preferred_group_keeps_the_cpu_beside_a_woken_task() {
    for (kernel, resched) in
        [("6.12", Resched::Lazy), ("6.18.15", Resched::No), ("6.18", Resched::No)]
    {
        let mut cpu = Cpu::new(kernel, &[1, 1, 0, 0]);
        for (id, micros) in [(3, 4_000), (1, 1_500), (2, 1_500), (1, 300), (0, 100)] {
            cpu.run(id, micros);
        }
        assert_eq!(cpu.switch(Prev::Blocked).0, 1, "{kernel}");
        assert_eq!(cpu.offer(task(4, 0, 100)), resched, "{kernel}");
        assert_eq!(cpu.switch(Prev::Preempted).0, 1, "{kernel}");
    }
}
