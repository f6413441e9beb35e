//! The experiment on this machine's CPUs, on the runtime: a soaker for each, and one normal task.
//!
//! The claims are the duties of a scheduler: it gives its CPUs away, and to the right tasks. The mechanism of the
//! document is not among them: on the runtime, which has one node, its absence changes none of these figures. The
//! divided time is that of the runtime's CPUs. On these a task also executes while the machine has lent its worker's CPU
//! to another process. The kernel's accounts of the process do not serve here: the time that the machine takes from the
//! process is missing in the account of one task or another. This time is shown. The claims are judged while
//! [others leave the CPUs alone](crate::quiet).
//!
//! The evenness of the soakers is only shown. On the runtime a CPU with one task has no tick, so one soaker may have a
//! CPU to itself while another waits on the normal task's CPU.
//!
//! Before, the runtime has no `IDLE_LOAD_BALANCE`. Those figures are measured once, whatever others do, and are shown.

use super::case::{Case, Light};
use super::mpstat::{Mpstat, Rows, Window};
use crate::claims::{Claim, ClaimVerdict, Experiment, Reproduced};
use crate::figure::{Figure, micros, percent};
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried, deciding, verdict};
use runyard_engine::event::{Event, What};
use runyard_engine::kernel::{self, Model};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::live::{self, EventSink};
use runyard_hosts::machine;
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex, lock};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use std::time::{Duration, Instant};

/// A second in which the normal task comes, a second to settle, and the counted seconds.
const WINDOW: Window = Window { from: Time(2_000_000_000), seconds: 4 };

/// The least part of the CPUs' time that is not idle, in per cent. It should be all. But a CPU that goes idle looks for
/// work with a thread of the machine, which may have to wait for a real CPU.
const LEAST_BUSY: f64 = 99.0;

/// The least part of a CPU that the normal task gets, in per cent. The policy gives 0.3 of it to a soaker that waits
/// there (3 of 1027), and switches take next to nothing. The machine may stretch a switch or a soaker's turn by whole
/// turns of its own; this bound allows for some of them.
const LEAST_SHARE: f64 = 95.0;

/// The least part of all other CPUs that the soakers get, in per cent. This is the same bound from their side.
const LEAST_SOAKED: f64 = 95.0;

/// The number of runs of `--soak`.
const SOAK_RUNS: u64 = 20;

/// Runs the experiment once on this machine, or 20 times in a soak. Of each figure the worst counts.
///
/// # Errors
/// If the machine refuses something.
pub fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?.len();
    let cores = u32::try_from(cpus).map_err(Failure::input)?;
    let case = Case {
        nodes: 1,
        cores,
        normal: 1,
        light: Light::Policy,
        kernel: None,
        seconds: WINDOW.seconds,
    };
    let runs = length.pick(1, SOAK_RUNS);
    let takes = Duration::from_nanos(WINDOW.end().0);
    let takes_all = takes * (runs as u32 + 1) + price::TAKES;
    let mut course = Course::new(length, takes_all, progress);
    let what = "a soaker on each CPU and a normal task";
    let before = course.once(&format!("{what}, without the balancer"), takes, || {
        let without = kernel::Experiment::IdleBalance.before();
        RunShares::of(case.scenario(without)?, WINDOW, 1)
    })?;
    let price = price::measured(kernel::Experiment::IdleBalance, cpus, &mut course)?;
    let run = |seed: u64| {
        course.quiet(what, takes, |attempt| {
            let scenario = case.scenario(Model::default())?;
            RunShares::of(scenario, WINDOW, seed + (u64::from(attempt) << u32::BITS))
        })
    };
    let runs = (1..=runs).map(run).collect::<Result<Vec<_>, _>>()?;
    let (name, host) = ("idle-balance".to_owned(), "live".to_owned());
    let mut claims = claims(&case, &before, &runs);
    claims.extend(price::claims(&price));
    let experiment = Experiment { name, host, claims };
    let text = format!(
        "idle-balance on live: a SCHED_IDLE task for each CPU, and a normal task that comes; none \
         ever blocks\n\n{}\n{}\n{}\n{}",
        experiment.table(),
        case.name(),
        runs[0].result.rows.text(),
        price::text(&price)
    );
    Ok(Reproduced { experiment, text })
}

/// The results of a run.
#[derive(Clone, Debug)]
struct RunShares {
    window: Window,
    rows: Rows,
    /// The time that the normal task executed, and that of each soaker.
    normal: Nanos,
    soakers: Vec<Nanos>,
    /// The time from the normal task's wake-up to its first instruction.
    start: Option<Nanos>,
    /// The fraction of its CPUs that the machine gave this process, over the whole run.
    given: f64,
}

impl RunShares {
    /// Plays a scenario with a soaker for each CPU and then a normal task.
    fn of(mut scenario: Scenario, window: Window, seed: u64) -> Result<RunShares, Failure> {
        let cpus = scenario.machine.topology.cpus();
        scenario.duration = Some(window.end().since(Time::ZERO));
        let sink = CpuSink {
            mpstat: Mpstat::new(window, cpus, cpus + 1),
            normal: TaskId(cpus as u64),
            woken: None,
            start: None,
        };
        let sink = Arc::new(Mutex::new(sink));
        let (begun, used) = (Instant::now(), process_cpu_time());
        let plan = Plan::new(scenario, seed);
        let over = live::run(plan, cpus, sink.clone())?;
        let (wall, used) = (begun.elapsed(), process_cpu_time() - used);
        let told = (0..=cpus as u64).map(TaskId);
        assert!(over.tasks().eq(told), "both count tasks in the order of the file");
        let CpuSink { mpstat, start, .. } = lock(&sink).clone();
        let (rows, mut soakers) = mpstat.finish();
        let normal = soakers.pop().expect("the last is the normal task");
        let given = used.0 as f64 / (wall.as_nanos() as f64 * cpus as f64);
        Ok(RunShares { window, rows, normal, soakers, start, given })
    }

    /// The fraction of a CPU that the normal task got.
    fn share(&self) -> f64 {
        self.part(self.normal)
    }

    /// The fraction of the other CPUs that the soakers got; `None` if there are no others.
    fn soaked(&self) -> Option<f64> {
        let others = self.soakers.len() - 1;
        let sum = self.soakers.iter().map(|&soaker| self.part(soaker)).sum::<f64>();
        (others > 0).then(|| sum / others as f64)
    }

    /// The least fraction of a CPU that a soaker got.
    fn least_soaker(&self) -> f64 {
        self.soakers.iter().map(|&soaker| self.part(soaker)).fold(f64::INFINITY, f64::min)
    }

    /// A time as a fraction of the window.
    fn part(&self, time: Nanos) -> f64 {
        time.0 as f64 / self.window.span().0 as f64
    }
}

/// Observes the work of the CPUs, and the start of the normal task.
#[derive(Clone, Debug)]
struct CpuSink {
    mpstat: Mpstat,
    normal: TaskId,
    /// The instant from which the normal task can run, until it runs.
    woken: Option<Time>,
    start: Option<Nanos>,
}

impl EventSink for CpuSink {
    fn event(&mut self, event: &Event) {
        match event.what {
            // The task is created, waits until it is due, and is woken again.
            What::Wake { task, since, .. } if task == self.normal => self.woken = Some(since),
            What::Exec { task, .. } if task == self.normal => {
                let woken = self.woken.take();
                self.start = woken.map(|since| event.at.since(since)).or(self.start);
            }
            _ => {}
        }
        self.mpstat.event(event);
    }
}

/// The claims, with the figures of a run before. Of each figure after, the worst run counts.
fn claims(case: &Case, before: &RunShares, tried: &[Tried<RunShares>]) -> Vec<Claim> {
    let runs = deciding(tried);
    let claim = |what: &str, unit: &'static str, [before, after]: [Option<f64>; 2], verdict| {
        let what = format!("{}: {what}", case.name());
        Figure { what: &what, unit, before: None, after: None }.claim(before, after, verdict)
    };
    let least = |of: fn(&RunShares) -> Option<f64>| {
        let least = runs.iter().copied().filter_map(of).min_by(f64::total_cmp);
        least.map(percent)
    };
    let at_least = |what: &str, bound: f64, of: fn(&RunShares) -> Option<f64>| {
        let (least, before) = (least(of)?, of(before).map(percent));
        Some(claim(what, "%", [before, Some(least)], verdict(tried, least >= bound)))
    };
    let shown = |what: &str, of: fn(&RunShares) -> Option<f64>| {
        Some(claim(what, "%", [of(before).map(percent), least(of)], ClaimVerdict::Shown))
    };
    let start = runs.iter().filter_map(|run| run.start).max();
    let start = [before.start, start].map(|start| start.map(micros));
    let claims = [
        at_least("busy", LEAST_BUSY, |run| Some(run.rows.sum().busy())),
        at_least("its share of a CPU", LEAST_SHARE, |run| Some(run.share())),
        at_least("the soakers' share of the other CPUs", LEAST_SOAKED, RunShares::soaked),
        shown("least share of a soaker", |run| Some(run.least_soaker())),
        Some(claim("its start after its wake-up", "us", start, ClaimVerdict::Shown)),
        shown("CPU time that the machine gave", |run| Some(run.given)),
    ];
    claims.into_iter().flatten().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::mpstat::Row;
    use super::*;
    use runyard_engine::attr::{Nice, Policy};
    use runyard_engine::cpu::CpuId;

    const CASE: Case =
        Case { nodes: 1, cores: 2, normal: 1, light: Light::Policy, kernel: None, seconds: 4 };

    /// A run on two CPUs, in per cent of one: idle, the normal task, the soakers.
    fn run(idle: u64, normal: u64, soakers: [u64; 2]) -> RunShares {
        let percent = |percent: u64| Nanos(WINDOW.span().0 / 100 * percent);
        let second = Row {
            idle: Nanos::from_millis(10 * idle),
            normal: Nanos::from_millis(2_000 - 10 * idle),
            ..Row::default()
        };
        RunShares {
            window: WINDOW,
            rows: Rows::new(WINDOW, vec![second; WINDOW.seconds as usize]),
            normal: percent(normal),
            soakers: soakers.map(percent).to_vec(),
            start: Some(Nanos(12_345)),
            given: 0.5,
        }
    }

    fn quiet(runs: &[RunShares]) -> Vec<Tried<RunShares>> {
        runs.iter().map(|run| Tried { result: run.clone(), disturbed: None }).collect()
    }

    /// The claims of the experiment, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        let mut claims = claims(&CASE, &run(0, 99, [50, 50]), &quiet(&[run(0, 99, [50, 50])]));
        claims.extend(price::tests::named());
        claims
    }

    /// The claims that fail.
    fn failed(runs: &[RunShares]) -> Vec<String> {
        let claims = claims(&CASE, &runs[0], &quiet(runs)).into_iter();
        let failed = claims.filter(|claim| claim.verdict.fails());
        failed.map(|claim| claim.what.split_once(": ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn what_is_claimed_is_who_has_the_cpus() {
        assert_eq!(failed(&[run(0, 99, [50, 50])]), [""; 0]);
        assert_eq!(failed(&[run(3, 99, [48, 48])]), ["busy"]);
        assert_eq!(failed(&[run(0, 94, [50, 50])]), ["its share of a CPU"]);
        let wasted = failed(&[run(0, 99, [1, 93])]);
        assert_eq!(wasted, ["the soakers' share of the other CPUs"]);
    }

    #[test]
    fn one_bad_run_of_many_fails() {
        let (good, bad) = (run(0, 99, [50, 50]), run(0, 60, [50, 90]));
        assert_eq!(failed(&[good.clone(), bad, good]), ["its share of a CPU"]);
    }

    #[test]
    fn where_the_normal_task_has_the_only_cpu_nothing_is_claimed_of_others() {
        let alone = RunShares { soakers: vec![Nanos::ZERO], ..run(0, 99, [0, 0]) };
        assert_eq!(failed(&[alone]), [""; 0]);
    }

    /// The claims that do not hold of a second of two CPUs with a fault put in. The machine may disturb the measurement.
    fn broken(fault: impl FnOnce(&mut Scenario)) -> Vec<String> {
        let window = Window { from: Time::ZERO + Nanos::from_millis(1_500), seconds: 1 };
        let mut scenario = CASE.scenario(Model::default()).unwrap();
        fault(&mut scenario);
        let run = RunShares::of(scenario, window, 1).unwrap();
        failed(&[run])
    }

    #[test]
    fn soakers_that_are_no_soakers_are_noticed() {
        let normal = Policy::Normal(Nice::default());
        let broken = broken(|scenario| scenario.tasks[0].properties.policy = Some(normal));
        assert!(broken.contains(&"its share of a CPU".to_owned()), "{broken:?}");
    }

    #[test]
    fn an_idle_cpu_is_noticed() {
        let broken = broken(|scenario| {
            for task in &mut scenario.tasks {
                task.properties.cpus = Some([CpuId::at(0)].into_iter().collect());
            }
        });
        for claim in ["busy", "the soakers' share of the other CPUs"] {
            assert!(broken.contains(&claim.to_owned()), "{claim}: {broken:?}");
        }
    }

    #[test]
    fn times_are_shown() {
        let claims = claims(&CASE, &run(1, 98, [50, 50]), &quiet(&[run(0, 99, [50, 50])]));
        let start = claims.iter().find(|claim| claim.unit == "us").unwrap();
        assert_eq!((start.after, start.verdict), (Some(12.3), ClaimVerdict::Shown));
    }
}
