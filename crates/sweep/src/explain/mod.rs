//! Explanations: why a task waited, or why a token of a chain was slow.
//!
//! The scenario is simulated twice. The first run finds the wait. The second run is the same to the nanosecond; it
//! records that wait part by part, the events around it, and the sums of all waits of the task. For a chain, a run between
//! them finds how long each task of the slowest token waited, and why. The longest of these waits is explained.

mod chain;
mod waited;
mod watch;

use crate::simulated::{self, Named};
use chain::{Hop, Slow};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_report::{
    Explanation, HopReport, Names as _, Report, TaskReport, WokenBy, story, timeline,
};
use runyard_sim::{Options, Outcome};
use runyard_workload::{Scenario, advice};
use serde::Serialize;
use waited::Waited;
use watch::{Watcher, drawn};

/// The subject of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The waits of a task.
    Task {
        /// The name of the task, or of a thread; a thread's name stands for all its instances.
        name: String,
        /// The moment, counted from the beginning of the run, whose nearest wait is explained; without it, the longest
        /// wait is.
        at: Option<Nanos>,
    },
    /// The token of the chain of this name that took longest from the first task to the last.
    Chain(String),
}

/// The explanation of a wait. It serialises to the document that `runyard explain --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    schema: &'static str,
    task: String,
    /// The wait began as the task lost its CPU.
    lost: bool,
    woken_at_ns: u64,
    woken_by: Option<String>,
    /// All waits of the task.
    waited: Waited,
    /// The token that the wait is a part of, if a chain was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<Slow>,
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip)]
    text: String,
}

impl Story {
    /// The explanation as text, as `runyard explain` prints it, with a drawing of the wait. It ends with a line end.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the task that waited. One of several instances has its number.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// The wait of the task, part by part, with the cause of each part.
    #[must_use]
    pub fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// The document that `runyard explain --json` prints, byte for byte.
    ///
    /// # Panics
    /// Never: the document is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("it is plain") + "\n"
    }
}

/// Explains why a task of `scenario` waited in the run of this seed. It calls `stop` now and then, and returns `None`
/// if `stop` returns `true`.
///
/// ```
/// use runyard_sweep::{Question, explain};
/// use runyard_workload::{Overrides, parse};
///
/// let text = r#"{
///     "machine": {"cpus": 1}, "global": {"duration": 1},
///     "tasks": {
///         "boss": {"policy": "SCHED_FIFO", "priority": 9, "run": 3000, "sleep": 7000},
///         "web": {"run": 100, "sleep": 1000},
///     },
/// }"#;
/// let scenario = parse("-", text, &Overrides::default())?.scenario;
/// let question = Question::Task { name: "web".to_owned(), at: None };
/// let story = explain(&scenario, 1, &question, &|| false).unwrap().expect("nobody stops it");
/// assert!(story.text().contains("important: the policy puts first what ran, boss"));
/// assert!(story.to_json().starts_with("{\n  \"schema\": \"runyard.explain/1\",\n  \"task\": \"web\","));
/// # Ok::<(), runyard_workload::Diagnostic>(())
/// ```
///
/// # Errors
/// * Nothing has the given name; the message lists the nearest names.
/// * There is nothing to explain: the task never waited; no token reached the end of the chain; the moment is after the end of
///   the run.
/// * The scenario cannot be simulated.
pub fn explain(
    scenario: &Scenario,
    seed: u64,
    question: &Question,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Story>, Failure> {
    let run = Run { scenario, seed, stop };
    let found = match question {
        Question::Chain(chain) => run.slowest(chain)?.map(|(wait, slow)| (wait, Some(slow))),
        Question::Task { name, at } => run.choose(name, *at)?.map(|wait| (wait, None)),
    };
    let title = match question {
        Question::Chain(_) => "The longest of these waits",
        Question::Task { at: None, .. } => "The longest wait",
        Question::Task { at: Some(_), .. } => "The wait nearest to that moment",
    };
    let Some((wait, slow)) = found else { return Ok(None) };
    let mut told = run.told(wait, (slow, title))?;
    if let (Some(story), Question::Task { name, at }) = (&mut told, question) {
        story.text.insert_str(0, &chosen(scenario, name, (&story.task, at.is_some())));
    }
    Ok(told)
}

/// Says which of a thread's instances is told, if there are several.
fn chosen(scenario: &Scenario, name: &str, (told, has_moment): (&str, bool)) -> String {
    let spec = scenario.tasks.iter().find(|spec| spec.name == name);
    match spec.filter(|spec| spec.instances > 1) {
        None => String::new(),
        Some(spec) => {
            let what =
                if has_moment { "the wait nearest to that moment" } else { "the longest wait" };
            format!("Of the {} instances of {name}, {told} had {what}.\n\n", spec.instances)
        }
    }
}

/// A wait: the task, and the instant from which it could run.
type Wait = (TaskId, Time);

/// The run to be explained.
#[derive(Clone, Copy)]
struct Run<'a> {
    scenario: &'a Scenario,
    seed: u64,
    stop: &'a dyn Fn() -> bool,
}

impl Run<'_> {
    /// Chooses the wait of a task to explain.
    fn choose(self, wanted: &str, at: Option<Nanos>) -> Result<Option<Wait>, Failure> {
        let scenario = self.scenario;
        let at = at.map(|at| Time::ZERO + at);
        let mut first = Watcher::named(scenario, wanted, at);
        let Some(outcome) = self.watched_by(&mut first)? else { return Ok(None) };
        if first.wanted.is_empty() {
            let names: Vec<_> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
            let near = advice(wanted, &names);
            return Err(Failure::input(format_args!(
                "explain: no task is called {wanted:?}{near}"
            )));
        }
        if let Some(at) = at.filter(|&at| at > outcome.end) {
            let end = outcome.end;
            return Err(Failure::input(format_args!("--at {at}: the run ends at {end}")));
        }
        let found = first.found(outcome.end);
        let nobody = || Failure::input(format_args!("explain: {wanted:?} never waited"));
        found.map(Some).ok_or_else(nobody)
    }

    /// The longest wait within the slowest token of a chain, and the token.
    fn slowest(self, chain: &str) -> Result<Option<(Wait, Slow)>, Failure> {
        let mut first = Watcher::following(self.scenario);
        let Some(outcome) = self.watched_by(&mut first)? else { return Ok(None) };
        let name = |task: TaskId| outcome.tasks[task.index()].name.clone();
        let reports = first.chains.map_or_else(Vec::new, |chains| chains.reports(name));
        let Some(report) = reports.iter().find(|report| report.name == chain) else {
            let names: Vec<_> = reports.iter().map(|report| report.name.as_str()).collect();
            let near = advice(chain, &names);
            return Err(Failure::input(format_args!(
                "explain: no chain is called {chain:?}{near}"
            )));
        };
        let Some(slow) = report.worst.first() else {
            let what = format!("explain: nothing came to the end of the chain {chain:?}");
            return Err(Failure::Input(what));
        };
        let numbers = |name: &str| outcome.tasks.iter().position(|task| task.name == name);
        let hop = |(hop, end): (&HopReport, u64)| {
            Some(Hop::new(TaskId(numbers(&hop.task)? as u64), Time(hop.at_ns), Time(end)))
        };
        let mut second = Watcher::new(self.scenario);
        second.hops = slow.hops_with_ends().filter_map(hop).collect();
        let spans = slow.hops_with_ends().zip(&second.hops);
        let spans: Vec<_> = spans.map(|((_, end), hop)| (hop.task, hop.at..Time(end))).collect();
        spans.into_iter().for_each(|(task, span)| second.accounts.tell(task, span));
        let Some(outcome) = self.watched_by(&mut second)? else { return Ok(None) };
        let Watcher { accounts, hops, .. } = second;
        let totals = accounts.finish(outcome.end);
        let names = Named { scenario: self.scenario, outcome: &outcome };
        let slow = Slow::new(chain, slow, &hops, |hop| totals.told(hop, &names));
        let waits = hops.iter().filter_map(|hop| Some((hop.stay.longest?, hop.task)));
        let longest = waits.rev().max_by_key(|((time, _), _)| *time);
        let nobody = || Failure::input(format_args!("explain: nobody waited in {chain:?}"));
        let ((_, since), task) = longest.ok_or_else(nobody)?;
        Ok(Some(((task, since), slow)))
    }

    /// Explains a wait, which is a part of `slow`.
    fn told(
        self,
        wait: Wait,
        (slow, title): (Option<Slow>, &str),
    ) -> Result<Option<Story>, Failure> {
        let mut second = Watcher::of(self.scenario, wait);
        let Some(outcome) = self.watched_by(&mut second)? else { return Ok(None) };
        let Watcher { accounts, begun, events, .. } = second;
        let totals = accounts.finish(outcome.end);
        let names = Named { scenario: self.scenario, outcome: &outcome };
        let (Some(explanation), Some(begun)) = (totals.explanation(&names), begun) else {
            unreachable!("a wait that was found begins again")
        };
        let (task, by) = (names.task(wait.0), totals.told(0, &names));
        let woken_by = begun.by.map(|by| names.task(by));
        let by_whom = match &woken_by {
            _ if begun.lost => WokenBy::Lost,
            Some(by) => WokenBy::Task(by.clone()),
            None if begun.is_start => WokenBy::Start,
            None => begun.request.map_or(WokenBy::Timer, |nth| {
                WokenBy::Request(self.scenario.arrivals[nth as usize].name.clone())
            }),
        };
        let drawing = timeline(&drawn(&events, &explanation), &names);
        let report = Report::new(simulated::info(self.scenario, outcome, None), &totals);
        let waited = Waited::new(&report.tasks[wait.0.index()], by);
        let sums = match &slow {
            Some(slow) => slow.text(),
            None => waited.text(&task, |group| users(&report, group)),
        };
        let sentences = story(&task, &explanation, &by_whom, begun.woken);
        Ok(Some(Story {
            schema: "runyard.explain/1",
            task,
            lost: begun.lost,
            woken_at_ns: begun.woken.0,
            woken_by,
            waited,
            chain: slow,
            text: format!("{sums}\n{title}:\n\n{sentences}\n{drawing}"),
            explanation,
        }))
    }

    /// Simulates the scenario to its end; `None` if it was stopped.
    fn watched_by(self, watcher: &mut Watcher<'_>) -> Result<Option<Outcome>, Failure> {
        let options = Options { seed: self.seed, explain: true, ..Options::default() };
        simulated::outcome(self.scenario, options, watcher, self.stop).map_err(Failure::Input)
    }
}

/// The tasks in a group and in those below it that ran, those that ran longest first.
fn users<'r>(report: &'r Report, group: &str) -> Vec<(&'r str, u64)> {
    let below = format!("{group}/");
    let is_below = |task: &&TaskReport| task.group == group || task.group.starts_with(&below);
    let tasks = report.tasks.iter().filter(is_below);
    let mut ran: Vec<_> =
        tasks.map(|task| (task.name.as_str(), task.runtime_ns.unwrap_or(0))).collect();
    ran.retain(|&(_, ns)| ns > 0);
    ran.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
    ran
}
