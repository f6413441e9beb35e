//! The use of the CPUs, from the stream of events alone: by tasks, and over all CPUs in each period, as `mpstat` shows
//! it for each second.
//!
//! Only one stretch of the run counts, the *window*. A CPU's time is booked when the CPU turns to something else, and
//! then divided among the periods that it spans. So nothing has to happen at the end of a period. Events of real CPUs
//! may arrive slightly out of order when one worker follows another; the clock of a CPU then stands still.

use runyard_engine::attr::Policy;
use runyard_engine::balance::{Balanced, Found};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::live::EventSink;
use runyard_report::table;
use std::ops::Range;

pub(crate) const SECOND: Nanos = Nanos::from_secs(1);

/// The counted stretch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Time,
    pub(crate) end: Time,
}

impl Window {
    /// The whole run, of any length.
    pub(crate) const ALL: Window = Window { from: Time::ZERO, end: Time(u64::MAX) };

    /// So many seconds after `from`.
    pub(crate) const fn of_seconds(from: Nanos, seconds: u32) -> Window {
        Window { from: Time(from.0), end: Time(from.0 + SECOND.0 * seconds as u64) }
    }

    fn contains(self, at: Time) -> bool {
        (self.from..self.end).contains(&at)
    }
}

/// The use of all CPUs in a period, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The time of each kind, in the order of [`KINDS`].
    time: [Nanos; KINDS.len()],
    /// The number of timer interrupts.
    pub(crate) interrupts: u64,
    /// The number of times that a task first executed on another CPU than before.
    pub(crate) migrations: u64,
    /// The number of times that a CPU stopped being idle.
    pub(crate) idle_exits: u64,
}

/// The kinds of a CPU's time, as columns: first those of tasks, by their policies.
const KINDS: [&str; 5] = ["%normal", "%idlepol", "%rt", "%ovh", "%idle"];
const NORMAL: usize = 0;
const IDLE_POLICY: usize = 1;
const RT: usize = 2;
const OVERHEAD: usize = 3;
const IDLE: usize = 4;

impl Row {
    /// The time of the tasks.
    fn executed(&self) -> Nanos {
        sum(&self.time[..OVERHEAD])
    }

    /// The fraction of the CPU time that was not idle.
    pub(crate) fn busy(&self) -> f64 {
        let all = sum(&self.time);
        (all - self.time[IDLE]).0 as f64 / all.0 as f64
    }

    fn plus(self, other: &Row) -> Row {
        Row {
            time: std::array::from_fn(|kind| self.time[kind] + other.time[kind]),
            interrupts: self.interrupts + other.interrupts,
            migrations: self.migrations + other.migrations,
            idle_exits: self.idle_exits + other.idle_exits,
        }
    }
}

fn sum(spans: &[Nanos]) -> Nanos {
    Nanos(spans.iter().map(|span| span.0).sum())
}

/// The present state of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Idle,
    /// It is idle because of the cookie of its core.
    Forced,
    Overhead,
    Exec(TaskId, Policy),
}

impl Doing {
    /// The kind of time that this is.
    fn kind(self) -> usize {
        match self {
            Doing::Idle | Doing::Forced => IDLE,
            Doing::Overhead => OVERHEAD,
            Doing::Exec(_, Policy::Fifo(_) | Policy::RoundRobin(_)) => RT,
            Doing::Exec(_, Policy::Normal(_) | Policy::Batch(_)) => NORMAL,
            Doing::Exec(_, Policy::Idle) => IDLE_POLICY,
        }
    }
}

/// The counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// The counted time of each CPU.
    span: Nanos,
    /// The periods of the window.
    pub(crate) rows: Vec<Row>,
    /// The time that cookies forced CPUs to be idle, over all CPUs.
    pub(crate) forced: Nanos,
    /// The accounts of the tasks, by [`TaskId`]. A task that never executed may have none.
    pub(crate) tasks: Vec<Account>,
    /// The number of times that a task group was throttled on a CPU.
    pub(crate) throttled: u64,
    /// The number of times that a task lost its CPU to another one, and that a task blocked.
    pub(crate) preempted: u64,
    pub(crate) slept: u64,
    /// Passes of the balancer over the whole run that found an imbalance, and no task that fits it.
    pub(crate) failed_passes: u64,
    /// Running tasks that were moved after failed passes (active balance).
    pub(crate) taken: u64,
}

/// The account of a task in the window, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) runtime: Nanos,
    /// The number of times that it first executed on another CPU than before.
    pub(crate) migrations: u64,
    /// The number of wake-ups by timers, and of those that only the greedy walk made.
    pub(crate) timers: u64,
    pub(crate) greedy: u64,
}

/// Observes a run.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    window: Window,
    period: Nanos,
    /// The state of each CPU, and the instant at which it began.
    cpus: Vec<(Doing, Time)>,
    /// The last CPU of each task.
    last: Vec<Option<CpuId>>,
    /// Set when a timer has just expired, to whether the greedy walk ran it. The wake-up that follows names the task.
    expired: Option<bool>,
    used: Used,
}

impl Usage {
    /// For a machine with so many CPUs. The first period begins with the window.
    pub(crate) fn new(window: Window, period: Nanos, cpus: usize) -> Usage {
        let cpus = vec![(Doing::Idle, Time::ZERO); cpus];
        Usage { window, period, cpus, last: Vec::new(), expired: None, used: Used::default() }
    }

    /// The counts so far. At a step of a task its account is complete.
    pub(crate) fn used(&self) -> &Used {
        &self.used
    }

    /// Ends the run, and returns the counts.
    ///
    /// # Panics
    /// If a CPU had no state at some moment of a period that is over.
    pub(crate) fn finish(&mut self, end: Time) -> Used {
        for cpu in 0..self.cpus.len() {
            self.turn(CpuId::at(cpu), Doing::Idle, end);
        }
        let period = Nanos(self.period.0 * self.cpus.len() as u64);
        self.used.span = end.min(self.window.end).since(self.window.from);
        let over = self.used.span.0 / self.period.0;
        let mut over = self.used.rows.iter().take(over as usize);
        assert!(over.all(|row| sum(&row.time) == period), "a row is a period of each CPU");
        std::mem::take(&mut self.used)
    }

    /// Changes the state of a CPU.
    fn turn(&mut self, cpu: CpuId, doing: Doing, at: Time) {
        let at = at.max(self.cpus[cpu.index()].1);
        let (done, since) = std::mem::replace(&mut self.cpus[cpu.index()], (doing, at));
        let (mut from, end) = (since.max(self.window.from), at.min(self.window.end));
        while from < end {
            let rest = Nanos(self.period.0 - from.since(self.window.from).0 % self.period.0);
            let span = rest.min(end.since(from));
            self.row(from).time[done.kind()] += span;
            match done {
                Doing::Forced => self.used.forced += span,
                Doing::Exec(task, _) => self.account(task).runtime += span,
                Doing::Idle | Doing::Overhead => {}
            }
            from = from + span;
        }
        if done.kind() == IDLE && doing.kind() != IDLE {
            self.count(at, |row| row.idle_exits += 1);
        }
        if let Doing::Exec(task, _) = doing {
            let last = place(&mut self.last, task.index()).replace(cpu);
            if last.is_some_and(|last| last != cpu) && self.window.contains(at) {
                self.row(at).migrations += 1;
                self.account(task).migrations += 1;
            }
        }
    }

    /// The row of an instant of the window.
    fn row(&mut self, at: Time) -> &mut Row {
        place(&mut self.used.rows, (at.since(self.window.from).0 / self.period.0) as usize)
    }

    fn account(&mut self, task: TaskId) -> &mut Account {
        place(&mut self.used.tasks, task.index())
    }

    fn count(&mut self, at: Time, count: impl FnOnce(&mut Row)) {
        if self.window.contains(at) {
            count(self.row(at));
        }
    }

    /// Notes a wake-up by the timer that expired.
    fn woken(&mut self, task: TaskId, counts: bool) {
        if let Some(greedy) = self.expired.take().filter(|_| counts) {
            let account = self.account(task);
            account.timers += 1;
            account.greedy += u64::from(greedy);
        }
    }
}

fn place<T: Clone + Default>(all: &mut Vec<T>, at: usize) -> &mut T {
    if all.len() <= at {
        all.resize(at + 1, T::default());
    }
    &mut all[at]
}

impl EventSink for Usage {
    fn event(&mut self, &Event { at, cpu, what }: &Event) {
        let counts = self.window.contains(at);
        match what {
            What::Exec { task, policy } => self.turn(cpu, Doing::Exec(task, policy), at),
            What::Step { .. } => self.turn(cpu, self.cpus[cpu.index()].0, at),
            What::Overhead => self.turn(cpu, Doing::Overhead, at),
            What::Idle => self.turn(cpu, Doing::Idle, at),
            What::ForcedIdle { .. } => self.turn(cpu, Doing::Forced, at),
            What::TimerExpired { greedy } => self.expired = Some(greedy),
            What::Wake { task, by: None, .. } => self.woken(task, counts),
            What::TimerInterrupt => self.count(at, |row| row.interrupts += 1),
            What::Switch { prev: Some((prev, Left::Preempted)), next } if counts => {
                self.used.preempted += u64::from(next != Some(prev));
            }
            What::Switch { prev: Some((_, Left::Blocked)), .. } if counts => self.used.slept += 1,
            What::Throttled { .. } if counts => self.used.throttled += 1,
            What::Balanced(Balanced { found: Found::Nothing, .. }) => self.used.failed_passes += 1,
            What::Balanced(Balanced { found: Found::Running, .. }) => self.used.taken += 1,
            _ => {}
        }
    }
}

impl Used {
    /// The counted time of each CPU.
    pub(crate) fn span(&self) -> Nanos {
        self.span
    }

    /// The counts of a stretch in which tasks executed for so long.
    #[cfg(test)]
    pub(crate) fn of_tasks<const N: usize>(span: Nanos, runtimes: [Nanos; N]) -> Used {
        let account = |runtime| Account { runtime, ..Account::default() };
        Used { span, tasks: runtimes.map(account).to_vec(), ..Used::default() }
    }

    /// The time of all tasks.
    pub(crate) fn total(&self) -> Nanos {
        self.of(0..usize::MAX)
    }

    /// The time of the tasks with these numbers.
    pub(crate) fn of(&self, tasks: Range<usize>) -> Nanos {
        self.account(tasks).runtime
    }

    /// The time of this task.
    pub(crate) fn of_task(&self, task: TaskId) -> Nanos {
        self.of(task.index()..task.index() + 1)
    }

    /// The time of the tasks with these numbers, as a number of CPUs.
    pub(crate) fn cpus(&self, tasks: Range<usize>) -> f64 {
        self.of(tasks).0 as f64 / self.span.0 as f64
    }

    /// The accounts of the tasks with these numbers, in one.
    pub(crate) fn account(&self, tasks: Range<usize>) -> Account {
        let known = |at: usize| at.min(self.tasks.len());
        let each = self.tasks[known(tasks.start)..known(tasks.end)].iter();
        each.fold(Account::default(), |sum, one| Account {
            runtime: sum.runtime + one.runtime,
            migrations: sum.migrations + one.migrations,
            timers: sum.timers + one.timers,
            greedy: sum.greedy + one.greedy,
        })
    }

    /// The largest time of tasks in one period.
    pub(crate) fn most(&self) -> Nanos {
        self.rows.iter().map(Row::executed).max().unwrap_or_default()
    }

    /// The least and the largest busy fraction of a period.
    pub(crate) fn busy_rows(&self) -> [f64; 2] {
        let busy = || self.rows.iter().map(Row::busy);
        [busy().fold(f64::INFINITY, f64::min), busy().fold(0.0, f64::max)]
    }

    /// All rows in one.
    pub(crate) fn sum(&self) -> Row {
        self.rows.iter().fold(Row::default(), Row::plus)
    }

    /// The rate a second of something that was counted `n` times, where rows are seconds.
    pub(crate) fn per_second(&self, n: u64) -> f64 {
        (n as f64 * 100.0 / self.rows.len() as f64).round() / 100.0
    }

    /// The rows of a window that begins at `from` in the form of `mpstat`, where they are seconds: each with its end in
    /// the run's time, and the average.
    pub(crate) fn text(&self, from: Time) -> String {
        let mut text = table(&[&["time", "CPU"], &KINDS[..], &["intr/s"]].concat(), 2);
        let mut add = |time: String, row: &Row, seconds: usize| {
            let all = sum(&row.time).0 as f64;
            let shares = row.time.map(|span| format!("{:.2}", span.0 as f64 * 100.0 / all));
            let interrupts = format!("{:.2}", row.interrupts as f64 / seconds as f64);
            text.add_row([time, "all".to_owned()].into_iter().chain(shares).chain([interrupts]));
        };
        for (second, row) in (1..).zip(&self.rows) {
            add(format!("{} s", from.0 / SECOND.0 + second), row, 1);
        }
        add("Average:".to_owned(), &self.sum(), self.rows.len());
        text.trim_fmt() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runyard_engine::attr::{GroupId, Nice};

    fn exec(task: u64) -> What {
        What::Exec { task: TaskId(task), policy: Policy::Idle }
    }

    /// The use of two CPUs in seconds 1 and 2, after these events at so many milliseconds.
    fn seen(events: &[(u64, u16, What)]) -> Used {
        let window = Window::of_seconds(SECOND, 2);
        let mut usage = Usage::new(window, SECOND, 2);
        for &(ms, cpu, what) in events {
            let at = Time::ZERO + Nanos::from_millis(ms);
            EventSink::event(&mut usage, &Event { at, cpu: CpuId(cpu), what });
        }
        usage.finish(window.end)
    }

    #[test]
    fn what_a_cpu_does_for_long_is_divided_among_the_periods_and_charged_to_its_task() {
        let normal = What::Exec { task: TaskId(1), policy: Policy::Normal(Nice::ZERO) };
        let used = seen(&[(500, 0, exec(0)), (2_250, 0, normal), (2_400, 0, What::Overhead)]);
        let times = [[0, 1_000, 0, 0, 1_000], [150, 250, 0, 600, 1_000]];
        let times = times.map(|spans| spans.map(Nanos::from_millis));
        assert_eq!([0, 1].map(|at: usize| used.rows[at].time), times);
        let spans = [0..1, 1..2, 2..9].map(|tasks| used.of(tasks).0 / 1_000_000);
        assert_eq!((spans, used.cpus(0..1)), ([1_250, 150, 0], 0.625));
        assert_eq!((used.most(), used.sum().busy()), (SECOND, 0.5));
    }

    #[test]
    fn only_what_happens_in_the_window_is_counted() {
        let throttled = What::Throttled { group: GroupId(1) };
        let at = |what| [999, 1_000, 1_999, 2_000, 3_000].map(|ms| (ms, 1, what));
        let used = seen(&at(What::TimerInterrupt));
        assert_eq!(used.rows.iter().map(|row| row.interrupts).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(used.per_second(used.sum().interrupts), 1.5);
        assert_eq!(seen(&at(throttled)).throttled, 3);
    }

    #[test]
    fn a_task_migrates_when_it_executes_elsewhere() {
        let used = seen(&[
            (100, 0, exec(0)),
            (200, 0, What::Idle),
            (1_000, 1, exec(0)),
            (1_100, 1, What::Overhead),
            (1_200, 1, exec(0)),
            (1_300, 1, What::Idle),
            (2_000, 0, exec(0)),
            (2_500, 0, What::Idle),
        ]);
        assert_eq!(used.rows.iter().map(|row| row.migrations).collect::<Vec<_>>(), [1, 1]);
        assert_eq!((used.account(0..1).migrations, used.total().0), (2, 700_000_000));
    }

    #[test]
    fn a_wake_up_is_a_timers_if_one_has_just_expired() {
        let wake = |task| What::Wake { task: TaskId(task), since: Time::ZERO, by: None };
        let expired = |greedy| What::TimerExpired { greedy };
        // The first is before the window, and the last is a wake-up by another task.
        let used = seen(&[
            (999, 0, expired(false)),
            (999, 0, wake(0)),
            (1_100, 0, expired(false)),
            (1_100, 0, wake(0)),
            (1_200, 0, expired(true)),
            (1_200, 0, wake(1)),
            (1_300, 0, wake(1)),
        ]);
        let counts = [0..1, 1..2].map(|task| used.account(task)).map(|it| (it.timers, it.greedy));
        assert_eq!(counts, [(1, 0), (1, 1)]);
    }

    #[test]
    fn the_rows_are_read_like_mpstats() {
        let used = seen(&[(0, 0, exec(0)), (1_500, 1, What::Overhead), (1_750, 1, What::Idle)]);
        let expected = "\
time      CPU  %normal  %idlepol   %rt   %ovh  %idle  intr/s
2 s       all     0.00     50.00  0.00  12.50  37.50    0.00
3 s       all     0.00     50.00  0.00   0.00  50.00    0.00
Average:  all     0.00     50.00  0.00   6.25  43.75    0.00
";
        assert_eq!(used.text(Time::ZERO + SECOND), expected);
    }
}
