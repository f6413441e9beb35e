//! Designs of a fair queue that has two orders: by vruntime, and by the vruntime less what latency nice gives a task
//! after its wake-up (its *wake-up vruntime*). The founding document of latency nice compares three of them on the
//! kernel's trees: a tree of their own for sensitive tasks, and two augmented trees.
//!
//! Each design is a queue alone, without groups, weights and clocks. All designs have the same keys, make the same
//! decisions, and so pick the same tasks.
//!
//! | design | structure |
//! |---|---|
//! | `one-heap`, `one-tree` | by vruntime; there is no latency nice |
//! | `two-heaps`, `two-trees` | all by vruntime, and sensitive tasks also by wake-up vruntime |
//! | `by-vruntime` | a tree by vruntime; a node keeps the least wake-up vruntime below it |
//! | `by-vruntime-sensitive` | the same, of sensitive tasks alone: without one there is nothing to keep |
//! | `by-wakeup` | a tree by wake-up vruntime; a node keeps the least vruntime below it |
//!
//! The heaps are those of the engine's root queue, through the type in which timers use them. The tree is the same for
//! all designs: [`tree`].
//!
//! A turn is one of hackbench, with the two changes of a queue that each switch makes. The running task blocks and
//! another is picked. A sleeping task wakes and is placed and queued. The running task goes on for a while, is queued
//! again, and a task is picked, which may be the woken one.

mod tree;

use crate::rig::{Clock, Sensitive};
use crate::{Operation, Runner};
use runyard_engine::attr::LatencyNice;
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::deadlines::{Deadline, Deadlines, Place};
use tree::{Nothing, Tree};

/// A key of either order. Of equal vruntimes the task with the lower number comes first.
type Key = Deadline;

/// Numbers of tasks in the queue, including the running one. As many others sleep.
const QUEUED: [u32; 3] = [8, 64, 1_024];

/// Turns of each task after which the placement of new tasks no longer has an effect.
const TURNS_TO_SETTLE: u32 = 16;

/// Upper bound of the time that a task runs before the next change.
const STINT: Nanos = Nanos::from_micros(500);

/// Credit of a sleeper, which is also what a task at latency nice -20 gains; the least time of a turn; and the most by
/// which a picked task may be behind the first by vruntime. All three are the engine's for one CPU.
const CREDIT: Nanos = Nanos::from_millis(3);
const MIN_GRANULARITY: Nanos = Nanos::from_micros(750);
const CAP: Nanos = Nanos::from_micros(2_250);

/// The vruntime of the clock at the beginning: early enough that no key is below zero.
const BEGIN: Time = Time(1 << 40);

/// The place of a waiting task in both orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keys {
    vruntime: Key,
    wakeup: Key,
}

impl Keys {
    /// Returns whether the task goes before others with its vruntime.
    #[inline(always)]
    fn is_urgent(self) -> bool {
        self.wakeup != self.vruntime
    }
}

/// The tasks of a queue in one order.
trait Order {
    fn new(tasks: u32) -> Self;
    fn insert(&mut self, task: u32, key: Key);
    fn remove(&mut self, task: u32);
    fn first(&self) -> Option<(Key, u32)>;
}

/// A design of a queue. It is asked for its tasks only if it has some.
trait Queue: 'static {
    fn new(tasks: u32) -> Self;
    fn insert(&mut self, task: u32, keys: Keys);
    fn remove(&mut self, task: u32, keys: Keys);
    /// Returns the least vruntime, if there is a task.
    fn least(&self) -> Option<Time>;
    /// Returns the first task by vruntime.
    fn first(&self) -> u32;
    /// Returns the first task by wake-up vruntime.
    fn most_urgent(&self) -> u32;
}

/// A heap of the engine.
struct Heap {
    heap: Deadlines,
    places: Vec<Place>,
}

impl Order for Heap {
    fn new(tasks: u32) -> Heap {
        Heap { heap: Deadlines::default(), places: vec![0; tasks as usize] }
    }

    #[inline(always)]
    fn insert(&mut self, task: u32, key: Key) {
        let Heap { heap, places } = self;
        let _ = heap.insert(key, task, |task, place| places[task as usize] = place);
    }

    #[inline(always)]
    fn remove(&mut self, task: u32) {
        let Heap { heap, places } = self;
        heap.remove(places[task as usize], |task, place| places[task as usize] = place);
    }

    #[inline(always)]
    fn first(&self) -> Option<(Key, u32)> {
        self.heap.first()
    }
}

const NOT_EMPTY: &str = "a task waits";

/// One order by vruntime, without latency nice.
struct One<O>(O);

impl<O: Order + 'static> Queue for One<O> {
    fn new(tasks: u32) -> One<O> {
        One(O::new(tasks))
    }

    #[inline(always)]
    fn insert(&mut self, task: u32, keys: Keys) {
        self.0.insert(task, keys.vruntime);
    }

    #[inline(always)]
    fn remove(&mut self, task: u32, _: Keys) {
        self.0.remove(task);
    }

    #[inline(always)]
    fn least(&self) -> Option<Time> {
        self.0.first().map(|(key, _)| key.at)
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        self.0.first().expect(NOT_EMPTY).1
    }

    #[inline(always)]
    fn most_urgent(&self) -> u32 {
        self.first()
    }
}

/// All tasks by vruntime, and urgent ones also by wake-up vruntime.
struct Two<O> {
    all: O,
    urgent: O,
}

impl<O: Order + 'static> Queue for Two<O> {
    fn new(tasks: u32) -> Two<O> {
        Two { all: O::new(tasks), urgent: O::new(tasks) }
    }

    #[inline(always)]
    fn insert(&mut self, task: u32, keys: Keys) {
        self.all.insert(task, keys.vruntime);
        if keys.is_urgent() {
            self.urgent.insert(task, keys.wakeup);
        }
    }

    #[inline(always)]
    fn remove(&mut self, task: u32, keys: Keys) {
        self.all.remove(task);
        if keys.is_urgent() {
            self.urgent.remove(task);
        }
    }

    #[inline(always)]
    fn least(&self) -> Option<Time> {
        self.all.first().map(|(key, _)| key.at)
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        self.all.first().expect(NOT_EMPTY).1
    }

    /// A task that is not urgent has its vruntime as its wake-up vruntime, so only the first of them can be it.
    #[inline(always)]
    fn most_urgent(&self) -> u32 {
        let (key, first) = self.all.first().expect(NOT_EMPTY);
        match self.urgent.first() {
            Some((wakeup, urgent)) if wakeup < key => urgent,
            _ => first,
        }
    }
}

/// A tree by vruntime whose nodes keep the least wake-up vruntime: of all tasks, or of urgent ones.
struct ByVruntime<const URGENT_ONLY: bool>(Tree<Key>);

impl<const URGENT_ONLY: bool> Queue for ByVruntime<URGENT_ONLY> {
    fn new(tasks: u32) -> Self {
        ByVruntime(Tree::new(tasks))
    }

    #[inline(always)]
    fn insert(&mut self, task: u32, keys: Keys) {
        let counts = !URGENT_ONLY || keys.is_urgent();
        self.0.insert(task, keys.vruntime, if counts { keys.wakeup } else { Key::NEVER });
    }

    #[inline(always)]
    fn remove(&mut self, task: u32, _: Keys) {
        self.0.remove(task);
    }

    #[inline(always)]
    fn least(&self) -> Option<Time> {
        self.0.first().map(|task| self.0.key(task).at)
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        self.0.first().expect(NOT_EMPTY)
    }

    #[inline(always)]
    fn most_urgent(&self) -> u32 {
        let first = self.first();
        if URGENT_ONLY && self.0.all() >= self.0.key(first) {
            return first;
        }
        self.0.owner_of_all().expect(NOT_EMPTY)
    }
}

/// A tree by wake-up vruntime whose nodes keep the least vruntime.
struct ByWakeup(Tree<Key>);

impl Queue for ByWakeup {
    fn new(tasks: u32) -> ByWakeup {
        ByWakeup(Tree::new(tasks))
    }

    #[inline(always)]
    fn insert(&mut self, task: u32, keys: Keys) {
        self.0.insert(task, keys.wakeup, keys.vruntime);
    }

    #[inline(always)]
    fn remove(&mut self, task: u32, _: Keys) {
        self.0.remove(task);
    }

    #[inline(always)]
    fn least(&self) -> Option<Time> {
        self.0.first().map(|_| self.0.all().at)
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        self.0.owner_of_all().expect(NOT_EMPTY)
    }

    #[inline(always)]
    fn most_urgent(&self) -> u32 {
        self.0.first().expect(NOT_EMPTY)
    }
}

#[derive(Clone, Copy, Debug)]
struct Task {
    sensitive: bool,
    keys: Keys,
    /// The time since it was picked.
    ran: Nanos,
}

/// A CPU with a queue of one design.
struct Model<Q> {
    queue: Q,
    tasks: Vec<Task>,
    curr: u32,
    asleep: Vec<u32>,
    clock: Clock,
    /// The vruntime that a sleeper is placed behind; it never runs back.
    floor: Time,
}

impl<Q: Queue> Model<Q> {
    /// Creates a model with `queued` tasks in the queue, including the running one, and as many that sleep.
    fn new(queued: u32, sensitive: impl Fn(u32) -> bool, clock: Clock) -> Model<Q> {
        let task = |id: u32| {
            let key = Key { at: BEGIN, nth: id.into() };
            let keys = Keys { vruntime: key, wakeup: key };
            Task { sensitive: sensitive(id), keys, ran: Nanos::ZERO }
        };
        let mut model = Model {
            queue: Q::new(2 * queued),
            tasks: (0..2 * queued).map(task).collect(),
            curr: 0,
            asleep: (queued..2 * queued).collect(),
            clock,
            floor: BEGIN,
        };
        for task in 0..queued {
            model.queue(task, true);
        }
        let _ = model.pick();
        model
    }

    /// Returns the two picked tasks.
    #[inline(always)]
    fn turn(&mut self) -> [u32; 2] {
        self.run();
        self.asleep.push(self.curr);
        let first = self.pick();
        self.wake_one();
        self.run();
        self.queue(self.curr, self.tasks[self.curr as usize].ran < MIN_GRANULARITY);
        [first, self.pick()]
    }

    /// Picks and removes the most urgent task, unless it is too far behind the first by vruntime.
    #[inline(always)]
    fn pick(&mut self) -> u32 {
        let (first, urgent) = (self.queue.first(), self.queue.most_urgent());
        let at = |task: u32| self.tasks[task as usize].keys.vruntime.at;
        let near = first == urgent || at(urgent).since(at(first)) <= CAP;
        self.curr = if near { urgent } else { first };
        let Task { keys, ran, .. } = &mut self.tasks[self.curr as usize];
        *ran = Nanos::ZERO;
        self.queue.remove(self.curr, *keys);
        self.curr
    }

    /// Wakes a random task. It is placed at most a credit behind the others.
    #[inline(always)]
    fn wake_one(&mut self) {
        let nth = self.clock.below(Nanos(self.asleep.len() as u64)).0 as usize;
        let woken = self.asleep.swap_remove(nth);
        let vruntime = &mut self.tasks[woken as usize].keys.vruntime.at;
        *vruntime = (*vruntime).max(Time(self.floor.0 - CREDIT.0));
        self.queue(woken, true);
    }

    /// Queues a task with the keys of its vruntime. Its latency nice counts if it is `fresh`: it woke, or ran only
    /// briefly.
    #[inline(always)]
    fn queue(&mut self, id: u32, fresh: bool) {
        let task = &mut self.tasks[id as usize];
        let gain = if task.sensitive && fresh { CREDIT } else { Nanos::ZERO };
        let Key { at, nth } = task.keys.vruntime;
        task.keys.wakeup = Key { at: Time(at.0 - gain.0), nth };
        self.queue.insert(id, task.keys);
    }

    /// The running task runs for a random time.
    #[inline(always)]
    fn run(&mut self) {
        let span = self.clock.below(STINT);
        let task = &mut self.tasks[self.curr as usize];
        task.ran = Nanos(task.ran.0 + span.0);
        task.keys.vruntime.at = task.keys.vruntime.at + span;
        let curr = task.keys.vruntime.at;
        let least = self.queue.least().map_or(curr, |least| least.min(curr));
        self.floor = self.floor.max(least);
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    add::<One<Heap>>(&mut operations, "one-heap", &[Sensitive::Nobody]);
    add::<One<Tree<Nothing>>>(&mut operations, "one-tree", &[Sensitive::Nobody]);
    add::<Two<Heap>>(&mut operations, "two-heaps", &Sensitive::ALL);
    add::<Two<Tree<Nothing>>>(&mut operations, "two-trees", &Sensitive::ALL);
    add::<ByVruntime<false>>(&mut operations, "by-vruntime", &Sensitive::ALL);
    add::<ByVruntime<true>>(&mut operations, "by-vruntime-sensitive", &Sensitive::ALL);
    add::<ByWakeup>(&mut operations, "by-wakeup", &Sensitive::ALL);
    operations
}

fn add<Q: Queue>(operations: &mut Vec<Operation>, design: &str, cases: &[Sensitive]) {
    for &sensitive in cases {
        for queued in QUEUED {
            let name = format!("queues/{design}/{}/{queued}", sensitive.word());
            operations.push(Operation::new(name, move || turns::<Q>(queued, sensitive)));
        }
    }
}

fn turns<Q: Queue>(queued: u32, sensitive: Sensitive) -> Runner {
    let is_sensitive = |task| sensitive.latency_nice(task) < LatencyNice::ZERO;
    let mut model = Model::<Q>::new(queued, is_sensitive, Clock::default());
    for _ in 0..TURNS_TO_SETTLE * queued {
        let _ = model.turn();
    }
    let asleep = model.asleep.len();
    Box::new(move |times| {
        for _ in 0..times {
            let _ = model.turn();
        }
        assert_eq!(model.asleep.len(), asleep, "as many tasks wake as block");
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the tasks that a design picks in some turns.
    fn picks<Q: Queue>(sensitive: &[bool], skipped: u32) -> Vec<[u32; 2]> {
        let mut clock = Clock::default();
        for _ in 0..skipped {
            let _ = clock.below(STINT);
        }
        let queued = sensitive.len() as u32 / 2;
        let mut model = Model::<Q>::new(queued, |task| sensitive[task as usize], clock);
        (0..200).map(|_| model.turn()).collect()
    }

    proptest! {
        #[test]
        fn every_design_picks_the_same_tasks(
            half in prop::collection::vec(any::<[bool; 2]>(), 2..40),
            skipped in 0_u32..1_000,
        ) {
            let sensitive = half.concat();
            let expected = picks::<Two<Tree<Nothing>>>(&sensitive, skipped);
            prop_assert_eq!(&picks::<Two<Heap>>(&sensitive, skipped), &expected);
            prop_assert_eq!(&picks::<ByVruntime<false>>(&sensitive, skipped), &expected);
            prop_assert_eq!(&picks::<ByVruntime<true>>(&sensitive, skipped), &expected);
            prop_assert_eq!(&picks::<ByWakeup>(&sensitive, skipped), &expected);
        }

        #[test]
        fn without_sensitive_tasks_one_order_suffices(
            queued in 2_usize..40,
            skipped in 0_u32..1_000,
        ) {
            let nobody = vec![false; 2 * queued];
            let expected = picks::<Two<Heap>>(&nobody, skipped);
            prop_assert_eq!(&picks::<One<Heap>>(&nobody, skipped), &expected);
            prop_assert_eq!(&picks::<One<Tree<Nothing>>>(&nobody, skipped), &expected);
        }
    }

    /// If sensitive tasks were picked as others are, the designs could agree without their second order.
    #[test]
    fn sensitive_tasks_are_picked_more_often() {
        let some: Vec<_> = (0..64).map(|task| task % 8 == 0).collect();
        let shared = picks::<Two<Heap>>(&some, 0);
        assert_ne!(shared, picks::<Two<Heap>>(&[false; 64], 0));
        let first_turns = shared.concat().iter().filter(|task| **task % 8 == 0).count();
        assert!(first_turns > shared.concat().len() / 8, "{first_turns}");
    }
}
