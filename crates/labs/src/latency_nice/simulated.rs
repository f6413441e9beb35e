//! The experiments in virtual time: with latency nice and without.

use super::cyclictest::{self, CYCLICTEST, took};
use super::hackbench::{self, Hackbench};
use super::{cores, patches};
use crate::figure::rounded;
use crate::length::Length;
use crate::rows::{Row, Word};
use crate::setting::{Part, Seen, Setting, Simulated};
use crate::took::{Requests, Took};
use runyard_engine::kernel::Experiment;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::draw::Draw;
use runyard_workload::scenario::{Step, TimerMode, TimerRef};

/// The number of runs of each part that are counted together, and the same with `--soak`.
const SEEDS: u64 = 2;
const SOAK_SEEDS: u64 = 40;

/// The experiment with one seed, and the names of parts that fail without latency nice: the document's own measurements.
pub(crate) fn broken() -> (Simulated, Vec<&'static str>) {
    (of_seeds(1), vec!["cyclictest beside", "frames", "audio periods of 0.667 ms beside", "patch"])
}

/// The experiment; in a soak with more seeds.
pub(crate) fn experiment(length: Length) -> Simulated {
    of_seeds(length.pick(SEEDS, SOAK_SEEDS))
}

/// The experiment with so many seeds of each setting.
fn of_seeds(seeds: u64) -> Simulated {
    let mut parts = vec![cyclictest::part(seeds), frames(seeds)];
    parts.extend(audio(seeds));
    parts.extend(patches::parts());
    parts.extend(GROUPS.map(|groups| throughput(groups, seeds)));
    parts.extend(cores::parts(seeds));
    Simulated {
        document: Experiment::LatencyNice,
        title: format!(
            "8 CPUs, latency nice 0 and then -20; hackbench alone: NO_LATENCY_NICE and then LATENCY_NICE; \
             {seeds} runs of each, {} of cyclictest with a cookie",
            cores::runs(seeds)
        ),
        parts,
        soak: None,
    }
}

/// The least part of missed frames at 0, and the largest part at -20, in per cent. The second is the document's.
const LEAST_MISSED: f64 = 1.0;
const MOST_MISSED: f64 = 0.1;

/// TouchLatency: frames that go through the tasks of an app, on a machine with other load.
///
/// The document's other load is eight tasks that use the eight CPUs for 4 ms every 37,777 us. A task of the app that
/// wakes up then waits, unless its group is sensitive. The app is that of the shipped scenario. Its values are chosen
/// as follows:
/// * A frame passes through eight tasks of 0.45 ms. So on any CPU the app uses less between two stresses than the 8 ms
///   by which a sensitive group may be ahead and still preempt. An app that wants more of a CPU is owed nothing by
///   tasks that slept meanwhile: latency nice moves no share.
/// * The group weighs as much as two tasks. A frame that is handed on is on two CPUs for a moment, and the group's
///   weight is divided among them.
/// * A frame is missed if it is not out 5 ms after it was due. Alone it needs 3.7 ms, so it may wait for a third of a
///   stress.
fn frames(seeds: u64) -> Part {
    const COMPOSER: usize = 7;
    let file = include_str!("../../scenarios/touch-latency.json");
    let rounds = Requests::new(Nanos::from_micros(16_667), Nanos::from_millis(5), Time::ZERO);
    let at = |value: i64| {
        let setting = Setting::of("touch-latency.json", file).seeds(1..=seeds);
        let path = r#"groups./frames."cpu.latency.nice""#;
        setting.set(path, value).requests(COMPOSER, 1, rounds.clone())
    };
    let why = "the frame's deadline of 5 ms, and the weight of the app's group";
    let missed = took("missed", "%", Took::late_percent).published(5.0, 0.1);
    let missed = missed
        .judged(Word::Fitted(why), |before, after| before >= LEAST_MISSED && after < MOST_MISSED);
    Part::new("frames of an app beside eight tasks of 4 ms", vec![at(0), at(-20)], vec![missed])
}

/// The length of an audio period: 64 frames at 96 kHz.
const PERIOD: Nanos = Nanos(666_667);

/// The least part of the periods in which the player has an underrun at 0, in per cent.
const LEAST_UNDERRUNS: f64 = 0.1;

/// The ALSA latency test beside hackbench: a player that refills a buffer, period by period, before it runs dry.
///
/// The buffer has two periods. When one of them was played, the other is left. Within that time the player has to wake
/// up and compute the next period; otherwise it has an underrun. The player wants 3 % of a CPU, and each of the 160
/// tasks of four groups of hackbench could have 5 %. So the player is owed everything that it asks for. Only the length
/// of the period had to be chosen: the longest wait at 0 is 1 ms beside so many tasks, and with a longer period than 64
/// frames at 96 kHz there is no underrun. Of the tasks of sixteen groups each could have 1.25 %, and the weight of a
/// player of nice -10 makes 11 % of that.
fn audio(seeds: u64) -> [Part; 2] {
    let why = "the audio period, the longest with an underrun at 0";
    [
        ("audio periods of 0.667 ms beside 4 groups of hackbench", 0, 4, Word::Fitted(why)),
        (
            "audio periods of 0.667 ms at nice -10 beside 16 groups of hackbench",
            -10,
            16,
            Word::Holds,
        ),
    ]
    .map(|(name, nice, groups, word)| {
        let settings = [0, -20].map(|value| player(nice, groups, value).seeds(1..=seeds));
        let underruns = took("underruns", "%", Took::late_percent).published(None, 0.0);
        let underruns = underruns.judged_by(word, |sides, [before, _]| {
            let after = cyclictest::sum(&sides[1]);
            before >= LEAST_UNDERRUNS && after.late == 0 && after.done > 0
        });
        Part::new(name, settings.into(), vec![underruns])
    })
}

/// The player in the place of cyclictest, in a longer run, since underruns are rare.
fn player(nice: i64, groups: u32, latency_nice: i64) -> Setting {
    let setting = cyclictest::scenario(latency_nice, groups)
        .set("tasks.cyclictest.instance", 1)
        .set("tasks.cyclictest.policy", "SCHED_OTHER")
        .set("tasks.cyclictest.priority", nice);
    // A period is no whole number of microseconds.
    let setting = setting.edit(|scenario| {
        let player = &mut scenario.tasks[CYCLICTEST.index()];
        let (timer, period) = (TimerRef::Unique(0), Draw::Fixed(PERIOD));
        let wait = Step::Timer { timer, period, mode: TimerMode::Absolute };
        let work = Draw::Uniform(Nanos::from_micros(15), Nanos::from_micros(25));
        player.name = "player".to_owned();
        player.phases[0].steps = [wait, Step::Run(work)].into();
    });
    let rounds = Requests::new(PERIOD, PERIOD, Time(500_000_000));
    setting.lasts(Nanos::from_secs(4)).requests(CYCLICTEST.index(), 1, rounds)
}

/// The document's numbers of groups.
pub(super) const GROUPS: [u32; 4] = [1, 4, 8, 16];

/// The number of messages that a sender writes to a receiver in one group. With more groups it is divided by their
/// number, as the document's `-l (2560 / #grp)`.
const LOOPS: u32 = 160;

/// The largest difference of the times, as a fraction. The document's own differences stay below it.
const MAX_DIFFERENCE: f64 = 0.01;

/// hackbench alone: its time with the feature latency nice, which no task uses, and without.
fn throughput(groups: u32, seeds: u64) -> Part {
    let setting = Hackbench { groups, loops: Some(LOOPS / groups) }.alone().seeds(1..=seeds);
    let time = Row::new("time", "ms", millis);
    let same = Word::Same("no task has a latency nice, so no decision differs");
    let time =
        time.judged(same, |without, with| (with - without).abs() <= without * MAX_DIFFERENCE);
    let name = format!("{}, nobody sensitive", hackbench::name(groups));
    Part::new(name, setting.pair(Experiment::LatencyNice), vec![time])
}

/// The time of all runs together, in milliseconds.
pub(super) fn millis(runs: &[&Seen]) -> f64 {
    rounded(runs.iter().map(|run| run.time.0 as f64).sum::<f64>() / 1e6, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_player_is_a_task_of_its_nice_value_that_refills_a_buffer() {
        let scenario = player(-10, 1, -20).scenario().unwrap();
        let tasks = super::super::shipped().scenario().unwrap().tasks;
        let (player, cyclictest) = (&scenario.tasks[0], &tasks[0]);
        assert_eq!(player.properties.policy.unwrap().priority(), -10);
        assert_eq!(player.properties.latency_nice, cyclictest.properties.latency_nice);
        assert_eq!((player.instances, player.phases[0].steps.iter().count()), (1, 2));
    }
}
