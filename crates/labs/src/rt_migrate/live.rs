//! The experiment on this machine's CPUs: on the runtime, and in the same run as kernel threads with the same
//! priorities, in this process and by the original program.
//!
//! The same rule judges a round of the runtime and a round of the original. But the runtime's workers are ordinary
//! threads of the machine, which can take a CPU away from them for another process. A round may break the rule while
//! threads of this process were kept waiting for longer than the rule allows. Such a round says nothing about the
//! runtime: it is repeated, counted, and shown as repeated. This is not too lenient. A worker that another worker of
//! the runtime keeps waiting looks the same, but too many repeated rounds are a failure. Kernel threads with real-time
//! priorities have no such exception.
//!
//! Only the rule can fail. The start times of the threads are times on a machine with other work. They are shown beside
//! the kernel's own of the same minute, and the goal beside the ratio, for a person to judge.

use super::original;
use super::rounds::{
    self, FAILED, LATEST_IMPORTANT, LATEST_LEAST, MAX_LATE, MOST_CPUS, ROUNDS, RUNS, Round,
    example, important_starts, least_starts, passes, scenario,
};
use super::watched::Watched;
use crate::claims::{Claim, ClaimVerdict, Reproduced};
use crate::figure::{Figure, micros, percent};
use crate::length::Length;
use crate::progress;
use runyard_engine::time::Nanos;
use runyard_hosts::Failure;
use runyard_hosts::linux::Ground;
use runyard_hosts::play::Plan;
use runyard_hosts::stderr::say;
use runyard_hosts::sync::{Arc, Mutex};
use runyard_hosts::{linux, live, machine};
use std::fmt::Write as _;

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 20;

/// The largest number of repeated rounds in a run. Each takes 0.1 s, so a run still ends within the time of a short
/// reproduction.
const MOST_REPEATED: usize = 100;

/// The number of rounds of the original, which takes 0.2 s for each.
const ROUNDS_OF_ORIGINAL: u32 = 25;

/// The goal: the median start, relative to the kernel's own.
const GOAL: f64 = 1.5;

/// Runs the experiment once on this machine, or 20 times in a soak.
///
/// # Errors
/// If the machine refuses something.
pub fn live(length: Length) -> Result<Reproduced, Failure> {
    let mut cpus = machine::cpus()?;
    cpus.truncate(MOST_CPUS);
    let runs = length.pick(1, SOAK_RUNS);
    let hosts = Hosts::run(&cpus, 1..=runs, ROUNDS)?;
    let experiment = rounds::experiment("live", hosts.claims());
    let text = hosts.text(cpus.len() + 1);
    Ok(Reproduced { experiment, text })
}

/// The results on each host; `None` where a host is missing or refuses.
#[derive(Debug)]
struct Hosts {
    live: Tally,
    kernel: Option<Tally>,
    original: Option<Tally>,
}

impl Hosts {
    /// Runs these seeds, on all hosts one after the other.
    fn run(
        cpus: &[usize],
        seeds: std::ops::RangeInclusive<u64>,
        rounds: u32,
    ) -> Result<Hosts, Failure> {
        let threads = cpus.len() + 1;
        let mut live = Tally::new("live");
        let mut kernel = Some(Tally::new("linux"));
        let mut original = Some(Tally::new("rt-migrate-test"));
        let bar = progress::bar("parts", 3 * seeds.end());
        for seed in seeds {
            let perform = &mut |seed, due| {
                watch(
                    |plan| live::run(plan, cpus.len(), Arc::new(Mutex::new(()))).map(drop),
                    threads,
                    (seed, due),
                )
            };
            live.run(perform, seed, rounds)?;
            bar.inc(1);
            let run = |plan| linux::run(plan, Ground::new(cpus.to_vec())).map(drop);
            kernel = match kernel.map(|tally| (tally, watch(run, threads, (seed, rounds)))) {
                Some((tally, Ok(done))) => {
                    Some(tally.with(done.into_iter().map(|(round, _)| round)))
                }
                Some((_, Err(refused))) => {
                    bar.suspend(|| say_why_not(&refused));
                    None
                }
                None => None,
            };
            bar.inc(1);
            // Where priorities are refused, the original goes on without them. That would compare nothing.
            let rounds = rounds.min(ROUNDS_OF_ORIGINAL);
            let done = kernel.as_ref().and_then(|_| original::rounds(threads, rounds));
            original = original.zip(done).map(|(tally, done)| tally.with(done));
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(Hosts { live, kernel, original })
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = self.live.published();
        claims.extend(Starts::of(Some(&self.live)).claims("live"));
        claims.extend(Starts::of(self.kernel.as_ref()).claims("linux"));
        claims.extend(Starts::of(self.original.as_ref()).claims("rt-migrate-test"));
        let what = "start of a thread that is not the least important, p50, to that on linux";
        claims.push(shown(what, "times", self.ratio()));
        let what = "rounds repeated because the machine took a CPU away";
        claims.push(shown(what, "rounds", Some(self.live.repeated as f64)));
        claims
    }

    /// The median start, relative to the kernel's own.
    fn ratio(&self) -> Option<f64> {
        let [live, kernel] = [Some(&self.live), self.kernel.as_ref()].map(Starts::of);
        let ratio = live.p50?.0 as f64 / kernel.p50?.0.max(1) as f64;
        Some((ratio * 100.0).round() / 100.0)
    }

    fn text(&self, threads: usize) -> String {
        let mut text = rounds::title("live", threads);
        text.push_str(&rounds::experiment("live", self.live.published()).table());
        text.push_str(&self.table());
        if let Some(ratio) = self.ratio() {
            let _ = writeln!(text, "\np50: {ratio} times that on linux (goal: at most {GOAL})");
        }
        if self.live.repeated > 0 {
            let _ = writeln!(
                text,
                "\n{} rounds on live broke the rule while the machine took CPUs away for more than \
                 {} us;\nthey were repeated, and count in the times only",
                self.live.repeated,
                micros(MAX_LATE)
            );
        }
        text.push_str(&self.live.example());
        text.push_str(&self.kernel.as_ref().map(Tally::example).unwrap_or_default());
        text + "\n"
    }

    /// All hosts side by side.
    fn table(&self) -> String {
        let mut text = "\nstarts of the threads that are not the least important, us\n".to_owned();
        let mut row = |name: &str, cells: [String; 6]| {
            let [rounds, failed, repeated, p50, p99, max] = cells;
            let _ = writeln!(
                text,
                "{name:<15}  {rounds:>6}  {failed:>6}  {repeated:>8}  {p50:>8}  {p99:>8}  {max:>8}"
            );
        };
        let head = ["rounds", "failed", "repeated", "p50", "p99", "max"];
        row("host", head.map(str::to_owned));
        let hosts = [Some(&self.live), self.kernel.as_ref(), self.original.as_ref()];
        for (name, host) in ["live", "linux", "rt-migrate-test"].into_iter().zip(hosts) {
            let starts = Starts::of(host);
            let number = |of: fn(&Tally) -> usize| host.map(|tally| of(tally).to_string());
            let time = |start: Option<Nanos>| start.map(|start| format!("{:.1}", micros(start)));
            let cells = [
                number(|tally| tally.judged),
                number(|tally| tally.failed),
                number(|tally| tally.repeated).filter(|_| name == "live"),
                time(starts.p50),
                time(starts.p99),
                time(starts.max),
            ];
            row(name, cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned())));
        }
        text
    }
}

fn say_why_not(refused: &Failure) {
    let why = match refused {
        Failure::Refused(why) | Failure::Input(why) => why,
    };
    say(format_args!("no figures of the kernel's own: {why}"));
}

/// The results of the rounds on one host.
#[derive(Debug)]
struct Tally {
    host: &'static str,
    runs: usize,
    good_runs: usize,
    /// All rounds, including repeated ones.
    rounds: Vec<Round>,
    /// The number of judged rounds, of those that broke the rule, and of rounds that were repeated.
    judged: usize,
    failed: usize,
    repeated: usize,
    /// The first round that failed.
    first_failed: Option<(usize, Round)>,
}

/// Performs so many rounds from a seed. Returns each with the time that the machine took from it.
type Perform<'h> = &'h mut dyn FnMut(u64, u32) -> Result<Vec<(Round, Nanos)>, Failure>;

impl Tally {
    fn new(host: &'static str) -> Tally {
        Tally {
            host,
            runs: 0,
            good_runs: 0,
            rounds: Vec::new(),
            judged: 0,
            failed: 0,
            repeated: 0,
            first_failed: None,
        }
    }

    /// A run on a host that shares its CPUs. Rounds without enough CPU time are repeated.
    fn run(&mut self, perform: Perform<'_>, seed: u64, rounds: u32) -> Result<(), Failure> {
        let (failed, mut repeated) = (self.failed, 0);
        let (mut due, mut attempt) = (rounds, 0);
        while due > 0 {
            for (round, taken) in perform(seed + (attempt << u32::BITS), due)? {
                if !passes(&round) && taken > MAX_LATE && repeated < MOST_REPEATED {
                    repeated += 1;
                    self.rounds.push(round);
                } else {
                    due -= 1;
                    self.judge(round);
                }
            }
            attempt += 1;
        }
        self.repeated += repeated;
        self.end_run(failed);
        Ok(())
    }

    /// Adds the rounds of a host that has its CPUs for itself.
    fn with(mut self, rounds: impl IntoIterator<Item = Round>) -> Tally {
        let failed = self.failed;
        rounds.into_iter().for_each(|round| self.judge(round));
        self.end_run(failed);
        self
    }

    fn judge(&mut self, round: Round) {
        if !passes(&round) {
            self.failed += 1;
            self.first_failed.get_or_insert_with(|| (self.rounds.len(), round.clone()));
        }
        self.judged += 1;
        self.rounds.push(round);
    }

    fn end_run(&mut self, failed_before: usize) {
        self.runs += 1;
        self.good_runs += usize::from(self.failed == failed_before);
    }

    /// The claims that have figures in the founding document.
    fn published(&self) -> Vec<Claim> {
        let latest = |start: Option<Nanos>| Some(micros(start.unwrap_or_default()));
        let failed = percent(self.failed as f64 / self.judged.max(1) as f64);
        vec![
            LATEST_IMPORTANT.claim(
                None,
                latest(important_starts(&self.rounds).max()),
                ClaimVerdict::Shown,
            ),
            LATEST_LEAST.claim(None, latest(least_starts(&self.rounds).max()), ClaimVerdict::Shown),
            FAILED.claim(None, Some(failed), ClaimVerdict::of(self.failed == 0)),
            RUNS.claim(
                None,
                Some(self.good_runs as f64),
                ClaimVerdict::of(self.good_runs == self.runs),
            ),
        ]
    }

    /// An example: the first failed round, otherwise the last round.
    fn example(&self) -> String {
        let last = self.rounds.last().map(|round| (self.rounds.len() - 1, round.clone()));
        let (what, round) = match &self.first_failed {
            Some(failed) => ("a round that failed", Some(failed)),
            None => ("a round", last.as_ref()),
        };
        example(&format!("{}: {what}", self.host), round)
    }
}

/// Performs rounds on a host.
fn watch(
    host: impl FnOnce(Plan) -> Result<(), Failure>,
    threads: usize,
    (seed, rounds): (u64, u32),
) -> Result<Vec<(Round, Nanos)>, Failure> {
    let watched = Arc::new(Watched::new(threads));
    let scenario = scenario(threads, rounds);
    host(Plan { watch: Some(watched.clone()), ..Plan::new(scenario, seed) })?;
    let done = watched.rounds();
    assert_eq!(done.len(), rounds as usize, "the run went through all rounds");
    Ok(done)
}

/// The delays between the release and the start of all threads but the least important one: their wake-up latencies.
#[derive(Clone, Copy, Debug, Default)]
struct Starts {
    p50: Option<Nanos>,
    p99: Option<Nanos>,
    max: Option<Nanos>,
}

impl Starts {
    fn of(tally: Option<&Tally>) -> Starts {
        let Some(tally) = tally else { return Starts::default() };
        let mut starts: Vec<_> = important_starts(&tally.rounds).collect();
        starts.sort_unstable();
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&starts, percent));
        Starts { p50, p99, max }
    }

    fn claims(self, host: &str) -> [Claim; 3] {
        [("p50", self.p50), ("p99", self.p99), ("max", self.max)].map(|(which, start)| {
            let what =
                format!("start of a thread that is not the least important, {which}, {host}");
            shown(&what, "us", start.map(micros))
        })
    }
}

/// The smallest value of `sorted` that so many per cent of the values do not exceed.
fn percentile(sorted: &[Nanos], percent: usize) -> Option<Nanos> {
    sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied()
}

/// A figure without a bound. The founding document does not have it.
fn shown(what: &str, unit: &'static str, after: Option<f64>) -> Claim {
    let figure = Figure { what: "", unit, before: None, after: None };
    Claim { what: what.to_owned(), ..figure.claim(None, after, ClaimVerdict::Shown) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt_migrate::rounds::Lap;

    /// A round of two threads. The more important one starts so many milliseconds late.
    fn round(late: u64) -> Round {
        let lap = |start| {
            let (start, work) = (Nanos::from_millis(start), Nanos::from_millis(20));
            Lap { start, end: start + work, work }
        };
        vec![lap(0), lap(late)]
    }

    #[test]
    fn a_broken_round_is_repeated_only_where_the_machine_had_no_cpu() {
        let (nothing, much) = (Nanos::ZERO, Nanos::from_millis(2));
        let rounds =
            [(0, nothing), (20, nothing), (20, much), (0, much), (20, MAX_LATE), (0, much)];
        let mut rounds = rounds.into_iter().map(|(late, taken)| (round(late), taken));
        let mut asked = Vec::new();
        let mut tally = Tally::new("live");
        let perform = &mut |seed, due: u32| {
            asked.push((seed, due));
            Ok(rounds.by_ref().take(due as usize).collect())
        };
        tally.run(perform, 7, 5).unwrap();
        assert_eq!((tally.judged, tally.failed, tally.repeated), (5, 2, 1));
        assert_eq!((tally.rounds.len(), tally.runs, tally.good_runs), (6, 1, 0));
        assert_eq!(tally.first_failed, Some((1, round(20))));
        let [(7, 5), (other, 1)] = asked[..] else { panic!("the one again: {asked:?}") };
        assert_ne!(other, 7, "with other draws");
    }

    #[test]
    fn a_machine_that_is_never_quiet_is_no_excuse_for_ever() {
        let mut tally = Tally::new("live");
        let perform = &mut |_, due: u32| Ok(vec![(round(20), Nanos::from_millis(9)); due as usize]);
        tally.run(perform, 1, ROUNDS).unwrap();
        assert_eq!((tally.judged, tally.failed), (50, 50));
        assert_eq!((tally.repeated, tally.good_runs), (MOST_REPEATED, 0));
        assert!(!tally.published().iter().all(|claim| claim.verdict.holds()));
    }

    #[test]
    fn every_thread_has_a_lap_in_every_round_on_every_host() {
        let cpus = machine::cpus().unwrap();
        let hosts = Hosts::run(&cpus, 1..=2, 2).unwrap();
        assert_eq!((hosts.live.runs, hosts.live.judged), (2, 4));
        assert_eq!(hosts.live.rounds.len(), 4 + hosts.live.repeated);
        for tally in [Some(hosts.live), hosts.kernel].into_iter().flatten() {
            for round in &tally.rounds {
                assert_eq!(round.len(), cpus.len() + 1);
                for lap in round {
                    let spun = lap.end - lap.start;
                    assert!(spun >= Nanos::from_millis(20), "{}: {lap:?}", tally.host);
                    // The clocks are read one after the other.
                    let most = spun + Nanos::from_millis(1);
                    assert!(Nanos::ZERO < lap.work && lap.work < most, "{}: {lap:?}", tally.host);
                }
            }
        }
        for tally in [hosts.original].into_iter().flatten() {
            assert_eq!((tally.rounds.len(), tally.rounds[0].len()), (4, cpus.len() + 1));
        }
    }

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let starts: Vec<_> = (1..=100).map(Nanos).collect();
        let of = |percent| percentile(&starts, percent).unwrap();
        assert_eq!([50, 99, 100].map(of), [50, 99, 100].map(Nanos));
        assert_eq!(percentile(&starts[..1], 50), Some(Nanos(1)));
        assert_eq!(percentile(&[], 50), None);
    }
}
