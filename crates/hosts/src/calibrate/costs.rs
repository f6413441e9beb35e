//! The probes, and the costs that follow from their figures.

use super::probe::{Bench, Probe, task};
use runyard_engine::time::Nanos;
use runyard_outcome::Failure;
use runyard_report::Report;
use runyard_workload::scenario::{Costs, SystemCalls};
use std::f64::consts::LN_2;

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

/// The spread of the same figure.
const KICKED_SPREAD: Probe = Probe { name: "kicked, spread", text: KICKED.text, figure: spread };

/// A timer wakes a task while its CPU computes.
const ON_TIME: Probe = Probe {
    name: "on time",
    text: r#"{"tasks": {"probe": {"policy": "SCHED_FIFO", "cpus": [0], "timer": {"ref": "unique", "period": 500}},
                        "hog": {"cpus": [0], "run": 1000}}}"#,
    figure: median,
};

/// The spread of the same figure.
const ON_TIME_SPREAD: Probe = Probe { name: "on time, spread", text: ON_TIME.text, figure: spread };

/// A timer wakes a fair task while its CPU computes for a task that always gives way.
const FAIR: Probe = Probe {
    name: "fair",
    text: r#"{"tasks": {"fair": {"cpus": [0], "timer": {"ref": "unique", "period": 500}},
                        "hog": {"policy": "SCHED_IDLE", "cpus": [0], "run": 1000}}}"#,
    figure: |report| median_of(report, "fair"),
};

/// The same in groups.
const DEEP: Probe = Probe {
    name: "deep",
    text: r#"{"groups": {"/a": {}, "/a/b": {}, "/a/b/c": {}, "/a/b/c/d": {}},
              "tasks": {"deep": {"group": "/a/b/c/d", "cpus": [0], "timer": {"ref": "unique", "period": 500}},
                        "hog": {"policy": "SCHED_IDLE", "cpus": [0], "run": 1000}}}"#,
    figure: |report| median_of(report, "deep"),
};

/// The groups of that, and the one that the host makes for the root of a scenario.
const LEVELS: f64 = 5.0;

/// A timer wakes a task while its CPU idles. The periods are longer, since idle states are.
const FROM_IDLE: Probe = Probe {
    name: "from idle",
    text: r#"{"tasks": {"probe": {"policy": "SCHED_FIFO", "cpus": [0], "run": 100,
                                  "timer": {"ref": "unique", "period": 2000}}}}"#,
    figure: median,
};

/// The spread of the same figure.
const FROM_IDLE_SPREAD: Probe =
    Probe { name: "from idle, spread", text: FROM_IDLE.text, figure: spread };

/// The CPU time of a round of the only task.
fn each_of_the_rounds(report: &Report) -> Option<f64> {
    Some(task(report, "a")?.runtime_ns? as f64 / ROUNDS)
}

/// The median of the probe's wake-up latencies.
fn median(report: &Report) -> Option<f64> {
    median_of(report, "probe")
}

/// The median of a task's wake-up latencies.
fn median_of(report: &Report, name: &str) -> Option<f64> {
    Some(task(report, name)?.wakeup_latency.p50_ns? as f64)
}

/// The distance from the median of the probe's wake-up latencies to their ninetieth percentile.
fn spread(report: &Report) -> Option<f64> {
    let latency = &task(report, "probe")?.wakeup_latency;
    Some((latency.p90_ns? - latency.p50_ns?) as f64)
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
        &ON_TIME_SPREAD,
        &FAIR,
        &FROM_IDLE,
        &FROM_IDLE_SPREAD,
    ];
    if several {
        probes.extend([&KICKED, &KICKED_SPREAD]);
    }
    let no_groups = bench.refuses_groups();
    if no_groups.is_none() {
        probes.push(&DEEP);
    }
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
        // A program cannot tell it from the wake-up.
        wake: Nanos::ZERO,
        fork: Nanos::ZERO,
    };
    // Both were measured back to back. After a computation their data comes from memory.
    costs.wakeup += cost("wakeup_ns", lacks(&AFTER_WORK, costs)?, notes);
    let timer = here.of(&ON_TIME_SPREAD);
    let by_jitter = vary(&mut costs, timer);
    costs.timer_spread = exponential(timer, by_jitter);
    let tick = tick - costs.timer_spread.0 as f64 * LN_2;
    (costs.timer_interrupt, costs.timer_latency) = interrupt(lacks(&ON_TIME, costs)?, tick, notes);
    costs.wakeup_fair = cost("wakeup_fair_ns", lacks(&FAIR, costs)?, notes);
    match no_groups {
        None => {
            let level = (here.of(&DEEP) - here.of(&FAIR)) / LEVELS;
            costs.wakeup_level = cost("wakeup_level_ns", level, notes);
        }
        Some(why) => notes.push(format!("wakeup_level_ns: 0, since no groups can be made: {why}")),
    }
    if several {
        costs.ipi_spread = exponential(here.of(&KICKED_SPREAD), by_jitter);
        costs.ipi = cost("ipi_ns", lacks(&KICKED, costs)?, notes);
    } else {
        costs.ipi = Costs::IPI;
        notes.push("ipi_ns: the default, since there is one CPU".to_owned());
    }
    costs.idle_exit_spread = exponential(here.of(&FROM_IDLE_SPREAD), timer);
    costs.idle_exit = cost("idle_exit_ns", lacks(&FROM_IDLE, costs)?, notes);
    Ok(costs)
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

/// The distance from the median to the ninetieth percentile of the sum of three costs with jitter, in jitters. Each is
/// drawn evenly from `cost..cost + jitter`, so the standard deviation of the sum is a half, and the sum is nearly normal.
const BY_JITTER: f64 = 1.2816 * 0.5;

/// Gives the costs the jitter with which an interrupt, a wake-up and a switch spread by `spread`, but no more than a
/// switch or a wake-up takes. The means stay the same. Returns how much they spread.
fn vary(costs: &mut Costs, spread: f64) -> f64 {
    let least = costs.context_switch.min(costs.wakeup).0 as f64;
    let by_jitter = spread.clamp(0.0, least * BY_JITTER);
    costs.jitter = Nanos((by_jitter / BY_JITTER).round() as u64);
    let half = Nanos(costs.jitter.0 / 2);
    costs.context_switch -= half;
    costs.wakeup -= half;
    by_jitter
}

/// The mean of the exponential time that spreads so far from the median to the ninetieth percentile (the logarithm of 5
/// means), beside something else that spreads by `known`.
fn exponential(spread: f64, known: f64) -> Nanos {
    let rest = (spread * spread - known * known).max(0.0).sqrt();
    Nanos((rest / 5_f64.ln()).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_workload::{Overrides, parse};

    fn short(context_switch: u64, wakeup: u64) -> Costs {
        let [context_switch, wakeup] = [context_switch, wakeup].map(Nanos);
        Costs { context_switch, wakeup, ..Costs::FREE }
    }

    #[test]
    fn jitter_makes_a_small_spread_and_leaves_the_averages() {
        let mut costs = short(2_400, 1_600);
        assert_eq!(vary(&mut costs, 640.8), 640.8);
        assert_eq!(costs, Costs { jitter: Nanos(1_000), ..short(1_900, 1_100) });
        assert_eq!(exponential(640.8, 640.8), Nanos::ZERO);
    }

    #[test]
    fn what_the_jitter_cannot_spread_is_exponential() {
        let mut costs = short(2_400, 300);
        let by_jitter = vary(&mut costs, 16_000.0);
        assert_eq!(costs, Costs { jitter: Nanos(300), ..short(2_250, 150) });
        // sqrt(16,000^2 - 192^2) / ln 5
        assert_eq!(exponential(16_000.0, by_jitter), Nanos(9_941));
        assert_eq!(exponential(5.0, 9.0), Nanos::ZERO);
        let mut free = Costs::FREE;
        assert_eq!((vary(&mut free, 100.0), free), (0.0, Costs::FREE));
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
