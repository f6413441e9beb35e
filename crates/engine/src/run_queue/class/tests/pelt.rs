//! Averages of load, compared with the series summed up in floating point.

use super::*;
use crate::fair::averages::LoadSums;
use crate::kernel::Model;
use std::collections::BTreeMap;

const PERIOD: f64 = (1 << 20) as f64;
const GROUPS: u32 = 2;

/// Returns the part that is left after a number of periods.
fn left(periods: u64) -> f64 {
    2_f64.powf(-(periods as f64) / 32.0)
}

/// Returns the sum for a signal that was always 1.
fn full(now: Time) -> f64 {
    PERIOD / (1.0 - left(1)) - PERIOD + (now.0 % (1 << 20)) as f64
}

/// Ages a sum of the series by the time between two instants, while `signal` is added.
fn age(sum: &mut f64, (since, now): (Time, Time), signal: f64) {
    let (first, last) = (since.0 >> 20, now.0 >> 20);
    if first == last {
        *sum += signal * (now.0 - since.0) as f64;
        return;
    }
    let begun = PERIOD - (since.0 % (1 << 20)) as f64;
    let whole: f64 = (1..(last - first).min(5_000)).map(|age| PERIOD * left(age)).sum();
    let adds = begun * left(last - first) + whole + (now.0 % (1 << 20)) as f64;
    *sum = *sum * left(last - first) + signal * adds;
}

/// A task, and the sums of its queued and running time.
#[derive(Debug)]
struct Known {
    group: GroupId,
    weight: f64,
    load: f64,
    runnable: f64,
    util: f64,
    /// The task, if it is with the host and its part is still in the averages of its queue.
    asleep: Option<Box<Task<u32>>>,
    /// The task, if it is with the host without any part here.
    away: Option<Box<Task<u32>>>,
}

/// The sums of load, runnable and util of a queue.
type Sums = [f64; 3];

struct World {
    rq: RunQueue<u32, Flat>,
    now: Time,
    tasks: BTreeMap<TaskId, Known>,
    queues: BTreeMap<GroupId, Sums>,
}

impl World {
    fn new(kernel: &str) -> World {
        let model: Model = kernel.parse().unwrap();
        let config = Arc::new(model.config(Topology::flat(2).unwrap()));
        let rq = RunQueue::new(CpuId(0), config, Arc::new(Flat(GROUPS, ())));
        let queues = (0..=GROUPS).map(|group| (GroupId(group), [0.0; 3])).collect();
        World { rq, now: Time(12_345_678_901), tasks: BTreeMap::new(), queues }
    }

    fn payload(&self) -> Option<u32> {
        self.rq.tasks().curr().map(|task| task.id.0 as u32)
    }

    /// Lets time pass, and adds to the sums by the state of each task.
    fn pass(&mut self, span: u64) {
        let (since, now) = (self.now, Time(self.now.0 + span));
        for (id, known) in &mut self.tasks {
            let queued = self.rq.tasks().iter().any(|(_, task)| task.id == *id);
            let runs = self.rq.tasks().curr().is_some_and(|task| task.id == *id);
            age(&mut known.load, (since, now), queued.into());
            age(&mut known.runnable, (since, now), queued.into());
            age(&mut known.util, (since, now), runs.into());
        }
        for (&group, sums) in &mut self.queues {
            let Some(id) = self.rq.classes.queues.fair.queue_of(group) else {
                *sums = [0.0; 3];
                continue;
            };
            let queue = self.rq.classes.queues.fair.tree.queue(id);
            let runs = f64::from(u8::from(queue.curr.is_some()));
            let signals = [queue.load as f64, queue.nr_tasks.into(), runs];
            for (sum, signal) in sums.iter_mut().zip(signals) {
                age(sum, (since, now), signal);
            }
        }
        self.now = now;
    }

    /// Adds a part to the queue of a group and to the root queue, or subtracts it. The load of the
    /// root is not tested if there are groups.
    fn shift(&mut self, id: TaskId, sign: f64) {
        let Known { group, weight, load, runnable, util, .. } = self.tasks[&id];
        let mut groups = vec![group, GroupId::ROOT];
        groups.dedup();
        for group in groups {
            let sums = self.queues.get_mut(&group).unwrap();
            for (sum, part) in sums.iter_mut().zip([weight * load, runnable, util]) {
                *sum = (*sum + sign * part).max(0.0);
            }
        }
    }

    fn schedule(&mut self, prev: Prev<u32>) {
        let Switch { released, .. } = self.rq.schedule(self.now, prev);
        match released {
            Some((task, Released::Blocked)) => {
                let known = self.tasks.get_mut(&task.id).unwrap();
                known.asleep = Some(task);
            }
            Some((task, why)) => {
                assert_eq!(why, Released::Exited);
                self.shift(task.id, -1.0);
                self.tasks.remove(&task.id);
            }
            None => {}
        }
    }

    fn offer(&mut self, task: Box<Task<u32>>) {
        let _ = self.rq.offer(self.now, task, Enqueue::Woken).expect("the task may run here");
        if self.rq.resched().is_due() {
            let prev = self.payload().map_or(Prev::Idle, Prev::Preempted);
            self.schedule(prev);
        }
    }

    fn spawn(&mut self, nth: usize, group: u32, nice: i8) {
        let (id, group) = (TaskId(nth as u64), GroupId(group));
        let policy = Policy::Normal(Nice::new(nice.into()).unwrap());
        let attr = Attr { group, policy, ..Attr::normal(CpuSet::first(2)) };
        let weight = f64::from(policy.weight().get());
        self.offer(Task::new(id, attr, nth as u32));
        // Another test covers the average of a new task.
        let (at, _) =
            self.rq.tasks().iter().find(|(_, task)| task.id == id).expect("the task was taken");
        let util = f64::from(self.rq.classes.queues.fair.util_sum(at.0));
        let (load, runnable) = (full(self.now), util);
        let known = Known { group, weight, load, runnable, util, asleep: None, away: None };
        self.tasks.insert(id, known);
        self.shift(id, 1.0);
    }

    fn act(&mut self, nth: usize, (what, pick, span): (u8, usize, u64)) {
        self.pass(span);
        let of = |is: fn(&Known) -> bool| {
            let all: Vec<_> =
                self.tasks.iter().filter(|(_, it)| is(it)).map(|(&id, _)| id).collect();
            (!all.is_empty()).then(|| all[pick % all.len()])
        };
        let (sleeper, away) = (of(|it| it.asleep.is_some()), of(|it| it.away.is_some()));
        match what {
            0 if self.tasks.len() < 12 => {
                self.spawn(nth, pick as u32 % (GROUPS + 1), (pick % 13) as i8 - 6);
            }
            1..=3 => {
                let prev = self.payload().map_or(Prev::Idle, Prev::Blocked);
                self.schedule(prev);
            }
            4 => {
                let prev = self.payload().map_or(Prev::Idle, Prev::Yielded);
                self.schedule(prev);
            }
            5 if pick.is_multiple_of(4) && self.payload().is_some() => self.schedule(Prev::Exited),
            6 | 7 => {
                let Some(id) = sleeper else { return };
                let task = self.tasks.get_mut(&id).unwrap().asleep.take().unwrap();
                self.offer(task);
            }
            8 => {
                let Some(id) = sleeper else { return };
                let mut task = self.tasks.get_mut(&id).unwrap().asleep.take().unwrap();
                assert_eq!(task.left_on(), Some(CpuId(0)));
                self.rq.classes_mut().queues_mut().withdraw(self.now, &mut task);
                assert_eq!(task.left_on(), None);
                self.shift(id, -1.0);
                self.tasks.get_mut(&id).unwrap().away = Some(task);
            }
            9 => {
                let waiting =
                    self.rq.tasks().iter().filter(|(_, task)| {
                        Some(task.id) != self.rq.tasks().curr().map(|it| it.id)
                    });
                let Some((at, _)) = waiting.take(1 + pick % 3).last() else { return };
                let task = self.rq.detach(self.now, at).unwrap();
                self.shift(task.id, -1.0);
                let known = self.tasks.get_mut(&task.id).unwrap();
                known.away = Some(task);
            }
            10 => {
                let Some(id) = away else { return };
                let task = self.tasks.get_mut(&id).unwrap().away.take().unwrap();
                self.shift(id, 1.0);
                self.offer(task);
            }
            _ => {}
        }
    }

    fn check(&self) {
        self.rq.check();
        for (group, expected) in &self.queues {
            let Some(id) = self.rq.classes.queues.fair.queue_of(*group) else { continue };
            let LoadSums { load, runnable, util, .. } =
                self.rq.classes.queues.fair.sums(self.now, id);
            let has_groups = self.tasks.values().any(|it| it.group != GroupId::ROOT);
            let sums = [load, runnable, util].into_iter().zip(expected).enumerate();
            for (nth, (sum, expected)) in sums {
                if nth == 0
                    && *group == GroupId::ROOT
                    && (has_groups || self.rq.classes.queues.fair.nr_group_queues() > 0)
                {
                    continue;
                }
                let slack = expected / 1_000.0
                    + full(self.now) / 500.0 * if nth == 0 { 4_000.0 } else { 1.0 };
                assert!(
                    (sum as f64 - expected).abs() < slack,
                    "{group:?}: {nth}th sum {sum}, not {expected}\n{}",
                    self.rq
                );
            }
        }
        for (at, task) in self.rq.tasks().iter() {
            let known = &self.tasks[&task.id];
            let averages = self.rq.queues().task_averages(self.now, at).unwrap();
            near(averages.util, known.util / full(self.now) * 1_024.0, &task.id);
            if known.group == GroupId::ROOT {
                near(averages.load, known.weight * known.load / full(self.now), &task.id);
            }
        }
        for known in self.tasks.values() {
            let Some(task) = &known.asleep else { continue };
            let averages = task.averages(self.now).unwrap();
            near(averages.util, known.util / full(self.now) * 1_024.0, &task.id);
        }
    }
}

fn near(is: u64, expected: f64, id: &TaskId) {
    let slack = 2.0 + expected / 500.0;
    assert!((is as f64 - expected).abs() < slack, "{id} has {is}, not {expected}");
}

proptest! {
    #[test]
    fn averages_are_those_of_the_series(
        kernel in 0_usize..2,
        actions in prop::collection::vec((0_u8..12, 0_usize..100, 0_u64..6_000_000), 1..150),
    ) {
        let mut world = World::new(["6.1", "6.6"][kernel]);
        for (nth, action) in actions.into_iter().enumerate() {
            world.act(nth, action);
            world.check();
        }
    }
}

/// A task that runs alone for half of the time.
#[test]
fn a_task_is_busy_for_as_much_as_it_runs() {
    let mut world = World::new("6.18");
    world.spawn(0, 0, 0);
    for nth in 0..200 {
        world.act(nth, (1, 0, 5_000_000));
        world.act(nth, (6, 0, 5_000_000));
    }
    let averages = world.rq.queues().load_sums().unwrap().0.averages();
    assert!((460..=560).contains(&averages.util), "{averages:?}");
    assert!((460..=560).contains(&averages.load), "{averages:?}");
}

/// The load of a new task is that of a hog. Its utilization is half of the remaining time, so each
/// new task gets half of the previous half.
#[test]
fn new_tasks_have_half_of_what_is_left() {
    let mut world = World::new("6.18");
    for (nth, expected) in [512, 768, 896].into_iter().enumerate() {
        world.spawn(nth, 0, 0);
        let averages = world.rq.queues().load_sums().unwrap().0.averages();
        let load = 1_024 * (nth as u64 + 1);
        assert_eq!((averages.load, averages.util.next_multiple_of(2)), (load, expected));
    }
    // A task with little weight compared with the others gets little utilization.
    world.spawn(9, 0, 19);
    let at = world.rq.tasks().iter().find(|(_, task)| task.id == TaskId(9)).unwrap().0;
    let averages = world.rq.queues().task_averages(world.now, at).unwrap();
    assert_eq!(averages.load, 15);
    assert!((3..=4).contains(&averages.util), "896 x 15 / 3073: {averages:?}");
}

/// Another CPU reads the clock after a period began, and withdraws the part of a sleeper. Then a call
/// here has a time of before. The task that leaves by it is averaged up to the same instant as its
/// queue.
#[test]
fn a_call_that_comes_late_finds_all_averages_at_one_instant() {
    let mut world = World::new("6.1");
    let begin = Time((world.now.0 | ((1 << 20) - 1)) + 1);
    world.now = Time(begin.0 - 1_000);
    (0..3).for_each(|nth| world.spawn(nth, 0, 0));
    let curr = world.payload().expect("a task runs");
    world.schedule(Prev::Blocked(curr));
    let sleeper = world.tasks.values_mut().find_map(|it| it.asleep.take());
    let after = Time(begin.0 + 500);
    world.rq.classes_mut().queues_mut().withdraw(after, &mut sleeper.expect("one sleeps"));
    world.schedule(Prev::Exited);
    world.rq.check();
    let load = world.rq.queues().load_sums().unwrap().0.averages().load;
    assert_eq!(load, 1_024, "one of three is left");
}
