//! `runyard sim`: a scenario in virtual time.

use crate::exit::Done;
use crate::log::Log;
use crate::options::HostOptions;
use crate::outputs::{Ended, Outputs, tell_what_is_left};
use crate::record::Recorder;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runyard_engine::attr::{Cookie, GroupId};
use runyard_engine::task::TaskId;
use runyard_engine::time::{Nanos, Time};
use runyard_hosts::stderr::say;
use runyard_hosts::{Failure, scenario};
use runyard_report::{Checks, RunInfo, TaskInfo, Violation};
use runyard_sim::{Check, Limited, Options, Outcome, Sim};
use runyard_workload::Scenario;
use std::time::{Duration, Instant};

/// The arguments of `runyard sim`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostOptions,
    /// Verify the invariants: after every event those of what it touched, all now and then and at the end;
    /// with `full` all of them after every event
    #[arg(long, value_enum, value_name = "full", num_args = 0..=1, require_equals = true,
          default_missing_value = "touched", hide_possible_values = true)]
    check: Option<CheckOf>,
}

/// Which invariants are verified after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckOf {
    /// Those of all that it touched.
    Touched,
    /// All.
    Full,
}

/// How many events are simulated between two looks at the clock on the wall.
const EVENTS_BETWEEN_LOOKS: u32 = 1 << 14;

/// A run that is over sooner than this shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &Arguments) -> Result<Done, Failure> {
    let parsed = arguments.host.read()?;
    let scenario = &parsed.scenario;
    let host = &arguments.host;
    let check = match arguments.check {
        None => Check::No,
        Some(CheckOf::Touched) => Check::Touched,
        Some(CheckOf::Full) => Check::Full,
    };
    let is_checked = check != Check::No;
    let outputs = Outputs::open(host)?;
    let log = host.log.is_some();
    let options = Options { seed: host.seed, check, log, ..Options::default() };
    let started = Instant::now();
    let mut recorder = Recorder::new(outputs.collector(), outputs.kept(), is_checked);
    let outcome = simulate(scenario, options, &mut recorder)?;
    let wall = Nanos(started.elapsed().as_nanos() as u64);
    if let Some(picture) = recorder.picture(&Names { scenario, outcome: &outcome }) {
        say(picture);
    }
    let Recorder { accounts, kept, rows, .. } = recorder;
    let (end, totals) = (outcome.end, accounts.finish(outcome.end));
    let broken = !outcome.violations.is_empty();
    tell_what_is_left(&outcome.left);
    let info = RunInfo { scenario: host.name(), seed: host.seed, wall, ..info(scenario, outcome) };
    let checks = if is_checked { Checks::Done } else { Checks::NotDone };
    let shown = outputs.finish(Ended { info, totals, end, kept }, checks, Log::new(scenario, rows));
    match shown {
        Err(Failure::Refused(what)) if broken => {
            say(what);
            Ok(Done::Broken)
        }
        Ok(()) if broken => Ok(Done::Broken),
        shown => shown.map(|()| Done::Well),
    }
}

/// What a picture calls the tasks and the groups of a run.
struct Names<'a> {
    scenario: &'a Scenario,
    outcome: &'a Outcome,
}

impl runyard_report::Names for Names<'_> {
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

/// What came of a scenario.
fn simulate(
    scenario: &Scenario,
    options: Options,
    recorder: &mut Recorder,
) -> Result<Outcome, Failure> {
    let mut sim = Sim::new(scenario, options, recorder).map_err(Failure::input)?;
    let mut progress = Progress::new(scenario.duration);
    while (0..EVENTS_BETWEEN_LOOKS).all(|_| sim.step()) {
        progress.look(sim.now());
    }
    Ok(sim.outcome())
}

/// What the simulator knows besides the events.
pub(crate) fn info(scenario: &Scenario, outcome: Outcome) -> RunInfo {
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
    });
    let violations = outcome.violations.into_iter().map(|violation| Violation {
        invariant: violation.invariant.to_owned(),
        at: violation.at,
        what: violation.what,
    });
    RunInfo {
        host: "sim".to_owned(),
        kernel: Some(scenario.model.to_string()),
        features: scenario::feature_names(&scenario.features),
        cpus: scenario.machine.topology.cpus(),
        tasks: tasks.collect(),
        groups,
        cookies: scenario.cookies.clone(),
        violations: violations.collect(),
        ..RunInfo::default()
    }
}

/// A bar on standard error for runs that take long, if that is a terminal.
struct Progress {
    duration: Option<Nanos>,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new(duration: Option<Nanos>) -> Progress {
        Progress { duration, started: Instant::now(), bar: None }
    }

    fn look(&mut self, now: Time) {
        if self.bar.is_none() && self.started.elapsed() > PATIENCE {
            self.bar = Some(Progress::bar(self.duration));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(now.0 / 1_000_000);
        }
    }

    fn bar(duration: Option<Nanos>) -> ProgressBar {
        let millis = duration.map(|duration| duration.0 / 1_000_000);
        let bar = ProgressBar::with_draw_target(millis, ProgressDrawTarget::stderr());
        let style = match millis {
            Some(_) => "{wide_bar} {pos} of {len} ms simulated, {eta} left",
            None => "{spinner} {pos} ms simulated in {elapsed}",
        };
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
