//! The probes, and the costs that follow from their figures.

use super::probe::{Bench, Probe, task};
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_report::Report;
use runyard_workload::scenario::{Costs, SystemCalls};

/// Two tasks of one priority yield by turns: a round is a yield and a switch, and the microsecond without which a
/// scenario would take no time.
const YIELDS: Probe = Probe {
    name: "yields",
    text: r#"{"tasks": {"a": {"policy": "SCHED_FIFO", "cpus": [0], "run": 1, "yield": 0},
                        "b": {"policy": "SCHED_FIFO", "cpus": [0], "run": 1, "yield": 0}}}"#,
    figure: |report| {
        let switches: Option<u64> = report.tasks.iter().map(|task| task.switches).sum();
        Some(report.duration_ns as f64 / switches.filter(|&some| some > 0)? as f64)
    },
};

/// The same yield without another task.
const YIELDS_ALONE: Probe = Probe {
    name: "yields alone",
    text: r#"{"tasks": {"a": {"policy": "SCHED_FIFO", "cpus": [0], "loop": 20000, "run": 1, "yield": 0}}}"#,
    figure: each_of_the_rounds,
};

/// A task puts bytes into a pipe and takes them out: two system calls of the same kind, none of which waits.
const PIPE: Probe = Probe {
    name: "pipe",
    text: r#"{"tasks": {"a": {"cpus": [0], "loop": 20000, "send": {"ref": "p", "bytes": 64},
                              "recv": {"ref": "p", "bytes": 64}}}}"#,
    figure: |report| Some(each_of_the_rounds(report)? / 2.0),
};

/// The number of rounds of the probes that have one task alone.
const ROUNDS: f64 = 20_000.0;

/// The cost of a wake-up to the waker. The woken task cannot preempt it.
const TO_A_WAITER: Probe = Probe {
    name: "to a waiter",
    text: r#"{"tasks": {"waker": {"policy": "SCHED_FIFO", "priority": 20, "cpus": [0],
                                  "timer": {"ref": "unique", "period": 500}, "sem_post": "s"},
                        "waiter": {"policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "sem_wait": "s"},
                        "hog": {"cpus": [0], "run": 1000}}}"#,
    figure: each_round,
};

/// The CPU time of the waiting task, which comes and waits again.
const WAITER: Probe = Probe {
    name: "waiter",
    text: TO_A_WAITER.text,
    figure: |report| each_wakeup(report, "waiter"),
};

/// The same steps without a waiting task.
const TO_NOBODY: Probe = Probe {
    name: "to nobody",
    text: r#"{"tasks": {"waker": {"policy": "SCHED_FIFO", "priority": 20, "cpus": [0],
                                  "timer": {"ref": "unique", "period": 500}, "sem_post": "s"},
                        "hog": {"cpus": [0], "run": 1000}}}"#,
    figure: each_round,
};

/// A task is woken on its CPU by a task that computed and then sleeps: the caches hold nothing of the wake-up's or the
/// switch's data.
const AFTER_WORK: Probe = Probe {
    name: "after work",
    text: r#"{"tasks": {"waker": {"cpus": [0], "run": 300, "sem_post": "s", "sleep": 700},
                        "probe": {"cpus": [0], "sem_wait": "s"}}}"#,
    figure: median,
};

/// A task is woken from another CPU while its own CPU computes.
const KICKED: Probe = Probe {
    name: "kicked",
    text: r#"{"tasks": {"waker": {"policy": "SCHED_FIFO", "cpus": [0],
                                  "timer": {"ref": "unique", "period": 500}, "sem_post": "s"},
                        "probe": {"policy": "SCHED_FIFO", "cpus": [1], "sem_wait": "s"},
                        "hog": {"cpus": [1], "run": 1000}}}"#,
    figure: median,
};

/// A timer wakes a task while its CPU computes.
const ON_TIME: Probe = Probe {
    name: "on time",
    text: r#"{"tasks": {"probe": {"policy": "SCHED_FIFO", "cpus": [0], "timer": {"ref": "unique", "period": 500}},
                        "hog": {"cpus": [0], "run": 1000}}}"#,
    figure: median,
};

/// The spread of the same figure.
const SPREAD: Probe = Probe {
    name: "spread",
    text: ON_TIME.text,
    figure: |report| {
        let latency = &task(report, "probe")?.wakeup_latency;
        Some((latency.p90_ns? - latency.p50_ns?) as f64)
    },
};

/// A timer wakes a task while its CPU idles. The periods are longer, since idle states are.
const FROM_IDLE: Probe = Probe {
    name: "from idle",
    text: r#"{"tasks": {"probe": {"policy": "SCHED_FIFO", "cpus": [0], "run": 100,
                                  "timer": {"ref": "unique", "period": 2000}}}}"#,
    figure: median,
};

/// The CPU time of a round of the only task.
fn each_of_the_rounds(report: &Report) -> Option<f64> {
    Some(task(report, "a")?.runtime_ns? as f64 / ROUNDS)
}

/// The median of the probe's wake-up latencies.
fn median(report: &Report) -> Option<f64> {
    Some(task(report, "probe")?.wakeup_latency.p50_ns? as f64)
}

/// The waker's CPU time for each of its own wake-ups.
fn each_round(report: &Report) -> Option<f64> {
    each_wakeup(report, "waker")
}

/// A task's CPU time for each of its wake-ups.
fn each_wakeup(report: &Report, name: &str) -> Option<f64> {
    let task = task(report, name)?;
    Some(task.runtime_ns? as f64 / task.wakeups.filter(|&some| some > 0)? as f64)
}

/// Measures all costs except those of a migration and a fork. Each measurement uses the costs measured before it.
pub(super) fn measure(bench: &Bench<'_>, notes: &mut Vec<String>) -> Result<Costs, Failure> {
    let several = bench.nr_cpus() > 1;
    let mut probes = vec![
        &TO_A_WAITER,
        &WAITER,
        &TO_NOBODY,
        &YIELDS,
        &YIELDS_ALONE,
        &PIPE,
        &AFTER_WORK,
        &ON_TIME,
        &SPREAD,
        &FROM_IDLE,
    ];
    probes.extend(several.then_some(&KICKED));
    let (here, tick) = bench.here(&probes)?;
    let lacks = |probe: &Probe, costs| Ok(here.of(probe) - bench.simulated(probe, costs)?);
    let mut costs = Costs { migration: Costs::MIGRATION, ..Costs::FREE };
    costs.wakeup = cost("wakeup_ns", here.of(&TO_A_WAITER) - here.of(&TO_NOBODY), notes);
    let switch = here.of(&YIELDS) - here.of(&YIELDS_ALONE);
    costs.context_switch = cost("context_switch_ns", switch, notes);
    costs.system_calls = SystemCalls {
        // The switch to a task is charged to it.
        sleep: cost("sleep_ns", here.of(&TO_NOBODY) - switch, notes),
        lock: cost("lock_ns", here.of(&WAITER) - switch, notes),
        send: cost("send_ns", here.of(&PIPE), notes),
        receive: cost("receive_ns", here.of(&PIPE), notes),
        fork: Nanos::ZERO,
    };
    // Both were measured back to back. After a computation their data comes from memory.
    costs.wakeup += cost("wakeup_ns", lacks(&AFTER_WORK, costs)?, notes);
    (costs.timer_interrupt, costs.timer_latency) = interrupt(lacks(&ON_TIME, costs)?, tick, notes);
    if several {
        costs.ipi = cost("ipi_ns", lacks(&KICKED, costs)?, notes);
    } else {
        costs.ipi = Costs::IPI;
        notes.push("ipi_ns: the default, since there is one CPU".to_owned());
    }
    costs.idle_exit = cost("idle_exit_ns", lacks(&FROM_IDLE, costs)?, notes);
    Ok(with_jitter(costs, here.of(&SPREAD)))
}

/// Splits the extra cost of a timer's wake-up, beyond a wake-up and a switch, into an interrupt and the latency before
/// it. The interrupt is the time that a tick takes of a CPU, unless that is longer than both together: a tick does more
/// than a timer.
fn interrupt(both: f64, tick: f64, notes: &mut Vec<String>) -> (Nanos, Nanos) {
    let both = cost("timer_interrupt_ns", both, notes);
    let interrupt = both.min(Nanos(tick.round() as u64));
    (interrupt, both - interrupt)
}

/// A cost is not below zero. A negative measurement is noted.
fn cost(what: &str, ns: f64, notes: &mut Vec<String>) -> Nanos {
    if ns < 0.0 {
        notes.push(format!("{what}: {ns:.0} was measured, which counts as 0"));
    }
    Nanos(ns.max(0.0).round() as u64)
}

/// The distance from the median of a normal distribution to its ninetieth percentile, in standard deviations.
const P90: f64 = 1.2816;

/// Adds jitter to the costs, so that a wake-up by a timer has the given `spread` from p50 to p90. The means stay the
/// same. The wake-up is a sum of a few costs, each drawn evenly from `cost..cost + jitter`. The sum of n such costs has
/// the standard deviation jitter x sqrt(n / 12), and its distribution is nearly normal. No cost varies by more than
/// half of itself either way.
fn with_jitter(mut costs: Costs, spread: f64) -> Costs {
    let Costs { timer_latency, timer_interrupt, wakeup, context_switch, .. } = costs;
    let parts = [timer_latency, timer_interrupt, wakeup, context_switch];
    let parts = parts.iter().filter(|&&part| part > Nanos::ZERO).count().max(1) as f64;
    let wanted = Nanos((spread.max(0.0) / (P90 * (parts / 12.0).sqrt())) as u64);
    let mut all = [
        &mut costs.context_switch,
        &mut costs.ipi,
        &mut costs.wakeup,
        &mut costs.timer_interrupt,
        &mut costs.timer_latency,
        &mut costs.idle_exit,
    ];
    let some = all.iter().map(|cost| cost.0).filter(|&cost| cost > 0);
    let jitter = wanted.min(Nanos(some.min().unwrap_or(0)));
    all.iter_mut().for_each(|cost| cost.0 -= (jitter.0 / 2).min(cost.0));
    costs.jitter = jitter;
    costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_workload::{Overrides, parse};

    /// The parts of a wake-up by a timer, and three other costs.
    const SEEN: Costs = Costs {
        context_switch: Nanos(2_400),
        ipi: Nanos(10_000),
        wakeup: Nanos(1_600),
        timer_interrupt: Nanos(3_000),
        timer_latency: Nanos(8_000),
        idle_exit: Nanos(12_000),
        migration: Nanos(1_000),
        ..Costs::FREE
    };

    #[test]
    fn jitter_makes_the_spread_and_leaves_the_averages() {
        // 1.2816 x sqrt(4 / 12) = 0.7399, and 740 / 0.7399 = 1,000.1
        let costs = with_jitter(SEEN, 740.0);
        let expected = Costs {
            context_switch: Nanos(1_900),
            ipi: Nanos(9_500),
            wakeup: Nanos(1_100),
            timer_interrupt: Nanos(2_500),
            timer_latency: Nanos(7_500),
            idle_exit: Nanos(11_500),
            jitter: Nanos(1_000),
            ..SEEN
        };
        assert_eq!(costs, expected);
    }

    #[test]
    fn jitter_is_at_most_the_least_cost_and_costs_that_are_none_stay_so() {
        let costs = with_jitter(Costs { idle_exit: Nanos::ZERO, ..SEEN }, 100_000.0);
        assert_eq!((costs.jitter, costs.wakeup), (Nanos(1_600), Nanos(800)));
        assert_eq!((costs.idle_exit, costs.ipi), (Nanos::ZERO, Nanos(9_200)));
        let free = with_jitter(Costs::FREE, 100.0);
        assert_eq!(free, Costs::FREE);
    }

    #[test]
    fn an_interrupt_is_as_long_as_a_tick_unless_a_wake_up_is_shorter() {
        let split = |both, tick| interrupt(both, tick, &mut vec![]);
        assert_eq!(split(11_000.0, 3_000.0), (Nanos(3_000), Nanos(8_000)));
        assert_eq!(split(11_000.0, 16_000.0), (Nanos(11_000), Nanos::ZERO));
        assert_eq!(split(-5.0, 16_000.0), (Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn a_cost_below_zero_is_none_and_said() {
        let mut notes = vec![];
        assert_eq!(cost("ipi_ns", 12.6, &mut notes), Nanos(13));
        assert_eq!(cost("ipi_ns", -3.0, &mut notes), Nanos::ZERO);
        assert_eq!(notes, ["ipi_ns: -3 was measured, which counts as 0"]);
    }

    #[test]
    fn every_probe_is_a_scenario_that_nothing_is_odd_about() {
        let duration = Some(Nanos::from_secs(1));
        let over = Overrides { cpus: Some(2), duration, ..Overrides::default() };
        let all = [
            &YIELDS,
            &YIELDS_ALONE,
            &WAITER,
            &PIPE,
            &TO_A_WAITER,
            &TO_NOBODY,
            &KICKED,
            &ON_TIME,
            &FROM_IDLE,
        ];
        for probe in all {
            let parsed = parse("probe", probe.text, &over);
            assert_eq!(parsed.expect("it is right").warnings, []);
        }
    }
}
