//! Marks in the tasks' programs, from which the latencies of chains are measured as in a simulation.
//!
//! A mark is an event of the simulator: a task is woken, its program comes to a step, the step takes effect, the program
//! waits or ends. Its time is of the host's one clock. A task keeps the marks that only concern itself, without a lock.
//! A step that concerns others holds the world's lock anyway, and is marked there, in the order in which such steps
//! take effect. So the task that takes a message gets its tokens and no others.
//!
//! A program comes to a wait shortly before its thread sleeps, and goes on shortly after that has its CPU again. A token
//! ends with the former, and begins when its task could run.
//!
//! A wait for a mutex of the host's has no mark. Chains pass over waits for mutexes.

use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_outcome::scenario::chains;
use runyard_report::ChainReport;
use runyard_workload::Scenario;
use runyard_workload::scenario::{SpecId, Step};
use std::collections::BTreeMap;

/// The number of marks of steps that concern others for which there is room from the start. More of them are copied to a
/// larger place, under the world's lock.
const ROOM: usize = 1 << 20;

/// The marks of a run.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Those of steps that concern others, in the order of their effects.
    shared: Vec<Event>,
    /// Those that each finished task kept.
    kept: Vec<Vec<Event>>,
}

impl Marks {
    /// Those of a run that begins; `None` if its scenario has no chains.
    pub(crate) fn of(scenario: &Scenario) -> Option<Marks> {
        let new = || Marks { shared: Vec::with_capacity(ROOM), kept: Vec::new() };
        (!scenario.chains.is_empty()).then(new)
    }

    /// Marks an event of the step that takes effect.
    pub(crate) fn add(&mut self, at: Time, what: What) {
        self.shared.push(mark(at, what));
    }

    /// Takes the marks of a task that ends.
    pub(crate) fn keep(&mut self, marks: Vec<Event>) {
        self.kept.push(marks);
    }

    /// The reports of the chains of a run that ended at `end`. `tasks` has the name of each task, and of its thread.
    pub(crate) fn reports(
        &self,
        scenario: &Scenario,
        tasks: &[(&str, &str)],
        end: Time,
    ) -> Vec<ChainReport> {
        let Some(mut chains) = chains(scenario) else { return Vec::new() };
        let threads = scenario.tasks.iter().map(|task| task.name.as_str()).zip(0..);
        let threads: BTreeMap<_, _> = threads.collect();
        for (task, (_, thread)) in (0..).map(TaskId).zip(tasks) {
            chains.runs(task, threads[thread]);
        }
        // A task's own marks come before those of the step that it takes at the same time.
        let all = self.kept.iter().flatten().chain(&self.shared);
        let mut all: Vec<_> = all.filter(|mark| mark.at <= end).collect();
        all.sort_by_key(|mark| mark.at);
        all.into_iter().for_each(|mark| chains.event(mark));
        chains.reports(|task| tasks[task.index()].0.to_owned())
    }
}

/// A mark. It is not known on which CPU its task is.
pub(crate) fn mark(at: Time, what: What) -> Event {
    Event { at, cpu: CpuId(0), what }
}

/// The event that a task waits.
pub(crate) fn waits(task: TaskId) -> What {
    What::Switch { prev: Some((task, Left::Blocked)), next: None }
}

/// The event that a task ends.
pub(crate) fn ends(task: TaskId) -> What {
    What::Switch { prev: Some((task, Left::Exited)), next: None }
}

/// Whether a task of this thread can have, pass on or drop a token.
pub(crate) fn matters(scenario: &Scenario, thread: SpecId) -> bool {
    let mut members = scenario.chains.iter().flat_map(|chain| &chain.places).flatten();
    let mut phases = scenario.tasks[thread.0 as usize].phases.iter();
    !scenario.chains.is_empty()
        && (members.any(|&member| member == thread)
            || phases.any(|phase| phase.steps.iter().any(concerns_others)))
}

fn concerns_others(step: Step) -> bool {
    !matches!(
        step,
        Step::Run(_)
            | Step::Runtime(_)
            | Step::Memory(_)
            | Step::Kernel(_)
            | Step::Sleep(_)
            | Step::Timer { .. }
            | Step::Yield
            | Step::Exit
    )
}
