//! The charges of a run queue on a CPU that sometimes stands still while the clock runs.

use crate::world::Tree;
use proptest::prelude::*;
use runyard_engine::attr::{Attr, Nice, Policy, RtPrio};
use runyard_engine::config::Config;
use runyard_engine::cpu::{CpuId, CpuSet};
use runyard_engine::features::{Feature, Switched};
use runyard_engine::run_queue::{Enqueue, Meter, Prev, RunQueue};
use runyard_engine::task::{Task, TaskId};
use runyard_engine::time::{Nanos, Time};
use runyard_engine::timer::Walk;
use runyard_engine::topology::Topology;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The CPU's own clock, with the total time for which it has stood still.
#[derive(Debug, Default)]
struct Own {
    still: AtomicU64,
    told: AtomicU64,
}

impl Own {
    fn at(&self, now: Time) -> u64 {
        now.0 - self.still.load(Relaxed)
    }
}

impl Meter for Own {
    fn used(&self, _: CpuId, now: Time) -> Nanos {
        let at = self.at(now);
        Nanos(at - self.told.swap(at, Relaxed))
    }
}

/// The part of a gap that a task may be charged for: the busy time since the host was last asked.
const SLACK: Nanos = Nanos::from_millis(1);

/// A CPU with tasks that always compute, and its own clock.
struct Cpu {
    rq: RunQueue<u64, Tree>,
    own: Arc<Own>,
    now: Time,
}

impl Cpu {
    fn new(config: Config, policies: &[Policy]) -> Cpu {
        let own = Arc::new(Own::default());
        let mut rq = RunQueue::new(CpuId(0), Arc::new(config), Arc::new(Tree::default()));
        rq.charge_by(own.clone());
        for (id, &policy) in (0..).zip(policies) {
            let attr = Attr { policy, ..Attr::normal(CpuSet::only(CpuId(0))) };
            let _ = rq.offer(Time::ZERO, Task::new(TaskId(id), attr, id), Enqueue::Woken).unwrap();
        }
        let mut cpu = Cpu { rq, own, now: Time::ZERO };
        cpu.switch(Prev::Preempted);
        cpu
    }

    fn curr(&self) -> Option<u64> {
        self.rq.tasks().curr().map(|task| task.id.0)
    }

    fn switch(&mut self, how: fn(u64) -> Prev<u64>) {
        let prev = self.curr().map_or(Prev::Idle, how);
        let _ = self.rq.schedule(self.now, prev);
        self.rq.check();
    }

    /// Lets time pass, in which the CPU runs or stands still; ticks come at the end.
    fn passes(&mut self, span: Nanos, still: bool) {
        self.now = self.now + span;
        if still {
            self.own.still.fetch_add(span.0, Relaxed);
        }
        while self.rq.expire(self.now, Walk::Busy).is_some() {}
        if self.rq.resched().is_due() {
            self.switch(Prev::Preempted);
        }
        self.rq.check();
        assert_eq!(
            self.rq.time().account().run,
            self.charged(),
            "the CPU counts the time of its tasks"
        );
    }

    fn charged(&self) -> Nanos {
        self.rq.tasks().iter().fold(Nanos::ZERO, |sum, (_, task)| sum + task.runtime())
    }
}

fn round_robin() -> Policy {
    Policy::RoundRobin(RtPrio::new(50).unwrap())
}

fn normal() -> Policy {
    Policy::Normal(Nice::default())
}

fn config(eevdf: bool) -> Config {
    let mut config = Config::new(Topology::flat(1).unwrap());
    config.features.set(Switched { feature: Feature::Eevdf, on: eevdf });
    config
}

#[derive(Clone, Debug)]
enum Step {
    Runs(u64),
    StandsStill(u64),
    Yields,
    /// Another caller asks, for instance another CPU.
    Updates,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..3_000_000_u64).prop_map(Step::Runs),
        (1..30_000_u64).prop_map(Step::Runs),
        (1..2_000_000_000_u64).prop_map(Step::StandsStill),
        Just(Step::Yields),
        Just(Step::Updates),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The charges equal the running time of the CPU, except for a bit of each gap. This test fails
    /// without the meter.
    #[test]
    fn what_is_charged_is_what_a_cpu_ran(
        eevdf in any::<bool>(),
        rt in any::<bool>(),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut policies = vec![normal(); 3];
        policies.extend(rt.then_some(round_robin()));
        let mut cpu = Cpu::new(config(eevdf), &policies);
        let mut gaps = 0;
        for step in steps {
            match step {
                Step::Runs(span) => cpu.passes(Nanos(span), false),
                Step::StandsStill(span) => {
                    gaps += 1;
                    cpu.passes(Nanos(span), true);
                }
                Step::Yields => cpu.switch(Prev::Yielded),
                Step::Updates => drop(cpu.rq.at(cpu.now).set_config(Arc::new(config(eevdf)))),
            }
            cpu.rq.at(cpu.now).set_config(Arc::new(config(eevdf)));
            let (charged, ran) = (cpu.charged().0, cpu.own.at(cpu.now));
            prop_assert!(charged >= ran && charged <= cpu.now.0, "{charged} of {ran}");
            prop_assert!(charged <= ran + gaps * SLACK.0, "{charged} of {ran}, {gaps} gaps");
        }
    }
}

/// This test fails without the meter: the tasks are throttled.
#[test]
fn real_time_tasks_are_not_throttled_for_a_stop() {
    let mut cpu = Cpu::new(config(false), &[round_robin(), normal()]);
    cpu.passes(Nanos::from_millis(10), false);
    cpu.passes(Nanos::from_millis(5_000), true);
    cpu.passes(Nanos::from_millis(10), false);
    assert_eq!(cpu.curr(), Some(0), "the task has used 20 ms of 950");
    assert!(cpu.charged() <= Nanos::from_millis(20) + SLACK);
}

/// This test fails without the meter: the other task runs.
#[test]
fn a_slice_of_sched_rr_does_not_end_in_a_stop() {
    let config = Config { rt_runtime: None, ..config(false) };
    let mut cpu = Cpu::new(config, &[round_robin(), round_robin()]);
    cpu.passes(Nanos::from_millis(50), false);
    cpu.passes(Nanos::from_millis(1_000), true);
    assert_eq!(cpu.curr(), Some(0), "the task has used half of its slice");
    cpu.passes(Nanos::from_millis(51), false);
    assert_eq!(cpu.curr(), Some(1));
}

/// The task that ran when the CPU stopped waits for no more than some slices of the other. This
/// test fails without the meter: the wait is longer than 20 ms.
#[test]
fn a_fair_task_keeps_its_turn_over_a_stop() {
    for eevdf in [false, true] {
        let mut cpu = Cpu::new(config(eevdf), &[normal(); 2]);
        cpu.passes(Nanos::from_millis(1), false);
        let stopped = cpu.curr();
        cpu.passes(Nanos::from_millis(1_000), true);
        let began = cpu.now;
        while cpu.curr() != stopped || cpu.now == began {
            cpu.passes(Nanos::from_millis(1), false);
            assert!(
                cpu.now.since(began) < Nanos::from_millis(20),
                "the CPU does not return to {stopped:?}"
            );
        }
        let ran =
            |cpu: &Cpu| cpu.rq.tasks().iter().map(|(_, task)| task.runtime().0).collect::<Vec<_>>();
        for _ in 0..100 {
            cpu.passes(Nanos::from_millis(1), false);
        }
        let ran = ran(&cpu);
        assert!(ran[0].abs_diff(ran[1]) < 10_000_000, "both have had the same time: {ran:?}");
    }
}
