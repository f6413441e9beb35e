//! The experiments in virtual time: with latency nice and without.

use super::rounds::Rounds;
use super::shipped::latency_nice;
use super::{audio, core_latency, cyclictest, frames, patches, tenants, throughput};
use crate::claims::{Claim, Reproduced};
use crate::length::Length;
use crate::progress::Progress;
use rayon::prelude::*;
use runyard_engine::attr::LatencyNice;
use runyard_engine::kernel::{self, Model};
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_report::Histogram;

/// The number of runs of each experiment that are counted together.
const SEEDS: u64 = 2;

/// The same with `--soak`.
const SOAK_SEEDS: u64 = 40;

/// The run of an experiment on a model, at a latency nice, with a seed.
type Run = fn(Model, LatencyNice, u64) -> Result<Rounds, Failure>;

/// The results.
#[derive(Clone, Debug)]
struct SimulatedFigures {
    /// The results at each of [`cyclictest::VALUES`].
    cyclictest: [Histogram; 3],
    /// The results at 0, and at -20.
    frames: [Rounds; 2],
    /// The results at each of [`audio::POINTS`], at 0, and at -20.
    audio: [[Rounds; 2]; 2],
    /// The figures of the patches by themselves, without the feature and with it.
    patches: Vec<[f64; 2]>,
    /// The results with each of [`throughput::GROUPS`], without the feature and with it.
    hackbench: Vec<[Nanos; 2]>,
    core_latency: core_latency::Measured,
    tenants: tenants::Table,
}

/// Runs the experiments in virtual time, with latency nice and without; in a soak with more seeds.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let seeds = length.pick(SEEDS, SOAK_SEEDS);
    let measured = SimulatedFigures::of(seeds, progress)?;
    let latencies = cyclictest::VALUES.map(|value| format!("at latency nice {value}"));
    let latencies: Vec<_> = latencies.into_iter().zip(measured.cyclictest.clone()).collect();
    Ok(Reproduced::of("latency-nice", "sim", measured.claims(), |table| {
        format!(
            "latency-nice on sim: 8 CPUs, latency nice 0 and then -20; hackbench alone: \
             NO_LATENCY_NICE and then LATENCY_NICE; {seeds} runs of each, \
             {} of cyclictest with a cookie\n\n{table}\n{}\n{}\n",
            core_latency::runs(seeds),
            cyclictest::text(&latencies),
            measured.tenants.text()
        )
    }))
}

/// The claims of the document's own measurements without latency nice, of one seed: for tests that see them fail.
///
/// # Errors
/// If the simulator refuses a scenario, which would be a mistake in the experiment.
pub fn simulated_without() -> Result<Vec<Claim>, Failure> {
    let model = kernel::Experiment::LatencyNice.before();
    let audio: Run = |model, value, seed| audio::run(model, (audio::POINTS[0], value), seed);
    let runs: [Run; 3] = [cyclictest::run, frames::run, audio];
    let at = |run: Run, value| run(model, latency_nice(value), 1);
    let runs: Result<Vec<[Rounds; 2]>, Failure> =
        runs.into_par_iter().map(|run| Ok([at(run, 0)?, at(run, -20)?])).collect();
    let [latencies, frames, audio]: [_; 3] = runs?.try_into().expect("as many as there are runs");
    let [zero, sensitive] = latencies.map(|rounds| rounds.latency);
    let mut claims = cyclictest::claims(&[zero.clone(), sensitive, zero]);
    claims.push(frames::claim(&frames[0], &frames[1]));
    claims.extend(audio::claims(&[audio.clone(), audio]));
    claims.extend(patches::claims(&patches::pairs(model, model)?));
    Ok(claims)
}

impl SimulatedFigures {
    /// Runs so many seeds, on all CPUs.
    fn of(seeds: u64, progress: &Progress) -> Result<SimulatedFigures, Failure> {
        let (before, after) = (kernel::Experiment::LatencyNice.before(), Model::default());
        let sizes = throughput::GROUPS.map(|groups| [(groups, before), (groups, after)]);
        let both = [0, -20];
        let points = audio::POINTS.map(|point| both.map(|value| (point, latency_nice(value))));
        let more = core_latency::runs(seeds);
        let runs = cyclictest::VALUES.len() + both.len() + sizes.as_flattened().len();
        let runs = runs + points.as_flattened().len() + tenants::cases().len();
        let all = seeds * runs as u64 + more * core_latency::CASES.len() as u64;
        progress.parts("runs", all);
        let counted = |value: i64, seed, run: Run| {
            run(after, latency_nice(value), seed).inspect(|_| progress.part_done())
        };

        let latencies =
            each(&cyclictest::VALUES, seeds, |value, seed| counted(value, seed, cyclictest::run))?;
        let frames = each(&both, seeds, |value, seed| counted(value, seed, frames::run))?;
        let audio = each(points.as_flattened(), seeds, |at, seed| {
            audio::run(after, at, seed).inspect(|_| progress.part_done())
        })?;
        let times = each(sizes.as_flattened(), seeds, |(groups, model), seed| {
            throughput::run(groups, model, seed).inspect(|_| progress.part_done())
        })?;
        let between = each(&core_latency::CASES, more, |(value, counts), seed| {
            core_latency::run(value, counts, seed).inspect(|_| progress.part_done())
        })?;
        let tenants = each(&tenants::cases(), seeds, |(load, apart), seed| {
            load.run(apart, seed).inspect(|_| progress.part_done())
        })?;

        let times: Vec<Nanos> = times.into_iter().map(total).collect();
        Ok(SimulatedFigures {
            cyclictest: sums(latencies).map(|rounds| rounds.latency),
            frames: sums(frames),
            audio: pairs(sums(audio)),
            patches: patches::pairs(before, after)?,
            hackbench: times.chunks(2).map(|pair| [pair[0], pair[1]]).collect(),
            core_latency: core_latency::Measured::of(between),
            tenants: tenants::Table::of(tenants),
        })
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = cyclictest::claims(&self.cyclictest);
        let [before, after] = &self.frames;
        claims.push(frames::claim(before, after));
        claims.extend(audio::claims(&self.audio));
        claims.extend(patches::claims(&self.patches));
        let sizes = throughput::GROUPS.into_iter().zip(&self.hackbench);
        claims.extend(sizes.map(|(groups, &times)| throughput::claim(groups, times)));
        claims.extend(self.core_latency.claims());
        claims.extend(self.tenants.claims());
        claims
    }
}

/// The result of each of `cases` with each seed.
fn each<C: Copy + Sync, M: Send>(
    cases: &[C],
    seeds: u64,
    run: impl Fn(C, u64) -> Result<M, Failure> + Sync,
) -> Result<Vec<Vec<M>>, Failure> {
    let with_seeds = |&case: &C| -> Result<Vec<M>, Failure> {
        (1..=seeds).into_par_iter().map(|seed| run(case, seed)).collect()
    };
    cases.par_iter().with_max_len(1).map(with_seeds).collect()
}

fn total(times: Vec<Nanos>) -> Nanos {
    times.into_iter().fold(Nanos::ZERO, |sum, time| sum + time)
}

/// Adds up the runs of each case.
fn sums<const N: usize>(cases: Vec<Vec<Rounds>>) -> [Rounds; N] {
    let sum = |runs| Rounds::sum(runs).expect("there is a seed");
    let sums: Vec<_> = cases.into_iter().map(sum).collect();
    sums.try_into().expect("as many as there are values")
}

/// The runs at 0 and at -20 of each of two points.
fn pairs([a, b, c, d]: [Rounds; 4]) -> [[Rounds; 2]; 2] {
    [[a, b], [c, d]]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::claims::tests::failed_after;
    use crate::latency_nice::shipped::{CYCLICTEST, shipped, simulate};
    use runyard_engine::time::Time;
    use runyard_workload::Scenario;

    /// Possible results of the four threads of cyclictest: a mean and a 95th percentile, in us.
    fn latencies(mean: u64, p95: u64) -> Histogram {
        let mut histogram = Histogram::default();
        let low = (mean * 100 - p95 * 6) / 94;
        for nth in 0..100 {
            histogram.record(Nanos::from_micros(if nth < 94 { low } else { p95 }));
        }
        histogram
    }

    /// This number of rounds, with this number of late ones.
    fn rounds(done: u64, late: u64) -> Rounds {
        let mut rounds = Rounds::new(Nanos::from_millis(1), Nanos::from_millis(1), Time::ZERO);
        (rounds.done, rounds.late) = (done, late);
        rounds
    }

    fn good() -> SimulatedFigures {
        let time = Nanos::from_millis(1_000);
        SimulatedFigures {
            cyclictest: [latencies(1_397, 5_610), latencies(100, 138), latencies(1_400, 5_600)],
            frames: [rounds(10_000, 500), rounds(10_000, 9)],
            audio: good_audio(),
            patches: patches::tests::good(),
            hackbench: vec![[time; 2]; throughput::GROUPS.len()],
            core_latency: core_latency::tests::good(),
            tenants: tenants::tests::good(),
        }
    }

    fn good_audio() -> [[Rounds; 2]; 2] {
        let kept = || [rounds(1_000, 50), rounds(1_000, 0)];
        [kept(), kept()]
    }

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        good().claims()
    }

    /// The claims that fail.
    fn failed(measured: &SimulatedFigures) -> Vec<String> {
        failed_after(": ", measured.claims())
    }

    #[test]
    fn what_the_document_measured_holds() {
        assert_eq!(failed(&good()), [""; 0]);
    }

    #[test]
    fn who_is_sensitive_waits_clearly_less() {
        let [zero, _, patient] = good().cyclictest;
        let with = |sensitive| SimulatedFigures {
            cyclictest: [zero.clone(), sensitive, patient.clone()],
            ..good()
        };
        assert_eq!(failed(&with(latencies(230, 400))), ["the mean falls at least 6.4 times"]);
        assert_eq!(failed(&with(latencies(210, 900))), ["the p95 falls at least 7 times"]);
        assert_eq!(failed(&with(zero.clone())).len(), 2);
    }

    #[test]
    fn who_can_wait_waits_no_less() {
        let [zero, sensitive, _] = good().cyclictest;
        let patient = latencies(1_000, 4_400);
        let measured = SimulatedFigures { cyclictest: [zero, sensitive, patient], ..good() };
        assert_eq!(failed(&measured), ["p95 at 0 and at 19"]);
    }

    #[test]
    fn frames_are_missed_before_and_not_after() {
        for frames in [
            [rounds(10_000, 99), rounds(10_000, 0)],
            [rounds(10_000, 500), rounds(10_000, 10)],
            [rounds(10_000, 500), rounds(0, 0)],
        ] {
            assert_eq!(failed(&SimulatedFigures { frames, ..good() }), ["missed"]);
        }
    }

    #[test]
    fn one_underrun_after_is_one_too_many() {
        for pair in [
            [rounds(1_000, 0), rounds(1_000, 0)],
            [rounds(1_000, 50), rounds(1_000, 1)],
            [rounds(1_000, 50), rounds(0, 0)],
        ] {
            for at in [0, 1] {
                let mut audio = good_audio();
                audio[at] = pair.clone();
                assert_eq!(failed(&SimulatedFigures { audio, ..good() }), ["underruns"]);
            }
        }
    }

    #[test]
    fn hackbench_takes_as_long_to_one_per_cent() {
        let with = |us| {
            let mut hackbench = good().hackbench;
            hackbench[2][1] = Nanos::from_micros(us);
            failed(&SimulatedFigures { hackbench, ..good() })
        };
        assert_eq!([with(990_000), with(1_010_000)], [[""; 0], [""; 0]]);
        assert_eq!([with(989_000), with(1_011_000)], [["time"], ["time"]]);
    }

    #[test]
    fn the_shipped_scenario_has_the_parts_of_the_experiment() {
        let shipped = shipped();
        let made = cyclictest::scenario(latency_nice(-20), 1);
        assert_eq!(format!("{:?}", made.tasks[0]), format!("{:?}", shipped.tasks[0]));
        let tasks = |scenario: &Scenario| scenario.instances().count();
        assert_eq!(tasks(&shipped), tasks(&cyclictest::scenario(latency_nice(0), 16)));
    }

    #[test]
    fn who_is_watched_is_seen() {
        let mut scenario = cyclictest::scenario(latency_nice(-20), 1);
        scenario.duration = Some(Nanos::from_millis(20));
        let threads = scenario.tasks[0].instances as usize;
        let rounds = vec![Rounds::new(cyclictest::PERIOD, cyclictest::PERIOD, Time::ZERO); threads];
        for rounds in simulate(&scenario, 1, CYCLICTEST, rounds, |_| ()).ok().unwrap() {
            assert!(rounds.done > 15 && rounds.latency.count() > 15, "{rounds:?}");
        }
    }
}
