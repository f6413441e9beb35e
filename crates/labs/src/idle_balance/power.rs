//! Power savings, which the document leaves for later: with `POWER_SAVINGS` no CPU is woken from a deep sleep for
//! SCHED_IDLE work.
//!
//! On the document's machine 24 SCHED_IDLE tasks compute for 2 ms of each 16 ms, three CPUs' worth. Each would have an
//! idle CPU at once. With power savings they stay on the CPUs that are awake, here one, and do less.

use super::case::Case;
use crate::claims::{Claim, ClaimVerdict};
use crate::figure::percent;
use crate::usage::{SECOND, Usage, Used};
use crate::virtual_time::simulate;
use runyard_engine::features::{Feature, Features};
use runyard_engine::kernel::Model;
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Step, TimerMode, TimerRef};

const CASE: Case = Case { normal: 0, seconds: 5, ..Case::DOCUMENTS };

/// The number of tasks, their period and the time that they compute in it.
const TASKS: u32 = 24;
const PERIOD: Nanos = Nanos::from_millis(16);
const WORK: Nanos = Nanos::from_millis(2);

/// The largest part of the exits from idle that may be left.
const MOST_LEFT: f64 = 0.9;

/// The use of the CPUs without power savings and with them.
pub(super) fn pair() -> Result<[Used; 2], Failure> {
    let all = Features::default();
    Ok([run(all)?, run(all.with(Feature::PowerSavings))?])
}

fn run(features: Features) -> Result<Used, Failure> {
    let mut scenario = CASE.scenario(Model::default())?;
    scenario.features = features;
    let soakers = &mut scenario.tasks[0];
    soakers.instances = TASKS;
    soakers.delay = Draw::Uniform(Nanos::ZERO, PERIOD);
    let (timer, period) = (TimerRef::Unique(0), Draw::Fixed(PERIOD));
    let wait = Step::Timer { timer, period, mode: TimerMode::Absolute };
    soakers.phases[0].steps = [wait, Step::Run(Draw::Fixed(WORK))].into();
    let mut usage = Usage::new(CASE.window(), SECOND, CASE.cpus() as usize);
    simulate(&scenario, 0, &mut usage)?;
    Ok(usage.finish(CASE.window().end))
}

/// The claims about the exits from idle, and about the work that is done meanwhile.
pub(super) fn claims([without, with]: &[Used; 2]) -> [Claim; 2] {
    let claim = |what: &str, unit: &str, [before, after]: [f64; 2], verdict| {
        let what = format!("16 CPUs, 24 tasks that use 3, POWER_SAVINGS: {what}");
        Claim::of(what, unit, [Some(before), Some(after)], verdict)
    };
    let exits = [without, with].map(|used| used.per_second(used.sum().idle_exits));
    let fewer = ClaimVerdict::of(exits[1] <= exits[0] * MOST_LEFT);
    let busy = [without, with].map(|used| percent(used.sum().busy()));
    [claim("exits from idle", "1/s", exits, fewer), claim("busy", "%", busy, ClaimVerdict::Shown)]
}
