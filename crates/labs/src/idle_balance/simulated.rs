//! The experiment in virtual time: with the balancer and without, on the document's machine and on others.

use super::case::{Case, CaseShares, Light, Pair};
use super::power;
use crate::claims::{Claim, ClaimVerdict, Reproduced};
use crate::figure::percent;
use crate::length::Length;
use crate::progress::Progress;
use rayon::prelude::*;
use runyard_engine::kernel;
use runyard_outcome::Failure;
use runyard_workload::scenario::Preemption;
use std::fmt::Write as _;

/// The least part of the CPU time that is not idle with the balancer, and without a normal task, in per cent. The
/// document's 99.92 and 99.86 are its column %user. All but 0.01 of the missing part is the kernel's own work, which is
/// not idle here either.
const LEAST_BUSY: f64 = 99.9;

/// The least part of a CPU that a normal task gets with the balancer, in per cent. A soaker that waits on its CPU takes
/// 0.3 (3 of 1027), and the tick another 0.15. So no soaker may wait there.
const LEAST_SHARE: f64 = 99.7;

/// The load of the document's machine without the balancer, in per cent. Three idle CPUs of 16 give 81.25. The
/// document's own seconds are between 76.73 and 87.34, with an average of 82.31.
const DOCUMENTS_BEFORE: std::ops::RangeInclusive<f64> = 78.0..=88.0;

/// The least gain of other machines by the balancer, in percentage points. Three CPUs of 64 in nodes of four are 4.7.
const POINTS_BETTER: f64 = 3.0;

/// The reason why the machine without a normal task is the same with the balancer.
const NOTHING_TO_BALANCE: &str = "each CPU has one task, so there is nothing to balance";

/// The number of runs of the document's case with `--soak`.
const SOAK_RUNS: u64 = 20;

/// The parts of a case that are shown and written.
#[derive(Clone, Copy, Debug)]
struct Trial {
    case: Case,
    without: Without,
    published: Option<Published>,
}

/// The expected load of the machine without the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    /// The same as with the balancer: nothing is out of balance.
    Busy,
    /// The document's.
    Documents,
    /// Clearly less than with the balancer.
    Worse,
    /// Less than with the balancer: one node is a small part of so large a machine.
    NotAsGood,
}

/// The document's figures of its machine: before, after.
#[derive(Clone, Copy, Debug)]
struct Published {
    busy: (f64, Option<f64>),
    interrupts: (f64, Option<f64>),
}

/// The document's machine before its normal task came. Only the old kernel was measured in this state.
const ALONE: Trial = Trial {
    case: Case { normal: 0, ..Case::DOCUMENTS },
    without: Without::Busy,
    published: Some(Published { busy: (99.86, None), interrupts: (16_628.20, None) }),
};

/// The document's machine.
const DOCUMENTS: Trial = Trial {
    case: Case::DOCUMENTS,
    without: Without::Documents,
    published: Some(Published {
        busy: (82.31, Some(99.92)),
        interrupts: (14_699.10, Some(16_347.25)),
    }),
};

/// All trials, from small to large.
const TRIALS: [Trial; 15] = [
    ALONE,
    DOCUMENTS,
    in_kernel(Preemption::None),
    in_kernel(Preemption::Full),
    also(16, 3, Light::Policy, Without::Worse),
    also(16, 5, Light::Policy, Without::Worse),
    also(16, 1, Light::Group, Without::Worse),
    also(64, 1, Light::Policy, Without::Worse),
    also(64, 3, Light::Policy, Without::Worse),
    also(64, 5, Light::Policy, Without::Worse),
    also(64, 1, Light::Group, Without::Worse),
    also(256, 1, Light::Policy, Without::NotAsGood),
    also(256, 3, Light::Policy, Without::Worse),
    also(256, 5, Light::Policy, Without::Worse),
    also(256, 1, Light::Group, Without::NotAsGood),
];

/// The document's case, where half of all work is in a kernel of this preemption model.
const fn in_kernel(preemption: Preemption) -> Trial {
    let case = Case { kernel: Some(preemption), seconds: 5, ..DOCUMENTS.case };
    Trial { case, without: Without::Worse, published: None }
}

/// A case that the document does not have. Each busy CPU has a simulated tick, so a second of a large machine takes
/// long. A few seconds are enough, since all are alike once the balancer has settled.
const fn also(cpus: u32, normal: u32, light: Light, without: Without) -> Trial {
    let cores = if cpus > 64 { 16 } else { 4 };
    let seconds = if cpus > 16 { 5 } else { 10 };
    let case = Case { nodes: cpus / cores, cores, normal, light, kernel: None, seconds };
    Trial { case, without, published: None }
}

/// Runs the experiment in virtual time, with the balancer and without: each trial once, and in a soak the document's
/// case 20 times.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let soaked = length.pick(0, SOAK_RUNS);
    progress.parts("runs", 2 * (TRIALS.len() as u64 + soaked));
    let pair = |trial: &Trial, seed| trial.case.pair(seed, || progress.part_done());
    // The largest trials take the longest, so they begin first.
    let pairs: Result<Vec<_>, _> =
        TRIALS.par_iter().rev().with_max_len(1).map(|trial| pair(trial, 1)).collect();
    let soak: Result<Vec<_>, _> =
        (1..=soaked).into_par_iter().map(|seed| pair(&DOCUMENTS, seed)).collect();
    let (mut pairs, soak) = (pairs?, soak?);
    pairs.reverse();

    let trials = || TRIALS.iter().zip(&pairs);
    let mut claims: Vec<_> = trials().flat_map(|(trial, pair)| trial.claims(pair)).collect();
    claims.extend(power::claims(&power::pair()?));
    claims.extend(soak_claim(&soak));
    let shown = trials().find(|(trial, _)| trial.without == Without::Documents);
    let (_, shown) = shown.expect("the document's case is among the trials");
    Ok(Reproduced::of("idle-balance", "sim", claims, |table| text(table, shown)))
}

/// The claims of the document's machine with one to five normal tasks, without the balancer: for tests that see them fail.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated_without() -> Result<Vec<Claim>, Failure> {
    let trials = TRIALS.par_iter().filter(|trial| trial.case.cpus() == 16 && trial.case.normal > 0);
    let claims = trials.map(|trial| {
        let before = trial.case.run(kernel::Experiment::IdleBalance.before(), 1)?;
        Ok(trial.claims(&Pair { after: before.clone(), before }))
    });
    let claims: Result<Vec<_>, Failure> = claims.collect();
    Ok(claims?.into_iter().flatten().collect())
}

fn text(table: &str, Pair { before, after }: &Pair) -> String {
    let mut text = format!(
        "idle-balance on sim: a SCHED_IDLE task for each CPU, and normal tasks that come; none ever blocks\n\n\
         {table}"
    );
    for (which, measured) in
        [("before: NO_IDLE_LOAD_BALANCE", before), ("after: IDLE_LOAD_BALANCE", after)]
    {
        let _ = write!(
            text,
            "\n{which}, {}\n{}",
            Case::DOCUMENTS.name(),
            measured.used.text(Case::DOCUMENTS.window().from)
        );
    }
    text + "\n"
}

/// The claim about the number of runs of the document's case in which everything holds.
fn soak_claim(pairs: &[Pair]) -> Option<Claim> {
    let what = format!("{}: runs in which all of this holds", DOCUMENTS.case.name());
    let runs = pairs.iter().map(|pair| DOCUMENTS.claims(pair));
    (!pairs.is_empty()).then(|| Claim::of_runs(what, runs))
}

impl Trial {
    fn claims(&self, pair: &Pair) -> Vec<Claim> {
        let mut claims = vec![self.busy(pair)];
        claims.extend(self.share(pair));
        if self.published.is_some() {
            claims.push(self.interrupts(pair));
            claims.push(self.migrations(pair));
        }
        if self.without == Without::Documents {
            claims.extend(self.diagnosis(pair));
        }
        claims
    }

    /// The document's explanation: passes fail, and active balance then takes what runs beside the normal task, so that
    /// its node has three idle CPUs. Its seconds are more even here than there, since nothing else runs.
    fn diagnosis(&self, Pair { before, after }: &Pair) -> [Claim; 4] {
        let both = |of: fn(&CaseShares) -> f64| (Some(of(before)), Some(of(after)));
        let claim = |figure, figures, verdict| self.claim(figure, None, figures, verdict);
        let taken = before.used.taken;
        let emptied = ClaimVerdict::of(taken >= u64::from(self.case.cores) - 1);
        let seconds = |at: usize| [before, after].map(|it| Some(percent(it.used.busy_rows()[at])));
        let ([least, least_after], [most, most_after]) = (seconds(0), seconds(1));
        [
            claim(
                ("passes that failed", "in the run"),
                both(|it| it.used.failed_passes as f64),
                ClaimVerdict::Shown,
            ),
            claim(
                ("running tasks taken, before at least 3", "in the run"),
                both(|it| it.used.taken as f64),
                emptied,
            ),
            claim(("busy, least second", "%"), (least, least_after), ClaimVerdict::Shown),
            claim(("busy, most second", "%"), (most, most_after), ClaimVerdict::Shown),
        ]
    }

    fn busy(&self, Pair { before, after }: &Pair) -> Claim {
        let busy = |measured: &CaseShares| percent(measured.used.sum().busy());
        let (before, after) = (busy(before), busy(after));
        let as_it_was = match self.without {
            Without::Busy => before >= LEAST_BUSY,
            Without::Documents => DOCUMENTS_BEFORE.contains(&before),
            Without::Worse => before <= after - POINTS_BETTER,
            Without::NotAsGood => before < after,
        };
        let kept = as_it_was && after >= LEAST_BUSY;
        let holds = match self.without {
            Without::Busy => ClaimVerdict::same(kept, NOTHING_TO_BALANCE),
            _ => ClaimVerdict::of(kept),
        };
        let published = self.published.map(|published| published.busy);
        self.claim(("busy", "%"), published, (Some(before), Some(after)), holds)
    }

    /// The claim about the share; `None` without a normal task.
    fn share(&self, Pair { before, after }: &Pair) -> Option<Claim> {
        let [before, after] = [before, after].map(|measured| measured.least_share().map(percent));
        let holds = ClaimVerdict::of(after? >= LEAST_SHARE);
        let what = if self.case.normal > 1 { "least share of a CPU" } else { "its share of a CPU" };
        Some(self.claim((what, "%"), None, (before, after), holds))
    }

    /// The document counts interrupts of all devices, this counts those of timers, so there is no bound. Only the
    /// difference can be compared: it is that of the ticks of idle CPUs.
    fn interrupts(&self, Pair { before, after }: &Pair) -> Claim {
        let [before, after] = [before, after]
            .map(|CaseShares { used, .. }| Some(used.per_second(used.sum().interrupts)));
        let published = self.published.map(|published| published.interrupts);
        self.claim(("timer interrupts", "1/s"), published, (before, after), ClaimVerdict::Shown)
    }

    /// The cost of the balance.
    fn migrations(&self, Pair { before, after }: &Pair) -> Claim {
        let [before, after] = [before, after]
            .map(|CaseShares { used, .. }| Some(used.per_second(used.sum().migrations)));
        self.claim(("migrations", "1/s"), None, (before, after), ClaimVerdict::Shown)
    }

    fn claim(
        &self,
        (what, unit): (&str, &str),
        published: Option<(f64, Option<f64>)>,
        (before, after): (Option<f64>, Option<f64>),
        verdict: ClaimVerdict,
    ) -> Claim {
        let what = format!("{}: {what}", self.case.name());
        let published = [published.map(|(before, _)| before), published.and_then(|(_, it)| it)];
        Claim::of(what, unit, [before, after], verdict).beside(published)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::claims::tests::failed_after;
    use crate::usage::{Row, Used};
    use runyard_engine::time::Nanos;

    /// A second of a machine that is busy for `busy` per cent of its time, and normal tasks with these fractions of a
    /// CPU.
    fn measured(busy: f64, shares: &[f64]) -> CaseShares {
        let busy = Nanos((busy * 1e7) as u64);
        let row = Row {
            idle_policy: busy,
            idle: Nanos::from_secs(1) - busy,
            interrupts: 1_000,
            ..Row::default()
        };
        let used = Used { rows: vec![row], taken: 3, ..Used::default() };
        CaseShares { used, shares: shares.to_vec() }
    }

    fn pair(before: f64, after: f64, shares: &[f64]) -> Pair {
        Pair { before: measured(before, shares), after: measured(after, shares) }
    }

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let pairs = TRIALS
            .iter()
            .map(|trial| (trial, pair(80.0, 100.0, &vec![0.999; trial.case.normal as usize])));
        let mut claims: Vec<_> = pairs.flat_map(|(trial, pair)| trial.claims(&pair)).collect();
        let used = [80.0, 100.0].map(|busy| measured(busy, &[]).used);
        claims.extend(power::claims(&used));
        claims.extend(soak_claim(&[pair(80.0, 100.0, &[0.999])]));
        claims
    }

    /// The claims of the trial that fail.
    fn failed(trial: &Trial, pair: &Pair) -> Vec<String> {
        failed_after(": ", trial.claims(pair))
    }

    fn trial(name: &str) -> Trial {
        let mut trials = TRIALS.into_iter();
        trials.find(|trial| trial.case.name() == name).expect(name)
    }

    #[test]
    fn what_the_document_measured_holds() {
        assert_eq!(failed(&DOCUMENTS, &pair(82.31, 99.92, &[0.999])), [""; 0]);
        // Without a normal task there is no share.
        assert_eq!(failed(&ALONE, &pair(99.95, 99.9, &[])), [""; 0]);
        assert_eq!(failed(&ALONE, &pair(99.86, 99.9, &[])), ["busy"]);
    }

    #[test]
    fn the_document_is_neither_exceeded_before_nor_missed_after() {
        for (before, after) in [(77.99, 99.95), (88.01, 99.95), (82.31, 99.89), (100.0, 100.0)] {
            assert_eq!(failed(&DOCUMENTS, &pair(before, after, &[0.999])), ["busy"]);
        }
        let slow = failed(&DOCUMENTS, &pair(82.31, 99.92, &[0.9969]));
        assert_eq!(slow, ["its share of a CPU"]);
    }

    #[test]
    fn a_node_that_nobody_emptied_is_noticed() {
        let mut pair = pair(82.31, 99.92, &[0.999]);
        pair.before.used.taken = 2;
        assert_eq!(failed(&DOCUMENTS, &pair), ["running tasks taken, before at least 3"]);
    }

    #[test]
    fn other_machines_are_clearly_better_or_better() {
        let several = trial("64 CPUs, 5 normal tasks");
        assert_eq!(failed(&several, &pair(96.95, 99.95, &[0.999; 5])), [""; 0]);
        assert_eq!(failed(&several, &pair(96.96, 99.95, &[0.999; 5])), ["busy"]);
        let one_slow = [0.999, 0.999, 0.5, 0.999, 0.999];
        assert_eq!(failed(&several, &pair(90.0, 99.95, &one_slow)), ["least share of a CPU"]);
        let large = trial("256 CPUs, 1 normal task");
        assert_eq!(failed(&large, &pair(99.94, 99.95, &[0.999])), [""; 0]);
        assert_eq!(failed(&large, &pair(99.95, 99.95, &[0.999])), ["busy"]);
    }
}
