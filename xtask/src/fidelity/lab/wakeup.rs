//! What a wake-up takes, by the trace of a calibration.
//!
//! `runyard calibrate` runs a real-time task that probes: a timer wakes it, on an idle CPU and beside a hog. It also runs a
//! real-time task that wakes another one at each of its timers, and the same task without the other one. A task of that
//! priority is not preempted, so the time between two switches is all its own.

use std::collections::BTreeMap;

use runyard_engine::time::Nanos;
use runyard_workload::import::{Left, What, records};

use crate::workspace::Outcome;

/// The task that probes, the task that wakes, and the task that it wakes.
const PROBE: &str = "probe";
const WAKER: &str = "waker";
const WAITER: &str = "waiter";

/// The priorities of real-time tasks in a trace are below this.
const FAIR: i32 = 100;

/// The times of a wake-up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wakeup {
    /// From `sched_waking` in the interrupt of a timer to the switch to the woken task: the median. Fair probes do not count:
    /// those of a system call wait for the task that wakes them, on a kernel whose fair tasks do not preempt it.
    pub latency: Nanos,
    /// What a wake-up takes of the task that makes it, from the begin of its system call to the end.
    pub call: Nanos,
}

/// The wake-ups of a calibration's trace.
pub(super) fn wakeup(trace: &str) -> Outcome<Wakeup> {
    let (mut probes, mut with, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let mut woken_at = None;
    // When each waker came to its CPU, and whether it has woken the other task since.
    let mut on_cpu: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
    for record in records(trace) {
        match record.what {
            What::Switch { prev, left, next } => {
                let stretch = on_cpu.remove(&prev.tid).filter(|_| left == Left::Asleep);
                if let Some((since, woke)) = stretch {
                    if woke { &mut with } else { &mut without }.push(record.at - since);
                }
                if next.comm == WAKER && next.prio < FAIR {
                    on_cpu.insert(next.tid, (record.at, false));
                }
                if next.comm == PROBE {
                    probes.extend(woken_at.take().map(|woken_at| record.at - woken_at));
                }
            }
            What::Waking(woken) if woken.comm == WAITER => {
                on_cpu.values_mut().for_each(|(_, woke)| *woke = true);
            }
            What::Waking(woken) if woken.comm == PROBE && woken.prio < FAIR && record.interrupt => {
                woken_at = Some(record.at);
            }
            _ => {}
        }
    }
    probes.sort_unstable();
    let latency = probes.get(probes.len() / 2).ok_or("a calibration wakes its probe")?;
    let with = middle(with).ok_or("a calibration wakes a waiter")?;
    let without = middle(without).ok_or("a calibration has a waker alone")?;
    Ok(Wakeup { latency: Nanos(*latency), call: Nanos(with.saturating_sub(without)) })
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

    fn switch(at_us: u64, from: (&str, u32, char), to: (&str, u32)) -> String {
        format!(
            " x-1 [000] d..2. 1.{at_us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=79 prev_state={} ==> \
             next_comm={} next_pid={} next_prio=79\n",
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
            switch(0, ("idle", 0, 'R'), ("waker", 7)),
            waking(7, "d..2.", ("waiter", 89)),
            switch(20, ("waker", 7, 'S'), ("waiter", 9)),
            switch(30, ("waiter", 9, 'S'), ("waker", 8)),
            switch(44, ("waker", 8, 'S'), ("idle", 0)),
        ];
        let probe =
            [waking(50, "d.h2.", ("probe", 79)), switch(53, ("idle", 0, 'R'), ("probe", 9))];
        // Another task woke these, or they are fair: what they wait for is not the kernel alone.
        let others = [
            waking(60, "d..2.", ("probe", 79)),
            switch(90, ("idle", 0, 'R'), ("probe", 9)),
            waking(95, "d.h2.", ("probe", 120)),
            switch(99, ("idle", 0, 'R'), ("probe", 9)),
        ];
        let trace = [waker.concat(), probe.concat(), others.concat()].concat();
        assert_eq!(wakeup(&trace).unwrap(), Wakeup { latency: Nanos(3_000), call: Nanos(6_000) });
        assert!(wakeup(&waker.concat()).is_err());
    }
}
