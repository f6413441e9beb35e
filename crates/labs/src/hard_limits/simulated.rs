//! The experiments in virtual time: with hard limits and without.

use super::borrowing;
use super::exact::{self, CASES, Pair};
use super::founding::{self, ROWS, Took};
use super::inheritance::{self, Waited};
use super::offline;
use super::setting::Setting;
use super::tenants;
use crate::claims::{Claim, Reproduced};
use crate::length::Length;
use crate::progress::Progress;
use crate::usage::Used;
use rayon::prelude::*;
use runyard_engine::kernel::{Experiment as Document, Model};
use runyard_outcome::Failure;
use runyard_report::Histogram;

/// The number of runs of `--soak`, for each experiment.
const SOAK_RUNS: u64 = 10;

/// All results of one seed.
#[derive(Clone, Debug)]
struct SeedResults {
    /// The runs of each of [`ROWS`], in the order of [`Setting::ALL`].
    founding: Vec<Vec<[Took; 3]>>,
    /// The results of [`CASES`].
    exact: Vec<Pair>,
    below: Used,
    inherited: [Waited; 2],
    offline: [Used; 2],
    /// The results of [`tenants::CASES`], in [`tenants::RUNS`].
    tenants: Vec<[Histogram; 3]>,
}

/// Runs the experiments in virtual time, with hard limits and without; in a soak with several seeds.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let seeds = length.pick(1, SOAK_RUNS);
    let of_tenants = tenants::RUNS.len() * tenants::CASES.len();
    let rows = ROWS.iter().map(|row| row.runs() as usize).sum::<usize>();
    let runs = Setting::ALL.len() * rows + 2 * CASES.len() + 1 + of_tenants;
    progress.parts("runs", seeds * runs as u64);
    let measured: Result<Vec<_>, _> =
        (1..=seeds).map(|seed| SeedResults::of(seed, || progress.part_done())).collect();
    let measured = measured?;

    let mut claims = measured[0].claims();
    if length == Length::Soak {
        claims.push(soak_claim(&measured));
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
fn soak_claim(measured: &[SeedResults]) -> Claim {
    let what = "runs in which all of this holds".to_owned();
    Claim::of_runs(what, measured.iter().map(SeedResults::claims))
}

impl SeedResults {
    /// Runs one seed on all CPUs; it calls `done` after each run.
    fn of(seed: u64, done: impl Fn() + Sync) -> Result<SeedResults, Failure> {
        let columns = |row: &founding::Row, seed| -> Result<[Took; 3], Failure> {
            let run = |setting: &Setting| row.run(*setting, seed).inspect(|_| done());
            let runs: Result<Vec<_>, _> = Setting::ALL.par_iter().map(run).collect();
            Ok(runs?.try_into().expect("as many as there are columns"))
        };
        let runs = |row: &founding::Row| -> Result<Vec<_>, Failure> {
            let seeds = (0..row.runs()).map(|nth| seed + nth * SOAK_RUNS);
            seeds.map(|seed| columns(row, seed)).collect()
        };
        let founding: Result<Vec<_>, _> = ROWS.par_iter().with_max_len(1).map(runs).collect();
        let exact: Result<Vec<_>, _> =
            CASES.par_iter().with_max_len(1).map(|case| case.pair(seed, &done)).collect();
        let inherited = inheritance::pair(Model::default())?;
        let offline = offline::pair()?;
        let below = exact::below(seed).inspect(|_| done())?;
        let runs = |case: &tenants::Case| -> Result<[Histogram; 3], Failure> {
            let run = |run: &tenants::Run| case.run(*run, seed).inspect(|_| done());
            let runs: Result<Vec<_>, _> = tenants::RUNS.par_iter().map(run).collect();
            Ok(runs?.try_into().expect("as many as there are runs"))
        };
        let tenants: Result<Vec<_>, _> =
            tenants::CASES.par_iter().with_max_len(1).map(runs).collect();
        Ok(SeedResults {
            founding: founding?,
            exact: exact?,
            below,
            inherited,
            offline,
            tenants: tenants?,
        })
    }

    fn claims(&self) -> Vec<Claim> {
        let rows = ROWS.iter().zip(&self.founding).flat_map(|(row, runs)| row.claims(runs));
        let cases = CASES.iter().zip(&self.exact).flat_map(|(case, pair)| case.claims(pair));
        let tenants = tenants::CASES.into_iter().zip(&self.tenants);
        let tenants = tenants.map(|(case, runs)| case.claim(runs));
        let borrowed =
            [borrowing::claim(), offline::claim(&self.offline), inheritance::claim(self.inherited)];
        rows.chain(cases)
            .chain(exact::below_claims(&self.below))
            .chain(borrowed)
            .chain(tenants)
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let mut claims = measured().claims();
        claims.push(soak_claim(&[measured()]));
        claims
    }

    /// Runs in which nothing happens.
    fn measured() -> SeedResults {
        let took = Took { time: runyard_engine::time::Nanos(1), used: Used::default() };
        SeedResults {
            founding: vec![vec![[took.clone(), took.clone(), took]]; ROWS.len()],
            exact: vec![Pair::default(); CASES.len()],
            below: Used::default(),
            inherited: [Waited::default(); 2],
            offline: [Used::default(), Used::default()],
            tenants: vec![Default::default(); tenants::CASES.len()],
        }
    }
}
