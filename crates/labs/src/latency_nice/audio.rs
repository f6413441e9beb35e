//! The ALSA latency test beside hackbench: a player that refills a buffer, period by period, before it runs dry.
//!
//! The buffer has two periods. When one of them was played, the other is left. Within that time the player has to wake
//! up and compute the next period; otherwise it has an underrun. The player wants 3 % of a CPU, and each of the 160
//! tasks of four groups of hackbench could have 5 %. So the player is owed everything that it asks for. Only the length
//! of the period had to be chosen: the longest wait at 0 is 1 ms beside so many tasks, and with a longer period than 64
//! frames at 96 kHz there is no underrun.

use super::cyclictest::Stretch;
use super::hackbench::Hackbench;
use super::rounds::Rounds;
use super::shipped::{CYCLICTEST, shipped, simulate};
use crate::claims::{Claim, ClaimVerdict};
use runyard_engine::attr::{LatencyNice, Nice, Policy};
use runyard_engine::kernel::Model;
use runyard_engine::task::TaskId;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Step, TimerMode, TimerRef};

/// 64 frames at 96 kHz.
const PERIOD: Nanos = Nanos(666_667);

/// The computing time of a period.
const WORK: Draw = Draw::Uniform(Nanos::from_micros(15), Nanos::from_micros(25));

/// The nice value of the player, and the number of groups beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    nice: i64,
    groups: u32,
}

/// The compared points of the map. At the first a task of hackbench could have 5 % of a CPU, and the player wants 3 %. At the
/// other it could have 1.25 %, and the player's weight makes 11 % of that.
pub(super) const POINTS: [Point; 2] =
    [Point { nice: 0, groups: 4 }, Point { nice: -10, groups: 16 }];

/// As for cyclictest, but longer, since underruns are rare.
const STRETCH: Stretch =
    Stretch { settle: Nanos::from_millis(500), counted: Nanos::from_millis(3_500) };

/// The least part of the periods in which the player has an underrun at 0, in per cent.
const LEAST_BEFORE: f64 = 0.1;

fn scenario(point: Point, latency_nice: LatencyNice) -> Scenario {
    let mut scenario = shipped();
    scenario.tasks.truncate(CYCLICTEST.index() + 1);
    scenario.objects.pipes.clear();
    let player = &mut scenario.tasks[CYCLICTEST.index()];
    (player.name, player.instances) = ("player".to_owned(), 1);
    let nice = Nice::new(point.nice).expect("it is in range");
    player.properties.policy = Some(Policy::Normal(nice));
    player.properties.latency_nice = Some(latency_nice);
    let (timer, period) = (TimerRef::Unique(0), Draw::Fixed(PERIOD));
    let wait = Step::Timer { timer, period, mode: TimerMode::Absolute };
    player.phases[0].steps = [wait, Step::Run(WORK)].into();
    Hackbench { groups: point.groups, loops: None }.add_to(&mut scenario);
    scenario.duration = Some(STRETCH.end());
    scenario
}

/// The periods of the run at this point with this seed.
pub(super) fn run(
    model: Model,
    (point, latency_nice): (Point, LatencyNice),
    seed: u64,
) -> Result<Rounds, Failure> {
    let rounds = Rounds::new(PERIOD, PERIOD, STRETCH.from());
    let mut scenario = scenario(point, latency_nice);
    scenario.use_model(model);
    let rounds = simulate(&scenario, seed, TaskId(0), vec![rounds], |_| ())?;
    Ok(Rounds::sum(rounds).expect("there is a player"))
}

/// The claims about the runs at each of [`POINTS`], at latency nice 0 and at -20.
pub(super) fn claims([tuned, heavy]: &[[Rounds; 2]; 2]) -> [Claim; 2] {
    let why = "the audio period, the longest with an underrun at 0";
    let four = "audio periods of 0.667 ms beside 4 groups of hackbench: underruns";
    let sixteen = "audio periods of 0.667 ms at nice -10 beside 16 groups of hackbench: underruns";
    [
        underruns(four, tuned, |holds| ClaimVerdict::fitted(holds, why)),
        underruns(sixteen, heavy, ClaimVerdict::of),
    ]
}

fn underruns(what: &str, rounds: &[Rounds; 2], verdict: impl Fn(bool) -> ClaimVerdict) -> Claim {
    let [before, after] = rounds.each_ref().map(Rounds::late_percent);
    let holds = before >= LEAST_BEFORE && rounds[1].late == 0 && rounds[1].done > 0;
    Claim::of(what, "%", [Some(before), Some(after)], verdict(holds)).beside([None, Some(0.0)])
}
