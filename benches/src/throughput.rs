//! How fast the simulator is: wake-ups of virtual machines in one second of the clock on the wall.
//!
//! A wake-up is the unit because everything else follows from it: the timer interrupt before it,
//! the switches to the task and away from it, its stretch of work. The workload is of one kind for
//! every size of machine, so that what a wake-up costs at 1,024 CPUs can be compared with 16.

use crate::Operation;
use runyard_engine::event::{Event, What};
use runyard_engine::features::Switched;
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Observer, Options, Sim};
use runyard_workload::{Overrides, Scenario, parse};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The sizes of machine that are compared, the first with all others.
pub const SIZES: [usize; 5] = [16, 64, 256, 1_024, 4_096];

/// Tasks for each CPU; with `PERIOD_US` and `RUN_US` they need about five eighths of it.
pub const TASKS_PER_CPU: usize = 5;

/// Each task wakes up once in so many microseconds, often enough that little happens between.
const PERIOD_US: u64 = 1_000;

/// A task works for a time between these, in microseconds, so that no two periods are the same.
pub(crate) const RUN_US: [u64; 2] = [100, 150];

/// Virtual time that is not measured: every task begins, queues grow to their size.
const WARM_UP: Nanos = Nanos::from_millis(5);

/// Longer than anything here runs; a scenario that never ends must say how long it is to go on.
const DURATION_S: u64 = 1_000_000;

/// Tasks of several kinds, and for how many CPUs.
const LARGE: &str = include_str!("../../scenarios/large.json");
const LARGE_CPUS: u64 = 4_096;

/// A machine that is simulated.
#[derive(Debug)]
pub struct Simulation {
    sim: Sim<'static, Counter>,
    counts: Rc<Counts>,
}

/// What a part of a simulation came to.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    /// Tasks that became runnable.
    pub wakeups: u64,
    /// Events of any kind that the observer was told.
    pub events: u64,
    /// On the wall.
    pub took: Duration,
}

#[derive(Debug, Default)]
struct Counts {
    wakeups: Cell<u64>,
    events: Cell<u64>,
}

#[derive(Debug)]
struct Counter(Rc<Counts>);

pub(crate) fn operations() -> Vec<Operation> {
    let operation = |cpus| {
        Operation::new(format!("simulator/{cpus}"), move || {
            let mut simulation = Simulation::new(cpus);
            Box::new(move |wakeups| {
                let _ = simulation.run(wakeups);
            })
        })
    };
    SIZES.into_iter().map(operation).collect()
}

impl Throughput {
    /// Nanoseconds for each wake-up.
    #[must_use]
    pub fn nanos_each(&self) -> f64 {
        self.took.as_nanos() as f64 / self.wakeups as f64
    }

    /// Events in a second.
    #[must_use]
    pub fn event_rate(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }
}

impl Simulation {
    /// A machine of `cpus` CPUs on one node with [`TASKS_PER_CPU`] periodic tasks each, all of
    /// which have begun. Its scenario stays in memory until the process ends.
    ///
    /// # Panics
    /// If a machine cannot be so large.
    #[must_use]
    pub fn new(cpus: usize) -> Simulation {
        Simulation::switched(cpus, &[])
    }

    /// As [`Simulation::new`], with these features.
    ///
    /// # Panics
    /// As [`Simulation::new`].
    #[must_use]
    pub fn switched(cpus: usize, features: &[Switched]) -> Simulation {
        Simulation::of(with(scenario(cpus), features))
    }

    /// As [`Simulation::switched`], of the tasks of `scenarios/large.json`: as many of each kind for a CPU as there.
    ///
    /// # Panics
    /// As [`Simulation::new`].
    #[must_use]
    pub fn mixed(cpus: usize, features: &[Switched]) -> Simulation {
        Simulation::of(with(mixed(cpus), features))
    }

    /// Of periodic tasks that are settled after [`WARM_UP`]. The scenario stays in memory until the
    /// process ends.
    pub(crate) fn of(scenario: Scenario) -> Simulation {
        let counts = Rc::<Counts>::default();
        let scenario = Box::leak(Box::new(scenario));
        let sim = Sim::new(scenario, Options::default(), Counter(counts.clone()));
        let mut sim = sim.expect("the machine does not contradict itself");
        while sim.now() < Time::ZERO + WARM_UP {
            assert!(sim.step(), "periodic tasks never end");
        }
        Simulation { sim, counts }
    }

    /// Goes on until so many tasks have woken up.
    ///
    /// # Panics
    /// If the simulation ends before.
    #[must_use]
    pub fn run(&mut self, wakeups: u64) -> Throughput {
        self.counts.wakeups.set(0);
        self.counts.events.set(0);
        let begin = Instant::now();
        while self.counts.wakeups.get() < wakeups {
            assert!(self.sim.step(), "periodic tasks never end");
        }
        let took = begin.elapsed();
        Throughput { wakeups: self.counts.wakeups.get(), events: self.counts.events.get(), took }
    }
}

impl Observer for Counter {
    fn event(&mut self, event: &Event) {
        let Counts { wakeups, events } = &*self.0;
        events.set(events.get() + 1);
        wakeups.set(wakeups.get() + u64::from(matches!(event.what, What::Wake { .. })));
    }
}

/// With these features beside those that it has.
pub(crate) fn with(mut scenario: Scenario, features: &[Switched]) -> Scenario {
    features.iter().for_each(|&switched| scenario.features.set(switched));
    scenario
}

fn mixed(cpus: usize) -> Scenario {
    let duration = Some(Nanos(DURATION_S * 1_000_000_000));
    let over = Overrides { cpus: Some(cpus), duration, ..Overrides::default() };
    let parsed = parse("large.json", LARGE, &over);
    let mut scenario = parsed.expect("the workload is a scenario").scenario;
    for task in &mut scenario.tasks {
        task.instances = (u64::from(task.instances) * cpus as u64).div_ceil(LARGE_CPUS) as u32;
    }
    scenario
}

fn scenario(cpus: usize) -> Scenario {
    periodic(cpus, cpus * TASKS_PER_CPU, PERIOD_US)
}

/// So many tasks that each work for a time of [`RUN_US`] once in a period of so many microseconds. They
/// start at random moments of the first one, or all would wake up at once for ever.
pub(crate) fn periodic(cpus: usize, tasks: usize, period_us: u64) -> Scenario {
    let [low, high] = RUN_US;
    let text = format!(
        r#"{{
            "machine": {{"cpus": {cpus}}},
            "tasks": {{"periodic": {{
                "instance": {tasks},
                "delay": {{"uniform": [0, {period_us}]}},
                "run": {{"uniform": [{low}, {high}]}},
                "timer": {{"ref": "unique", "period": {period_us}}}
            }}}},
            "global": {{"duration": {DURATION_S}}}
        }}"#
    );
    let parsed = parse("periodic", &text, &Overrides::default());
    parsed.expect("the workload is a scenario").scenario
}
