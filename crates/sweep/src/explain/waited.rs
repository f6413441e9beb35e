//! What a task did in a part of the run, and who made it wait.

use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_report::{BlameReport, Cause, CauseTimes, TaskReport, span};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

/// The number of tasks that are named as those who caused a wait, or used a budget.
const NAMED: usize = 3;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It does not live, or its CPU does not execute it.
    Other,
    Runs(CpuId),
    Sleeps,
    Waits,
}

/// The time of one task in a part of the run.
#[derive(Debug)]
pub(super) struct Stay {
    task: TaskId,
    within: Range<Time>,
    state: State,
    since: Time,
    pub(super) ran: Nanos,
    pub(super) slept: Nanos,
    interrupted: Nanos,
    /// The first wait, if it began as the part did.
    first: Option<Nanos>,
    /// The longest wait that reaches into the part: its time there, and its beginning.
    pub(super) longest: Option<(Nanos, Time)>,
}

impl Stay {
    pub(super) fn new(task: TaskId, within: Range<Time>) -> Stay {
        Stay {
            task,
            within,
            state: State::Other,
            since: Time::ZERO,
            ran: Nanos::ZERO,
            slept: Nanos::ZERO,
            interrupted: Nanos::ZERO,
            first: None,
            longest: None,
        }
    }

    /// Takes the next event of the run.
    pub(super) fn event(&mut self, event: &Event) {
        let turns = matches!(
            event.what,
            What::Exec { .. } | What::Overhead | What::Idle | What::ForcedIdle { .. }
        );
        if turns && self.state == State::Runs(event.cpu) {
            self.turn_to(State::Other, event.at);
        }
        match event.what {
            What::Exec { task, .. } if task == self.task => {
                self.turn_to(State::Runs(event.cpu), event.at);
            }
            What::Wake { task, since, .. } if task == self.task && self.state != State::Waits => {
                self.turn_to(State::Waits, since);
            }
            What::Switch { prev: Some((task, left)), next } if task == self.task => match left {
                Left::Blocked | Left::Exited => self.turn_to(State::Sleeps, event.at),
                Left::Preempted | Left::Yielded if next == Some(task) => {}
                Left::Preempted | Left::Yielded if self.state == State::Waits => {}
                Left::Preempted | Left::Yielded => self.turn_to(State::Waits, event.at),
            },
            _ => {}
        }
    }

    fn turn_to(&mut self, state: State, at: Time) {
        let (from, to) = (self.since.max(self.within.start), at.min(self.within.end));
        let span = if from < to { to.since(from) } else { Nanos::ZERO };
        match self.state {
            State::Other => self.interrupted += span,
            State::Runs(_) => self.ran += span,
            State::Sleeps => self.slept += span,
            State::Waits => {
                if self.since == self.within.start {
                    self.first = self.first.or(Some(span));
                }
                let longest = self.longest.get_or_insert((span, self.since));
                *longest = (*longest).max((span, self.since));
            }
        }
        (self.state, self.since) = (state, at);
    }

    /// The time until the task ran, if it began to wait as the part began.
    pub(super) fn first_wait(&self) -> Nanos {
        self.first.unwrap_or(Nanos::ZERO)
    }

    /// The waits by cause, of which those in the run queues are told.
    pub(super) fn waits(&self, told: &[BlameReport]) -> CauseTimes {
        let mut waits = CauseTimes::default();
        told.iter().for_each(|it| waits[it.cause] += it.ns);
        waits[Cause::Cost] += self.interrupted.0;
        waits
    }
}

/// Those who made a task wait for one reason.
pub(super) struct Blames<'a> {
    cause: Cause,
    tasks: Vec<(&'a str, u64)>,
    group: Option<&'a str>,
}

impl<'a> Blames<'a> {
    pub(super) fn of(cause: Cause, all: impl Iterator<Item = &'a BlameReport>) -> Blames<'a> {
        let (mut tasks, mut group) = (BTreeMap::new(), None);
        for it in all.filter(|it| it.cause == cause) {
            if let Some(task) = &it.task {
                *tasks.entry(task.as_str()).or_default() += it.ns;
            }
            group = group.or(it.group.as_deref());
        }
        Blames { cause, tasks: longest_first(tasks), group }
    }

    /// The reason in words. `used` has the tasks that used the group's budget.
    pub(super) fn in_words(&self, used: &[(&str, u64)]) -> String {
        let name = self.cause.entry().name;
        match (self.group, self.tasks.is_empty()) {
            (Some(group), _) if used.is_empty() => format!("{name}: {group}'s budget was used up"),
            (Some(group), _) => format!("{name}: {group}'s budget was used up, by {}", named(used)),
            (None, true) => format!("{name}: {}", self.cause.entry().phrase),
            (None, false) => {
                format!("{name}: {}, {}", self.cause.entry().phrase, named(&self.tasks))
            }
        }
    }
}

fn longest_first(times: BTreeMap<&str, u64>) -> Vec<(&str, u64)> {
    let mut all: Vec<_> = times.into_iter().collect();
    all.sort_by_key(|&(name, ns)| (std::cmp::Reverse(ns), name));
    all
}

/// The first tasks with their times, and the number of others.
fn named(tasks: &[(&str, u64)]) -> String {
    let first = tasks.iter().take(NAMED).map(|(name, ns)| format!("{name} {}", span(*ns)));
    let first: Vec<_> = first.collect();
    match tasks.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        others => format!("{} and {others} more", first.join(", ")),
    }
}

/// All waits of a task in a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Waited {
    pub(super) runtime_ns: u64,
    pub(super) sleep_ns: u64,
    pub(super) wait_ns: u64,
    /// By cause.
    pub(super) waits: CauseTimes,
    /// By cause and by those who caused them, as far as that is not forgotten.
    pub(super) by: Vec<BlameReport>,
}

impl Waited {
    pub(super) fn new(task: &TaskReport, by: Vec<BlameReport>) -> Waited {
        let [runtime_ns, sleep_ns, wait_ns] =
            [task.runtime_ns, task.sleep_ns, task.wait_ns].map(|it| it.unwrap_or(0));
        Waited { runtime_ns, sleep_ns, wait_ns, waits: task.waits.unwrap_or_default(), by }
    }

    /// The waits as lines of text. `used` gives the tasks that used the budget of a group.
    pub(super) fn text<'u>(
        &self,
        task: &str,
        used: impl Fn(&str) -> Vec<(&'u str, u64)>,
    ) -> String {
        let [wait, ran, slept] = [self.wait_ns, self.runtime_ns, self.sleep_ns].map(span);
        let mut text = format!("{task} waited {wait}, ran {ran} and slept {slept}.");
        if self.wait_ns > 0 {
            write!(text, " It waited for:").expect("a string takes all");
        }
        text.push_str("\n\n");
        for (cause, ns) in self.waits.longest() {
            let blames = Blames::of(cause, self.by.iter());
            let used = blames.group.map(&used).unwrap_or_default();
            let part = 100.0 * ns as f64 / self.wait_ns as f64;
            let (time, words) = (span(ns), blames.in_words(&used));
            writeln!(text, "  {time:>8}  {part:>5.1} %  {words}").expect("a string takes all");
        }
        text
    }
}
