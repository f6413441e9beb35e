//! The kernel's control of one group on a few CPUs, against a model that is written another way: plain
//! numbers, one list of CPUs, and time that goes from event to event.

use crate::attr::GroupId;
use crate::cpu::CpuId;
use crate::fair::entity::{Entity, QueueId};
use crate::fair::tree::Tree;
use crate::limits::Limit;
use crate::limits::bandwidth::{CfsBandwidth, Control, Want};
use crate::limits::flat::Flat;
use crate::limits::here::Here;
use crate::limits::slices::{Payer, Slices};
use crate::time::{Nanos, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::RefCell;

const CPUS: usize = 6;
const GROUP: GroupId = GroupId(1);
const MS: i64 = 1_000_000;

/// What a user of the group does on a CPU, or time that passes without it.
#[derive(Clone, Copy, Debug)]
enum Act {
    Wakes(usize),
    Sleeps(usize),
    /// The tasks of the group run on the CPU for so many microseconds, and are charged.
    Runs(usize, u32),
    /// So many microseconds pass.
    Passes(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let cpu = 0..CPUS;
    let act = prop_oneof![
        2 => cpu.clone().prop_map(Act::Wakes),
        2 => cpu.clone().prop_map(Act::Sleeps),
        4 => (cpu, prop_oneof![1..500_u32, 1..8_000_u32]).prop_map(|(cpu, us)| Act::Runs(cpu, us)),
        2 => prop_oneof![0..1_000_u32, 0..30_000_u32].prop_map(Act::Passes),
    ];
    vec(act, 1..150)
}

/// The limit in milliseconds: quota, period, burst, and the delay of the first period.
type Numbers = (u64, u64, u64, u64);

fn numbers() -> impl Strategy<Value = Numbers> {
    (1..60_u64, 1..100_u64, 0..=100_u64, 0..100_u64).prop_map(|(quota, period, burst, first)| {
        (quota, period, quota * burst / 100, first % period)
    })
}

/// The code under test: the pool, and the part of each CPU.
struct Real {
    now: Time,
    pool: Flat<RefCell<CfsBandwidth>>,
    cpus: Vec<(Slices, Tree, QueueId)>,
}

impl Real {
    fn new((quota, period, burst, first): Numbers, slice: Nanos) -> Real {
        let [quota, period, burst, first] = [quota, period, burst, first].map(Nanos::from_millis);
        let limit = Limit::new(quota, period, burst, false).unwrap();
        let control = Control { slice, interleaves: true };
        let pool = CfsBandwidth::new(limit, CPUS, 1, control, (Time::ZERO, first));
        let cpu = |at| {
            let mut tree = Tree::new(CpuId::at(at));
            tree.grow(1, 1);
            tree.open(1);
            let queue = tree.add_queue(0, GROUP, Entity::NONE);
            let mut slices = Slices::default();
            slices.grow(2);
            slices.set(queue, Some(1));
            slices.add_payer(Payer { queue, group: GROUP, holds_back: true });
            (slices, tree, queue)
        };
        Real {
            now: Time::ZERO,
            pool: Flat(1, RefCell::new(pool)),
            cpus: (0..CPUS).map(cpu).collect(),
        }
    }

    fn on<R>(
        &mut self,
        at: usize,
        act: impl FnOnce(&Here<'_, Flat<RefCell<CfsBandwidth>>>, &mut Slices, &mut Tree, QueueId) -> R,
    ) -> R {
        let here = Here { now: self.now, cpu: CpuId::at(at), pools: &self.pool };
        let (slices, tree, queue) = &mut self.cpus[at];
        act(&here, slices, tree, *queue)
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Wakes(at) => self.on(at, |here, slices, tree, queue| {
                let comes = std::mem::replace(&mut tree.queue_mut(queue).nr, 1) == 0;
                if comes && !slices.is_throttled(queue) && !slices.has_left(queue) {
                    let left = slices.refresh(here, (queue, GROUP), Want::Slice);
                    if !left {
                        slices.throttle(here, (queue, GROUP), true);
                    }
                }
            }),
            Act::Sleeps(at) => self.on(at, |here, slices, tree, queue| {
                tree.queue_mut(queue).nr = 0;
                slices.return_slack(here, tree);
            }),
            Act::Runs(at, us) => self.on(at, |here, slices, tree, queue| {
                if tree.queue(queue).nr == 0 || slices.is_throttled(queue) {
                    return;
                }
                let leaves = slices.charge(here, Nanos::from_micros(us.into()));
                assert_eq!(
                    leaves,
                    slices.spent().is_some(),
                    "a switch is due for a queue without budget"
                );
                if leaves && !slices.refresh(here, (queue, GROUP), Want::Any) {
                    slices.throttle(here, (queue, GROUP), true);
                }
            }),
            Act::Passes(us) => {
                let end = self.now + Nanos::from_micros(us.into());
                while let Some((due, at)) = self.first_timer().filter(|&(due, _)| due <= end) {
                    self.now = due;
                    let mut first = self.on(at, |here, slices, _, _| slices.expire(here));
                    while let Some((cpu, _)) = first {
                        self.on(cpu.index(), |here, slices, _, queue| {
                            if slices.accept(here, (queue, GROUP)) {
                                let _ = slices.unthrottle(here, (queue, GROUP));
                            }
                        });
                        let next = self.pool.1.borrow().first_waiting();
                        first = next.map(|cpu| (cpu, GROUP));
                    }
                }
                self.now = end;
            }
        }
    }

    fn first_timer(&self) -> Option<(Time, usize)> {
        let next = self.cpus.iter().enumerate().map(|(at, cpu)| (cpu.0.next(), at)).min();
        next.filter(|&(due, _)| due < Time::MAX)
    }
}

/// A CPU of the model, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct ModelCpu {
    left: i64,
    has_tasks: bool,
    throttled: bool,
}

/// The model.
#[derive(Debug)]
struct Model {
    now: i64,
    quota: i64,
    period: i64,
    burst: i64,
    first: i64,
    slice: i64,
    pool: i64,
    at_refill: i64,
    cpus: [ModelCpu; CPUS],
    /// The CPUs that are throttled, in the order in which they were.
    waiting: Vec<usize>,
    refills: bool,
    drew: bool,
    slack: Option<i64>,
    /// Periods, throttled ones, and the time of bursts.
    stat: [i64; 3],
}

impl Model {
    fn new((quota, period, burst, first): Numbers, slice: Nanos) -> Model {
        let [quota, period, burst, first] =
            [quota, period, burst, first].map(|ms| ms.cast_signed() * MS);
        Model {
            now: 0,
            quota,
            period,
            burst,
            first,
            slice: slice.0.cast_signed(),
            pool: quota + burst,
            at_refill: quota + burst,
            cpus: [ModelCpu::default(); CPUS],
            waiting: Vec::new(),
            refills: false,
            drew: true,
            slack: None,
            stat: [0; 3],
        }
    }

    /// Returns the first end of a period after a time.
    fn end_after(&self, time: i64) -> i64 {
        self.first + ((time - self.first).div_euclid(self.period) + 1) * self.period
    }

    fn draw(&mut self, cpu: usize, target: i64) {
        self.refills = true;
        let drawn = (target - self.cpus[cpu].left).min(self.pool);
        self.drew |= drawn > 0;
        self.pool -= drawn;
        self.cpus[cpu].left += drawn;
    }

    fn draw_or_throttle(&mut self, cpu: usize) {
        if self.cpus[cpu].left <= 0 && !self.cpus[cpu].throttled {
            self.draw(cpu, self.slice);
            if self.cpus[cpu].left <= 0 {
                self.cpus[cpu].throttled = true;
                self.waiting.push(cpu);
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Wakes(cpu) => {
                if !std::mem::replace(&mut self.cpus[cpu].has_tasks, true) {
                    self.draw_or_throttle(cpu);
                }
            }
            Act::Sleeps(cpu) => {
                self.cpus[cpu].has_tasks = false;
                let rest = self.cpus[cpu].left - MS;
                if rest > 0 {
                    self.cpus[cpu].left = MS;
                    self.pool += rest;
                    let until_refill = self.end_after(self.now) - self.now;
                    let far = self.refills && until_refill >= 7 * MS;
                    if self.pool > self.slice && !self.waiting.is_empty() && far {
                        self.slack = self.slack.or(Some(self.now + 5 * MS));
                    }
                }
            }
            Act::Runs(cpu, us) => {
                if self.cpus[cpu].has_tasks && !self.cpus[cpu].throttled {
                    self.cpus[cpu].left -= i64::from(us) * 1_000;
                    self.draw_or_throttle(cpu);
                }
            }
            Act::Passes(us) => {
                let end = self.now + i64::from(us) * 1_000;
                loop {
                    let refill = if self.refills { self.end_after(self.now) } else { i64::MAX };
                    let slack = self.slack.unwrap_or(i64::MAX);
                    let due = refill.min(slack);
                    if due > end {
                        break;
                    }
                    self.now = due;
                    if due == refill { self.refill() } else { self.end_slack() }
                }
                self.now = end;
            }
        }
    }

    fn refill(&mut self) {
        self.stat[0] += 1;
        self.pool += self.quota;
        self.stat[2] += (self.at_refill - self.pool).max(0);
        self.pool = self.pool.min(self.quota + self.burst);
        self.at_refill = self.pool;
        let throttled = !self.waiting.is_empty();
        self.stat[1] += i64::from(throttled);
        self.refills = throttled || self.drew;
        self.drew = throttled;
        self.hand_out();
    }

    fn end_slack(&mut self) {
        self.slack = None;
        if self.pool > self.slice && self.end_after(self.now) - self.now >= 2 * MS {
            self.hand_out();
        }
    }

    fn hand_out(&mut self) {
        for cpu in std::mem::take(&mut self.waiting) {
            let given = (1 - self.cpus[cpu].left).min(self.pool);
            self.pool -= given;
            self.cpus[cpu].left += given;
            self.cpus[cpu].throttled = self.cpus[cpu].left <= 0;
            if self.cpus[cpu].throttled {
                self.waiting.push(cpu);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_control_is_that_of_the_model(
        numbers in numbers(),
        slice in prop_oneof![3 => Just(5_000_u64), 1 => 1..20_000_u64],
        acts in acts(),
    ) {
        let slice = Nanos::from_micros(slice);
        let (mut real, mut model) = (Real::new(numbers, slice), Model::new(numbers, slice));
        for (nth, &act) in acts.iter().enumerate() {
            real.act(act);
            model.act(act);
            let mut held = Nanos::ZERO;
            for (at, (slices, tree, queue)) in real.cpus.iter().enumerate() {
                let is = ModelCpu {
                    left: slices.remaining(*queue),
                    has_tasks: tree.queue(*queue).nr > 0,
                    throttled: slices.is_throttled(*queue),
                };
                prop_assert_eq!(is.left, model.cpus[at].left, "left on {} after {} acts", at, nth);
                prop_assert_eq!(is.throttled, model.cpus[at].throttled, "{} after {} acts", at, nth);
                prop_assert_eq!(slices.fault(tree, *queue), None);
                held += slices.held(*queue);
            }
            let pool = real.pool.1.borrow();
            pool.check(held);
            let usage = pool.usage();
            let stat = [usage.nr_periods, usage.nr_throttled, usage.burst.0];
            prop_assert_eq!(stat.map(u64::cast_signed), model.stat, "after {} acts", nth);
        }
    }
}
