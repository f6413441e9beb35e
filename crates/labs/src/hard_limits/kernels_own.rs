//! The kernel's own limit on this machine: programs of the shape of the document's benchmarks, as kernel threads in a
//! control group without a limit, and in one with the document's nine tenths of each CPU.
//!
//! The limit is not the document's code but that of its successor, which Linux has had since 3.2 (`cpu.max`). The figures
//! are shown: how long a program takes is the machine's affair.

use crate::claims::{Claim, ClaimVerdict, Unjudged};
use crate::figure::rounded;
use crate::price::{self, Program};
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

/// The results of a program without a limit and with one; `None` where the kernel makes no groups.
pub(super) type Both = Option<[Ran; 2]>;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    millis: f64,
    /// The number of periods in which the group was throttled; `None` if the kernel does not count them.
    throttled: Option<u64>,
}

/// Runs all programs on these CPUs, by the machine's numbers.
pub(super) fn measured(cpus: &[usize]) -> Result<Vec<Both>, Failure> {
    let limit = format!("'runtime': {}, 'period': {PERIOD_US}", RUNTIME_US * cpus.len());
    let both = |(program, times): (Program, u32)| {
        let Some(free) = run(&program.tasks(times), "", cpus)? else { return Ok(None) };
        Ok(run(&program.tasks(times), &limit, cpus)?.map(|limited| [free, limited]))
    };
    Program::ALL.into_iter().zip(TIMES).map(both).collect()
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

/// The claims about the results of [`measured`].
pub(super) fn claims(measured: &[Both]) -> Vec<Claim> {
    let of = |(program, both): (Program, &Both)| {
        let verdict = match both {
            Some(_) => ClaimVerdict::Shown,
            None => ClaimVerdict::NotJudged(Unjudged::NoGroups),
        };
        let claim = |what: &str, unit, of: fn(&Ran) -> Option<f64>| {
            let what = format!("the kernel's own limit, {}: {what}", program.name);
            Claim::of(what, unit, [0, 1].map(|at| of(&both.as_ref()?[at])), verdict)
        };
        [
            claim("time", "ms", |ran| Some(ran.millis)),
            claim("throttled", "periods", |ran| ran.throttled.map(|periods| periods as f64)),
        ]
    };
    Program::ALL.into_iter().zip(measured).flat_map(of).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Results on a machine whose kernel makes no groups.
    pub(in super::super) const NO_GROUPS: [Both; 3] = [None; 3];

    #[test]
    fn what_has_no_groups_is_not_judged_and_the_rest_is_shown() {
        let ran = |millis, throttled| Ran { millis, throttled: Some(throttled) };
        let claims = claims(&[Some([ran(400.0, 0), ran(444.5, 7)]), None, None]);
        let figures = claims.iter().map(|claim| (claim.before, claim.after, claim.verdict));
        let not = (None, None, ClaimVerdict::NotJudged(Unjudged::NoGroups));
        assert_eq!(
            figures.collect::<Vec<_>>(),
            [
                (Some(400.0), Some(444.5), ClaimVerdict::Shown),
                (Some(0.0), Some(7.0), ClaimVerdict::Shown),
                not,
                not,
                not,
                not,
            ]
        );
    }

    #[test]
    fn each_program_runs_to_its_end_in_a_group() {
        for program in Program::ALL {
            run(&program.tasks(1), "", &[0]).unwrap();
        }
    }
}
