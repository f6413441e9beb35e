//! The host of kernel threads, on a system that has none: it refuses.

use crate::play::Plan;
pub use crate::program::{Finished, Place, Refusal};
use runyard_engine::time::Time;
use runyard_outcome::Failure;
use runyard_report::Report;
use runyard_workload::Scenario;
use runyard_workload::log::Row;
use runyard_workload::objects::Undone;
use std::process::Command;

/// Why this host refuses.
const ELSEWHERE: &str = "linux: this is another system";

/// The parts of the machine that the tasks of a run would have.
#[derive(Debug)]
pub struct Ground;

/// A finished run. No value of this type exists.
#[derive(Debug)]
pub enum LinuxRun {}

/// Refuses.
///
/// # Errors
/// Always.
pub fn run(_plan: Plan, _ground: Ground) -> Result<LinuxRun, Failure> {
    Err(Failure::Refused(ELSEWHERE.to_owned()))
}

impl Ground {
    /// These CPUs, by the machine's numbers.
    #[must_use]
    pub fn new(_cpus: Vec<usize>) -> Ground {
        Ground
    }

    /// These CPUs. No groups are made.
    #[must_use]
    pub fn with_groups(_cpus: Vec<usize>, _scenario: &Scenario) -> Ground {
        Ground
    }
}

impl LinuxRun {
    /// The scenario of the run.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        match *self {}
    }

    /// The end of the run.
    #[must_use]
    pub fn ended(&self) -> Time {
        match *self {}
    }

    /// The report of the run.
    #[must_use]
    pub fn report(&self) -> Report {
        match *self {}
    }

    /// Waits without an end, and resumptions that found no suspended task.
    #[must_use]
    pub fn left(&self) -> Undone {
        match *self {}
    }

    /// The logs of the tasks.
    #[must_use]
    pub fn take_rows(&self) -> Vec<Row> {
        match *self {}
    }
}

/// The kernel's counters during a run. No value of this type exists.
#[derive(Debug)]
pub enum Schedstat {}

impl Schedstat {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn begin() -> Result<Schedstat, Failure> {
        Err(Failure::Refused(ELSEWHERE.to_owned()))
    }

    /// The counts since the beginning.
    ///
    /// # Errors
    /// Never.
    pub fn end(self) -> Result<String, Failure> {
        match self {}
    }
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn run_program(
    _command: &mut Command,
    _cpus: usize,
    _place: Place,
) -> Result<Finished, Refusal> {
    Err(Refusal::NoGroups(ELSEWHERE.to_owned()))
}

/// The reason why no groups are made.
pub(crate) fn refuses_groups(_cpus: usize) -> Option<String> {
    Some(ELSEWHERE.to_owned())
}
