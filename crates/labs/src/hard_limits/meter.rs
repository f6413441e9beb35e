//! A meter of CPU time: the use by tasks over a stretch of the run and in each period of a limit, and the number of
//! throttlings of a task group. It reads only the stream of events.

use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_sim::Observer;

/// The counted stretch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: Time,
    pub(super) end: Time,
}

/// The meter. `finish` adds the time of tasks that are on a CPU when the run ends.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    window: Window,
    period: Nanos,
    /// The task on each CPU, and the instant at which it began.
    cpus: Vec<Option<(TaskId, Time)>>,
    used: Used,
}

/// The counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    /// The time that each task executed in the window, by [`TaskId`].
    tasks: Vec<Nanos>,
    /// The time that all tasks together executed in each period, beginning with the first period of the window.
    periods: Vec<Nanos>,
    /// The number of times that a task group was throttled on a CPU.
    pub(super) throttled: u64,
    /// The number of times that a task lost its CPU to another one, and that a task blocked.
    pub(super) preempted: u64,
    pub(super) slept: u64,
}

impl Window {
    /// The whole run, of any length.
    pub(super) const ALL: Window = Window { from: Time::ZERO, end: Time(u64::MAX) };

    fn contains(self, at: Time) -> bool {
        (self.from..self.end).contains(&at)
    }
}

impl Meter {
    /// A meter for a machine with so many CPUs. Periods begin at multiples of `period`.
    pub(super) fn new(window: Window, period: Nanos, cpus: u32) -> Meter {
        Meter { window, period, cpus: vec![None; cpus as usize], used: Used::default() }
    }

    /// Ends the run, and returns the counts.
    pub(super) fn finish(mut self, end: Time) -> Used {
        for cpu in 0..self.cpus.len() {
            self.turn(cpu, None, end);
        }
        self.used
    }

    /// Notes that the CPU now executes `task`, or no task.
    fn turn(&mut self, cpu: usize, task: Option<TaskId>, at: Time) {
        let next = task.map(|task| (task, at));
        let Some((task, since)) = std::mem::replace(&mut self.cpus[cpu], next) else { return };
        let (mut from, end) = (since.max(self.window.from), at.min(self.window.end));
        while from < end {
            let period = (from.0 / self.period.0 - self.window.from.0 / self.period.0) as usize;
            let rest = Nanos(self.period.0 - from.0 % self.period.0);
            let span = rest.min(end.since(from));
            *place(&mut self.used.periods, period) += span;
            *place(&mut self.used.tasks, task.index()) += span;
            from = from + span;
        }
    }
}

fn place(spans: &mut Vec<Nanos>, at: usize) -> &mut Nanos {
    if spans.len() <= at {
        spans.resize(at + 1, Nanos::ZERO);
    }
    &mut spans[at]
}

impl Used {
    /// The time of all tasks.
    pub(super) fn total(&self) -> Nanos {
        sum(&self.tasks)
    }

    /// The time of the tasks with these numbers.
    pub(super) fn of(&self, tasks: std::ops::Range<usize>) -> Nanos {
        // A task that never executed has no entry.
        let known = |at: usize| at.min(self.tasks.len());
        sum(&self.tasks[known(tasks.start)..known(tasks.end)])
    }

    /// The largest use in one period.
    pub(super) fn most(&self) -> Nanos {
        self.periods.iter().copied().max().unwrap_or_default()
    }
}

fn sum(spans: &[Nanos]) -> Nanos {
    spans.iter().fold(Nanos::ZERO, |sum, &span| sum + span)
}

impl Observer for &mut Meter {
    fn event(&mut self, &Event { at, cpu, what }: &Event) {
        match what {
            What::Exec { task, .. } => self.turn(cpu.index(), Some(task), at),
            What::Overhead | What::Idle => self.turn(cpu.index(), None, at),
            What::Switch { prev: Some((task, left)), next } if self.window.contains(at) => {
                match left {
                    Left::Preempted if next != Some(task) => self.used.preempted += 1,
                    Left::Blocked => self.used.slept += 1,
                    _ => {}
                }
            }
            What::Throttled { .. } if self.window.contains(at) => {
                self.used.throttled += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::{GroupId, Policy};
    use runyard_engine::cpu::CpuId;

    const MS: u64 = 1_000_000;

    /// The counts of these events, each at a millisecond on a CPU, in 10..30 ms with periods of 5 ms.
    fn counted(whats: &[(u64, u16, What)], end: u64) -> Used {
        let window = Window { from: Time(10 * MS), end: Time(30 * MS) };
        let mut meter = Meter::new(window, Nanos::from_millis(5), 2);
        for &(at, cpu, what) in whats {
            (&mut &mut meter).event(&Event { at: Time(at * MS), cpu: CpuId(cpu), what });
        }
        meter.finish(Time(end * MS))
    }

    fn exec(task: u64) -> What {
        What::Exec { task: TaskId(task), policy: Policy::Idle }
    }

    #[test]
    fn who_executes_is_charged_until_the_cpu_does_something_else() {
        let used = counted(&[(11, 0, exec(0)), (13, 0, exec(1)), (14, 0, What::Overhead)], 40);
        let spans = [0..1, 1..2, 2..9].map(|tasks| used.of(tasks).0 / MS);
        assert_eq!((spans, used.total().0 / MS), ([2, 1, 0], 3));
    }

    #[test]
    fn what_spans_periods_is_divided_among_them_and_cut_at_the_window() {
        let used = counted(&[(8, 0, exec(0)), (18, 1, exec(1)), (22, 1, What::Idle)], 35);
        let periods: Vec<_> = used.periods.iter().map(|span| span.0 / MS).collect();
        assert_eq!((periods, used.most().0 / MS), (vec![5, 7, 7, 5], 7));
        assert_eq!(used.total(), Nanos(24 * MS));
    }

    #[test]
    fn throttling_counts_in_the_window() {
        let throttled = What::Throttled { group: GroupId(1) };
        let used = counted(&[(9, 0, throttled), (10, 0, throttled), (30, 1, throttled)], 40);
        assert_eq!(used.throttled, 1);
    }
}
