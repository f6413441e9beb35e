//! The kernel's own limit on this machine: programs of the shape of the document's benchmarks, as kernel threads in a
//! control group without a limit, and in one with the document's nine tenths of each CPU.
//!
//! The limit is not the document's code but that of its successor, which Linux has had since 3.2 (`cpu.max`). The figures
//! are shown: how long a program takes is the machine's affair.

use crate::claims::{Claim, ClaimVerdict, Unjudged};
use crate::figure::rounded;
use crate::price::{self, Program};
use crate::quiet::Tried;
use crate::rows::{self, Row};
use runyard_engine::attr::GroupId;
use runyard_engine::time::Time;
use runyard_hosts::linux::{self, Ground};
use runyard_hosts::play::Plan;
use runyard_outcome::Failure;
use std::time::Duration;

/// The time of all runs on two CPUs.
pub(super) const TAKES: Duration = Duration::from_millis(1_200);

/// A tenth of the document's period, so that each program lasts for several of them, and the runtime of each CPU in it.
const PERIOD_US: usize = 50_000;
const RUNTIME_US: usize = 45_000;

/// The number of rounds of each of [`Program::ALL`], in multiples of those for a price: a quarter of a second.
const TIMES: [u32; 3] = [12, 20, 12];

/// The results of all programs on one side: without a limit, or with one.
pub(super) type Side = Vec<Ran>;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    millis: f64,
    /// The number of periods in which the group was throttled; `None` if the kernel does not count them.
    throttled: Option<u64>,
}

/// The claims about all programs on these CPUs, by the machine's numbers. Where the kernel makes no groups, there is
/// nothing to judge.
///
/// # Errors
/// If the machine refuses something.
pub(super) fn measured(cpus: &[usize]) -> Result<Vec<Claim>, Failure> {
    let limit = format!("'runtime': {}, 'period': {PERIOD_US}", RUNTIME_US * cpus.len());
    let mut sides: [Option<Side>; 2] = [const { Some(Side::new()) }; 2];
    for (program, times) in Program::ALL.into_iter().zip(TIMES) {
        for (side, limit) in sides.iter_mut().zip(["", &limit]) {
            let ran =
                side.is_some().then(|| run(&program.tasks(times), limit, cpus)).transpose()?;
            *side = side.take().zip(ran.flatten()).map(|(mut side, ran)| {
                side.push(ran);
                side
            });
        }
    }
    let has_groups = sides.iter().all(Option::is_some);
    let runs =
        sides.map(|side| side.filter(|_| has_groups).map(Tried::quiet).into_iter().collect());
    Ok(rows::claims(&rows(has_groups), &runs))
}

/// The rows about all programs.
pub(super) fn rows(has_groups: bool) -> Vec<Row<Side>> {
    let verdict = match has_groups {
        true => ClaimVerdict::Shown,
        false => ClaimVerdict::NotJudged(Unjudged::NoGroups),
    };
    let of = |(at, program): (usize, Program)| {
        let time = Row::new("time", "ms", move |runs: &[&Side]| runs[0][at].millis);
        let throttled = Row::new("throttled", "periods", move |runs: &[&Side]| {
            runs[0][at].throttled.map(|periods| periods as f64)
        });
        let name = format!("the kernel's own limit, {}", program.name);
        [time, throttled].map(|row| row.open(verdict).below(&name))
    };
    Program::ALL.into_iter().enumerate().flat_map(of).collect()
}

fn run(tasks: &str, limit: &str, cpus: &[usize]) -> Result<Option<Ran>, Failure> {
    let mut scenario = price::scenario(tasks, &format!("'/limited': {{{limit}}}"), cpus.len())?;
    let limited = GroupId(1);
    scenario.tasks.iter_mut().for_each(|task| task.properties.group = Some(limited));
    let ground = Ground::with_groups(cpus.to_vec(), &scenario);
    let over = linux::run(Plan::new(scenario, 1), ground)?;
    let group = &over.report().groups[limited.index()];
    let millis = rounded(over.ended().since(Time::ZERO).0 as f64 / 1e6, 2);
    Ok(group.runtime_ns.map(|_| Ran { millis, throttled: group.nr_throttled }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_groups_is_not_judged() {
        let claims = rows::claims(&rows(false), &[vec![], vec![]]);
        let not = (None, None, ClaimVerdict::NotJudged(Unjudged::NoGroups));
        assert!(claims.iter().all(|claim| (claim.before, claim.after, claim.verdict) == not));
    }

    #[test]
    fn each_program_runs_to_its_end_in_a_group() {
        for program in Program::ALL {
            run(&program.tasks(1), "", &[0]).unwrap();
        }
    }
}
