//! The cost of a greedy tenant to the others: the time that they wait for their requests.
//!
//! The document has no such experiment, but limits exist for this purpose. The first case is that of `--example
//! tenants` on a real server. The other cases vary the machine and its load. On a machine with little load, the groups'
//! fairness protects the others, with a limit or without. On a machine with a high load, they notice the missing tenth
//! of the machine, whichever tenant has it.

use crate::figure::rounded;
use crate::rows::{Row, Word};
use crate::setting::{Part, Seen, Setting, Watch};
use runyard_engine::event::{Left, What};
use runyard_engine::kernel::Experiment;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_workload::Scenario;
use runyard_workload::draw::Draw;
use runyard_workload::scenario::Step;
use std::collections::BTreeMap;

const SCENARIO: &str = include_str!("../../scenarios/tenants.json");

/// The number of tasks of the abusing tenant for each CPU.
const HOGS: u32 = 4;

/// The mean time of a request, in us, and the number of tenants that send some.
const REQUEST: f64 = 300.0;
const TENANTS: usize = 3;

/// Counted requests came after this time, and had an answer before the end.
const FROM: Time = Time(1_000_000_000);

/// A claim about the others' p99: its words, and whether it holds of that without the limit and of that with it, each in
/// multiples of the p99 without abuse.
type Claimed = (&'static str, fn(f64, f64) -> bool);

const HARDLY_MOVES: Claimed = ("at most 1.2", |_, after| after <= 1.2);
const HALVED: Claimed = ("at most half of before", |before, after| after <= before / 2.0);

/// All cases. Longer runs have fewer requests a second.
pub(super) fn parts(seed: u64) -> Vec<Part> {
    let cases = [
        (2, 6.75, 121, HARDLY_MOVES),
        (2, 50.0, 31, HARDLY_MOVES),
        (2, 70.0, 31, HALVED),
        (16, 6.75, 31, HARDLY_MOVES),
        (16, 50.0, 6, HARDLY_MOVES),
        (16, 70.0, 6, HALVED),
    ];
    cases
        .map(|(cpus, load, seconds, claimed)| {
            part(setting(cpus, load, seconds).seeds([seed]), claimed, cpus, load)
        })
        .into()
}

/// The machine with so many CPUs for so many seconds, of which the other tenants together ask for this part, in per cent.
/// The abusing tenant may use a tenth.
fn setting(cpus: u32, load: f64, seconds: u64) -> Setting {
    let busy = f64::from(cpus) * load / 100.0;
    let pause = Nanos((REQUEST * TENANTS as f64 / busy * 1e3).round() as u64);
    let setting = Setting::of("tenants.json", SCENARIO)
        .set("machine.cpus", cpus)
        .set("groups./abuser.runtime", 10_000 * cpus)
        .set("tasks.abuse.instance", HOGS * cpus)
        .lasts(Nanos::from_secs(seconds));
    // A pause is no whole number of microseconds.
    let setting = setting.edit(move |scenario| {
        for tenant in &mut scenario.tasks[..TENANTS] {
            tenant.phases[0].steps.change(|step| match step {
                Step::Sleep(_) => Step::Sleep(Draw::Exponential(pause)),
                other => other,
            });
        }
    });
    setting.watch(answers)
}

/// The runs without abuse, without the limit, and with it.
fn part(limited: Setting, (claimed, holds): Claimed, cpus: u32, load: f64) -> Part {
    let alone = limited.clone().set("tasks.abuse.instance", 0);
    let unlimited = limited.clone().before(Experiment::HardLimits);
    let p99 = |run: &Seen| run.took.times.quantile(990_000).unwrap_or_default().0 as f64;
    let what = format!(
        "{cpus} CPUs, {load} % busy, and one who takes a tenth: p99 of the others, {claimed}"
    );
    let times = Row::beside(what, "times without that one", move |sides, side| {
        Some(rounded(p99(sides[side][0]) / p99(sides[0][0]).max(1.0), 2))
    });
    // Few requests are without an answer when the run ends; otherwise a tenant is starved.
    let row = times.of(1, 2).judged_by(Word::Holds, move |sides, [before, after]| {
        let [alone, limited] = [0, 2].map(|side: usize| sides[side][0].took.times.count());
        alone > 0 && limited * 100 >= alone * 99 && holds(before, after)
    });
    Part::new("", vec![alone, unlimited, limited], vec![row])
}

/// The times that requests take. A request is a task that is forked, and ends.
fn answers(scenario: &Scenario) -> Watch {
    let known: u32 = scenario.tasks.iter().map(|task| task.instances).sum();
    let first = TaskId(known.into());
    let mut open = BTreeMap::new();
    Box::new(move |event, _, seen| match event.what {
        What::Spawn { task } if task >= first && event.at >= FROM => {
            open.insert(task, event.at);
        }
        What::Switch { prev: Some((task, Left::Exited)), .. } => {
            if let Some(asked) = open.remove(&task) {
                seen.took.times.record(event.at.since(asked));
            }
        }
        _ => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Used;
    use runyard_engine::cpu::CpuId;
    use runyard_engine::event::Event;

    #[test]
    fn an_answer_takes_as_long_as_from_the_request_to_the_end_of_its_task() {
        let mut scenario = setting(2, 50.0, 1).scenario().unwrap();
        scenario.tasks.truncate(TENANTS);
        let (mut answers, mut seen) = (answers(&scenario), Seen::default());
        let whats = [
            (999_999_999, What::Spawn { task: TaskId(3) }),
            (FROM.0, What::Spawn { task: TaskId(4) }),
            (FROM.0 + 1, What::Spawn { task: TaskId(2) }),
            (FROM.0 + 2, What::Spawn { task: TaskId(5) }),
            (FROM.0 + 50, What::Switch { prev: Some((TaskId(4), Left::Preempted)), next: None }),
        ];
        let ends = [2, 3, 4].map(|task| {
            (FROM.0 + 60, What::Switch { prev: Some((TaskId(task), Left::Exited)), next: None })
        });
        for (at, what) in whats.into_iter().chain(ends) {
            answers(&Event { at: Time(at), cpu: CpuId(0), what }, &Used::default(), &mut seen);
        }
        assert_eq!((seen.took.times.count(), seen.took.times.max()), (1, Some(Nanos(60))));
    }

    #[test]
    fn the_abuser_has_a_tenth_and_the_others_ask_for_their_load() {
        for (cpus, load) in [(2, 6.75), (2, 70.0), (16, 50.0)] {
            let scenario = setting(cpus, load, 6).scenario().unwrap();
            let abuser = scenario.groups.iter().find(|group| group.path == "/abuser").unwrap();
            let limit = abuser.spec.limit.unwrap();
            let tenth = f64::from(cpus) / 10.0;
            assert_eq!(limit.runtime().0 as f64 / limit.period().0 as f64, tenth);
            let asked = scenario.tasks[..TENANTS].iter().map(|tenant| {
                match tenant.phases[0].steps.get(0) {
                    Some(Step::Sleep(Draw::Exponential(pause))) => REQUEST * 1e3 / pause.0 as f64,
                    ref other => panic!("a tenant sleeps first: {other:?}"),
                }
            });
            let asked = asked.sum::<f64>() / f64::from(cpus) * 100.0;
            assert!((asked - load).abs() < 0.1, "{asked} {load}");
        }
    }
}
