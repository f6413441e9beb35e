//! A run from its beginning to its end.

use super::cookies::Cookies;
use super::ground::Ground;
use super::inherit::Lock;
use super::kernel::Outcome;
use super::mutexes::Words;
use super::{report, thread};
use crate::play::mutexes::Mutexes;
use crate::play::{Plan, World};
use crate::sync::Arc;
use runyard_engine::time::Time;
use runyard_outcome::Failure;
use runyard_report::Report;
use runyard_workload::Scenario;
use runyard_workload::log::Row;
use runyard_workload::objects::Undone;

/// A finished run on kernel threads.
#[derive(Debug)]
pub struct LinuxRun {
    world: Arc<World>,
    outcome: Outcome,
}

/// Plays `plan` to its end on the machine's parts in `ground`.
///
/// # Errors
/// If the kernel refuses a task's attributes, such as a policy without permission, or keeps no cookies for tasks that
/// have some.
pub fn run(plan: Plan, mut ground: Ground) -> Result<LinuxRun, Failure> {
    let words = Words::of(&plan.scenario.objects).map(|words| Box::new(words) as Box<dyn Mutexes>);
    ground.cookies = Cookies::of(&plan.scenario)?;
    let (world, tasks) = World::new(plan, ground.cpus.len(), Lock::default(), words);
    let outcome = thread::run(&world, tasks, ground);
    match world.refused() {
        None => Ok(LinuxRun { world, outcome }),
        Some(why) => Err(Failure::Refused(format!("linux: {why}"))),
    }
}

impl LinuxRun {
    /// The scenario of the run.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.world.scenario
    }

    /// The end of the run.
    #[must_use]
    pub fn ended(&self) -> Time {
        self.outcome.end
    }

    /// The report of the run. It does not have the scenario's name, the seed and the wall time yet.
    #[must_use]
    pub fn report(&self) -> Report {
        report::report(&self.world, &self.outcome)
    }

    /// Waits without an end, and resumptions that found no suspended task.
    #[must_use]
    pub fn left(&self) -> Undone {
        self.world.left()
    }

    /// Takes the logs of the tasks, if the plan asked for some.
    #[must_use]
    pub fn take_rows(&self) -> Vec<Row> {
        self.world.take_rows()
    }
}
