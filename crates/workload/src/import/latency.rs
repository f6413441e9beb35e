//! The delays of a recorded machine: how long a woken task waits for its CPU although nothing is in its way.
//!
//! These are no decisions of a policy. The wait has a part that no policy decides where the CPU was idle, or where the
//! task that ran was still runnable and had to leave: the interrupt, the way out of an idle state, and the rest of the
//! system call. A longer delay than [`LONGEST`] has other causes.

use super::figures::Delays;
use super::record::Context;
use runyard_engine::time::Nanos;

/// The longest delay that counts, in nanoseconds.
const LONGEST: u64 = 100_000;

/// The smallest number of delays whose mean is taken for itself.
const LEAST: u64 = 8;

/// A sum of delays with their number.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    nanos: u64,
    number: u64,
}

impl Sum {
    fn mean(self) -> Option<u64> {
        self.nanos.checked_div(self.number)
    }

    fn is_many(self) -> bool {
        self.number >= LEAST
    }
}

/// The way from a wake-up to the CPU that runs the woken task.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Another CPU asks this one by an interrupt.
    Remote,
    /// An interrupt of this CPU wakes the task.
    Interrupt,
}

/// The delays of one recording, by the [`Way`] and by whether the CPU was idle.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    sums: [[Sum; 2]; 2],
}

impl Latencies {
    /// Adds the delay of a task that got `cpu`, which was idle or which another task had to leave. `woken` has the CPU of
    /// the wake-up and what it did.
    pub(super) fn note(
        &mut self,
        delay: u64,
        cpu: u32,
        was_idle: bool,
        (waker, context): (u32, Context),
    ) {
        if delay > LONGEST {
            return;
        }
        let way = match context {
            _ if waker != cpu => Way::Remote,
            // A CPU that is idle and wakes a task is in an interrupt.
            Context::Interrupt => Way::Interrupt,
            _ if was_idle => Way::Interrupt,
            // The rest of its task's system call comes first, which is work of that task in the replay too.
            Context::Task | Context::Softirq | Context::Unknown => return,
        };
        let sum = &mut self.sums[way as usize][usize::from(was_idle)];
        sum.nanos += delay;
        sum.number += 1;
    }

    /// Returns the costs of the machine. What the recording does not tell is taken from the nearest that it does.
    pub(super) fn delays(&self) -> Delays {
        let [remote, interrupt] = self.sums;
        let idle_exit = exit(remote).or_else(|| exit(interrupt)).unwrap_or(0);
        let ipi = on_busy(remote).or_else(|| on_busy(interrupt)).unwrap_or(0);
        let timer = on_busy(interrupt).or_else(|| on_busy(remote)).unwrap_or(0);
        let [ipi, timer, idle_exit] = [ipi, timer, idle_exit].map(Nanos);
        Delays { ipi, timer, idle_exit }
    }
}

/// Returns the mean on a busy CPU. Where that is hardly known, it is the mean of all.
fn on_busy([busy, idle]: [Sum; 2]) -> Option<u64> {
    let all = Sum { nanos: busy.nanos + idle.nanos, number: busy.number + idle.number };
    if busy.is_many() { busy.mean() } else { all.mean() }
}

/// Returns how much longer it takes on an idle CPU, where both are known.
fn exit([busy, idle]: [Sum; 2]) -> Option<u64> {
    let are_many = busy.is_many() && idle.is_many();
    are_many.then(|| idle.mean().unwrap_or(0).saturating_sub(busy.mean().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: bool = true;
    const BUSY: bool = false;

    fn delays(notes: &[(u64, u64, u32, bool, Context)]) -> [u64; 3] {
        let mut latencies = Latencies::default();
        for &(times, delay, waker, was_idle, context) in notes {
            (0..times).for_each(|_| latencies.note(delay, 0, was_idle, (waker, context)));
        }
        let Delays { ipi, timer, idle_exit } = latencies.delays();
        [ipi, timer, idle_exit].map(|delay| delay.0)
    }

    #[test]
    fn each_way_has_its_delay() {
        let all = [
            (10, 20_000, 1, BUSY, Context::Task),
            (10, 35_000, 1, IDLE, Context::Task),
            (10, 15_000, 0, BUSY, Context::Interrupt),
            (10, 25_000, 0, IDLE, Context::Unknown),
            // The rest of a system call, and a wait for something else.
            (99, 4_000, 0, BUSY, Context::Task),
            (99, LONGEST + 1, 1, BUSY, Context::Task),
        ];
        assert_eq!(delays(&all), [20_000, 15_000, 15_000]);
    }

    #[test]
    fn what_is_hardly_recorded_is_taken_from_the_nearest() {
        let remote = (10, 30_000, 1, IDLE, Context::Task);
        assert_eq!(delays(&[remote]), [30_000, 30_000, 0]);
        // One delay of a busy CPU is chance.
        let once = (1, 8_000, 1, BUSY, Context::Task);
        assert_eq!(delays(&[remote, once]), [28_000, 28_000, 0]);
        assert_eq!(delays(&[]), [0, 0, 0]);
    }
}
