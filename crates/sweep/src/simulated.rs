//! One simulation, from a scenario to its report.

use runyard_engine::attr::{Cookie, GroupId};
use runyard_engine::event::Event;
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_outcome::scenario;
use runyard_report::{
    Chains, Collector, Histogram, Kept, Names, Report, RunInfo, Stretches, TaskInfo, Timed, Totals,
    Violation,
};
use runyard_sim::{Check, Limited, Observer, Options, Outcome, Sim};
use runyard_workload::Scenario;
use runyard_workload::log::Row;
use runyard_workload::scenario::{SpecId, TaskAttr};
use std::iter;
use std::ops::Range;

/// The number of simulated events between two calls of `stop`.
const EVENTS_BETWEEN_LOOKS: u32 = 1 << 14;

/// The amount of detail that is kept of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The figures, without a history and without the worst wake-ups.
    Figures,
    /// Everything that a report has.
    Report,
    /// Everything that a page shows.
    Page,
}

impl Detail {
    /// Whether it is more than the figures.
    fn is_whole(self) -> bool {
        self != Detail::Figures
    }
}

/// How a scenario is run, and what is kept of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// The seed of all random draws.
    pub seed: u64,
    /// The detail of the report.
    pub detail: Detail,
    /// The invariants to verify. The report lists the violations.
    pub check: Check,
    /// Whether to keep all events, as for a trace.
    pub events: bool,
    /// Whether to keep the rows of rt-app's log.
    pub log: bool,
}

impl How {
    /// A run in this detail that is not checked, and of which neither events nor rows are kept.
    #[must_use]
    pub fn new(seed: u64, detail: Detail) -> How {
        How { seed, detail, check: Check::No, events: false, log: false }
    }
}

/// The names of the tasks, task groups and cookies of a run.
///
/// ```
/// use runyard_engine::task::TaskId;
/// use runyard_report::Names;
/// use runyard_sim::{Options, Sim};
/// use runyard_workload::{Overrides, parse};
///
/// let text = r#"{"tasks": {"web": {"loop": 1, "run": 10}}}"#;
/// let scenario = parse("-", text, &Overrides::default())?.scenario;
/// let outcome = Sim::new(&scenario, Options::default(), |_: &_| {}).unwrap().run();
/// let names = runyard_sweep::Named { scenario: &scenario, outcome: &outcome };
/// assert_eq!(names.task(TaskId(0)), "web");
/// # Ok::<(), runyard_workload::Diagnostic>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The scenario that ran.
    pub scenario: &'a Scenario,
    /// The result of the run.
    pub outcome: &'a Outcome,
}

impl Names for Named<'_> {
    fn task(&self, task: TaskId) -> String {
        self.outcome.tasks[task.index()].name.clone()
    }

    fn group(&self, group: GroupId) -> String {
        self.scenario.groups[group.index()].path.clone()
    }

    fn cookie(&self, cookie: Cookie) -> String {
        self.scenario.cookie_name(cookie).to_owned()
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Whole {
    /// Its report; the wall time is zero.
    pub report: Report,
    /// The data of a page's timeline, if a page is asked for.
    pub stretches: Option<Stretches>,
    /// The time at which the run ended.
    pub end: Time,
    /// All events, if they are kept, and what a trace needs besides.
    pub events: Option<(Kept, RunInfo)>,
    /// The rows of rt-app's log, if they are kept.
    pub rows: Vec<Row>,
    /// The accounts of the report.
    totals: Totals,
    chains: Option<Chains>,
}

impl Whole {
    /// The latency that the part `millionths` of the latencies do not exceed: of the wake-ups of a thread with all its
    /// instances, or of one instance, or of a chain. Zero gives the shortest latency, and a million the longest. The outer `None` is
    /// for a name that the run does not have, the inner one for no latency.
    ///
    /// # Panics
    /// If `millionths` is above a million.
    #[must_use]
    pub fn quantile(&self, name: &str, millionths: u32) -> Option<Option<Nanos>> {
        let of_task = self.wakeup_latencies(name, None);
        let latencies = of_task.or_else(|| self.chain_latencies(name, None))?;
        Some(if millionths == 0 { latencies.min() } else { latencies.quantile(millionths) })
    }

    /// The wake-up latencies of all instances of a thread, or else of the instance of this name; of a span of the run, if
    /// one is given that was kept. `None` if there is no such task.
    pub(crate) fn wakeup_latencies(
        &self,
        name: &str,
        span: Option<&Range<Time>>,
    ) -> Option<Histogram> {
        let tasks = || (0..).map(TaskId).zip(&self.report.tasks);
        let of_thread = tasks().filter(|(_, task)| task.thread == name);
        let alone = || tasks().find(|(_, task)| task.name == name);
        let mut tasks = of_thread.map(|(id, _)| id).peekable();
        let first = tasks.next().or_else(|| Some(alone()?.0))?;
        let mut all = Histogram::default();
        for task in iter::once(first).chain(tasks) {
            let latencies = match span {
                Some(span) => self.totals.wakeups_within(task, span),
                None => self.totals.task(task).map(|did| &did.wakeup_latency),
            };
            latencies.into_iter().for_each(|latencies| all.merge(latencies));
        }
        Some(all)
    }

    /// The same of the chain of this name.
    pub(crate) fn chain_latencies(
        &self,
        name: &str,
        span: Option<&Range<Time>>,
    ) -> Option<Histogram> {
        self.chains.as_ref()?.latencies(name, span).cloned()
    }
}

/// The report of a run of `scenario` under the name `name`. The function calls `stop` now and then, and returns `None`
/// if `stop` returns `true`. The report's wall time is zero.
///
/// # Errors
/// The reason why the scenario cannot be simulated.
pub fn report(
    scenario: (&str, &Scenario),
    seed: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Report>, String> {
    Ok(whole(scenario, How::new(seed, Detail::Figures), stop)?.map(|run| run.report))
}

/// Runs `scenario` under the name `name`. It calls `stop` now and then, and returns `None` if
/// `stop` returns `true`.
///
/// # Errors
/// The reason why the scenario cannot be simulated.
pub fn whole(
    scenario: (&str, &Scenario),
    how: How,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Whole>, String> {
    run(scenario, how, &[], stop)
}

/// The same with the figures only, from which metrics of these spans of the run are made.
pub(crate) fn measured(
    scenario: (&str, &Scenario),
    (seed, spans): (u64, &[Range<Time>]),
    stop: &dyn Fn() -> bool,
) -> Result<Option<Whole>, String> {
    run(scenario, How::new(seed, Detail::Figures), spans, stop)
}

fn run(
    (name, scenario): (&str, &Scenario),
    how: How,
    spans: &[Range<Time>],
    stop: &dyn Fn() -> bool,
) -> Result<Option<Whole>, String> {
    let How { seed, check, log, .. } = how;
    let chains = scenario::chains(scenario).map(|chains| chains.with_spans(spans));
    let mut recorder = Recorder {
        scenario,
        accounts: collector(scenario, how.detail).with_spans(spans),
        chains: if how.detail.is_whole() { chains.map(Chains::with_series) } else { chains },
        events: how.events.then(Kept::default),
        rows: Vec::new(),
    };
    let options = Options { seed, check, log, explain: true, ..Options::default() };
    let Some(outcome) = outcome(scenario, options, &mut recorder, stop)? else { return Ok(None) };
    let end = outcome.end;
    reaches(scenario, end)?;
    let Recorder { accounts, chains, events, rows, .. } = recorder;
    let mut info = info(scenario, outcome, chains.as_ref());
    let totals = accounts.finish(end);
    if check != Check::No {
        info.violations.extend(Violation::of_waits(&totals, end));
    }
    let info = RunInfo { scenario: name.to_owned(), seed, wall: Nanos::ZERO, ..info };
    let stretches = Stretches::new(&totals, &info.tasks, info.cpus);
    let events = events.map(|events| (events, info.clone()));
    let report = Report::new(info, &totals);
    Ok(Some(Whole { report, stretches, end, events, rows, totals, chains }))
}

/// The collector of the events of a run.
fn collector(scenario: &Scenario, detail: Detail) -> Collector {
    let accounts = match detail {
        Detail::Figures => Collector::default(),
        Detail::Report => Collector::with_history(),
        Detail::Page => Collector::with_timeline(),
    };
    let machine = scenario::explained(scenario);
    let accounts = match detail.is_whole() {
        true => {
            let (threads, groups) = scenario::names(scenario);
            let tasks = scenario.instances().count();
            accounts.with_causes(tasks, machine.clone()).with_series(threads, groups)
        }
        false => accounts,
    };
    accounts.with_waits(machine).with_pressure(&scenario::parents(scenario))
}

/// Checks that a run that ended at `end` reached the part that counts.
///
/// # Errors
/// The reason why there is no report, if it did not.
pub fn reaches(scenario: &Scenario, end: Time) -> Result<(), String> {
    match Time::ZERO + scenario.from {
        Time::ZERO => Ok(()),
        from if from < end => Ok(()),
        from => Err(format!("the run ended at {end}, and its report was to begin at {from}")),
    }
}

/// Simulates `scenario` to its end under `observer`. It calls `stop` now and then, and returns `None` if `stop` returns
/// `true`.
pub(crate) fn outcome(
    scenario: &Scenario,
    options: Options,
    observer: impl Observer,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Outcome>, String> {
    let mut sim = Sim::new(scenario, options, observer).map_err(|error| error.to_string())?;
    while (0..EVENTS_BETWEEN_LOOKS).all(|_| sim.step()) {
        if stop() {
            return Ok(None);
        }
    }
    Ok(Some(sim.outcome()))
}

/// The records of a run.
struct Recorder<'s> {
    scenario: &'s Scenario,
    accounts: Collector,
    chains: Option<Chains>,
    /// All events, if they are kept.
    events: Option<Kept>,
    /// The rows of rt-app's log.
    rows: Vec<Row>,
}

impl Observer for &mut Recorder<'_> {
    #[inline]
    fn event(&mut self, event: &Event) {
        self.accounts.event(event);
        if let Some(chains) = &mut self.chains {
            chains.event(event);
        }
        if let Some(events) = &mut self.events {
            events.push(event);
        }
    }

    fn counts_from(&mut self, at: Time) {
        self.accounts.count_from(at);
        self.chains.iter_mut().for_each(|chains| chains.count_from(at));
    }

    fn asks(&mut self, task: TaskId, thread: SpecId, attr: &TaskAttr) {
        if let Some(chains) = &mut self.chains {
            chains.runs(task, thread.0);
        }
        self.accounts.runs(task, thread.0);
        let cookie = self.scenario.cookie_of(attr.cookie, attr.group);
        self.accounts.asks(task, attr, attr.effective_slack(), cookie);
    }

    fn row(&mut self, row: &Row) {
        self.rows.push(row.clone());
    }
}

/// The simulator's facts about a run that are in no event.
#[must_use]
pub fn info(scenario: &Scenario, outcome: Outcome, chains: Option<&Chains>) -> RunInfo {
    let task_name = |task: TaskId| outcome.tasks[task.index()].name.clone();
    let chain_series = chains.map_or_else(Vec::new, |chains| chains.series(outcome.end));
    let chains = chains.map_or_else(Vec::new, |chains| chains.reports(task_name));
    let usage = |group| {
        let limited: Limited = outcome.limits.get(&group).cloned().unwrap_or_default();
        Some((limited.usage, limited.on))
    };
    let groups = scenario::groups(scenario, usage);
    let tasks = outcome.tasks.into_iter().enumerate().map(|(id, task)| TaskInfo {
        id: TaskId(id as u64),
        name: task.name,
        thread: task.thread,
        policy: task.policy,
        latency_nice: task.latency_nice.get().into(),
        group: task.group,
        cookie: task.cookie,
        missed: Some(task.missed),
        slack: task.slack,
    });
    let violations = outcome.violations.into_iter().map(|violation| Violation {
        invariant: violation.invariant.to_owned(),
        at: violation.at,
        what: violation.what,
    });
    let changes = scenario
        .timeline
        .iter()
        .map(|it| Timed { at: Time::ZERO + it.at, change: scenario.in_words(&it.change) });
    RunInfo {
        host: "sim".to_owned(),
        kernel: Some(scenario.model.to_string()),
        features: scenario::feature_names(&scenario.features),
        cpus: scenario.machine.topology.cpus(),
        topology: Some(scenario.machine.topology),
        tasks: tasks.collect(),
        groups,
        cookies: scenario.cookies.clone(),
        changes: changes.collect(),
        violations: violations.collect(),
        chains,
        chain_series,
        blocked_at_end: scenario::blocked(outcome.left),
        ..RunInfo::default()
    }
}
