//! Runs a probe: on this machine several times, and simulated.

use super::gaps;
use super::quiet::{Disturbed, Watch};
use crate::linux::{self, Ground};
use crate::play::Plan;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_report::{Report, TaskReport};
use runyard_workload::scenario::Costs;
use runyard_workload::{Overrides, Scenario};
use std::cell::Cell;
use std::collections::BTreeMap;

/// A function that simulates a scenario. This crate has no simulator.
pub type Simulate<'a> = &'a dyn Fn(&Scenario) -> Result<Report, Failure>;

/// The number of runs of each probe on this machine; the probes take turns, and the mean of the middle five counts. The
/// cost of a wake-up on a virtual machine doubles and halves within seconds, and a simulated scenario should have all of
/// that. A median would be one or the other.
const TURNS: usize = 7;

/// The number of times that a disturbed run is repeated before it counts anyway.
const REPEATS: usize = 5;

/// The length of a probe on this machine, and simulated. It wakes up every 500 us. The kernel tells idle time in
/// hundredths of a second, so a much shorter run looks disturbed.
const SPAN: Nanos = Nanos::from_millis(600);
const SIMULATED: Nanos = Nanos::from_secs(2);

/// A scenario in which one cost matters, and the figure that shows it.
pub(super) struct Probe {
    /// The name of the probe; no other probe has it.
    pub(super) name: &'static str,
    /// The scenario.
    pub(super) text: &'static str,
    /// The figure, in nanoseconds.
    pub(super) figure: fn(&Report) -> Option<f64>,
}

/// The figures of probes on this machine.
pub(super) struct Seen(BTreeMap<&'static str, f64>);

impl Seen {
    /// The figure of a probe that ran.
    pub(super) fn of(&self, probe: &Probe) -> f64 {
        self.0[probe.name]
    }
}

/// The machine that probes run on.
pub(super) struct Bench<'a> {
    cpus: Vec<usize>,
    tick_hz: u32,
    simulate: Simulate<'a>,
    /// The largest disturbance of a run that counted anyway.
    disturbed: Cell<Option<Disturbed>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(cpus: Vec<usize>, tick_hz: u32, simulate: Simulate<'a>) -> Bench<'a> {
        Bench { cpus, tick_hz, simulate, disturbed: Cell::new(None) }
    }

    pub(super) fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// The reason why task groups cannot be made here.
    pub(super) fn refuses_groups(&self) -> Option<String> {
        linux::refuses_groups(self.nr_cpus())
    }

    /// The remark about runs that were never quiet.
    pub(super) fn disturbance(&self) -> Option<String> {
        let Disturbed { others, stolen } = self.disturbed.get()?;
        let percent = |thousandths: u64| format!("{}.{} %", thousandths / 10, thousandths % 10);
        let (others, stolen) = (percent(others), percent(stolen));
        Some(format!("the machine was not quiet: others had {others} of a run, the host {stolen}"))
    }

    /// The figures of the probes as kernel threads, and the time that a tick takes of the first CPU.
    pub(super) fn here(&self, probes: &[&Probe]) -> Result<(Seen, f64), Failure> {
        let (mut seen, mut ticks) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
        for _ in 0..TURNS {
            // Probes with one scenario are figures of one run.
            for same in probes.chunk_by(|a, b| a.text == b.text) {
                let figures = self.quietly(|| self.run(same))?;
                for (probe, figure) in same.iter().zip(figures) {
                    seen.entry(probe.name).or_default().push(figure);
                }
            }
            ticks.push(
                self.quietly(
                    || Ok(gaps::of_a_tick(self.cpus[0], self.tick_hz)?.as_nanos() as f64),
                )?,
            );
        }
        let middles = seen.into_iter().map(|(name, figures)| (name, middle(figures)));
        Ok((Seen(middles.collect()), middle(ticks)))
    }

    /// Runs the scenario of some probes, and returns the figure of each.
    fn run(&self, probes: &[&Probe]) -> Result<Vec<f64>, Failure> {
        let scenario = self.scenario(probes[0], SPAN)?;
        let ground = Ground::with_groups(self.cpus.clone(), &scenario);
        let report = linux::run(Plan::new(scenario, 1), ground)?.report();
        probes.iter().map(|probe| figure(probe, &report)).collect()
    }

    /// The figure on a machine with such `costs`.
    pub(super) fn simulated(&self, probe: &Probe, costs: Costs) -> Result<f64, Failure> {
        let mut scenario = self.scenario(probe, SIMULATED)?;
        (scenario.machine.costs, scenario.machine.tick_hz) = (costs, self.tick_hz);
        figure(probe, &(self.simulate)(&scenario)?)
    }

    fn scenario(&self, probe: &Probe, span: Nanos) -> Result<Scenario, Failure> {
        let cpus = Some(self.cpus.len());
        let over = Overrides { cpus, duration: Some(span), ..Overrides::default() };
        let parsed = runyard_workload::parse("calibrate", probe.text, &over);
        Ok(parsed.map_err(Failure::input)?.scenario)
    }

    fn quietly<T>(&self, run: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut repeats = 0;
        loop {
            let watch = Watch::begin();
            let figure = run()?;
            let disturbed = watch.end();
            if disturbed.is_none() || repeats == REPEATS {
                self.disturbed.set(self.disturbed.get().max(disturbed));
                return Ok(figure);
            }
            repeats += 1;
        }
    }
}

/// The mean of some figures without the highest and the lowest quarter.
fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let outside = figures.len() / 4;
    let inside = &figures[outside..figures.len() - outside];
    inside.iter().sum::<f64>() / inside.len() as f64
}

fn figure(probe: &Probe, report: &Report) -> Result<f64, Failure> {
    (probe.figure)(report)
        .ok_or_else(|| Failure::Refused("calibrate: a probe did not run".to_owned()))
}

/// The task of this name in a probe's report.
pub(super) fn task<'r>(report: &'r Report, name: &str) -> Option<&'r TaskReport> {
    report.tasks.iter().find(|task| task.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_counts() {
        assert_eq!(middle(vec![900.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(middle(vec![5.0]), 5.0);
        assert_eq!(middle(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 900.0]), 4.0);
    }
}
