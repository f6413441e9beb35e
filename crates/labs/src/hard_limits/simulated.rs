//! The experiments in virtual time: with hard limits and without.

use super::exact::{self, CASES};
use super::founding::{self, ROWS};
use super::setting::SOAK_RUNS;
use super::{borrowing, inheritance, offline, tenants};
use crate::claims::{Claim, Reproduced};
use crate::length::Length;
use crate::progress::Progress;
use rayon::prelude::*;
use runyard_engine::kernel::{Experiment as Document, Model};
use runyard_outcome::Failure;

/// Runs the experiments in virtual time, with hard limits and without; in a soak with several seeds.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let seeds = length.pick(1, SOAK_RUNS);
    let rows = ROWS.iter().map(|row| row.runs() as usize).sum::<usize>();
    let runs = 3 * (rows + tenants::CASES.len()) + 2 * CASES.len() + 1;
    progress.parts("runs", seeds * runs as u64);
    let of_seeds = (1..=seeds).map(|seed| claims(seed, || progress.part_done()));
    let of_seeds = of_seeds.collect::<Result<Vec<_>, _>>()?;
    let mut claims = of_seeds[0].clone();
    if length == Length::Soak {
        claims.push(soak_claim(of_seeds));
    }
    Ok(Reproduced::of("hard-limits", "sim", claims, |table| {
        format!(
            "hard-limits on sim: 24 CPUs unless said otherwise; NO_HARD_LIMITS and then HARD_LIMITS, where \
             something is borrowed NO_RUNTIME_SHARE and then RUNTIME_SHARE\n\n{table}\n"
        )
    }))
}

/// The claims about exact limits on machines of up to 24 CPUs, each without its feature: for tests that see them fail.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated_without() -> Result<Vec<Claim>, Failure> {
    let cases = CASES.par_iter().filter(|case| case.is_small());
    let claims: Result<Vec<_>, Failure> =
        cases.map(|case| Ok(case.claims(&case.without(1)?))).collect();
    let mut claims: Vec<_> = claims?.into_iter().flatten().collect();
    claims.push(offline::claim(&offline::without()?));
    claims.push(inheritance::claim(inheritance::pair(Document::HardLimits.before())?));
    Ok(claims)
}

/// The claim about the number of runs in which everything holds.
fn soak_claim(runs: Vec<Vec<Claim>>) -> Claim {
    Claim::of_runs("runs in which all of this holds".to_owned(), runs.into_iter())
}

/// The claims of one seed, which is run on all CPUs. `done` is called after each run.
fn claims(seed: u64, done: impl Fn() + Sync) -> Result<Vec<Claim>, Failure> {
    let row = |row: &founding::Row| Ok(row.claims(&row.measure(seed, &done)?));
    let rows: Result<Vec<_>, Failure> = ROWS.par_iter().with_max_len(1).map(row).collect();
    let case = |case: &exact::Case| Ok(case.claims(&case.pair(seed, &done)?));
    let cases: Result<Vec<_>, Failure> = CASES.par_iter().with_max_len(1).map(case).collect();
    let below = exact::below(seed).inspect(|_| done())?;
    let others = [
        borrowing::claim(),
        offline::claim(&offline::pair()?),
        inheritance::claim(inheritance::pair(Model::default())?),
    ];
    let case = |case: &tenants::Case| Ok(case.claim(&case.measure(seed, &done)?));
    let tenants = tenants::CASES.par_iter().with_max_len(1).map(case);
    let tenants = tenants.collect::<Result<Vec<_>, Failure>>()?;
    let exact = rows?.into_iter().chain(cases?).flatten().chain(exact::below_claims(&below));
    Ok(exact.chain(others).chain(tenants).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::usage::Used;

    /// The claims of the experiment about runs in which nothing happens, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let took = founding::Took { time: runyard_engine::time::Nanos(1), used: Used::default() };
        let took = [[took.clone(), took.clone(), took]];
        let tables = ROWS.iter().flat_map(|row| row.claims(&took));
        let cases = CASES.iter().flat_map(|case| case.claims(&exact::Pair::default()));
        let tenants = tenants::CASES.into_iter().map(|case| case.claim(&Default::default()));
        let others = [
            borrowing::claim(),
            offline::claim(&Default::default()),
            inheritance::claim(Default::default()),
            soak_claim(Vec::new()),
        ];
        let all = tables.chain(cases).chain(tenants).chain(others);
        all.chain(exact::below_claims(&Used::default())).collect()
    }
}
