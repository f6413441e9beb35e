//! A picture of the last moments of a run, from which a person can see why an invariant broke: for each CPU a lane with
//! the executing tasks and the wake-ups, then the last events in words.
//!
//! The host keeps the last events in a ring, and gives them in order of time. The activity of a CPU before its first
//! event among them follows from the task that it switched from or went on with; without such a task, it is left blank.
//! A column shows the activity of the longest single span in its time, so a shorter activity may not show. The events
//! in words have it.

use crate::names::{Names, printable};
use crate::text::wrap;
use crate::units::{count, span};
use runyard_engine::attr::{Cookie, GroupId};
use runyard_engine::balance::{Balanced, Found, IdleKind, Measure};
use runyard_engine::cpu::CpuId;
use runyard_engine::event::{Event, Left, What};
use runyard_engine::task::TaskId;
use runyard_engine::time::Time;
use runyard_engine::topology::Level;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The columns of a lane; with its label it fits into 100 columns.
const LANE: u64 = 90;
/// The columns between two times on the axis.
const AXIS_STEP: u64 = 18;
/// The number of CPUs with a lane; of more, those with the last events.
const LANES: usize = 32;
/// The number of events in words.
const LAST: usize = 24;

const IDLE: char = '.';
const FORCED_IDLE: char = '~';
const OVERHEAD: char = '=';
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// A task without a letter, since none was left.
const OTHER: char = '*';
/// The mark of several wake-ups in one column.
const SEVERAL: char = '+';
const UNKNOWN: char = ' ';

/// Names without characters that move the cursor.
struct Printable<'a>(&'a dyn Names);

impl Names for Printable<'_> {
    fn task(&self, task: TaskId) -> String {
        printable(&self.0.task(task))
    }

    fn group(&self, group: GroupId) -> String {
        printable(&self.0.group(group))
    }

    fn cookie(&self, cookie: Cookie) -> String {
        printable(&self.0.cookie(cookie))
    }
}

/// Draws `events`, which are in order of time, with these `names`. Lines end with a line end.
#[must_use]
pub fn timeline(events: &[Event], names: &dyn Names) -> String {
    let times = || events.iter().map(|event| event.at);
    let (Some(start), Some(end)) = (times().min(), times().max()) else {
        return "no events\n".to_owned();
    };
    let names = &Printable(names);
    // The last column begins after the last event, so that its effect can be seen.
    let column_ns = end.since(start).0 / (LANE - 1) + 1;
    let picture = Picture { start, column_ns, letters: letters(events), events };
    let mut text = picture.axis();
    picture.lanes(&mut text);
    picture.legend(&mut text, names);
    text.push('\n');
    for Event { at, cpu, what } in &events[events.len().saturating_sub(LAST)..] {
        let cpu = cpu.index();
        writeln!(text, "{at}  CPU {cpu:<3} {}", in_words(what, *at, names)).expect(TAKES_ALL);
    }
    text
}

const TAKES_ALL: &str = "a string takes all";

struct Picture<'a> {
    start: Time,
    column_ns: u64,
    letters: BTreeMap<TaskId, char>,
    events: &'a [Event],
}

impl Picture<'_> {
    /// Two lines: times since the first event, and their places on the lanes.
    fn axis(&self) -> String {
        let (mut times, mut marks) = (String::new(), String::new());
        let width = columns(AXIS_STEP);
        for column in (0..LANE).step_by(width) {
            write!(times, "{:<width$}", format!("+{}", span(column * self.column_ns)))
                .expect(TAKES_ALL);
            write!(marks, "{:<width$}", '|').expect(TAKES_ALL);
        }
        let from = format!("from {}, {} a column", self.start, span(self.column_ns));
        format!("{from}\n         {}\n         {}\n", times.trim_end(), marks.trim_end())
    }

    fn lanes(&self, text: &mut String) {
        let mut cpus = BTreeMap::new();
        for (at, event) in self.events.iter().enumerate() {
            cpus.insert(event.cpu, at);
        }
        let mut latest: Vec<_> = cpus.iter().map(|(&cpu, &at)| (at, cpu)).collect();
        latest.sort_unstable_by(|a, b| b.cmp(a));
        let mut drawn: Vec<_> = latest.iter().take(LANES).map(|&(_, cpu)| cpu).collect();
        drawn.sort_unstable();
        for cpu in drawn {
            let label = format!("CPU {cpu}");
            writeln!(text, "{label:<9}{}", self.lane(cpu).trim_end()).expect(TAKES_ALL);
            let woken = self.woken(cpu);
            if !woken.trim_end().is_empty() {
                writeln!(text, "{:>8} {}", "wakes", woken.trim_end()).expect(TAKES_ALL);
            }
        }
        if latest.len() > LANES {
            let rest = count((latest.len() - LANES) as u64);
            writeln!(text, "and {rest} CPUs whose last event is older").expect(TAKES_ALL);
        }
    }

    /// The tasks that executed on `cpu`.
    fn lane(&self, cpu: CpuId) -> String {
        let mut shown = vec![(0, UNKNOWN); columns(LANE)];
        let mut doing = self.before(cpu);
        let mut since = 0;
        for event in self.events_of(cpu) {
            if let Some(next) = self.sign(&event.what) {
                let now = event.at.since(self.start).0;
                self.paint(&mut shown, doing, since..now);
                (doing, since) = (next, now);
            }
        }
        self.paint(&mut shown, doing, since..LANE * self.column_ns);
        shown.into_iter().map(|(_, sign)| sign).collect()
    }

    /// The tasks that were woken on `cpu`.
    fn woken(&self, cpu: CpuId) -> String {
        let mut lane = vec![UNKNOWN; columns(LANE)];
        for event in self.events_of(cpu) {
            if let What::Wake { task, .. } = event.what {
                let place = &mut lane[columns(event.at.since(self.start).0 / self.column_ns)];
                *place = if *place == UNKNOWN { self.letters[&task] } else { SEVERAL };
            }
        }
        lane.into_iter().collect()
    }

    /// The activity of `cpu` before its first event. A decision names the previous task. A CPU that executes or is idle
    /// without a decision continues its activity.
    fn before(&self, cpu: CpuId) -> char {
        let had = |event: &Event| match event.what {
            What::Switch { prev: Some((task, _)), .. } => Some(self.letters[&task]),
            What::Switch { prev: None, .. } => Some(IDLE),
            What::Exec { .. } | What::Idle | What::ForcedIdle { .. } => self.sign(&event.what),
            _ => None,
        };
        self.events_of(cpu).find_map(had).unwrap_or(UNKNOWN)
    }

    fn events_of(&self, cpu: CpuId) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.cpu == cpu)
    }

    /// Puts `sign` into each column of `shown` in which `span`, in nanoseconds since the start, is longer than the
    /// present activity.
    fn paint(&self, shown: &mut [(u64, char)], sign: char, span: std::ops::Range<u64>) {
        let mut from = span.start;
        while from < span.end {
            let column = from / self.column_ns;
            let to = span.end.min((column + 1) * self.column_ns);
            let (longest, sign_shown) = &mut shown[columns(column)];
            if to - from > *longest {
                (*longest, *sign_shown) = (to - from, sign);
            }
            from = to;
        }
    }

    /// The sign of a CPU from this event on; `None` if it does not change.
    fn sign(&self, what: &What) -> Option<char> {
        match what {
            What::Exec { task, .. } => Some(self.letters[task]),
            What::Overhead => Some(OVERHEAD),
            What::Idle => Some(IDLE),
            What::ForcedIdle { .. } => Some(FORCED_IDLE),
            _ => None,
        }
    }

    fn legend(&self, text: &mut String, names: &dyn Names) {
        let mut tasks: Vec<_> = self.letters.iter().collect();
        tasks.retain(|&(_, &letter)| letter != OTHER);
        tasks.sort_by_key(|&(_, &letter)| LETTERS.find(letter));
        let named = |(&task, letter): (&TaskId, &char)| format!("{letter} {}", names.task(task));
        let mut entries: Vec<_> = tasks.into_iter().map(named).collect();
        if self.letters.len() > LETTERS.len() {
            entries.push(format!("{OTHER} another task"));
        }
        entries.push(format!("{OVERHEAD} the scheduler"));
        entries.push(format!("{IDLE} idle"));
        if self.events.iter().any(|event| matches!(event.what, What::ForcedIdle { .. })) {
            entries.push(format!("{FORCED_IDLE} forced idle"));
        }
        wrap(text, &entries, "   ");
    }
}

/// A letter for each task that `events` name on a CPU or in a queue. The task named last gets A, so that the oldest
/// tasks have no letter.
fn letters(events: &[Event]) -> BTreeMap<TaskId, char> {
    let mut letters = BTreeMap::new();
    let mut free = LETTERS.chars();
    for event in events.iter().rev() {
        let (task, other) = match event.what {
            What::Exec { task, .. } | What::Wake { task, .. } => (Some(task), None),
            What::Switch { prev, next } => (prev.map(|(task, _)| task), next),
            _ => (None, None),
        };
        for task in other.into_iter().chain(task) {
            letters.entry(task).or_insert_with(|| free.next().unwrap_or(OTHER));
        }
    }
    letters
}

/// A number of columns, which is never more than [`LANE`].
fn columns(n: u64) -> usize {
    usize::try_from(n).expect("a lane has few columns")
}

fn in_words(what: &What, at: Time, names: &dyn Names) -> String {
    match *what {
        What::Spawn { task } => format!("spawns {}", names.task(task)),
        What::Wake { task, since, by } => {
            let due = match since < at {
                true => format!(", due {} ago", span(at.since(since).0)),
                false => String::new(),
            };
            let by = by.map_or(String::new(), |by| format!(" (by {})", names.task(by)));
            format!("wakes {}{by}{due}", names.task(task))
        }
        What::Switch { prev, next } => {
            let from = match prev {
                None => "idle".to_owned(),
                Some((task, left)) => format!("{} ({})", names.task(task), how(left)),
            };
            format!(
                "switches from {from} to {}",
                next.map_or("idle".to_owned(), |next| names.task(next))
            )
        }
        What::Exec { task, policy } => {
            format!("executes {} ({policy} {})", names.task(task), policy.priority())
        }
        What::Overhead => "works for the scheduler".to_owned(),
        What::Idle => "is idle".to_owned(),
        What::ForcedIdle { cookie } => format!(
            "is forced idle: its core runs tasks {}",
            cookie.map_or("without a cookie".to_owned(), |it| format!(
                "of cookie {}",
                names.cookie(it)
            ))
        ),
        What::TimerInterrupt => "takes a timer interrupt".to_owned(),
        What::TimerArmed => "arms a timer".to_owned(),
        What::TimerExpired { greedy: false } => "runs an expired timer".to_owned(),
        What::TimerExpired { greedy: true } => "runs a timer greedily".to_owned(),
        What::TimerCancelled => "cancels a timer".to_owned(),
        What::Throttled { group } => format!("throttles task group {}", names.group(group)),
        What::Unthrottled { group } => {
            format!("throttles task group {} no more", names.group(group))
        }
        What::Balanced(balanced) => in_words_balanced(balanced),
        What::Changed { task, policy, group, latency_nice } => {
            format!(
                "makes {} {policy} {} of latency nice {} in task group {}",
                names.task(task),
                policy.priority(),
                latency_nice.get(),
                names.group(group)
            )
        }
        What::Moved { task } => format!("is to have {} from another CPU", names.task(task)),
        What::Landed { task } => format!("has {}", names.task(task)),
        What::SwitchDue => "is to switch, and goes on".to_owned(),
        What::PassedOver { task } => {
            format!("keeps who runs, though {} comes before it", names.task(task))
        }
        What::Timeline { change } => format!("sees change {change} of the timeline"),
        What::Arrived { arrivals, refused } => {
            let refused = if refused { ", and refuses it" } else { "" };
            format!("sees a request of arrivals {arrivals}{refused}")
        }
        What::Acts { task } => format!("has {} at its step's effect", names.task(task)),
        What::Late { task, .. } => format!("has {} too late at its timer", names.task(task)),
        What::Step { task, phase, step } => {
            format!("has {} at step {step} of phase {phase}", names.task(task))
        }
    }
}

fn in_words_balanced(Balanced { level, idle_kind, measure, found }: Balanced) -> String {
    let whose = match measure {
        Measure::All => "tasks",
        Measure::Normal => "normal tasks",
        Measure::Idle => "SCHED_IDLE tasks",
    };
    let domain = match level {
        Level::Smt => "core",
        Level::Node => "node",
        Level::Machine => "machine",
    };
    let when = match idle_kind {
        IdleKind::Busy => "",
        IdleKind::Idle => ", being idle",
        IdleKind::NewlyIdle => ", about to be idle",
    };
    let what = match found {
        Found::Balance => "nothing to do".to_owned(),
        Found::Pinned => "none that may run here".to_owned(),
        Found::Nothing => "none that fits".to_owned(),
        Found::Tasks(tasks) => format!("takes {tasks}"),
        Found::Running => "asks for a running one".to_owned(),
    };
    format!("balances {whose} of its {domain}{when}: {what}")
}

fn how(left: Left) -> &'static str {
    match left {
        Left::Preempted => "preempted",
        Left::Yielded => "yielded",
        Left::Blocked => "blocked",
        Left::Exited => "exited",
    }
}
