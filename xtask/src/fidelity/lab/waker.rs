//! What a wake-up takes of the task that makes it, by the trace of a calibration.
//!
//! `runyard calibrate` runs a real-time task that wakes another one at each of its timers, and the same task without the
//! other one. A task of that priority is not preempted, so the time between two switches is all its own.

use std::collections::BTreeMap;

use runyard_engine::time::Nanos;
use runyard_workload::import::{Left, What, records};

use crate::workspace::Outcome;

/// The task that wakes, and the task that it wakes.
const WAKER: &str = "waker";
const WAITER: &str = "waiter";

/// The priorities of real-time tasks in a trace are below this.
const FAIR: i32 = 100;

/// The stretches of a task on its CPU, in nanoseconds.
type Stretches = Vec<u64>;

/// The time that a wake-up takes of the waker, from the begin of its system call to the end.
pub(super) fn wakeup(trace: &str) -> Outcome<Nanos> {
    let (mut with, mut without) = (Stretches::new(), Stretches::new());
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
            }
            What::Waking(woken) if woken.comm == WAITER => {
                on_cpu.values_mut().for_each(|(_, woke)| *woke = true);
            }
            _ => {}
        }
    }
    let with = middle(with).ok_or("a calibration wakes a waiter")?;
    let without = middle(without).ok_or("a calibration has a waker alone")?;
    Ok(Nanos(with.saturating_sub(without)))
}

/// The mean of the middle half.
fn middle(mut stretches: Stretches) -> Option<u64> {
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

    #[test]
    fn a_wake_up_is_the_longer_stretch_less_the_shorter_one() {
        let waking = " waker-7 [000] d..2. 1.000007: sched_waking: comm=waiter pid=9 prio=89 target_cpu=000\n";
        let trace = [
            switch(0, ("idle", 0, 'R'), ("waker", 7)),
            waking.to_owned(),
            switch(20, ("waker", 7, 'S'), ("waiter", 9)),
            switch(30, ("waiter", 9, 'S'), ("waker", 8)),
            switch(44, ("waker", 8, 'S'), ("idle", 0)),
        ];
        assert_eq!(wakeup(&trace.concat()).unwrap(), Nanos(6_000));
        assert!(wakeup("").is_err());
    }
}
