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

use crate::claims::Claim;
use crate::figure::rounded;
use crate::quiet::{Course, Tried};
use crate::rows::{self, Row, Sides};
use crate::setting::Setting;
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
    pub(crate) loops: u32,
}

/// The program whose price has a bound.
pub(crate) const BOUND: &str = "a build";

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

/// The CPU times of all programs on one side, without the mechanism or with it: for each program those of its turns.
type Side = Vec<Vec<Nanos>>;

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
    let sides = course.once("the price", TAKES, || both_sides(experiment, cpus))?;
    Ok(rows::claims(&rows(), &sides.map(|side| vec![Tried::quiet(side)])))
}

fn both_sides(experiment: Experiment, cpus: usize) -> Result<[Side; 2], Failure> {
    let mut sides = [Side::new(), Side::new()];
    for scenario in all_programs(experiment, cpus)? {
        let turns = (0..TURNS).map(|turn| turn_of(&scenario, experiment, cpus, turn));
        let turns = turns.collect::<Result<Vec<_>, _>>()?;
        for (nth, side) in sides.iter_mut().enumerate() {
            side.push(turns.iter().map(|turn| turn[nth]).collect());
        }
    }
    Ok(sides)
}

/// The rows about each of [`all_programs`]: the median CPU time, and the extremes of the ratio.
fn rows() -> Vec<Row<Side>> {
    let [hackbench, ring, build] = Program::ALL.map(|program| program.name);
    let names = [("unused", hackbench), ("unused", ring), ("unused", build), ("used", hackbench)];
    let of = |(at, (used, program)): (usize, (&str, &str))| {
        let name = format!("price {used}, {program}");
        let median = Row::new("CPU time", "ms", move |runs: &[&Side]| {
            let mut times = runs[0][at].clone();
            times.sort_unstable();
            rounded(times[times.len() / 2].0 as f64 / 1e6, 2)
        });
        let median = match (used, program) {
            ("unused", BOUND) => median.holds(|off, on| on <= off * MOST),
            _ => median,
        };
        let ratio = Row::beside(
            "on to off, least and largest",
            "",
            move |sides: &Sides<'_, Side>, largest| {
                let [off, on] = [0, 1].map(|side: usize| sides[side][0][at].iter());
                let mut ratios: Vec<_> =
                    off.zip(on).map(|(off, on)| on.0 as f64 / off.0.max(1) as f64).collect();
                ratios.sort_by(f64::total_cmp);
                Some(rounded(if largest == 0 { ratios[0] } else { ratios[ratios.len() - 1] }, 3))
            },
        );
        [median.below(&name), ratio.below(&name)]
    };
    names.into_iter().enumerate().flat_map(of).collect()
}

/// The programs of an experiment: all of [`Program::ALL`], and the first beside users of the mechanism. Only there does
/// anything of the mechanism exist.
fn all_programs(experiment: Experiment, cpus: usize) -> Result<Vec<Scenario>, Failure> {
    let unused = Program::ALL.map(|program| scenario(&program.tasks(1), "", cpus));
    let groups = if experiment == Experiment::HardLimits { LIMITED } else { "" };
    let tasks = format!("{}, {}", Program::ALL[0].tasks(1), user(experiment));
    unused.into_iter().chain([scenario(&tasks, groups, cpus)]).collect()
}

/// A scenario of these tasks and task groups.
pub(crate) fn scenario(tasks: &str, groups: &str, cpus: usize) -> Result<Scenario, Failure> {
    setting(tasks, groups, cpus).scenario()
}

/// A setting of these tasks and task groups.
pub(crate) fn setting(tasks: &str, groups: &str, cpus: usize) -> Setting {
    let text =
        format!("{{'machine': {{'cpus': {cpus}}}, 'groups': {{{groups}}}, 'tasks': {{{tasks}}}}}");
    Setting::of("price.json", &text)
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use runyard_engine::kernel::Kernel;

    /// The names of some rows and of those about the price, for the page that has them.
    pub(crate) fn with<S>(some: &[Row<S>]) -> Vec<String> {
        let some = some.iter().map(|row| row.what().to_owned());
        some.chain(rows().iter().map(|row| row.what().to_owned())).collect()
    }

    #[test]
    fn a_visible_price_fails_where_nobody_uses_the_mechanism() {
        let side = |us| vec![Tried::quiet(vec![vec![Nanos::from_micros(us); TURNS as usize]; 4])];
        let failed =
            |on| crate::claims::tests::failed(rows::claims(&rows(), &[side(1_000), side(on)]));
        assert_eq!(failed(1_020), [""; 0]);
        assert_eq!(failed(1_300), ["price unused, a build: CPU time"]);
    }

    #[test]
    fn each_mechanism_has_programs_that_run_and_end_and_limits_only_where_they_are_used() {
        let documents = Kernel::ALL.into_iter().filter_map(|kernel| match kernel {
            Kernel::Experiment(document) => Some(document),
            _ => None,
        });
        for document in documents {
            for (nth, scenario) in all_programs(document, 2).unwrap().into_iter().enumerate() {
                let [off, on] = turn_of(&scenario, document, 2, 0).unwrap();
                assert!(off > Nanos::ZERO && on > Nanos::ZERO);
                let limited = scenario.groups.iter().any(|group| group.spec.limit.is_some());
                assert_eq!(limited, document == Experiment::HardLimits && nth == 3, "{document:?}");
            }
        }
    }
}
