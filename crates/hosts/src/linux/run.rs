//! A run from its beginning to its end.

use super::cookies::Cookies;
use super::ground::Ground;
use super::inherit::Lock;
use super::kernel::Outcome;
use super::mutexes::Words;
use super::{report, thread};
use crate::failure::Failure;
use crate::play::mutexes::Mutexes;
use crate::play::{Plan, World};
use crate::sync::Arc;
use runyard_engine::time::Time;
use runyard_report::Report;
use runyard_workload::Scenario;
use runyard_workload::log::Row;
use runyard_workload::objects::Undone;

/// A run on kernel threads that is over.
#[derive(Debug)]
pub struct LinuxRun {
    world: Arc<World>,
    outcome: Outcome,
}

/// Plays `plan` to its end on what it has of the machine.
///
/// # Errors
/// If the kernel refuses what a task asks for, as a policy for which there is no permission, or keeps no cookies
/// for tasks that have some.
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
    /// What was run.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.world.scenario
    }

    /// When the run ended.
    #[must_use]
    pub fn ended(&self) -> Time {
        self.outcome.end
    }

    /// What became of the run. The report has no name of the scenario, no seed and no time on the
    /// wall yet.
    #[must_use]
    pub fn report(&self) -> Report {
        report::report(&self.world, &self.outcome)
    }

    /// Waits in vain and resumptions that found nobody.
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
