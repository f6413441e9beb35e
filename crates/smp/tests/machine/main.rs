//! Random lives of a machine, and scenarios that show the guarantee of each mechanism.
#![cfg(not(any(loom, shuttle)))]

mod beside;
#[path = "../driver/mod.rs"]
mod driver;
mod placement;
#[path = "../standing/mod.rs"]
mod standing;

use driver::{By, How, World};
use proptest::prelude::*;
use runyard_engine::attr::{Attr, Cookie, GroupId, LatencyNice, Nice, Policy, RtPrio, Slice};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::Feature;
use runyard_engine::limits::Limit;
use runyard_engine::run_queue::Expired;
use runyard_engine::task::{Change, Task, TaskId, Update};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::{Expiry, Token, Walk, Window};
use runyard_engine::topology::Topology;

/// The smallest number of lives; `PROPTEST_CASES` may ask for more.
const LIVES: u32 = 2_000;

/// Returns a configuration that prints a failure in full. It belongs in a test of its own.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig { cases: asked.cases.max(LIVES), failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_life_keeps_the_laws(actions in prop::collection::vec(any::<[u8; 4]>(), 1..250)) {
        driver::live(&actions.concat());
    }
}

/// A host reads the clock before it calls, so a later call may have an earlier time. Here a waking task takes its part
/// out of the averages of CPU 2 at 2 us, and then another task comes there at 1 us and leaves again.
#[test]
fn the_averages_of_a_cpu_have_one_clock_though_others_take_parts_out() {
    const LIFE: [[u8; 4]; 21] = [
        [54, 36, 0, 16],
        [239, 4, 84, 135],
        [121, 110, 0, 0],
        [0, 32, 16, 0],
        [89, 226, 0, 0],
        [125, 0, 0, 0],
        [184, 32, 190, 16],
        [206, 0, 0, 0],
        [146, 237, 9, 0],
        [217, 118, 0, 0],
        [2, 0, 0, 0],
        [15, 68, 124, 16],
        [204, 127, 0, 0],
        [180, 65, 0, 0],
        [65, 0, 0, 0],
        [26, 0, 0, 0],
        [105, 104, 0, 0],
        [89, 3, 0, 0],
        [174, 0, 0, 0],
        [0, 0, 0, 0],
        [169, 77, 0, 0],
    ];
    driver::live(&LIFE.concat());
}

/// A real-time task pays for a founding pool (group 3), and the kernel's bandwidth above it (group 1) does not hold it
/// back. So the pool may be used up while the bandwidth throttles.
#[test]
fn a_pool_may_be_used_up_below_bandwidth_that_throttles() {
    const LIFE: [[u8; 4]; 19] = [
        [19, 0, 0, 8],
        [0, 4, 0, 63],
        [0, 0, 1, 0],
        [0, 14, 0, 0],
        [14, 104, 219, 0],
        [0, 15, 0, 64],
        [13, 0, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 185],
        [0, 4, 0, 0],
        [9, 1, 0, 0],
        [0, 5, 10, 0],
        [0, 0, 0, 0],
        [14, 0, 1, 0],
        [5, 222, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ];
    driver::live(&LIFE.concat());
}

/// A boosted task waits in a group that the kernel's bandwidth throttles. Its own policy changes, and its priority does
/// not: the task keeps its place before another of that priority.
#[test]
fn a_boosted_task_in_a_throttled_group_keeps_its_place_when_its_policy_changes() {
    const LIFE: [[u8; 4]; 22] = [
        [64, 0, 6, 88],
        [0, 0, 0, 16],
        [9, 0, 0, 0],
        [8, 0, 5, 2],
        [0, 4, 2, 16],
        [9, 0, 0, 0],
        [9, 0, 0, 0],
        [9, 0, 0, 0],
        [137, 1, 0, 0],
        [14, 0, 1, 0],
        [0, 4, 0, 16],
        [0, 8, 0, 0],
        [9, 1, 0, 0],
        [0, 8, 0, 0],
        [13, 0, 0, 0],
        [130, 1, 1, 0],
        [10, 0, 0, 0],
        [0, 16, 0, 0],
        [0, 8, 0, 0],
        [2, 1, 0, 0],
        [8, 0, 2, 0],
        [2, 1, 1, 0],
    ];
    driver::live(&LIFE.concat());
}

/// Two CPUs wait for the budget that a third gives back, and the only task of one of them has gone to another CPU. That CPU
/// draws nothing, so the other one is told too.
#[test]
fn a_cpu_without_tasks_of_a_group_keeps_no_budget_from_the_next_that_waits() {
    const LIFE: [[u8; 4]; 9] = [
        [33, 0, 0, 144],
        [0, 0, 4, 16],
        [0, 0, 0, 16],
        [6, 0, 0, 0],
        [14, 0, 3, 0],
        [0, 0, 0, 16],
        [4, 151, 0, 0],
        [9, 2, 0, 0],
        [9, 1, 0, 0],
    ];
    driver::live(&LIFE.concat());
}

/// A task comes to a group that its founding pool throttles. So nothing comes to the group above it, which has the
/// kernel's bandwidth and draws none.
#[test]
fn a_group_above_a_throttled_one_draws_nothing_for_it() {
    const LIFE: [[u8; 4]; 7] = [
        [0, 0, 0, 12],
        [14, 14, 89, 0],
        [6, 0, 0, 0],
        [0, 0, 0, 120],
        [4, 231, 0, 0],
        [14, 0, 11, 0],
        [0, 15, 0, 177],
    ];
    driver::live(&LIFE.concat());
}

/// A pick meets a group that sleeps in its place, and drops it. The group above it, which has the kernel's bandwidth, is
/// empty from then on, and gives its slice back.
#[test]
fn a_group_that_a_pick_leaves_empty_gives_its_slice_back() {
    const LIFE: [[u8; 4]; 23] = [
        [93, 178, 0, 109],
        [9, 4, 0, 0],
        [64, 0, 0, 0],
        [201, 0, 0, 0],
        [0, 7, 0, 122],
        [0, 15, 0, 155],
        [13, 0, 0, 0],
        [5, 153, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [14, 91, 0, 0],
        [1, 0, 0, 0],
        [4, 165, 0, 0],
        [14, 0, 0, 0],
        [4, 171, 0, 0],
        [4, 155, 0, 0],
        [4, 184, 0, 0],
        [4, 0, 0, 0],
        [14, 0, 15, 0],
        [233, 1, 0, 0],
        [0, 15, 0, 16],
        [0, 0, 0, 0],
        [4, 252, 0, 0],
    ];
    driver::live(&LIFE.concat());
}

/// A machine on which each call takes full effect before the next.
struct Stage {
    world: World,
    tasks: u32,
}

impl Stage {
    fn new(cpus: u32, without: &[Feature]) -> Stage {
        let mut config = Config::new(Topology::flat(cpus).unwrap());
        for &feature in without {
            config.features = config.features.without(feature);
        }
        Stage::with(config)
    }

    fn with(mut config: Config) -> Stage {
        config.rt_runtime = None;
        Stage { world: World::with(config), tasks: 0 }
    }

    /// Returns a machine of this shape on which fair tasks stay on their first CPU.
    fn without_balance(shape: &str) -> Stage {
        let mut config = Config::new(shape.parse().unwrap());
        config.features = config.features.without(Feature::LoadBalance);
        Stage::with(config)
    }

    /// Spawns a task, which waits or runs on one of these CPUs.
    fn spawn(&mut self, policy: Policy, affinity: &[u16]) -> TaskId {
        self.spawn_in(GroupId::ROOT, policy, affinity)
    }

    fn spawn_in(&mut self, group: GroupId, policy: Policy, affinity: &[u16]) -> TaskId {
        let attr = Attr { policy, group, ..Attr::normal(cpus(affinity)) };
        self.world.spawn(self.world.now, attr, CpuId(affinity[0]));
        self.world.settle();
        self.tasks += 1;
        TaskId(u64::from(self.tasks) - 1)
    }

    /// Spawns a task on the first of these CPUs, whatever the load of the others.
    fn spawn_on_first(&mut self, policy: Policy, affinity: &[u16]) -> TaskId {
        let task = self.spawn(policy, &affinity[..1]);
        self.set_affinity(task, affinity);
        task
    }

    /// Returns a task that went to sleep on the first of these CPUs.
    fn sleeper_in(&mut self, group: GroupId, policy: Policy, affinity: &[u16]) -> TaskId {
        let task = self.spawn_in(group, policy, &affinity[..1]);
        self.set_affinity(task, affinity);
        assert_eq!(self.runs(affinity[0]), Some(task));
        self.leave(affinity[0], How::Blocks);
        task
    }

    fn sleeper(&mut self, policy: Policy, affinity: &[u16]) -> TaskId {
        self.sleeper_in(GroupId::ROOT, policy, affinity)
    }

    /// Spawns normal tasks, one on each of these CPUs.
    fn hogs(&mut self, cpus: &[u16]) {
        for &cpu in cpus {
            self.spawn(normal(), &[cpu]);
        }
    }

    fn wake(&mut self, task: TaskId) {
        self.wake_by(task, By::Nobody);
        self.world.settle();
    }

    /// Wakes a task, and returns the CPU that it goes to.
    fn wake_by(&mut self, task: TaskId, by: By) -> Option<u16> {
        self.world.wake(self.world.now, task, by);
        self.place(task)
    }

    fn set_affinity(&mut self, task: TaskId, affinity: &[u16]) {
        self.change(task, Change { affinity: Some(cpus(affinity)), ..Change::default() });
    }

    fn set_policy(&mut self, task: TaskId, policy: Policy) {
        self.change(task, Change { policy: Some(policy), ..Change::default() });
    }

    fn change(&mut self, task: TaskId, change: Change) {
        self.world.change(self.world.now, task, change);
        self.world.settle();
    }

    /// Lets the running task of `cpu` leave, with its direct consequences only.
    fn leave(&mut self, cpu: u16, how: How) {
        self.world.schedule(self.world.now, CpuId(cpu), how);
    }

    fn hotplug(&mut self, cpu: u16) {
        self.world.hotplug(self.world.now, CpuId(cpu));
        self.world.settle();
    }

    fn runs(&self, cpu: u16) -> Option<TaskId> {
        self.world.machine.cpu(CpuId(cpu)).inspect(|rq| rq.tasks().curr().map(|task| task.id))
    }

    /// Calls a function with a task that is in a run queue and with that run queue.
    fn find<T>(
        &self,
        task: TaskId,
        look: impl Fn(&Task<driver::Payload>) -> T,
    ) -> Option<(u16, T)> {
        self.world.machine.all().iter().find_map(|cpu| {
            self.world.machine.cpu(cpu).inspect(|rq| {
                let (_, found) = rq.tasks().iter().find(|(_, other)| other.id == task)?;
                Some((cpu.0, look(found)))
            })
        })
    }

    fn place(&self, task: TaskId) -> Option<u16> {
        self.find(task, |_| ()).map(|(cpu, ())| cpu)
    }

    fn runtime(&self, task: TaskId) -> u64 {
        self.find(task, Task::runtime).expect("it is in a run queue").1.0
    }
}

fn cpus(list: &[u16]) -> CpuSet {
    list.iter().copied().map(CpuId).collect()
}

fn fifo(prio: i64) -> Policy {
    Policy::Fifo(RtPrio::new(prio).unwrap())
}

fn normal() -> Policy {
    Policy::Normal(Nice::default())
}

/// CPU 0 runs a pinned task of priority 90, and CPU 1 a pinned one of priority 80. On CPU 0, two tasks wait: a 70 that
/// may also use CPU 1, and behind it a 60 that may also use CPU 2, which runs a 65.
struct Stuck {
    stage: Stage,
    second: TaskId,
    head: TaskId,
    behind: TaskId,
}

impl Stuck {
    fn new(without: &[Feature]) -> Stuck {
        let mut stage = Stage::new(3, without);
        stage.spawn(fifo(90), &[0]);
        let second = stage.spawn(fifo(80), &[1]);
        let third = stage.spawn(fifo(65), &[2]);
        let head = stage.spawn_on_first(fifo(70), &[0, 1]);
        let behind = stage.spawn_on_first(fifo(60), &[0, 2]);
        assert_eq!((stage.runs(1), stage.runs(2)), (Some(second), Some(third)));
        assert_eq!((stage.place(head), stage.place(behind)), (Some(0), Some(0)));
        Stuck { stage, second, head, behind }
    }

    /// Makes CPU 0 look for pushable tasks again without any change.
    fn next_push(&mut self) {
        self.stage.leave(0, How::Preempted);
        self.stage.world.settle();
    }
}

#[test]
fn a_task_behind_a_stuck_one_is_pulled_at_once() {
    let Stuck { mut stage, behind, .. } = Stuck::new(&[]);
    stage.leave(2, How::Blocks);
    assert_eq!(stage.runs(2), Some(behind), "in the same switch");
}

#[test]
fn without_pull_a_task_behind_a_stuck_one_leaves_at_the_next_push() {
    let mut stuck = Stuck::new(&[Feature::RtPull]);
    stuck.stage.leave(2, How::Blocks);
    assert_eq!(stuck.stage.runs(2), None);
    stuck.next_push();
    assert_eq!(stuck.stage.runs(2), Some(stuck.behind));
}

#[test]
fn a_push_that_stops_at_a_stuck_task_strands_those_behind_it() {
    let mut stuck = Stuck::new(&[Feature::RtPull, Feature::RtPushPastStuck]);
    stuck.stage.leave(2, How::Blocks);
    stuck.next_push();
    assert_eq!(stuck.stage.runs(2), None, "the head of the queue has nowhere to go");
    stuck.stage.set_policy(stuck.second, normal());
    stuck.next_push();
    assert_eq!(stuck.stage.runs(1), Some(stuck.head));
    assert_eq!(stuck.stage.runs(2), Some(stuck.behind), "the head is gone");
}

#[test]
fn a_movable_task_makes_way_for_an_equal_that_is_pinned() {
    let mut stage = Stage::new(2, &[]);
    let pinned = stage.spawn(fifo(50), &[0]);
    stage.leave(0, How::Blocks);
    let movable = stage.spawn_on_first(fifo(50), &[0, 1]);
    assert_eq!((stage.runs(0), stage.runs(1)), (Some(movable), None));
    stage.wake(pinned);
    assert_eq!((stage.runs(0), stage.runs(1)), (Some(pinned), Some(movable)));
}

#[test]
fn a_woken_task_goes_elsewhere_if_a_pinned_equal_runs_where_it_was() {
    let mut stage = Stage::new(2, &[]);
    let movable = stage.spawn_on_first(fifo(50), &[0, 1]);
    stage.leave(0, How::Blocks);
    let pinned = stage.spawn(fifo(50), &[0]);
    stage.wake(movable);
    assert_eq!((stage.runs(0), stage.runs(1)), (Some(pinned), Some(movable)));
}

#[test]
fn real_time_balancing_leaves_fair_tasks_where_they_are() {
    let mut stage = Stage::new(2, &[Feature::LoadBalance]);
    stage.spawn(fifo(50), &[0]);
    stage.spawn(fifo(50), &[1]);
    let fair = stage.spawn_on_first(normal(), &[0, 1]);
    stage.leave(1, How::Blocks);
    stage.world.live_for(Nanos::from_millis(20));
    assert_eq!((stage.place(fair), stage.runs(1)), (Some(0), None));
}

#[test]
fn fair_balancing_leaves_real_time_tasks_where_they_are() {
    let mut stage = Stage::new(2, &[Feature::RtPush, Feature::RtPull]);
    stage.spawn(fifo(50), &[0]);
    let fair = stage.spawn(normal(), &[1]);
    let waiting = stage.spawn_on_first(fifo(40), &[0, 1]);
    stage.spawn(normal(), &[0]);
    assert_eq!(stage.runs(1), Some(fair));
    stage.leave(1, How::Blocks);
    stage.world.live_for(Nanos::from_millis(20));
    assert_eq!((stage.place(waiting), stage.runs(1)), (Some(0), None));
}

#[test]
fn an_idle_cpu_takes_the_one_fair_task_that_waits_behind_a_real_time_one() {
    let mut stage = Stage::new(2, &[]);
    let fair = stage.spawn_on_first(normal(), &[0, 1]);
    stage.spawn(fifo(50), &[0]);
    assert_eq!((stage.place(fair), stage.runs(1)), (Some(0), None), "preempted");
    stage.world.live_for(Nanos::from_millis(5));
    assert_eq!(stage.runs(1), Some(fair), "the tick tells the idle CPU");
}

#[test]
fn everybody_leaves_a_cpu_that_goes_offline() {
    let mut stage = Stage::new(3, &[]);
    stage.spawn(fifo(90), &[0]);
    let running = stage.spawn_on_first(fifo(50), &[1, 2]);
    let waiting = stage.spawn_on_first(fifo(40), &[1, 0]);
    let fair = stage.spawn_on_first(normal(), &[1, 2]);
    let timer = stage.world.machine.cpu(CpuId(1)).arm(Window::exact(Time(5_000)), Token(1));
    stage.hotplug(1);
    assert_eq!((stage.runs(1), stage.runs(2)), (None, Some(running)));
    assert_eq!((stage.place(waiting), stage.place(fair)), (Some(0), Some(2)));
    stage.hotplug(1);
    assert_eq!(stage.runs(1), Some(waiting), "a CPU that comes online pulls");
    assert_eq!(stage.world.machine.sight().next_expiry(CpuId(1)), Some(Time(5_000)), "timers stay");
    assert!(stage.world.machine.cpu(CpuId(1)).cancel(timer));
}

#[test]
fn what_latency_nice_asks_for_follows_the_cpus_that_are_online() {
    let mut stage = Stage::new(8, &[]);
    let offset = |stage: &Stage| {
        let of = |cpu| {
            stage
                .world
                .machine
                .cpu(CpuId(cpu))
                .inspect(|rq| rq.site().config().latency_offset(LatencyNice::MIN))
        };
        (0..8).map(of).collect::<Vec<_>>()
    };
    assert_eq!(offset(&stage), [-12_000_000; 8]);
    (4..8).for_each(|cpu| stage.hotplug(cpu));
    assert_eq!(offset(&stage), [-9_000_000; 8], "as on a machine of four");
    stage.hotplug(5);
    assert_eq!(offset(&stage), [-9_000_000; 8]);
    [4, 6, 7].into_iter().for_each(|cpu| stage.hotplug(cpu));
    assert_eq!(offset(&stage), [-12_000_000; 8]);
}

#[test]
fn timers_are_served_on_a_cpu_that_is_offline() {
    let mut stage = Stage::new(2, &[]);
    stage.world.machine.cpu(CpuId(1)).arm(Window::exact(Time(5_000)), Token(7));
    stage.hotplug(1);
    let expired = stage.world.machine.expire(
        Time(5_000),
        CpuId(1),
        Walk::Busy,
        &mut driver::Asked::default(),
    );
    let expiry = Expiry { token: Token(7), greedy: false, overruns: 0 };
    assert_eq!(expired, Some(Expired::Timer(expiry)));
}

#[test]
fn a_task_whose_cpus_are_all_offline_may_run_anywhere() {
    let mut stage = Stage::new(2, &[]);
    let task = stage.spawn(normal(), &[1]);
    stage.hotplug(1);
    assert_eq!(stage.runs(0), Some(task));
    let affinity = stage.find(task, |task| task.attr().affinity.clone());
    assert_eq!(affinity, Some((0, CpuSet::first(2))), "and keeps that");
}

#[test]
fn an_idle_group_is_light_whatever_weight_it_was_given() {
    let mut stage = Stage::new(1, &[]);
    let [beside, idle] = [1, 3].map(|id| stage.spawn_in(GroupId(id), normal(), &[0]));
    stage.world.live_for(Nanos::from_secs(3));
    let (beside, idle) = (stage.runtime(beside), stage.runtime(idle));
    assert!(0 < idle && idle * 100 < beside, "3 of 1027, not {idle} to {beside}");
}

#[test]
fn a_group_has_its_weight_once_on_all_cpus_together() {
    let mut stage = Stage::new(2, &[]);
    let (alone, grouped) = ([0, 1], [0, 1].map(|cpu| [cpu]));
    let alone = alone.map(|cpu| stage.spawn(normal(), &[cpu]));
    let grouped = grouped.map(|cpu| stage.spawn_in(GroupId(1), normal(), &cpu));
    stage.world.live_for(Nanos::from_secs(3));
    for (alone, grouped) in alone.into_iter().zip(grouped) {
        let (alone, grouped) = (stage.runtime(alone), stage.runtime(grouped));
        // The group has half of its weight on each CPU, and competes with a task of the same weight.
        assert!(alone.abs_diff(2 * grouped) * 50 < alone, "{alone} to {grouped}");
    }
}

/// Returns a machine of two CPUs with slow migration. The second CPU pulls the first of two tasks that wait on the
/// other.
fn on_its_way() -> (Stage, TaskId, TaskId) {
    let mut stage = Stage::new(2, &[]);
    stage.spawn(fifo(90), &[0]);
    stage.spawn(fifo(90), &[1]);
    let (first, second) =
        (stage.spawn_on_first(fifo(50), &[0, 1]), stage.spawn_on_first(fifo(40), &[0, 1]));
    stage.world.fx.slowly = true;
    stage.leave(1, How::Blocks);
    assert_eq!((stage.place(first), stage.place(second)), (None, Some(0)), "it is on its way");
    (stage, first, second)
}

#[test]
fn a_pulled_task_that_is_changed_on_its_way_leaves_its_place_to_the_next() {
    let (mut stage, first, second) = on_its_way();
    stage.set_policy(first, normal());
    assert_eq!(stage.runs(1), Some(second));
}

/// A request reaches a task that waits, runs or sleeps, or that is on its way.
#[test]
fn a_task_has_the_latency_nice_and_the_slice_that_were_asked_for_it_last_wherever_it_is() {
    let asks = |nice| (LatencyNice::new(nice).unwrap(), Slice::new(Nanos::from_millis(5)));
    let change = |(nice, slice)| Change {
        latency_nice: Some(nice),
        slice: Update::from(slice),
        ..Change::default()
    };
    let has = |task: &Task<driver::Payload>| (task.attr().latency_nice, task.attr().slice);
    let mut stage = Stage::new(2, &[]);
    let runs = stage.spawn(fifo(90), &[0]);
    let waits = stage.spawn(normal(), &[0]);
    stage.change(runs, change(asks(-3)));
    stage.change(waits, change(asks(-20)));
    assert_eq!(
        (stage.find(runs, has), stage.find(waits, has)),
        (Some((0, asks(-3))), Some((0, asks(-20))))
    );

    let sleeps = stage.sleeper(normal(), &[1]);
    stage.change(sleeps, change(asks(19)));
    stage.wake(sleeps);
    assert_eq!(stage.find(sleeps, has), Some((1, asks(19))));

    stage.set_affinity(waits, &[0, 1]);
    stage.world.fx.slowly = true;
    stage.world.change(
        stage.world.now,
        waits,
        Change { affinity: Some(cpus(&[1])), ..Change::default() },
    );
    assert_eq!(stage.place(waits), None, "it is on its way");
    stage.world.change(stage.world.now, waits, change((LatencyNice::ZERO, None)));
    stage.world.settle();
    assert_eq!(stage.find(waits, has), Some((1, (LatencyNice::ZERO, None))));
}

/// Two pending requests merge into one. A later value replaces an earlier value of the same attribute.
#[test]
fn what_is_asked_twice_of_a_task_that_sleeps_is_what_was_asked_last() {
    let mut stage = Stage::new(1, &[]);
    let task = stage.sleeper(normal(), &[0]);
    let nice = |nice| Change { latency_nice: LatencyNice::new(nice), ..Change::default() };
    let slice = Slice::new(Nanos::from_micros(700));
    stage.change(task, nice(-5));
    stage.change(task, Change { slice: slice.into(), ..Change::default() });
    stage.change(task, nice(7));
    stage.wake(task);
    let has = stage.find(task, |task| (task.attr().latency_nice, task.attr().slice));
    assert_eq!(has, Some((0, (LatencyNice::new(7).unwrap(), slice))));
}

#[test]
fn a_pulled_task_that_blocks_before_its_cpu_spoke_leaves_its_place_to_the_next() {
    let (mut stage, first, second) = on_its_way();
    stage.world.fx.silently = true;
    stage.world.take_over();
    stage.world.arrive(stage.world.now, 0);
    stage.leave(1, How::Preempted);
    assert_eq!(stage.runs(1), Some(first), "others have heard of none of it");
    stage.leave(1, How::Blocks);
    assert_eq!((stage.runs(1), stage.place(second)), (None, Some(0)), "nor of that");
    stage.world.settle();
    assert_eq!(stage.runs(1), Some(second));
}

#[test]
fn a_request_for_a_task_that_is_over_is_nobodys() {
    let mut stage = Stage::new(1, &[]);
    let over = stage.spawn(normal(), &[0]);
    stage.leave(0, How::Exits);
    let next = stage.spawn(normal(), &[0]);
    stage.set_policy(over, fifo(50));
    assert_eq!(stage.find(next, |task| task.attr().policy), Some((0, normal())));
}

/// A small amount of returned budget goes to one CPU at a time. If that CPU's task leaves before its turn, the budget
/// goes to the next CPU.
#[test]
fn budget_goes_on_if_whom_it_was_for_leaves() {
    const GROUP: GroupId = GroupId(1);
    let elsewhere = Change { affinity: Some(cpus(&[3])), ..Change::default() };
    let others = Change { group: Some(GroupId::ROOT), ..Change::default() };
    for change in [elsewhere, others] {
        let mut stage = Stage::new(4, &[Feature::LoadBalance]);
        let limit = Limit::new(Nanos::from_millis(1), Limit::PERIOD, Nanos::ZERO, false).unwrap();
        let machine = &stage.world.machine;
        machine.set_limit(Time(1_000), GROUP, Some(limit), &mut driver::Asked::default());
        stage.spawn_in(GROUP, normal(), &[2]);
        let waiting = [0, 1].map(|cpu| stage.spawn_in(GROUP, normal(), &[cpu]));
        stage.world.live_for(Nanos::from_micros(300));
        stage.hogs(&[0, 1, 3]);
        let claims = |stage: &Stage| {
            [0, 1].map(|cpu| {
                stage.world.machine.cpu(CpuId(cpu)).inspect(|rq| rq.queues().has_claim(GROUP))
            })
        };
        assert_eq!(claims(&stage), [false, false], "the two have used the budget");
        stage.world.now = stage.world.now + Nanos::from_micros(50);
        stage.leave(2, How::Blocks);
        stage.world.settle();
        assert_eq!(claims(&stage), [true, false], "some 150 us are worth telling one CPU");
        stage.change(waiting[0], change);
        assert!(claims(&stage)[1], "a task that left does not use them");
    }
}

/// A task gives way at a tick. A task alone on a tickless CPU has few ticks.
#[test]
fn a_task_that_is_alone_ticks_while_a_thread_of_its_core_is_forced_idle() {
    let shape = Topology::new(1, 1, 2).unwrap();
    let mut stage = Stage::with(Config { cookies: true, tickless: true, ..Config::new(shape) });
    let spawn = |stage: &mut Stage, cpu: u16| {
        let attr = Attr { cookie: Cookie::new(cpu.into()), ..Attr::normal(cpus(&[cpu])) };
        stage.world.spawn(stage.world.now, attr, CpuId(cpu));
        stage.world.settle();
    };
    let next = |stage: &Stage| {
        let machine = &stage.world.machine;
        let forced = [0, 1].map(CpuId).map(|cpu| machine.cpu(cpu).forced_idle().is_some());
        let next =
            [0, 1].map(CpuId).into_iter().filter_map(|cpu| machine.sight().next_expiry(cpu)).min();
        (forced.contains(&true), next.expect("a task runs"))
    };
    let soon = stage.world.now + stage.world.machine.config().tick;
    spawn(&mut stage, 0);
    let (forced, tick) = next(&stage);
    assert!(!forced && tick > soon, "{tick}");
    spawn(&mut stage, 1);
    let (forced, tick) = next(&stage);
    assert!(forced && tick <= soon, "{tick}");
}
