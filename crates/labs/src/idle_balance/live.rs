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

use crate::claims::Reproduced;
use crate::figure::{micros, percent};
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried};
use crate::rows::{self, Row};
use crate::usage::{SECOND, Usage, Used, Window};
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
const SECONDS: u32 = 4;
const WINDOW: Window = Window::of_seconds(Nanos::from_secs(2), SECONDS);

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
    let scenario = |model| -> Result<Scenario, Failure> {
        let mut scenario = super::machine(1, cpus as u32, 1).scenario()?;
        scenario.use_model(model);
        Ok(scenario)
    };
    let runs = length.pick(1, SOAK_RUNS);
    let takes = Duration::from_nanos(WINDOW.end.0);
    let takes_all = takes * (runs as u32 + 1) + price::TAKES;
    let mut course = Course::new(length, takes_all, progress);
    let what = "a soaker on each CPU and a normal task";
    let before = course.once(&format!("{what}, without the balancer"), takes, || {
        RunShares::of(scenario(kernel::Experiment::IdleBalance.before())?, WINDOW, 1)
    })?;
    let price = price::measured(kernel::Experiment::IdleBalance, cpus, &mut course)?;
    let after = course
        .runs(what, takes, runs, |seed| RunShares::of(scenario(Model::default())?, WINDOW, seed))?;
    let text = after[0].result.used.text(WINDOW.from);
    let mut claims = rows::claims(&rows(cpus), &[vec![Tried::quiet(before)], after]);
    claims.extend(price);
    Ok(Reproduced::of("idle-balance", "live", claims, |table| {
        format!(
            "idle-balance on live: a SCHED_IDLE task for each CPU, and a normal task that comes; none \
             ever blocks\n\n{table}\n{cpus} CPUs, 1 normal task\n{text}\n",
        )
    }))
}

/// The rows of a machine with so many CPUs. Of each figure the worst of the runs counts.
pub(super) fn rows(cpus: usize) -> Vec<Row<RunShares>> {
    let least = |what: &str, of: fn(&RunShares) -> f64| {
        Row::new(what, "%", move |runs: &[&RunShares]| {
            percent(runs.iter().map(|run| of(run)).fold(f64::INFINITY, f64::min))
        })
    };
    let start = Row::new("its start after its wake-up", "us", |runs: &[&RunShares]| {
        runs.iter().filter_map(|run| run.start).max().map(micros)
    });
    let mut rows = vec![
        least("busy", |run| run.used.sum().busy()).holds(|_, after| after >= LEAST_BUSY),
        least("its share of a CPU", |run| run.part(run.normal))
            .holds(|_, after| after >= LEAST_SHARE),
        least("least share of a soaker", |run| {
            run.soakers.iter().map(|&soaker| run.part(soaker)).fold(f64::INFINITY, f64::min)
        }),
        start,
        least("CPU time that the machine gave", |run| run.given),
    ];
    // Where there is one CPU, the normal task has it, and there are no others.
    if cpus > 1 {
        let soaked = least("the soakers' share of the other CPUs", |run| {
            let sum: f64 = run.soakers.iter().map(|&soaker| run.part(soaker)).sum();
            sum / (run.soakers.len() - 1) as f64
        });
        rows.insert(2, soaked.holds(|_, after| after >= LEAST_SOAKED));
    }
    let name = format!("{cpus} CPUs, 1 normal task");
    rows.into_iter().map(|row| row.below(&name)).collect()
}

/// The results of a run.
#[derive(Clone, Debug)]
pub(super) struct RunShares {
    window: Window,
    used: Used,
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
        scenario.duration = Some(window.end.since(Time::ZERO));
        let sink = CpuSink {
            usage: Usage::new(window, SECOND, cpus),
            normal: TaskId(cpus as u64),
            woken: None,
            start: None,
        };
        let sink = Arc::new(Mutex::new(sink));
        let (begun, used) = (Instant::now(), process_cpu_time());
        let plan = Plan::new(scenario, seed);
        let over = live::run(plan, cpus, sink.clone())?;
        let (wall, given) = (begun.elapsed(), process_cpu_time() - used);
        let told = (0..=cpus as u64).map(TaskId);
        assert!(over.tasks().eq(told), "both count tasks in the order of the file");
        let CpuSink { usage, start, .. } = lock(&sink).clone();
        let used = usage.finish(window.end);
        let of = |task| used.of(task..task + 1);
        let (soakers, normal) = ((0..cpus).map(of).collect(), of(cpus));
        let given = given.0 as f64 / (wall.as_nanos() as f64 * cpus as f64);
        Ok(RunShares { window, used, normal, soakers, start, given })
    }

    /// A time as a fraction of the window.
    fn part(&self, time: Nanos) -> f64 {
        time.0 as f64 / self.window.span().0 as f64
    }
}

/// Observes the work of the CPUs, and the start of the normal task.
#[derive(Clone, Debug)]
struct CpuSink {
    usage: Usage,
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
        self.usage.event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::tests::failed_after;
    use runyard_engine::attr::{Nice, Policy};
    use runyard_engine::cpu::CpuId;

    /// The claims that do not hold of a second of two CPUs with a fault put in. The machine may disturb the measurement.
    fn broken(fault: impl FnOnce(&mut Scenario)) -> Vec<String> {
        let window = Window::of_seconds(Nanos::from_millis(1_500), 1);
        let mut scenario = super::super::machine(1, 2, 1).scenario().unwrap();
        fault(&mut scenario);
        let run = Tried::quiet(RunShares::of(scenario, window, 1).unwrap());
        failed_after(": ", rows::claims(&rows(2), &[vec![], vec![run]]))
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
}
