//! The output that `mpstat` would have shown of a host's CPUs: a row for each second, over all CPUs.
//!
//! The rows cover one stretch of the run, the *window*. They are made only from the stream of events. A CPU's time is
//! booked when the CPU turns to something else, and then divided among the seconds that it spans. So nothing has to
//! happen at the end of a second. Events of real CPUs may arrive slightly out of order when one worker follows another;
//! the clock of a CPU then stands still.
//!
//! Invariant: the parts of a row sum to a second of each CPU ([`Mpstat::finish`] asserts it).

use runyard_engine::attr::Policy;
use runyard_engine::balance::{Balanced, Found};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::live::EventSink;
use runyard_sim::Observer;
use std::fmt::Write as _;

const SECOND: Nanos = Nanos::from_secs(1);

/// The counted seconds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: Time,
    pub(super) seconds: u32,
}

impl Window {
    /// The length of the window.
    pub(super) fn span(self) -> Nanos {
        Nanos(SECOND.0 * u64::from(self.seconds))
    }

    pub(super) fn end(self) -> Time {
        self.from + self.span()
    }

    fn contains(self, at: Time) -> bool {
        (self.from..self.end()).contains(&at)
    }

    /// The number of the window's second that contains this instant.
    fn second(self, at: Time) -> usize {
        (at.since(self.from).0 / SECOND.0) as usize
    }
}

/// The use of the CPUs in a second, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) normal: Nanos,
    pub(super) idle_policy: Nanos,
    pub(super) rt: Nanos,
    pub(super) overhead: Nanos,
    pub(super) idle: Nanos,
    /// The number of timer interrupts.
    pub(super) interrupts: u64,
    /// The number of times that a task first executed on another CPU than before.
    pub(super) migrations: u64,
    /// The number of times that a CPU stopped being idle.
    pub(super) idle_exits: u64,
}

/// The results of balancing, over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passes {
    /// Passes that found an imbalance, and no task that fits it.
    pub(super) failed: u64,
    /// Running tasks that were moved after failed passes (active balance).
    pub(super) taken: u64,
}

impl Row {
    fn part(&mut self, doing: Doing) -> &mut Nanos {
        match doing {
            Doing::Idle => &mut self.idle,
            Doing::Overhead => &mut self.overhead,
            Doing::Exec(_, policy) => match policy {
                Policy::Fifo(_) | Policy::RoundRobin(_) => &mut self.rt,
                Policy::Normal(_) | Policy::Batch(_) => &mut self.normal,
                Policy::Idle => &mut self.idle_policy,
            },
        }
    }

    /// The time of all CPUs.
    fn time(&self) -> Nanos {
        self.normal + self.idle_policy + self.rt + self.overhead + self.idle
    }

    /// The fraction of the CPU time that was not idle.
    pub(super) fn busy(&self) -> f64 {
        let time = self.time();
        (time - self.idle).0 as f64 / time.0 as f64
    }

    fn plus(self, other: &Row) -> Row {
        Row {
            normal: self.normal + other.normal,
            idle_policy: self.idle_policy + other.idle_policy,
            rt: self.rt + other.rt,
            overhead: self.overhead + other.overhead,
            idle: self.idle + other.idle,
            interrupts: self.interrupts + other.interrupts,
            migrations: self.migrations + other.migrations,
            idle_exits: self.idle_exits + other.idle_exits,
        }
    }
}

/// The present state of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Idle,
    Overhead,
    Exec(TaskId, Policy),
}

/// The account of a task: its time in the window, and its last CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    runtime: Nanos,
    last: Option<CpuId>,
}

/// Keeps the rows.
#[derive(Clone, Debug)]
pub(super) struct Mpstat {
    window: Window,
    rows: Vec<Row>,
    /// The state of each CPU, and the instant at which it began.
    cpus: Vec<(Doing, Time)>,
    /// The accounts, by [`TaskId`].
    tasks: Vec<Account>,
    passes: Passes,
}

impl Mpstat {
    /// The rows of a machine with so many CPUs and tasks. No task has begun.
    pub(super) fn new(window: Window, cpus: usize, tasks: usize) -> Mpstat {
        Mpstat {
            window,
            rows: vec![Row::default(); window.seconds as usize],
            cpus: vec![(Doing::Idle, Time::ZERO); cpus],
            tasks: vec![Account::default(); tasks],
            passes: Passes::default(),
        }
    }

    /// Ends the run, which must not be before the end of the window. Returns the rows, and the time that each task
    /// executed in them.
    ///
    /// # Panics
    /// If a CPU had no state at some moment.
    pub(super) fn finish(mut self) -> (Rows, Vec<Nanos>) {
        for cpu in 0..self.cpus.len() {
            self.turn(CpuId::at(cpu), Doing::Idle, self.window.end());
        }
        let second = Nanos(SECOND.0 * self.cpus.len() as u64);
        assert!(self.rows.iter().all(|row| row.time() == second), "a row is a second of each CPU");
        let runtimes = self.tasks.iter().map(|task| task.runtime).collect();
        (Rows { passes: self.passes, ..Rows::new(self.window, self.rows) }, runtimes)
    }

    /// Changes the state of a CPU.
    fn turn(&mut self, cpu: CpuId, doing: Doing, at: Time) {
        let at = at.max(self.cpus[cpu.index()].1);
        let (done, since) = std::mem::replace(&mut self.cpus[cpu.index()], (doing, at));
        let (mut from, end) = (since.max(self.window.from), at.min(self.window.end()));
        while from < end {
            let second = self.window.second(from);
            let until = end.min(self.window.from + Nanos(SECOND.0 * (second as u64 + 1)));
            let span = until.since(from);
            *self.rows[second].part(done) += span;
            if let Doing::Exec(task, _) = done {
                self.tasks[task.index()].runtime += span;
            }
            from = until;
        }
        if done == Doing::Idle && doing != Doing::Idle {
            self.count(at, |row| row.idle_exits += 1);
        }
        if let Doing::Exec(task, _) = doing {
            let last = self.tasks[task.index()].last.replace(cpu);
            if last.is_some_and(|last| last != cpu) {
                self.count(at, |row| row.migrations += 1);
            }
        }
    }

    fn count(&mut self, at: Time, count: impl FnOnce(&mut Row)) {
        if self.window.contains(at) {
            count(&mut self.rows[self.window.second(at)]);
        }
    }
}

impl EventSink for Mpstat {
    fn event(&mut self, &Event { at, cpu, what }: &Event) {
        match what {
            What::Exec { task, policy } => self.turn(cpu, Doing::Exec(task, policy), at),
            What::Overhead => self.turn(cpu, Doing::Overhead, at),
            What::Idle => self.turn(cpu, Doing::Idle, at),
            What::TimerInterrupt => self.count(at, |row| row.interrupts += 1),
            What::Balanced(Balanced { found: Found::Nothing, .. }) => self.passes.failed += 1,
            What::Balanced(Balanced { found: Found::Running, .. }) => self.passes.taken += 1,
            _ => {}
        }
    }
}

impl Observer for &mut Mpstat {
    fn event(&mut self, event: &Event) {
        EventSink::event(*self, event);
    }
}

/// The rows of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    window: Window,
    rows: Vec<Row>,
    pub(super) passes: Passes,
}

impl Rows {
    pub(super) fn new(window: Window, rows: Vec<Row>) -> Rows {
        assert_eq!(rows.len(), window.seconds as usize, "a row for each second");
        Rows { window, rows, passes: Passes::default() }
    }

    /// The least and the largest busy fraction of a second.
    pub(super) fn busy_seconds(&self) -> [f64; 2] {
        let busy = || self.rows.iter().map(Row::busy);
        [busy().fold(f64::INFINITY, f64::min), busy().fold(0.0, f64::max)]
    }

    /// All rows in one.
    pub(super) fn sum(&self) -> Row {
        self.rows.iter().fold(Row::default(), Row::plus)
    }

    /// The rate a second of something that was counted `n` times.
    pub(super) fn per_second(&self, n: u64) -> f64 {
        (n as f64 * 100.0 / f64::from(self.window.seconds)).round() / 100.0
    }

    /// The rows in the form of `mpstat`: each with its end in the run's time, and the average.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |time: &str, cells: [&str; 7]| {
            let [cpu, normal, idle_policy, rt, overhead, idle, interrupts] = cells;
            let _ = writeln!(
                text,
                "{time:<8}  {cpu}  {normal:>7}  {idle_policy:>8}  {rt:>5}  {overhead:>5}  {idle:>5}  \
                 {interrupts:>9}"
            );
        };
        line("time", ["CPU", "%normal", "%idlepol", "%rt", "%ovh", "%idle", "intr/s"]);
        let mut row = |time: &str, row: &Row, seconds: u32| {
            let all = row.time().0 as f64;
            let share = |part: Nanos| format!("{:.2}", part.0 as f64 * 100.0 / all);
            let interrupts = format!("{:.2}", row.interrupts as f64 / f64::from(seconds));
            let parts = [row.normal, row.idle_policy, row.rt, row.overhead, row.idle].map(share);
            let [normal, idle_policy, rt, overhead, idle] = &parts;
            line(time, ["all", normal, idle_policy, rt, overhead, idle, &interrupts]);
        };
        for (second, each) in (1..).zip(&self.rows) {
            let end = self.window.from + Nanos(SECOND.0 * second);
            row(&format!("{} s", end.0 / SECOND.0), each, 1);
        }
        row("Average:", &self.sum(), self.window.seconds);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = TaskId(0);

    fn exec() -> What {
        What::Exec { task: TASK, policy: Policy::Idle }
    }

    /// The rows of seconds 1 and 2 of two CPUs, and the task's time in them, after these events at so many
    /// milliseconds.
    fn seen(events: &[(u64, u16, What)]) -> (Rows, Nanos) {
        let window = Window { from: Time::ZERO + SECOND, seconds: 2 };
        let mut mpstat = Mpstat::new(window, 2, 1);
        for &(ms, cpu, what) in events {
            let at = Time::ZERO + Nanos::from_millis(ms);
            mpstat.event(&Event { at, cpu: CpuId(cpu), what });
        }
        let (rows, runtimes) = mpstat.finish();
        (rows, runtimes[0])
    }

    #[test]
    fn what_a_cpu_does_for_long_is_divided_among_the_seconds() {
        let (rows, runtime) = seen(&[(500, 0, exec()), (2_250, 0, What::Overhead)]);
        let ms = Nanos::from_millis;
        let row = |idle_policy, overhead| Row {
            idle_policy: ms(idle_policy),
            overhead: ms(overhead),
            idle: SECOND,
            ..Row::default()
        };
        assert_eq!(rows.rows, [row(1_000, 0), row(250, 750)]);
        assert_eq!((runtime, rows.sum().busy()), (ms(1_250), 0.5));
    }

    #[test]
    fn only_what_happens_in_the_window_is_counted() {
        let tick = What::TimerInterrupt;
        let ticks = [999, 1_000, 1_999, 2_000, 3_000].map(|ms| (ms, 1, tick));
        let (rows, _) = seen(&ticks);
        assert_eq!(rows.rows.iter().map(|row| row.interrupts).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(rows.per_second(rows.sum().interrupts), 1.5);
    }

    #[test]
    fn a_task_migrates_when_it_executes_elsewhere() {
        let idle = What::Idle;
        let (rows, runtime) = seen(&[
            (100, 0, exec()),
            (200, 0, idle),
            (1_000, 1, exec()),
            (1_100, 1, What::Overhead),
            (1_200, 1, exec()),
            (1_300, 1, idle),
            (2_000, 0, exec()),
            (2_500, 0, idle),
        ]);
        assert_eq!(rows.rows.iter().map(|row| row.migrations).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(runtime, Nanos::from_millis(700));
    }

    #[test]
    fn the_rows_are_read_like_mpstats() {
        let (rows, _) = seen(&[(0, 0, exec()), (1_500, 1, What::Overhead), (1_750, 1, What::Idle)]);
        let expected = "\
time      CPU  %normal  %idlepol    %rt   %ovh  %idle     intr/s
2 s       all     0.00     50.00   0.00  12.50  37.50       0.00
3 s       all     0.00     50.00   0.00   0.00  50.00       0.00
Average:  all     0.00     50.00   0.00   6.25  43.75       0.00
";
        assert_eq!(rows.text(), expected);
    }
}
