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
use crate::figure::Figure;
use runyard_engine::attr::LatencyNice;
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

/// The number of groups. Their tasks leave the player more than it wants.
const GROUPS: u32 = 4;

/// The counted part of a run: as for cyclictest, but longer, since underruns are rare.
const STRETCH: Stretch =
    Stretch { settle: Nanos::from_millis(500), counted: Nanos::from_millis(3_500) };

/// The least part of the periods in which the player has an underrun at 0, in per cent.
const LEAST_BEFORE: f64 = 0.1;

fn scenario(latency_nice: LatencyNice) -> Scenario {
    let mut scenario = shipped();
    scenario.tasks.truncate(CYCLICTEST.index() + 1);
    scenario.objects.pipes.clear();
    let player = &mut scenario.tasks[CYCLICTEST.index()];
    (player.name, player.instances) = ("player".to_owned(), 1);
    player.properties.latency_nice = Some(latency_nice);
    let (timer, period) = (TimerRef::Unique(0), Draw::Fixed(PERIOD));
    let wait = Step::Timer { timer, period, mode: TimerMode::Absolute };
    player.phases[0].steps = [wait, Step::Run(WORK)].into();
    Hackbench { groups: GROUPS, loops: None }.add_to(&mut scenario);
    scenario.duration = Some(STRETCH.end());
    scenario
}

/// The periods of the run with this seed.
pub(super) fn run(model: Model, latency_nice: LatencyNice, seed: u64) -> Result<Rounds, Failure> {
    let rounds = Rounds::new(PERIOD, PERIOD, STRETCH.from());
    let mut scenario = scenario(latency_nice);
    scenario.use_model(model);
    let rounds = simulate(&scenario, seed, TaskId(0), vec![rounds], |_| ())?;
    Ok(Rounds::sum(rounds).expect("there is a player"))
}

pub(super) fn claim(before: &Rounds, after: &Rounds) -> Claim {
    let underruns = [before, after].map(Rounds::late_percent);
    let holds = underruns[0] >= LEAST_BEFORE && after.late == 0 && after.done > 0;
    let what = "audio periods of 0.667 ms beside 4 groups of hackbench: underruns";
    let figure = Figure { what, unit: "%", before: None, after: Some(0.0) };
    let verdict =
        ClaimVerdict::fitted(holds, "the audio period, the longest with an underrun at 0");
    figure.claim(Some(underruns[0]), Some(underruns[1]), verdict)
}
