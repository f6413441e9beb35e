//! rt-app's log: a row for each round of a phase, with the requested and the measured times.
//!
//! A host that writes the log reports each step of a task to the task's [`Log`], and receives a [`Row`] at the end of a
//! round. The columns and their meaning are rt-app's, so that the scripts of its users read both. The figures are kept
//! in nanoseconds and rounded once.
//!
//! A step lasts until the task reaches the next one. As in rt-app, a round that the end of the run cuts off has no row.
//! A round that the task itself ends by `exit`, which rt-app does not have, has one.

use crate::cursor::{Next, Period, Place};
use crate::scenario::{Scenario, Step};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use std::fmt;

/// The first line of a log.
pub const HEADER: &str = "#idx     perf      run   period           start             end          \
                          rel_st      slack c_duration   c_period     wu_lat";

/// A round of a phase. Displays as a line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The task.
    pub task: TaskId,
    /// The duration of its `run` and `runtime` events, preemptions included.
    pub run: Nanos,
    /// The begin of the round.
    pub start: Time,
    /// The end of the round.
    pub end: Time,
    /// The time from the arrival at its timer to the begin of the timer's next period, in nanoseconds. It is negative
    /// if the period had begun.
    pub slack: i64,
    /// The requested duration of its `run` and `runtime` events.
    pub asked_run: Nanos,
    /// The sum of its timers' periods.
    pub asked_period: Nanos,
    /// The wake-up delay of its timers, since the last one that was missed.
    pub wakeup_latency: Nanos,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { task, run, start, end, asked_run, asked_period, wakeup_latency, .. } = self;
        let [start_us, end_us] = [start.since(Time::ZERO), end.since(Time::ZERO)].map(micros);
        let [run, period] = [*run, end.since(*start)].map(micros);
        let [c_duration, c_period, wu_lat] =
            [*asked_run, *asked_period, *wakeup_latency].map(micros);
        let slack = (self.slack + self.slack.signum() * 500) / 1_000;
        // `perf`, the number of calibrated loops, is 0 here, and the run began at 0.
        write!(
            f,
            "{:4} {:8} {run:8} {period:8} {start_us:15} {end_us:15} {start_us:15} {slack:10} \
             {c_duration:10} {c_period:10} {wu_lat:10}",
            task.0, 0
        )
    }
}

/// Returns microseconds, rounded as in rt-app.
fn micros(span: Nanos) -> u64 {
    (span.0 + 500) / 1_000
}

/// The log of the round that a task is in.
#[derive(Clone, Debug)]
pub struct Log {
    cumulative_slack: bool,
    /// The time at which the task reached its step.
    now: Time,
    /// The kind of that step, if it has a column.
    at: At,
    round: Option<Row>,
    task: TaskId,
}

/// A step that ends with the next one.
#[derive(Clone, Copy, Debug)]
enum At {
    Other,
    Run,
    /// A timer that was to wake the task at this time.
    Timer(Time),
}

impl Log {
    /// Returns the log of a task of `scenario` that has not begun.
    #[must_use]
    pub fn new(task: TaskId, scenario: &Scenario) -> Log {
        let cumulative_slack = scenario.log.cumulative_slack;
        Log { cumulative_slack, now: Time::ZERO, at: At::Other, round: None, task }
    }

    /// Records that the task reaches the `next` part of its program, at `place`. Returns the row of the round that this
    /// ends, if it ends one.
    pub fn comes_to(&mut self, next: &Next<'_>, place: Place, now: Time) -> Option<Row> {
        self.leave_step(now);
        let leaves = matches!(next, Next::Step(Step::Exit) | Next::Phase(_) | Next::End);
        let begins = place.step == 1 && !leaves;
        let ended = if leaves || begins { self.end() } else { None };
        if begins {
            self.begin();
        }
        ended
    }

    /// Records that the step is a `run` or a `runtime` of `span`.
    pub fn run(&mut self, span: Nanos) {
        self.at = At::Run;
        if let Some(round) = &mut self.round {
            round.asked_run += span;
        }
    }

    /// Records that the step is a timer. The task waits for its `period` if that is not missed.
    pub fn timer(&mut self, span: Nanos, period: Period) {
        let Some(round) = &mut self.round else { return };
        round.asked_period += span;
        let slack = period.due.0.cast_signed().wrapping_sub(self.now.0.cast_signed());
        round.slack = if self.cumulative_slack { round.slack + slack } else { slack };
        if period.missed {
            round.wakeup_latency = Nanos::ZERO;
        } else {
            self.at = At::Timer(period.due);
        }
    }

    fn leave_step(&mut self, now: Time) {
        let since = std::mem::replace(&mut self.now, now);
        let at = std::mem::replace(&mut self.at, At::Other);
        let Some(round) = &mut self.round else { return };
        match at {
            At::Other => {}
            At::Run => round.run += now.since(since),
            At::Timer(due) => round.wakeup_latency += now.since(due.min(now)),
        }
    }

    fn begin(&mut self) {
        self.round = Some(Row {
            task: self.task,
            run: Nanos::ZERO,
            start: self.now,
            end: self.now,
            slack: 0,
            asked_run: Nanos::ZERO,
            asked_period: Nanos::ZERO,
            wakeup_latency: Nanos::ZERO,
        });
    }

    /// Ends the current round of the task.
    fn end(&mut self) -> Option<Row> {
        let round = self.round.take()?;
        Some(Row { end: self.now, ..round })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rt_apps_columns_in_microseconds() {
        let row = Row {
            task: TaskId(7),
            run: Nanos(1_499),
            start: Time(2_500),
            end: Time(10_002_499),
            slack: -1_500,
            asked_run: Nanos(1_000),
            asked_period: Nanos(9_000_000),
            wakeup_latency: Nanos(500),
        };
        let line = "   7        0        1    10000               3           10002               3         \
                    -2          1       9000          1";
        assert_eq!(row.to_string(), line);
        assert_eq!(row.to_string().len(), HEADER.len());
        assert_eq!(Row { slack: 1_499, ..row }.to_string(), line.replace("-2", " 1"));
    }
}
