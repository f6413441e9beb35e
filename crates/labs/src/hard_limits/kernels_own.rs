//! The kernel's own limit on this machine: the [original programs](super::originals) of the document's benchmarks, in
//! [the document's three columns](super::columns).
//!
//! The limit is not the document's code but that of its successor, which Linux has had since 3.2 (`cpu.max`).

use super::columns::{self, COLUMNS, Measured, Ran};
use super::founding::documents;
use super::originals::{Bench, Job, Missing, Original};
use crate::claims::Claim;
use crate::length::Length;
use crate::quiet::Course;
use runyard_engine::limits::Limit;
use runyard_engine::time::Nanos;
use runyard_hosts::linux::Place;
use runyard_outcome::Failure;
use std::time::Duration;

/// The time of a probe.
const PROBE: Duration = Duration::from_millis(500);

/// The time of a run in the command's own group: several periods if the program has a bound, otherwise less in a short
/// experiment.
fn run_takes(original: Original, length: Length) -> Nanos {
    Nanos::from_millis(if original.wants_all_cpus() { 4_000 } else { length.pick(600, 4_000) })
}

/// The time of the runs of one program.
fn one_takes(original: Original, length: Length) -> Duration {
    PROBE + columns::takes(run_takes(original, length), length)
}

/// The time of all runs of all programs.
pub(super) fn takes(length: Length) -> Duration {
    Original::ALL.into_iter().map(|original| one_takes(original, length)).sum()
}

/// Runs all programs on so many CPUs, as parts of a course that last as long as [`takes`] says.
pub(super) fn measured(
    cpus: usize,
    length: Length,
    course: &mut Course<'_>,
) -> Result<Vec<Measured>, Failure> {
    let bench = Bench::new(cpus)?;
    let of = |original: Original| {
        let what = format!("{} under the kernel's own limit", original.name());
        let run = || of_one(&bench, original, length, Some(documents()));
        course.once(&what, one_takes(original, length), run)
    };
    Ok(Original::ALL.into_iter().map(of).collect())
}

/// The claims about a build whose last column has no limit either: for tests that see them fail.
pub(super) fn build_without_limit(cpus: usize) -> Result<Vec<Claim>, Failure> {
    Ok(of_one(&Bench::new(cpus)?, Original::Build, Length::Short, None).claims())
}

/// Runs one program, with this limit in the last column.
fn of_one(bench: &Bench, original: Original, length: Length, limit: Option<Limit>) -> Measured {
    let places = [Place::Own, Place::Group(None), Place::Group(limit)];
    let all = |job: Job<'_>| {
        let run = |column: usize| job.run(places[column]);
        Ok((job.shown(), columns::rounds(length, run)?))
    };
    let ran = bench.find(original, run_takes(original, length)).and_then(all);
    of_original(original, ran)
}

/// The results of a program with its command line, or the reason why it has none.
fn of_original(
    original: Original,
    ran: Result<(String, Vec<[Ran; COLUMNS]>), Missing>,
) -> Measured {
    let (told, rounds) = match ran {
        Ok((told, rounds)) => (told, Ok(rounds)),
        Err(Missing { why, said }) => (said, Err(why)),
    };
    Measured {
        name: format!("the kernel's own limit, {}", original.name()),
        told,
        wants_all_cpus: original.wants_all_cpus(),
        published: (original == Original::LatCtx).then_some(SWITCH_US),
        rounds,
    }
}

/// The document's time of a switch among 10 processes of 1024 KB, in its three columns.
const SWITCH_US: [f64; COLUMNS] = [315.87, 330.19, 317.04];

/// The names of all rows.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let none = |original: Original| {
        let none = Missing { why: original.missing(), said: String::new() };
        of_original(original, Err(none)).claims()
    };
    Original::ALL.into_iter().flat_map(none).map(|claim| claim.what).collect()
}
