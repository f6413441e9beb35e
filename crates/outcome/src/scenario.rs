//! The parts of a report that come from the scenario itself, on any host.

use runyard_engine::attr::GroupId;
use runyard_engine::features::{Feature, Features};
use runyard_report::{BlockedReport, ChainInfo, Chains, Explained, GroupInfo, GroupUsage, Hand};
use runyard_workload::Scenario;
use runyard_workload::arrivals::{ArrivalsSpec, Receiver};
use runyard_workload::objects::{Blocked, Undone};
use runyard_workload::scenario::{
    ChainSpec, Join, ObjectId, Phase, SpecId, Step, TaskGroup, TaskSpec,
};

/// The task groups of a scenario, as in reports. `usage` gives the effect of a group's limit, in total and on each CPU.
pub fn groups(
    scenario: &Scenario,
    usage: impl Fn(GroupId) -> Option<GroupUsage>,
) -> Vec<GroupInfo> {
    let group = |(id, group): (GroupId, &TaskGroup)| GroupInfo {
        path: group.path.clone(),
        parent: (group.path != "/").then_some(group.spec.parent),
        limit: group.spec.limit,
        usage: usage(id),
    };
    (0..).map(GroupId).zip(&scenario.groups).map(group).collect()
}

/// The tasks that wait without an end, as in reports.
#[must_use]
pub fn blocked(left: Undone) -> Vec<BlockedReport> {
    let report = |Blocked { task, on, held_by }| BlockedReport { task, on, held_by };
    left.blocked.into_iter().map(report).collect()
}

/// The observer of the scenario's chains, if it has some.
#[must_use]
pub fn chains(scenario: &Scenario) -> Option<Chains> {
    let begins = |arrivals: &ArrivalsSpec, first: &[SpecId]| match arrivals.to {
        Receiver::Task(task) => first.contains(&task),
        Receiver::Semaphore(semaphore) => {
            let phases = first.iter().flat_map(|id| &scenario.tasks[id.0 as usize].phases);
            let mut steps = phases.flat_map(|phase| phase.steps.iter());
            steps.any(|step| step == Step::SemWait(semaphore))
        }
    };
    // The chain of arrivals has their requests only, though workers may take those of others too.
    let own = |chain: &ChainSpec| scenario.arrivals.iter().position(|it| it.name == chain.name);
    let is_of = |chain: &ChainSpec, (nth, arrivals): (u32, &ArrivalsSpec)| match own(chain) {
        Some(own) => nth as usize == own,
        None => begins(arrivals, &chain.places[0]),
    };
    let info = |chain: &ChainSpec| ChainInfo {
        name: chain.name.clone(),
        places: chain.places.iter().map(|it| it.iter().map(|id| id.0).collect()).collect(),
        first: chain.join == Join::First,
        arrivals: (0..)
            .zip(&scenario.arrivals)
            .filter(|&it| is_of(chain, it))
            .map(|(nth, _)| nth)
            .collect(),
        deadline: chain.deadline,
    };
    let object = |arrivals: &ArrivalsSpec| match arrivals.to {
        Receiver::Semaphore(id) => Some(semaphore(id)),
        Receiver::Task(_) => None,
    };
    let phase = |phase: &Phase| phase.steps.iter().map(hand).collect();
    let program = |task: &TaskSpec| task.phases.iter().map(phase).collect();
    let new = || {
        let chains = scenario.chains.iter().map(info).collect();
        let arrivals = scenario.arrivals.iter().map(object).collect();
        Chains::new(chains, scenario.tasks.iter().map(program).collect(), arrivals)
    };
    (!scenario.chains.is_empty()).then(new)
}

/// The number of a semaphore for the observer of messages. Pipes, which serve tasks in their order, have odd numbers.
fn semaphore(id: ObjectId) -> u32 {
    2 * id.0
}

/// The meaning of a step for the observer of messages.
fn hand(step: Step) -> Hand {
    match step {
        Step::SemPost(id) => Hand::Puts(semaphore(id), 1),
        Step::SemWait(id) => Hand::Takes(semaphore(id), 1),
        Step::Send { pipe, bytes } => Hand::Puts(2 * pipe.0 + 1, bytes),
        Step::Recv { pipe, bytes } => Hand::Takes(2 * pipe.0 + 1, bytes),
        Step::Lock(_) => Hand::Locks,
        _ => Hand::Neither,
    }
}

/// The names of the threads, and of the task groups with their parents, for latencies over time.
#[must_use]
pub fn names(scenario: &Scenario) -> (Vec<String>, Vec<(String, Option<GroupId>)>) {
    let threads = scenario.tasks.iter().map(|task| task.name.clone()).collect();
    let groups = scenario.groups.iter().map(|group| group.path.clone()).zip(parents(scenario));
    (threads, groups.collect())
}

/// The facts about a simulated machine from which the waits of tasks are explained.
#[must_use]
pub fn explained(scenario: &Scenario) -> Explained {
    let topology = scenario.machine.topology;
    Explained {
        cpus: topology.cpus(),
        threads: if scenario.cookies.is_empty() { 1 } else { topology.threads() },
        parents: parents(scenario),
    }
}

/// The parent of each task group; the first group, `/`, has none.
#[must_use]
pub fn parents(scenario: &Scenario) -> Vec<Option<GroupId>> {
    let parent = |(id, group): (usize, &TaskGroup)| (id > 0).then_some(group.spec.parent);
    scenario.groups.iter().enumerate().map(parent).collect()
}

/// The names of the features that are on.
#[must_use]
pub fn feature_names(features: &Features) -> Vec<String> {
    let on = |feature: &&Feature| features.has(**feature);
    Feature::ALL.iter().filter(on).map(|feature| feature.name().to_owned()).collect()
}
