//! The price of a mechanism on this machine's CPUs: the CPU time of three programs with the mechanism off and on.
//!
//! The documents promise "practically no" and no "visible" overhead. Three programs have the shapes of their
//! benchmarks: hackbench (groups of senders and receivers), a ring that passes a token (lat_ctx), and a build (tasks that
//! live shortly). Nothing of theirs uses a mechanism; that is *unused*. A fourth run has hackbench beside a task that
//! uses the mechanism, and beside the same task without it; that is *used*.
//!
//! The sides run in turns in one process, and each other turn begins with the other side, so whatever the machine does
//! meets both. The figure is the CPU time of the process, which stands still while others have the CPUs. It has the
//! start of a runtime and the interpreter of the programs in it, the same on both sides. They dilute a difference, so
//! instructions are measured elsewhere: of single operations (`cargo xtask instructions overhead`), and of whole programs
//! of these shapes (`cargo xtask instructions programs`).

use crate::claims::{Claim, ClaimVerdict};
use crate::figure::rounded;
use crate::quiet::Course;
use crate::virtual_time;
use runyard_engine::kernel::{Experiment, Model};
use runyard_engine::time::Nanos;
use runyard_hosts::clock::process_cpu_time;
use runyard_hosts::live;
use runyard_hosts::play::Plan;
use runyard_hosts::sync::{Arc, Mutex};
use runyard_outcome::Failure;
use runyard_workload::Scenario;
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

/// A program of tasks. Its text has `LOOPS` for the number of rounds of each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    text: &'static str,
    /// The number of rounds for the price.
    loops: u32,
}

/// The program whose price has a bound.
const BOUND: &str = "a build";

impl Program {
    /// All programs. The first one also runs beside users of the mechanism.
    pub(crate) const ALL: [Program; 3] = [
        Program {
            name: "hackbench",
            text: "
    'sender': {'instance': 4, 'loop': LOOPS, 'send': {'ref': 'pipe', 'bytes': 100, 'capacity': 2000}},
    'receiver': {'instance': 4, 'loop': LOOPS, 'recv': {'ref': 'pipe', 'bytes': 100, 'capacity': 2000}},
    'sender2': {'instance': 4, 'loop': LOOPS, 'send': {'ref': 'pipe2', 'bytes': 100, 'capacity': 2000}},
    'receiver2': {'instance': 4, 'loop': LOOPS, 'recv': {'ref': 'pipe2', 'bytes': 100, 'capacity': 2000}}",
            loops: 200,
        },
        Program {
            name: "a ring",
            text: "
    'first': {'loop': LOOPS, 'send': {'ref': 'a', 'bytes': 1}, 'recv': {'ref': 'd', 'bytes': 1}},
    'second': {'loop': LOOPS, 'recv': {'ref': 'a', 'bytes': 1}, 'send': {'ref': 'b', 'bytes': 1}},
    'third': {'loop': LOOPS, 'recv': {'ref': 'b', 'bytes': 1}, 'send': {'ref': 'c', 'bytes': 1}},
    'fourth': {'loop': LOOPS, 'recv': {'ref': 'c', 'bytes': 1}, 'send': {'ref': 'd', 'bytes': 1}}",
            loops: 300,
        },
        Program {
            name: BOUND,
            text: "
    'make': {'instance': 2, 'loop': LOOPS, 'fork': 'compiler', 'run': 20, 'sleep': 100},
    'compiler': {'instance': 0, 'loop': 1, 'run': 200}",
            loops: 40,
        },
    ];

    /// The tasks of `times` as many rounds.
    pub(crate) fn tasks(self, times: u32) -> String {
        self.text.replace("LOOPS", &(times * self.loops).to_string())
    }
}

/// The task group of the users of hard limits.
const LIMITED: &str = "'/limited': {'runtime': 90000, 'period': 100000}";

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
struct Sides {
    what: String,
    /// The CPU times without the mechanism and with it, turn by turn.
    times: Vec<[Nanos; 2]>,
    /// Whether the ratio of the medians has a bound.
    has_bound: bool,
}

/// Measures the price of an experiment's mechanism, as a part of its course that lasts [`TAKES`], and returns the claims
/// about it.
///
/// # Errors
/// If the machine refuses something.
pub(crate) fn measured(
    experiment: Experiment,
    cpus: usize,
    course: &mut Course<'_>,
) -> Result<Vec<Claim>, Failure> {
    Ok(claims(&course.once("the price", TAKES, || all_sides(experiment, cpus))?))
}

fn all_sides(experiment: Experiment, cpus: usize) -> Result<Vec<Sides>, Failure> {
    let sides = |(what, scenario): (String, Scenario)| {
        let times = (0..TURNS).map(|turn| turn_of(&scenario, experiment, cpus, turn));
        let times = times.collect::<Result<_, _>>()?;
        Ok(Sides { has_bound: has_bound(&what), what, times })
    };
    all_programs(experiment, cpus)?.into_iter().map(sides).collect()
}

/// The programs of an experiment, with their names in claims. Only where the mechanism is used does anything of it exist.
fn all_programs(experiment: Experiment, cpus: usize) -> Result<Vec<(String, Scenario)>, Failure> {
    let mut all = Vec::new();
    for program in Program::ALL {
        all.push((format!("unused, {}", program.name), scenario(&program.tasks(1), "", cpus)?));
    }
    let [first, ..] = Program::ALL;
    let groups = if experiment == Experiment::HardLimits { LIMITED } else { "" };
    let tasks = format!("{}, {}", first.tasks(1), user(experiment));
    all.push((format!("used, {}", first.name), scenario(&tasks, groups, cpus)?));
    Ok(all)
}

/// Whether the price of this name has a bound.
fn has_bound(what: &str) -> bool {
    what.strip_prefix("unused, ") == Some(BOUND)
}

/// A scenario of these tasks and task groups.
pub(crate) fn scenario(tasks: &str, groups: &str, cpus: usize) -> Result<Scenario, Failure> {
    let text =
        format!("{{'machine': {{'cpus': {cpus}}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}");
    virtual_time::scenario("price.json", &text)
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
        rounded(times[times.len() / 2].0 as f64 / 1e6, 2)
    }

    fn claims(&self) -> [Claim; 2] {
        let [off, on] = [0, 1].map(|side| self.median(side));
        let verdict = match self.has_bound {
            true => ClaimVerdict::of(on <= off * MOST),
            false => ClaimVerdict::Shown,
        };
        let claim = |what: &str, unit, [before, after]: [f64; 2], verdict| {
            let what = format!("price {}: {what}", self.what);
            Claim::of(what, unit, [Some(before), Some(after)], verdict)
        };
        let ratio = |[off, on]: &[Nanos; 2]| on.0 as f64 / off.0.max(1) as f64;
        let mut ratios: Vec<_> = self.times.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let range = [ratios[0], ratios[ratios.len() - 1]].map(|ratio| rounded(ratio, 3));
        [
            claim("CPU time", "ms", [off, on], verdict),
            claim("on to off, least and largest", "", range, ClaimVerdict::Shown),
        ]
    }
}

/// The claims about a price.
fn claims(sides: &[Sides]) -> Vec<Claim> {
    sides.iter().flat_map(Sides::claims).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ALL: [Experiment; 5] = [
        Experiment::RtMigrate,
        Experiment::IdleBalance,
        Experiment::LatencyNice,
        Experiment::HardLimits,
        Experiment::GreedyTimers,
    ];

    /// Sides of which the second takes so many per cent of the first.
    fn sides(percent: u64) -> Vec<Sides> {
        let of = |(what, _): (String, Scenario)| {
            let times =
                (1..=u64::from(TURNS)).map(|it| [Nanos(it * 100_000), Nanos(it * percent * 1_000)]);
            Sides { has_bound: has_bound(&what), what, times: times.collect() }
        };
        all_programs(Experiment::HardLimits, 2).unwrap().into_iter().map(of).collect()
    }

    /// The claims, for the page that names them.
    pub(crate) fn named() -> Vec<Claim> {
        claims(&sides(100))
    }

    #[test]
    fn a_visible_price_fails_where_nobody_uses_the_mechanism() {
        let failed = |percent| crate::claims::tests::failed(claims(&sides(percent)));
        assert_eq!(failed(102), [""; 0]);
        assert_eq!(failed(130), ["price unused, a build: CPU time"]);
    }

    #[test]
    fn each_mechanism_has_programs_that_run_and_end() {
        for experiment in ALL {
            for (_, scenario) in all_programs(experiment, 2).unwrap() {
                let [off, on] = turn_of(&scenario, experiment, 2, 0).unwrap();
                assert!(off > Nanos::ZERO && on > Nanos::ZERO);
            }
        }
    }

    #[test]
    fn a_limit_is_only_where_limits_are_used() {
        for experiment in ALL {
            for (what, scenario) in all_programs(experiment, 2).unwrap() {
                let limited = scenario.groups.iter().any(|group| group.spec.limit.is_some());
                let used = experiment == Experiment::HardLimits && what.starts_with("used");
                assert_eq!(limited, used, "{experiment:?}, {what}");
            }
        }
    }
}
