//! What a scenario asks for and a host with real CPUs does not have: said before the run, which
//! then goes on without it.

use crate::stderr::say;
use runyard_engine::attr::LatencyNice;
use runyard_engine::features::Feature;
use runyard_workload::Scenario;
use runyard_workload::scenario::{Properties, TaskSpec};

/// Says which parts of `scenario` have no effect on the runtime.
pub fn warn_on_live(scenario: &Scenario) {
    if scenario.objects.inherit() {
        say("warning: live inherits no priorities: mutexes that do so hand over there");
    }
    if scenario.features.has(Feature::DelayDequeue) {
        say("warning: on live no task sleeps in its place: DELAY_DEQUEUE is off");
    }
    if scenario.features.has(Feature::FairServer) {
        say("warning: on live real-time tasks are throttled instead: FAIR_SERVER is off");
    }
    if scenario.features.has(Feature::Pelt) {
        say("warning: on live the shares of groups go by the loads of the moment: PELT is off");
    }
}

/// Says which parts of `scenario` have no effect on kernel threads. The task groups say so
/// themselves, where the kernel makes none.
pub fn warn_on_linux(scenario: &Scenario) {
    if asks_latency_nice(scenario) {
        say("warning: linux has no latency nice: it runs as if none was asked for");
    }
}

/// Whether a task or a group of the scenario asks for a latency nice.
fn asks_latency_nice(scenario: &Scenario) -> bool {
    let asks = |properties: &Properties| properties.latency_nice.is_some();
    let task = |task: &TaskSpec| {
        asks(&task.properties) || task.phases.iter().any(|phase| asks(&phase.properties))
    };
    scenario.tasks.iter().any(task)
        || scenario.groups.iter().any(|group| group.spec.latency_nice != LatencyNice::ZERO)
}
