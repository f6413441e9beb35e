//! The speed of the simulator: wake-ups of virtual machines per second of wall-clock time.
//!
//! The unit is a wake-up because all other work follows from it: the timer interrupt before it, the switches to and
//! from the task, and its run. The workload is of one kind for every machine size, so that the cost of a wake-up at
//! 1,024 CPUs can be compared with that at 16.

use crate::Operation;
use runyard_engine::event::{Event, What};
use runyard_engine::features::Switched;
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Observer, Options, Sim};
use runyard_workload::{Overrides, Scenario, parse};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The compared machine sizes, in CPUs; the first is compared with all others.
pub const SIZES: [usize; 5] = [16, 64, 256, 1_024, 4_096];

/// Tasks for each CPU; with `PERIOD_US` and `RUN_US` they need about five eighths of it.
pub const TASKS_PER_CPU: usize = 5;

/// Period of a task in microseconds, so short that few other events occur between wake-ups.
const PERIOD_US: u64 = 1_000;

/// Bounds of a task's run time in microseconds. The run time varies, so that no two periods are the same.
pub(crate) const RUN_US: [u64; 2] = [100, 150];

/// Virtual time before the measurement, in which every task begins and queues grow to their size.
const WARM_UP: Nanos = Nanos::from_millis(5);

/// Duration of the scenario, longer than any measurement. A scenario without an end must have a duration.
const DURATION_S: u64 = 1_000_000;

/// A scenario with tasks of several kinds, and its number of CPUs.
const LARGE: &str = include_str!("../../scenarios/large.json");
const LARGE_CPUS: u64 = 4_096;

/// A simulated machine.
#[derive(Debug)]
pub struct Simulation {
    sim: Sim<'static>,
    counts: Rc<Counts>,
}

/// The counts of a part of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Throughput {
    /// Number of tasks that became runnable.
    pub wakeups: u64,
    /// Number of events of any kind that the observer received.
    pub events: u64,
    /// Wall-clock time.
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
    /// Returns the nanoseconds for each wake-up.
    #[must_use]
    pub fn nanos_each(&self) -> f64 {
        self.took.as_nanos() as f64 / self.wakeups as f64
    }

    /// Returns the events per second.
    #[must_use]
    pub fn event_rate(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }
}

impl Simulation {
    /// Creates a machine of `cpus` CPUs on one node with [`TASKS_PER_CPU`] periodic tasks each, all of which have
    /// begun. Its scenario stays in memory until the process ends.
    ///
    /// # Panics
    ///
    /// Panics if a machine cannot be so large.
    #[must_use]
    pub fn new(cpus: usize) -> Simulation {
        Simulation::switched(cpus, &[])
    }

    /// Like [`Simulation::new`], with these features.
    ///
    /// # Panics
    ///
    /// Panics as [`Simulation::new`] does.
    #[must_use]
    pub fn switched(cpus: usize, features: &[Switched]) -> Simulation {
        Simulation::of(with(scenario(cpus), features))
    }

    /// Like [`Simulation::switched`], with the tasks of `scenarios/large.json`, the same number of each kind per CPU.
    ///
    /// # Panics
    ///
    /// Panics as [`Simulation::new`] does.
    #[must_use]
    pub fn mixed(cpus: usize, features: &[Switched]) -> Simulation {
        Simulation::of(with(mixed(cpus), features))
    }

    /// Creates a simulation of periodic tasks that settle within [`WARM_UP`]. The scenario stays in memory until the
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

    /// Runs until `wakeups` tasks have woken.
    ///
    /// # Panics
    ///
    /// Panics if the simulation ends first.
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

/// Adds these features to those of the scenario.
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

/// Returns `tasks` tasks that each run for a time of [`RUN_US`] once in `period_us` microseconds. They start at random
/// moments of the first period; otherwise all would wake at the same times.
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
