//! Runs on this machine's CPUs whose tasks note their steps, on the runtime or as kernel threads.
//!
//! The notes of a task have a lock of their own, which no other task takes while the run lasts. So a task that is
//! preempted with its lock delays no other task.

use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_hosts::linux::Ground;
use runyard_hosts::play::{Plan, Watch};
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_hosts::{linux, live};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use std::fmt::Debug;

/// The host of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Live,
    Linux,
}

/// How a task notes a step that it takes.
pub(crate) type Note<T> = fn(&mut T, TaskId, usize, Time);

#[derive(Debug)]
struct Steps<T> {
    tasks: Vec<Mutex<T>>,
    note: Note<T>,
}

impl<T: Debug + Send> Watch for Steps<T> {
    fn step(&self, task: TaskId, step: usize, now: Time) {
        (self.note)(&mut *lock(&self.tasks[task.index()]), task, step, now);
    }
}

/// Runs a scenario on these CPUs, by the machine's numbers, and returns the notes of each task, which begin as they are.
pub(crate) fn noted<T: Clone + Debug + Send + 'static>(
    scenario: Scenario,
    (host, cpus): (Host, &[usize]),
    seed: u64,
    (notes, note): (Vec<T>, Note<T>),
) -> Result<Vec<T>, Failure> {
    let steps = Arc::new(Steps { tasks: notes.into_iter().map(Mutex::new).collect(), note });
    let plan = Plan { watch: Some(steps.clone()), ..Plan::new(scenario, seed) };
    match host {
        Host::Live => drop(live::run(plan, cpus.len(), Arc::new(Mutex::new(())))?),
        Host::Linux => drop(linux::run(plan, Ground::new(cpus.to_vec()))?),
    }
    Ok(steps.tasks.iter().map(|task| lock(task).clone()).collect())
}
