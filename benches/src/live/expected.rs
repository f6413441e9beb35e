//! The expected shares of tasks, by the simulator, with the features of this process and free decisions.
//!
//! The simulator's shortest poll is a microsecond, so it cannot model a task that only yields. In a situation with such
//! tasks all tasks compete all the time, and shares follow the engine's weights.

use super::host::features;
use super::situations::{Does, GroupOf, Part, Situation};
use runyard_engine::attr::Nice;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_sim::{Options, Sim};
use runyard_workload::scenario::Costs;
use runyard_workload::{Overrides, Scenario, parse};
use serde::Serialize;
use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

/// The rule by which a share is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The simulator runs the situation.
    Simulator,
    /// All tasks compete all the time, so weights determine the share.
    Weights,
}

/// The measured stretch of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Time before the stretch.
    pub(super) run_in: Duration,
    /// Length of the stretch.
    pub(super) span: Duration,
}

/// Returns the rule, and the expected share of each part.
pub(super) fn shares(situation: &Situation, stretch: Stretch) -> (Rule, Vec<f64>) {
    if situation.parts.iter().any(|part| part.does == Does::OnlyYields) {
        (Rule::Weights, by_weights(situation))
    } else {
        (Rule::Simulator, simulated(situation, stretch))
    }
}

fn by_weights(situation: &Situation) -> Vec<f64> {
    assert!(situation.groups.is_empty(), "{}: weights are those of one queue", situation.name);
    let weight = |part: &Part| {
        assert!(!matches!(part.does, Does::Sleeps { .. } | Does::Spawns(_)), "all compete");
        let nice = Nice::new(part.nice.into()).expect("a nice value is in -20..=19");
        f64::from(part.tasks) * f64::from(nice.weight().get())
    };
    let weights: Vec<_> = situation.parts.iter().map(weight).collect();
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / all).collect()
}

fn simulated(situation: &Situation, stretch: Stretch) -> Vec<f64> {
    let [run_in, span] = [stretch.run_in, stretch.span].map(Nanos::from);
    let mut scenario = scenario(situation);
    scenario.duration = Some(run_in + span);
    scenario.machine.costs = Costs::FREE;
    scenario.features = features();
    let mut used = Used::since(Time::ZERO + run_in);
    let sim = Sim::new(&scenario, Options::default(), |event: &Event| used.note(event));
    let outcome = sim.expect("the machine does not contradict itself").run();
    assert!(outcome.violations.is_empty(), "{}: {:?}", situation.name, outcome.violations);
    let tasks = used.until(outcome.end);
    let mut parts = vec![0; situation.parts.len()];
    for (task, used) in tasks {
        let thread = &outcome.tasks[task.index()].thread;
        parts[thread.parse::<usize>().expect("a thread has its part's number")] += used.0;
    }
    let all = if situation.is_limited() { span.0 } else { parts.iter().sum() };
    parts.into_iter().map(|part| part as f64 / all as f64).collect()
}

/// The execution time of tasks on the one CPU.
struct Used {
    from: Time,
    /// The running task.
    now: Option<TaskId>,
    since: Time,
    tasks: BTreeMap<TaskId, Nanos>,
}

impl Used {
    fn since(from: Time) -> Used {
        Used { from, now: None, since: from, tasks: BTreeMap::new() }
    }

    fn note(&mut self, event: &Event) {
        match event.what {
            What::Exec { task, .. } => self.turn(Some(task), event.at),
            What::Overhead | What::Idle => self.turn(None, event.at),
            _ => {}
        }
    }

    fn turn(&mut self, next: Option<TaskId>, at: Time) {
        let since = mem::replace(&mut self.since, at.max(self.from));
        if let Some(task) = mem::replace(&mut self.now, next) {
            *self.tasks.entry(task).or_default() += self.since.since(since);
        }
    }

    fn until(mut self, end: Time) -> BTreeMap<TaskId, Nanos> {
        self.turn(None, end);
        self.tasks
    }
}

/// Returns the situation as a scenario. The name of a thread object is the number of its part.
fn scenario(situation: &Situation) -> Scenario {
    let groups: Vec<_> = situation.groups.iter().map(said_group).collect();
    let threads: Vec<_> = situation.parts.iter().enumerate().map(said_part).collect();
    let text = format!(
        r#"{{"machine": {{"cpus": 1}}, "global": {{"duration": 1}},
            "groups": {{{}}}, "tasks": {{{}}}}}"#,
        groups.join(", "),
        threads.join(", "),
    );
    let parsed = parse(situation.name, &text, &Overrides::default());
    parsed.unwrap_or_else(|error| panic!("{}: {error:?}", situation.name)).scenario
}

fn said_group(group: &GroupOf) -> String {
    let limit = group.limit.map_or_else(String::new, |limit| {
        let period = limit.period.as_micros() as u64;
        let runtime = period * u64::from(limit.percent) / 100;
        format!(r#", "runtime": {runtime}, "period": {period}"#)
    });
    format!(r#""{}": {{"weight": {}{limit}}}"#, group.path, group.weight)
}

fn said_part((nth, part): (usize, &Part)) -> String {
    /// Length of a hog's run event. Consecutive run events make one run, so other tasks are unaffected.
    const HOG_US: u128 = 1_000;
    let Part { tasks, nice, .. } = part;
    let steps = match part.does {
        Does::Computes => format!(r#""run": {HOG_US}"#),
        Does::OnlyYields => unreachable!("weights determine the share of such a task"),
        Does::Yields(poll) => format!(r#""run": {}, "yield": """#, poll.as_micros()),
        Does::Sleeps { computes, sleeps } => {
            format!(r#""run": {}, "sleep": {}"#, computes.as_micros(), sleeps.as_micros())
        }
        Does::Spawns(poll) => format!(r#""run": {}, "fork": "{nth}""#, poll.as_micros()),
    };
    let loops = if matches!(part.does, Does::Spawns(_)) { 1 } else { -1 };
    let group = part.group.map_or_else(String::new, |path| format!(r#", "taskgroup": "{path}""#));
    format!(
        r#""{nth}": {{"instance": {tasks}, "loop": {loops}, "policy": "SCHED_OTHER", "priority": {nice}{group}, {steps}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::super::situations::{SITUATIONS, SMALL};
    use super::*;

    const SHORT: Stretch =
        Stretch { run_in: Duration::from_millis(100), span: Duration::from_secs(1) };

    fn of(name: &str) -> Vec<f64> {
        let situation = SITUATIONS.iter().find(|it| it.name == name);
        shares(situation.expect("there is such a situation"), SHORT).1
    }

    #[test]
    fn every_situation_has_an_answer_and_is_measured_for_long_if_a_share_is_small() {
        for situation in &SITUATIONS {
            let (_, shares) = shares(situation, SHORT);
            let all: f64 = shares.iter().sum();
            let whole = if situation.is_limited() { 0.9 } else { 1.0 };
            assert!((all - whole).abs() < 0.01, "{}: {shares:?}", situation.name);
            let least = shares.iter().copied().fold(1.0, f64::min);
            assert_eq!(least < SMALL, situation.has_small, "{}: {shares:?}", situation.name);
        }
    }

    #[test]
    fn two_hogs_have_a_half_each() {
        assert!(of("two hogs").iter().all(|share| (share - 0.5).abs() < 0.01));
    }

    #[test]
    fn weights_are_the_kernels() {
        let [yielder, hog] = of("a yielder of nice 5, a hog")[..] else {
            unreachable!("two parts")
        };
        assert!((yielder / hog - 335.0 / 1_024.0).abs() < 1e-9);
    }

    #[test]
    fn a_limit_is_a_part_of_the_cpu() {
        let shares = of("limits in 100 ms, hogs");
        assert!((shares[0] - 0.3).abs() < 0.01 && (shares[1] - 0.6).abs() < 0.01, "{shares:?}");
    }
}
