//! `runyard calibrate`: measures this machine as a `machine` of scenarios.

use crate::exit::Done;
use crate::{output, progress};
use clap::Args;
use runyard_engine::kernel::Kernel;
use runyard_engine::time::Nanos;
use runyard_hosts::calibrate::{Calibration, calibrate};
use runyard_outcome::Failure;
use runyard_outcome::stderr::say;
use runyard_report::Report;
use runyard_workload::Scenario;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The arguments of `runyard calibrate`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print only the value of `machine`, as JSON on standard output.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    say("this takes a minute on a quiet machine");
    let shown = progress::of("measuring");
    let found = calibrate(&simulate)?;
    drop(shown);
    found.notes.iter().for_each(|note| say(format_args!("note: {note}")));
    let text = if arguments.json { format!("{:#}\n", machine(&found)) } else { table(&found) };
    output::report(|out| std::io::Write::write_all(out, text.as_bytes()))?;
    Ok(Done::Well)
}

/// The measured costs: the key, the figure, and the method.
fn costs(found: &Calibration) -> [(&'static str, Nanos, &'static str); 16] {
    let costs = &found.costs;
    let calls = &costs.system_calls;
    [
        (
            "context_switch_ns",
            costs.context_switch,
            "two tasks yield by turns on one CPU, less a yield alone",
        ),
        ("ipi_ns", costs.ipi, "a wake-up from another CPU, less the switch"),
        (
            "wakeup_ns",
            costs.wakeup,
            "a wake-up on the same CPU after both have computed, less the switch",
        ),
        (
            "wakeup_fair_ns",
            costs.wakeup_fair,
            "the wake-up of a fair task by a timer, less that of a real-time task",
        ),
        ("wakeup_level_ns", costs.wakeup_level, "the same in groups, for each of them"),
        (
            "timer_interrupt_ns",
            costs.timer_interrupt,
            "what a tick takes of a CPU's time, or less if a timer's wake-up does",
        ),
        (
            "timer_latency_ns",
            costs.timer_latency,
            "a timer's wake-up on a busy CPU, less the three above",
        ),
        ("idle_exit_ns", costs.idle_exit, "the same on an idle CPU, less that"),
        ("sleep_ns", calls.sleep, "the CPU time of a sleep, less the switch"),
        ("send_ns", calls.send, "half of sending and receiving in one task"),
        ("receive_ns", calls.receive, "the same"),
        ("lock_ns", calls.lock, "the CPU time of a wait for a semaphore, less the switch"),
        (
            "jitter_ns",
            costs.jitter,
            "how much more each of them may be; at most a switch or a wake-up",
        ),
        (
            "timer_spread_ns",
            costs.timer_spread,
            "p90 less p50 of a timer's wake-up, beyond the jitter",
        ),
        ("ipi_spread_ns", costs.ipi_spread, "the same of a wake-up from another CPU"),
        ("idle_exit_spread_ns", costs.idle_exit_spread, "the same of a timer on an idle CPU"),
    ]
}

/// The value of `machine`.
fn machine(found: &Calibration) -> Value {
    let costs = costs(found).map(|(key, cost, _)| (key.to_owned(), Value::from(cost.0)));
    let mut machine = json!({
        "cpus": found.topology.cpus(),
        "topology": found.topology.to_string(),
        "tick_hz": found.tick_hz,
        "rt_group_sched": found.rt_group_sched,
        "costs": Value::Object(costs.into_iter().collect()),
    });
    if let Some(kernel) = Kernel::nearest(&found.kernel) {
        machine["kernel"] = kernel.name().into();
    }
    if let Some(most) = found.packs_below {
        machine["packs_below"] = most.into();
    }
    machine
}

/// The text for a person: each figure and its method.
fn table(found: &Calibration) -> String {
    let Calibration { kernel, topology, tick_hz, .. } = found;
    let mut text = format!("Linux {kernel}\nCPUs {topology}, {tick_hz} ticks a second\n\n");
    for (key, cost, how) in costs(found) {
        writeln!(text, "{key:19} {:>6}  {how}", cost.0).expect("a String takes all");
    }
    writeln!(text, "\n\"machine\": {:#}", machine(found)).expect("a String takes all");
    text
}

/// Runs a probe in virtual time.
fn simulate(scenario: &Scenario) -> Result<Report, Failure> {
    let report = runyard_sweep::report(("probe", scenario), 1, &|| false);
    Ok(report.map_err(Failure::input)?.expect("nobody stops it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::kernel::Model;
    use runyard_engine::topology::Topology;
    use runyard_workload::scenario::Costs;
    use runyard_workload::{Overrides, parse};

    #[test]
    fn a_scenario_takes_the_machine_as_it_stands() {
        let (jitter, idle_exit) = (Nanos(400), Nanos(9));
        let costs = Costs { jitter, idle_exit, timer_spread: Nanos::ZERO, ..Costs::default() };
        let topology = Topology::new(2, 2, 2).expect("eight CPUs");
        let found = Calibration {
            kernel: "6.13.2 sched_x=1".into(),
            topology,
            tick_hz: 250,
            rt_group_sched: true,
            packs_below: Some(68),
            costs,
            notes: vec![],
        };
        let text = json!({"machine": machine(&found), "global": {"duration": 1}, "tasks": {"a": {"run": 1}}});
        let parsed = parse("-", &text.to_string(), &Overrides::default()).expect("it is right");
        assert_eq!(parsed.warnings, []);
        assert_eq!(parsed.scenario.model, Model::named(Kernel::V6_12));
        let read = parsed.scenario.machine;
        assert_eq!((read.topology, read.tick_hz, read.costs), (topology, 250, costs));
        assert!(read.rt_group_sched);
        assert_eq!(read.packs_below, Some(68));
    }
}
