//! Task programs of the shapes of the document's benchmarks under the runtime's limit, in
//! [the document's three columns](super::columns).
//!
//! All tasks of a program are in one group. Without hard limits the group's limit has no effect. The CPU time is that of
//! the process: it has the time in which workers choose tasks, which no group pays for.

use super::columns::{self, COLUMNS, Measured, Ran};
use super::founding;
use crate::claims::Claim;
use crate::length::Length;
use crate::price::{self, Program};
use crate::quiet::Course;
use crate::setting::Setting;
use runyard_engine::attr::GroupId;
use runyard_engine::event::{Event, What};
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::live::{self, EventSink};
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_outcome::Failure;
use std::time::Duration;

/// The group of all tasks.
const LIMITED: GroupId = GroupId(1);

const GROUP: &str = "'/limited': {'runtime': 450000, 'period': 500000, 'per_cpu': true}";

/// The time of a run without a limit: more than a period of the limit, and of one whose row has a bound as much as that
/// needs.
fn run_takes(program: Program, length: Length) -> Nanos {
    Nanos::from_millis(if is_bound(program) { 4_000 } else { length.pick(600, 4_000) })
}

/// Whether the program uses all CPUs that it gets for tasks.
fn is_bound(program: Program) -> bool {
    program.name == price::BOUND
}

/// The time of all runs of one program.
fn one_takes(program: Program, length: Length) -> Duration {
    PROBE + columns::takes(run_takes(program, length), length)
}

/// The rounds of a probe, which tells how much work a run needs, as a multiple of the price's.
const PROBED: u32 = 20;

/// The time of a probe.
const PROBE: Duration = Duration::from_millis(200);

/// The time of all runs of all programs.
pub(super) fn takes(length: Length) -> Duration {
    Program::ALL.into_iter().map(|program| one_takes(program, length)).sum()
}

/// Runs all programs on so many CPUs, as parts of a course that last as long as [`takes`] says.
///
/// # Errors
/// If the machine refuses something.
pub(super) fn measured(
    cpus: usize,
    length: Length,
    course: &mut Course<'_>,
) -> Result<Vec<Measured>, Failure> {
    let of = |program: Program| {
        let what = format!("{} under the runtime's limit", program.name);
        let run = || of_one(program, cpus, length, founding::columns);
        course.once(&what, one_takes(program, length), run)
    };
    Program::ALL.into_iter().map(of).collect()
}

/// The claims about a build whose last column has no hard limits either: for tests that see them fail.
///
/// # Errors
/// If the machine refuses something.
pub(super) fn build_without_limit(cpus: usize) -> Result<Vec<Claim>, Failure> {
    let build = Program::ALL.into_iter().find(|&program| is_bound(program));
    let columns = |setting| {
        let [off, free, _] = founding::columns(setting);
        [off.clone(), free, off]
    };
    Ok(of_one(build.expect("one has a bound"), cpus, Length::Short, columns)?.claims())
}

/// Runs one program in these columns.
fn of_one(
    program: Program,
    cpus: usize,
    length: Length,
    columns: fn(Setting) -> [Setting; COLUMNS],
) -> Result<Measured, Failure> {
    let of = |times| columns(setting(program, times, cpus));
    let probe = run(&of(PROBED)[0], cpus)?.took;
    let times = run_takes(program, length).0 * u64::from(PROBED) / probe.0.max(1);
    let times = u32::try_from(times).unwrap_or(u32::MAX).max(1);
    let settings = of(times);
    let rounds = columns::rounds(length, |column| run(&settings[column], cpus))?;
    Ok(of_program(program, format!("{} rounds of each task", times * program.loops), rounds))
}

/// The results of a program with its extent.
fn of_program(program: Program, told: String, rounds: Vec<[Ran; COLUMNS]>) -> Measured {
    Measured {
        name: format!("the runtime's limit, {}", program.name),
        told,
        wants_all_cpus: is_bound(program),
        published: None,
        rounds: Ok(rounds),
    }
}

/// The program, with all its tasks in the group.
fn setting(program: Program, times: u32, cpus: usize) -> Setting {
    price::setting(&program.tasks(times), GROUP, cpus).edit(|scenario| {
        for task in &mut scenario.tasks {
            task.properties.group = Some(LIMITED);
        }
    })
}

/// Runs a program once.
fn run(setting: &Setting, cpus: usize) -> Result<Ran, Failure> {
    let (counted, before) = (Arc::new(Mutex::new(Switches(0))), process_cpu_time());
    let over = live::run(Plan::new(setting.scenario()?, 1), cpus, counted.clone())?;
    let used = process_cpu_time() - before;
    let throttled =
        over.info().groups[LIMITED.index()].usage.as_ref().map(|(it, _)| it.nr_throttled);
    let switches = lock(&counted).0;
    let took = over.ended().since(Time::ZERO);
    Ok(Ran { took, used, cpus, switches, throttled, switch_us: None })
}

/// The number of switches to a task.
#[derive(Debug)]
struct Switches(u64);

impl EventSink for Switches {
    fn event(&mut self, event: &Event) {
        self.0 += u64::from(matches!(event.what, What::Switch { next: Some(_), .. }));
    }
}

/// The names of all rows.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let none = |program: Program| of_program(program, String::new(), Vec::new()).claims();
    Program::ALL.into_iter().flat_map(none).map(|claim| claim.what).collect()
}
