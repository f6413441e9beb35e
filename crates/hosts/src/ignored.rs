//! Warnings about parts of a scenario that a host on real CPUs does not support. The host prints them before the run,
//! and then runs without these parts.

use runyard_engine::attr::LatencyNice;
use runyard_engine::config::Config;
use runyard_engine::features::{Entry, Feature, Position};
use runyard_outcome::stderr::say;
use runyard_workload::Scenario;
use runyard_workload::cpusets::Partition;
use runyard_workload::scenario::{Properties, TaskGroup, TaskSpec};

/// Warns of the parts of `scenario` that have no effect on the runtime.
pub fn warn_on_live(scenario: &Scenario) {
    if scenario.objects.inherit() {
        say("warning: live inherits no priorities: mutexes that do so hand over there");
    }
    for feature in Feature::ALL.into_iter().filter(|&it| scenario.features.has(it)) {
        if let Entry { name, default: Position::NeverInRuntime(instead), .. } = feature.entry() {
            say(format!("warning: on live {instead}: {name} is off"));
        }
    }
    if scenario.calls_kernel() {
        say("warning: live makes no long system calls: `kernel` events run as `run`");
    }
    let partition = |group: &TaskGroup| {
        group.cpuset.as_ref().is_some_and(|asked| asked.partition != Partition::Member)
    };
    if scenario.groups.iter().any(partition) {
        say(
            "warning: live balances over all CPUs: a partition keeps other tasks out, and is no root domain",
        );
    }
    if asks_for_plain_ticks(scenario) {
        say("warning: on live each CPU ticks at a moment of its own, whatever `skew_tick` says");
    }
}

/// Whether the scenario asks for CPUs that all tick at the same time.
fn asks_for_plain_ticks(scenario: &Scenario) -> bool {
    let mut config = Config { skew_tick: true, ..scenario.config() };
    scenario.tuned.apply(&mut config);
    !config.skew_tick
}

/// Warns of the parts of `scenario` that have no effect on kernel threads. Task groups have a warning of their own
/// where the kernel makes none.
pub fn warn_on_linux(scenario: &Scenario) {
    if asks_latency_nice(scenario) {
        say("warning: linux has no latency nice: it runs as if none was asked for");
    }
    if scenario.calls_kernel() {
        say(
            "warning: linux reads random numbers for `kernel` events: every kernel may switch there after each page",
        );
    }
    if !scenario.tuned.is_empty() {
        say("warning: linux runs under the kernel's own scheduler: `scheduler` has no effect");
    }
}

/// Whether a task or a group of the scenario has a latency nice value.
fn asks_latency_nice(scenario: &Scenario) -> bool {
    let asks = |properties: &Properties| properties.latency_nice.is_some();
    let task = |task: &TaskSpec| {
        asks(&task.properties) || task.phases.iter().any(|phase| asks(&phase.properties))
    };
    scenario.tasks.iter().any(task)
        || scenario.groups.iter().any(|group| group.spec.latency_nice != LatencyNice::ZERO)
}
