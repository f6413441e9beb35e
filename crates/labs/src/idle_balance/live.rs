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

use super::part;
use crate::claims::Reproduced;
use crate::figure::percent;
use crate::length::Length;
use crate::price;
use crate::progress::Progress;
use crate::quiet::{Course, Tried};
use crate::rows::{self, Row};
use crate::setting::{Seen, Setting, Watch};
use crate::took::Took;
use crate::usage::{SECOND, Window};
use runyard_engine::event::What;
use runyard_engine::kernel::Experiment;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::machine;
use runyard_outcome::Failure;

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
pub(crate) fn live(length: Length, progress: &Progress) -> Result<Reproduced, Failure> {
    let cpus = machine::cpus()?.len();
    let setting = setting(cpus, WINDOW);
    let (takes, runs) = (setting.takes(), length.pick(1, SOAK_RUNS));
    let mut course = Course::new(length, takes * (runs as u32 + 1) + price::TAKES, progress);
    let what = "a soaker on each CPU and a normal task";
    let before = course.once(&format!("{what}, without the balancer"), takes, || {
        setting.clone().before(Experiment::IdleBalance).play(1)
    })?;
    let price = price::measured(Experiment::IdleBalance, cpus, &mut course)?;
    let after = course.runs(what, takes, runs, |seed| setting.play(seed))?;
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

/// A soaker for each CPU, and then a normal task.
fn setting(cpus: usize, window: Window) -> Setting {
    let setting = super::machine(1, cpus as u32, 1).lasts(window.end.since(Time::ZERO));
    setting.window(window, SECOND).watch(move |_| starts(TaskId(cpus as u64)))
}

/// The time from the normal task's wake-up to its first instruction. The task is created, waits for half a second at
/// least, and is woken again.
fn starts(normal: TaskId) -> Watch {
    const COMES: Time = Time(500_000_000);
    let mut woken = None;
    Box::new(move |event, _, seen| match event.what {
        What::Wake { task, since, .. } if task == normal => woken = Some(since),
        What::Exec { task, .. } if task == normal => {
            if let Some(since) = woken.take().filter(|&since| since >= COMES) {
                seen.took.times.record(event.at.since(since));
            }
        }
        _ => {}
    })
}

/// The rows of a machine with so many CPUs. Of each figure the worst of the runs counts.
pub(super) fn rows(cpus: usize) -> Vec<Row<Seen>> {
    let least = |what: &str, of: fn(&Seen, usize) -> f64| {
        Row::new(what, "%", move |runs: &[&Seen]| {
            percent(runs.iter().map(|run| of(run, cpus)).fold(f64::INFINITY, f64::min))
        })
    };
    // Tasks are numbered in the order of the file: the soakers, then the normal task.
    let start = Row::new("its start after its wake-up", "us", |runs: &[&Seen]| {
        Took::sum(runs.iter().map(|run| &run.took)).max()
    });
    let mut rows = vec![
        least("busy", |run, _| run.used.sum().busy()).holds(|_, after| after >= LEAST_BUSY),
        least("its share of a CPU", part).holds(|_, after| after >= LEAST_SHARE),
        least("least share of a soaker", |run, cpus| {
            (0..cpus).map(|task| part(run, task)).fold(f64::INFINITY, f64::min)
        }),
        start,
        least("CPU time that the machine gave", |run, _| run.given),
    ];
    // Where there is one CPU, the normal task has it, and there are no others.
    if cpus > 1 {
        let soaked = least("the soakers' share of the other CPUs", |run, cpus| {
            (0..cpus).map(|task| part(run, task)).sum::<f64>() / (cpus - 1) as f64
        });
        rows.insert(2, soaked.holds(|_, after| after >= LEAST_SOAKED));
    }
    let name = format!("{cpus} CPUs, 1 normal task");
    rows.into_iter().map(|row| row.below(&name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::tests::failed;

    /// The claims that do not hold of a second of two CPUs with a fault put in. The machine may disturb the measurement.
    fn broken(fault: impl FnOnce(Setting) -> Setting) -> Vec<String> {
        let window = Window::of_seconds(Nanos::from_millis(1_500), 1);
        let run = Tried::quiet(fault(setting(2, window)).play(1).unwrap());
        failed(rows::claims(&rows(2), &[vec![], vec![run]]))
    }

    #[test]
    fn soakers_that_are_no_soakers_are_noticed() {
        let broken = broken(|setting| setting.set("tasks.soaker.policy", "SCHED_OTHER"));
        assert!(
            broken.contains(&"2 CPUs, 1 normal task: its share of a CPU".to_owned()),
            "{broken:?}"
        );
    }

    #[test]
    fn an_idle_cpu_is_noticed() {
        let broken = broken(|setting| {
            let setting = setting.set("tasks.soaker.cpus", "[0]");
            setting.set("tasks.normal.cpus", "[0]")
        });
        for claim in ["busy", "the soakers' share of the other CPUs"] {
            let claim = format!("2 CPUs, 1 normal task: {claim}");
            assert!(broken.contains(&claim), "{claim}: {broken:?}");
        }
    }
}
