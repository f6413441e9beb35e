//! The price of a mechanism on this machine's CPUs: the CPU time of three programs with the mechanism off and on.
//!
//! The documents promise "practically no" and no "visible" overhead. Three programs have the shapes of their
//! benchmarks: hackbench (groups of senders and receivers), a ring that passes a token (lat_ctx), and a build (tasks that
//! live shortly). No task of theirs uses a mechanism; that is *unused*. A fourth run has hackbench beside a task that
//! uses the mechanism, and beside the same task without it; that is *used*.
//!
//! The sides run in turns in one process, and each other turn begins with the other side, so whatever the machine does
//! meets both. The figure is the CPU time of the process, which stands still while others have the CPUs. It has the
//! start of a runtime and the interpreter of the programs in it, the same on both sides. They dilute a difference, so
//! the instructions of single operations are measured elsewhere (`cargo xtask instructions overhead`).

use crate::claims::{Claim, ClaimVerdict};
use crate::figure::Figure;
use crate::quiet::Course;
use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::time::Nanos;
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::live;
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex};
use runyard_outcome::Failure;
use runyard_workload::{Overrides, Scenario, parse};
use std::fmt::Write as _;
use std::time::Duration;

/// The number of turns of each program and side.
const TURNS: u32 = 9;

/// The time that a price takes on two CPUs.
pub(crate) const TAKES: Duration = Duration::from_millis(2_200);

/// The largest ratio of the median CPU times, on to off, where nobody uses the mechanism. The median of the turns moves
/// by some per cent on a machine with other work. A mechanism that costs a quarter of such a program is visible.
/// The other two programs have no bound: how many messages a task finds when it runs, and on which CPU the next task of
/// the ring is, is chance. With that their switches vary, so one turn may take twice as long as another on one side.
const MOST: f64 = 1.25;

const HACKBENCH: &str = "
    'sender': {'instance': 4, 'loop': 200, 'send': {'ref': 'pipe', 'bytes': 100, 'capacity': 2000}},
    'receiver': {'instance': 4, 'loop': 200, 'recv': {'ref': 'pipe', 'bytes': 100, 'capacity': 2000}},
    'sender2': {'instance': 4, 'loop': 200, 'send': {'ref': 'pipe2', 'bytes': 100, 'capacity': 2000}},
    'receiver2': {'instance': 4, 'loop': 200, 'recv': {'ref': 'pipe2', 'bytes': 100, 'capacity': 2000}}";

const RING: &str = "
    'first': {'loop': 300, 'send': {'ref': 'a', 'bytes': 1}, 'recv': {'ref': 'd', 'bytes': 1}},
    'second': {'loop': 300, 'recv': {'ref': 'a', 'bytes': 1}, 'send': {'ref': 'b', 'bytes': 1}},
    'third': {'loop': 300, 'recv': {'ref': 'b', 'bytes': 1}, 'send': {'ref': 'c', 'bytes': 1}},
    'fourth': {'loop': 300, 'recv': {'ref': 'c', 'bytes': 1}, 'send': {'ref': 'd', 'bytes': 1}}";

const BUILD: &str = "
    'make': {'instance': 2, 'loop': 40, 'fork': 'compiler', 'run': 20, 'sleep': 100},
    'compiler': {'instance': 0, 'loop': 1, 'run': 200}";

/// The program whose price has a bound.
const BOUND: &str = "a build";

/// The programs.
const PROGRAMS: [(&str, &str); 3] = [("hackbench", HACKBENCH), ("a ring", RING), (BOUND, BUILD)];

/// A task that uses the mechanism.
fn user(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::RtMigrate => {
            "'user': {'instance': 3, 'policy': 'SCHED_FIFO', 'priority': 5, 'loop': 10, 'run': 50, 'sleep': 500}"
        }
        Experiment::IdleBalance => {
            "'user': {'instance': 3, 'policy': 'SCHED_IDLE', 'loop': 10, 'run': 200, 'sleep': 100}"
        }
        Experiment::LatencyNice => {
            "'user': {'instance': 3, 'latency_nice': -20, 'loop': 10, 'run': 50, 'sleep': 500}"
        }
        Experiment::HardLimits => {
            "'user': {'instance': 3, 'group': '/limited', 'loop': 10, 'run': 50, 'sleep': 500}"
        }
        Experiment::GreedyTimers => {
            "'user': {'instance': 3, 'timer_slack': 10000, 'loop': 10, 'run': 50, 'sleep': 500}"
        }
    }
}

/// The results of the turns of a program.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    what: String,
    /// The CPU times without the mechanism and with it, turn by turn.
    times: Vec<[Nanos; 2]>,
    /// Whether the ratio of the medians has a bound.
    has_bound: bool,
}

/// Measures the price of an experiment's mechanism, as a part of its course that lasts [`TAKES`].
///
/// # Errors
/// If the machine refuses something.
pub(crate) fn measured(
    experiment: Experiment,
    cpus: usize,
    course: &mut Course<'_>,
) -> Result<Vec<Sides>, Failure> {
    course.once("the price", TAKES, || all_sides(experiment, cpus))
}

fn all_sides(experiment: Experiment, cpus: usize) -> Result<Vec<Sides>, Failure> {
    let mut all: Vec<_> = PROGRAMS
        .iter()
        .map(|&(name, tasks)| {
            let has_bound = name == BOUND;
            (format!("unused, {name}"), scenario(tasks, cpus), has_bound)
        })
        .collect();
    let tasks = format!("{HACKBENCH}, {}", user(experiment));
    all.push(("used, hackbench".to_owned(), scenario(&tasks, cpus), false));
    let mut sides = Vec::new();
    for (what, scenario, has_bound) in all {
        let scenario = scenario?;
        let times = (0..TURNS).map(|turn| turn_of(&scenario, experiment, cpus, turn));
        let times = times.collect::<Result<_, _>>()?;
        sides.push(Sides { what, times, has_bound });
    }
    Ok(sides)
}

fn scenario(tasks: &str, cpus: usize) -> Result<Scenario, Failure> {
    let text = format!(
        "{{'machine': {{'cpus': {cpus}}}, 'groups': {{'/limited': {{'runtime': 90000, 'period': 100000}}}}, \
         'tasks': {{{tasks}}}}}"
    );
    let parsed = parse("price.json", &text, &Overrides::default()).map_err(Failure::input)?;
    Ok(parsed.scenario)
}

/// The CPU times of one turn, without the mechanism and with it.
fn turn_of(
    scenario: &Scenario,
    experiment: Experiment,
    cpus: usize,
    turn: u32,
) -> Result<[Nanos; 2], Failure> {
    let models = [experiment.before(), Model::default()];
    let mut times = [Nanos::ZERO; 2];
    let order = if turn.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    for side in order {
        let mut scenario = scenario.clone();
        scenario.use_model(models[side]);
        let before = process_cpu_time();
        live::run(Plan::new(scenario, u64::from(turn)), cpus, Arc::new(Mutex::new(())))?;
        times[side] = process_cpu_time() - before;
    }
    Ok(times)
}

impl Sides {
    /// The median CPU time of a side, in milliseconds, to a hundredth.
    fn median(&self, side: usize) -> f64 {
        let mut times: Vec<_> = self.times.iter().map(|turn| turn[side]).collect();
        times.sort_unstable();
        (times[times.len() / 2].0 as f64 / 1e4).round() / 100.0
    }

    /// The ratios of the turns, on to off, from the least to the largest.
    fn ratios(&self) -> Vec<f64> {
        let ratio = |[off, on]: &[Nanos; 2]| on.0 as f64 / off.0.max(1) as f64;
        let mut ratios: Vec<_> = self.times.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    fn claims(&self) -> [Claim; 2] {
        let [off, on] = [0, 1].map(|side| self.median(side));
        let verdict = match self.has_bound {
            true => ClaimVerdict::of(on <= off * MOST),
            false => ClaimVerdict::Shown,
        };
        let claim = |what: &str, unit, [before, after]: [f64; 2], verdict| {
            let what = format!("price {}: {what}", self.what);
            Figure { what: &what, unit, before: None, after: None }.claim(
                Some(before),
                Some(after),
                verdict,
            )
        };
        let ratios = self.ratios().into_iter().map(|ratio| (ratio * 1e3).round() / 1e3);
        let ratios: Vec<_> = ratios.collect();
        let range = [ratios[0], ratios[ratios.len() - 1]];
        [
            claim("CPU time", "ms", [off, on], verdict),
            claim("on to off, least and largest", "", range, ClaimVerdict::Shown),
        ]
    }
}

/// The claims about a price.
pub(crate) fn claims(sides: &[Sides]) -> Vec<Claim> {
    sides.iter().flat_map(Sides::claims).collect()
}

/// The ratios for a person.
pub(crate) fn text(sides: &[Sides]) -> String {
    let mut text = format!("price: CPU time, on to off, of {TURNS} turns\n");
    for side in sides {
        let ratios = side.ratios();
        let (least, median, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
        let _ =
            writeln!(text, "{:<20}  median {median:.3}, from {least:.3} to {most:.3}", side.what);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Sides of which the second takes so many per cent of the first.
    fn sides(percent: u64) -> Vec<Sides> {
        let of = |(what, has_bound): (String, bool)| {
            let times =
                (1..=u64::from(TURNS)).map(|it| [Nanos(it * 100_000), Nanos(it * percent * 1_000)]);
            Sides { what, times: times.collect(), has_bound }
        };
        let unused = PROGRAMS.map(|(name, _)| (format!("unused, {name}"), name == BOUND));
        unused.into_iter().chain([("used, hackbench".to_owned(), false)]).map(of).collect()
    }

    /// The claims, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        claims(&sides(100))
    }

    #[test]
    fn a_visible_price_fails_where_nobody_uses_the_mechanism() {
        let failed = |percent| {
            let claims = claims(&sides(percent)).into_iter();
            claims.filter(|claim| claim.verdict.fails()).map(|claim| claim.what).collect::<Vec<_>>()
        };
        assert_eq!(failed(102), [""; 0]);
        assert_eq!(failed(130), ["price unused, a build: CPU time"]);
    }

    #[test]
    fn each_mechanism_has_programs_that_run_and_end() {
        for experiment in [
            Experiment::RtMigrate,
            Experiment::IdleBalance,
            Experiment::LatencyNice,
            Experiment::HardLimits,
            Experiment::GreedyTimers,
        ] {
            let tasks = format!("{HACKBENCH}, {}", user(experiment));
            for tasks in PROGRAMS.map(|(_, tasks)| tasks.to_owned()).into_iter().chain([tasks]) {
                let scenario = scenario(&tasks, 2).unwrap();
                let [off, on] = turn_of(&scenario, experiment, 2, 0).unwrap();
                assert!(off > Nanos::ZERO && on > Nanos::ZERO);
            }
        }
    }
}
