//! Explanations: why a task was late, or why a token of a chain was slow.
//!
//! The scenario is simulated twice. The first run finds the wake-up. The second run is the same to the nanosecond; it
//! records that wake-up part by part, and the events around it. For a chain, a run between them finds how long each
//! task of the slowest token waited. The longest of these waits is explained.

mod chain;
mod watch;

use crate::simulated;
use chain::{Hop, Slow};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::Failure;
use runyard_report::{Explanation, HopReport, Report, WokenBy, story, timeline};
use runyard_sim::{Options, Outcome};
use runyard_workload::{Scenario, advice};
use serde::Serialize;
use watch::Watcher;

/// The subject of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A wake-up of a task.
    Task {
        /// The name of the task, or of a thread; a thread's name stands for all its instances.
        name: String,
        /// The moment, counted from the beginning of the run, whose nearest wake-up is explained; without it, the
        /// wake-up with the longest wait is explained.
        at: Option<Nanos>,
    },
    /// The token of the chain of this name that took longest from the first task to the last.
    Chain(String),
}

/// The explanation of a wake-up. It serialises to the document that `runyard explain --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    schema: &'static str,
    task: String,
    woken_at_ns: u64,
    woken_by: Option<String>,
    /// The token that the wake-up is a part of, if a chain was asked for.
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

/// Explains why a task of `scenario` was late in the run of this seed. It calls `stop` now and then, and returns `None`
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
/// assert!(story.text().contains("CPU 0 ran boss, which comes first"));
/// assert!(story.to_json().starts_with("{\n  \"schema\": \"runyard.explain/1\",\n  \"task\": \"web\","));
/// # Ok::<(), runyard_workload::Diagnostic>(())
/// ```
///
/// # Errors
/// * Nothing has the given name; the message lists the nearest names.
/// * There is nothing to explain: the task was never woken, or still waited at the end; no token reached the end of the
///   chain; the moment is after the end of the run.
/// * The scenario cannot be simulated.
pub fn explain(
    scenario: &Scenario,
    seed: u64,
    question: &Question,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Story>, Failure> {
    let run = Run { scenario, seed, stop };
    let found = match question {
        Question::Chain(chain) => run.slowest(chain)?.map(|(wakeup, slow)| (wakeup, Some(slow))),
        Question::Task { name, at } => run.choose(name, *at)?.map(|wakeup| (wakeup, None)),
    };
    match found {
        Some((wakeup, slow)) => run.told(wakeup, slow),
        None => Ok(None),
    }
}

/// A wake-up: the task, and the instant from which it could run.
type Wakeup = (TaskId, Time);

/// The run to be explained.
#[derive(Clone, Copy)]
struct Run<'a> {
    scenario: &'a Scenario,
    seed: u64,
    stop: &'a dyn Fn() -> bool,
}

impl Run<'_> {
    /// Chooses the wake-up of a task to explain.
    fn choose(self, wanted: &str, at: Option<Nanos>) -> Result<Option<Wakeup>, Failure> {
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
        let found = match at {
            Some(_) => first.nearest.map(|(_, task, since)| (task, since)),
            None => longest(first, outcome),
        };
        let nobody = || Failure::input(format_args!("explain: {wanted:?} was never woken"));
        found.map(Some).ok_or_else(nobody)
    }

    /// The longest wait within the slowest token of a chain, and the token.
    fn slowest(self, chain: &str) -> Result<Option<(Wakeup, Slow)>, Failure> {
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
        let Some(_) = self.watched_by(&mut second)? else { return Ok(None) };
        let longest = second.hops.iter().rev().max_by_key(|hop| hop.wait());
        let longest = longest.expect("a token has tasks");
        Ok(Some(((longest.task, longest.at), Slow::new(chain, slow, &second.hops))))
    }

    /// Explains a wake-up, which is a part of `slow`.
    fn told(self, wakeup: Wakeup, slow: Option<Slow>) -> Result<Option<Story>, Failure> {
        let mut second = Watcher::of(self.scenario, wakeup);
        let Some(outcome) = self.watched_by(&mut second)? else { return Ok(None) };
        let name = |task: TaskId| outcome.tasks[task.index()].name.clone();
        let task = name(wakeup.0);
        let Some(explanation) = second.accounts.explanation(&name) else {
            let what = format!("explain: {task} still waited when the run ended");
            return Err(Failure::Input(what));
        };
        let Some((woken, by)) = second.woken else { unreachable!("who waited was woken") };
        let woken_by = by.map(name);
        let by = match &woken_by {
            Some(by) => WokenBy::Task(by.clone()),
            None if second.is_start => WokenBy::Start,
            None => WokenBy::Timer,
        };
        let events = second.drawn(&explanation);
        let before = slow
            .as_ref()
            .map(|slow| slow.text() + "\nThe longest wait for a CPU after a wake-up:\n\n");
        let before = before.unwrap_or_default();
        let sentences = story(&task, &explanation, &by, woken);
        Ok(Some(Story {
            schema: "runyard.explain/1",
            task,
            woken_at_ns: woken.0,
            woken_by,
            chain: slow,
            text: format!("{before}{sentences}\n{}", timeline(&events, &name)),
            explanation,
        }))
    }

    /// Simulates the scenario to its end; `None` if it was stopped.
    fn watched_by(self, watcher: &mut Watcher<'_>) -> Result<Option<Outcome>, Failure> {
        let options = Options { seed: self.seed, explain: true, ..Options::default() };
        simulated::outcome(self.scenario, options, watcher, self.stop).map_err(Failure::Input)
    }
}

/// The wake-up with the longest wait among those of the watched tasks.
fn longest(first: Watcher<'_>, outcome: Outcome) -> Option<Wakeup> {
    let Watcher { scenario, accounts, wanted, .. } = first;
    let totals = accounts.finish(outcome.end);
    let report = Report::new(simulated::info(scenario, outcome, None), &totals);
    let worst = (0..).map(TaskId).zip(&report.tasks).filter(|(id, _)| wanted.contains(id));
    let worst = worst.filter_map(|(id, task)| Some((task.worst.first()?, id)));
    let longest = worst.max_by_key(|(worst, id)| (worst.latency_ns, std::cmp::Reverse(*id)));
    longest.map(|(worst, id)| (id, Time(worst.at_ns)))
}
