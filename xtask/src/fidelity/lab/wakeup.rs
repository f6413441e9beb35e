//! What a wake-up takes, by the trace of a calibration.
//!
//! `runyard calibrate` runs a real-time task that probes: a timer wakes it, on an idle CPU and beside a hog. It also runs a
//! real-time task that wakes another one at each of its timers, and the same task without the other one. A task of that
//! priority is not preempted, so the time between two switches is all its own. A fair task that a timer wakes runs beside a
//! hog that always gives way, alone and in groups.

use std::collections::BTreeMap;

use runyard_engine::time::Nanos;
use runyard_workload::import::{Context, Left, What, records};

use crate::median::median;
use crate::workspace::Outcome;

/// The tasks that probe: a real-time one, a fair one, and a fair one in [`LEVELS`] groups.
const PROBE: &str = "probe";
const FAIR_PROBE: &str = "fair";
const DEEP_PROBE: &str = "deep";

/// Four groups of the calibration, and that of its root.
const LEVELS: u64 = 5;

/// The task that wakes, and the task that it wakes.
const WAKER: &str = "waker";
const WAITER: &str = "waiter";

/// The priorities of real-time tasks in a trace are below this.
const FAIR: i32 = 100;

/// The times of a wake-up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wakeup {
    /// From `sched_waking` in the interrupt of a timer to the switch to the woken real-time task: the median.
    pub latency: Nanos,
    /// What a wake-up takes of the task that makes it, from the begin of its system call to the end.
    pub call: Nanos,
    /// How much longer that latency is for a fair task.
    pub fair: Nanos,
    /// How much longer the latter is for each group that the task is in.
    pub level: Nanos,
}

/// The wake-ups of a calibration's trace.
pub(super) fn wakeup(trace: &str) -> Outcome<Wakeup> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut latencies: BTreeMap<(&str, bool), Vec<f64>> = BTreeMap::new();
    // The task that the last interrupt of a timer woke, and when.
    let mut woken = None;
    // When each waker came to its CPU, and whether it has woken the other task since.
    let mut on_cpu: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
    let records = records(trace);
    for record in records.iter() {
        match record.what {
            What::Switch { prev, left, next } => {
                let stretch = on_cpu.remove(&prev.tid).filter(|_| left == Left::Asleep);
                if let Some((since, woke)) = stretch {
                    if woke { &mut with } else { &mut without }.push(record.at - since);
                }
                if next.comm == WAKER && next.prio < FAIR {
                    on_cpu.insert(next.tid, (record.at, false));
                }
                if let Some((_, since)) = woken.take().filter(|&(tid, _)| tid == next.tid) {
                    let probes = latencies.entry((next.comm, next.prio >= FAIR)).or_default();
                    probes.push((record.at - since) as f64);
                }
            }
            What::Waking(woken) if woken.comm == WAITER => {
                on_cpu.values_mut().for_each(|(_, woke)| *woke = true);
            }
            What::Waking(task)
                if matches!(record.context, Context::Interrupt | Context::Softirq) =>
            {
                woken = Some((task.tid, record.at));
            }
            _ => {}
        }
    }
    let median_of = |name: &str, is_fair| {
        let latency = latencies.get(&(name, is_fair)).and_then(median);
        latency.map(|ns| ns as u64).ok_or_else(|| format!("a calibration wakes the task {name}"))
    };
    let latency = median_of(PROBE, false)?;
    let (fair, deep) = (median_of(FAIR_PROBE, true)?, median_of(DEEP_PROBE, true)?);
    let with = middle(with).ok_or("a calibration wakes a waiter")?;
    let without = middle(without).ok_or("a calibration has a waker alone")?;
    Ok(Wakeup {
        latency: Nanos(latency),
        call: Nanos(with.saturating_sub(without)),
        fair: Nanos(fair.saturating_sub(latency)),
        level: Nanos(deep.saturating_sub(fair) / LEVELS),
    })
}

/// The mean of the middle half.
fn middle(mut stretches: Vec<u64>) -> Option<u64> {
    stretches.sort_unstable();
    let quarter = stretches.len() / 4;
    let half = &stretches[quarter..stretches.len() - quarter];
    (!half.is_empty()).then(|| half.iter().sum::<u64>() / half.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(at_us: u64, from: (&str, u32, char), to: (&str, u32), prio: i32) -> String {
        format!(
            " x-1 [000] d..2. 1.{at_us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=79 prev_state={} ==> \
             next_comm={} next_pid={} next_prio={prio}\n",
            from.0, from.1, from.2, to.0, to.1
        )
    }

    fn waking(at_us: u64, flags: &str, task: (&str, u32)) -> String {
        let (name, prio) = task;
        format!(
            " x-1 [000] {flags} 1.{at_us:06}: sched_waking: comm={name} pid=9 prio={prio} target_cpu=000\n"
        )
    }

    #[test]
    fn the_times_of_a_wake_up_are_the_probes_and_the_difference_of_two_stretches() {
        let waker = [
            switch(0, ("idle", 0, 'R'), ("waker", 7), 79),
            waking(7, "d..2.", ("waiter", 89)),
            switch(20, ("waker", 7, 'S'), ("waiter", 9), 79),
            switch(30, ("waiter", 9, 'S'), ("waker", 8), 79),
            switch(44, ("waker", 8, 'S'), ("idle", 0), 79),
        ];
        let probes = [
            waking(50, "d.h2.", ("probe", 79)),
            switch(53, ("idle", 0, 'R'), ("probe", 9), 79),
            waking(54, "d.h2.", ("fair", 120)),
            switch(59, ("idle", 0, 'R'), ("fair", 9), 120),
            waking(60, "d.h2.", ("deep", 120)),
            switch(70, ("idle", 0, 'R'), ("deep", 9), 120),
        ];
        // Another task woke this one: it does not wait for the kernel alone.
        let other =
            [waking(75, "d..2.", ("probe", 79)), switch(99, ("idle", 0, 'R'), ("probe", 9), 79)];
        let trace = |probes: &[String]| [waker.concat(), probes.concat(), other.concat()].concat();
        let [latency, call, fair, level] = [3_000, 6_000, 2_000, 1_000].map(Nanos);
        assert_eq!(wakeup(&trace(&probes)).unwrap(), Wakeup { latency, call, fair, level });
        assert!(wakeup(&trace(&probes[2..])).is_err(), "no real-time task was woken");
    }
}
