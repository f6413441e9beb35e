//! The warning about constant times that lock to the tick.
//!
//! A task that works and sleeps for constant times, with a round that fits a tick, begins each round at the phase of the
//! tick at which the last began, unless the machine's costs spread. Its share then depends on the seed. A timer with a
//! period keeps its phase on a real machine too, and a task alone has no competitor, so neither is told.

use super::tasks::Task;
use super::warnings::Warnings;
use crate::diagnostic::quoted;
use crate::draw::Draw;
use crate::scenario::{Costs, MachineSpec, Step};
use runyard_engine::time::Nanos;

/// The least `timer_spread_ns` that unlocks 2 ms of work and 2 ms of sleep beside a hog at 250 Hz: ten seeds each have
/// 33.3 to 35.0 %, and 33.3 or 46.8 with 300.
const SPREAD: Nanos = Nanos(1_000);

/// The same of `jitter_ns`. With 2,000 two of eight seeds have left the lock.
const JITTER: Nanos = Nanos(5_000);

/// The largest number of ticks in a round, or of rounds in a tick, that is told. Longer cycles meet other disturbances.
const MOST: u64 = 8;

/// The part of a tick by which a round may miss a number of ticks: 1998 us of work lock, and so do 2002.
const NEAR: u64 = 400;

pub(super) fn warn(tasks: &[Task], machine: &MachineSpec, warnings: &mut Warnings) {
    let Costs { jitter, timer_spread, .. } = machine.costs;
    let alone = tasks.iter().map(|task| u64::from(task.spec.instances)).sum::<u64>() < 2;
    if alone || timer_spread >= SPREAD || jitter >= JITTER {
        return;
    }
    let tick = 1_000_000_000 / u64::from(machine.tick_hz);
    for task in tasks {
        let Some(round) = round(task).filter(|round| fits(round.0, tick)) else { continue };
        let what = format!(
            "the rounds of {} take {} us and fit the tick of {} us, so they may lock to it and the shares may depend on \
             the seed: remove `jitter_ns`, or draw a time, as {{\"uniform\": [a, b]}}",
            quoted(&task.spec.name),
            round.0 / 1_000,
            tick / 1_000
        );
        warnings.instead(task.at as usize, what);
    }
}

/// Returns the constant length of a task's rounds, if it works and sleeps again and again and does nothing else.
fn round(task: &Task) -> Option<Nanos> {
    let spec = &task.spec;
    let [phase] = &spec.phases[..] else { return None };
    let again = spec.loops != Some(1) || phase.loops != Some(1);
    let (mut work, mut sleep) = (Nanos::ZERO, Nanos::ZERO);
    for step in phase.steps.iter() {
        match step {
            Step::Run(Draw::Fixed(span)) | Step::Runtime(Draw::Fixed(span)) => work += span,
            Step::Sleep(Draw::Fixed(span)) => sleep += span,
            _ => return None,
        }
    }
    (again && work > Nanos::ZERO && sleep > Nanos::ZERO).then_some(work + sleep)
}

/// Returns whether a few rounds take a tick, or a few ticks a round, nearly.
fn fits(round: u64, tick: u64) -> bool {
    let (short, long) = (round.min(tick), round.max(tick));
    let times = (long + short / 2) / short;
    times <= MOST && long.abs_diff(times * short) <= tick / NEAR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_a_few_ticks_and_a_part_of_one_fit() {
        let fitting =
            [4_000_000, 3_998_000, 4_002_000, 8_000_000, 12_000_000, 2_000_000, 1_000_000];
        assert!(fitting.into_iter().all(|round| fits(round, 4_000_000)));
        let others = [4_100_000, 3_000_000, 5_700_000, 1_000, 400_000_000, 6_000_000];
        assert!(!others.into_iter().any(|round| fits(round, 4_000_000)));
    }
}
