//! Hard limits with borrowing, the experiments of the patch set (September 2009): what they cost whom they
//! do not concern, and what they give whom they do.
//!
//! The document's tables are the first half ([`founding`]). It has no figures for what a limit is for, so
//! the second half is what a user asks of it: that it is kept ([`exact`]), and protects ([`tenants`]). All of
//! them are simulated; what fits any machine is asked of the runtime too ([`mod@real`]). What the kernel's own
//! limits do on the CPUs that there are, beside the simulated ones, is in `docs/fidelity.md`.

mod exact;
mod founding;
mod meter;
mod real;
mod setting;
mod tenants;

use crate::Failure;
use crate::figure::Figure;
use crate::output;
use crate::reproduce::Reproduced;
use exact::{CASES, Pair};
use founding::{ROWS, Took};
use meter::Used;
use rayon::prelude::*;
use runyard_report::{Claim, Experiment, Histogram, Verdict};
use setting::Setting;

/// How many runs `--soak` asks for, each of everything.
const SOAK_RUNS: u64 = 10;

/// Everything that follows from one seed.
#[derive(Clone, Debug)]
struct Measured {
    /// Of [`ROWS`], in the order of [`Setting::ALL`].
    founding: Vec<[Took; 3]>,
    /// Of [`CASES`].
    exact: Vec<Pair>,
    below: Used,
    /// Of [`tenants::CASES`], in [`tenants::RUNS`].
    tenants: Vec<[Histogram; 3]>,
}

/// In virtual time, with hard limits and without; with `soak` with several seeds.
pub(crate) fn simulated(soak: bool) -> Result<Reproduced, Failure> {
    let seeds = if soak { SOAK_RUNS } else { 1 };
    let of_tenants = tenants::RUNS.len() * tenants::CASES.len();
    let runs = Setting::ALL.len() * ROWS.len() + 2 * CASES.len() + 1 + of_tenants;
    let bar = output::bar("runs", seeds * runs as u64);
    let measured: Result<Vec<_>, _> =
        (1..=seeds).map(|seed| Measured::of(seed, || bar.inc(1))).collect();
    bar.finish_and_clear();
    let measured = measured?;

    let mut claims = measured[0].claims();
    claims.extend(soak.then(|| soak_claim(&measured)));
    let (name, host) = ("hard-limits".to_owned(), "sim".to_owned());
    let experiment = Experiment { name, host, claims };
    let text = format!(
        "hard-limits on sim: 24 CPUs unless said otherwise; NO_HARD_LIMITS and then HARD_LIMITS, where \
         something is borrowed NO_RUNTIME_SHARE and then RUNTIME_SHARE\n\n{}\n",
        experiment.table()
    );
    Ok(Reproduced { experiment, text })
}

/// On the CPUs that there are.
pub(crate) fn real(soak: bool) -> Result<Reproduced, Failure> {
    real::real(soak)
}

/// In how many of several runs all holds.
fn soak_claim(measured: &[Measured]) -> Claim {
    let holds = |measured: &&Measured| measured.claims().iter().all(|claim| claim.verdict.holds());
    let good = measured.iter().filter(holds).count();
    let what = "runs in which all of this holds";
    Figure { what, unit: "runs", before: None, after: None }.claim(
        None,
        Some(good as f64),
        Verdict::of(good == measured.len()),
    )
}

impl Measured {
    /// On all cores; `done` after each run.
    fn of(seed: u64, done: impl Fn() + Sync) -> Result<Measured, Failure> {
        let columns = |row: &founding::Row| -> Result<[Took; 3], Failure> {
            let run = |setting: &Setting| row.run(*setting, seed).inspect(|_| done());
            let runs: Result<Vec<_>, _> = Setting::ALL.par_iter().map(run).collect();
            Ok(runs?.try_into().expect("as many as there are columns"))
        };
        let founding: Result<Vec<_>, _> = ROWS.par_iter().with_max_len(1).map(columns).collect();
        let exact: Result<Vec<_>, _> =
            CASES.par_iter().with_max_len(1).map(|case| case.pair(seed, &done)).collect();
        let below = exact::below(seed).inspect(|_| done())?;
        let runs = |case: &tenants::Case| -> Result<[Histogram; 3], Failure> {
            let run = |run: &tenants::Run| case.run(*run, seed).inspect(|_| done());
            let runs: Result<Vec<_>, _> = tenants::RUNS.par_iter().map(run).collect();
            Ok(runs?.try_into().expect("as many as there are runs"))
        };
        let tenants: Result<Vec<_>, _> =
            tenants::CASES.par_iter().with_max_len(1).map(runs).collect();
        Ok(Measured { founding: founding?, exact: exact?, below, tenants: tenants? })
    }

    fn claims(&self) -> Vec<Claim> {
        let rows = ROWS.iter().zip(&self.founding).flat_map(|(row, runs)| row.claims(runs));
        let cases = CASES.iter().zip(&self.exact).flat_map(|(case, pair)| case.claims(pair));
        let tenants = tenants::CASES.into_iter().zip(&self.tenants);
        let tenants = tenants.map(|(case, runs)| case.claim(runs));
        rows.chain(cases).chain(exact::below_claims(&self.below)).chain(tenants).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_name_of_its_own() {
        let mut names: Vec<_> = measured().claims().into_iter().map(|claim| claim.what).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn one_bad_run_of_several_fails() {
        // Nobody uses anything here.
        let claim = soak_claim(&[measured(), measured()]);
        assert_eq!((claim.after, claim.verdict), (Some(0.0), Verdict::Fails));
    }

    /// Runs in which nothing happens.
    fn measured() -> Measured {
        let took = Took { time: runyard_engine::time::Nanos(1), used: Used::default() };
        Measured {
            founding: vec![[took.clone(), took.clone(), took]; ROWS.len()],
            exact: vec![Pair::default(); CASES.len()],
            below: Used::default(),
            tenants: vec![Default::default(); tenants::CASES.len()],
        }
    }
}
